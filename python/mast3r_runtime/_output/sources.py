# SPDX-License-Identifier: Apache-2.0
"""Pages of pairs and of files of points."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._files import zips
from .._files.plain import opened, read_bytes
from .._library.imports import heavy
from .._pictures.arrays import U8
from .._results.geometry import network_focal, pair_cameras
from .._results.results import InferenceResult, MatchResult, Overlap, Transform
from .._results.windows import transform_of
from ..errors import FileError, Mast3rError, checked, quoted
from . import export, far
from .page import Camera, Cloud, Matches, Page

__all__ = ["pair_page", "points_page", "result_page"]


@checked
def pair_page(
    result: InferenceResult, image_1: U8, image_2: U8, matches: MatchResult | None = None, title: str = "pair"
) -> Page:
    """Both views' points in camera 1's frame, and the cameras.

    The second camera stands where the matches say, its distance as the network guesses it; without
    matches, or where they give no pose, it is in the list alone, with the reason.
    """
    colours = [export.network_pixels(image, result, view) for view, image in ((1, image_1), (2, image_2))]
    return _pair(result, colours, (image_1, image_2), matches, title)


@checked
def result_page(path: Path, title: str | None = None) -> Page:
    """The page of a pair from the ``result.npz`` that ``mast3r infer`` wrote."""
    try:
        with opened(path) as file:
            a = zips.arrays(file)
        ways = [transform_of(a[f"transform_{view}"]) for view in (1, 2)]
        for view, way in zip("12", ways):
            zips.fit(a, _view(view, way.height, way.width))
        arrays: list[Any] = [
            a[f"{name}_{view}"] for name in ("pts3d", "conf", "desc", "desc_conf") for view in (1, 2)
        ]
        result = InferenceResult(*arrays, *ways)
        shapes = [(way.height, way.width, 3) for way in ways]
        colours = [a.get(f"rgb_{view}", np.full(shape, 190, np.uint8)) for view, shape in zip((1, 2), shapes)]
        if [c.shape for c in colours] != shapes or any(c.dtype != np.uint8 for c in colours):
            raise ValueError(f"colours {[c.shape for c in colours]}, want {shapes}")
        matches = _matches(a, ways)
        return _pair(result, colours, colours, matches, title or path.name)
    except FileNotFoundError:
        raise
    except Exception as error:  # hostile bytes end in any of a dozen errors of zip and numpy
        raise FileError(f"result {quoted(path)}: {type(error).__name__}: {error}") from error


def _view(view: str, height: int, width: int) -> zips.Spec:
    side = (height, width)
    return {
        f"pts3d_{view}": ("<f4", (*side, 3)), f"conf_{view}": ("<f4", side),
        f"desc_{view}": ("<f4", (*side, "d")), f"desc_conf_{view}": ("<f4", side),
    }  # fmt: skip


_MATCHES: zips.Spec = {
    "match_idx_1": ("i", ("m",)), "match_idx_2": ("i", ("m",)), "match_pts2d_1": ("f", ("m", 2)),
    "match_pts2d_2": ("f", ("m", 2)), "match_pts3d_1": ("f", ("m", 3)), "match_pts3d_2": ("f", ("m", 3)),
    "match_confidence": ("f", ("m",)), "match_covariance": ("f", ("c", 2, 2)),
    "match_refined": ("|b1", ("r",)), "match_consistent": ("|b1", ("k",)),
}  # fmt: skip


def _matches(a: zips.Arrays, ways: Sequence[Transform]) -> MatchResult | None:
    fields = [f for f in MatchResult.__slots__ if f"match_{f}" in a]
    if not fields:
        return None
    zips.fit(a, _MATCHES, ("match_pts2d_1", "match_pts2d_2"))
    own: dict[str, Any] = {f: a[f"match_{f}"] for f in fields}
    if any(len(a[f"match_{name}"]) not in (0, len(a["match_idx_1"])) for name in fields):
        raise ValueError("matches: arrays of several lengths")
    return MatchResult(transform_1=ways[0], transform_2=ways[1], overlap=_overlap(a), **own)


def _overlap(a: dict[str, npt.NDArray[Any]]) -> Overlap | None:
    if "overlap_verdict" not in a:
        return None
    words = [str(a[f"overlap_{name}"]) for name in ("verdict", "reason")]
    numbers = [float(a[f"overlap_{name}"]) for name in ("score", "matched", "consistent")]
    return Overlap(words[0], words[1], numbers[0], numbers[1], numbers[2], a.get("overlap_fundamental"))


def _pair(
    result: InferenceResult,
    rgb: Sequence[U8],
    thumbs: Sequence[U8],
    matches: MatchResult | None,
    title: str,
) -> Page:
    """``rgb`` are the colours of both maps; ``thumbs`` what is shown of the pictures."""
    points, colours, confidence, number = [], [], [], []
    for view in (1, 2):
        xyz = getattr(result, f"pts3d_{view}").reshape(-1, 3)
        points.append(xyz)
        colours.append(rgb[view - 1].reshape(-1, 3))
        confidence.append(getattr(result, f"conf_{view}").reshape(-1))
        number.append(np.full(len(xyz), view - 1))
    cloud = Cloud(
        "dense", np.concatenate(points), np.concatenate(colours), np.concatenate(confidence),
        np.concatenate(number),
    )  # fmt: skip
    sizes = [(way.original_width, way.original_height) for way in (result.transform_1, result.transform_2)]
    intrinsics: list[npt.NDArray[np.float64] | None] = [None, None]
    pose, reason, lines = None, "no matches were given", []
    if matches is not None:
        try:
            found = pair_cameras(result, matches)
            intrinsics = [found.intrinsics_1, found.intrinsics_2]
            pose, reason = found.metric_pose, found.reason or "the length of the baseline is not known"
        except Mast3rError as error:
            reason = str(error)
        lines.append(Matches(0, 1, np.hstack([matches.original_1, matches.original_2])))
    else:
        with suppress(Mast3rError):
            intrinsics[0] = _middle(network_focal(result), *sizes[0])
    cameras = [
        Camera("picture 1", sizes[0], np.eye(4), intrinsics[0], image=thumbs[0]),
        Camera(
            "picture 2", sizes[1], pose, intrinsics[1], "placed" if pose is not None else "no pose",
            "" if pose is not None else reason, image=thumbs[1],
        ),
    ]  # fmt: skip
    return Page(title, [cloud], cameras, lines, "m", "Lengths are the network's guess, not verified.")


def _middle(focal: float, width: int, height: int) -> npt.NDArray[np.float64]:
    """The camera matrix of a picture whose principal point is its middle."""
    return np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1]])


# The names under which programs keep a point's colour in PLY; trimesh knows the first.
_COLOURS = (("red", "green", "blue"), ("diffuse_red", "diffuse_green", "diffuse_blue"), ("r", "g", "b"))
_HARMONICS = ("f_dc_0", "f_dc_1", "f_dc_2")
_C0 = 0.28209479177387814  # the spherical harmonic of order 0: 1 / (2 sqrt(pi))


def _columns(data: Any) -> npt.NDArray[Any] | None:
    """A PLY's vertices as rows of fields: trimesh has columns ``[N, 1]`` of a file of text."""
    if not isinstance(data, dict):
        return data if isinstance(data, np.ndarray) and data.dtype.names else None
    columns = {name: np.asarray(column).reshape(-1) for name, column in data.items()}
    rows = np.zeros(len(next(iter(columns.values()), ())), [(name, c.dtype) for name, c in columns.items()])
    for name, column in columns.items():
        rows[name] = column
    return rows


