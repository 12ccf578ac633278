# SPDX-License-Identifier: Apache-2.0
"""The errors of the package.

All derive from :class:`Mast3rError`. Each is also the builtin exception that fits, so
``except ValueError`` and ``except FileNotFoundError`` work as well. Every message says what
was given and what is valid.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, TypeVar, cast
from urllib.parse import unquote

__all__ = [
    "ArgumentError",
    "BusyError",
    "CancelledError",
    "ChecksumError",
    "ClosedError",
    "DependencyError",
    "DeviceError",
    "DownloadError",
    "FileError",
    "ForkError",
    "ImageError",
    "ImageNotFoundError",
    "ImageTypeError",
    "InternalError",
    "LibraryError",
    "Mast3rError",
    "MemoryLimitError",
    "ModelNotFoundError",
    "NotLoadedError",
    "OfflineError",
    "SceneError",
    "ShapeError",
    "StoreError",
    "TimeLimitError",
    "UnsupportedError",
    "WeightsError",
]


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/[^\s\"]+")  # also with a slash too few


def without_secrets(text: str, *urls: str) -> str:
    """A text for people and reports, without what URLs in it hold of users, passwords and queries.

    Everything between ``://`` and the last ``@``, and everything behind ``?`` and ``#``, becomes
    ``***``. Of ``urls``, which are known to be some, those parts go wherever else they stand, if they
    are longer than three letters.
    """
    for url in urls:
        text = text.replace(url, _cut(url))
        for part in sorted(_secrets(url), key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", "***", text)
    return _URL.sub(lambda found: _cut(found[0]), text)


def _cut(url: str) -> str:
    scheme, mark, rest = url.partition("//" if "://" in url else "/")
    user, at, place = rest.rpartition("@")
    query = re.search(r"[?#]", place)
    kept = place[: query.end()] + "***" if query else place
    return f"{scheme}{mark}{'***@' if at else ''}{kept}"


def _secrets(url: str) -> set[str]:
    user, at, place = url.partition("//" if "://" in url else "/")[2].rpartition("@")
    query = re.split(r"[?#&;]", place)[1:]
    parts = {user, *user.split(":", 1), *query, *(item.partition("=")[2] for item in query)}
    return {part for found in parts for part in (found, unquote(found)) if len(part) > 3}


def quoted(text: object) -> str:
    """A name or a path in an error text: on one line and in quotes. A backslash stays one, for Windows
    paths are full of them."""
    name = os.fspath(text) if isinstance(text, os.PathLike) else text
    return repr(name if isinstance(name, bytes) else without_secrets(str(name))).replace("\\\\", "\\")


def reason(error: Exception) -> str:
    """What an error says, without the path that the system puts behind it, its backslashes doubled."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def shown(text: object, lines: bool = False) -> str:
    """A name for people: one line, without what a terminal obeys (escapes, other directions of text).

    With ``lines``, a whole text, whose lines and tabs stay.
    """
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in str(text))


class Mast3rError(RuntimeError):
    """Base of every error that the package raises. Its text has no secrets of URLs."""

    def __str__(self) -> str:
        return without_secrets(super().__str__())

    def __repr__(self) -> str:
        return without_secrets(super().__repr__())


class LibraryError(Mast3rError, ImportError):
    """The native library is missing or does not belong to this version of the package."""


class ForkError(Mast3rError):
    """The process was forked after the native library was loaded."""


class ArgumentError(Mast3rError, ValueError):
    """A setting or argument is out of range."""


class DependencyError(Mast3rError, ImportError):
    """An optional package is needed and not installed; the message names the command to install it."""


class DeviceError(Mast3rError):
    """The requested backend is not available, or it failed."""


class MemoryLimitError(DeviceError, MemoryError):
    """The work does not fit into the memory that is left, of this machine or of the device.

    It is a DeviceError, as a lack of a GPU's memory always was.
    """


class NotLoadedError(Mast3rError):
    """The call needs a model, and none is loaded."""


class ClosedError(Mast3rError):
    """The engine or tensor was closed."""


