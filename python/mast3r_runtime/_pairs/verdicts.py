# SPDX-License-Identifier: Apache-2.0
"""What the network says of pairs that retrieval found: each is run, and kept in the store for ``batch``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from .._engine.engine import Engine
from .._pictures.reading import fetch
from .._store.store import Store
from ..errors import ImageError
from .rule import Rule, stride_for
from .task import Picture
from .worker import VERDICTS, PairWorker

__all__ = ["drops", "verdicts"]


def drops(drop: str | None, verdict: str) -> bool:
    """Whether ``--drop`` leaves out a pair of this verdict."""
    return drop is not None and VERDICTS.index(verdict) <= VERDICTS.index(drop)


def verdicts(
    engine: Engine,
    store: Store,
    paths: Sequence[Path],
    pairs: Sequence[tuple[int, int]],
    tick: Callable[[], object] = lambda: None,
    on_error: Callable[[ImageError], object] | None = None,
) -> list[str | None]:
    """NO, UNSURE or YES for each pair of pictures: from the store, or by running it as ``batch`` does.

    None where a picture of the pair cannot be read, which ``on_error`` is told; without it that is raised.
    """
    worker = PairWorker(engine, store, Rule.of(engine, stride_for(len(paths)), "float16"))
    used: dict[int, Picture] = {}
    said: list[str | None] = []
    for i, j in pairs:
        try:
            for k in (i, j):
                used[k] = used.get(k) or Picture(str(paths[k]), fetch(paths[k]).sha256)
            said.append(VERDICTS[_verdict(worker, used[min(i, j)], used[max(i, j)])])
        except ImageError as error:
            if on_error is None:
                raise
            on_error(error)
            said.append(None)
        tick()
    return said


def _verdict(worker: PairWorker, one: Picture, two: Picture) -> int:
    outcome = worker.outcome(one, two, (False, False), False)
    return outcome.verdict if outcome else int(worker.pair(one, two)["verdict"])
