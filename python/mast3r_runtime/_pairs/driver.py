# SPDX-License-Identifier: Apache-2.0
"""The driver: gives jobs to workers, and decides what a lost one, a failed one and Ctrl-C mean.

It holds the list of pairs and small reports; arrays go from the workers to the store. If it is
killed, the same call does what is missing: nothing that was reported is done again.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .._store.store import Store
from ..errors import StoreError
from . import task
from .plan import I32
from .rule import Rule
from .task import EncodeJob, Item, PairFailure, Picture, Setup, SetupError, TileJob, TileReport

__all__ = ["Driver", "Failure", "Interrupted", "Progress"]

_log = logging.getLogger("mast3r_runtime")

CHUNK = 16  # pictures of a job of stage 1
SECONDS = 20.0  # what a job should take, once it is known what a pair takes
ALONE = 60.0  # seconds without a worker after which that is said
DEATHS = 3  # workers that a job may take with it before it is cut up, and a pair before it is set aside


@dataclass(frozen=True)
class Failure:
    """A pair without a result: its pictures' names, the error, the host, how often it was tried."""

    pair: tuple[str, str]
    error: str
    message: str
    host: str
    attempts: int


@dataclass(frozen=True)
class Progress:
    """How far a run is. ``seconds_left`` is None where nothing says."""

    stage: str  # "pictures" or "pairs"
    done: int
    total: int
    failed: int
    computed: int
    encoded: int
    workers: int
    seconds: float
    rate: float  # computed in a second
    seconds_left: float | None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after the jobs in progress were waited for. What is done is in the store."""


class _Here(Executor):
    """This process, at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


@dataclass
class _Job:
    """Items that are done together; ``suspect`` where one of them may kill workers."""

    tiles: list[list[int]]
    suspect: bool = False
    deaths: int = 0
    attempts: int = 0


