# SPDX-License-Identifier: Apache-2.0
"""What a reconstruction will need, estimated before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from .._engine.engine import Engine
from .._pairs.machine import free_memory
from .._pairs.plan import DEPTHS
from .._pairs.worker import CACHE_BYTES
from ..errors import ArgumentError

__all__ = ["Budget", "estimate"]

BASE = 256 << 20  # pycolmap, the network's own buffers: measured
POINT = 160  # bytes a pixel while its points are written, thinned and packed: measured at 80 and 120 pictures
PAIRS_ASKED = 200_000  # pairs above which a graph is surely a mistake


@dataclass(frozen=True)
class Budget:
    """Bytes at the peak, beyond the model, and how it was counted.

    Depth maps are held before solving, the points of all pixels after it, when files are written:
    the larger of the two counts.
    """

    pictures: int
    pairs: int
    features: int
    maps: int
    matches: int
    points: int = 0

    @property
    def bytes(self) -> int:
        return BASE + self.features + max(self.maps, self.points) + self.matches

    def check(self, limit: int | None, graph: str) -> None:
        """Raise ArgumentError where it is more than ``limit``, or than the machine has free."""
        have = free_memory() if limit is None else limit
        if self.bytes > have or self.pairs > PAIRS_ASKED:
            raise ArgumentError(
                f"graph {graph} of {self.pictures} pictures is {self.pairs:,} pairs and needs about "
                f"{self.bytes / 2**30:.1f} GB of memory, {have / 2**30:.1f} GB may be used; "
                f"use --graph retrieval-20-10 or logwin-5, or a larger --stride"
            )


def estimate(engine: Engine, pictures: int, pairs: int, stride: int) -> Budget:
    """Count arrays: features in memory, depth maps of every picture, matches of every pair."""
    info = engine.info()
    side, patch = int(info["resolution"]), max(int(info["patch"]), 1)
    pixels = side * side * 3 // 4
    features = min(pictures * (pixels // patch**2) * int(info["enc_dim"]) * 4, CACHE_BYTES)
    kept = min(DEPTHS, max(2 * pairs // max(pictures, 1), 1))
    # depth and confidence of each kept pair, then the median; in solving one more copy, and colours
    maps = pictures * pixels * 4 * (2 * kept + 4)
    points = pictures * pixels * (4 * 4 + POINT)
    # two directions, two ends, float32 pairs of numbers; key points and pycolmap's copies of them
    matches = pairs * 2 * (pixels // stride**2) * (16 + 16 + 48)
    return Budget(pictures, pairs, features, maps, matches, points)
