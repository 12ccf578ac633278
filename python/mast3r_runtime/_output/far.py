# SPDX-License-Identifier: Apache-2.0
"""Coordinates far from their world's origin, as those of maps are: millions of metres.

A float32 has 24 bits: at 5,000 km its steps are half a metre. Where the steps would be seen, points
stay float64, or are counted from an origin of their own.
"""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt

__all__ = ["far", "finite", "narrow", "origin"]

F64 = npt.NDArray[np.float64]
Floating = npt.NDArray[np.floating]

SHARE = 0.01  # of the distance between neighbours, which rounding may move a point
SAMPLE = 100_000  # points that are looked at
LARGEST = 1e30  # a coordinate above this is none: float32 ends soon after it

_log = logging.getLogger("mast3r_runtime")


def _usable(points: Floating) -> npt.NDArray[np.bool_]:
    """Which rows ``[N]`` of points are numbers that a file or a screen can hold."""
    return np.asarray((np.abs(points) < LARGEST).all(-1))  # NaN compares as false


def finite(points: Floating, what: str) -> npt.NDArray[np.bool_]:
    """Which points ``[N, 3]`` are finite and below 1e30; the log counts the others."""
    good = _usable(points)
    if not good.all():
        _log.warning("%s: %d of %d points are not finite and left out", what, (~good).sum(), len(points))
    return good


def _middle(points: Floating) -> tuple[F64, F64, int]:
    """The 1st and 99th percentile of each axis, and how many points there are."""
    flat = np.asarray(points).reshape(-1, 3)
    seen = flat[:: max(len(flat) // SAMPLE, 1)].astype(np.float64)
    seen = seen[_usable(seen)]
    if not len(seen):
        return np.zeros(3), np.zeros(3), 0
    low, high = np.percentile(seen, (1, 99), axis=0)
    return low, high, len(flat)


def far(points: Floating) -> bool:
    """Whether float32 would move points ``[..., 3]`` by more than a hundredth of what lies between them.

    Neighbours are taken to be the extent over the root of the count apart, as on a surface.
    """
    low, high, count = _middle(points)
    rounding = float(np.abs([low, high]).max()) * 2.0**-24
    return bool(rounding > SHARE * float((high - low).max()) / max(count, 1) ** 0.5)


def narrow(points: F64) -> Floating:
    """As float32 where that is exact enough, else as they are."""
    return points if far(points) else points.astype(np.float32)


def origin(points: Floating) -> F64:
    """From where to count far points ``[..., 3]``: whole numbers near their middle; 0 where they are near."""
    if not far(points):
        return np.zeros(3)
    low, high, _ = _middle(points)
    return np.asarray(np.rint((low + high) / 2))
