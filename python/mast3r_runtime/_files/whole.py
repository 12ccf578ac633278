# SPDX-License-Identifier: Apache-2.0
"""Writing files so that no half-written one is ever seen under its name."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import FileError, Mast3rError, quoted

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["check_target", "replacing", "short_name"]

_PREFIX, _SUFFIX = ".mast3r-", ".tmp"
STALE = 24 * 3600.0  # seconds after which a temporary file is nobody's, where there are no locks


def check_target(path: Path, suffixes: tuple[str, ...] = ()) -> Path:
    """Return the file that writing to ``path`` replaces, or refuse, before the work.

    A link is followed: what it points to is replaced, and it stays. A folder, a device, a
    pipe or a read-only file is refused, and so is a suffix other than ``suffixes``.
    """
    if suffixes and path.suffix.lower() not in suffixes:
        raise FileError(f"{path}: the suffix is {quoted(path.suffix)}, want {' or '.join(suffixes)}")
    target = path
    for _ in range(40):
        if not target.is_symlink():
            break
        target = target.parent / os.readlink(target)
    else:
        raise FileError(f"{path}: a loop of links, want a file's name")
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return target
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error
    if stat.S_ISDIR(mode):
        raise FileError(f"{path}: it is a folder, want a file's name")
    if not stat.S_ISREG(mode):
        raise FileError(f"{path}: it is a device or a pipe, want a file's name")
    if not mode & 0o222:
        raise FileError(f"{path}: it is read-only")
    return target


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name in the same folder; renamed when all went well.

    The temporary name does not hold the target's, which may be as long as a name can be. Its
    file is locked while it is written: one that nobody has locked was left by a process that
    was killed, and is removed here. Windows renames no file that is open, so there it is not
    locked, and removed when it is old.
    """
    target = check_target(path)
    try:
        folder = target.parent
        _sweep(folder)
        temporary = folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        # With the mode that the user's umask gives to any file.
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            if not _lock(handle):
                os.close(handle)
                handle = -1
            yield temporary
            temporary.replace(target)
        finally:
            if handle >= 0:
                os.close(handle)
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error, Mast3rError):
            raise
        raise FileError(f"{path}: {error.strerror or error}") from error


def short_name(name: str, suffix: str, most: int = 200) -> str:
    """``name`` + ``suffix``, shortened in the middle where a folder could not hold it."""
    if len(os.fsencode(name + suffix)) <= most:
        return name + suffix
    import hashlib

    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:12]
    keep = os.fsencode(name)[: most - len(suffix) - len(digest) - 1].decode("utf-8", "ignore")
    return f"{keep}-{digest}{suffix}"


def _lock(handle: int) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process has it, or the file system knows no locks
        return False
    return True


def _sweep(folder: Path) -> None:
    with suppress(OSError):
        for left in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
            with suppress(OSError):
                if fcntl is None:
                    if time.time() - left.stat().st_mtime > STALE:
                        left.unlink(missing_ok=True)
                    continue
                handle = os.open(left, os.O_RDWR)
                try:
                    if _lock(handle):
                        left.unlink(missing_ok=True)
                finally:
                    os.close(handle)
