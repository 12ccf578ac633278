# SPDX-License-Identifier: Apache-2.0
"""Pairs that contradict the others: two places that look alike, taken for one.

The matches of two identical walls make a perfect pair; only the way round, over other pairs, says
that it cannot be. The best pairs that connect all pictures give every picture a turn, and every
other pair a turn that it should have; pairs that do not agree are left out. The best are believed
and not the most: a wall that is taken for another makes many pairs, but each of them lacks what
lies beside the wall, so neighbours share more.

Places that are seen in one direction, like the doors of a corridor, contradict nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .model import F64

__all__ = ["contradictions"]

Pair = tuple[int, int]

ALLOWED = 15.0  # degrees that a pair may be off
# What a wrong focal length does to turns: they all come out too large or too small by a share.
ALLOWED_SHARE = 0.25  # of all turns on the way


def contradictions(turns: Mapping[Pair, F64], worth: Mapping[Pair, float]) -> set[Pair]:
    """The pairs to leave out.

    Parameters
    ----------
    turns : by pair (i, j), i < j, the rotation [3, 3] from camera i to camera j
    worth : by pair its inliers
    """
    group = {i: [i] for pair in turns for i in pair}
    of = {i: i for i in group}
    beside: dict[int, list[int]] = {i: [] for i in group}
    rest = []
    for i, j in sorted(turns, key=lambda p: (-worth[p], p)):
        a, b = of[i], of[j]
        if a == b:
            rest.append((i, j))
            continue
        beside[i].append(j)
        beside[j].append(i)
        small, large = sorted((a, b), key=lambda r: len(group[r]))
        for member in group[small]:
            of[member] = large
        group[large] += group.pop(small)
    turn: dict[int, F64] = {}
    above: dict[int, tuple[int, float, int]] = {}  # parent, degrees from it, depth
    for root in group:
        turn[root], above[root], stack = np.eye(3), (root, 0.0, 0), [root]
        while stack:
            i = stack.pop()
            for j in beside[i]:
                if j not in turn:
                    step = turns[i, j] if i < j else turns[j, i].T
                    turn[j], above[j] = step @ turn[i], (i, _degrees(step), above[i][2] + 1)
                    stack.append(j)
    out = set()
    for i, j in rest:
        off = _degrees(turns[i, j] @ turn[i] @ turn[j].T)
        if off > ALLOWED + ALLOWED_SHARE * _way(above, i, j):
            out.add((i, j))
    return out


def _way(above: Mapping[int, tuple[int, float, int]], i: int, j: int) -> float:
    """The sum of the turns on the way through the tree."""
    total = 0.0
    while i != j:
        if above[i][2] < above[j][2]:
            i, j = j, i
        total += above[i][1]
        i = above[i][0]
    return total


def _degrees(turn: F64) -> float:
    return float(np.degrees(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1))))
