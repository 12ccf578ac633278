# SPDX-License-Identifier: Apache-2.0
"""``run_pairs``: pictures and pairs in, a store out, by this process or by any number of workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._checkpoints import places
from .._store.places import location
from .._store.store import Store
from ..errors import ArgumentError, checked
from . import task
from .dask import executor_of
from .driver import Driver, Failure, Progress
from .local import Workers
from .plan import I32, depth_pairs, normal, rows, share, tiles
from .record import write_run
from .rule import ONLY, stride_for
from .task import Picture, Probe, Setup, SetupError

__all__ = ["Report", "run_pairs"]

Paths = Sequence[str | os.PathLike[str]] | Mapping[str, str | os.PathLike[str]]
SIDES = {"cpu": 4}  # pictures of a tile's side; 8 on a GPU


@dataclass(frozen=True)
class Report:
    """What a run did. ``pairs [P, 2]`` are those of this shard, by the pictures' numbers.

    ``matches [P]`` and ``verdicts [P]`` (0 NO, 1 UNSURE, 2 YES) are -1 where a pair failed.
    ``done`` counts pairs that have a result, ``computed`` those that this run made,
    ``encoded`` the pictures.
    """

    run: str
    pairs: I32
    matches: I32
    verdicts: npt.NDArray[np.int8]
    computed: int
    encoded: int
    failed: tuple[Failure, ...]
    seconds: float

    @property
    def done(self) -> int:
        return int((self.matches >= 0).sum())


@checked
def run_pairs(
    images: Paths,
    pairs: Sequence[tuple[int, int]] | npt.ArrayLike,
    *,
    store: str | os.PathLike[str],
    model: str | os.PathLike[str] | None = None,
    client: Any = None,
    variant: str = "auto",
    backend: str = "auto",
    precision: str = "auto",
    resolution: int = 0,
    threads: int = 0,
    stride: int = 0,
    features: str = "float16",
    only: str = "matches",
    shard: tuple[int, int] | None = None,
    stage: str = "both",
    tile: int = 0,
    retries: int = 3,
    retry_failed: bool = False,
    strict_bits: bool = False,
    fsync: bool = False,
    pack: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Match pairs of pictures into a store; what is there already is not computed.

    The same call goes on where an earlier one ended, whatever ended it. Any number of calls may
    work on one store at once.

    Parameters
    ----------
    images : paths, or a mapping of names to paths
        Picture files. With workers on other machines, the paths must mean the same there.
    pairs : [P, 2]
        Numbers into ``images``. The order within a pair, and a pair given twice, do not matter.
    store : folder or URL
        See :class:`mast3r_runtime.store.Store`.
    model : path, optional
        The model's file; as for ``Engine.load``.
    client : optional
        Who works: a ``dask.distributed.Client``, :class:`Workers`, or any
        ``concurrent.futures.Executor`` whose workers can import this package. This process when
        left out.
    variant, backend, precision, resolution, threads
        As for ``Engine``. ``threads`` 0 gives each worker its share of its machine's cores.
    stride : int
        Network pixels between anchors; 0 means 8, or 16 above 200 pictures.
    features : {"float16", "float32"}
        How features are kept. Their rounding is part of the key of a pair.
    only : {"matches", "dense", "all"}
        What is kept of a pair: matches; the depth maps that ``reconstruct`` uses, too; every
        map of the first direction, too.
    shard : (k, n), optional
        Do the k-th of n parts: for job arrays.
    stage : {"both", "encode", "pairs"}
        Stage 1 encodes pictures, stage 2 does pairs and encodes what it misses.
    tile : int
        Pictures on a side of a tile of pairs; 0: 4, or 8 on a GPU.
    retries : int
        How often a pair is tried again that failed for a reason that may pass.
    retry_failed : bool
        Try again the pairs that earlier runs set aside.
    strict_bits : bool
        Make the kind of processor part of every key.
    fsync, pack : bool
        Wait for the disk after each file; write a tile's pairs as one file.
    progress : callable, optional
        Called with a :class:`Progress` now and then.

    Returns
    -------
    Report
        ``failed`` lists the pairs that have no result and why. They do not end the run.

    Raises
    ------
    SetupError
        A worker has another version or model, or cannot find the pictures. Nothing was computed.
    StoreError
        The store cannot be written: full, or read-only.
    KeyboardInterrupt
        After a Ctrl-C, once the jobs in progress are done; at once after the second.
    """
    started = time.monotonic()
    names, paths = _listed(images)
    if only not in ONLY:
        raise ArgumentError(f"only {only!r}, want one of {', '.join(ONLY)}")
    if stage not in ("both", "encode", "pairs"):
        raise ArgumentError(f"stage {stage!r}, want both, encode or pairs")
    if not paths:
        raise ArgumentError("no pictures")
    chosen = normal(pairs, len(paths))  # type: ignore[arg-type]
    root = location(store)
    Store(root)
    executor, workers, neighbours = _executor(client)
    setup = Setup(
        root, None if model is None else places.for_others(model),
        variant, backend, precision, resolution, threads, neighbours, fsync, pack,
    )  # fmt: skip
    there = next((path for path in paths if os.path.exists(path)), paths[0])  # one may be gone by now
    found = _probe(client, executor, setup, stride or stride_for(len(paths)), features, strict_bits, there)
    side = tile or SIDES.get(found.backend, 8)
    cut = tiles(chosen, side)
    mine = [cut[k] for k in share(len(cut), shard)]
    depth: Callable[[int, int], tuple[bool, bool]] = lambda i, j: (False, False)  # noqa: E731
    if only != "matches":
        near = depth_pairs(list(rows(chosen)))
        depth = lambda i, j: ((i, j) in near[i], (i, j) in near[j])  # noqa: E731
    driver = Driver(
        setup, found.rule, [Picture(path) for path in paths], names, chosen, mine, executor, workers, retries,
        progress or (lambda _: None), depth, only == "all", retry_failed,
    )  # fmt: skip
    run = write_run(driver.store, names, driver.pictures, chosen, found.rule, only)
    try:
        driver.run_pictures(_pictures(stage, shard, len(paths), chosen, mine))
        if stage != "encode":
            driver.run_tiles()
    finally:
        write_run(driver.store, names, driver.pictures, chosen, found.rule, only)
    numbers = np.sort(np.concatenate(mine)) if mine else np.zeros(0, np.int32)
    return Report(
        run, chosen[numbers], driver.matches[numbers], driver.verdicts[numbers], driver.computed,
        driver.encoded, tuple(driver.failures), time.monotonic() - started,
    )  # fmt: skip


