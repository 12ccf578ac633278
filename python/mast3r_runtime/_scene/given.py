# SPDX-License-Identifier: Apache-2.0
"""What the user gives in files: cameras, pairs, masks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._pictures.arrays import U8
from .._pictures.reading import read_image
from ..errors import ArgumentError, quoted, reason
from . import colmap_files
from .files import from_opengl
from .model import F64, Lens

__all__ = ["intrinsics", "masks", "pairs", "poses", "scale"]


def intrinsics(text: str, sizes: dict[str, tuple[int, int]]) -> dict[str, Lens]:
    """Lenses by name from ``FX,FY,CX,CY`` (original pixels, centres at whole numbers) or a file.

    ``cameras.txt`` of COLMAP holds for all pictures where it has one camera, else the ``images.txt``
    beside it says whose each is; ``transforms.json`` of nerfstudio has one for all or one a frame.
    """
    path = Path(text)
    if path.suffix == ".json":
        return _of_transforms(path, sizes)
    if path.suffix == ".txt":
        return _of_colmap(path, sizes)
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 4 or not np.isfinite(numbers).all() or min(numbers[:2]) <= 0:
        raise ArgumentError(
            f"intrinsics {quoted(text)}: want FX,FY,CX,CY with focal lengths above 0, "
            "cameras.txt, or transforms.json"
        )
    return {name: Lens("PINHOLE", w, h, tuple(numbers)) for name, (w, h) in sizes.items()}


def _of_colmap(path: Path, sizes: dict[str, tuple[int, int]]) -> dict[str, Lens]:
    try:
        cameras = {k: lens.moved(-0.5) for k, lens in colmap_files.read_cameras_text(path).items()}
        if len(cameras) == 1:
            return dict.fromkeys(sizes, next(iter(cameras.values())))
        lines = path.with_name("images.txt").read_text(encoding="utf-8").splitlines()
        rows = [line.split() for line in lines if not line.startswith("#")][::2]
        whose = {" ".join(words[9:]): cameras[int(words[8])] for words in rows if len(words) > 9}
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise ArgumentError(f"intrinsics {quoted(path)}: {reason(error)}") from error
    return {name: lens for name, lens in whose.items() if name in sizes}


def _of_transforms(path: Path, sizes: dict[str, tuple[int, int]]) -> dict[str, Lens]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        frames = {frame["file_path"]: {**values, **frame} for frame in values["frames"]}
        out = {}
        for name in sizes:
            own = [f for p, f in frames.items() if p == name or p.endswith("/" + name)]
            if own:
                out[name] = _opencv(own[0])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(f"intrinsics {quoted(path)}: {error!r}") from error
    return out


def poses(path: Path, names: Sequence[str]) -> dict[str, F64]:
    """World-from-camera poses ``[4, 4]`` by name, OpenCV's axes, of the pictures that the file has.

    ``images.txt`` of COLMAP gives its own world. Of a ``transforms.json`` the ``applied_transform``
    is undone; without one its world, z up, becomes ours, y down: what is written again is the same.
    """
    try:
        if path.suffix == ".json":
            found = _transforms_poses(json.loads(path.read_text(encoding="utf-8")))
        else:
            read = colmap_files.read_poses_text(path)
            found = {name: np.asarray(np.linalg.inv(pose)) for name, pose in read.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ArgumentError(f"poses {quoted(path)}: {error!r}") from error
    out = {}
    for name in names:
        own = [pose for key, pose in found.items() if key == name or key.endswith("/" + name)]
        if own:
            out[name] = own[0]
    if not out:
        raise ArgumentError(f"poses {quoted(path)}: none of these pictures, such as {', '.join(names[:2])}")
    return out


def _transforms_poses(values: dict[str, Any]) -> dict[str, F64]:
    applied = values.get("applied_transform")
    back = None if applied is None else np.linalg.inv(np.vstack([_matrix(applied, (3, 4)), [0, 0, 0, 1]]))
    out = {}
    for frame in values["frames"]:
        pose = _matrix(frame["transform_matrix"], (4, 4))
        turn = pose[:3, :3]
        if abs(np.linalg.det(turn) - 1) > 0.01 or np.abs(turn @ turn.T - np.eye(3)).max() > 0.01:
            raise ValueError(f"{frame['file_path']}: transform_matrix is no rotation and translation")
        out[str(frame["file_path"])] = from_opengl(pose, back)
    return out


def _matrix(rows: object, shape: tuple[int, int]) -> F64:
    matrix = np.array(rows, np.float64)
    if matrix.shape != shape or not np.isfinite(matrix).all():
        raise ValueError(f"a matrix of shape {list(matrix.shape)}, want {list(shape)} of finite numbers")
    return matrix


def _opencv(frame: dict[str, Any]) -> Lens:
    if "FISHEYE" in str(frame.get("camera_model", "")).upper():
        raise ValueError(f"camera model {frame['camera_model']}: fisheye lenses fit none of ours; undistort")
    focal = float(frame["fl_x"])
    params = (
        focal, float(frame.get("fl_y", focal)), float(frame["cx"]) - 0.5, float(frame["cy"]) - 0.5,
        *(float(frame.get(k, 0.0)) for k in ("k1", "k2", "p1", "p2")),
    )  # fmt: skip
    return Lens("OPENCV", int(frame["w"]), int(frame["h"]), params)


def pairs(path: Path, names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of names, one a line, with or without a score behind them.

    Names may hold spaces: a line is cut where both halves are known. Tabs, a byte order mark and
    blank lines are taken as they come; lines with names of other collections are left out.
    """
    known, out = set(names), []
    for k, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        words = line.replace("\t", " ").split(" ")
        words = [w for w in words if w]
        if not words or words[0].startswith("#"):
            continue
        if len(words) < 2:
            raise ArgumentError(f"{path} line {k}: {quoted(line)}, want two pictures and perhaps a score")
        halves = [
            (" ".join(words[:i]), " ".join(words[i:end]))
            for end in (len(words), len(words) - 1)
            for i in range(1, end)
        ]
        out += [half for half in halves if half[0] in known and half[1] in known][:1]
    if not out:
        raise ArgumentError(f"{path}: no pair of these pictures, such as {', '.join(list(names)[:2])}")
    return out


