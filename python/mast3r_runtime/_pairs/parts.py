# SPDX-License-Identifier: Apache-2.0
"""Parts of an index in a store: blocks of pictures whose features need not be read again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from .._engine.index import Index
from .._library.version import __version__
from .._store import safetensors
from .._store.store import Store, key_of
from ..errors import ImageError, WeightsError
from .looks import Looks
from .rule import model_hash

__all__ = ["PART", "Parts", "blocks"]

PART = 256  # pictures of a part: 10 MB


def blocks(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """The numbers in blocks; a picture more at the end changes the last block alone."""
    for at in range(0, len(numbers), PART):
        yield numbers[at : at + PART]


class Parts:
    """Blocks of an index by what they were made from: pictures, head, codebook, number of features."""

    def __init__(self, store: Store, looks: Looks, codebook: str | os.PathLike[str]) -> None:
        self.store, self.looks = store, looks
        self.rule = [__version__, model_hash(os.fspath(codebook)), float(looks.nfeat)]
        self.read = self.written = 0

    def key(self, paths: Sequence[str | os.PathLike[str]]) -> str | None:
        """The key of a block; None where a picture of it cannot be read."""
        try:
            return key_of("index", self.rule, [self.looks.key(path) for path in paths])
        except ImageError:
            return None

    def merge(self, index: Index, key: str | None) -> bool:
        """Put a block that is in the store behind the pictures of the index; False where it is not there."""
        data = None if key is None else self.store.read_whole("index", key, ".safetensors")
        if data is None:
            return False
        try:
            with tempfile.TemporaryDirectory(prefix="mast3r-") as folder:
                path = Path(folder, "part.safetensors")
                path.write_bytes(data)
                index.merge(path)
        except WeightsError:
            return False
        self.read += 1
        return True

    def has(self, key: str | None) -> bool:
        """Whether the store has a block."""
        return key is not None and self.store.exists("index", key, ".safetensors")

    def write(self, index: Index, first: int, key: str) -> None:
        """Keep the pictures of the index from number ``first`` on: a block."""
        with tempfile.TemporaryDirectory(prefix="mast3r-") as folder:
            path = Path(folder, "part.safetensors")
            index.write(path, first)
            self.store.write("index", key, safetensors.checked(path.read_bytes()), ".safetensors")
        self.written += 1
