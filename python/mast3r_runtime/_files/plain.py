# SPDX-License-Identifier: Apache-2.0
"""Reading a file that somebody named, without waiting for what is none."""

from __future__ import annotations

import os
import stat
from io import BufferedReader

from ..errors import FileError, quoted

__all__ = ["irregular", "no_wait", "opened", "read_bytes", "read_text"]


def no_wait(path: str, flags: int) -> int:
    """An opener that does not wait for whoever writes into a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))


def irregular(mode: int) -> str:
    """What a file is that is none, by its mode."""
    for test, text in (
        (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"),
    ):  # fmt: skip
        if test(mode):
            return text
    return "a device"


def opened(path: str | os.PathLike[str]) -> BufferedReader:
    """A file, to be read. Raises OSError, and FileError, a kind of it, for a pipe or a device."""
    file = open(path, "rb", opener=no_wait)  # noqa: SIM115 (the caller closes it)
    mode = os.fstat(file.fileno()).st_mode
    if not stat.S_ISREG(mode):
        file.close()
        raise FileError(f"{quoted(path)}: {irregular(mode)}, want a file")
    return file


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file; as :func:`opened`."""
    with opened(path) as file:
        return file.read()


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file in UTF-8, with or without a byte order mark; bytes that are no text are kept."""
    return read_bytes(path).decode("utf-8-sig", "surrogateescape")
