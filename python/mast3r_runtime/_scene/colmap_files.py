# SPDX-License-Identifier: Apache-2.0
"""COLMAP's model folder, text and binary, written and read without COLMAP.

The files are those of COLMAP 4: cameras, images, points3D, rigs, frames. Every picture is a frame
of its own in the trivial rig of its camera. COLMAP's first pixel has its centre at 0.5 and ours at
0, so pixels and principal points move by half a pixel on the way.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from .._files.whole import replacing
from ..errors import FileError, quoted, reason
from .model import CAMERA_MODELS, F64, Lens, Model

__all__ = ["quaternion", "read", "rotation", "write_binary", "write_text"]

FILES = ("cameras", "images", "points3D", "rigs", "frames")
_NAMES = {number: name for name, (number, _) in CAMERA_MODELS.items()}
_NONE = 0xFFFFFFFFFFFFFFFF  # the number of no point


def quaternion(matrix: F64) -> F64:
    """(w, x, y, z) of a rotation matrix, w >= 0."""
    m = np.asarray(matrix, np.float64)
    # The largest of the four squares decides which row to divide by: no loss of digits.
    k = np.array(
        [
            [1 + m[0, 0] + m[1, 1] + m[2, 2], m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], 1 + m[0, 0] - m[1, 1] - m[2, 2], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0]],
            [m[0, 2] - m[2, 0], m[0, 1] + m[1, 0], 1 - m[0, 0] + m[1, 1] - m[2, 2], m[1, 2] + m[2, 1]],
            [m[1, 0] - m[0, 1], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], 1 - m[0, 0] - m[1, 1] + m[2, 2]],
        ]
    )
    q = k[int(np.argmax(np.diag(k)))]
    q = q / np.linalg.norm(q)
    return np.asarray(q if q[0] >= 0 else -q)


def rotation(q: Sequence[float] | F64) -> F64:
    """The rotation matrix of (w, x, y, z)."""
    w, x, y, z = np.asarray(q, np.float64) / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


class _Table:
    """A model in COLMAP's numbers, which begin at 1."""

    def __init__(self, names: Sequence[str], model: Model) -> None:
        self.lenses = list(dict.fromkeys(lens.moved(0.5) for lens in model.lenses))
        self.camera = [self.lenses.index(lens.moved(0.5)) + 1 for lens in model.lenses]
        self.names = [names[int(i)] for i in model.pictures]
        self.poses = [(*quaternion(p[:3, :3]), *p[:3, 3]) for p in model.poses]
        self.points, self.colours = model.points, model.colours
        row = {int(i): k for k, i in enumerate(model.pictures)}
        self.xy: list[F64] = []
        self.ids: list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = []
        image = np.array([row[int(i)] for i in model.seen_by], np.int64)
        index = np.zeros(len(image), np.int64)
        for k in range(len(model.pictures)):
            own = np.flatnonzero(image == k)
            index[own] = np.arange(len(own))
            self.xy.append(model.seen_at[own] + 0.5)
            self.ids.append(model.seen[own] + 1)
        order = np.argsort(model.seen, kind="stable")
        cuts = np.cumsum(np.bincount(model.seen, minlength=len(model.points)))[:-1]
        self.tracks = np.split(np.stack([image[order] + 1, index[order]], 1), cuts)
        total = np.bincount(model.seen, model.errors(), minlength=len(model.points))
        self.errors = total / np.maximum(model.track_lengths(), 1)


def write_text(folder: Path, names: Sequence[str], model: Model) -> None:
    """Write the five ``.txt`` files. ``names`` are those of the caller's whole list."""
    folder.mkdir(parents=True, exist_ok=True)
    table = _Table(names, model)
    texts = (_cameras_text, _images_text, _points3D_text, _rigs_text, _frames_text)
    for file, lines in zip(FILES, texts, strict=True):
        with replacing(folder / f"{file}.txt") as temporary:
            temporary.write_text("".join(f"{line}\n" for line in lines(table)), encoding="utf-8")


def _cameras_text(t: _Table) -> Iterator[str]:
    yield "# CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]"
    for k, lens in enumerate(t.lenses, 1):
        yield f"{k} {lens.model} {lens.width} {lens.height} {_words(lens.params)}"


def _images_text(t: _Table) -> Iterator[str]:
    yield "# IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME"
    yield "# POINTS2D[] as (X, Y, POINT3D_ID)"
    for k, (name, pose, camera) in enumerate(zip(t.names, t.poses, t.camera)):
        yield f"{k + 1} {_words(pose)} {camera} {name}"
        yield " ".join(f"{x!r} {y!r} {i}" for (x, y), i in zip(t.xy[k].tolist(), t.ids[k]))


