# SPDX-License-Identifier: Apache-2.0
"""Pixels in any layout and element type, to 8-bit RGB."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ..errors import ImageError, ImageTypeError

__all__ = ["U8", "as_rgb"]

U8: TypeAlias = npt.NDArray[np.uint8]


def as_rgb(pixels: Any) -> U8:
    """Return an array of any accepted layout and element type as ``uint8 [H, W, 3]``."""
    array = _to_array(pixels)
    _check_shape(array.shape)
    array = _to_bytes(array)
    if array.ndim == 2:
        array = array[:, :, None]
    channels = array.shape[2]
    if channels in (2, 4):
        array = _over_white(array)
        channels -= 1
    if channels == 1:
        array = np.repeat(array, 3, axis=2)
    return np.ascontiguousarray(array)


def _to_array(pixels: Any) -> npt.NDArray[Any]:
    try:
        if not hasattr(pixels, "__array__") and hasattr(pixels, "__dlpack__"):
            array = np.from_dlpack(pixels)
        else:
            array = np.asarray(pixels)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise ImageTypeError(f"image: {type(pixels).__name__} cannot be read as an array: {error}") from error
    if array.dtype.kind not in "buf" or array.dtype.itemsize > (8 if array.dtype.kind == "f" else 2):
        raise ImageTypeError(
            f"image: {type(pixels).__name__} with element type {array.dtype}, "
            "want uint8, uint16, bool or float in [0, 1]"
        )
    return array


def _check_shape(shape: tuple[int, ...]) -> None:
    want = "want (H, W), (H, W, 1), (H, W, 2), (H, W, 3) or (H, W, 4)"
    if len(shape) == 3 and shape[0] in (1, 3, 4) and shape[2] not in (1, 2, 3, 4):
        raise ImageError(f"image: HWC expected, got {_text(shape)}, which looks like CHW; {want}")
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] not in (1, 2, 3, 4)):
        raise ImageError(f"image: HWC expected, got {_text(shape)}; {want}")
    if shape[0] == 0 or shape[1] == 0:
        raise ImageError(f"image: empty, got {_text(shape)}; {want} with H, W >= 1")


def _text(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def _to_bytes(array: npt.NDArray[Any]) -> U8:
    kind = array.dtype.kind
    if kind == "b":
        return array.astype(np.uint8) * np.uint8(255)
    if kind == "u":
        if array.dtype.itemsize == 1:
            return cast(U8, array)
        # round(v / 257) in integers; astype also undoes a foreign byte order
        return ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
    low, high = float(array.min()), float(array.max())
    if not (np.isfinite(low) and np.isfinite(high)):  # min and max carry NaN through
        raise ImageError(f"image: float values from {low} to {high}, want finite values in [0, 1]")
    if low < 0.0 or high > 1.0:
        raise ImageError(
            f"image: float values from {low:g} to {high:g}, want [0, 1]; "
            "divide by the largest possible value first"
        )
    return np.rint(array.astype(np.float64) * 255.0).astype(np.uint8)


def _over_white(array: U8) -> U8:
    """Blend straight alpha over white: round((c * a + 255 * (255 - a)) / 255)."""
    colour = array[:, :, :-1].astype(np.uint32)
    alpha = array[:, :, -1:].astype(np.uint32)
    return ((colour * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
