# SPDX-License-Identifier: Apache-2.0
"""The one place that opens a picture: its bytes are read once, its size is checked before its pixels.

The policy is told in :mod:`mast3r_runtime.images`.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import stat
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, Union, cast

import numpy as np
import numpy.typing as npt

from .._files.plain import irregular, no_wait
from ..errors import ImageError, ImageNotFoundError, checked, quoted
from . import formats as kinds
from .arrays import U8, as_rgb

if TYPE_CHECKING:
    from PIL import Image as PILImage

__all__ = [
    "ImageLike", "Source", "about", "fetch", "from_pil", "opened", "pixels", "pixels_of", "read_image",
]  # fmt: skip

_log = logging.getLogger("mast3r_runtime")
logging.getLogger("PIL").addHandler(logging.NullHandler())  # else Python prints its errors itself
_opening = threading.Lock()  # warnings are caught for the whole process

MOST_BYTES = 1 << 30  # of a file: the largest picture that is taken has 89 million pixels
ICON = b"\0\0\1\0"
LARGE = 1 << 26  # a video above it is not read to its end only to be refused

ImageLike: TypeAlias = Union[
    str, "os.PathLike[str]", bytes, bytearray, BinaryIO, npt.ArrayLike, "PILImage.Image"
]


@dataclass(frozen=True)
class Source:
    """The bytes of a picture, read once: what is hashed is what is decoded. ``path`` None: no file."""

    name: str
    data: bytes
    path: str | None = None

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@checked
def read_image(source: ImageLike) -> U8:
    """Return ``source`` (path, bytes, file object, PIL picture or array) as ``uint8 [H, W, 3]``."""
    if type(source) is np.ndarray and source.dtype == np.uint8:
        return as_rgb(source)  # the usual case, without the questions of the others
    if isinstance(source, (str, os.PathLike)):
        return pixels(fetch(os.fspath(source)))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return pixels(Source(f"{len(source)} bytes", bytes(source)))
    if hasattr(source, "read"):
        return pixels(_of_file(cast(BinaryIO, source)))
    if type(source).__module__.partition(".")[0] == "PIL" or hasattr(source, "getbands"):
        with _decoder_errors("PIL picture"):
            return from_pil(cast("PILImage.Image", source))
    return as_rgb(source)


def fetch(path: str | bytes | os.PathLike[str]) -> Source:
    """Read the bytes of a picture file.

    Raises ImageError, with the path in ``file``, for what is no file, cannot be read, or is too
    large; ImageNotFoundError, a kind of it, where there is none. Never waits for a pipe.
    """
    name = os.fsdecode(path)
    with about(name):
        try:
            with open(path, "rb", opener=no_wait) as file:
                return Source(name, _bytes(file, name), name)
        except FileNotFoundError as error:
            text = "a link to nothing" if os.path.islink(path) else "no such file"
            raise ImageNotFoundError(f"image {quoted(name)}: {text}") from error
        except (OSError, ValueError) as error:  # a directory, no permission, a NUL in the name
            if isinstance(error, ImageError):
                raise
            reason = getattr(error, "strerror", None) or str(error)
            text = "a folder, want a file" if os.path.isdir(path) else f"cannot be read: {reason}"
            raise ImageError(f"image {quoted(name)}: {text}") from error


def _bytes(file: BinaryIO, name: str) -> bytes:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise ImageError(f"image {quoted(name)}: {irregular(status.st_mode)}, want a file")
    head = file.read(kinds.HEAD)
    if status.st_size > LARGE and (text := kinds.what(head, os.path.basename(name))).startswith("a video"):
        raise ImageError(f"image {quoted(name)}: {text}")
    size = status.st_size
    if size <= MOST_BYTES:
        data = head + file.read(MOST_BYTES + 1 - len(head))  # it may grow meanwhile
        if (size := len(data)) <= MOST_BYTES:
            return data
    raise ImageError(f"image {quoted(name)}: {size} bytes, want at most {MOST_BYTES}")


def _of_file(file: BinaryIO) -> Source:
    name = getattr(file, "name", None)
    name = str(name) if isinstance(name, (str, bytes)) else type(file).__name__
    with _decoder_errors(name):
        data = file.read(MOST_BYTES + 1)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ImageError(f"image {quoted(name)}: it reads {type(data).__name__}, want bytes")
        if len(data) > MOST_BYTES:
            raise ImageError(f"image {quoted(name)}: more than {MOST_BYTES} bytes")
    return Source(name, bytes(data))


def pixels_of(path: str | os.PathLike[str], sha256: str) -> U8:
    """The pixels of the file whose bytes have this hash: what is kept under a hash was made of its bytes.

    Raises ImageError where the file is not, or is no longer, the one that was hashed.
    """
    source = fetch(path)
    if source.sha256 != sha256:
        error = ImageError(f"image {quoted(path)}: it was changed while it was worked on; run again")
        error.file = source.path
        raise error
    return pixels(source)


def pixels(source: Source) -> U8:
    """The pixels ``uint8 [H, W, 3]`` of a picture's bytes, turned by its EXIF orientation."""
    from PIL import Image

    with opened(source) as (picture, turn):
        picture.load()
        upright = from_pil(picture)  # before it is turned: Pillow forgets the tags of what it turns
        return upright if turn is None else np.asarray(Image.fromarray(upright).transpose(turn))


