# SPDX-License-Identifier: Apache-2.0
"""Camera matrices: checked, as C arrays, and from the network's points."""

from __future__ import annotations

import ctypes as C
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentError, ShapeError
from . import calls

__all__ = ["c_matrix", "check_intrinsics", "check_pinhole", "focal_of_map"]

F64 = npt.NDArray[np.float64]


SHORTEST, LONGEST = 0.01, 1000.0  # focal lengths in long sides: 178 degrees, 0.06 degrees
WILD = 1e9  # pixels, where no size is known


def check_pinhole(fx: float, fy: float, cx: float, cy: float, size: tuple[int, int], who: str) -> None:
    """Raise ArgumentError where no camera of ``size`` (width, height) has these numbers."""
    long = max(size)
    for focal in (fx, fy):
        if not SHORTEST * long <= focal <= LONGEST * long:
            raise ArgumentError(
                f"{who}: focal length {focal:g} pixels, want {SHORTEST * long:g} to {LONGEST * long:g} "
                f"for {size[0]} x {size[1]} pixels"
            )
    for at, side in ((cx, size[0]), (cy, size[1])):
        if not -side <= at <= 2 * side:
            raise ArgumentError(
                f"{who}: principal point {cx:g}, {cy:g}, want one in or near the {size[0]} x {size[1]} pixels"
            )


def check_intrinsics(k: npt.ArrayLike) -> F64:
    """``k`` as a camera matrix ``float64 [3, 3]``; ShapeError (a ValueError) if it is not one."""
    matrix = np.asarray(k, np.float64)
    if matrix.shape != (3, 3):
        raise ShapeError(f"intrinsics of shape {matrix.shape}, want (3, 3)")
    if not np.isfinite(matrix).all():
        raise ShapeError("intrinsics with numbers that are not finite")
    if not (matrix[0, 0] > 0 and matrix[1, 1] > 0):
        raise ShapeError(f"focal lengths {matrix[0, 0]} and {matrix[1, 1]}, want above 0")
    if np.abs(matrix).max() > WILD or min(matrix[0, 0], matrix[1, 1]) < 1 / WILD:
        raise ShapeError(f"intrinsics {matrix[:2].tolist()}, want numbers up to {WILD:g}")
    if not np.array_equal(matrix[2], (0, 0, 1)):
        raise ShapeError(f"last row of the intrinsics {matrix[2].tolist()}, want [0, 0, 1]")
    return matrix


def c_matrix(k: F64) -> Any:
    """The nine numbers of a matrix as ``double[9]``."""
    return (C.c_double * 9)(*k.ravel())


def focal_of_map(points: npt.ArrayLike, height: int, width: int, cx: float, cy: float) -> float:
    """The focal length, in the map's pixels, that fits ``points [height, width, 3]`` best."""
    array = np.ascontiguousarray(points, np.float32)
    out = C.c_double()
    data = array.ctypes.data_as(C.POINTER(C.c_float))
    calls.call("mast3r_focal", data, height, width, cx, cy, out)
    return float(out.value)
