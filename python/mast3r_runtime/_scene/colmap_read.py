# SPDX-License-Identifier: Apache-2.0
"""COLMAP's files as they are given, text and binary, read without COLMAP.

Text is that of COLMAP or of people: with or without the empty lines of pictures without points,
comments, a byte order mark, line ends of Windows. A camera of the model RADIAL is one of OPENCV.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._files.plain import read_bytes, read_text
from ..errors import FileError, quoted, reason
from .colmap_files import FILES, rotation
from .model import CAMERA_MODELS, F64, I64, Lens, Model, check_pose

__all__ = ["Image", "cameras", "find", "images", "read"]

# All of COLMAP's models, to say the name of one that is not ours: number, name, parameters.
_MODELS = {number: (name, len(params)) for name, (number, params) in CAMERA_MODELS.items()} | {
    3: ("RADIAL", 5), 5: ("OPENCV_FISHEYE", 8), 6: ("FULL_OPENCV", 12), 7: ("FOV", 5),
    8: ("SIMPLE_RADIAL_FISHEYE", 4), 9: ("RADIAL_FISHEYE", 5), 10: ("THIN_PRISM_FISHEYE", 12),
    11: ("RAD_TAN_THIN_PRISM_FISHEYE", 16),
}  # fmt: skip
_PLACES = ("", "sparse/0", "sparse", "0", "colmap/sparse/0", "text")


class Image(NamedTuple):
    """A picture: pose ``[4, 4]`` camera from world, its camera's number, key points in COLMAP's pixels
    and the numbers of their points, -1 where there is none."""

    name: str
    pose: F64
    camera: int
    xy: F64
    ids: I64


def find(path: Path, stem: str) -> Path | None:
    """``cameras`` or ``images`` of a model: of its folder, one above it, or beside another of its files.

    A file of any other name is what it was given for. Raises FileNotFoundError where there is nothing.
    """
    path.stat()
    if not path.is_dir() and (path.stem == stem or path.stem not in FILES):
        return path
    places = [path / place for place in _PLACES] if path.is_dir() else [path.parent]
    for place in places:
        for suffix in (".bin", ".txt"):
            if (place / (stem + suffix)).is_file():
                return place / (stem + suffix)
    return None


def read(folder: Path) -> tuple[list[str], Model]:
    """Read a model folder, binary where it is there, else text: names, and the model of all of them.

    Raises FileError where files are missing, torn, or hold a camera model that is not one of
    :data:`.model.CAMERA_MODELS`.
    """
    suffix = ".bin" if (folder / "cameras.bin").is_file() else ".txt"
    try:
        points = (_points_binary if suffix == ".bin" else _points_text)(folder / f"points3D{suffix}")
        return _model(cameras(folder / f"cameras{suffix}"), images(folder / f"images{suffix}"), points)
    except (OSError, ValueError, KeyError, IndexError, OverflowError, struct.error) as error:
        text = f"no {error.args[0]!r}" if isinstance(error, KeyError) else reason(error)
        raise FileError(f"COLMAP model {quoted(folder)}: {text}") from error


def cameras(path: Path) -> dict[int, Lens]:
    """The cameras of ``cameras.txt`` or ``.bin``, by number, in COLMAP's pixels.

    Raises OSError, ValueError or struct.error.
    """
    if path.suffix.lower() == ".bin":
        return _cameras_binary(path)
    out = {}
    for number, line in _lines(path):
        words = line.split()
        if len(words) < 5:
            raise ValueError(f"{path.name} line {number}: {quoted(line[:80])}, want a camera")
        out[int(words[0])] = _lens(words[1], int(words[2]), int(words[3]), [float(w) for w in words[4:]])
    return out


def images(path: Path) -> list[Image]:
    """The pictures of ``images.txt`` or ``.bin``. Raises OSError, ValueError or struct.error."""
    out = _images_binary(path) if path.suffix.lower() == ".bin" else _images_text(path)
    seen: set[str] = set()
    for image in out:
        if image.name in seen:
            raise ValueError(f"{path.name}: {quoted(image.name)} is there twice")
        seen.add(image.name)
    return out


_Points = dict[int, tuple[F64, tuple[int, ...]]]


def _model(lenses: dict[int, Lens], pictures: list[Image], points: _Points) -> tuple[list[str], Model]:
    row = {p: k for k, p in enumerate(points)}
    poses = np.tile(np.eye(4), (len(pictures), 1, 1))
    seen, by, at = [], [], []
    for k, image in enumerate(pictures):
        poses[k] = image.pose
        known = image.ids >= 0
        seen.append(np.array([row[int(i)] for i in image.ids[known]], np.int64))
        by.append(np.full(int(known.sum()), k))
        at.append(image.xy[known] - 0.5)
    for number, (place, colour) in points.items():
        if not np.isfinite(place).all() or not all(0 <= c <= 255 for c in colour):
            raise ValueError(f"point {number}: {place.tolist()} {colour}, want finite numbers and bytes")
    empty = np.zeros(0, np.int64)
    return [image.name for image in pictures], Model(
        np.arange(len(pictures)),
        poses,
        tuple(lenses[image.camera].moved(-0.5) for image in pictures),
        np.array([p[0] for p in points.values()]).reshape(-1, 3),
        np.array([p[1] for p in points.values()], np.uint8).reshape(-1, 3),
        np.concatenate(seen) if seen else empty,
        np.concatenate(by) if by else empty,
        np.concatenate(at) if at else np.zeros((0, 2)),
    )


def _lens(name: str, width: int, height: int, params: Sequence[float]) -> Lens:
    if name == "RADIAL" and len(params) == 5:
        f, cx, cy, k1, k2 = params
        name, params = "OPENCV", (f, f, cx, cy, k1, k2, 0.0, 0.0)
    if name not in CAMERA_MODELS or len(params) != len(CAMERA_MODELS[name][1]):
        raise ValueError(
            f"camera model {name} with {len(params)} parameters, want RADIAL, {', '.join(CAMERA_MODELS)}: "
            "undistort the pictures first"
        )
    return Lens(name, width, height, tuple(params))


def _pose(numbers: npt.ArrayLike, name: str) -> F64:
    """From a quaternion (w, x, y, z) and a translation."""
    values = np.asarray(numbers, np.float64)
    size = float(np.linalg.norm(values[:4])) if np.isfinite(values).all() else 0.0
    if not 0.1 < size < 10:
        raise ValueError(f"{quoted(name)}: quaternion and translation {values.tolist()}, want a pose")
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation(values[:4]), values[4:]
    return check_pose(pose, quoted(name))


# ---- text --------------------------------------------------------------------------------


def _lines(path: Path) -> list[tuple[int, str]]:
    """Lines with their numbers; no comments, nothing empty."""
    lines = enumerate(read_text(path).split("\n"), 1)
    return [(k, text) for k, line in lines if (text := line.strip()) and not text.startswith("#")]


def _images_text(path: Path) -> list[Image]:
    """A line of a pose, and one of points, which may be empty or not there at all."""
    out: list[Image] = []
    waiting = False  # the last picture may have points yet
    for number, line in _lines(path):
        points = _points2d(line)
        if points is None:
            words = line.split(None, 9)
            if len(words) < 10 or not _is_pose(words):
                raise ValueError(f"{path.name} line {number}: {quoted(line[:80])}, want a picture's pose")
            pose = _pose([float(w) for w in words[1:8]], words[9])
            out.append(Image(words[9], pose, int(words[8]), np.zeros((0, 2)), np.zeros(0, np.int64)))
        elif not waiting:
            raise ValueError(f"{path.name} line {number}: points of no picture")
        else:
            out[-1] = out[-1]._replace(xy=points[0], ids=points[1])
        waiting = points is None
    return out


def _is_pose(words: Sequence[str]) -> bool:
    try:
        return int(words[0]) >= 0 and int(words[8]) >= 0 and len([float(w) for w in words[1:8]]) == 7
    except ValueError:
        return False


def _points2d(line: str) -> tuple[F64, I64] | None:
    """Triples of x, y and a point's number; None for a line that is none of them."""
    words = line.split()
    if len(words) % 3:
        return None
    try:
        numbers = np.array(words, np.float64).reshape(-1, 3)
        return np.ascontiguousarray(numbers[:, :2]), np.array([int(w) for w in words[2::3]], np.int64)
    except (ValueError, OverflowError):
        return None