def _ply_colours(raw: npt.NDArray[Any]) -> U8 | None:
    """Colours ``[N, 3]`` of a PLY's vertices by any of their names, of 3D Gaussians the mean of all sides."""
    have = raw.dtype.names or ()
    for names in _COLOURS:
        if set(names) <= set(have):
            values = np.stack([raw[name] for name in names], 1)
            if values.dtype.kind == "f":  # as shares of 1, or as bytes
                most = np.nanmax(values, initial=0.0)
                values = np.nan_to_num(values * (255.0 if most <= 1 else 1.0))
            return np.asarray(np.clip(np.rint(values), 0, 255), np.uint8)
    if set(_HARMONICS) <= set(have):
        values = 0.5 + _C0 * np.stack([raw[name] for name in _HARMONICS], 1).astype(np.float64)
        return np.asarray(np.clip(np.rint(np.nan_to_num(values) * 255), 0, 255), np.uint8)
    return None


def _opacity(raw: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
    """The opacity of 3D Gaussians, 0 to 1, which their files hold as a logit."""
    if not {*_HARMONICS, "opacity"} <= set(raw.dtype.names or ()):
        return None
    return np.asarray(1 / (1 + np.exp(-np.clip(np.nan_to_num(raw["opacity"].astype(np.float64)), -50, 50))))


def _bounded(path: Path) -> None:
    """ValueError where a file names other files, or promises more than its bytes can hold."""
    data = read_bytes(path)
    if path.suffix.lower() == ".ply":
        head = data[: data.find(b"end_header")][:100_000].decode("latin-1")
        counts = re.findall(r"^element\s+\S+\s+(\S+)", head, re.M)
    else:
        (size,) = struct.unpack_from("<I", data, 12)
        gltf = json.loads(data[20 : 20 + size])
        if any("uri" in part for part in (*gltf.get("buffers", ()), *gltf.get("images", ()))):
            raise ValueError("it names other files")
        counts = [part["count"] for part in gltf.get("accessors", ())]
    if any(not 0 <= int(count) <= len(data) for count in counts):
        raise ValueError(f"{', '.join(map(str, counts)):.80} elements in {len(data)} bytes")


@checked
def points_page(path: Path, title: str | None = None) -> Page:
    """A file of points (PLY or GLB) as a page without pictures."""
    trimesh = heavy("trimesh")

    try:
        _bounded(path)
        # no textures: a picture in such a file would be opened by whatever reads its format
        loaded: Any = trimesh.load(str(path), skip_materials=True)
        cloud: Any = loaded.to_geometry() if isinstance(loaded, trimesh.Scene) else loaded
        points = np.asarray(cloud.vertices, np.float64)
        holder = cloud.visual if hasattr(cloud, "faces") else cloud
        colours = np.asarray(getattr(holder, "vertex_colors", getattr(holder, "colors", ())))
        raw = _columns(loaded.metadata.get("_ply_raw", {}).get("vertex", {}).get("data"))
        own = None if raw is None or len(raw) != len(points) else _ply_colours(raw)
        opacity = _opacity(raw) if raw is not None and own is not None else None
    except FileNotFoundError:
        raise
    except Exception as error:  # hostile bytes end in any of a dozen errors of its parsers
        raise FileError(f"points {quoted(path)}: {type(error).__name__}: {error}") from error
    if points.ndim != 2 or points.shape[1:] != (3,) or not far.finite(points, path.name).any():
        raise FileError(f"points {quoted(path)}: no points that are finite")
    if colours.ndim != 2 or colours.shape[0] != len(points) or colours.shape[1] < 3:
        colours = np.full((len(points), 4), 190, np.uint8)
    colours = colours[:, :3].astype(np.uint8)
    if path.suffix.lower() == ".glb":
        points, colours = points * np.array([1.0, -1, -1]), export.from_linear(colours)
    if own is not None:
        colours = own
    n = len(points)
    sure, quantity = (np.zeros(n), "confidence") if opacity is None else (opacity, "opacity")
    whole = Cloud("points", points, colours, sure, np.zeros(n, np.int64), quantity)
    return Page(title or path.name, [whole], [], scale="Units as in the file.")
