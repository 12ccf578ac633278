# SPDX-License-Identifier: Apache-2.0
"""The files of a scene's folder, written and read without pycolmap.

Every file is written beside its name and renamed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._files.whole import replacing, short_name
from .._output.export import write_points
from .._output.page import write as write_page
from .._results.results import Transform
from ..errors import ArgumentError, FileError, quoted
from . import colmap_files, glb
from .dense import DepthMap, RayMap
from .gauge import Scale
from .model import CAMERA_MODELS, F64, Lens, Model
from .parts import Component, Picture

if TYPE_CHECKING:
    from .scene import Scene

__all__ = ["FORMATS", "from_opengl", "load", "opengl", "write"]

SCHEMA = 1
MAX_DENSE = 5_000_000
MAX_GLB = 500_000

# nerfstudio's world: z up. Ours: y down.
_UP = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])


def write(
    scene: Scene, folder: Path, formats: Sequence[str] | None = None, max_dense: int = MAX_DENSE
) -> list[Path]:
    """Write ``formats`` of :data:`FORMATS` (all when left out) into ``folder``."""
    if max_dense < 1:
        raise ArgumentError(f"max_dense {max_dense}, want at least 1 point")
    chosen = list(FORMATS) if formats is None else list(formats)
    unknown = [name for name in chosen if name not in FORMATS]
    if unknown:
        raise ArgumentError(f"formats {', '.join(unknown)}: want some of {', '.join(FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    out: list[Path] = []
    for name in chosen:
        out += _write_ply(scene, folder, max_dense) if name == "ply" else FORMATS[name](scene, folder)
    return out


def _json(path: Path, values: object) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return path


def _write_report(scene: Scene, folder: Path) -> list[Path]:
    return [_json(folder / "report.json", dict(scene.report))]


def _write_colmap(scene: Scene, folder: Path) -> list[Path]:
    names, out = list(scene.pictures), []
    for k, component in enumerate(scene.components):
        place = folder / "sparse" / str(k)
        colmap_files.write_binary(place, names, component.model)
        colmap_files.write_text(place / "text", names, component.model)
        out.append(place)
    return out


def opengl(pose: F64) -> F64:
    """World from camera with OpenGL's axes (y up, z back) in nerfstudio's world (z up)."""
    return np.asarray(_UP @ pose @ np.diag([1.0, -1, -1, 1]))


def from_opengl(pose: F64, applied_back: F64 | None = None) -> F64:
    """The inverse of :func:`opengl`; ``applied_back`` undoes another turn of the world than ours."""
    back = np.linalg.inv(_UP) if applied_back is None else applied_back
    return np.asarray(back @ pose @ np.diag([1.0, -1, -1, 1]))


def _write_transforms(scene: Scene, folder: Path) -> list[Path]:
    """nerfstudio's file, of the largest component. Pixels there have their corners at whole numbers."""
    pictures = [p for p in scene.placed if p.component == 0]
    if not pictures:
        return []
    lenses = [p.lens for p in pictures]
    frames = []
    for p in pictures:
        assert p.pose is not None and p.lens is not None
        frame: dict[str, Any] = {"file_path": f"images/{p.name}", "transform_matrix": opengl(p.pose).tolist()}
        if len(set(lenses)) > 1:
            frame |= _lens_values(p.lens)
        frames.append(frame)
    first = lenses[0]
    assert first is not None
    values: dict[str, Any] = {"camera_model": "OPENCV"}
    if len(set(lenses)) == 1:
        values |= _lens_values(first)
    # What was done to a point of sparse.ply to bring it into this file's world.
    values |= {"applied_transform": _UP[:3].tolist(), "ply_file_path": "sparse_up.ply", "frames": frames}
    points = scene.points
    target = folder / "sparse_up.ply"
    out = [_json(folder / "transforms.json", values)]
    if len(points):
        write_points(target, points.xyz @ _UP[:3, :3].T, points.rgb)
        out.append(target)
    return out


