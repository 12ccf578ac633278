# SPDX-License-Identifier: Apache-2.0
"""Pictures as users have them, to 8-bit RGB.

The policy, in one place:

* **Files** (path, bytes, file object) are turned by their EXIF orientation. Arrays and
  PIL pictures are pixels already and are never turned.
* **Alpha** is blended over white, the background that a viewer shows.
* **Grey** becomes three equal channels; ``H x W``, ``H x W x 1`` and (with alpha)
  ``H x W x 2`` are accepted.
* **16 bit** is divided by 257 and rounded, which maps 65535 to 255 (dropping the low byte
  would darken; Pillow itself reads 16-bit RGB files that way, and those come as it reads them).
* **Float** must lie in [0, 1]; anything else, NaN included, is an error and not a guess.
* Rows, columns, H x W x C always. A C x H x W tensor is an error that says so.

An input is never written to. The result is ``uint8 [H, W, 3]``; it is the input itself
where that is already right.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, Union, cast

import numpy as np
import numpy.typing as npt

from .errors import ImageError, ImageNotFoundError, ImageTypeError

if TYPE_CHECKING:
    from PIL import Image as PILImage

__all__ = ["U8", "ImageLike", "as_rgb", "read_image"]

U8: TypeAlias = npt.NDArray[np.uint8]
ImageLike: TypeAlias = Union[
    str, "os.PathLike[str]", bytes, bytearray, BinaryIO, npt.ArrayLike, "PILImage.Image"
]


def read_image(source: ImageLike) -> U8:
    """Return ``source`` (path, bytes, file object, PIL picture or array) as ``uint8 [H, W, 3]``."""
    if type(source) is np.ndarray and source.dtype == np.uint8:
        return as_rgb(source)  # the usual case, without the questions of the others
    if isinstance(source, (str, os.PathLike)):
        return _read_path(os.fspath(source))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _decode(io.BytesIO(bytes(source)), f"{len(source)} bytes")
    if hasattr(source, "read"):
        return _decode(cast(BinaryIO, source), _name_of(source))
    if type(source).__module__.partition(".")[0] == "PIL" or hasattr(source, "getbands"):
        with _decoder_errors("PIL picture"):
            return _from_pil(cast("PILImage.Image", source))
    return as_rgb(source)


def _name_of(source: object) -> str:
    name = getattr(source, "name", None)
    return str(name) if isinstance(name, (str, bytes)) else type(source).__name__


def _read_path(path: str | bytes) -> U8:
    name = os.fsdecode(path)
    try:
        with open(path, "rb") as file:
            return _decode(file, name)
    except FileNotFoundError as error:
        raise ImageNotFoundError(f"image {name!r}: no such file") from error
    except (OSError, ValueError) as error:  # a directory, no permission, a NUL in the name
        if isinstance(error, ImageError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise ImageError(f"image {name!r}: cannot be read: {reason}") from error


@contextmanager
def _decoder_errors(name: str) -> Iterator[None]:
    """Turn whatever a decoder raises into an ImageError that names the picture.

    Pillow's plugins answer hostile bytes with OSError, SyntaxError, ValueError, struct.error,
    IndexError and others, and with its own bomb guard; the kind carries no meaning for a caller.
    """
    try:
        yield
    except (ImageError, MemoryError):
        raise
    except Exception as error:
        raise ImageError(f"image {name!r}: {error}") from error


def _decode(file: BinaryIO, name: str) -> U8:
    from PIL import Image, ImageOps

    with _decoder_errors(name), Image.open(file) as picture:
        picture.load()
        return _from_pil(ImageOps.exif_transpose(picture))


def _from_pil(picture: PILImage.Image) -> U8:
    mode = picture.mode
    if mode.startswith("I") or mode == "F":
        # Pillow clips these to 8 bits instead of scaling them, so they take the way of arrays.
        pixels = np.asarray(picture)
        if mode == "I":  # 32-bit container: how Pillow holds some 16-bit greys
            low, high = int(pixels.min(initial=0)), int(pixels.max(initial=0))
            if low < 0 or high > 65535:
                raise ImageError(f"image: 32-bit values from {low} to {high}, want 0 to 65535 (16-bit grey)")
            pixels = pixels.astype(np.uint16)
        return as_rgb(pixels)
    if mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in picture.info:
        return as_rgb(np.asarray(picture.convert("RGBA")))
    return as_rgb(np.asarray(picture if mode == "RGB" else picture.convert("RGB")))


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
