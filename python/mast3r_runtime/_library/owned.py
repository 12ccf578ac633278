# SPDX-License-Identifier: Apache-2.0
"""Handles of the library that are given back when nothing in Python refers to them any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from . import calls

__all__ = ["Owned"]

_nothing = partial(bool)  # the finalizer of what was closed
_closing = threading.Lock()


class Owned:
    """One handle, given back by the call ``release`` at ``_close()``, or when this object goes.

    An object that needs a handle holds one of these, or is one, and has no finalizer of its own. The
    names are private because what is one shows them to users.
    """

    # The finalizer of each object is the library's own function, in a slot. A method would be
    # Python code, and so is weakref.finalize: a KeyboardInterrupt that comes while it runs is
    # printed and lost. weakref.finalize would also run at exit, under arrays still in use. After
    # a fork the function does nothing: it asks before it enters Go.
    __slots__ = ("__del__", "_handle", "_release")

    def __init__(self, release: str, handle: int) -> None:
        self._own(release, handle)

    def _own(self, release: str, handle: int) -> None:
        self._release = release
        self._handle = handle  # 0 once it was closed
        self.__del__: Callable[[], object] = partial(getattr(calls._library, release), handle)

    @property
    def _alive(self) -> bool:
        return self._handle != 0

    def _close(self) -> None:
        """Give the handle back now; again does nothing."""
        with _closing:
            handle, self._handle = self._handle, 0
        if handle:
            calls.call(self._release, handle)
            self.__del__ = _nothing  # only now: after a Ctrl-C above it has it still to do