def _lens_values(lens: Lens) -> dict[str, float]:
    n = lens.named()
    return {
        "fl_x": n["fx"], "fl_y": n["fy"], "cx": n["cx"] + 0.5, "cy": n["cy"] + 0.5, "w": lens.width,
        "h": lens.height, "k1": n["k1"], "k2": n["k2"], "p1": n["p1"], "p2": n["p2"],
    }  # fmt: skip


def _write_ply(scene: Scene, folder: Path, max_dense: int = MAX_DENSE) -> list[Path]:
    out = []
    points = scene.points if scene.components else ()
    if len(points):
        out.append(folder / "sparse.ply")
        write_points(out[-1], scene.points.xyz, scene.points.rgb)
    cloud = scene.dense_points(0, max_dense)
    if len(cloud.points):
        out.append(folder / "dense.ply")
        write_points(out[-1], cloud.points, cloud.colours)
    return out


def _write_glb(scene: Scene, folder: Path) -> list[Path]:
    cloud = scene.dense_points(0, MAX_GLB)
    points, colours = cloud.points, cloud.colours
    if not len(points) and scene.components:
        points, colours = scene.points.xyz, scene.points.rgb
    if not len(points):
        return []
    pictures = [p for p in scene.placed if p.component == 0]
    return [glb.write(folder / "scene.glb", points, colours, pictures)]


def _write_html(scene: Scene, folder: Path) -> list[Path]:
    return [write_page(folder / "scene.html", scene.page(folder.resolve().name))]


def _write_npz(scene: Scene, folder: Path) -> list[Path]:
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
        "paths": np.array([str(p.path) for p in pictures]),
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
    return [_npz(folder / "scene.npz", arrays)]


def _npz(path: Path, arrays: dict[str, npt.ArrayLike]) -> Path:
    # numpy gives every member of the archive the same date: equal arrays are equal bytes.
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    return path


def _depth_name(name: str) -> str:
    """A file name for a picture's name, which may hold folders."""
    return short_name(name.replace("%", "%25").replace("/", "%2F"), ".npz")


def _write_dense(scene: Scene, folder: Path) -> list[Path]:
    pictures = [p for p in scene.pictures.values() if p.depth is not None]
    if not pictures:
        return []
    (folder / "dense").mkdir(exist_ok=True)
    out = []
    for p in pictures:
        depth = p.depth
        assert depth is not None
        arrays: dict[str, npt.ArrayLike] = {
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
        out.append(_npz(folder / "dense" / _depth_name(p.name), arrays))
    return out


FORMATS = {
    "report": _write_report,
    "npz": _write_npz,
    "dense": _write_dense,
    "colmap": _write_colmap,
    "transforms": _write_transforms,
    "ply": _write_ply,
    "glb": _write_glb,
    "html": _write_html,
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
            Path(str(a["paths"][row])),
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
            *(_maps(folder / "dense" / _depth_name(name)) if placed else ()),
        )
    components = tuple(_component(k, a, pictures) for k in range(int(a["components"])))
    value, spread, count = a["scale"]
    scale = Scale(float(value), str(a["scale_source"]), float(spread), int(count))
    return pictures, components, scale, report


def _lens(model: str, size: npt.NDArray[Any], params: npt.NDArray[Any]) -> Lens:
    count = len(CAMERA_MODELS[model][1])
    return Lens(model, int(size[0]), int(size[1]), tuple(map(float, params[:count])))


def _component(k: int, a: dict[str, npt.NDArray[Any]], pictures: dict[str, Picture]) -> Component:
    tag = "" if k == 0 else f"_{k}"
    members = [
        (i, p) for i, p in enumerate(pictures.values())
        if p.component == k and not p.reason.startswith("the same file as ")
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


def _maps(path: Path) -> tuple[DepthMap | None, RayMap | None]:
    if not path.is_file():
        return None, None
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        transform = Transform(*map(int, archive["transform"]))
        depth = DepthMap(archive["depth"], archive["confidence"], archive["keep"], archive["rgb"], transform)
        if "ray_directions" not in archive.files:
            return depth, None
        return depth, RayMap(*(archive[f"ray_{k}"] for k in ("directions", "centres", "confidence")))
