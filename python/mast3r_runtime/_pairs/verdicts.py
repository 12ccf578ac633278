# SPDX-License-Identifier: Apache-2.0
"""What the network says of pairs that retrieval found: each is run, and kept in the store for ``batch``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from .._engine.engine import Engine
from .._store.store import Store, file_hash
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
) -> list[str]:
    """NO, UNSURE or YES for each pair of pictures: from the store, or by running it as ``batch`` does."""
    worker = PairWorker(engine, store, Rule.of(engine, stride_for(len(paths)), "float16"))
    used = {i: Picture(str(paths[i]), file_hash(paths[i])) for pair in pairs for i in pair}
    said = []
    for i, j in pairs:
        one, two = used[min(i, j)], used[max(i, j)]
        outcome = worker.outcome(one, two, (False, False), False)
        number = outcome.verdict if outcome else int(worker.pair(one, two)["verdict"])
        said.append(VERDICTS[number])
        tick()
    return said
