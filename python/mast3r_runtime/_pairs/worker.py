# SPDX-License-Identifier: Apache-2.0
"""One pair: features from the store or the engine, both directions decoded and matched, the result kept.

Each result is written at once, so that a run that was stopped goes on where it was. Descriptors
and pointmaps are dropped after their pair; a pair keeps matches in original pixels.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .._engine.engine import Engine
from .._engine.features import Features
from .._library.version import __version__
from .._output.export import write_npz
from .._pictures.arrays import U8
from .._pictures.reading import about, pixels_of
from .._results.geometry import network_focal
from .._results.results import InferenceResult, MatchResult
from .._store import safetensors
from .._store.store import Arrays, Store
from ..errors import Mast3rError
from .rule import Rule

__all__ = ["VERDICTS", "CACHE_BYTES", "Outcome", "PairWorker"]

F32 = npt.NDArray[np.float32]

PICTURES = 12  # whose pixels are kept in memory
CACHE_BYTES = 512 << 20  # of encoder features kept in memory
VERDICTS = ("NO", "UNSURE", "YES")  # in the order of what they say, as the store numbers them


class PictureLike(Protocol):
    """A picture file and the SHA-256 of its bytes."""

    @property
    def path(self) -> Any: ...
    @property
    def sha256(self) -> str: ...


class Outcome(NamedTuple):
    """How many matches a pair has, and the number of its verdict in VERDICTS."""

    matches: int
    verdict: int


class PairWorker:
    """Features and pairs, from the store or from the engine.

    ``opened`` is the engine, or opens it: a worker that finds everything in the store never does.
    """

    def __init__(self, opened: Engine | Callable[[], Engine], store: Store, rule: Rule) -> None:
        self._opened, self.store, self.rule = opened, store, rule
        self.kept: OrderedDict[str, Features] = OrderedDict()
        self.pictures: OrderedDict[str, U8] = OrderedDict()
        self.bytes = 0
        self.encoded = self.decoded = 0

    @property
    def engine(self) -> Engine:
        if not isinstance(self._opened, Engine):
            self._opened = self._opened()
        return self._opened

    # ---- pictures --------------------------------------------------------

    def has_features(self, picture: PictureLike) -> bool:
        return self.store.exists("features", self.rule.feature_key(picture.sha256), ".safetensors")

    def features(self, picture: PictureLike) -> Features:
        """A picture's features as the store holds them; computed and written where it does not."""
        sha = picture.sha256
        if sha in self.kept:
            self.kept.move_to_end(sha)
            return self.kept[sha]
        features = self._stored(sha)
        if features is None:
            features = self._encode(picture)
        self.kept[sha] = features
        self.bytes += features.numpy().nbytes
        while self.bytes > CACHE_BYTES and len(self.kept) > 2:
            _, old = self.kept.popitem(last=False)
            self.bytes -= old.numpy().nbytes
        return features

    def _stored(self, sha: str) -> Features | None:
        arrays = self.store.read_arrays("features", self.rule.feature_key(sha))
        return None if arrays is None else Features._of(arrays)

    def _encode(self, picture: PictureLike) -> Features:
        pixels = self.picture(picture)
        with about(picture.path):  # it may be too thin for the network
            arrays = self.engine.encode(pixels)._arrays()
        self.encoded += 1
        arrays["tokens"] = arrays["tokens"].astype(self.rule.features)
        key = self.rule.feature_key(picture.sha256)
        self.store.write("features", key, safetensors.pack(arrays), ".safetensors")
        return Features._of(arrays)

    def picture(self, picture: PictureLike) -> U8:
        """The pixels of a picture; the last few are kept."""
        sha = picture.sha256
        if sha not in self.pictures:
            while len(self.pictures) >= PICTURES:
                self.pictures.popitem(last=False)
            self.pictures[sha] = pixels_of(picture.path, sha)
        self.pictures.move_to_end(sha)
        return self.pictures[sha]

    # ---- pairs -----------------------------------------------------------

    def outcome(
        self, one: PictureLike, two: PictureLike, depth: tuple[bool, bool], whole: bool
    ) -> Outcome | None:
        """What the store says of a pair that it has all of; reads no more than that."""
        keys = self._keys(one, two)
        missing = any(w and not self.store.exists("depth", keys[k]) for k, w in zip("12", depth, strict=True))
        if missing or (whole and not self.store.exists("results", keys["pairs"])):
            return None
        found = self.store.read_arrays("pairs", keys["pairs"], ("matches", "verdict"))
        return None if found is None else Outcome(int(found["matches"]), int(found["verdict"]))

    def pair(
        self,
        one: PictureLike,
        two: PictureLike,
        depth_1: bool = False,
        depth_2: bool = False,
        whole: bool = False,
    ) -> Arrays:
        """Matches of a pair, and the depth of its pictures where it is wanted.

        ``xy_1``, ``xy_2 [N, 2]`` are original pixels, ``weight [N]`` the similarity of the
        descriptors; ``transform_1``, ``focal_1``, and the same of picture 2; ``verdict`` counts
        VERDICTS. ``depth_1``, ``conf_1 [H, W]`` are at network size. ``whole`` keeps every map
        of the first direction in the store as well.
        """
        keys = self._keys(one, two)
        wanted = [("depth", "1")] * depth_1 + [("depth", "2")] * depth_2
        out = self.store.read_arrays("pairs", keys["pairs"])
        for _, which in wanted:
            own = self.store.read_arrays("depth", keys[which]) if out is not None else None
            out = {**out, **_named(own, which)} if out is not None and own is not None else None
        if out is not None and whole and not self.store.exists("results", keys["pairs"]):
            out = None
        return out if out is not None else self._compute(one, two, keys, wanted, whole)

    def _keys(self, one: PictureLike, two: PictureLike) -> dict[str, str]:
        shas = one.sha256, two.sha256
        return {
            "pairs": self.rule.pair_key(*shas),
            "1": self.rule.depth_key(*shas),
            "2": self.rule.depth_key(*shas[::-1]),
        }

    def _compute(
        self,
        one: PictureLike,
        two: PictureLike,
        keys: dict[str, str],
        wanted: list[tuple[str, str]],
        whole: bool,
    ) -> Arrays:
        first, second = self.features(one), self.features(two)
        results = {
            "1": self.engine.decode(first, second).numpy(), "2": self.engine.decode(second, first).numpy()
        }  # fmt: skip
        self.decoded += 2
        images = self.picture(one), self.picture(two)
        found = [self._match(results["1"], images), self._match(results["2"], images[::-1])]
        arrays: dict[str, Any] = _merged(*found)
        for which, features in (("1", first), ("2", second)):
            arrays[f"transform_{which}"] = features._arrays()["transform"]
            arrays[f"focal_{which}"] = _focal(results[which])
        info = self.engine.info()
        arrays["made_by"] = f"mast3r-runtime {__version__}, {info['name']}"
        for kind, which in wanted:
            own = {"depth": results[which].pts3d_1[:, :, 2], "conf": results[which].conf_1}
            self.store.write_arrays(kind, keys[which], own)
        if whole:
            out = io.BytesIO()
            write_npz(out, results["1"], found[0])
            self.store.write("results", keys["pairs"], out.getvalue())
        # The pair is last: where it is, all of its parts are.
        self.store.write_arrays("pairs", keys["pairs"], arrays)
        for _, which in wanted:
            arrays |= _named({"depth": results[which].pts3d_1[:, :, 2], "conf": results[which].conf_1}, which)
        return arrays

    def _match(self, result: InferenceResult, images: tuple[U8, U8]) -> MatchResult:
        """Matches from a grid of anchors in the first picture, in original pixels.

        An anchor is a whole network pixel; its partner is moved to where the pictures agree.
        """
        return self.engine.match(
            result, top_k=0, subsample=self.rule.stride, both_ways=False, images=images, refine=True
        )


