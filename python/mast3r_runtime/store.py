# SPDX-License-Identifier: Apache-2.0
"""A content-addressed folder: what was computed once is found again, by any process.

A key is a hash of everything that decides the bytes: the pictures' own bytes, the model's, the
options. So nothing is ever stale, and two workers that compute the same thing write the same
file. A file is written under another name in the same folder and renamed; there is no lock,
nothing is appended to, and readers see a whole file or none. That also holds on NFS.

    STORE/store.json
    STORE/KIND/HH/KEY.SUFFIX        HH: the first two letters of the key
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ._library.version import __version__
from .errors import ArgumentError, FileError

__all__ = ["SCHEMA", "Store", "file_hash", "key_of"]

SCHEMA = 1
Arrays = dict[str, npt.NDArray[Any]]

_hashes: dict[tuple[str, int, int], str] = {}
_hashes_lock = threading.Lock()


def file_hash(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes; asked again for the same size and time, it is remembered."""
    path = Path(path)
    stat = path.stat()
    known = (str(path.resolve()), stat.st_size, stat.st_mtime_ns)
    with _hashes_lock:
        if known in _hashes:
            return _hashes[known]
    with open(path, "rb") as file:
        digest = _sha(file)
    with _hashes_lock:
        _hashes[known] = digest
    return digest


def _sha(file: Any) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def key_of(*parts: object) -> str:
    """32 hexadecimal digits of the SHA-256 of ``parts``, which JSON can hold."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Store:
    """A folder of results by key. Made where it is not there.

    Raises
    ------
    ArgumentError
        The folder is a store of another schema.
    FileError
        It cannot be made or written.
    """

    def __init__(self, root: str | os.PathLike[str], *, fsync: bool = False) -> None:
        self.root = Path(root)
        self._fsync = fsync
        self._writer = f"{socket.gethostname()}-{os.getpid()}"
        description = self.root / "store.json"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if not description.exists():
                self._place(description, json.dumps({"schema": SCHEMA, "made_by": __version__}).encode())
            schema = json.loads(description.read_bytes()).get("schema")
        except (OSError, ValueError, AttributeError) as error:
            raise FileError(f"store {str(self.root)!r}: {error}") from error
        if schema != SCHEMA:
            raise ArgumentError(f"store {str(self.root)!r}: schema {schema!r}, want {SCHEMA}")

    def path(self, kind: str, key: str, suffix: str = ".npz") -> Path:
        """Where the bytes of a key lie, or would."""
        return self.root / kind / key[:2] / f"{key}{suffix}"

    def exists(self, kind: str, key: str, suffix: str = ".npz") -> bool:
        return self.path(kind, key, suffix).is_file()

    def read(self, kind: str, key: str, suffix: str = ".npz") -> bytes | None:
        """The bytes of a key, or None."""
        try:
            return self.path(kind, key, suffix).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, kind: str, key: str, data: bytes, suffix: str = ".npz") -> Path:
        """Store bytes under a key; the last of several writers wins, with the same bytes."""
        target = self.path(kind, key, suffix)
        target.parent.mkdir(parents=True, exist_ok=True)
        self._place(target, data)
        return target

    def read_arrays(self, kind: str, key: str) -> Arrays | None:
        """The arrays of a key; None where there are none, or a file that does not parse."""
        data = self.read(kind, key)
        if data is None:
            return None
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except Exception:  # a torn or foreign file is no result: it is computed again
            return None

    def write_arrays(self, kind: str, key: str, arrays: Mapping[str, npt.ArrayLike]) -> Path:
        """Store arrays as npz."""
        out = io.BytesIO()
        named: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
        np.savez(out, **named)
        return self.write(kind, key, out.getvalue())

    def keys(self, kind: str, suffix: str = ".npz") -> Iterator[str]:
        """The keys that are there, in order."""
        for path in sorted((self.root / kind).glob(f"??/*{suffix}")):
            if not path.name.startswith("."):
                yield path.name[: -len(suffix)]

    def _place(self, target: Path, data: bytes) -> None:
        # The name says who was writing, for whoever finds it after a crash.
        part = target.with_name(f".part-{self._writer}-{uuid.uuid4().hex[:8]}")
        try:
            with open(part, "wb") as file:
                file.write(data)
                if self._fsync:
                    file.flush()
                    os.fsync(file.fileno())
            part.chmod(0o444)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
