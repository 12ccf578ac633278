# SPDX-License-Identifier: Apache-2.0
"""Which pixels of two pictures with depth show the same place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._output.far import narrow
from .._results.results import MatchResult
from ..errors import ArgumentError, SceneError, quoted
from .dense import DepthMap
from .model import F64, Lens
from .parts import Picture

__all__ = ["correspondences"]

I64 = npt.NDArray[np.int64]

NEAR = 1.0  # network pixels from where it started within which a pixel comes back


@dataclass(frozen=True)
class _Side:
    """A picture with all that is needed to go from its pixels to the world and back."""

    depth: DepthMap
    lens: Lens
    pose: F64

    @classmethod
    def of(cls, p: Picture) -> _Side:
        if p.depth is None or p.pose is None or p.lens is None:
            raise SceneError(f"picture {quoted(p.name)}: {p.status}, it has no dense depth")
        return cls(p.depth, p.lens, p.pose)

    def world(self, x: I64, y: I64) -> F64:
        """Points of whole pixels."""
        rays = self.lens.rays(self.depth.transform.to_original(np.stack([x, y], 1)))
        points = rays * self.depth.depth[y, x].astype(np.float64)[:, None]
        return np.asarray(points @ self.pose[:3, :3].T + self.pose[:3, 3])

    def see(self, points: F64) -> tuple[F64, F64, I64, I64, npt.NDArray[np.bool_]]:
        """Where points are: network pixels and depth, the nearest pixel, whether it is one that was kept."""
        own = (points - self.pose[:3, 3]) @ self.pose[:3, :3]
        height, width = self.depth.depth.shape
        front = own[:, 2] > 0
        xy = np.full((len(points), 2), -1.0)
        xy[front] = self.depth.transform.to_network(self.lens.pixels(own[front]))
        near = np.rint(np.nan_to_num(xy, nan=-1.0, posinf=-1.0, neginf=-1.0).clip(-1, max(height, width)))
        x, y = near[:, 0].astype(np.int64), near[:, 1].astype(np.int64)
        good = front & (x >= 0) & (y >= 0) & (x < width) & (y < height)
        x, y = np.where(good, x, 0), np.where(good, y, 0)
        return xy, own[:, 2], x, y, good & self.depth.keep[y, x]


def correspondences(a: Picture, b: Picture, tolerance: float, stride: int) -> MatchResult:
    """See :meth:`.Scene.correspondences`."""
    if not 0 < tolerance <= 1:
        raise ArgumentError(f"tolerance {tolerance}, want above 0 and at most 1")
    if stride < 1:
        raise ArgumentError(f"stride {stride}, want at least 1")
    one, two = _Side.of(a), _Side.of(b)
    kept = np.zeros_like(one.depth.keep)
    kept[stride // 2 :: stride, stride // 2 :: stride] = True
    y1, x1 = np.nonzero(kept & one.depth.keep)
    there = one.world(x1, y1)
    xy2, z2, x2, y2, seen = two.see(there)
    difference = _difference(z2, two.depth.depth[y2, x2], seen)
    keep = difference < tolerance
    x1, y1, x2, y2 = x1[keep], y1[keep], x2[keep], y2[keep]
    there, xy2, difference = there[keep], xy2[keep], difference[keep]
    found = two.world(x2, y2)
    xy1, z1, xb, yb, seen = one.see(found)
    back = _difference(z1, one.depth.depth[yb, xb], seen)
    worst = np.maximum(difference, back)
    keep = (worst < tolerance) & (np.abs(xy1 - np.stack([x1, y1], 1)).max(1, initial=0) <= NEAR)
    confidence = (1 - worst[keep] / tolerance).astype(np.float32)
    order = np.argsort(-confidence, kind="stable")
    best = np.flatnonzero(keep)[order]
    x1, y1, x2, y2 = x1[best], y1[best], x2[best], y2[best]
    there, found, xy2 = there[best], found[best], xy2[best]
    n = len(best)
    scale = two.depth.transform.scale
    return MatchResult(
        y1 * one.depth.depth.shape[1] + x1,
        y2 * two.depth.depth.shape[1] + x2,
        np.stack([x1, y1], 1).astype(np.float32),
        xy2.astype(np.float32),
        narrow(there),
        narrow(found),
        confidence[order],
        {},
        one.depth.transform,
        two.depth.transform,
        # Half a network pixel in either direction: depth says no more.
        np.tile(np.diag([0.25 * scale[0] ** 2, 0.25 * scale[1] ** 2]).astype(np.float32), (n, 1, 1)),
        np.zeros(n, np.bool_),
        int(kept.sum()),
        None,
        np.ones(n, np.bool_),
        "geometry",
    )


def _difference(expected: F64, depth: npt.NDArray[np.float32], seen: npt.NDArray[np.bool_]) -> F64:
    """Relative difference of depths, infinite where there is nothing to compare."""
    d = depth.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(seen & (d > 0), np.abs(expected - d) / d, np.inf)
