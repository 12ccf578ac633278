# SPDX-License-Identifier: Apache-2.0
"""Importing large packages without losing a signal in them."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["heavy"]


def heavy(name: str) -> Any:
    """Import a package that takes seconds.

    Ctrl-C meanwhile counts when the import is done: some packages swallow every exception of what they
    import, others report it as a broken installation. The handler of SIGTERM stays the process's own:
    pycolmap's library puts one in its place that prints its stack.

    Raises ImportError, or KeyboardInterrupt after the import.
    """
    if name in sys.modules:
        return sys.modules[name]
    with _signals_held():
        return importlib.import_module(name)


@contextmanager
def _signals_held() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals come to the main thread
        return
    pressed: list[tuple[int, Any]] = []
    interrupt, terminate = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    if callable(interrupt):
        signal.signal(signal.SIGINT, lambda number, frame: pressed.append((number, frame)))
    try:
        yield
    finally:
        if callable(interrupt):
            signal.signal(signal.SIGINT, interrupt)
        if terminate is not None:  # one that Python knows
            signal.signal(signal.SIGTERM, terminate)
    if pressed and callable(interrupt):
        interrupt(*pressed[0])
