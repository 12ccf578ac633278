# SPDX-License-Identifier: Apache-2.0
"""The files of a scene's folder, written and read without pycolmap.

Every file is written beside its name and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._files.folder import OutFolder
from .._files.manifest import REPORT
from .._files.whole import replacing, short_name
from .._output.export import write_points
from .._output.page import write as write_page
from .._results.results import Transform
from .._store.store import hashes
from ..errors import ArgumentError, FileError, quoted
from . import colmap_files, glb
from .album import plan
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
) -> list[Path]:
    """Write a scene into a folder that is held; with ``add``, beside what is there of the same scene."""
    chosen = _chosen(formats, max_dense)
    placed = [p.name for p in _shown(scene)]
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
        "dense": [f"dense/{_depth_name(name)}" for name in names],
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


def _depth_name(name: str) -> str:
    """A file name for a picture's name, which may hold folders."""
    name = name.replace("%", "%25").replace("/", "%2F").replace("\\", "%5C")
    return short_name(name, ".npz")


def _write_dense(scene: Scene, folder: Path, _: Mapping[str, str]) -> None:
    pictures = [p for p in scene.pictures.values() if p.depth is not None]
    (folder / "dense").mkdir(exist_ok=True)
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
        _npz(folder / "dense" / _depth_name(p.name), arrays)


FORMATS = ("report", "npz", "dense", "colmap", "transforms", "ply", "glb", "html", "images")
WRITERS = {
    "dense": _write_dense,
    "colmap": _write_colmap,
    "transforms": _write_transforms,
    "glb": _write_glb,
}


Parts = tuple[dict[str, Picture], tuple[Component, ...], Scale, dict[str, Any]]


def load(folder: Path) -> Parts:
    """The fields of the scene of a folder. See :meth:`.Scene.load`."""
    try:
        # opened here: np.load leaves a torn file open
        with open(folder / "scene.npz", "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if int(arrays["schema"]) != SCHEMA:
            raise ValueError(f"schema {arrays['schema']}, want {SCHEMA}")
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        report = {k: v for k, v in report.items() if k not in ("written", "sha256")}
        return _parts(folder, arrays, report)
    except FileNotFoundError as error:
        raise FileError(f"scene {quoted(folder)}: no {Path(error.filename).name} in it") from error
    except Exception as error:  # hostile bytes end in any of a dozen errors of zip, json and numpy
        raise FileError(f"scene {quoted(folder)}: {error!r}") from error


def _parts(folder: Path, a: dict[str, npt.NDArray[Any]], report: dict[str, Any]) -> Parts:
    pictures = {}
    for row, name in enumerate(map(str, a["names"])):
        model, size = str(a["camera_model"][row]), a["sizes"][row]
        placed = bool(model)
        covariance = a["covariance"][row]
        pictures[name] = Picture(
            name,
            _present(folder, a, row),
            int(size[0]),
            int(size[1]),
            str(a["status"][row]),
            str(a["reason"][row]),
            int(a["component"][row]),
            a["world_from_camera"][row] if placed else None,
            _lens(model, size, a["camera_params"][row]) if placed else None,
            covariance if placed and np.isfinite(covariance).all() else None,
            int(a["observations"][row]),
            float(a["reprojection"][row]),
            *(_maps(folder / "dense" / _depth_name(name), str(a.get("key", ""))) if placed else ()),
        )
    components = tuple(_component(k, a, pictures) for k in range(int(a["components"])))
    value, spread, count = a["scale"]
    scale = Scale(float(value), str(a["scale_source"]), float(spread), int(count))
    return pictures, components, scale, report


def _present(folder: Path, a: dict[str, npt.NDArray[Any]], row: int) -> Path:
    """Where a picture is: among the scene's own, else from there to where it was, else where it was."""
    file, path = (str(a[name][row]) for name in ("files", "paths"))
    places = [folder / "images" / file] if file else []
    places += [folder / path] if path else []
    absolute = Path(str(a["absolute"][row]))
    return next((place for place in places if place.is_file()), absolute)


def _lens(model: str, size: npt.NDArray[Any], params: npt.NDArray[Any]) -> Lens:
    count = len(CAMERA_MODELS[model][1])
    return Lens(model, int(size[0]), int(size[1]), tuple(map(float, params[:count])))


def _component(k: int, a: dict[str, npt.NDArray[Any]], pictures: dict[str, Picture]) -> Component:
    tag = "" if k == 0 else f"_{k}"
    members = [
        (i, p) for i, p in enumerate(pictures.values())
        if p.component == k and not is_twin(p)
    ]  # fmt: skip
    offsets = a[f"track_offsets{tag}"]
    model = Model(
        np.array([i for i, _ in members]),
        np.array([np.linalg.inv(p.pose) for _, p in members if p.pose is not None]),
        tuple(p.lens for _, p in members if p.lens is not None),
        a[f"points{tag}"],
        a[f"rgb{tag}"],
        np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)),
        a[f"track_pictures{tag}"],
        a[f"track_pixels{tag}"],
        str(a[f"mapper{tag}"]),
    )
    return Component(tuple(p.name for _, p in members), model.mapper, str(a[f"unstable{tag}"]), model)


def _maps(path: Path, key: str) -> tuple[DepthMap | None, RayMap | None]:
    if not path.is_file():
        return None, None
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        if str(archive["scene"]) != key:
            raise ValueError(f"{path.name} is of scene {archive['scene']}, want {key}: of another run")
        transform = Transform(*map(int, archive["transform"]))
        depth = DepthMap(archive["depth"], archive["confidence"], archive["keep"], archive["rgb"], transform)
        if "ray_directions" not in archive.files:
            return depth, None
        return depth, RayMap(*(archive[f"ray_{k}"] for k in ("directions", "centres", "confidence")))