def _points3D_text(t: _Table) -> Iterator[str]:
    yield "# POINT3D_ID, X, Y, Z, R, G, B, ERROR, TRACK[] as (IMAGE_ID, POINT2D_IDX)"
    for k, (xyz, rgb) in enumerate(zip(t.points, t.colours)):
        track = " ".join(f"{i} {n}" for i, n in t.tracks[k])
        yield f"{k + 1} {_words(xyz)} {' '.join(map(str, rgb))} {float(t.errors[k])!r} {track}"


def _rigs_text(t: _Table) -> Iterator[str]:
    yield "# RIG_ID, NUM_SENSORS, REF_SENSOR_TYPE, REF_SENSOR_ID, SENSORS[]"
    for k in range(1, len(t.lenses) + 1):
        yield f"{k} 1 CAMERA {k}"


def _frames_text(t: _Table) -> Iterator[str]:
    yield "# FRAME_ID, RIG_ID, RIG_FROM_WORLD[QW, QX, QY, QZ, TX, TY, TZ], NUM_DATA_IDS, DATA_IDS[]"
    for k, (pose, camera) in enumerate(zip(t.poses, t.camera), 1):
        yield f"{k} {camera} {_words(pose)} 1 CAMERA {camera} {k}"


def _words(numbers: Sequence[float] | F64) -> str:
    return " ".join(repr(float(v)) for v in numbers)


def write_binary(folder: Path, names: Sequence[str], model: Model) -> None:
    """Write the five ``.bin`` files."""
    folder.mkdir(parents=True, exist_ok=True)
    table = _Table(names, model)
    pieces = (_cameras_binary, _images_binary, _points3D_binary, _rigs_binary, _frames_binary)
    for file, parts in zip(FILES, pieces, strict=True):
        with replacing(folder / f"{file}.bin") as temporary:
            temporary.write_bytes(b"".join(parts(table)))


def _cameras_binary(t: _Table) -> Iterator[bytes]:
    yield struct.pack("<Q", len(t.lenses))
    for k, lens in enumerate(t.lenses, 1):
        yield struct.pack("<IiQQ", k, CAMERA_MODELS[lens.model][0], lens.width, lens.height)
        yield struct.pack(f"<{len(lens.params)}d", *lens.params)


def _images_binary(t: _Table) -> Iterator[bytes]:
    yield struct.pack("<Q", len(t.names))
    for k, (name, pose, camera) in enumerate(zip(t.names, t.poses, t.camera)):
        yield struct.pack("<I7dI", k + 1, *pose, camera) + name.encode() + b"\0"
        rows = np.empty(len(t.ids[k]), np.dtype([("xy", "<f8", 2), ("id", "<u8")]))
        rows["xy"], rows["id"] = t.xy[k], t.ids[k]
        yield struct.pack("<Q", len(rows)) + rows.tobytes()


def _points3D_binary(t: _Table) -> Iterator[bytes]:
    yield struct.pack("<Q", len(t.points))
    for k, (xyz, rgb) in enumerate(zip(t.points, t.colours)):
        yield struct.pack("<Q3d3BdQ", k + 1, *xyz, *map(int, rgb), t.errors[k], len(t.tracks[k]))
        yield t.tracks[k].astype("<u4").tobytes()


def _rigs_binary(t: _Table) -> Iterator[bytes]:
    yield struct.pack("<Q", len(t.lenses))
    for k in range(1, len(t.lenses) + 1):
        yield struct.pack("<IIiI", k, 1, 0, k)


def _frames_binary(t: _Table) -> Iterator[bytes]:
    yield struct.pack("<Q", len(t.poses))
    for k, (pose, camera) in enumerate(zip(t.poses, t.camera), 1):
        yield struct.pack("<II7dIiIQ", k, camera, *pose, 1, 0, camera, k)


# ---- reading -----------------------------------------------------------------------------


def read(folder: Path) -> tuple[list[str], Model]:
    """Read a model folder, binary where it is there, else text: names, and the model of all of them.

    Raises FileError where files are missing, torn, or hold a camera model that is not one of
    :data:`.model.CAMERA_MODELS`.
    """
    binary = (folder / "cameras.bin").is_file()
    try:
        cameras, images, points = _read_binary(folder) if binary else _read_text(folder)
        return _model(cameras, images, points)
    except (OSError, ValueError, KeyError, IndexError, struct.error, UnicodeDecodeError) as error:
        raise FileError(f"COLMAP model {quoted(folder)}: {reason(error)}") from error


_Image = tuple[str, F64, int, F64, "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"]
_Points = dict[int, tuple[F64, tuple[int, ...]]]


