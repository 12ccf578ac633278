# SPDX-License-Identifier: Apache-2.0
"""Masks of pictures, as people have them: which pixels to use.

* Where the file has **alpha** that varies, alpha decides, and the colours say nothing.
* Else every value that is **not 0** means use, in any depth: grey, labels, any channel of a colour.
* A **palette** of black and white alone is read as its colours, any other by its numbers: those are
  labels.
* What loses information in packing (**JPEG** and the like) is cut at half: black is not quite 0 there.

A mask is seen as a picture is: turned by its own EXIF orientation, and of the size of its picture as
that is seen.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentError, ImageError, quoted
from .formats import kind
from .names import MASKS, Names
from .reading import fetch, opened

if TYPE_CHECKING:
    from PIL import Image as PILImage

__all__ = ["find", "read_mask"]

Mask = npt.NDArray[np.bool_]

MOST = 100_000  # files of a folder of masks
HALF = 128  # of 255
_LOSSY = ("JPEG", "MPO", "HEIF", "AVIF")
_ALPHA = ("RGBA", "LA", "PA", "RGBa", "La")


def find(folder: Path, pictures: dict[str, Path]) -> dict[str, Path]:
    """The mask of each picture that has one, by the picture's name.

    Its name is the picture's, with another suffix or one behind it, or with ``.mask``, ``_mask`` or
    ``-mask``. Raises ArgumentError where there is no such folder, or no mask for any picture.
    """
    if not os.path.isdir(folder):
        what = "a file, want a folder" if os.path.exists(folder) else "no such folder"
        raise ArgumentError(f"masks {quoted(folder)}: {what} of masks, one a picture")
    own = {os.path.realpath(path) for path in pictures.values()}
    files = _pictures_in(folder)
    keys = [name for name, path in files.items() if os.path.realpath(path) not in own]
    found = Names(pictures, MASKS).match(keys, f"masks {quoted(folder)}")
    return {name: files[key] for name, key in found.items()}


def _pictures_in(folder: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    looked = 0
    try:
        for place, folders, names in os.walk(folder):
            folders[:] = [f for f in folders if not f.startswith(".")]
            looked += len(names)
            if looked > MOST:
                raise ArgumentError(f"masks {quoted(folder)}: more than {MOST} files, want a folder of masks")
            for name in names:
                path = Path(place, name)
                if not name.startswith(".") and kind(path).name == "picture":
                    files[path.relative_to(folder).as_posix()] = path
    except OSError as error:
        raise ArgumentError(f"masks {quoted(folder)}: {error.strerror or error}") from error
    return files


def read_mask(path: str | os.PathLike[str]) -> Mask:
    """Which pixels ``[H, W]`` a mask says to use. Raises ImageError."""
    source = fetch(path)
    with opened(source) as (picture, turn):
        deep = ";16" in str(getattr(picture, "tile", ""))  # Pillow keeps the upper half alone
        picture.load()
        use = _use(picture, lossless=picture.format not in _LOSSY and _no_vp8(source.data[:64]))
        if deep and not use.any() and picture.mode in ("RGB", *_ALPHA):
            raise ImageError("image: a mask of colours of 16 bits, upper 8 all 0; want a grey one")
        if turn is not None:
            from PIL import Image

            use = np.asarray(Image.fromarray(use.astype(np.uint8)).transpose(turn)) > 0
        return use


def _no_vp8(head: bytes) -> bool:
    """Whether it is no WebP, or one that loses nothing."""
    return head[8:12] != b"WEBP" or b"VP8L" in head


def _use(picture: PILImage.Image, lossless: bool) -> Mask:
    alpha = _alpha(picture)
    if alpha is not None and alpha.min() != alpha.max():
        return np.asarray(alpha > 0)
    if picture.mode in ("P", "PA"):
        return _palette(picture)
    if picture.mode in ("CMYK", "YCbCr", "LAB", "HSV"):
        picture = picture.convert("RGB")
    values: npt.NDArray[Any] = np.asarray(picture)
    if picture.mode in _ALPHA:
        values = values[:, :, :-1]
    if values.ndim == 3:
        values = values.max(axis=2)
    if lossless:
        return np.asarray(_white_is_zero(picture, np.nan_to_num(values)) != 0)
    if 0 < values.max(initial=0) < HALF:
        raise ImageError(f"image: a mask that lost information, of values up to {values.max()}; want a PNG")
    return np.asarray(values >= HALF)


def _alpha(picture: PILImage.Image) -> npt.NDArray[np.uint8] | None:
    if picture.mode in _ALPHA:
        return np.asarray(picture.getchannel(picture.getbands()[-1]))
    if "transparency" in picture.info and picture.mode in ("1", "L", "P", "RGB"):
        return np.asarray(picture.convert("RGBA").getchannel("A"))
    return None


def _palette(picture: PILImage.Image) -> Mask:
    numbers = np.asarray(picture if picture.mode == "P" else picture.getchannel(0))
    table = np.asarray(picture.getpalette("RGB") or [], np.uint8).reshape(-1, 3)
    used = np.unique(numbers)
    if used.max(initial=0) < len(table):
        colours = table[used]
        if ((colours == 0).all(1) | (colours == 255).all(1)).all():
            return np.asarray(table[numbers, 0] > 0)
    return np.asarray(numbers != 0)


def _white_is_zero(picture: PILImage.Image, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """TIFF may count from white; Pillow turns 8 bits only."""
    tags: Any = getattr(picture, "tag_v2", {})
    if tags.get(262) == 0 and picture.mode.startswith("I;16"):
        return np.asarray(np.uint16(65535) - values.astype(np.uint16))
    return values
