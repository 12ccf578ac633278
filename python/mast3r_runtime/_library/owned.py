# SPDX-License-Identifier: Apache-2.0
"""Handles of the library that are given back when nothing in Python refers to them any more."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

from . import calls

__all__ = ["Owned"]


class Owned:
    """One handle, given back by the call ``release`` at :meth:`close`, or when this object goes.

    An object that needs a handle holds one of these. It has no finalizer of its own.
    """

    # The finalizer of each object is the library's own function, in a slot. A method would be
    # Python code, and so is weakref.finalize: a KeyboardInterrupt that comes while it runs is
    # printed and lost. weakref.finalize would also run at exit, under arrays still in use. After
    # a fork the function does nothing: it asks before it enters Go.
    __slots__ = ("__del__", "_closed", "_release", "handle")

    def __init__(self, release: str, handle: int) -> None:
        self.handle = handle
        self._release = release
        self._closed = threading.Lock()  # taken once, by the one who closes
        self.__del__: Callable[[], object] = functools.partial(getattr(calls.library(), release), handle)

    @property
    def alive(self) -> bool:
        return not self._closed.locked()

    def close(self) -> None:
        """Give the handle back now; again does nothing."""
        if self._closed.acquire(blocking=False):
            calls.call(self._release, self.handle)
            # Only now: after a Ctrl-C above, the finalizer has it still to do.
            self.__del__ = bool  # nothing, without Python code
