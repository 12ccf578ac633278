# SPDX-License-Identifier: Apache-2.0
"""The files of a scene's folder, written and read without pycolmap.

Every file is written beside its name and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._files import zips
from .._files.folder import OutFolder
from .._files.manifest import REPORT
from .._files.plain import opened, read_bytes
from .._files.whole import replacing, short_name
from .._output.export import write_points
from .._output.page import write as write_page
from .._results.results import Transform
from .._results.windows import transform_of
from .._store.store import hashes
from ..errors import ArgumentError, FileError, quoted
from . import colmap_files, glb
from .album import Album, plan
from .dense import DepthMap, RayMap
from .gauge import Scale
from .model import CAMERA_MODELS, F64, Lens, Model
from .parts import Component, Picture, is_twin

if TYPE_CHECKING:
    from .scene import Scene

__all__ = [
    "FORMATS",
    "SECTION",
    "from_opengl",
    "key_of",
    "load",
    "opengl",
    "targets",
    "write",
    "write_failure",
    "write_into",
]

SCHEMA = 1
SECTION = "scene"  # of the list of what was written
FAILED = "failed.json"
MAX_DENSE = 5_000_000
MAX_GLB = 500_000

# nerfstudio's world: z up. Ours: y down.
_UP = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])


def write(
    scene: Scene,
    folder: Path,
    formats: Sequence[str] | None = None,
    max_dense: int = MAX_DENSE,
    *,
    copy_images: bool = False,
    keep_gps: bool = False,
) -> list[Path]:
    """Write ``formats`` of :data:`FORMATS` (all when left out) into ``folder``. See :meth:`.Scene.write`."""
    _chosen(formats, max_dense)
    with OutFolder(folder, SECTION, "Scene.write") as out:
        return write_into(
            scene, out, formats, max_dense, copy_images=copy_images, keep_gps=keep_gps,
            add=out.earlier().key == key_of(scene),
        )  # fmt: skip


def write_into(
    scene: Scene,
    out: OutFolder,
    formats: Sequence[str] | None = None,
    max_dense: int = MAX_DENSE,
    *,
    copy_images: bool = False,
    keep_gps: bool = False,
    add: bool = False,
    album: Album | None = None,
) -> list[Path]:
    """Write a scene into a folder that is held; with ``add``, beside what is there of the same scene.

    ``album`` is what was planned before the work.
    """
    chosen = _chosen(formats, max_dense)
    placed = [p.name for p in _shown(scene)]
    if album is None:
        album = plan({p.name: p.path for p in scene.pictures.values()}, out)
    images = "images" in chosen
    out.claim([*targets(list(scene.pictures), chosen), *(album.targets(placed) if images else ())])
    names = {name: album.file(name) for name in scene.pictures}
    if images:
        album.write(out, placed, copy_images, keep_gps)
    for name in chosen:
        if name == "ply":
            _write_ply(scene, out.stage, names, max_dense)
        elif name == "npz":
            _npz(out.stage / "scene.npz", _arrays(scene, out.path, names))
        elif name == "html":
            write_page(out.stage / "scene.html", scene.page(out.path.name))
        elif name in WRITERS:
            WRITERS[name](scene, out.stage, names)
    out.finish(
        scene.report, key=key_of(scene), made_from=hashes(p.path for p in scene.pictures.values()), add=add
    )
    return sorted(out.given / name for name in out.written())


def write_failure(out: OutFolder, report: Mapping[str, Any]) -> Path:
    """Write why there is no scene, and where: a good scene of before keeps its report."""
    earlier = out.earlier()
    if earlier.files:
        _json(out.stage / FAILED, report)
        out.finish(key=earlier.key, add=True)
        return out.path / FAILED
    out.finish(report)
    return out.path / REPORT


def _chosen(formats: Sequence[str] | None, max_dense: int) -> list[str]:
    if max_dense < 1:
        raise ArgumentError(f"max_dense {max_dense}, want at least 1 point")
    chosen = list(FORMATS) if formats is None else list(formats)
    unknown = [name for name in chosen if name not in FORMATS]
    if unknown:
        raise ArgumentError(f"formats {', '.join(unknown)}: want some of {', '.join(FORMATS)}")
    return chosen


def targets(names: Sequence[str], formats: Sequence[str] | None = None) -> list[str]:
    """The names that a scene of these pictures writes, without ``images/``: to be claimed before the work."""
    model = [f"sparse/0/{file}.bin" for file in colmap_files.FILES]
    text = [f"sparse/0/text/{file}.txt" for file in colmap_files.FILES]
    by_format = {
        "npz": ["scene.npz"],
        "dense": [f"dense/{file}" for file in _depth_names(names).values()],
        "colmap": [*model, *text],
        "transforms": ["transforms.json", "sparse_up.ply"],
        "ply": ["sparse.ply", "dense.ply"],
        "glb": ["scene.glb"],
        "html": ["scene.html"],
    }
    chosen = FORMATS if formats is None else formats
    return [target for name in chosen for target in by_format.get(name, ())]


def _shown(scene: Scene) -> list[Picture]:
    """The placed pictures without copies of one that is placed."""
    return [p for p in scene.placed if not is_twin(p)]


def _json(path: Path, values: object) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def _write_colmap(scene: Scene, folder: Path, files: Mapping[str, str]) -> None:
    names = list(files.values())
    for k, component in enumerate(scene.components):
        place = folder / "sparse" / str(k)
        colmap_files.write_binary(place, names, component.model)
        colmap_files.write_text(place / "text", names, component.model)


def opengl(pose: F64) -> F64:
    """World from camera with OpenGL's axes (y up, z back) in nerfstudio's world (z up)."""
    return np.asarray(_UP @ pose @ np.diag([1.0, -1, -1, 1]))


def from_opengl(pose: F64, applied_back: F64 | None = None) -> F64:
    """The inverse of :func:`opengl`; ``applied_back`` undoes another turn of the world than ours."""
    back = np.linalg.inv(_UP) if applied_back is None else applied_back
    return np.asarray(back @ pose @ np.diag([1.0, -1, -1, 1]))


def _write_transforms(scene: Scene, folder: Path, files: Mapping[str, str]) -> None:
    """nerfstudio's file, of the largest component. Pixels there have their corners at whole numbers."""
    pictures = [p for p in _shown(scene) if p.component == 0]
    if not pictures:
        return
    lenses = [p.lens for p in pictures]
    frames = []
    for p in pictures:
        assert p.pose is not None and p.lens is not None
        frame: dict[str, Any] = {
            "file_path": f"images/{files[p.name]}", "transform_matrix": opengl(p.pose).tolist(),
        }  # fmt: skip
        if len(set(lenses)) > 1:
            frame |= _lens_values(p.lens)
        frames.append(frame)
    first = lenses[0]
    assert first is not None
    values: dict[str, Any] = {"camera_model": "OPENCV"}
    if len(set(lenses)) == 1:
        values |= _lens_values(first)
    # What was done to a point of sparse.ply to bring it into this file's world.
    values["applied_transform"] = _UP[:3].tolist()
    points: npt.NDArray[np.floating] = scene.points.xyz
    colours, kind = scene.points.rgb, "sparse"
    if not len(points):  # a network's cameras: there are dense points alone
        cloud = scene.dense_points(0, MAX_GLB)
        points, colours, kind = cloud.points, cloud.colours, "dense"
    if len(points):
        values["ply_file_path"] = f"{kind}_up.ply"
        write_points(folder / f"{kind}_up.ply", points @ _UP[:3, :3].T, colours)
    _json(folder / "transforms.json", {**values, "frames": frames})


