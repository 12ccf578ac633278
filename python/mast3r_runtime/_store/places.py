# SPDX-License-Identifier: Apache-2.0
"""Where a store's bytes lie: a folder, or anything that fsspec opens by a URL.

A name is relative and has forward slashes. Writing puts the whole bytes under a name, or
nothing: a folder by renaming, an object store by its own put. There are no locks.
"""

from __future__ import annotations

import errno
import importlib
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from ..errors import ArgumentError, DependencyError, FileError, StoreError, quoted

__all__ = ["Entry", "Folder", "ObjectStore", "Place", "place_of"]

PART = ".part-"
STALE = 24 * 3600.0  # seconds after which a half-written file of another host is nobody's
# Nothing that another try could change: the disk is full, over quota, too small, read-only.
_HOPELESS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}


@dataclass(frozen=True)
class Entry:
    """A file of a store. ``modified`` is in seconds since 1970, 0 where it is not known."""

    name: str
    bytes: int
    modified: float


class Place(Protocol):
    """What a store needs of the thing that holds its bytes."""

    where: str

    def exists(self, name: str) -> bool: ...
    def open(self, name: str) -> IO[bytes]: ...
    def write(self, name: str, data: bytes) -> None: ...
    def list(self, folder: str) -> Iterator[Entry]: ...
    def remove(self, name: str) -> None: ...
    def sweep(self) -> int: ...


def place_of(root: str | os.PathLike[str], fsync: bool = False) -> Place:
    """The folder ``root``, or the object store where it is a URL such as ``s3://bucket/store``."""
    text = os.fspath(root)
    if isinstance(text, str) and "://" in text and not text.startswith("file://"):
        return ObjectStore(text)
    return Folder(Path(text.removeprefix("file://")), fsync)


class Folder:
    """A folder of a file system, also one that many machines share."""

    def __init__(self, root: Path, fsync: bool = False) -> None:
        self.root, self.where = root, str(root)
        self._fsync = fsync
        self._host, self._pid = socket.gethostname(), os.getpid()

    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    def open(self, name: str) -> IO[bytes]:
        return open(self.root / name, "rb")

    def write(self, name: str, data: bytes) -> None:
        target = self.root / name
        # The name says who was writing, for whoever finds it after a crash.
        part = target.with_name(f"{PART}{self._host}-{self._pid}-{uuid.uuid4().hex[:8]}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open(part, "wb") as file:
                    file.write(data)
                    if self._fsync:
                        file.flush()
                        os.fsync(file.fileno())
                self._rename(part, target)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            text = f"store {quoted(self.where)}: {name}: {error.strerror or error}"
            raise (StoreError if error.errno in _HOPELESS else FileError)(text) from error

    @staticmethod
    def _rename(part: Path, target: Path) -> None:
        if os.name != "nt":
            part.chmod(0o444)
            part.replace(target)
            return
        try:
            part.replace(target)
        except PermissionError:  # somebody reads it; who wrote it wrote the same bytes
            if not target.exists():
                raise

    def list(self, folder: str) -> Iterator[Entry]:
        """Every whole file below a folder, in order."""
        yield from (entry for entry in self._walk(folder) if PART not in entry.name)

    def _walk(self, folder: str) -> Iterator[Entry]:
        try:
            with os.scandir(self.root / folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                yield from self._walk(name)
                continue
            with suppress(FileNotFoundError):
                stat = entry.stat()
                yield Entry(name, stat.st_size, stat.st_mtime)

    def remove(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def sweep(self) -> int:
        """Remove half-written files of processes that are gone; how many there were."""
        count = 0
        for entry in self._walk(""):
            last = entry.name.rpartition("/")[2]
            if last.startswith(PART) and self._left_over(last.removeprefix(PART), entry.modified):
                self.remove(entry.name)
                count += 1
        return count

    def _left_over(self, writer: str, modified: float) -> bool:
        host, _, rest = writer.rpartition("-")[0].rpartition("-")
        if host != self._host or not rest.isdigit():
            return time.time() - modified > STALE
        return not _alive(int(rest))


def _alive(pid: int) -> bool:
    if os.name == "nt":  # there a signal 0 is an end
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


class ObjectStore:
    """Objects of a bucket, through fsspec (extra ``cluster``)."""

    def __init__(self, url: str) -> None:
        try:
            fsspec: Any = importlib.import_module("fsspec.core")
        except ImportError as error:
            raise DependencyError(
                f"store {quoted(url)}: a URL needs fsspec; pip install 'mast3r-runtime[cluster]'"
            ) from error
        self.where = url
        try:
            self._fs, self._root = fsspec.url_to_fs(url)
        except ImportError as error:
            raise DependencyError(f"store {quoted(url)}: {error}") from error
        except ValueError as error:
            raise ArgumentError(f"store {quoted(url)}: {error}") from error
        # Other writers are other processes: a listing that was kept would not have what they wrote.
        self._fs.use_listings_cache = False
        self._root = self._root.rstrip("/")

    def exists(self, name: str) -> bool:
        return bool(self._ask(name, self._fs.isfile, f"{self._root}/{name}"))

    def open(self, name: str) -> IO[bytes]:
        file: IO[bytes] = self._ask(name, self._fs.open, f"{self._root}/{name}", "rb")
        return file

    def write(self, name: str, data: bytes) -> None:
        self._ask(name, self._fs.pipe_file, f"{self._root}/{name}", data)

    def list(self, folder: str) -> Iterator[Entry]:
        """Every object below a folder, in order."""
        top = f"{self._root}/{folder}".rstrip("/")
        self._fs.invalidate_cache()
        try:
            found = self._ask(folder, lambda path: self._fs.find(path, detail=True), top)
        except FileNotFoundError:
            return
        for path in sorted(found):
            name = path[path.index(self._root) + len(self._root) + 1 :]
            yield Entry(name, int(found[path].get("size") or 0), _seconds(found[path]))

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._ask(name, self._fs.rm_file, f"{self._root}/{name}")

    def sweep(self) -> int:
        """An object store shows whole objects alone."""
        return 0

    def _ask(self, name: str, what: Any, *arguments: Any) -> Any:
        try:
            return what(*arguments)
        except FileNotFoundError:
            raise
        except PermissionError as error:
            raise StoreError(f"store {quoted(self.where)}: {name}: {error}") from error
        except Exception as error:  # each kind of object store has errors of its own
            raise FileError(f"store {quoted(self.where)}: {name}: {type(error).__name__}: {error}") from error


def _seconds(entry: dict[str, Any]) -> float:
    when = entry.get("LastModified") or entry.get("mtime") or entry.get("created") or 0
    return float(when.timestamp() if hasattr(when, "timestamp") else when)
