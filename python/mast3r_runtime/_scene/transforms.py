# SPDX-License-Identifier: Apache-2.0
"""nerfstudio's ``transforms.json`` as it is given: frames with names, poses and cameras."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._files.plain import read_text
from .files import from_opengl
from .model import F64, Lens, check_pose

__all__ = ["frames", "lens", "poses"]

# What OPENCV fits, or a part of it. Everything else bends light in another way.
MODELS = ("OPENCV", "PINHOLE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL", "PERSPECTIVE")
HIGHER = ("k3", "k4", "k5", "k6")  # terms of distortion that no camera model here has


def frames(path: Path) -> dict[str, dict[str, Any]]:
    """The frames by their file's name, each with what holds for all of them beneath its own values.

    Raises OSError, or ValueError, also where a name is there twice.
    """
    values = json.loads(read_text(path))
    if not isinstance(values, dict) or not isinstance(values.get("frames"), list):
        raise ValueError("no list of frames in it")
    out: dict[str, dict[str, Any]] = {}
    for number, frame in enumerate(values["frames"]):
        if not isinstance(frame, dict) or not isinstance(frame.get("file_path"), str):
            raise ValueError(f"frame {number}: no file_path")
        name = frame["file_path"]
        if name in out:
            raise ValueError(f"frame {number}: {name!r} is there twice")
        out[name] = {**values, **frame}
        del out[name]["frames"]
    return out


def lens(frame: Mapping[str, Any], size: tuple[int, int]) -> Lens:
    """The camera of a frame; what it does not say of it is that of a picture of this size.

    Raises ValueError for a projection that no camera model here has, and for what says no focal length.
    """
    _plain(frame)
    width, height = (_whole(frame, k, default) for k, default in zip(("w", "h"), size, strict=True))
    if "fl_x" in frame or "fl_y" in frame:
        x, y = ("fl_x" if "fl_x" in frame else "fl_y"), ("fl_y" if "fl_y" in frame else "fl_x")
        focal = [_number(frame, x), _number(frame, y)]
    elif "camera_angle_x" in frame:
        across = _from_angle(frame, "camera_angle_x", width)
        down = _from_angle(frame, "camera_angle_y", height) if "camera_angle_y" in frame else across
        focal = [across, down]
    else:
        raise ValueError("no focal length: want fl_x or camera_angle_x")
    middle = [_number(frame, "cx", width / 2) - 0.5, _number(frame, "cy", height / 2) - 0.5]
    bent = [_number(frame, k, 0.0) for k in ("k1", "k2", "p1", "p2")]
    return Lens("OPENCV", width, height, (*focal, *middle, *bent))


def _plain(frame: Mapping[str, Any]) -> None:
    """Refuse what is no perspective camera with the terms that ours have."""
    model = str(frame.get("camera_model") or "OPENCV").upper()
    if "FISHEYE" in model or frame.get("is_fisheye") not in (None, False, 0):
        raise ValueError("a fisheye camera, which fits none of ours: undistort the pictures first")
    if model not in MODELS:
        raise ValueError(
            f"camera model {model[:80]}, want one of {', '.join(MODELS)}; undistort the pictures"
        )
    for name in HIGHER:
        if _number(frame, name, 0.0):
            raise ValueError(
                f"{name} is {frame[name]}, want 0: no camera model here has it; undistort the pictures"
            )


def _from_angle(frame: Mapping[str, Any], name: str, side: int) -> float:
    angle = _number(frame, name)
    if not 0 < angle < math.pi:
        raise ValueError(f"{name} {angle:g}, want radians between 0 and {math.pi:.4f}")
    return side / 2 / math.tan(angle / 2)


def _number(frame: Mapping[str, Any], name: str, default: float | None = None) -> float:
    value = frame.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r:.80}, want a finite number")
    return float(value)


def _whole(frame: Mapping[str, Any], name: str, default: int) -> int:
    value = _number(frame, name, default)
    if value != int(value) or value < 1:
        raise ValueError(f"{name} is {value:g}, want a whole number of pixels")
    return int(value)


def poses(found: Mapping[str, Mapping[str, Any]]) -> dict[str, F64]:
    """World-from-camera poses ``[4, 4]``, OpenCV's axes, by the frames' names.

    The ``applied_transform`` is undone; without one the file's world, z up, becomes ours, y down.
    """
    out = {}
    for name, frame in found.items():
        if _number(frame, "applied_scale", 1.0) != 1:
            raise ValueError(f"applied_scale {frame['applied_scale']}: want poses in the scale of the scene")
        back = None
        if frame.get("applied_transform") is not None:
            rows = _matrix(frame["applied_transform"], "applied_transform")
            back = np.asarray(np.linalg.inv(check_pose(rows, "applied_transform")))
        if "transform_matrix" not in frame:
            raise ValueError(f"{name}: no transform_matrix")
        what = f"{name}: transform_matrix"
        out[name] = from_opengl(check_pose(_matrix(frame["transform_matrix"], what), what), back)
    return out


def _matrix(rows: object, what: str) -> F64:
    """Four rows; the last may be missing."""
    try:
        matrix = np.array(rows, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{what}: {str(rows)[:80]}, want rows of four numbers") from error
    return np.vstack([matrix, [0, 0, 0, 1]]) if matrix.shape == (3, 4) else matrix