class CancelledError(Mast3rError):
    """The work was cancelled, as by ``close()`` from another thread."""


class TimeLimitError(Mast3rError, TimeoutError):
    """The time of a ``limit(timeout=...)`` block ran out."""


class InternalError(Mast3rError):
    """A bug in the native library, caught before it could end the process."""


class UnsupportedError(Mast3rError, NotImplementedError):
    """The loaded network cannot do this; the message says which call or network can."""


class WeightsError(Mast3rError, ValueError):
    """The model file cannot be used."""


class ModelNotFoundError(Mast3rError, FileNotFoundError):
    """There is no model file at the place where one was expected."""


class OfflineError(ModelNotFoundError):
    """A download is needed, and HF_HUB_OFFLINE or MAST3R_OFFLINE forbids it."""


class FileError(Mast3rError, OSError):
    """The system refused to read or write a file: no space, a read-only folder."""


class BusyError(FileError):
    """Another run writes into the folder; the message says which."""


class StoreError(FileError):
    """A store cannot be written and trying again will not help: it is full, or read-only."""


class DownloadError(Mast3rError, OSError):
    """The download failed from every address."""


class ChecksumError(DownloadError):
    """The downloaded file is complete, but differs from the published file."""


class ShapeError(Mast3rError, ValueError):
    """Sizes do not fit each other."""


class ImageError(Mast3rError, ValueError):
    """The picture cannot be used. ``file`` is its path, None where it came from no file."""

    file: str | None = None


class ImageTypeError(ImageError, TypeError):
    """The object, or its element type, is not a picture."""


class ImageNotFoundError(ImageError, FileNotFoundError):
    """There is no picture file of that name."""


class SceneError(Mast3rError, ValueError):
    """The pictures do not make a scene. ``report``, if not None, gives the reason for each picture."""

    report: dict[str, object] | None = None


# The border of the public functions: what a bad argument runs into becomes an ArgumentError.
# Arguments whose range means something are checked where they are used, with texts of their own.
# This catches the rest: a text where a number is wanted, an object that is no path. Errors that
# come out of the caller's own code, a callback or an ``__array__``, pass as they are.

T = TypeVar("T", bound="type | Callable[..., Any]")

_BAD_ARGUMENT = (
    TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError, OSError,
)  # fmt: skip
_OURS = tuple(
    os.path.join(os.path.realpath(path), "")
    for path in {
        str(Path(__file__).parent),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(inspect.getfile(inspect)).parent),
    }
)


def checked(target: T) -> T:
    """Guard a function, or every public method of a class."""
    if not isinstance(target, type):
        return cast(T, _guard(cast(Callable[..., Any], target)))
    for name, member in list(vars(target).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, classmethod):
            setattr(target, name, classmethod(_guard(member.__func__)))
        elif isinstance(member, FunctionType):
            setattr(target, name, _guard(member))
    return target


def _guard(function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generate(*arguments: Any, **named: Any) -> Iterator[Any]:
            try:
                yield from function(*arguments, **named)
            except _BAD_ARGUMENT as error:
                if _is_callers(error):
                    raise
                raise _ours(function, error) from error

        return generate

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except _BAD_ARGUMENT as error:
            if _is_callers(error):
                raise
            raise _ours(function, error) from error

    return call


def _ours(function: Callable[..., Any], error: Exception) -> Mast3rError:
    if isinstance(error, OSError):
        return FileError(f"{function.__qualname__}: {error}")
    return ArgumentError(f"{function.__qualname__}: {error}")


def _is_callers(error: Exception) -> bool:
    """Whether the error is one of ours, or came through a function that is not part of a library.

    An argument that is missing or unknown stays Python's own TypeError: the function never began.
    """
    if isinstance(error, Mast3rError):
        return True
    trace: TracebackType | None = error.__traceback__ and error.__traceback__.tb_next
    if trace is None and isinstance(error, TypeError):
        return True
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<") and not os.path.realpath(file).startswith(_OURS):
            return True
        trace = trace.tb_next
    return False
