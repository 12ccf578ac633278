# SPDX-License-Identifier: Apache-2.0
"""Results by the hash of what they were made from, shared by any number of processes.

A key is a hash of everything that determines the bytes: the bytes of the pictures and of the model,
and the options. So nothing is ever out of date, and two workers that compute the same thing write
the same file. A file is written under another name in the same folder and then renamed. There is no
lock, nothing is appended to, and readers see a whole file or none, also on NFS.

    STORE/store.json
    STORE/KIND/HH/KEY.SUFFIX        HH: the first two letters of the key
    STORE/packs/HH/KEY.zip          many of these as one
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._library.version import __version__
from ..errors import ArgumentError, FileError, checked, quoted, reason
from . import kinds
from .packs import FOLDER as PACKS
from .packs import Packs, packed
from .places import Folder, place_of

__all__ = ["SCHEMA", "Arrays", "Store", "file_hash", "key_of", "name_of"]

SCHEMA = 1
Arrays = dict[str, npt.NDArray[Any]]

_PLAIN = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9]+)*", re.ASCII)
LARGE = 1 << 24  # bytes
TICK = 2.0  # seconds: the coarsest step of a file system's times
_hashes: dict[tuple[object, ...], str] = {}
_hashes_lock = threading.Lock()


@checked
def file_hash(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes, remembered while nothing says that the file was changed.

    Raises FileError for what is no file, such as a pipe, and waits for none.
    """
    path = Path(path)
    known = _identity(path, path.stat())
    with _hashes_lock:
        if known in _hashes:
            return _hashes[known]
    with open(path, "rb") as file:
        digest = _sha(file)
        settled = _settled(os.fstat(file.fileno()))
        known_then = _identity(path, os.fstat(file.fileno()))
    if settled and known_then == known:
        with _hashes_lock:
            _hashes[known] = digest
    return digest


def hashes(paths: Iterable[str | os.PathLike[str]]) -> dict[str, str]:
    """SHA-256 by absolute path, of the files that can be read."""
    out = {}
    for path in paths:
        with suppress(OSError):
            out[os.path.abspath(path)] = file_hash(path)
    return out


def _identity(path: Path, status: os.stat_result) -> tuple[object, ...]:
    """What differs where a file was changed: its time of change, which no program can set, is in it."""
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{path}: a folder, a pipe or a device, want a file")
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return (str(path.resolve()), status.st_dev, status.st_ino, status.st_size, *times)


def _settled(status: os.stat_result) -> bool:
    """Whether a change after now would be seen by the file's times, which come in steps."""
    if os.name == "nt":  # st_ctime is that of its making there: only models, which are large, are remembered
        return status.st_size > LARGE
    return time.time() - status.st_ctime > TICK and time.time() - status.st_mtime > TICK


def _sha(file: Any) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


@checked
def key_of(*parts: object) -> str:
    """32 hexadecimal digits of the SHA-256 of ``parts``, which must be JSON values."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def name_of(kind: str, key: str, suffix: str = ".npz") -> str:
    """The name of a key's file below the store; ArgumentError where it would lie elsewhere."""
    for what, text, before in (("kind", kind, ""), ("key", key, ""), ("suffix", suffix, "x")):
        if not (isinstance(text, str) and _PLAIN.fullmatch(before + text)):
            raise ArgumentError(f"store: {what} {text!r:.80}, want letters, digits, -, _ and single dots")
    return f"{kind}/{key[:2]}/{key}{suffix}"