def _lens_values(lens: Lens) -> dict[str, float]:
    n = lens.named()
    return {
        "fl_x": n["fx"], "fl_y": n["fy"], "cx": n["cx"] + 0.5, "cy": n["cy"] + 0.5, "w": lens.width,
        "h": lens.height, "k1": n["k1"], "k2": n["k2"], "p1": n["p1"], "p2": n["p2"],
    }  # fmt: skip


def _write_ply(scene: Scene, folder: Path, _: Mapping[str, str], max_dense: int = MAX_DENSE) -> None:
    points = scene.points if scene.components else ()
    if len(points):
        write_points(folder / "sparse.ply", scene.points.xyz, scene.points.rgb)
    cloud = scene.dense_points(0, max_dense)
    if len(cloud.points):
        write_points(folder / "dense.ply", cloud.points, cloud.colours)


def _write_glb(scene: Scene, folder: Path, _: Mapping[str, str]) -> None:
    cloud = scene.dense_points(0, MAX_GLB)
    points, colours = cloud.points, cloud.colours
    if not len(points) and scene.components:
        points, colours = scene.points.xyz, scene.points.rgb
    if len(points):
        pictures = [p for p in scene.placed if p.component == 0]
        glb.write(folder / "scene.glb", points, colours, pictures)


def key_of(scene: Scene) -> str:
    """What the scene is, as a hash: its cameras, points and depth, wherever its pictures lie."""
    digest = hashlib.sha256()
    for name, value in _arrays(scene).items():
        array = np.asarray(value)
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    for p in scene.pictures.values():
        if p.depth is not None:
            digest.update(np.ascontiguousarray(p.depth.depth).tobytes())
            digest.update(np.ascontiguousarray(p.depth.keep).tobytes())
    return digest.hexdigest()[:32]