def masks(folder: Path, sizes: dict[str, tuple[int, int]]) -> dict[str, U8]:
    """Masks of the pictures that have one: the same name, or the same name with .png."""
    out = {}
    for name, (width, height) in sizes.items():
        place = folder / name
        places = [place, place.with_suffix(".png"), place.with_name(place.name + ".png")]
        found = next((p for p in places if p.is_file()), None)
        if found is None:
            continue
        mask = read_image(found)[:, :, 0]
        if mask.shape != (height, width):
            raise ArgumentError(
                f"mask {quoted(found)} of {mask.shape[1]} x {mask.shape[0]}, "
                f"its picture has {width} x {height}"
            )
        out[name] = mask
    return out


def scale(text: str, names: Sequence[str]) -> str | tuple[str, str, float] | dict[str, F64]:
    """``network``, ``none``, ``A,B=METRES``: the distance of two cameras, or a file of poses in metres."""
    if text in ("network", "none"):
        return text
    if text.endswith((".json", ".txt")) and "=" not in text:
        return {name: pose[:3, 3] for name, pose in poses(Path(text), names).items()}
    left, _, right = text.rpartition("=")
    for i, letter in enumerate(left):
        if letter == "," and left[:i] in names and left[i + 1 :] in names:
            try:
                return left[:i], left[i + 1 :], float(right)
            except ValueError:
                break
    raise ArgumentError(
        f"scale {quoted(text)}: want network, none, a file of poses, or two pictures and a distance, "
        "as a.jpg,b.jpg=1.5"
    )