def _points_text(path: Path) -> _Points:
    out = {}
    for number, line in _lines(path):
        words = line.split()
        if len(words) < 8:
            raise ValueError(f"{path.name} line {number}: {quoted(line[:80])}, want a point")
        colour = tuple(int(w) for w in words[4:7])
        out[int(words[0])] = (np.array([float(w) for w in words[1:4]]), colour)
    return out


# ---- binary ------------------------------------------------------------------------------


class _Bytes:
    """A file's bytes, taken from the front; what is not there is an error and not a wait."""

    def __init__(self, path: Path) -> None:
        self.data, self.at = read_bytes(path), 0

    def take(self, form: str) -> tuple[float, ...]:
        out = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return out

    def rows(self, dtype: np.dtype[np.void], count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.void]]:
        if count * dtype.itemsize > len(self.data) - self.at:
            raise ValueError(f"{count} rows where {len(self.data) - self.at} bytes are left")
        out = np.frombuffer(self.data, dtype, count, self.at)
        self.at += count * dtype.itemsize
        return out

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        out = self.data[self.at : end].decode("utf-8", "surrogateescape")
        self.at = end + 1
        return out


def _cameras_binary(path: Path) -> dict[int, Lens]:
    file, out = _Bytes(path), {}
    for _ in range(int(file.take("<Q")[0])):
        number, model, width, height = map(int, file.take("<IiQQ"))
        if model not in _MODELS:
            raise ValueError(f"{path.name}: camera model number {model}")
        name, count = _MODELS[model]
        out[number] = _lens(name, width, height, file.take(f"<{count}d"))
    return out


def _images_binary(path: Path) -> list[Image]:
    file, out = _Bytes(path), []
    point2d = np.dtype([("xy", "<f8", 2), ("id", "<i8")])
    for _ in range(int(file.take("<Q")[0])):
        head = file.take("<I7dI")
        name = file.text()
        rows = file.rows(point2d, int(file.take("<Q")[0]))
        out.append(Image(name, _pose(head[1:8], name), int(head[8]), rows["xy"], rows["id"]))
    return out


def _points_binary(path: Path) -> _Points:
    file, out = _Bytes(path), {}
    for _ in range(int(file.take("<Q")[0])):
        row = file.take("<Q3d3BdQ")
        out[int(row[0])] = (np.array(row[1:4]), tuple(map(int, row[4:7])))
        file.rows(np.dtype([("image", "<u4"), ("index", "<u4")]), int(row[8]))
    return out