def _arrays(
    scene: Scene, folder: Path | None = None, files: Mapping[str, str] | None = None
) -> dict[str, npt.ArrayLike]:
    """The arrays of ``scene.npz``; without a folder, those that do not depend on where it lies.

    ``files`` are the pictures' names below ``images/``, ``paths`` are relative to the folder, and
    ``absolute`` what they were.
    """
    pictures = list(scene.pictures.values())
    n = len(pictures)
    poses, k = np.full((n, 4, 4), np.nan), np.full((n, 3, 3), np.nan)
    params = np.full((n, 8), np.nan)
    covariance = np.full((n, 6, 6), np.nan)
    for row, p in enumerate(pictures):
        if p.pose is None or p.lens is None:
            continue
        poses[row], k[row] = p.pose, p.lens.matrix()
        params[row, : len(p.lens.params)] = p.lens.params
        if p.covariance is not None:
            covariance[row] = p.covariance
    arrays: dict[str, npt.ArrayLike] = {
        "schema": SCHEMA,
        "names": np.array([p.name for p in pictures]),
        "sizes": np.array([(p.width, p.height) for p in pictures]).reshape(-1, 2),
        "world_from_camera": poses,
        "K": k,
        "camera_model": np.array([p.lens.model if p.lens else "" for p in pictures]),
        "camera_params": params,
        "covariance": covariance,
        "status": np.array([p.status for p in pictures]),
        "reason": np.array([p.reason for p in pictures]),
        "component": np.array([p.component for p in pictures]),
        "observations": np.array([p.observations for p in pictures]),
        "reprojection": np.array([p.reprojection for p in pictures]),
        "scale": np.array([scene.scale.value, scene.scale.spread, scene.scale.pictures]),
        "scale_source": scene.scale.source,
        "components": len(scene.components),
    }
    for c, component in enumerate(scene.components):
        m, tag = component.model, "" if c == 0 else f"_{c}"
        order = np.argsort(m.seen, kind="stable")
        arrays |= {
            f"points{tag}": m.points,
            f"rgb{tag}": m.colours,
            # of point i: pictures and pixels [offsets[i] : offsets[i + 1]]
            f"track_offsets{tag}": np.concatenate([[0], np.cumsum(m.track_lengths())]),
            f"track_pictures{tag}": m.seen_by[order],
            f"track_pixels{tag}": m.seen_at[order],
            f"mapper{tag}": m.mapper,
            f"unstable{tag}": component.unstable,
        }
    if folder is not None:
        arrays |= {
            "key": key_of(scene),
            "files": np.array([(files or {}).get(p.name, "") for p in pictures]),
            "paths": np.array([_relative(p.path, folder) for p in pictures]),
            "absolute": np.array([os.path.abspath(p.path) for p in pictures]),
        }
    return arrays