def _merged(there: MatchResult, back: MatchResult) -> dict[str, Any]:
    """Matches of both directions, each once, and the better of the two verdicts."""
    xy_1 = np.concatenate([there.original_1, back.original_2]).astype(np.float32)
    xy_2 = np.concatenate([there.original_2, back.original_1]).astype(np.float32)
    weight = np.concatenate([there.confidence, back.confidence]).astype(np.float32)
    _, first = np.unique(np.hstack([xy_1, xy_2]), axis=0, return_index=True)
    first.sort()
    # Where one picture shows a small part of the other, only one direction sees much in common.
    overlaps = [overlap for m in (there, back) if (overlap := m.overlap) is not None]
    best = max(overlaps, key=lambda overlap: (VERDICTS.index(overlap.verdict), overlap.score))
    return {
        "xy_1": xy_1[first], "xy_2": xy_2[first], "weight": weight[first], "matches": np.int32(len(first)),
        "verdict": np.int8(VERDICTS.index(best.verdict)),
        "overlap": np.array([best.score, best.matched, best.consistent], np.float32),
    }  # fmt: skip


def _focal(result: InferenceResult) -> float:
    """The focal length of the first picture by its points, in original pixels; NaN where they say none."""
    try:
        return network_focal(result)
    except Mast3rError:
        return float("nan")


def _named(arrays: Arrays, which: str) -> Arrays:
    return {f"{name}_{which}": value for name, value in arrays.items()}
