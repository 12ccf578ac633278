# SPDX-License-Identifier: Apache-2.0
"""Where a store's bytes lie: a folder, or anything that fsspec opens by a URL.

A name is relative and has forward slashes. Writing puts the whole bytes under a name, or
nothing: a folder by renaming, an object store by its own put. There are no locks. Links below a
folder are not followed where files are listed, and nothing behind one is removed.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.request import url2pathname

from .._files.plain import opened
from ..errors import ArgumentError, DependencyError, FileError, StoreError, quoted, without_secrets
from . import kinds

__all__ = ["Entry", "Folder", "ObjectStore", "Place", "location", "place_of"]

PART = ".part-"
_PART = re.compile(r"\.part-(?P<host>.+)-(?P<pid>\d+)-[0-9a-f]{8}", re.ASCII)  # what write() calls its file
STALE = 24 * 3600.0  # seconds after which a half-written file of another host is nobody's
_REPARSE = 0x400  # Windows: a junction is a link, and Python below 3.12 takes it for a folder
# Nothing that another try could change: the disk is full, over quota, too small, read-only.
_HOPELESS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}


@dataclass(frozen=True)
class Entry:
    """A file of a store, or a ``link``. ``modified`` is in seconds since 1970, 0 where it is not known."""

    name: str
    bytes: int
    modified: float
    link: bool = False


class Place(Protocol):
    """What a store needs of the thing that holds its bytes."""

    where: str

    def exists(self, name: str) -> bool: ...
    def open(self, name: str) -> IO[bytes]: ...
    def write(self, name: str, data: bytes) -> None: ...
    def list(self, folder: str) -> Iterator[Entry]: ...
    def remove(self, name: str) -> None: ...
    def leftovers(self) -> Iterator[str]: ...


def location(root: str | os.PathLike[str]) -> str:
    """The same place as text that means it from any working folder: an absolute path, or a URL.

    ``file:`` URLs are paths: ``file:///a``, ``file:/a``, ``file://localhost/a``.
    """
    text = os.fspath(root)
    scheme, colon, rest = text.partition(":")
    scheme = scheme.lower()
    if not (colon and len(scheme) > 1 and re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme)):
        return os.path.abspath(text)
    if scheme in ("file", "local"):
        host, slash, path = rest[2:].partition("/") if rest.startswith("//") else ("", rest[:1], rest[1:])
        if host.lower() not in ("", "localhost") or slash != "/":
            raise ArgumentError(f"store {quoted(text)}: want file:///FOLDER, a folder of this machine")
        return os.path.abspath(url2pathname(slash + path))
    if rest.startswith("//") or "::" in text:
        return f"{scheme}:{rest}"
    if rest.startswith("/"):
        raise ArgumentError(f"store {quoted(text)}: want {scheme}://..., or for a folder ./{text}")
    return os.path.abspath(text)


def place_of(root: str | os.PathLike[str], fsync: bool = False) -> Place:
    """The folder ``root``, or the object store where it is a URL such as ``s3://bucket/store``."""
    text = os.fspath(root)
    where = location(text)
    if "://" in where or "::" in where:
        return ObjectStore(where)
    return Folder(Path(text if os.path.abspath(text) == where else where), fsync)


class Folder:
    """A folder of a file system, also one that many machines share."""

    def __init__(self, root: Path, fsync: bool = False) -> None:
        self.root, self.where = root, str(root)
        self._fsync = fsync
        self._host, self._pid = socket.gethostname(), os.getpid()

    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    def open(self, name: str) -> IO[bytes]:
        return opened(self.root / name)

    def write(self, name: str, data: bytes) -> None:
        target = self._inside(name)
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
        """Every file below a folder, in order, but those that are being written and what is behind links."""
        for entry in self._walk(folder):
            if not _PART.fullmatch(entry.name.rpartition("/")[2]):
                yield entry

    def _walk(self, folder: str) -> Iterator[Entry]:
        if (self.root / folder).is_symlink() and folder:
            return
        try:
            with os.scandir(self.root / folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            with suppress(FileNotFoundError):
                stat = entry.stat(follow_symlinks=False)
                link = entry.is_symlink() or getattr(stat, "st_file_attributes", 0) & _REPARSE
                if not link and entry.is_dir(follow_symlinks=False):
                    yield from self._walk(name)
                else:
                    yield Entry(name, stat.st_size, stat.st_mtime, link=bool(link))

    def remove(self, name: str) -> None:
        self._inside(name).unlink(missing_ok=True)

    def _inside(self, name: str) -> Path:
        """Where a file is, if no link leads there out of the store."""
        target = self.root / name
        if target.parent.resolve() != self.root.resolve() / Path(name).parent:
            raise FileError(
                f"store {quoted(self.where)}: {name} is behind a link: it is neither written nor removed. "
                "A store on another disk is a link in the place of its whole folder"
            )
        return target

    def leftovers(self) -> Iterator[str]:
        """Half-written files of processes that are gone."""
        for entry in self._walk(""):
            folder, _, last = entry.name.rpartition("/")
            part = _PART.fullmatch(last)
            if part and not entry.link and kinds.own_folder(folder) and self._left_over(part, entry.modified):
                yield entry.name

    def _left_over(self, part: re.Match[str], modified: float) -> bool:
        if part["host"] != self._host:
            return time.time() - modified > STALE
        return not _alive(int(part["pid"]))


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
        self._url, self.where = url, without_secrets(url, url)
        try:
            fsspec: Any = importlib.import_module("fsspec.core")
        except ImportError as error:
            raise DependencyError(
                f"store {quoted(self.where)}: a URL needs fsspec; pip install 'mast3r-runtime[cluster]'"
            ) from error
        try:
            self._fs, self._root = fsspec.url_to_fs(url)
        except Exception as error:  # each kind of object store has errors of its own
            kinds_of = {ImportError: DependencyError, ValueError: ArgumentError}
            kind = next((ours for theirs, ours in kinds_of.items() if isinstance(error, theirs)), FileError)
            raise kind(f"store {quoted(self.where)}: {self._told(error)}") from None
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
            name = path[path.index(self._root) + len(self._root) :].lstrip("/")
            yield Entry(name, int(found[path].get("size") or 0), _seconds(found[path]))

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._ask(name, self._fs.rm_file, f"{self._root}/{name}")

    def leftovers(self) -> Iterator[str]:
        """None: an object store shows whole objects alone."""
        return iter(())

    def _told(self, error: Exception) -> str:
        """What an error says; who passes it on has no cause beside it, whose text would have the URL."""
        return without_secrets(str(error), self._url)

    def _ask(self, name: str, what: Any, *arguments: Any) -> Any:
        try:
            return what(*arguments)
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, "no such object", name) from None
        except PermissionError as error:
            raise StoreError(f"store {quoted(self.where)}: {name}: {self._told(error)}") from None
        except Exception as error:  # each kind of object store has errors of its own
            told = f"{type(error).__name__}: {self._told(error)}"
            raise FileError(f"store {quoted(self.where)}: {name}: {told}") from None


def _seconds(entry: dict[str, Any]) -> float:
    when = entry.get("LastModified") or entry.get("mtime") or entry.get("created") or 0
    return float(when.timestamp() if hasattr(when, "timestamp") else when)