def _relative(path: Path, folder: Path) -> str:
    try:
        return os.path.relpath(os.path.abspath(path), folder).replace(os.sep, "/")
    except ValueError:  # another drive
        return ""


def _npz(path: Path, arrays: dict[str, npt.ArrayLike]) -> None:
    # numpy gives every member of the archive the same date: equal arrays are equal bytes.
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _depth_names(names: Iterable[str]) -> dict[str, str]:
    """File names for pictures' names, which may hold folders.

    Names that differ in capital letters alone are one file on some systems: all but the first get a
    number.
    """
    out: dict[str, str] = {}
    taken: dict[str, int] = {}
    for name in names:
        file = name.replace("%", "%25").replace("/", "%2F").replace("\\", "%5C")
        key = unicodedata.normalize("NFC", file).casefold()
        taken[key] = number = taken.get(key, 0) + 1
        out[name] = short_name(file if number == 1 else f"{file}%{number}", ".npz")
    return out


def _write_dense(scene: Scene, folder: Path, _: Mapping[str, str]) -> None:
    pictures = [p for p in scene.pictures.values() if p.depth is not None]
    (folder / "dense").mkdir(exist_ok=True)
    files = _depth_names(scene.pictures)
    key = key_of(scene)
    for p in pictures:
        depth = p.depth
        assert depth is not None
        arrays: dict[str, npt.ArrayLike] = {
            "scene": key,
            "depth": depth.depth,
            "confidence": depth.confidence,
            "keep": depth.keep,
            "rgb": depth.rgb,
            "transform": np.array([getattr(depth.transform, n) for n in Transform.__slots__], np.int32),
        }
        if p.rays is not None:
            arrays |= {
                "ray_directions": p.rays.directions,
                "ray_centres": p.rays.centres,
                "ray_confidence": p.rays.confidence,
            }
        _npz(folder / "dense" / files[p.name], arrays)


FORMATS = ("report", "npz", "dense", "colmap", "transforms", "ply", "glb", "html", "images")
WRITERS = {
    "dense": _write_dense,
    "colmap": _write_colmap,
    "transforms": _write_transforms,
    "glb": _write_glb,
}


Parts = tuple[dict[str, Picture], tuple[Component, ...], Scale, dict[str, Any]]


_PICTURES: zips.Spec = {
    "schema": ("i", ()), "names": ("U", ("n",)), "files": ("U", ("n",)), "paths": ("U", ("n",)),
    "absolute": ("U", ("n",)), "key": ("U", ()), "sizes": ("i", ("n", 2)),
    "world_from_camera": ("<f8", ("n", 4, 4)), "camera_model": ("U", ("n",)),
    "camera_params": ("<f8", ("n", 8)), "covariance": ("<f8", ("n", 6, 6)), "status": ("U", ("n",)),
    "reason": ("U", ("n",)), "component": ("i", ("n",)), "observations": ("i", ("n",)),
    "reprojection": ("<f8", ("n",)), "scale": ("<f8", (3,)), "scale_source": ("U", ()),
    "components": ("i", ()),
}  # fmt: skip
_COMPONENT: zips.Spec = {
    "points": ("<f8", ("p", 3)), "rgb": ("|u1", ("p", 3)), "track_offsets": ("i", ("t",)),
    "track_pictures": ("i", ("o",)), "track_pixels": ("<f8", ("o", 2)), "mapper": ("U", ()),
    "unstable": ("U", ()),
}  # fmt: skip
_DENSE: zips.Spec = {
    "depth": ("<f4", ("h", "w")), "confidence": ("<f4", ("h", "w")), "keep": ("|b1", ("h", "w")),
    "rgb": ("|u1", ("h", "w", 3)), "transform": ("i", (8,)), "scene": ("U", ()),
}  # fmt: skip
_RAYS: zips.Spec = {
    "ray_directions": ("<f4", ("i", "j", 3)), "ray_centres": ("<f4", ("i", "j", 3)),
    "ray_confidence": ("<f4", ("i", "j")),
}  # fmt: skip


