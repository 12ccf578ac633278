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

from ._pictures.arrays import U8, as_rgb
from ._pictures.formats import formats, suffixes
from ._pictures.reading import ImageLike, read_image

__all__ = ["U8", "ImageLike", "as_rgb", "formats", "read_image", "suffixes"]
