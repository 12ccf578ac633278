# SPDX-License-Identifier: Apache-2.0
"""From matches of pairs to key points of pictures.

Tracks are anchored: the matches of a picture start from the same grid of anchors in every pair,
so one anchor that is matched to k pictures is a track of k + 1 exact observations. A key point is
a picture and an exact pixel; nothing is rounded into cells or merged by distance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._pictures.masks import Mask
from .evidence import PairMatches

__all__ = ["KeyPoints", "hidden_shares", "key_points", "thinned"]


Numbers = npt.NDArray[np.uint32]

CELLS = 16  # a side of a picture, over which tracks are spread


@dataclass(frozen=True)
class KeyPoints:
    """``xy[i] [n, 2]`` of each picture in original pixels; ``matches[i, j] [m, 2]`` numbers of both."""

    xy: list[npt.NDArray[np.float64]]
    matches: dict[tuple[int, int], npt.NDArray[np.uint32]]


def key_points(
    count: int, pairs: Sequence[PairMatches], masks: Mapping[int, Mask] | None = None
) -> KeyPoints:
    """Number the distinct pixels of every picture. ``masks`` keep matches where they are true."""
    used = [_masked(pair, masks or {}) for pair in pairs]
    ends: list[list[npt.NDArray[np.float32]]] = [[] for _ in range(count)]
    for pair in used:
        ends[pair.first].append(pair.xy_1)
        ends[pair.second].append(pair.xy_2)
    xy: list[npt.NDArray[np.float64]] = []
    numbers: list[list[npt.NDArray[np.intp]]] = []
    for own in ends:
        if not own:
            xy.append(np.zeros((0, 2)))
            numbers.append([])
            continue
        rows, inverse = np.unique(np.concatenate(own), axis=0, return_inverse=True)
        xy.append(rows.astype(np.float64))
        numbers.append(np.split(inverse.ravel(), np.cumsum([len(e) for e in own])[:-1]))
    at = [0] * count
    matches = {}
    for pair in used:
        both = []
        for i in (pair.first, pair.second):
            both.append(numbers[i][at[i]])
            at[i] += 1
        if len(pair):
            matches[pair.first, pair.second] = np.stack(both, 1).astype(np.uint32)
    return KeyPoints(xy, matches)


def _kept(pair: PairMatches, masks: Mapping[int, Mask]) -> npt.NDArray[np.bool_]:
    """Which matches no mask hides, at either end."""
    keep = np.ones(len(pair), bool)
    for i, xy in ((pair.first, pair.xy_1), (pair.second, pair.xy_2)):
        if i in masks:
            mask = masks[i]
            x = np.clip(np.rint(xy[:, 0]), 0, mask.shape[1] - 1).astype(np.intp)
            y = np.clip(np.rint(xy[:, 1]), 0, mask.shape[0] - 1).astype(np.intp)
            keep &= mask[y, x]
    return keep


def hidden_shares(pairs: Sequence[PairMatches], masks: Mapping[int, Mask]) -> dict[int, float]:
    """Of the pictures some of whose matches are under a mask, the share of them."""
    if not masks:
        return {}
    count: dict[int, list[int]] = {}
    for pair in pairs:
        gone = len(pair) - int(_kept(pair, masks).sum())
        for i in (pair.first, pair.second):
            total = count.setdefault(i, [0, 0])
            total[0] += gone
            total[1] += len(pair)
    return {i: gone / total for i, (gone, total) in count.items() if gone}


def _masked(pair: PairMatches, masks: Mapping[int, Mask]) -> PairMatches:
    keep = _kept(pair, masks)
    return PairMatches(pair.first, pair.second, pair.xy_1[keep], pair.xy_2[keep])


def thinned(
    keys: KeyPoints, inliers: Mapping[tuple[int, int], Numbers], own: int, least: int
) -> dict[tuple[int, int], Numbers]:
    """The inliers of the tracks that are seen most, spread over the pictures.

    A track is a star: an anchor of one picture and its match in each of several others. Each picture
    begins ``own`` tracks at most, first the longest of every cell of its area, then the second, and
    so on. A pair that would keep fewer than ``least`` inliers keeps so many, the longest tracks first.
    """
    degrees = [np.zeros(len(xy), np.intp) for xy in keys.xy]
    for pair, numbers in inliers.items():
        for i, column in zip(pair, numbers.T):
            np.add.at(degrees[i], column, 1)
    ranks = [_ranks(xy, degree) for xy, degree in zip(keys.xy, degrees)]
    out = {}
    for (i, j), numbers in inliers.items():
        a, b = numbers.T
        rank = np.where(degrees[i][a] >= degrees[j][b], ranks[i][a], ranks[j][b])
        order = np.argsort(rank, kind="stable")
        count = max(int((rank < own).sum()), min(least, len(order)))
        out[i, j] = numbers[np.sort(order[:count])]
    return out


def _ranks(xy: npt.NDArray[np.float64], degree: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """The rank of every key point of a picture, the longest track of each cell before the second."""
    rank = np.empty(len(xy), np.intp)
    if not len(xy):
        return rank
    low, size = xy.min(0), np.ptp(xy, axis=0).max() or 1.0
    x, y = np.minimum((xy - low) / size * CELLS, CELLS - 1).astype(np.intp).T
    cell = y * CELLS + x
    order = np.lexsort((-degree, cell))
    first = np.searchsorted(cell[order], cell[order])
    within = np.arange(len(order)) - first
    best = order[np.lexsort((-degree[order], within))]
    rank[best] = np.arange(len(best))
    return rank