def load(folder: Path) -> Parts:
    """The fields of the scene of a folder. See :meth:`.Scene.load`."""
    try:
        with opened(folder / "scene.npz") as file:
            arrays = zips.arrays(file)
        zips.fit(arrays, _PICTURES, ("scale",))
        if int(arrays["schema"]) != SCHEMA:
            raise ValueError(f"schema {arrays['schema']}, want {SCHEMA}")
        report = json.loads(read_bytes(folder / "report.json"))
        if not isinstance(report, dict):
            raise ValueError(f"report.json: {type(report).__name__}, want an object")
        report = {k: v for k, v in report.items() if k not in ("written", "sha256")}
        return _parts(folder, arrays, report)
    except FileNotFoundError as error:
        raise FileError(f"scene {quoted(folder)}: no {Path(error.filename).name} in it") from error
    except Exception as error:  # hostile bytes end in any of a dozen errors of zip, json and numpy
        raise FileError(f"scene {quoted(folder)}: {type(error).__name__}: {error}") from error


def _parts(folder: Path, a: dict[str, npt.NDArray[Any]], report: dict[str, Any]) -> Parts:
    names = [str(name) for name in a["names"]]
    if len(set(names)) != len(names):
        raise ValueError("two pictures of one name")
    dense = _depth_names(names)
    pictures = {name: _picture(folder, name, row, a, dense[name]) for row, name in enumerate(names)}
    count = int(a["components"])
    if not 0 <= count <= len(names) or any(not -1 <= p.component < count for p in pictures.values()):
        raise ValueError(f"{count} components of {len(names)} pictures")
    components = tuple(_component(k, a, pictures) for k in range(count))
    value, spread, used = a["scale"]
    scale = Scale(float(value), str(a["scale_source"]), float(spread), int(used))
    return pictures, components, scale, report


def _picture(folder: Path, name: str, row: int, a: dict[str, npt.NDArray[Any]], dense: str) -> Picture:
    model, size, component = str(a["camera_model"][row]), a["sizes"][row], int(a["component"][row])
    placed = bool(model)
    covariance = a["covariance"][row]
    return Picture(
        name,
        _present(folder, a, row),
        int(size[0]),
        int(size[1]),
        str(a["status"][row]),
        str(a["reason"][row]),
        component,
        _pose(name, a["world_from_camera"][row]) if placed else None,
        _lens(model, size, a["camera_params"][row]) if placed else None,
        covariance if placed and np.isfinite(covariance).all() else None,
        int(a["observations"][row]),
        float(a["reprojection"][row]),
        *(_maps(folder / "dense" / dense, str(a["key"])) if placed else ()),
    )


def _pose(name: str, pose: F64) -> F64:
    turn = pose[:3, :3]
    rigid = np.isfinite(pose).all() and np.abs(pose).max() < 1e30 and (pose[3] == (0, 0, 0, 1)).all()
    if not (rigid and np.abs(turn @ turn.T - np.eye(3)).max() < 1e-3 and np.linalg.det(turn) > 0):
        raise ValueError(f"picture {quoted(name)}: its pose is no rotation and place")
    return pose


