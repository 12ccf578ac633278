# SPDX-License-Identifier: Apache-2.0
"""The network's input made by Pillow: what the engine does itself, for those who want it in Python."""

from __future__ import annotations

import numpy as np
from PIL import Image

from .._pictures.arrays import U8
from .._results.results import Transform
from ..errors import ImageError

__all__ = ["prepare"]


def prepare(pixels: U8, size: int, patch: int) -> tuple[U8, Transform]:
    """Resize and crop a picture as the reference's loader does.

    Parameters
    ----------
    pixels : ndarray
        8-bit RGB, ``[H, W, 3]``.
    size : int
        Long side of the result; 224 means the short side, and a square.
    patch : int
        The sides become multiples of it. Squares stay square.

    Returns
    -------
    ndarray, Transform
        The picture at network size, and the way back.
    """
    height, width = pixels.shape[:2]
    long, short = max(height, width), min(height, width)
    target = round(224 * (long / short)) if size == 224 else size  # round: half to even
    resized = (round(width * target / long), round(height * target / long))
    half_x, half_y = resized[0] // 2, resized[1] // 2
    if size == 224:
        half_x = half_y = min(half_x, half_y)
    box_width, box_height = 2 * half_x // patch * patch, 2 * half_y // patch * patch
    if not box_width or not box_height:
        raise ImageError(
            f"picture of {height} x {width} (height x width) at long side {target}: "
            f"less than one patch of {patch} is left"
        )
    left = round(resized[0] // 2 - box_width / 2)
    top = round(resized[1] // 2 - box_height / 2)
    filters = Image.Resampling
    shrink = filters.LANCZOS if long > target else filters.BICUBIC
    picture = Image.fromarray(pixels)
    if picture.size != resized:
        picture = picture.resize(resized, shrink)
    picture = picture.crop((left, top, left + box_width, top + box_height))
    window = Transform(height, width, resized[1], resized[0], top, left, box_height, box_width)
    return np.asarray(picture), window
