# SPDX-License-Identifier: Apache-2.0
"""How far a long command is: a bar on a terminal, a plain line now and then in a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["Steps", "left"]

EVERY = 30.0  # seconds between two lines


def left(done: int, total: int, seconds: float) -> str:
    """What is to come at the same pace, for people."""
    if not done:
        return ""
    rest = seconds * (total - done) / done
    return f", about {rest / 60:.0f} minutes left" if rest >= 90 else f", about {rest:.0f} s left"


class Steps:
    """Told how many of a step are done. ``begun`` is called with a step's name and total before its first."""

    def __init__(self, begun: Callable[[str, int], None] = lambda step, total: None) -> None:
        self.step = ""
        self._begun, self._bar = begun, None
        self._started = self._said = 0.0

    def __call__(self, step: str, done: int, total: int) -> None:
        if step != self.step:
            self._begin(step, total)
        bar: Any = self._bar
        if bar is not None:
            bar.update(done - bar.n)
            return
        now = time.monotonic()
        if now - self._said >= EVERY:
            self._said = now
            rest = left(done, total, now - self._started)
            print(f"mast3r: {step}: {done} of {total}{rest}", file=sys.stderr, flush=True)

    def _begin(self, step: str, total: int) -> None:
        self.__exit__()
        self.step = step
        self._begun(step, total)
        self._started = self._said = time.monotonic()
        if sys.stderr.isatty():
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, desc=step, leave=False, file=sys.stderr)

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None
