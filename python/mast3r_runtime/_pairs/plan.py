# SPDX-License-Identifier: Apache-2.0
"""Which pairs are done together, and which by whom: arithmetic on the list of pairs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentError

__all__ = ["DEPTHS", "depth_pairs", "normal", "share", "tiles"]

I32 = npt.NDArray[np.int32]

DEPTHS = 8  # of so many pairs a picture's own depth is the median


def normal(pairs: Sequence[tuple[int, int]], pictures: int) -> I32:
    """Pairs ``[P, 2]`` with the smaller number first, each once, none of a picture with itself."""
    given = np.asarray(pairs)
    if given.size and given.dtype.kind not in "iu":
        raise ArgumentError(f"pairs of {given.dtype}, want whole numbers")
    array = given.astype(np.int64).reshape(-1, 2)
    if array.size and not (array.min() >= 0 and array.max() < pictures):
        raise ArgumentError(f"pairs up to {array.max()}, from {array.min()}: want numbers below {pictures}")
    array = np.sort(array[array[:, 0] != array[:, 1]], axis=1)
    return np.unique(array, axis=0).astype(np.int32)


def tiles(pairs: I32, side: int) -> list[I32]:
    """Cut pairs into tiles of ``side x side`` pictures of their matrix, as numbers into ``pairs``.

    A tile of side² pairs needs the features of no more than 2 side pictures. Tiles of one row
    of the matrix follow each other.
    """
    if not len(pairs):
        return []
    block = pairs // side
    order = np.lexsort((pairs[:, 1], pairs[:, 0], block[:, 1], block[:, 0]))
    ends = np.flatnonzero((np.diff(block[order], axis=0) != 0).any(axis=1)) + 1
    return [part.astype(np.int32) for part in np.split(order, ends)]


def share(count: int, shard: tuple[int, int] | None) -> range:
    """The numbers below ``count`` that shard (k, n) does: neighbours, and all shards about as many."""
    if shard is None:
        return range(count)
    k, n = shard
    if not 0 <= k < n:
        raise ArgumentError(f"shard {k}/{n}, want K/N with 0 <= K < N")
    return range(count * k // n, count * (k + 1) // n)


def depth_pairs(pairs: Collection[tuple[int, int]]) -> dict[int, set[tuple[int, int]]]:
    """For each picture the pairs whose depth of it is kept: those nearest in the list."""
    of: dict[int, list[tuple[int, int]]] = {}
    for pair in pairs:
        for i in pair:
            of.setdefault(i, []).append(pair)
    return {i: set(sorted(own, key=lambda p: (abs(p[0] - p[1]), p))[:DEPTHS]) for i, own in of.items()}


def rows(array: I32) -> Iterator[tuple[int, int]]:
    """Pairs as Python's numbers, without a list of all."""
    for first, second in array:
        yield int(first), int(second)
