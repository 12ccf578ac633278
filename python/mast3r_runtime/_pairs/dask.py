# SPDX-License-Identifier: Apache-2.0
"""Dask distributed as the engine: a client as an executor, and clusters by a short text."""

from __future__ import annotations

import importlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, DependencyError, quoted

__all__ = ["connect", "executor_of"]

# Kinds of jobs.yaml: the classes of dask-jobqueue.
_QUEUES = {
    "htcondor": "HTCondorCluster", "lsf": "LSFCluster", "moab": "MoabCluster", "oar": "OARCluster",
    "pbs": "PBSCluster", "sge": "SGECluster", "slurm": "SLURMCluster",
}  # fmt: skip


def executor_of(client: Any) -> tuple[Executor, Callable[[], int], int]:
    """The executor behind a Dask client, its workers now, and the most on one machine."""
    if not hasattr(client, "get_executor"):
        raise ArgumentError(
            f"client of type {type(client).__name__}, want a dask.distributed.Client, "
            "Workers or a concurrent.futures.Executor"
        )
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    hosts = Counter(worker.get("host") for worker in workers)
    # pure=False: a job's result is in the store, and a job given again must run again.
    executor: Executor = client.get_executor(pure=False)
    return executor, lambda: len(client.nthreads()), max(hosts.values(), default=1)


@contextmanager
def connect(where: str, workers: int) -> Iterator[Any]:
    """A client of ``tcp://HOST:PORT``, ``local[:N]`` or ``slurm:jobs.yaml`` (also pbs, lsf, sge, ...)."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise DependencyError(
            "Dask distributed is not installed; pip install 'mast3r-runtime[cluster]'"
        ) from error
    # It tells of every connection, and at the end of workers that are gone, which is what was wanted.
    logging.getLogger("distributed").setLevel(logging.ERROR)
    kind, _, rest = where.partition(":")
    if rest.startswith("//"):
        with distributed.Client(where, set_as_default=False) as client:  # the user's: it stays
            yield client
        return
    if kind == "local":
        if rest and not (rest.isdigit() and int(rest)):
            raise ArgumentError(f"dask {quoted(where)}: want local or local:WORKERS")
        count = int(rest) if rest else workers
        _be_patient()
        cluster = _local(distributed, count)
    elif kind in _QUEUES and rest:
        _be_patient()
        cluster = _queue(kind, Path(rest))
    else:
        kinds = ", ".join(_QUEUES)
        raise ArgumentError(
            f"dask {quoted(where)}: want tcp://HOST:PORT, local[:N] or KIND:FILE, KIND one of {kinds}"
        )
    client = distributed.Client(cluster, set_as_default=False)
    try:
        yield client
    finally:
        client.close()
        cluster.close()


def _be_patient() -> None:
    """Wait for workers of a busy machine, in a cluster that is ours.

    A nanny that starts a process again gives it up after 30 s, and a cluster gives up a nanny without
    a process after 15 s, both for good. A cluster that has lost all of its workers waits for ever.
    """
    dask: Any = importlib.import_module("dask")
    names = ("comm.timeouts.connect", "comm.timeouts.tcp", "deploy.lost-worker-timeout")
    dask.config.set({f"distributed.{name}": "600s" for name in names})


def _local(distributed: Any, count: int) -> Any:
    """Worker processes of this machine."""
    return distributed.LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
    )


def _queue(kind: str, path: Path) -> Any:
    """A cluster of dask-jobqueue; the file holds its arguments, and ``jobs``: how many."""
    import yaml

    try:
        dask_jobqueue = importlib.import_module("dask_jobqueue")
    except ImportError as error:
        raise DependencyError(f"dask {kind}: needs dask-jobqueue; pip install dask-jobqueue") from error
    try:
        options = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ArgumentError(f"{path}: {error}") from error
    if not isinstance(options, dict) or not isinstance(options.get("jobs"), int):
        raise ArgumentError(f"{path}: want a mapping with jobs: N and the arguments of {_QUEUES[kind]}")
    jobs = options.pop("jobs")
    try:
        cluster = getattr(dask_jobqueue, _QUEUES[kind])(**options)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{path}: {error}") from error
    cluster.scale(jobs=jobs)
    return cluster
