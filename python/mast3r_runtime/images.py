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
  Ten or twelve bits in sixteen come out dark, and the log says so.
* **Colour profiles** (ICC) are ignored, as the reference ignores them: the numbers in the file
  are the numbers at the network.
* **Side data** (EXIF, text, thumbnails) never decides over pixels: where it is broken, the
  picture is read without it. A file whose first picture is a preview of a larger one, as those
  of raw cameras are, is an error.
* **Size**: more than PIL.Image.MAX_IMAGE_PIXELS pixels (89 million, unless you set it) are an
  error before any memory is taken.
* **Float** must lie in [0, 1]; anything else, NaN included, is an error and not a guess.
* Rows, columns, H x W x C always. A C x H x W tensor is an error that says so.

An input is never written to. The result is ``uint8 [H, W, 3]``; it is the input itself
where that is already right.
"""

from __future__ import annotations

import functools
import io
import logging
import os
import re
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, Union, cast

import numpy as np
import numpy.typing as npt

from .errors import ImageError, ImageNotFoundError, ImageTypeError, checked, quoted

if TYPE_CHECKING:
    from PIL import Image as PILImage

__all__ = ["U8", "ImageLike", "as_rgb", "formats", "read_image", "suffixes"]

_log = logging.getLogger("mast3r_runtime")

# What Pillow is asked for. Not for everything that it knows: for EPS it starts Ghostscript.
FORMATS = (
    "JPEG", "MPO", "PNG", "WEBP", "TIFF", "BMP", "DIB", "GIF", "PPM", "JPEG2000", "AVIF", "HEIF",
    "TGA", "PCX", "SGI", "QOI", "DDS", "PSD", "ICO",
)  # fmt: skip
_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
logging.getLogger("PIL").addHandler(logging.NullHandler())  # else Python prints its errors itself
_opening = threading.Lock()  # warnings are caught for the whole process

U8: TypeAlias = npt.NDArray[np.uint8]
ImageLike: TypeAlias = Union[
    str, "os.PathLike[str]", bytes, bytearray, BinaryIO, npt.ArrayLike, "PILImage.Image"
]


@checked
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
        raise ImageNotFoundError(f"image {quoted(name)}: no such file") from error
    except (OSError, ValueError) as error:  # a directory, no permission, a NUL in the name
        if isinstance(error, ImageError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise ImageError(f"image {quoted(name)}: cannot be read: {reason}") from error


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
        # Pillow puts addresses of objects into some of its texts.
        text = re.sub(r"<_?io\.\w+[^>]*>", "the file", str(error)) or type(error).__name__
        raise ImageError(f"image {quoted(name)}: {text}") from error


def formats() -> list[str]:
    """Pillow's names of the file formats that are read here."""
    from PIL import Image

    Image.init()
    try:
        import pillow_heif  # type: ignore[import-not-found,unused-ignore]

        pillow_heif.register_heif_opener()
    except ImportError:
        pass
    return [name for name in FORMATS if name in Image.OPEN]


@functools.cache
def suffixes() -> set[str]:
    """The suffixes, in small letters, of the files that are read here."""
    from PIL import Image

    known = set(formats())
    return {suffix for suffix, name in Image.registered_extensions().items() if name in known}


def _decode(file: BinaryIO, name: str) -> U8:
    with _decoder_errors(name):
        head, file = _head(file)
        picture, turn = _open(file, head, name)
        with picture:
            picture.load()
            if turn is not None:
                picture = picture.transpose(turn)
            return _from_pil(picture)


def _head(file: BinaryIO) -> tuple[bytes, BinaryIO]:
    """The first bytes of a file, and the file at its start."""
    try:
        start = file.tell()
        head = file.read(64)
        file.seek(start)
    except (OSError, AttributeError):  # a pipe
        file = io.BytesIO(file.read())
        head = file.getvalue()[:64]
    return head, file


def _open(file: BinaryIO, head: bytes, name: str) -> tuple[PILImage.Image, Any]:
    """Open a picture and find out how it is to be turned."""
    from PIL import Image, UnidentifiedImageError

    with _opening, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            picture = Image.open(file, formats=formats())
        except UnidentifiedImageError as error:
            raise ImageError(f"image {quoted(name)}: {_what(head)}") from error
        except Exception as error:
            bare = _bare_png(file) if head.startswith(b"\x89PNG") else None
            if bare is None:
                raise
            _log.info("image %r: read without its side data: %s", name, error)
            picture = Image.open(bare, formats=["PNG"])
        turn = None
        try:
            turn = _TURNS.get(picture.getexif().get(274, 1))
        except Exception as error:
            _log.info("image %r: the orientation cannot be read: %s", name, error)
    for warning in caught:
        _log.info("image %r: %s", name, warning.message)
    _check_size(picture, name)
    if picture.format in ("TIFF", "MPO", "DNG"):
        _check_tiff(picture, head, name)
    return picture, turn and getattr(Image.Transpose, turn)


# Orientations of EXIF.
_TURNS = {
    2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE",
    6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90",
}  # fmt: skip


def _check_size(picture: PILImage.Image, name: str) -> None:
    from PIL import Image

    width, height = picture.size
    most = Image.MAX_IMAGE_PIXELS
    if most is not None and width * height > most:
        raise ImageError(
            f"image {quoted(name)}: {width} x {height} = {width * height} pixels, want at most {most} "
            "(PIL.Image.MAX_IMAGE_PIXELS)"
        )


