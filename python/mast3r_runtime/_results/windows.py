# SPDX-License-Identifier: Apache-2.0
"""Transforms as files keep them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from ..errors import ShapeError
from .results import Transform

__all__ = ["transform_of"]


def transform_of(row: npt.NDArray[Any]) -> Transform:
    """A transform of its fields in order; ShapeError where they are no window of a picture."""
    values = [int(value) for value in row.ravel()] if row.dtype.kind in "iu" else []
    if len(values) == len(Transform.__slots__):
        t = Transform(*values)
        inside = t.crop_y + t.height <= t.resized_height and t.crop_x + t.width <= t.resized_width
        whole = min(t.original_height, t.original_width, t.height, t.width) > 0
        if inside and whole and min(t.crop_y, t.crop_x) >= 0 and max(values) < 1 << 31:
            return t
    raise ShapeError(f"transform {values or row.shape}, want how a picture was resized and cut")