def _present(folder: Path, a: dict[str, npt.NDArray[Any]], row: int) -> Path:
    """Where a picture is: among the scene's own, else from there to where it was, else where it was."""
    file, path = (str(a[name][row]) for name in ("files", "paths"))
    inside = file and not Path(file).is_absolute() and ".." not in Path(file).parts
    places = [folder / "images" / file] if inside else []
    places += [folder / path] if path else []
    absolute = Path(str(a["absolute"][row]))
    return next((place for place in places if place.is_file()), absolute)


def _lens(model: str, size: npt.NDArray[Any], params: npt.NDArray[Any]) -> Lens:
    if model not in CAMERA_MODELS:
        raise ValueError(f"camera model {quoted(model)}, want one of {', '.join(CAMERA_MODELS)}")
    count = len(CAMERA_MODELS[model][1])
    lens = Lens(model, int(size[0]), int(size[1]), tuple(map(float, params[:count])))
    named = lens.named()
    good = np.isfinite(lens.params).all() and min(named["fx"], named["fy"], lens.width, lens.height) > 0
    if not good or np.abs(lens.params).max() > 1e30:
        raise ValueError(f"camera {model} {lens.width} x {lens.height} {lens.params}")
    return lens


def _component(k: int, a: dict[str, npt.NDArray[Any]], pictures: dict[str, Picture]) -> Component:
    tag = "" if k == 0 else f"_{k}"
    own = {name: a[f"{name}{tag}"] for name in _COMPONENT}
    zips.fit(own, _COMPONENT, ("points", "track_pixels"))
    members = [
        (i, p) for i, p in enumerate(pictures.values())
        if p.component == k and not is_twin(p)
    ]  # fmt: skip
    numbers = np.array([i for i, _ in members], np.int64)
    offsets = own["track_offsets"]
    lengths = np.diff(offsets)
    whole = len(offsets) == len(own["points"]) + 1 and offsets[0] == 0 and (lengths >= 0).all()
    if not whole or offsets[-1] != len(own["track_pictures"]):
        raise ValueError(f"component {k}: {len(offsets)} offsets of {len(own['points'])} tracks")
    if not members or any(p.pose is None for _, p in members):
        raise ValueError(f"component {k}: a picture without a pose, or no pictures")
    if not np.isin(own["track_pictures"], numbers).all() or np.abs(own["points"]).max(initial=0) > 1e30:
        raise ValueError(f"component {k}: tracks of pictures that are not its own, or points beyond 1e30")
    model = Model(
        numbers,
        np.array([np.linalg.inv(p.pose) for _, p in members if p.pose is not None]),
        tuple(p.lens for _, p in members if p.lens is not None),
        own["points"],
        own["rgb"],
        np.repeat(np.arange(len(lengths)), lengths),
        own["track_pictures"],
        own["track_pixels"],
        str(own["mapper"]),
    )
    return Component(tuple(p.name for _, p in members), model.mapper, str(own["unstable"]), model)


def _maps(path: Path, key: str) -> tuple[DepthMap | None, RayMap | None]:
    if not path.is_file():
        return None, None
    with opened(path) as file:
        a = zips.arrays(file)
    zips.fit(a, _DENSE)
    if str(a["scene"]) != key:
        raise ValueError(f"{path.name} is of scene {a['scene']}, want {key}: of another run")
    transform = transform_of(a["transform"])
    if a["depth"].shape != (transform.height, transform.width):
        raise ValueError(f"dense/{path.name}: maps of {a['depth'].shape}, want {transform}")
    depth = DepthMap(a["depth"], a["confidence"], a["keep"], a["rgb"], transform)
    if "ray_directions" not in a:
        return depth, None
    zips.fit(a, _RAYS)
    return depth, RayMap(*(a[f"ray_{k}"] for k in ("directions", "centres", "confidence")))
