# SPDX-License-Identifier: Apache-2.0
"""The shared library through ctypes: calls, errors, jobs, and the structs of :mod:`.structs`.

Nothing is loaded at import. ``library()`` loads once, on the first call that needs the
engine, and never unloads: a Go runtime cannot be unloaded. ``ctypes.CDLL`` releases the
GIL around every call. The declarations mirror ``capi/mast3r.h``.
"""

from __future__ import annotations

import ctypes as C
import importlib
import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import errors
from . import header, limits
from . import structs as S
from .reasons import why_not_loaded

__all__ = ["Job", "call", "check_fork", "library", "library_path"]

_WAIT_MS = 50  # Python handles signals (Ctrl-C) between two waits

_log = logging.getLogger("mast3r_runtime")


def int32(name: str, value: int, low: int = 0) -> int:
    """Check an integer that ctypes would wrap around silently."""
    number = int(value)
    if number != value or not low <= number < 2**31:
        raise errors.ArgumentError(f"{name}={value}, want a whole number from {low} to 2^31 - 1")
    return number


def uint64(name: str, value: int) -> int:
    """Check an integer that ctypes would wrap around silently."""
    number = int(value)
    if number != value or not 0 <= number < 2**64:
        raise errors.ArgumentError(f"{name}={value}, want a whole number from 0 to 2^64 - 1")
    return number


def text(name: str, value: str | bytes | os.PathLike[str]) -> bytes:
    """Encode a text that C would cut at its first NUL silently."""
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise errors.ArgumentError(f"{name}={value!r}: holds a NUL character")
    return encoded


# The exception of each failure.
_ERRORS: dict[int, type[errors.Mast3rError]] = {
    header.E_ARGUMENT: errors.ArgumentError,
    header.E_ABI: errors.LibraryError,
    header.E_HANDLE: errors.ClosedError,
    header.E_CLOSED: errors.ClosedError,
    header.E_NOT_LOADED: errors.NotLoadedError,
    header.E_CANCELLED: errors.CancelledError,
    header.E_WEIGHTS: errors.WeightsError,
    header.E_IMAGE: errors.ImageError,
    header.E_SHAPE: errors.ShapeError,
    header.E_DEVICE: errors.DeviceError,
    header.E_NOT_FOUND: errors.ModelNotFoundError,
    header.E_FORKED: errors.ForkError,
    header.E_INTERNAL: errors.InternalError,
    header.E_FILE: errors.FileError,
    header.E_MEMORY: errors.MemoryLimitError,
    header.E_UNSUPPORTED: errors.UnsupportedError,
}

_lock = threading.Lock()
_library: C.CDLL | None = None
_forked = False


def _after_fork_in_child() -> None:
    global _forked, _lock
    _lock = threading.Lock()  # another thread of the parent may have held the old one
    if _library is not None:
        _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def check_fork() -> None:
    """Raise ForkError in a process that was forked after the library was loaded."""
    if _forked:
        raise errors.ForkError(
            "mast3r_runtime was used before this process was forked, and the Go runtime inside "
            'does not survive fork(); use multiprocessing.get_context("spawn"), or make the '
            "first call in the child only"
        )


def library_path() -> Path:
    """Where the shared library lies: at the root of the package, or at MAST3R_LIBRARY.

    MAST3R_NATIVE=gopy means the extension module that ``make gopy`` builds: it carries the
    same calls. A process has one or the other, never both: two Go runtimes do not get on.
    """
    override = os.environ.get("MAST3R_LIBRARY")
    if override:
        return Path(override)
    native = os.environ.get("MAST3R_NATIVE", "")
    if native == "gopy":
        return _extension()
    if native not in ("", "ctypes"):
        raise errors.ArgumentError(f"MAST3R_NATIVE={native!r}, want ctypes or gopy")
    suffix = {"darwin": "dylib", "win32": "dll"}.get(sys.platform, "so")
    return Path(__file__).parents[1] / f"libmast3r_runtime.{suffix}"


def _extension() -> Path:
    try:
        module = importlib.import_module("mast3r_runtime._gopy._mast3r")
    except ImportError as error:
        raise errors.LibraryError(
            f"MAST3R_NATIVE=gopy: {error}; build the extension for this Python with: make gopy"
        ) from error
    return Path(str(module.__file__))


def library() -> C.CDLL:
    """Return the loaded library."""
    global _library
    check_fork()
    if _library is None:
        with _lock:
            if _library is None:
                _library = _load()
    return _library


# Go's runtime reserves address space at its start, and ends the process where it gets none.
_LEAST_ADDRESS_SPACE = 1500 << 20  # beyond what is in use; measured with two threads


def _check_address_space() -> None:
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, AttributeError, ValueError, OSError):  # no such limit here
        return
    if limit == resource.RLIM_INFINITY:
        return
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):  # no Linux
        used = 0
    if limit - used < _LEAST_ADDRESS_SPACE:
        raise errors.LibraryError(
            f"the address space is limited to {limit >> 20} MB (ulimit -v), of which {used >> 20} MB are in "
            f"use, want {_LEAST_ADDRESS_SPACE >> 20} MB more; limit the memory with a cgroup instead"
        )


