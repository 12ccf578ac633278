# SPDX-License-Identifier: Apache-2.0
"""One run at a time in a folder: a file that the system locks, and that says who holds it."""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

from ..errors import BusyError, FileError, quoted

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["LOCK", "FolderLock"]

LOCK = ".mast3r-lock"
_MOST = 4096  # bytes: a longer file is none of ours
_FAR = 1 << 30  # Windows locks bytes: one that nobody reads
_log = logging.getLogger("mast3r_runtime")


class FolderLock:
    """Holds a folder from its making to :meth:`release`, or to the end of the process.

    The system lets go of it when a process ends, however it ends. Where the file system knows no
    locks, the log says so and nothing is held.

    Raises BusyError, with the process named, where another run holds it and ``wait`` is not set, and
    FileError where a file of that name is none of ours.
    """

    def __init__(self, folder: Path, verb: str, wait: bool = False) -> None:
        self.path = folder / LOCK
        self._handle = -1
        said = False
        while not self._take():
            who = _holder(self.path)
            if not wait:
                raise BusyError(
                    f"folder {quoted(folder)}: {who} is writing into it; wait (--wait), or choose another"
                )
            if not said:
                _log.warning("folder %s: waiting for %s", quoted(folder), who)
                said = True
            time.sleep(0.1)
        text = {
            "made_by": "mast3r-runtime", "pid": os.getpid(), "host": socket.gethostname(), "verb": verb,
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }  # fmt: skip
        if self._handle >= 0:
            os.ftruncate(self._handle, 0)
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, json.dumps(text).encode())

    def release(self) -> None:
        """Let go, and leave no file behind."""
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        if fcntl is not None:  # while it is held: a run that opened the file before sees that it went
            self.path.unlink(missing_ok=True)
            os.close(handle)
        else:
            os.close(handle)
            with suppress(OSError):  # Windows keeps a file that another run has opened since
                self.path.unlink(missing_ok=True)

    def _take(self) -> bool:
        """Whether the lock is held now; False where another run has it."""
        while True:
            handle = self._open()
            try:
                _check_ours(self.path, handle)
                if not _lock(handle):
                    os.close(handle)
                    return False
                if _same(handle, self.path):
                    self._handle = handle
                    return True
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)  # the run that held it removed the file: take the new one

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            return os.open(self.path, flags | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            if self.path.is_symlink():
                raise FileError(f"{self.path}: a link, want no file of this name, or ours") from error
            raise FileError(f"{self.path}: {error.strerror or error}") from error


def _same(handle: int, path: Path) -> bool:
    """Whether a name still is that of an open file."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _check_ours(path: Path, handle: int) -> None:
    """Refuse a file that is not ours: it would be overwritten."""
    facts = os.fstat(handle)
    if stat.S_ISREG(facts.st_mode) and facts.st_nlink <= 1:
        if facts.st_size == 0:
            return
        text = os.read(handle, _MOST + 1) if facts.st_size <= _MOST else b""
        if _parsed(text):
            return
    raise FileError(f"{path}: no file of this package, want no file of this name, or ours")


def _parsed(text: bytes) -> dict[str, object]:
    with suppress(ValueError, RecursionError):
        values = json.loads(text)
        if isinstance(values, dict) and values.get("made_by") == "mast3r-runtime":
            return values
    return {}


def _holder(path: Path) -> str:
    """Who holds the lock, in words."""
    values: dict[str, object] = {}
    with suppress(OSError):
        values = _parsed(path.read_bytes()[:_MOST])
    if not values:
        return "another run of mast3r"
    return (
        f"mast3r {values.get('verb')} (process {values.get('pid')} on {values.get('host')}, "
        f"since {values.get('started')})"
    )


def _lock(handle: int) -> bool:
    """Lock an open file; False where another process has it."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
            return False
        _log.warning("the file system has no locks (%s): two runs at once would mix", error.strerror)
    return True