def _listed(images: Paths) -> tuple[list[str], list[str]]:
    if isinstance(images, Mapping):
        return list(images), [os.path.abspath(path) for path in images.values()]
    paths = [os.path.abspath(path) for path in images]
    names = [Path(path).name for path in paths]
    return (names if len(set(names)) == len(names) else paths), paths


def _pictures(
    stage: str, shard: tuple[int, int] | None, count: int, pairs: I32, mine: list[I32]
) -> list[int]:
    """The pictures of stage 1: those of the pairs; for a shard of the stage alone, its share of all."""
    if stage == "encode":
        used = [int(i) for i in np.unique(pairs)] if len(pairs) else list(range(count))
        return [used[k] for k in share(len(used), shard)]
    return [int(i) for i in np.unique(pairs[np.concatenate(mine)])] if mine else []


def _executor(client: Any) -> tuple[Executor | None, Callable[[], int], int]:
    """The executor behind a client, how many workers it has now, how many of them share a machine."""
    if client is None:
        return None, lambda: 1, 1
    if isinstance(client, Workers):
        return client, lambda: client.count, client.count
    if isinstance(client, Executor):
        count = int(getattr(client, "_max_workers", None) or os.cpu_count() or 1)
        return client, lambda: count, count
    return executor_of(client)


def _probe(
    client: Any, executor: Executor | None, setup: Setup, stride: int, features: str, strict: bool, path: str
) -> Probe:
    """What the workers are; SetupError where they would not do the same work."""
    arguments = (setup, stride, features, strict, path)
    if executor is None:
        return task.probe(*arguments)
    if hasattr(client, "get_executor"):  # Dask: every worker that is there is asked
        answers = client.run(task.probe, *arguments, on_error="return")
        if not answers:
            client.wait_for_workers(1, timeout=600)
            answers = client.run(task.probe, *arguments, on_error="return")
        for where, answer in answers.items():
            if isinstance(answer, BaseException):
                raise (
                    answer if isinstance(answer, SetupError) else SetupError(f"{where}: {answer}")
                ) from answer
        probes = list(answers.values())
    else:
        probes = [executor.submit(task.probe, *arguments).result()]
    for other in probes[1:]:
        if other.rule != probes[0].rule:
            raise SetupError(
                f"{probes[0].host} has {probes[0].rule}, {other.host} has {other.rule}: want the same"
            )
    first: Probe = probes[0]
    return first
