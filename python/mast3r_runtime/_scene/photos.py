# SPDX-License-Identifier: Apache-2.0
"""What the header of a picture file says: size as it is seen, focal length, camera."""

from __future__ import annotations

import math
import os
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .._pairs.folder import natural
from .._store.store import file_hash
from ..errors import ArgumentError, ImageNotFoundError, quoted
from ..images import suffixes

__all__ = ["Photo", "find", "read"]

# EXIF tags, by their names in the standard.
_ORIENTATION, _MAKE, _MODEL, _FOCAL_35, _EXIF = 0x0112, 0x010F, 0x0110, 0xA405, 0x8769
_LENS = 0xA434
_DIAGONAL_35 = math.hypot(36, 24)  # 43.27 mm


@dataclass(frozen=True)
class Photo:
    """A picture file. ``focal`` is in pixels, from the 35-mm equivalent; None where unknown.

    ``width`` and ``height`` are as seen, after the EXIF orientation. ``lens`` is the lens by its name
    in EXIF. ``problem`` says why the
    file cannot be read; then the rest is empty.
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

    @property
    def fisheye(self) -> bool:
        """Whether EXIF names a lens that bends straight lines by design."""
        return "fisheye" in self.lens.lower().replace("-", "").replace(" ", "")


def find(sources: Sequence[str | os.PathLike[str]], recursive: bool = False) -> list[tuple[str, Path]]:
    """Names and paths of the pictures of folders and files, in order.

    A name is the path below the folder it was found in, or the file's own; where two would be
    the same, the path below the folder that holds all pictures. It never leaves a folder by "..".
    A file that two sources name is there once.
    """
    found: list[tuple[str, Path]] = []
    for source in sources:
        path = Path(source)
        if path.is_dir():
            inside = path.rglob("*") if recursive else path.iterdir()
            files = sorted((p for p in inside if _is_picture(p)), key=lambda p: natural(p.as_posix()))
            found += [(p.relative_to(path).as_posix(), p) for p in files]
        elif path.exists():
            found.append((path.name, path))
        else:
            raise ImageNotFoundError(f"picture {quoted(path)}: no such file or folder")
    once = {Path(os.path.abspath(path)): (name, path) for name, path in reversed(found)}
    seen = Counter(name for name, _ in once.values())
    top = _common(list(once)) if len(seen) < len(once) else Path()
    return [
        (name if seen[name] == 1 else full.relative_to(top).as_posix(), path)
        for full, (name, path) in reversed(once.items())
    ]


def _common(paths: Sequence[Path]) -> Path:
    """The folder that all are below; on Windows it may be that of one drive only."""
    top = paths[0].parent
    while not all(path.is_relative_to(top) for path in paths):
        if top == top.parent:
            raise ArgumentError(f"pictures of one name on two drives: {paths[0]} and others; give folders")
        top = top.parent
    return top


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in suffixes() and not path.name.startswith(".") and path.is_file()


def read(name: str, path: Path) -> Photo:
    """The header of one file; what is wrong with it goes into ``problem``."""
    from PIL import Image

    if _unfit(name):
        return Photo(name, path, problem="its name has a line break or bytes that are no text: rename it")
    try:
        with Image.open(path) as picture:
            width, height = picture.size
            exif = picture.getexif()
            inner = exif.get_ifd(_EXIF)
            picture.draft("L", (64, 64))  # a JPEG is decoded at an eighth: enough to see that it is whole
            picture.load()
    except FileNotFoundError as error:
        raise ImageNotFoundError(f"picture {quoted(path)}: no such file") from error
    except Exception as error:  # whatever a decoder raises on hostile bytes
        return Photo(name, path, problem=f"cannot be read: {error}")
    if exif.get(_ORIENTATION) in (5, 6, 7, 8):
        width, height = height, width
    if min(width, height) < 2:
        return Photo(name, path, problem=f"{width} x {height} pixels")
    focal = _number(inner.get(_FOCAL_35))
    pixels = focal * math.hypot(width, height) / _DIAGONAL_35 if focal else None
    text = {tag: str(exif.get(tag, "")).strip("\0 ") for tag in (_MAKE, _MODEL)}
    lens = str(inner.get(_LENS, "")).strip("\0 ")
    return Photo(name, path, width, height, pixels, text[_MAKE], text[_MODEL], file_hash(path), lens=lens)


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


def same_camera(photos: Sequence[Photo]) -> bool:
    """Whether all pictures may come from one camera with one setting."""
    return len({(p.width, p.height, p.make, p.model, p.focal) for p in photos}) <= 1


def need_one_size(photos: Sequence[Photo]) -> None:
    """Raise ArgumentError with the first two sizes where they differ."""
    first = photos[0]
    for photo in photos:
        if (photo.width, photo.height) != (first.width, first.height):
            raise ArgumentError(
                f"a shared camera: {first.name} is {first.width} x {first.height}, "
                f"{photo.name} is {photo.width} x {photo.height}; use --camera per-picture"
            )
