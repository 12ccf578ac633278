# SPDX-License-Identifier: Apache-2.0
"""Pictures and options on their way into the library."""

from __future__ import annotations

import ctypes as C
from collections.abc import Iterable, Sequence

from ..errors import ArgumentError
from ..images import U8, ImageLike, read_image
from . import calls
from . import structs as S

__all__ = ["OUTPUTS", "Only", "image_array", "infer_options", "outputs"]

OUTPUTS = ("pts3d", "conf", "desc", "desc_conf")

Only = Iterable[str] | None

_IMAGE_SIZE = C.sizeof(S.Image)


def outputs(only: Only) -> int:
    """Return a set of output names as the library's bits; 0 stands for all."""
    if only is None:
        return 0
    names = (only,) if isinstance(only, str) else tuple(only)
    for name in names:
        if name not in OUTPUTS:
            raise ArgumentError(f"only: {name!r}, want some of {', '.join(OUTPUTS)}")
    if not names:
        raise ArgumentError(f"only: nothing, want some of {', '.join(OUTPUTS)}, or None for all")
    return sum(1 << OUTPUTS.index(name) for name in set(names))


def infer_options(
    preprocess: bool = True, square_ok: bool = True, resolution: int | None = None, only: Only = None
) -> S.InferOptions:
    """Return the options of one call."""
    return S.struct(
        S.InferOptions,
        raw=int(not preprocess),
        rectangle_43=int(not square_ok),
        resolution=calls.int32("resolution", resolution or 0),
        only=outputs(only),
    )


def image_array(images: Sequence[ImageLike]) -> tuple[C.Array[S.Image], list[U8]]:
    """Return pictures as an array of structs, and the arrays whose memory it points at."""
    pictures = [read_image(image) for image in images]
    structs = (S.Image * len(pictures))()
    for struct, picture in zip(structs, pictures, strict=True):
        struct.size = _IMAGE_SIZE
        struct.height, struct.width, _ = picture.shape
        struct.stride = 3 * struct.width
        struct.pixels = picture.ctypes.data
    return structs, pictures
