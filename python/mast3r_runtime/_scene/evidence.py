# SPDX-License-Identifier: Apache-2.0
"""What the network says of a collection: matches of pairs, depth and focal length of pictures.

Every picture is encoded once, every pair decoded both ways, and each result kept in the store
at once, so that a run that was stopped goes on where it was. Descriptors and pointmaps are
dropped after their pair: a pair keeps matches in original pixels, a picture the median of its
own depth over a few pairs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._engine.engine import Engine
from .._engine.features import Features
from .._library.memory import GPUTensor
from .._library.version import __version__
from ..errors import Mast3rError
from ..geometry import network_focal
from ..images import U8, read_image
from ..results import InferenceResult, Transform
from ..store import Arrays, Store, file_hash, key_of
from .photos import Photo

__all__ = ["Evidence", "PairMatches", "gather"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

DEPTHS = 8  # of so many pairs a picture's own depth is the median
MATCHING = 3  # the way of matching; another number where a change gives other matches
PICTURES = 12  # whose pixels are kept in memory
CACHE_BYTES = 512 << 20  # of encoder features kept in memory


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
    """All that solving needs. ``depth[i]`` and ``confidence[i]`` are ``[H, W]`` at network size."""

    pairs: list[PairMatches] = field(default_factory=list)
    transforms: dict[int, Transform] = field(default_factory=dict)
    focals: dict[int, list[float]] = field(default_factory=dict)  # original pixels
    depth: dict[int, F32] = field(default_factory=dict)
    confidence: dict[int, F32] = field(default_factory=dict)
    encoded: int = 0
    decoded: int = 0


def gather(
    engine: Engine,
    photos: Sequence[Photo],
    pairs: Sequence[tuple[int, int]],
    store: Store,
    *,
    stride: int,
    tick: Callable[[], None] = lambda: None,
) -> Evidence:
    """Match every pair, taking from the store what is there."""
    worker = _Worker(engine, photos, store, stride)
    maps: dict[int, list[tuple[F32, F32]]] = {}
    wanted = _depth_pairs(pairs)
    evidence = Evidence()
    for i, j in pairs:
        found = worker.pair(i, j, (i, j) in wanted[i], (i, j) in wanted[j])
        evidence.pairs.append(PairMatches(i, j, found["xy_1"], found["xy_2"]))
        for picture, which in ((i, "1"), (j, "2")):
            t = Transform(*map(int, found[f"transform_{which}"]))
            evidence.transforms[picture] = t
            focal = float(found[f"focal_{which}"])
            if np.isfinite(focal):
                evidence.focals.setdefault(picture, []).append(focal)
            if f"depth_{which}" in found:
                maps.setdefault(picture, []).append((found[f"depth_{which}"], found[f"conf_{which}"]))
        tick()
    for picture, several in maps.items():
        evidence.depth[picture] = np.median(np.stack([d for d, _ in several]), axis=0)
        evidence.confidence[picture] = np.median(np.stack([c for _, c in several]), axis=0)
    evidence.encoded, evidence.decoded = worker.encoded, worker.decoded
    return evidence


def _depth_pairs(pairs: Sequence[tuple[int, int]]) -> dict[int, set[tuple[int, int]]]:
    """For each picture the pairs whose depth of it is kept: those nearest in the list."""
    of: dict[int, list[tuple[int, int]]] = {}
    for pair in pairs:
        for i in pair:
            of.setdefault(i, []).append(pair)
    return {i: set(sorted(own, key=lambda p: (abs(p[0] - p[1]), p))[:DEPTHS]) for i, own in of.items()}


class _Worker:
    """Features and pairs, from the store or from the engine."""

    def __init__(self, engine: Engine, photos: Sequence[Photo], store: Store, stride: int) -> None:
        self.engine, self.photos, self.store, self.stride = engine, photos, store, stride
        info = engine.info()
        model = model_hash(engine.path)
        # What changes the numbers: the model, the sizes, the arithmetic. Not the threads.
        self.network = [__version__, model, info["resolution"], info["precision"]]
        self.kept: OrderedDict[int, Features] = OrderedDict()
        self.pictures: OrderedDict[int, U8] = OrderedDict()
        self.bytes = 0
        self.encoded = self.decoded = 0

    def features(self, i: int) -> Features:
        if i in self.kept:
            self.kept.move_to_end(i)
            return self.kept[i]
        key = key_of("features", self.photos[i].sha256, self.network)
        arrays = self.store.read_arrays("features", key)
        if arrays is not None:
            tokens = GPUTensor.from_numpy(arrays["tokens"])
            features = Features(tokens, Transform(*map(int, arrays["transform"])))
        else:
            features = self.engine.encode(self.picture(i))
            self.encoded += 1
            self.store.write_arrays(
                "features", key, {"tokens": features.numpy(), "transform": _numbers(features.transform)}
            )
        self.kept[i] = features
        self.bytes += features.numpy().nbytes
        while self.bytes > CACHE_BYTES and len(self.kept) > 2:
            _, old = self.kept.popitem(last=False)
            self.bytes -= old.numpy().nbytes
        return features

    def picture(self, i: int) -> U8:
        """The pixels of a picture; the last few are kept."""
        if i not in self.pictures:
            while len(self.pictures) >= PICTURES:
                self.pictures.popitem(last=False)
            self.pictures[i] = read_image(self.photos[i].path)
        self.pictures.move_to_end(i)
        return self.pictures[i]

    def pair(self, i: int, j: int, depth_1: bool, depth_2: bool) -> Arrays:
        """Matches of a pair, and the depth of its pictures where it is wanted."""
        shas = (self.photos[i].sha256, self.photos[j].sha256)
        keys = {
            "pairs": key_of("pair", MATCHING, *shas, self.network, self.stride),
            "1": key_of("depth", *shas, self.network),
            "2": key_of("depth", *shas[::-1], self.network),
        }
        wanted = [("depth", "1")] * depth_1 + [("depth", "2")] * depth_2
        out = self.store.read_arrays("pairs", keys["pairs"])
        for _, which in wanted:
            own = self.store.read_arrays("depth", keys[which]) if out is not None else None
            out = {**out, **own_named(own, which)} if out is not None and own is not None else None
        return out if out is not None else self.compute(i, j, keys, wanted)

    def compute(self, i: int, j: int, keys: dict[str, str], wanted: list[tuple[str, str]]) -> Arrays:
        one, two = self.features(i), self.features(j)
        results = {"1": self.engine.decode(one, two).numpy(), "2": self.engine.decode(two, one).numpy()}
        self.decoded += 2
        images = self.picture(i), self.picture(j)
        xy = [self.matches(results["1"], images), self.matches(results["2"], images[::-1])]
        xy_1 = np.concatenate([xy[0][0], xy[1][1]])
        xy_2 = np.concatenate([xy[0][1], xy[1][0]])
        _, first = np.unique(np.hstack([xy_1, xy_2]), axis=0, return_index=True)
        first.sort()
        arrays: dict[str, Any] = {"xy_1": xy_1[first], "xy_2": xy_2[first]}
        for which, features in (("1", one), ("2", two)):
            arrays[f"transform_{which}"] = _numbers(features.transform)
            arrays[f"focal_{which}"] = _focal(results[which])
        self.store.write_arrays("pairs", keys["pairs"], arrays)
        for kind, which in wanted:
            own = {"depth": results[which].pts3d_1[:, :, 2], "conf": results[which].conf_1}
            self.store.write_arrays(kind, keys[which], own)
            arrays.update(own_named(own, which))
        return arrays

    def matches(self, result: InferenceResult, images: tuple[U8, U8]) -> tuple[F32, F32]:
        """Matches from a grid of anchors in the first picture, in original pixels.

        An anchor is a whole network pixel; its partner is moved to where the pictures agree.
        """
        found = self.engine.match(
            result, top_k=0, subsample=self.stride, both_ways=False, images=images, refine=True
        )
        return found.original_1.astype(np.float32), found.original_2.astype(np.float32)


def model_hash(path: str | None) -> str:
    """What tells a model from all others: the bytes of its files."""
    if path is None:
        return ""
    place = Path(path)
    files = sorted(p for p in place.iterdir() if p.is_file()) if place.is_dir() else [place]
    return key_of([file_hash(file) for file in files])


def _focal(result: InferenceResult) -> float:
    """The focal length of the first picture by its points, in original pixels; NaN where they say none."""
    try:
        return network_focal(result)
    except Mast3rError:
        return float("nan")


def own_named(arrays: Arrays, which: str) -> Arrays:
    return {f"{name}_{which}": value for name, value in arrays.items()}


def _numbers(transform: Transform) -> npt.NDArray[np.int32]:
    return np.array([getattr(transform, name) for name in Transform.__slots__], np.int32)
