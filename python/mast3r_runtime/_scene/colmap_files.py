# SPDX-License-Identifier: Apache-2.0
"""COLMAP's model folder, text and binary, written without COLMAP; ``colmap_read`` reads it.

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
from .model import CAMERA_MODELS, F64, Model

__all__ = ["quaternion", "rotation", "write_binary", "write_text"]

FILES = ("cameras", "images", "points3D", "rigs", "frames")


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