@contextmanager
def opened(source: Source) -> Iterator[tuple[PILImage.Image, Any]]:
    """Pillow's picture of the bytes, no pixel decoded yet, and how it is to be turned (or None).

    What goes wrong within is an ImageError that names the picture.
    """
    with about(source.path), _decoder_errors(source.name):
        picture, turn = _open(source.data, source.name)
        with picture:
            yield picture, turn


@contextmanager
def about(picture: object) -> Iterator[None]:
    """Put the file into the errors about a picture, where it is one."""
    try:
        yield
    except ImageError as error:
        if error.file is None and isinstance(picture, (str, os.PathLike)):
            error.file = os.fsdecode(picture)
        raise


@contextmanager
def _decoder_errors(name: str) -> Iterator[None]:
    """Turn whatever a decoder raises into an ImageError that names the picture.

    Pillow's plugins answer hostile bytes with OSError, SyntaxError, ValueError, struct.error,
    IndexError and others, and with its own bomb guard; the kind carries no meaning for a caller.
    """
    try:
        yield
    except MemoryError:
        raise
    except ImageError as error:
        if str(error).startswith("image: "):  # of the pixels alone
            raise type(error)(f"image {quoted(name)}{str(error)[5:]}") from error
        raise
    except Exception as error:
        # Pillow puts addresses of objects into some of its texts.
        text = re.sub(r"<_?io\.\w+[^>]*>", "the file", str(error)) or type(error).__name__
        raise ImageError(f"image {quoted(name)}: {text}") from error


def _open(data: bytes, name: str) -> tuple[PILImage.Image, Any]:
    """Open a picture, check its size, and find out how it is to be turned."""
    from PIL import Image, UnidentifiedImageError

    head = data[: kinds.HEAD]
    with _opening, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if head.startswith(ICON):  # decoded as it is opened; what is in it may be larger than it says
            warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            picture = Image.open(io.BytesIO(data), formats=kinds.formats())
        except UnidentifiedImageError as error:
            text = kinds.what(head, os.path.basename(name))
            raise ImageError(f"image {quoted(name)}: {text}") from error
        except Exception as error:
            bare = _bare_png(data) if head.startswith(b"\x89PNG") else None
            if bare is None:
                raise
            _log.info("image %r: read without its side data: %s", name, error)
            picture = Image.open(io.BytesIO(bare), formats=["PNG"])
        _check_size(picture, name)  # first: for the orientation of a PNG all of it is decoded
        turn = None
        try:
            turn = _TURNS.get(picture.getexif().get(274, 1))
        except Exception as error:
            _log.info("image %r: the orientation cannot be read: %s", name, error)
    for warning in caught:
        _log.info("image %r: %s", name, warning.message)
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


def _bare_png(data: bytes) -> bytes | None:
    """A PNG with nothing but what its pixels need; None where it is no whole PNG."""
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
            return b"".join(kept)
    return None


def from_pil(picture: PILImage.Image) -> U8:
    """The pixels of Pillow's picture, 16 bits and alpha as the policy says."""
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