def _load() -> C.CDLL:
    path = library_path()
    _check_address_space()
    try:
        lib = C.CDLL(str(path))
    except OSError as error:
        raise errors.LibraryError(f"native library {path}: {why_not_loaded(path, error)}") from error
    try:
        lib.mast3r_abi_version.restype = C.c_uint32
        got = lib.mast3r_abi_version()
        if got != header.ABI_VERSION:
            raise errors.LibraryError(
                f"native library {path}: interface version {got}, want {header.ABI_VERSION}; reinstall"
            )
        for name in ("mast3r_last_error", "mast3r_version"):
            getattr(lib, name).argtypes = []
            getattr(lib, name).restype = C.c_char_p
        for name, arguments in header.SIGNATURES.items():
            function = getattr(lib, name)
            function.argtypes = arguments
            function.restype = C.c_int32
    except AttributeError as error:
        raise errors.LibraryError(f"native library {path}: {error}; reinstall") from error
    return lib


def call(name: str, *arguments: Any) -> int:
    """Call ``name``; return OK or PENDING, raise the error that belongs to any other status."""
    lib = library() if _library is None or _forked else _library
    try:
        status: int = getattr(lib, name)(*arguments)
    except C.ArgumentError as error:  # a value that is no number, where the interface wants one
        raise errors.ArgumentError(f"{name}: {error}") from error
    return check(name, status)


def check(name: str, status: int) -> int:
    """Return OK or PENDING, raise the error that belongs to any other status of the call ``name``."""
    if status <= header.PENDING:  # or OK
        return status
    text = (library().mast3r_last_error() or b"").decode("utf-8", "replace")
    raise _ERRORS.get(status, errors.InternalError)(text or f"{name}: status {status}")


def release(name: str, handle: int) -> None:
    """Give a handle back; for finalizers, which must stay silent and harmless after a fork."""
    if _library is not None and not _forked:
        getattr(_library, name)(handle)


_level: int | None = None  # the level that the library was told last


def set_log_level() -> None:
    """Tell the library the logger's level, so that it keeps nothing that nobody wants."""
    global _level
    level = _log.getEffectiveLevel()
    if level != _level:
        # slog counts in steps of 4 from debug = -4, Python in steps of 10 from debug = 10
        call("mast3r_log_level", (level - 20) * 4 // 10)
        _level = level


def forward_log() -> None:
    """Hand the library's log records to ``logging.getLogger("mast3r_runtime")``."""
    record = S.struct(S.LogRecord)
    while call("mast3r_log_next", record) == header.OK:
        level = 20 + record.level * 10 // 4
        _log.log(level, "%s", record.text.decode("utf-8", "replace"))


class Job:
    """Submitted work. ``keep`` holds what the library reads while the job runs."""

    def __init__(self, submit: str, *arguments: Any, keep: object = None) -> None:
        self._handle = S.Handle()
        self._keep = keep
        limits.check()
        set_log_level()
        call(submit, *arguments, self._handle)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exc: object) -> None:
        # Frees the job, and with it whatever was not taken; waits for a cancelled one, so
        # that the memory in keep is no longer read when this returns.
        if not _forked:
            call("mast3r_job_free", self._handle)
            forward_log()
        self._keep = None

    def wait(self, tick: Callable[[], None] | None = None) -> None:
        """Wait for the end; KeyboardInterrupt and other signals get through within 50 ms.

        ``tick`` is called between two waits; an exception in it cancels the job.
        """
        try:
            while call("mast3r_job_wait", self._handle, self._patience()) == header.PENDING:
                limits.check()
                if tick is not None:
                    tick()
        except BaseException:
            if not _forked:
                call("mast3r_job_cancel", self._handle)
            raise

    @staticmethod
    def _patience() -> int:
        return max(1, min(_WAIT_MS, int(1000 * min(limits.remaining(), 1)) + 1))

    def progress(self) -> tuple[int, int]:
        """Bytes done and in all; (0, 0) before the job has counted them."""
        out = S.struct(S.Progress)
        call("mast3r_job_progress", self._handle, out)
        return int(out.done), int(out.total)

    def files(self) -> list[str]:
        """The paths of the files that the finished job wrote."""
        paths = json.loads(text_of(lambda *out: call("mast3r_job_files", self._handle, *out)))
        return [str(path) for path in paths]

    def take(self, kind: type[S.SizedT], name: str, *arguments: Any) -> S.SizedT:
        """Take a result struct, with the tensors whose handles it holds."""
        out = S.struct(kind)
        call(name, self._handle, *arguments, out)
        return out

    def take_handle(self, name: str) -> int:
        """Take a handle that the finished job holds."""
        out = S.Handle()
        call(name, self._handle, out)
        return int(out.value)

    def results(self) -> int:
        """How many results the finished job holds."""
        count = C.c_size_t()
        call("mast3r_job_results", self._handle, count)
        return int(count.value)


def text_of(read: Callable[[Any, int, Any], int]) -> str:
    """Read a text of unknown length through a (buffer, capacity, needed) call."""
    needed = C.c_size_t()
    read(None, 0, needed)
    buffer = C.create_string_buffer(needed.value)
    read(buffer, needed.value, needed)
    return buffer.value.decode("utf-8", "replace")
