# SPDX-License-Identifier: Apache-2.0
"""Which pictures of a collection are worth pairing: features, an index, pair lists.

A retrieval head turns encoder features into local features, each with an attention value. An
:class:`Index` with a codebook compares pictures by the features that fall on the same visual
words (ASMK). Without a codebook :func:`similarity` compares one vector per picture.
:func:`scene_pairs` turns scores, or the order of the pictures alone, into pairs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._library import calls
from .._library import structs as S
from .._library.memory import Array, GPUTensor
from .._library.owned import Owned
from ..errors import ArgumentError, ClosedError, ShapeError, checked

if TYPE_CHECKING:
    import torch

__all__ = ["HostArray", "Index", "Pair", "RetrievalResult", "scene_pairs", "similarity"]

F32 = npt.NDArray[np.float32]


class HostArray(np.ndarray[Any, np.dtype[Any]]):
    """A numpy array that also answers ``numpy()``, as a GPUTensor does.

    Scripts of both styles run: those that use the array directly, and those that call
    ``numpy()`` first.
    """

    def numpy(self) -> Array:
        """The same memory as a plain array."""
        return self.view(np.ndarray)


def _host(tensor: GPUTensor) -> HostArray:
    return tensor.numpy().view(HostArray)


@checked
@dataclass(frozen=True, eq=False)
class RetrievalResult:
    """Retrieval features of one picture.

    ``features [N, D]`` are whitened and not normalised. ``attention [N]`` is the length of each
    feature. ``global_feature [D]`` is their attention-weighted sum, scaled to length 1.
    ``numpy.asarray(result)`` gives the features.
    """

    features: HostArray
    attention: HostArray
    global_feature: HostArray
    timing: Mapping[str, float] = field(default_factory=dict)

    @property
    def attention_normalized(self) -> HostArray:
        """The attention divided by its sum."""
        total = self.attention.numpy().sum(dtype=np.float64)
        shares = self.attention.numpy() / total if total > 0 else np.full(len(self), 1 / max(len(self), 1))
        return np.asarray(shares, np.float32).view(HostArray)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numpy().shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.features.dtype

    def numpy(self) -> Array:
        """The features as a plain array."""
        return self.features.numpy()

    def to_torch(self, device: str = "cpu") -> dict[str, torch.Tensor]:
        """The arrays as torch tensors by field name (torch is not a dependency)."""
        import torch

        names = ("features", "attention", "attention_normalized", "global_feature")
        return {name: torch.from_numpy(getattr(self, name).numpy()).to(device) for name in names}

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"RetrievalResult: {array.dtype} as {np.dtype(dtype)} needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __len__(self) -> int:
        return len(self.features)

    def top(self, count: int) -> tuple[F32, npt.NDArray[np.int64]]:
        """The ``count`` features of greatest attention, in descending order, and their token indices."""
        if count < 0:
            raise ShapeError(f"top: {count} features, want 0 or more")
        order = np.argsort(-self.attention.numpy(), kind="stable")[:count]
        return self.features.numpy()[order], order

    @classmethod
    def _take(cls, taken: S.Retrieval) -> RetrievalResult:
        return cls(
            _host(GPUTensor(taken.features)),
            _host(GPUTensor(taken.attention)),
            _host(GPUTensor(getattr(taken, "global"))),
            {"total_ms": float(taken.total_ms)},
        )


class Pair(NamedTuple):
    """Two pictures, by their position in the list."""

    first: int
    second: int


@checked
def similarity(results: Sequence[RetrievalResult]) -> F32:
    """Cosine similarity of the pictures' global vectors, ``[n, n]``. Needs no codebook."""
    if not results:
        return np.empty((0, 0), np.float32)
    vectors = np.stack([result.global_feature.numpy() for result in results])
    return np.asarray(vectors @ vectors.T, np.float32)


