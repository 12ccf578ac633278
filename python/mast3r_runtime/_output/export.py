# SPDX-License-Identifier: Apache-2.0
"""Results as files; the public names are in :mod:`mast3r_runtime.export`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image

from .._files.folder import OutFolder
from .._files.single import seal
from .._files.whole import check_target, replacing
from .._library.imports import heavy
from .._results.results import InferenceResult, MatchResult
from ..errors import ArgumentError, ShapeError, checked, quoted
from . import drawing, far

__all__ = [
    "KEEP",
    "RESULT_FILES",
    "SECTION",
    "Picture",
    "coloured_points",
    "from_linear",
    "glb_place",
    "glb_scene",
    "network_pixels",
    "write_files",
    "write_npz",
    "write_png",
    "write_points",
    "write_result",
]

RESULT_FILES = (  # what write_result leaves in a folder
    "result.npz",
    "points.ply",
    "points.glb",
    "depth.png",
    "confidence.png",
    "matches.png",
    "cloud.png",
)
SECTION = "pair"  # of the list of what was written
_UPRIGHT = np.array([1.0, -1, -1])  # glTF: y up, z to the viewer
KEEP = 0.95  # share of each view's points, most confident first, that a point cloud gets

U8 = npt.NDArray[np.uint8]
F32 = npt.NDArray[np.float32]
Picture = Image.Image


@checked
def write_npz(path: Path | BinaryIO, result: InferenceResult, matches: MatchResult | None = None) -> None:
    """Every array of the result, the transforms as rows of integers, the matches and their overlap.

    ``path`` is a path, or a file that is open for writing.

    Where the result has its pictures, also their colours at the size of the maps, ``rgb_1`` and
    ``rgb_2 [H, W, 3]``.
    """
    arrays: dict[str, npt.ArrayLike] = {}
    for name in result.__slots__:
        value = getattr(result, name)
        if isinstance(value, np.ndarray):
            arrays[name] = value
        elif name.startswith("transform"):
            arrays[name] = np.array([getattr(value, field) for field in value.__slots__], np.int32)
    for view, image in enumerate(result.images or (), 1):
        arrays[f"rgb_{view}"] = network_pixels(image, result, view)
    if matches is not None:
        for name in matches.__slots__:
            value = getattr(matches, name)
            if isinstance(value, np.ndarray):
                arrays[f"match_{name}"] = value
        overlap = matches.overlap
        if overlap is not None:
            for name in overlap.__slots__:
                value = getattr(overlap, name)
                if value is not None:
                    arrays[f"overlap_{name}"] = value
    if not isinstance(path, (str, os.PathLike)):
        np.savez(path, **arrays)  # type: ignore[arg-type]
        return
    with replacing(Path(path)) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


@checked
def write_png(path: Path, picture: Image.Image) -> None:
    """A PIL picture as PNG; another suffix is refused."""
    check_target(Path(path), (".png",))
    with replacing(path) as temporary:
        picture.save(temporary, "PNG")
        seal(temporary)


@checked
def network_pixels(image: U8, result: InferenceResult, view: int) -> U8:
    """The user's picture at the resolution of the result's maps (for colours and drawings).

    Resized and cut as the network's input was, by Pillow's own filter: the network's exact
    bytes differ from these by a rounding at most.
    """
    t = result.transform_1 if view == 1 else result.transform_2
    if image.shape[:2] != (t.original_height, t.original_width):
        raise ShapeError(
            f"image of {image.shape[0]} x {image.shape[1]}, the result's view {view} came from "
            f"{t.original_height} x {t.original_width}"
        )
    resized = Image.fromarray(image).resize((t.resized_width, t.resized_height), Image.Resampling.LANCZOS)
    box = (t.crop_x, t.crop_y, t.crop_x + t.width, t.crop_y + t.height)
    return np.asarray(resized.crop(box))


@checked
def coloured_points(result: InferenceResult, image_1: U8, image_2: U8, keep: float = KEEP) -> tuple[F32, U8]:
    """Both views' points in camera 1's frame with their colours.

    ``keep`` is the share of the most confident points of each view; points that are not
    finite are left out.
    """
    if not 0 < keep <= 1:
        raise ArgumentError(f"keep={keep}, want a share above 0 and up to 1")
    points, colours = [], []
    for view, image in ((1, image_1), (2, image_2)):
        xyz: F32 = getattr(result, f"pts3d_{view}").reshape(-1, 3)
        conf: F32 = getattr(result, f"conf_{view}").reshape(-1)
        rgb = network_pixels(image, result, view).reshape(-1, 3)
        chosen = np.isfinite(xyz).all(1) & (conf >= np.quantile(conf, 1 - keep))
        points.append(xyz[chosen])
        colours.append(rgb[chosen])
    return np.concatenate(points), np.concatenate(colours)


@checked
def write_points(path: Path, points: npt.NDArray[np.floating], colours: U8) -> None:
    """A coloured point cloud ``[N, 3]``; the suffix says PLY or GLB.

    Points that are not finite are left out; the log counts them. Far from the origin, where float32
    would move float64 points by more than a hundredth of the distance between neighbours, PLY has
    doubles, and GLB counts from a whole number of units, in the translation of its node.

    PLY keeps the camera's axes (OpenCV: x right, y down, z forward) and, by custom, sRGB
    colours. glTF wants y up and looks along -z, so for GLB y and z change sign: the scene stands
    upright in a viewer; and its colours are linear light.
    """
    path = Path(path)
    check_target(path, (".ply", ".glb"))
    points, colours = np.asarray(points), np.asarray(colours)
    if points.dtype.kind in "iu":  # places of maps in whole metres
        points = points.astype(np.float64)
    if points.ndim != 2 or points.shape[1:] != (3,) or colours.shape != points.shape:
        raise ShapeError(f"points {points.shape} and colours {colours.shape}, want [N, 3] of both")
    keep = far.finite(points, path.name)
    points, colours = points[keep], colours[keep]
    if not len(points):
        raise ShapeError(f"points file {quoted(path.name)}: no points to write")
    with replacing(path) as temporary:
        if path.suffix.lower() == ".ply":
            temporary.write_bytes(_ply(points, colours))
        else:
            glb_scene(points, colours).export(str(temporary), file_type="glb")


def _ply(points: npt.NDArray[np.floating], colours: U8) -> bytes:
    kind = "<f8" if points.dtype == np.float64 and far.far(points) else "<f4"
    name = "double" if kind == "<f8" else "float"
    fields = [(axis, kind) for axis in "xyz"] + [(c, "u1") for c in ("red", "green", "blue", "alpha")]
    rows = np.zeros(len(points), np.dtype(fields))
    for k in range(3):
        rows["xyz"[k]], rows[fields[3 + k][0]] = points[:, k], colours[:, k]
    rows["alpha"] = 255
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(rows)}"]
    header += [f"property {name} {axis}" for axis in "xyz"]
    header += [f"property uchar {name}" for name, _ in fields[3:]] + ["end_header", ""]
    return "\n".join(header).encode("ascii") + rows.tobytes()


def glb_scene(points: npt.NDArray[np.floating], colours: U8) -> Any:
    """Points as a ``trimesh.Scene`` with glTF's axes and colours; its base frame is moved where they are far.

    :func:`glb_place` says where a point of the world lies in it.
    """
    trimesh = heavy("trimesh")
    start = far.origin(points)
    scene: Any = trimesh.Scene()
    near = (points - start if start.any() else points) * _UPRIGHT
    cloud = trimesh.PointCloud(near.astype(np.float32), colors=_linear(colours))
    scene.add_geometry(cloud, geom_name="points", transform=glb_place(start))
    return scene


def glb_place(start: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """The transform ``[4, 4]`` of a node that counts from ``start``; None where that is the origin."""
    if not start.any():
        return None
    place = np.eye(4)
    place[:3, 3] = start * _UPRIGHT
    return place


def _linear(colours: U8) -> U8:
    """Return sRGB bytes as linear bytes, which is how glTF defines COLOR_0."""
    c = np.arange(256) / 255
    table = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return np.asarray(np.rint(table * 255), np.uint8)[colours]


@checked
def from_linear(colours: U8) -> U8:
    """Return linear bytes, as a GLB file has them, as sRGB bytes."""
    c = np.arange(256) / 255
    table = np.where(c <= 0.0031308, c * 12.92, 1.055 * c ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(table * 255), np.uint8)[colours]


@checked
def write_result(
    directory: Path,
    result: InferenceResult,
    matches: MatchResult,
    image_1: U8,
    image_2: U8,
    lines: Picture | None = None,
    keep: float = KEEP,
) -> dict[str, Picture]:
    """Write the files of ``mast3r infer`` and return the pictures among them by name.

    Nothing in the folder is replaced or removed that an earlier result did not write there: a file of
    another origin at one of the names is a FileError, before anything is written.
    """
    with OutFolder(directory, SECTION, "write_result") as out:
        out.claim(RESULT_FILES)
        pictures = write_files(out.stage, result, matches, image_1, image_2, lines, keep)
        out.finish()
    return pictures


def write_files(
    directory: Path,
    result: InferenceResult,
    matches: MatchResult,
    image_1: U8,
    image_2: U8,
    lines: Picture | None = None,
    keep: float = KEEP,
) -> dict[str, Picture]:
    """The files of :func:`write_result` into a folder of ours."""
    if lines is None:
        lines = drawing.matches(image_1, image_2, matches.original_1, matches.original_2)
    points, colours = coloured_points(result, image_1, image_2, keep)
    if not len(points):
        raise ShapeError(f"{directory}: the result has no finite points; nothing was written")
    write_npz(directory / "result.npz", result, matches)
    write_points(directory / "points.ply", points, colours)
    write_points(directory / "points.glb", points, colours)
    pictures = {
        "depth": drawing.depth_map(result.pts3d_1[:, :, 2]),
        "confidence": drawing.confidence_map(result.conf_1),
        "matches": lines,
        "cloud": drawing.point_cloud(points, colours),
    }
    for name, picture in pictures.items():
        write_png(directory / f"{name}.png", picture)
    return pictures