def _check_tiff(picture: PILImage.Image, head: bytes, name: str) -> None:
    """Refuse a file whose first picture stands for a larger one."""
    tags: Any = getattr(picture, "tag_v2", None)
    if tags is None or head[:2] not in (b"II", b"MM"):
        return
    camera = "a raw camera file (DNG)" if 50706 in tags else "a raw camera file" if 271 in tags else None
    if 50706 in tags or head[8:10] == b"CR":
        raise ImageError(f"image {quoted(name)}: {camera or 'a raw camera file'}; develop it first")
    larger = any(w * h > picture.width * picture.height for w, h in _sub_pictures(picture, tags, head))
    if int(tags.get(254) or 0) & 1 or larger:
        what = f"{camera}; develop it first" if camera else "its first picture is a reduced one"
        raise ImageError(f"image {quoted(name)}: {what} ({picture.width} x {picture.height} is a preview)")


def _sub_pictures(picture: PILImage.Image, tags: Any, head: bytes) -> Iterator[tuple[int, int]]:
    """The sizes of the pictures that a TIFF's first one refers to (SubIFDs)."""
    offsets = tags.get(330) or ()
    file: Any = getattr(picture, "fp", None)
    order = "<" if head[:2] == b"II" else ">"
    if file is None:
        return
    at = file.tell()
    try:
        for offset in (offsets if isinstance(offsets, tuple) else (offsets,))[:16]:
            file.seek(int(offset))
            (count,) = struct.unpack(order + "H", file.read(2))
            size = {}
            for _ in range(count):
                entry = file.read(12)
                tag, kind, _, value = struct.unpack(order + "HHI4s", entry)
                size[tag] = struct.unpack(order + ("H2x" if kind == 3 else "I"), value)[0]
            yield size.get(256, 0), size.get(257, 0)
    except (OSError, struct.error, TypeError, ValueError) as error:
        _log.info("sub-pictures of a TIFF: %s", error)
    finally:
        file.seek(at)


def _bare_png(file: BinaryIO) -> BinaryIO | None:
    """A PNG with nothing but what its pixels need; None where it is no whole PNG."""
    file.seek(0)
    data = file.read()
    kept, at = [data[:8]], 8
    while at + 12 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        end = at + 12 + length
        if end > len(data):
            return None
        kind = data[at + 4 : at + 8]
        if kind[:1].isupper() or kind == b"tRNS":
            kept.append(data[at:end])
        at = end
        if kind == b"IEND":
            return io.BytesIO(b"".join(kept))
    return None


def _what(head: bytes) -> str:
    """What an unknown file is, by its first bytes."""
    brand = head[8:12] if head[4:8] == b"ftyp" else b""
    if brand in _HEIF_BRANDS:
        return "a HEIC picture; pip install 'mast3r-runtime[heif]'"
    if brand == b"crx " or head.startswith((b"FUJIFILMCCD-RAW", b"IIRS", b"IIU\0")):
        return "a raw camera file; develop it first"
    if brand:
        return "a video (MP4); take pictures out of it first, as with ffmpeg"
    for start, kind in (
        (b"%!PS", "PostScript"), (b"%PDF", "a PDF file"), (b"\x76\x2f\x31\x01", "an OpenEXR file"),
        (b"#?RADIANCE", "a Radiance HDR file"), (b"PK\x03\x04", "a zip archive"), (b"\x1f\x8b", "gzip"),
        (b"RIFF", "a RIFF file (AVI, WAV)"), (b"\x1aE\xdf\xa3", "a video (Matroska)"),
    ):  # fmt: skip
        if head.startswith(start):
            return f"{kind}, want a picture ({', '.join(formats())})"
    text = head.lstrip().lower()
    if text.startswith((b"<svg", b"<?xml")):
        return f"an SVG or XML file, want a picture ({', '.join(formats())})"
    if text.startswith((b"<!doctype", b"<html")):
        return f"an HTML page, want a picture ({', '.join(formats())})"
    if not head:
        return "empty"
    return f"no picture that Pillow knows; it starts with {head[:16]!r}"


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
        if pixels.dtype.kind == "u" and pixels.dtype.itemsize == 2:
            pixels = _sixteen_bits(picture, pixels)
        return as_rgb(pixels)
    if mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in picture.info:
        return as_rgb(np.asarray(picture.convert("RGBA")))
    return as_rgb(np.asarray(picture if mode == "RGB" else picture.convert("RGB")))


def _sixteen_bits(picture: PILImage.Image, pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """16-bit grey as its 8-bit twin would come: white on black, transparency over white."""
    tags: Any = getattr(picture, "tag_v2", {})
    key = picture.info.get("transparency")
    most = int(pixels.max(initial=0))
    if 0 < most < 1 << 14:
        _log.warning(
            "image: 16-bit values up to %d only: %d bits in 16 come out dark; scale them first",
            most,
            most.bit_length(),
        )
    if tags.get(262) == 0 and picture.mode.startswith("I;16"):  # white is zero; Pillow turns 8 bits only
        pixels = np.uint16(65535) - pixels.astype(np.uint16)
    if isinstance(key, int):
        pixels = np.where(pixels == key, np.uint16(65535), pixels)
    return pixels


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
