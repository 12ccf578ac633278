# SPDX-License-Identifier: Apache-2.0
"""The retrieval graph of a large collection: rows of scores a block at a time, never the whole matrix."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentError

__all__ = ["retrieval_pairs", "wanted"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

BLOCK = 32  # pictures that are looked up at a time


def wanted(graph: str) -> tuple[int, int] | None:
    """Anchors and neighbours of ``retrieval-NA-K``; None for any other graph."""
    found = re.fullmatch(r"retrieval-(\d{1,9})-(\d{1,9})", graph)
    return (int(found[1]), int(found[2])) if found else None


def retrieval_pairs(
    count: int,
    graph: str,
    rows: Callable[[Sequence[int]], F32],
    *,
    anchor: int = 0,
    tick: Callable[[int], None] = lambda n: None,
) -> tuple[list[tuple[int, int]], F32]:
    """Pairs of ``retrieval-NA-K``, as ``scene_pairs`` lists them, and the score by which each was found.

    ``rows`` gives the scores ``[B, count]`` of some pictures against all. Each picture is asked
    for once, each anchor once more: time grows with the square of ``count``, memory with
    ``BLOCK * count``.
    """
    sizes = wanted(graph)
    if sizes is None:
        raise ArgumentError(f"graph {graph!r}, want retrieval-NA-K")
    anchors, k = min(sizes[0], count), min(sizes[1], count)
    found: dict[tuple[int, int], float] = {}
    chosen = _farthest(count, anchors, anchor, rows) if anchors else []
    for at in range(0, count, BLOCK):
        numbers = list(range(at, min(at + BLOCK, count)))
        scores = rows(numbers)
        for i, row in zip(numbers, scores, strict=True):
            distance = 1.0 - row.astype(np.float64)
            own = {int(j) for j in _nearest(distance, k)} - {i}
            if chosen and i not in chosen:
                own.add(chosen[int(np.argmin(distance[chosen]))])
            for j in own:
                pair = (min(i, j), max(i, j))
                if pair not in found or pair[0] == i:
                    found[pair] = float(row[j])
            if i in chosen:
                for j in chosen[chosen.index(i) + 1 :]:
                    found[i, j] = float(row[j])
        tick(len(numbers))
    pairs = sorted(found)
    return pairs, np.array([found[pair] for pair in pairs], np.float32)


def _farthest(count: int, wanted: int, first: int, rows: Callable[[Sequence[int]], F32]) -> list[int]:
    """Each time the picture whose nearest anchor is farthest; one chosen twice is listed once."""
    if not 0 <= first < count:
        raise ArgumentError(f"first anchor {first}, want 0 to {count - 1}")
    chosen = [first]
    nearest: F64 = 1.0 - rows([first])[0].astype(np.float64)
    for _ in range(wanted - 1):
        other = int(np.argmax(nearest))
        if other not in chosen:
            chosen.append(other)
        nearest = np.minimum(nearest, 1.0 - rows([other])[0].astype(np.float64))
    return chosen


def _nearest(distance: F64, k: int) -> npt.NDArray[np.intp]:
    """The k smallest; of equal ones those that come first, as a stable sort takes them."""
    if k <= 0:
        return np.zeros(0, np.intp)
    limit = np.partition(distance, k - 1)[k - 1]
    below = np.flatnonzero(distance < limit)
    return np.concatenate([below, np.flatnonzero(distance == limit)[: k - len(below)]])