@checked
class Store:
    """Results by key, in a folder or at a URL of fsspec. It is created if it does not exist.

    Parameters
    ----------
    root : path or URL
        A folder; ``s3://bucket/store`` and the like need the extra ``cluster``.
    fsync : bool
        Wait for the disk after each file, so that a power cut loses none that was reported.

    Raises
    ------
    ArgumentError
        It is a store of another schema.
    FileError
        It cannot be made or read. StoreError, a kind of it, where it cannot be written.
    """

    def __init__(self, root: str | os.PathLike[str], *, fsync: bool = False) -> None:
        self.place = place_of(root, fsync)
        self._packs = Packs(self.place)
        self._held: dict[str, bytes] | None = None
        try:
            if not self.place.exists(kinds.DESCRIPTION):
                description = json.dumps({"schema": SCHEMA, "made_by": __version__})
                self.place.write(kinds.DESCRIPTION, description.encode())
            with self.place.open(kinds.DESCRIPTION) as file:
                schema = json.loads(file.read()).get("schema")
        except FileError:
            raise
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise FileError(f"store {quoted(self.where)}: {reason(error)}") from error
        if schema != SCHEMA:
            raise ArgumentError(f"store {quoted(self.where)}: schema {schema!r:.80}, want {SCHEMA}")
        self._packs.refresh()

    @classmethod
    def existing(cls, root: str | os.PathLike[str]) -> Store:
        """A store that is there; FileError where there is none."""
        place = place_of(root)
        if not place.exists(kinds.DESCRIPTION):
            raise FileError(f"store {quoted(place.where)}: there is none")
        return cls(root)

    @property
    def where(self) -> str:
        """The folder or URL."""
        return self.place.where

    def path(self, kind: str, key: str, suffix: str = ".npz") -> Path:
        """Where the file of a key lies, or would; ArgumentError where the store is no folder."""
        if not isinstance(self.place, Folder):
            raise ArgumentError(f"store {quoted(self.where)}: no folder, so a key has no path")
        return self.place.root / name_of(kind, key, suffix)

    def refresh(self) -> None:
        """See the packs that others have written since."""
        self._packs.refresh()

    def exists(self, kind: str, key: str, suffix: str = ".npz") -> bool:
        name = name_of(kind, key, suffix)
        return self._packs.has(name) or name in (self._held or ()) or self.place.exists(name)

    def read(self, kind: str, key: str, suffix: str = ".npz") -> bytes | None:
        """The bytes of a key, or None."""
        name = name_of(kind, key, suffix)
        if self._held is not None and name in self._held:
            return self._held[name]
        data = self._packs.read(name)
        if data is not None:
            return data
        try:
            with self.place.open(name) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, kind: str, key: str, data: bytes, suffix: str = ".npz") -> None:
        """Store bytes under a key. If there are several writers, the last one wins, with the same bytes."""
        name = name_of(kind, key, suffix)
        if self._held is None:
            self.place.write(name, data)
        else:
            self._held[name] = data

    def remove(self, kind: str, key: str, suffix: str = ".npz") -> None:
        """Forget a key that lies in a file of its own."""
        self.place.remove(name_of(kind, key, suffix))

    @contextmanager
    def packing(self) -> Iterator[None]:
        """What is written inside lands in one file, at the end; the exception of a block too."""
        self._held = {}
        try:
            yield
        finally:
            held, self._held = self._held, None
            if held:
                key = key_of(sorted(held))
                self.place.write(name_of(PACKS, key, ".zip"), packed(held))
                self._packs.refresh()

    def read_whole(self, kind: str, key: str, suffix: str = ".npz") -> bytes | None:
        """The bytes of a key; None where there are none, or not those of the kind."""
        data = self.read(kind, key, suffix)
        try:
            if data is not None:
                kinds.unpack(kind, key, suffix, data)
        except kinds.Damaged:
            return None
        return data

    def read_arrays(self, kind: str, key: str, only: tuple[str, ...] | None = None) -> Arrays | None:
        """The arrays of a key, or those named; None where there are none, or not those of the kind."""
        suffix = kinds.suffix_of(kind)
        name = name_of(kind, key, suffix)
        try:
            if only is not None and isinstance(self.place, Folder) and not self._packs.has(name):
                with self.place.open(name) as file:  # reads no more than these
                    found: Arrays = kinds.unpack(kind, key, suffix, file, only)
                    return found
            data = self.read(kind, key, suffix)
            return None if data is None else kinds.unpack(kind, key, suffix, data, only)
        except (OSError, kinds.Damaged):  # a torn or foreign file is no result: it is computed again
            return None

    def write_arrays(self, kind: str, key: str, arrays: Mapping[str, npt.ArrayLike]) -> None:
        """Store arrays as npz."""
        out = io.BytesIO()
        named: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
        np.savez(out, **named)
        self.write(kind, key, out.getvalue())

    def read_json(self, kind: str, key: str) -> Any:
        """The value of a key; None where there is none, or not one of the kind."""
        data = self.read(kind, key, ".json")
        try:
            return None if data is None else kinds.unpack(kind, key, ".json", data)
        except kinds.Damaged:
            return None

    def write_json(self, kind: str, key: str, value: object) -> None:
        """Store a value as JSON."""
        self.write(kind, key, json.dumps(value, indent=1, allow_nan=False).encode(), ".json")

    def keys(self, kind: str, suffix: str = ".npz") -> Iterator[str]:
        """The keys that are there, in order."""
        name_of(kind, "0", suffix)
        names = {entry.name for entry in self.place.list(kind)} | set(self._packs.names(kind))
        for name in sorted(names):
            key = name.rpartition("/")[2].removesuffix(suffix)
            if kinds.own(name) or (kind not in kinds.KINDS and name == f"{kind}/{key[:2]}/{key}{suffix}"):
                yield key
