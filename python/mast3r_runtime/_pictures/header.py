# SPDX-License-Identifier: Apache-2.0
"""What the header of a picture file says: size as it is seen, focal length, camera."""

from __future__ import annotations

import math
import os
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, ImageError, quoted, shown
from .reading import Source, fetch, from_pil, opened

__all__ = ["Photo", "focal", "need_one_size", "need_pinhole", "read", "why"]

# EXIF tags, by their names in the standard.
_MAKE, _MODEL, _FOCAL_35, _EXIF = 0x010F, 0x0110, 0xA405, 0x8769
_LENS = 0xA434
_DIAGONAL_35 = math.hypot(36, 24)  # 43.27 mm
_SIDEWAYS = ("ROTATE_90", "ROTATE_270", "TRANSPOSE", "TRANSVERSE")  # these swap the sides
# In XMP, as an attribute or as an element.
_PROJECTION = re.compile(rb"ProjectionType\s*(?:=\s*[\"']|>)\s*([A-Za-z]{1,20})")


@dataclass(frozen=True)
class Photo:
    """A picture file. ``focal`` is in pixels, from the 35-mm equivalent; None where unknown.

    ``width`` and ``height`` are as seen, after the EXIF orientation. ``lens`` is the lens by its name
    in EXIF, ``projection`` the one in XMP that panoramas name. ``problem`` says why the file cannot
    be read; then the rest is empty. ``sha256`` is of the bytes that were looked at.
    """

    name: str
    path: Path
    width: int = 0
    height: int = 0
    focal: float | None = None
    make: str = ""
    model: str = ""
    sha256: str = ""
    problem: str = ""
    lens: str = ""
    projection: str = ""

    @property
    def fisheye(self) -> bool:
        """Whether EXIF names a lens that bends straight lines by design."""
        return "fisheye" in self.lens.lower().replace("-", "").replace(" ", "")

    @property
    def bent(self) -> str:
        """Why no pinhole camera fits it, in words; empty where nothing says so."""
        if self.fisheye:
            return f"taken with a fisheye lens ({self.lens})"
        return f"a panorama ({self.projection})" if self.projection else ""


def read(name: str, path: Path) -> Photo:
    """The header of one file; what is wrong with it goes into ``problem``, also that it is not there."""
    if _unfit(name):
        return Photo(name, path, problem="its name has a line break or bytes that are no text: rename it")
    try:
        return _of(name, path, fetch(path))
    except ImageError as error:
        return Photo(name, path, problem=why(error))


def why(error: ImageError) -> str:
    """Why a picture is unreadable: the error without its file's name."""
    text = str(error).removeprefix(f"image {quoted(error.file)}: ").removeprefix("cannot be read: ")
    text = re.sub(r"^gomps: image \d+: (preprocess: )?", "", text)  # of pixels that the network cannot take
    return f"cannot be read: {text}"


def _of(name: str, path: Path, source: Source) -> Photo:
    with opened(source) as (picture, turn):
        sideways = turn is not None and turn.name in _SIDEWAYS
        width, height = picture.size[::-1] if sideways else picture.size
        exif, inner = _exif(picture)
        packet = b" ".join(_bytes_of(picture.info.get(k)) for k in ("xmp", "XML:com.adobe.xmp"))
        picture.draft("L", (64, 64))  # a JPEG is decoded at an eighth: enough to see that it is whole
        picture.load()
        if picture.mode.startswith("I") or picture.mode == "F":  # values that may be out of range
            from_pil(picture)
    if min(width, height) < 2:
        return Photo(name, path, problem=f"{width} x {height} pixels")
    text = {tag: _text(exif.get(tag)) for tag in (_MAKE, _MODEL)}
    return Photo(
        name, path, width, height, _focal(inner, width, height), text[_MAKE], text[_MODEL], source.sha256,
        lens=_text(inner.get(_LENS)), projection=_projection(packet + source.data),
    )  # fmt: skip


def focal(path: str | os.PathLike[str]) -> float | None:
    """The focal length in pixels that EXIF says, of a file whose pixels are not looked at."""
    with opened(fetch(path)) as (picture, _):
        return _focal(_exif(picture)[1], *picture.size)


def _focal(inner: Mapping[int, Any], width: int, height: int) -> float | None:
    """From the 35-mm equivalent: by the diagonal, which a turn does not change."""
    millimetres = _number(inner.get(_FOCAL_35))
    return millimetres * math.hypot(width, height) / _DIAGONAL_35 if millimetres else None


def _exif(picture: Any) -> tuple[dict[int, Any], dict[int, Any]]:
    """The tags of a picture and those of its camera; empty where they are broken: they decide no pixel."""
    try:
        exif = picture.getexif()
        return dict(exif), dict(exif.get_ifd(_EXIF))
    except Exception:
        return {}, {}


def _bytes_of(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "replace") if isinstance(value, str) else b""


def _text(value: object) -> str:
    return "" if value is None else shown(str(value).strip("\0 "))[:200]


def _projection(data: bytes) -> str:
    found = _PROJECTION.search(data)
    name = found[1].decode().lower() if found else ""
    return "" if name in ("perspective", "rectilinear") else name


def _unfit(name: str) -> bool:
    """Whether files of cameras and points, which hold a name a line in UTF-8, cannot hold this one."""
    return any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in name)


def _number(value: object) -> float | None:
    """An EXIF number that can be a focal length in mm, or None."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    return number if 1 <= number <= 2000 and math.isfinite(number) else None


def need_pinhole(photos: Sequence[Photo], given: Collection[str] = ()) -> None:
    """Raise ArgumentError for a picture that no camera here fits, unless its camera is ``given``, by name."""
    for photo in photos:
        if photo.bent and photo.name not in given:
            raise ArgumentError(
                f"{photo.name}: {photo.bent}, which no camera model here fits; "
                "undistort the pictures, or give --intrinsics"
            )


def need_one_size(photos: Sequence[Photo]) -> None:
    """Raise ArgumentError with the first two sizes where they differ, up to a turn by 90 degrees."""
    first = photos[0]
    for photo in photos:
        if {photo.width, photo.height} != {first.width, first.height}:
            raise ArgumentError(
                f"a shared camera: {first.name} is {first.width} x {first.height}, "
                f"{photo.name} is {photo.width} x {photo.height}; use --camera per-picture"
            )
