# SPDX-License-Identifier: Apache-2.0
"""What the network says of a collection: matches of pairs, depth and focal length of pictures.

Every picture is encoded once, every pair decoded both ways, and each result kept in the store
at once, so that a run that was stopped goes on where it was. Descriptors and pointmaps are
dropped after their pair: a pair keeps matches in original pixels, a picture the median of its
own depth over a few pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .._engine.engine import Engine
from .._pairs.plan import depth_pairs, normal
from .._pairs.record import features_in, write_run
from .._pairs.rule import Rule
from .._pairs.task import Picture
from .._pairs.worker import PairWorker
from .._pictures.header import Photo, why
from .._results.results import Transform
from .._results.windows import transform_of
from .._store.store import Arrays, Store
from ..errors import ImageError

__all__ = ["Evidence", "PairMatches", "gather"]

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PairMatches:
    """Pixels ``[N, 2]`` of two pictures that match, in original pixels."""

    first: int
    second: int
    xy_1: F32
    xy_2: F32

    def __len__(self) -> int:
        return len(self.xy_1)


@dataclass
class Evidence:
    """All that solving needs. ``depth[i]`` and ``confidence[i]`` are ``[H, W]`` at network size,
    ``pixel[i]`` is the size of a network pixel, or twice what a match is exact to, in original ones.
    ``lost`` are pictures that could not be read when they were needed, and why: they have no pairs."""

    pairs: list[PairMatches] = field(default_factory=list)
    pixel: dict[int, float] = field(default_factory=dict)
    transforms: dict[int, Transform] = field(default_factory=dict)
    focals: dict[int, list[float]] = field(default_factory=dict)  # original pixels
    depth: dict[int, F32] = field(default_factory=dict)
    confidence: dict[int, F32] = field(default_factory=dict)
    encoded: int = 0
    decoded: int = 0
    lost: dict[int, str] = field(default_factory=dict)

    @contextmanager
    def watched(self, photos: Sequence[Photo], i: int, j: int) -> Iterator[bool]:
        """Around the work on a pair: whether both can be read; an error about one's file loses that one."""
        try:
            yield i not in self.lost and j not in self.lost
        except ImageError as error:
            bad = [k for k in (i, j) if error.file == str(photos[k].path)]
            if not bad:
                raise
            for k in bad:
                self.lost[k] = why(error)

    def take(self, i: int, j: int, found: Arrays, maps: dict[int, list[tuple[F32, F32]]]) -> None:
        """Add what a pair says. Its depth goes to ``maps``: a picture has that of several pairs."""
        self.pairs.append(PairMatches(i, j, found["xy_1"], found["xy_2"]))
        for picture, which in ((i, "1"), (j, "2")):
            t = transform_of(found[f"transform_{which}"])
            self.transforms[picture], self.pixel[picture] = t, float(np.mean(t.scale))
            focal = float(found[f"focal_{which}"])
            if np.isfinite(focal):
                self.focals.setdefault(picture, []).append(focal)
            if f"depth_{which}" in found:
                # copies: a map of depths is a view of its whole pointmap
                own = (found[f"depth_{which}"].copy(), found[f"conf_{which}"].copy())
                maps.setdefault(picture, []).append(own)

    def middle(self, picture: int, maps: Sequence[tuple[F32, F32]]) -> None:
        """The median of the depth that several pairs say."""
        self.depth[picture] = np.median(np.stack([d for d, _ in maps]), axis=0)
        self.confidence[picture] = np.median(np.stack([c for _, c in maps]), axis=0)

    def forget_lost(self) -> None:
        """Drop what was found of pictures before they were lost."""
        self.pairs = [p for p in self.pairs if p.first not in self.lost and p.second not in self.lost]
        for i in self.lost:
            self.focals.pop(i, None)
            self.depth.pop(i, None)
            self.confidence.pop(i, None)


def gather(
    engine: Engine,
    photos: Sequence[Photo],
    pairs: Sequence[tuple[int, int]],
    store: Store,
    *,
    stride: int,
    features: str = "auto",
    tick: Callable[[], None] = lambda: None,
) -> Evidence:
    """Match every pair, taking from the store what is there."""
    rule = Rule.of(engine, stride, features_in(store, engine) if features == "auto" else features)
    known = [Picture(str(photo.path), photo.sha256) for photo in photos]
    write_run(store, [p.name for p in photos], known, normal(pairs, len(photos)), rule, "dense")
    worker = PairWorker(engine, store, rule)
    maps: dict[int, list[tuple[F32, F32]]] = {}
    wanted = depth_pairs(pairs)
    evidence = Evidence()
    for i, j in pairs:
        with evidence.watched(photos, i, j) as both:
            if both:
                found = worker.pair(known[i], known[j], (i, j) in wanted[i], (i, j) in wanted[j])
                evidence.take(i, j, found, maps)
        for picture in (i, j):
            if len(maps.get(picture, ())) == len(wanted[picture]):
                evidence.middle(picture, maps.pop(picture))
        tick()
    for picture, several in maps.items():  # whose other pairs were lost with their partners
        evidence.middle(picture, several)
    evidence.forget_lost()
    evidence.encoded, evidence.decoded = worker.encoded, worker.decoded
    return evidence
