# SPDX-License-Identifier: Apache-2.0
"""How long calls may take, and who may end them: heeded by everything that waits."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..errors import ArgumentError, CancelledError, TimeLimitError

__all__ = ["CancelToken", "check", "limit", "remaining"]


class CancelToken:
    """Ends the calls of :func:`limit` blocks that were given it, from any thread or signal handler."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """End the calls that run, and those that come."""
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._event.is_set()


_Limits = tuple[float, tuple[CancelToken, ...]]
_limits: ContextVar[_Limits] = ContextVar("mast3r_runtime_limits", default=(math.inf, ()))


@contextmanager
def limit(timeout: float | None = None, cancel: CancelToken | None = None) -> Iterator[None]:
    """Bound the calls of a ``with`` block: loading, inference, matching, conversion, downloads.

    The block's limits are those of its context (:mod:`contextvars`): other threads are not
    bound. Of nested blocks, all count. An engine stays usable after a call was ended.

    Parameters
    ----------
    timeout : float, optional
        Seconds for the whole block.
    cancel : CancelToken, optional
        Ends the block's calls when it is cancelled.

    Raises
    ------
    TimeLimitError
        From the call during which the time was up, within about 50 ms.
    CancelledError
        Likewise, when the token was cancelled.
    ArgumentError
        A ``timeout`` that is no number of seconds.
    """
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0
    ):
        raise ArgumentError(f"timeout={timeout!r}, want a number of seconds, 0 or more")
    if cancel is not None and not isinstance(cancel, CancelToken):
        raise ArgumentError(f"cancel={cancel!r}, want a CancelToken")
    end, tokens = _limits.get()
    if timeout is not None:
        end = min(end, time.monotonic() + timeout)
    before = _limits.set((end, tokens if cancel is None else (*tokens, cancel)))
    try:
        yield
    finally:
        _limits.reset(before)


def remaining() -> float:
    """Seconds that are left; infinite without a limit."""
    end, _ = _limits.get()
    return end - time.monotonic()


def check() -> None:
    """Raise what the limits ask for."""
    end, tokens = _limits.get()
    if any(token.cancelled for token in tokens):
        raise CancelledError("cancelled by its CancelToken")
    if time.monotonic() >= end:
        raise TimeLimitError("the time of limit(timeout=...) is up")
