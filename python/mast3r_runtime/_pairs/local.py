# SPDX-License-Identifier: Apache-2.0
"""Worker processes of this machine, as an Executor: one that dies fails its own job and is replaced."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .._checkpoints import places
from .._library.device import available, backend_wanted
from ..errors import ArgumentError, Mast3rError, ModelNotFoundError, checked
from .machine import cores, free_memory

__all__ = ["WorkerDied", "Workers", "workers_for"]


SMALL = 256 << 20  # bytes of a model's file that counts as small
ROOM = 700 << 20  # bytes that a worker needs beside the model
MOST = 1024  # workers: more processes than any machine has cores are a mistake


def workers_for(model: str | os.PathLike[str] | None, variant: str = "auto", backend: str = "auto") -> int:
    """How many worker processes this machine does pairs fastest with (docs/many-pictures.md).

    A GPU has one. On a CPU a worker has one thread for a small model, whose products are too
    short to be shared well, and four for a large one; and no more than there is memory for.
    """
    wanted = backend_wanted(backend)
    gpus = ("metal", "cuda") if wanted == "auto" else (wanted,) if wanted != "cpu" else ()
    if any(not available(name) for name in gpus):
        return 1
    try:
        place = places.find(variant) if model is None else places.model_path(model)
    except ModelNotFoundError:
        if model is None:
            raise
        place = Path(model)  # who opens it says so; its workers may be on machines that have it
    files = [place] if place.is_file() else [p for p in place.glob("*.safetensors")]
    size = sum(p.stat().st_size for p in files)
    count = max(1, cores() // (1 if size < SMALL else 4))
    return max(1, min(count, free_memory() // (2 * size + ROOM)))


class WorkerDied(Mast3rError):
    """The process that did a job ended: killed, out of memory, or a crash."""


@checked
class Workers(Executor):
    """``count`` processes, each with one job at a time.

    The executors of the standard library fail every job when one process dies; here only the
    job that it had fails, with WorkerDied. Processes are spawned: a script that makes one needs
    ``if __name__ == "__main__":``.
    """

    def __init__(self, count: int) -> None:
        if not 1 <= count <= MOST:
            raise ArgumentError(f"{count} workers, want 1 to {MOST}")
        self.count = count
        self._jobs: queue.SimpleQueue[tuple[Future[Any], bytes] | None] = queue.SimpleQueue()
        self._live: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a function of a module called by the next free process."""
        if self._closed:
            raise RuntimeError("Workers: submit after shutdown")
        future: Future[Any] = Future()
        self._jobs.put((future, pickle.dumps((fn, args, kwargs))))
        return future

    def pids(self) -> list[int]:
        """The processes that run now."""
        with self._lock:
            return [process.pid for process in self._live.values() if process.pid is not None]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes after their jobs."""
        self._closed = True
        if cancel_futures:
            with contextlib.suppress(queue.Empty):
                while True:
                    item = self._jobs.get_nowait()
                    if item is not None:
                        item[0].cancel()
        for _ in self._threads:
            self._jobs.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def kill(self) -> None:
        """End the processes now; their jobs fail with WorkerDied."""
        self._closed = True
        with self._lock:
            for process in self._live.values():
                process.kill()
        self.shutdown(cancel_futures=True)

    def _serve(self) -> None:
        """One thread for each process: it gives it jobs and starts it again when it is gone."""
        context = multiprocessing.get_context("spawn")
        process, pipe = None, None
        while (item := self._jobs.get()) is not None:
            future, job = item
            if not future.set_running_or_notify_cancel():
                continue
            if process is None or not process.is_alive():
                pipe, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs,), daemon=True)
                process.start()
                theirs.close()
                with self._lock:
                    self._live[threading.get_ident()] = process
            assert pipe is not None
            _ask(process, pipe, job, future)
        if process is not None and pipe is not None:
            with contextlib.suppress(OSError):
                pipe.send_bytes(b"")
            process.join()
        with self._lock:
            self._live.pop(threading.get_ident(), None)


def _ask(process: Any, pipe: Connection, job: bytes, future: Future[Any]) -> None:
    try:
        pipe.send_bytes(job)
        wait([pipe, process.sentinel])
        good, value = pickle.loads(pipe.recv_bytes()) if pipe.poll() else (False, None)
    except (EOFError, OSError):
        good, value = False, None
    if value is None and not good:
        process.join()
        value = WorkerDied(f"worker process {process.pid} ended with {_ending(process.exitcode)}")
    if good:
        future.set_result(value)
    else:
        future.set_exception(value)


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"status {code}"


def _work(pipe: Connection) -> None:
    # Ctrl-C goes to every process of a terminal; what it means is for the parent to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            job = pipe.recv_bytes()
        except (EOFError, OSError):  # the parent is gone
            return
        if not job:
            return
        try:
            function, args, kwargs = pickle.loads(job)
            answer = pickle.dumps((True, function(*args, **kwargs)))
        except BaseException as error:
            answer = _failed(error)
        try:
            pipe.send_bytes(answer)
        except OSError:
            return


def _failed(error: BaseException) -> bytes:
    try:
        data = pickle.dumps((False, error))
        pickle.loads(data)
        return data
    except Exception:
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
