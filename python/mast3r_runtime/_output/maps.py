# SPDX-License-Identifier: Apache-2.0
"""Maps of the network's pixels on the pixels of the user's picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ..results import Transform

__all__ = ["resampled"]

F32 = npt.NDArray[np.float32]

# Four neighbours whose depths differ by more than this share lie on both sides of an edge.
EDGE = 0.05


def resampled(values: F32, way: Transform, depth: F32 | None) -> F32:
    """A map of the network's pixels at the pixels of the original picture: see ``at_original``."""
    height, width = values.shape[:2]
    xs = way.to_network(np.stack([np.arange(way.original_width), np.zeros(way.original_width)], 1))[:, 0]
    ys = way.to_network(np.stack([np.zeros(way.original_height), np.arange(way.original_height)], 1))[:, 1]
    out = np.full((way.original_height, way.original_width, *values.shape[2:]), np.nan, np.float32)
    columns = np.flatnonzero((xs > -0.5) & (xs < width - 0.5))
    x = np.clip(xs[columns], 0, width - 1)
    left = np.minimum(x.astype(int), max(0, width - 2))
    right = np.minimum(left + 1, width - 1)
    fx = (x - left).astype(np.float32).reshape(-1, *(1,) * (values.ndim - 2))
    near_x = np.rint(x).astype(int)
    for row in np.flatnonzero((ys > -0.5) & (ys < height - 0.5)):
        y = min(max(ys[row], 0.0), height - 1.0)
        top = min(int(y), max(0, height - 2))
        bottom = min(top + 1, height - 1)
        fy = np.float32(y - top)
        upper = values[top, left] * (1 - fx) + values[top, right] * fx
        lower = values[bottom, left] * (1 - fx) + values[bottom, right] * fx
        line = upper * (1 - fy) + lower * fy
        if depth is not None:
            around = np.stack(
                [depth[top, left], depth[top, right], depth[bottom, left], depth[bottom, right]]
            )
            edge = ~(np.ptp(around, axis=0) < EDGE * np.abs(around).min(axis=0))
            line[edge] = values[round(y), near_x[edge]]
        out[row, columns] = line
    return out
