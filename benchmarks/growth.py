# SPDX-License-Identifier: Apache-2.0
"""Time and peak memory against picture size and number of pictures, small model.

Every point is a process of its own, which gives its peak memory; the points of the
contenders alternate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common import TINY, in_child

WIDTHS = (224, 320, 448, 512, 640, 768, 896, 1024)
COUNTS = (2, 4, 8, 16, 32, 64)


def four_to_three(width: int) -> tuple[int, int]:
    """A picture of about 4:3 whose sides are multiples of the patch."""
    return width, max(16, round(width * 3 / 4 / 16) * 16)


def sizes(names: Sequence[str], widths: Sequence[int], threads: int, count: int) -> list[dict[str, Any]]:
    path = TINY / "unified.safetensors"
    out = []
    for w in widths:
        size = four_to_three(w)
        for n in names:
            point = in_child("pair", contender=n, path=path, size=size, threads=threads, count=count)
            out.append(point | {"contender": n, "width": size[0], "height": size[1]})
    return out


def numbers(names: Sequence[str], counts: Sequence[int], threads: int, count: int) -> list[dict[str, Any]]:
    path = TINY / "unified.safetensors"
    out = []
    for images in counts:
        for n in names:
            point = in_child(
                "sequence",
                contender=n,
                path=path,
                size=(256, 192),
                threads=threads,
                count=count,
                images=images,
            )
            out.append(point | {"contender": n, "images": images})
    return out
