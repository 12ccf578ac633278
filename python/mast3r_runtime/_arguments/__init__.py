# SPDX-License-Identifier: Apache-2.0
"""The border of the public functions: what a bad argument runs into becomes an ArgumentError.

Arguments whose range means something are checked where they are used, with texts of their own.
This catches the rest: a text where a number is wanted, an object that is no path. Errors that
come out of the caller's own code, a callback or an ``__array__``, pass as they are.
"""

from __future__ import annotations

import functools
import inspect
import os
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, TypeVar, cast

from ..errors import ArgumentError, FileError, Mast3rError

__all__ = ["checked"]

T = TypeVar("T", bound="type | Callable[..., Any]")

_BAD_ARGUMENT = (
    TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError, OSError,
)  # fmt: skip
_OURS = tuple(
    os.path.join(os.path.realpath(path), "")
    for path in {
        str(Path(__file__).parents[1]),
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