def _model(cameras: dict[int, Lens], images: list[_Image], points: _Points) -> tuple[list[str], Model]:
    row = {p: k for k, p in enumerate(points)}
    poses = np.tile(np.eye(4), (len(images), 1, 1))
    seen, by, at = [], [], []
    for k, (_, pose, _, xy, ids) in enumerate(images):
        poses[k, :3, :3], poses[k, :3, 3] = rotation(pose[:4]), pose[4:]
        known = ids >= 0
        seen.append(np.array([row[int(i)] for i in ids[known]], np.int64))
        by.append(np.full(int(known.sum()), k))
        at.append(xy[known] - 0.5)
    empty = np.zeros(0, np.int64)
    return [image[0] for image in images], Model(
        np.arange(len(images)),
        poses,
        tuple(cameras[image[2]].moved(-0.5) for image in images),
        np.array([p[0] for p in points.values()]).reshape(-1, 3),
        np.array([p[1] for p in points.values()], np.uint8).reshape(-1, 3),
        np.concatenate(seen) if seen else empty,
        np.concatenate(by) if by else empty,
        np.concatenate(at) if at else np.zeros((0, 2)),
    )


def _lens(name: str, width: int, height: int, params: Sequence[float]) -> Lens:
    if name not in CAMERA_MODELS or len(params) != len(CAMERA_MODELS[name][1]):
        raise ValueError(
            f"camera model {name} with {len(params)} parameters, want {', '.join(CAMERA_MODELS)}"
        )
    return Lens(name, width, height, tuple(map(float, params)))


def _rows(path: Path, keep_empty: bool = False, words: int = -1) -> list[list[str]]:
    """The words of every line, ``words`` and the rest of the line as one more."""
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("#") and (keep_empty or line.strip())]
    return [line.split(None, words) for line in kept]


def read_cameras_text(path: Path) -> dict[int, Lens]:
    """The cameras of a ``cameras.txt``, by number, in COLMAP's pixels."""
    return {int(w[0]): _lens(w[1], int(w[2]), int(w[3]), [float(v) for v in w[4:]]) for w in _rows(path)}


def read_poses_text(path: Path) -> dict[str, F64]:
    """Poses ``[4, 4]``, camera from world, by name, of an ``images.txt``; its points are not looked at."""
    out = {}
    for head in _rows(path, keep_empty=True, words=9)[::2]:
        if not head:
            continue
        pose, numbers = np.eye(4), np.array(head[1:8], np.float64)
        if not (np.isfinite(numbers).all() and len(head) >= 10 and np.linalg.norm(numbers[:4]) > 0.1):
            raise ValueError(f"line {' '.join(head)!r}: no pose of a picture")
        pose[:3, :3], pose[:3, 3] = rotation(numbers[:4]), numbers[4:]
        out[head[9]] = pose
    return out


def _read_text(folder: Path) -> tuple[dict[int, Lens], list[_Image], _Points]:
    images = []
    path = folder / "images.txt"
    heads, tails = (_rows(path, keep_empty=True, words=words) for words in (9, -1))
    for head, tail in zip(heads[::2], tails[1::2]):
        numbers = np.array(tail, np.float64).reshape(-1, 3)
        pose = np.array(head[1:8], np.float64)
        ids = np.array(tail[2::3], np.int64)
        images.append((head[9], pose, int(head[8]), numbers[:, :2], ids))
    points = {
        int(w[0]): (np.array(w[1:4], np.float64), tuple(map(int, w[4:7])))
        for w in _rows(folder / "points3D.txt")
    }
    return read_cameras_text(folder / "cameras.txt"), images, points


class _Bytes:
    """A file's bytes, taken from the front; what is not there is an error and not a wait."""

    def __init__(self, path: Path) -> None:
        self.data, self.at = path.read_bytes(), 0

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
        out = self.data[self.at : end].decode()
        self.at = end + 1
        return out


def _read_binary(folder: Path) -> tuple[dict[int, Lens], list[_Image], _Points]:
    file, cameras = _Bytes(folder / "cameras.bin"), {}
    for _ in range(int(file.take("<Q")[0])):
        number, model, width, height = map(int, file.take("<IiQQ"))
        name = _NAMES[model]
        cameras[number] = _lens(name, width, height, file.take(f"<{len(CAMERA_MODELS[name][1])}d"))
    file, images = _Bytes(folder / "images.bin"), []
    point2d = np.dtype([("xy", "<f8", 2), ("id", "<i8")])
    for _ in range(int(file.take("<Q")[0])):
        head = file.take("<I7dI")
        name = file.text()
        rows = file.rows(point2d, int(file.take("<Q")[0]))
        images.append((name, np.array(head[1:8]), int(head[8]), rows["xy"], rows["id"]))
    file, points = _Bytes(folder / "points3D.bin"), {}
    for _ in range(int(file.take("<Q")[0])):
        row = file.take("<Q3d3BdQ")
        points[int(row[0])] = (np.array(row[1:4]), tuple(map(int, row[4:7])))
        file.rows(np.dtype([("image", "<u4"), ("index", "<u4")]), int(row[8]))
    return cameras, images, points
