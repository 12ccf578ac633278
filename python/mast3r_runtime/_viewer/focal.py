# SPDX-License-Identifier: Apache-2.0
"""A first focal length: from EXIF, or from a pointmap of a picture's own pixels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["focal_of_points"]


def focal_of_points(points: npt.NDArray[np.floating]) -> float | None:
    """The focal length in network pixels that brings ``points [H, W, 3]`` nearest to their pixels.

    Least distances (not squares) by Weiszfeld's iteration: with a = (X/Z, Y/Z) and u the pixel
    from the middle, f minimises sum |u - f a|. None where too few points lie in front.
    """
    height, width = points.shape[:2]
    step = max(min(height, width) // 64, 1)
    y, x = np.mgrid[0:height:step, 0:width:step]
    u = np.stack([x - (width - 1) / 2, y - (height - 1) / 2], -1).reshape(-1, 2)
    xyz = points[::step, ::step].reshape(-1, 3).astype(np.float64)
    good = np.isfinite(xyz).all(1) & (xyz[:, 2] > 1e-6)
    if good.sum() < 16:
        return None
    u, a = u[good], xyz[good, :2] / xyz[good, 2:]
    weight = np.ones(len(u))
    focal = 0.0
    for _ in range(12):
        square = float((weight[:, None] * a * a).sum())
        if square <= 1e-12:
            return None
        focal = float((weight[:, None] * u * a).sum()) / square
        weight = 1 / np.maximum(np.linalg.norm(u - focal * a, axis=1), 1e-6)
    return focal if focal > 0 else None