@checked
def scene_pairs(
    n: int,
    graph: str,
    similarity: npt.ArrayLike | None = None,
    *,
    symmetrize: bool = False,
    prefilter: str = "",
    anchor: int = 0,
) -> list[Pair]:
    """List the pairs of ``n`` pictures in a scene graph.

    Parameters
    ----------
    n : int
        How many pictures there are.
    graph : str
        ``complete``; ``swin[-w][-noncyclic]``, each picture with the w after it;
        ``logwin[-w][-noncyclic]``, with those 1, 2, 4, ... away; ``oneref[-r]``, picture r with
        all others; ``retrieval-Na-k``, Na anchors with each other and every picture with its
        nearest anchor and its k most similar.
    similarity : array, optional
        ``[n, n]``, for a retrieval graph.
    symmetrize : bool
        Append every pair the other way round.
    prefilter : str
        ``seqT`` or ``cycT``: only pairs at most T apart in their order.
    anchor : int
        The first anchor of a retrieval graph.
    """
    options = S.struct(
        S.SceneOptions,
        symmetrize=int(bool(symmetrize)),
        prefilter=calls.text("prefilter", prefilter),
        anchor=calls.int32("anchor", anchor),
    )
    scores = None
    if similarity is not None:
        scores = np.ascontiguousarray(similarity, np.float64)
        if scores.shape != (n, n):
            raise ShapeError(f"scene_pairs: similarity of shape {scores.shape}, want ({n}, {n})")
        options.similarity = scores.ctypes.data
    out = S.Handle()
    name = calls.text("graph", graph)
    calls.call("mast3r_scene_pairs", calls.int32("n", n), name, options, out)
    del scores  # was read, and must not go before
    return [Pair(int(a), int(b)) for a, b in GPUTensor(out.value).numpy()]


@checked
class Index:
    """Pictures that can be searched by their local features (ASMK). Made by ``engine.open_index``."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._owned = Owned("mast3r_index_close", handle)

    def add(self, pictures: RetrievalResult | Sequence[RetrievalResult]) -> None:
        """Add pictures to the index, in order."""
        structs, count, keep = _local_features(pictures)
        with calls.Job("mast3r_submit_index_add", self._live(), structs, count, keep=keep) as job:
            job.wait()

    def score(self, pictures: RetrievalResult | Sequence[RetrievalResult]) -> F32:
        """Score pictures against the index: ``[pictures, len(index)]``; larger means more similar.

        The matrix of a collection against itself is not symmetric: each feature of a query is
        assigned to its five nearest words, each feature in the index to one.
        """
        structs, count, keep = _local_features(pictures)
        if not count:
            return np.empty((0, len(self)), np.float32)
        with calls.Job("mast3r_submit_index_score", self._live(), structs, count, keep=keep) as job:
            job.wait()
            return GPUTensor(job.take_handle("mast3r_job_take_scores")).numpy()

    def write(self, path: str | os.PathLike[str], first: int = 0) -> None:
        """Write the pictures of the index, from number ``first`` on, to a safetensors file.

        It is some thirtieth of the size of their features.
        """
        name, start = calls.text("path", os.fspath(path)), calls.int32("first", first)
        if start < 0:
            raise ArgumentError(f"first={first}, want 0 or more")
        with calls.Job("mast3r_submit_index_write", self._live(), start, name, keep=name) as job:
            job.wait()

    def merge(self, path: str | os.PathLike[str]) -> None:
        """Put the pictures that :meth:`write` wrote behind those that are here, as if they had been added.

        Raises WeightsError for a file of another codebook, another ``nfeat`` or damaged; nothing is
        added then.
        """
        name = calls.text("path", os.fspath(path))
        with calls.Job("mast3r_submit_index_merge", self._live(), name, keep=name) as job:
            job.wait()

    def __len__(self) -> int:
        count = S.UInt64()
        calls.call("mast3r_index_length", self._live(), count)
        return int(count.value)

    def close(self) -> None:
        """Free the codebook. May be called twice; closing the engine ends the index as well."""
        self._owned._close()

    def _live(self) -> int:
        calls.check_fork()
        if not self._owned._alive:
            raise ClosedError("index: closed")
        return self._handle

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _local_features(pictures: RetrievalResult | Sequence[RetrievalResult]) -> tuple[Any, int, object]:
    """Return pictures as an array of structs, their number, and what must stay in memory."""
    results = [pictures] if isinstance(pictures, RetrievalResult) else list(pictures)
    keep: list[Array] = []

    def structs() -> Iterator[S.LocalFeatures]:
        for result in results:
            features = np.ascontiguousarray(result.features, np.float32)
            attention = np.ascontiguousarray(result.attention, np.float32)
            if features.ndim != 2 or attention.shape != features.shape[:1]:
                raise ShapeError(
                    f"index: features {features.shape} and attention {attention.shape}, want [N, D] and [N]"
                )
            keep.extend((features, attention))
            yield S.struct(
                S.LocalFeatures,
                n=features.shape[0],
                dim=features.shape[1],
                features=features.ctypes.data,
                attention=attention.ctypes.data,
            )

    array = (S.LocalFeatures * len(results))(*structs())
    return array, len(results), (array, keep)
