# SPDX-License-Identifier: Apache-2.0
"""What retrieval needs of a picture, from the store or from the engine."""

from __future__ import annotations

import os

import numpy as np

from .._engine.engine import Engine
from .._engine.index import HostArray, RetrievalResult
from .._library.version import __version__
from .._pictures.reading import about, fetch, pixels_of
from .._store.store import Store, key_of
from .rule import model_hash

__all__ = ["Looks"]


class Looks:
    """Retrieval features of picture files, kept in a store.

    Of each picture the ``nfeat`` features of greatest attention are kept, in the order of their
    tokens: an index that uses as many has the same bits from them as from all.
    """

    def __init__(self, engine: Engine, store: Store, nfeat: float, square_ok: bool) -> None:
        self.engine, self.store, self.nfeat, self.square_ok = engine, store, nfeat, square_ok
        info = engine.info()
        own, head = engine._retrieval or (None, "")
        self.head = model_hash(head)
        self.rule = [
            __version__, model_hash(own or engine.path), self.head, int(info["resolution"]),
            str(info["precision"]), square_ok, float(nfeat),
        ]  # fmt: skip
        self.encoded = 0
        self._hashes: dict[str, str] = {}

    def key(self, path: str | os.PathLike[str]) -> str:
        """The key of a picture's features; its file is read once, and stays what it was then."""
        sha = self._sha256(os.fspath(path))
        return f"{sha[:24]}-{self.head[:12]}-{key_of('retrieval', sha, self.rule)[:12]}"

    def _sha256(self, path: str) -> str:
        if path not in self._hashes:
            self._hashes[path] = fetch(path).sha256
        return self._hashes[path]

    def of(self, path: str | os.PathLike[str]) -> RetrievalResult:
        """The features of a picture. Raises what the engine does for one that cannot be used."""
        key = self.key(path)
        found = self.store.read_arrays("retrieval", key)
        if found is None:
            image = pixels_of(path, self._sha256(os.fspath(path)))
            with about(path):
                result = self.engine.encode_retrieval(image, square_ok=self.square_ok)
            self.encoded += 1
            found = {
                "features": result.features.numpy(), "attention": result.attention.numpy(),
                "global": result.global_feature.numpy(),
            }  # fmt: skip
            if 0 < self.nfeat < len(found["attention"]):
                best = np.sort(np.argsort(-found["attention"], kind="stable")[: int(self.nfeat)])
                found |= {name: found[name][best] for name in ("features", "attention")}
            self.store.write_arrays("retrieval", key, found)
        arrays = {n: np.ascontiguousarray(found[n]).view(HostArray) for n in found}
        return RetrievalResult(arrays["features"], arrays["attention"], arrays["global"])