@dataclass
class Driver:
    """One run: pictures, pairs, and who works."""

    setup: Setup
    rule: Rule
    pictures: list[Picture]
    names: list[str]
    pairs: I32
    tiles: list[I32]
    executor: Executor | None
    workers: Callable[[], int]
    retries: int
    tell: Callable[[Progress], None]
    depth: Callable[[int, int], tuple[bool, bool]] = lambda i, j: (False, False)
    whole: bool = False
    retry_failed: bool = False

    verdicts: npt.NDArray[np.int8] = field(init=False)
    matches: I32 = field(init=False)
    failures: list[Failure] = field(init=False, default_factory=list)
    bad: dict[int, str] = field(init=False, default_factory=dict)
    computed: int = field(init=False, default=0)
    encoded: int = field(init=False, default=0)
    decoded: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.verdicts = np.full(len(self.pairs), -1, np.int8)
        self.matches = np.full(len(self.pairs), -1, np.int32)
        self.total = sum(map(len, self.tiles))
        self.done = 0
        self.store = Store(self.setup.store, fsync=self.setup.fsync)
        self._stop = False
        self._started = time.monotonic()
        self._said = 0.0
        self._where = ("pictures", 0, 0, 0)
        self._per_pair = 0.0  # seconds, of one worker
        self._attempts: Counter[int] = Counter()
        self._waiting: deque[_Job] = deque()  # to be tried again
        self._suspects: deque[_Job] = deque()  # single pairs that may kill workers: one at a time

    # ---- stages ----------------------------------------------------------

    def run_pictures(self, numbers: list[int]) -> None:
        """Stage 1: hashes and features of pictures."""
        chunks = [numbers[k : k + CHUNK] for k in range(0, len(numbers), CHUNK)]
        jobs = iter([_Job([chunk]) for chunk in chunks])
        done = 0
        self._say("pictures", 0, len(numbers), 0)

        def submit(executor: Executor, job: _Job) -> Future[Any]:
            chosen = tuple((i, self.pictures[i]) for own in job.tiles for i in own)
            return executor.submit(task.encode, EncodeJob(self.setup, self.rule, chosen))

        def finished(job: _Job, report: Any) -> None:
            nonlocal done
            self.encoded += report.encoded
            for i, sha, why in report.pictures:
                self.pictures[i] = Picture(self.pictures[i].path, sha)
                if why:
                    self.bad[i] = why
                    _log.warning("%s: left out: %s", self.names[i], why)
            done += len(report.pictures)
            self._say("pictures", done, len(numbers), done)

        def died(job: _Job, error: BaseException) -> None:
            # A picture that kills whoever reads it: its pairs will say so; the others go on.
            job.deaths += 1
            if job.deaths >= DEATHS and len(job.tiles[0]) > 1:
                self._waiting.extend(_Job([[i]], True) for i in job.tiles[0])
            elif job.deaths < DEATHS:
                self._waiting.append(job)
            else:
                self.bad[job.tiles[0][0]] = f"WorkerDied: {error}"

        self._loop(jobs, submit, finished, died)

    def run_tiles(self) -> None:
        """Stage 2: pairs."""
        self._started = time.monotonic()
        self._say("pairs", 0, self.total, 0)
        self._loop(self._jobs(), self._submit_tile, self._tile_done, self._tile_died)

    def _jobs(self) -> Iterator[_Job]:
        """Tiles in order; several at a time where a pair takes little."""
        at = 0
        while at < len(self.tiles):
            job: list[list[int]] = []
            size = 0
            left = self.total - self.done
            most = min(SECONDS / self._per_pair, left / (4 * max(self.workers(), 1))) if self._per_pair else 1
            while at < len(self.tiles) and (not job or size + len(self.tiles[at]) <= min(most, 512)):
                own = [int(k) for k in self.tiles[at]]
                size += len(own)
                at += 1
                if kept := [k for k in own if not self._cannot(k)]:
                    job.append(kept)
            if job:
                yield _Job(job)

    def _cannot(self, k: int) -> bool:
        """Whether a picture of the pair cannot be read; then that is told here, once."""
        for i in map(int, self.pairs[k]):
            if i in self.bad:
                error, _, message = self.bad[i].partition(": ")
                text = f"{self.names[i]}: {message}"
                self._set_aside(PairFailure(k, self._key(k), error, text, "", "", True))
                return True
        return False

    def _submit_tile(self, executor: Executor, job: _Job) -> Future[Any]:
        used = sorted({int(i) for own in job.tiles for k in own for i in self.pairs[k]})
        place = {i: n for n, i in enumerate(used)}

        def item(k: int) -> Item:
            i, j = map(int, self.pairs[k])
            return Item(k, place[i], place[j], self.depth(i, j))

        return executor.submit(
            task.tile,
            TileJob(
                self.setup, self.rule, tuple(self.pictures[i] for i in used),
                tuple(tuple(item(k) for k in own) for own in job.tiles), self.whole, self.retry_failed,
            ),
        )  # fmt: skip

    def _tile_done(self, job: _Job, report: TileReport) -> None:
        for k, matches, verdict in report.done:
            self.matches[k], self.verdicts[k] = matches, verdict
        self.done += len(report.done)
        self.computed += report.computed
        self.encoded += report.encoded
        self.decoded += report.decoded
        if report.computed:
            self._per_pair = report.seconds / report.computed
        who = f"{report.host} {report.pid}"
        _log.info("%s: %d pairs, %d computed, %.1f s", who, len(report.done), report.computed, report.seconds)
        for failure in report.failures:
            self._attempts[failure.number] += 1
            if failure.final or self._attempts[failure.number] > self.retries:
                self._set_aside(failure)
            else:
                self._waiting.append(_Job([[failure.number]]))
        self._say("pairs", self.done, self.total, self.computed)

    def _tile_died(self, job: _Job, error: BaseException) -> None:
        job.deaths += 1
        numbers = [k for own in job.tiles for k in own]
        # Dask has tried more than once before it gives a task up; then the pairs are tried singly.
        given_up = type(error).__name__ == "KilledWorker"
        if job.deaths < DEATHS and not (given_up and len(numbers) > 1):
            (self._suspects if job.suspect else self._waiting).append(job)
        elif len(numbers) > 1:
            _log.warning("%d pairs took %s with them; each is tried alone", len(numbers), error)
            self._suspects.extend(_Job([[k]], True) for k in numbers)
        else:
            self._set_aside(
                PairFailure(
                    numbers[0], self._key(numbers[0]), "WorkerDied", str(error), "", "", True, job.deaths
                )
            )

    def _key(self, k: int) -> str:
        i, j = map(int, self.pairs[k])
        return self.rule.pair_key(self.pictures[i].sha256, self.pictures[j].sha256)

    def _set_aside(self, failure: PairFailure) -> None:
        """Write a pair's failure down, for the next run and for who looks."""
        k = failure.number
        one, two = map(int, self.pairs[k])
        attempts = max(failure.attempts, self._attempts[k]) if failure.attempts else 0
        names = (self.names[one], self.names[two])
        self.failures.append(Failure(names, failure.error, failure.message, failure.host, attempts))
        if attempts and self.pictures[one].sha256 and self.pictures[two].sha256:
            value = {
                "pair": names, "error": failure.error, "message": failure.message,
                "traceback": failure.traceback, "host": failure.host, "attempts": attempts,
            }  # fmt: skip
            self.store.write_json("failed", failure.key, value)

    # ---- the loop --------------------------------------------------------

    def _loop(
        self,
        jobs: Iterator[_Job],
        submit: Callable[[Executor, _Job], Future[Any]],
        finished: Callable[[_Job, Any], None],
        died: Callable[[_Job, BaseException], None],
    ) -> None:
        """Keep every worker busy and little more waiting, so that stopping is soon."""
        executor = self.executor or _Here()
        alone = time.monotonic()  # when there was a worker last, or that was said
        running: dict[Future[Any], _Job] = {}
        with self._interrupts(running):
            while True:
                count = max(self.workers(), 1)
                if self.workers():
                    alone = time.monotonic()
                elif time.monotonic() - alone > ALONE:
                    _log.warning("no worker for %.0f s; waiting for one (Ctrl-C stops)", ALONE)
                    alone = time.monotonic()
                while not self._stop and len(running) < (count + (count + 1) // 2 if self.executor else 1):
                    job = self._next(jobs, running)
                    if job is None:
                        break
                    running[submit(executor, job)] = job
                if not running:
                    break
                for future in wait(running, timeout=1, return_when=FIRST_COMPLETED).done:
                    self._settle(running.pop(future), future, finished, died)
                self._tick()
        if self._stop:
            raise Interrupted("interrupted; what is done is in the store, and the same call goes on")

    def _next(self, jobs: Iterator[_Job], running: dict[Future[Any], _Job]) -> _Job | None:
        if self._waiting:
            return self._waiting.popleft()
        job = next(jobs, None)
        if job is None and self._suspects and not any(other.suspect for other in running.values()):
            return self._suspects.popleft()
        return job

    def _settle(
        self,
        job: _Job,
        future: Future[Any],
        finished: Callable[[_Job, Any], None],
        died: Callable[[_Job, BaseException], None],
    ) -> None:
        try:
            report = future.result()
        except (SetupError, StoreError):
            raise
        except CancelledError as error:
            if self._stop:  # by the first Ctrl-C, before it began
                return
            raise SetupError("the cluster gave up a job: it was closed, or its scheduler is gone") from error
        except Exception as error:
            if type(error).__name__ in ("WorkerDied", "KilledWorker"):
                died(job, error)
                return
            job.attempts += 1
            if job.attempts > self.retries:
                raise
            _log.warning("a job failed and is tried again: %s: %s", type(error).__name__, error)
            self._waiting.append(job)
            return
        finished(job, report)

    @contextmanager
    def _interrupts(self, running: dict[Future[Any], _Job]) -> Iterator[None]:
        """The first Ctrl-C stops giving out jobs, the second ends at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(number: int, frame: Any) -> None:
            if self._stop:
                raise KeyboardInterrupt
            self._stop = True
            for future in list(running):
                future.cancel()
            _log.warning("stopping after the jobs in progress; Ctrl-C again stops now")

        before = signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _say(self, stage: str, done: int, total: int, computed: int) -> None:
        """Tell how far it is; the loop says it again while jobs are long."""
        self._where = (stage, done, total, computed)
        self._tick()

    def _tick(self) -> None:
        stage, done, total, computed = self._where
        now = time.monotonic()
        if now - self._said < 0.1 and done < total:
            return
        self._said = now
        seconds = round(now - self._started, 3)
        rate = computed / seconds if seconds > 0 else 0.0
        left = (total - done - len(self.failures)) / rate if rate > 0 else None
        failed, workers = len(self.failures), self.workers()
        self.tell(
            Progress(
                stage, done, total, failed, self.computed, self.encoded, workers, seconds, rate, left
            )  # fmt: skip
        )
