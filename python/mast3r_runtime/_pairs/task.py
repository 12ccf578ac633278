# SPDX-License-Identifier: Apache-2.0
"""What is sent to a worker, and what it does: functions of this module with small frozen arguments.

A job holds texts and numbers, below 100 kB; arrays travel through the store. A process has one
engine, made at its first job that needs one. A job that was half done by a worker that died is
done again by another, which finds in the store what is there.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from .._engine.engine import Engine
from .._library.version import __version__
from .._store.store import Store, file_hash
from ..errors import ArgumentError, ImageError, ImageNotFoundError, Mast3rError, StoreError, without_secrets
from .machine import cores
from .rule import Rule
from .worker import Outcome, PairWorker

__all__ = [
    "EncodeJob", "EncodeReport", "Item", "PairFailure", "Picture", "Probe", "Setup", "SetupError",
    "TileJob", "TileReport", "encode", "probe", "tile",
]  # fmt: skip


class SetupError(Mast3rError):
    """A worker cannot do the work at all, or would do another: the message names the host."""


@dataclass(frozen=True)
class Setup:
    """How a worker opens the store and the engine. Paths mean the same on every machine."""

    store: str = field(repr=False)  # a URL may hold a password
    model: str | None = None
    variant: str = "auto"
    backend: str = "auto"
    precision: str = "auto"
    resolution: int = 0
    threads: int = 0  # 0: this process's share of the cores
    neighbours: int = 1  # worker processes on a machine
    fsync: bool = False
    pack: bool = False

    def engine(self) -> Engine:
        """An engine with the model loaded."""
        threads = self.threads or max(1, cores() // self.neighbours)
        engine = Engine(self.variant, self.resolution, self.precision, threads, self.backend)
        engine.load(self.model)
        return engine


@dataclass(frozen=True)
class Picture:
    """A picture file, by the SHA-256 of its bytes where that is known."""

    path: str
    sha256: str = ""


@dataclass(frozen=True)
class Probe:
    """What a worker is."""

    host: str
    pid: int
    version: str
    rule: Rule
    backend: str


@dataclass(frozen=True)
class EncodeJob:
    """Pictures by number: hash them, and put their features into the store where they are not."""

    setup: Setup
    rule: Rule
    pictures: tuple[tuple[int, Picture], ...]


@dataclass(frozen=True)
class EncodeReport:
    """For each picture its number, its SHA-256, and what is wrong with it, or an empty text."""

    pictures: tuple[tuple[int, str, str], ...]
    encoded: int
    host: str


@dataclass(frozen=True)
class Item:
    """A pair by its number in the run: two of a job's pictures; whose depth is kept."""

    number: int
    one: int
    two: int
    depth: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class TileJob:
    """Tiles of pairs."""

    setup: Setup
    rule: Rule
    pictures: tuple[Picture, ...]
    tiles: tuple[tuple[Item, ...], ...]
    whole: bool = False
    retry_failed: bool = False

    @property
    def items(self) -> Iterator[Item]:
        for own in self.tiles:
            yield from own


@dataclass(frozen=True)
class PairFailure:
    """Why a pair has no result. ``final`` where another try would end the same."""

    number: int
    key: str
    error: str
    message: str
    traceback: str
    host: str
    final: bool
    attempts: int = 1


@dataclass(frozen=True)
class TileReport:
    """For each pair that is done its number, matches and verdict; what was computed; what failed."""

    done: tuple[tuple[int, int, int], ...]
    failures: tuple[PairFailure, ...]
    computed: int
    encoded: int
    decoded: int
    seconds: float
    host: str
    pid: int


_lock = threading.Lock()
_engines: dict[Setup, Engine] = {}
_workers: dict[tuple[Setup, Rule], PairWorker] = {}


def _engine(setup: Setup) -> Engine:
    """The engine of this process; another setup replaces it."""
    if setup not in _engines:
        for old in _engines.values():
            old.close()
        _engines.clear()
        try:
            _engines[setup] = setup.engine()
        except Exception as error:
            raise SetupError(f"{socket.gethostname()}: {type(error).__name__}: {error}") from error
    return _engines[setup]


def _worker(setup: Setup, rule: Rule) -> PairWorker:
    if (setup, rule) not in _workers:
        if rule.version != __version__:
            raise SetupError(f"{socket.gethostname()}: version {__version__}, the run is of {rule.version}")
        _workers.clear()

        def opened() -> Engine:
            engine = _engine(setup)
            own = Rule.of(engine, rule.stride, rule.features, bool(rule.isa))
            if own != rule:
                differ = [n for n in rule.__dataclass_fields__ if getattr(own, n) != getattr(rule, n)]
                texts = [f"{n} {getattr(own, n)!r}, the run has {getattr(rule, n)!r}" for n in differ]
                raise SetupError(f"{socket.gethostname()}: {'; '.join(texts)}")
            return engine

        _workers[setup, rule] = PairWorker(opened, Store(setup.store, fsync=setup.fsync), rule)
    return _workers[setup, rule]


def probe(setup: Setup, stride: int, features: str, strict: bool, path: str) -> Probe:
    """What this worker is: it opens the store, reads a picture, loads the model."""
    host = socket.gethostname()
    with _lock:
        try:
            Store(setup.store)
            if not os.path.exists(path):
                raise ImageNotFoundError(f"{path}: not there; pictures need the same paths on all machines")
            engine = _engine(setup)
            rule = Rule.of(engine, stride, features, strict)
        except (SetupError, StoreError):
            raise
        except Exception as error:
            raise SetupError(f"{host}: {type(error).__name__}: {error}") from error
        return Probe(host, os.getpid(), __version__, rule, str(engine.info()["backend"]))


def encode(job: EncodeJob) -> EncodeReport:
    """Stage 1: hash and encode pictures. Not needed for stage 2, which encodes what is missing."""
    with _lock:
        worker = _worker(job.setup, job.rule)
        before = worker.encoded
        out = []
        for number, picture in job.pictures:
            sha = picture.sha256
            why = ""
            try:
                sha = sha or file_hash(picture.path)
                known = replace(picture, sha256=sha)
                if not worker.has_features(known):
                    worker.features(known)
                    _describe(worker, known)
            except (ImageError, OSError) as error:
                if isinstance(error, StoreError):
                    raise
                why = f"{type(error).__name__}: {error}"
            out.append((number, sha, why))
        return EncodeReport(tuple(out), worker.encoded - before, socket.gethostname())


def _describe(worker: PairWorker, picture: Picture) -> None:
    """For people: which picture a hash is. The last name that was seen stays."""
    pixels = worker.picture(picture)
    value = {
        "sha256": picture.sha256, "bytes": os.path.getsize(picture.path), "path": picture.path,
        "height": pixels.shape[0], "width": pixels.shape[1],
    }  # fmt: skip
    worker.store.write_json("pictures", picture.sha256, value)


def tile(job: TileJob) -> TileReport:
    """Stage 2: pairs. What is in the store is not computed; what fails is told, and the rest goes on."""
    with _lock:
        started = time.monotonic()
        worker = _worker(job.setup, job.rule)
        worker.store.refresh()
        encoded, decoded = worker.encoded, worker.decoded
        done: list[tuple[int, int, int]] = []
        failures: list[PairFailure] = []
        computed = 0
        for own in job.tiles:
            with worker.store.packing() if job.setup.pack else nullcontext():
                for item in own:
                    one, two = job.pictures[item.one], job.pictures[item.two]
                    key = job.rule.pair_key(one.sha256, two.sha256)
                    try:
                        found = worker.outcome(one, two, item.depth, job.whole)
                        if found is None:
                            if (before := _set_aside(worker.store, key, item, job.retry_failed)) is not None:
                                failures.append(before)
                                continue
                            arrays = worker.pair(one, two, *item.depth, job.whole)
                            found = Outcome(int(arrays["matches"]), int(arrays["verdict"]))
                            computed += 1
                        done.append((item.number, *found))
                    except (SetupError, StoreError):
                        raise
                    except Exception as error:
                        failures.append(_failure(item.number, key, error))
        seconds = time.monotonic() - started
        encoded, decoded = worker.encoded - encoded, worker.decoded - decoded
        who = socket.gethostname(), os.getpid()
        return TileReport(tuple(done), tuple(failures), computed, encoded, decoded, seconds, *who)


def _set_aside(store: Store, key: str, item: Item, again: bool) -> PairFailure | None:
    """The failure of an earlier run; with ``again`` it is forgotten and the pair tried."""
    if not store.exists("failed", key, ".json"):
        return None
    if again:
        store.remove("failed", key, ".json")
        return None
    value = store.read_json("failed", key)
    if value is None:  # damaged, or gone meanwhile: the pair is tried
        return None
    return PairFailure(item.number, key, value["error"], value["message"], "", value["host"], True, 0)


def _failure(number: int, key: str, error: Exception) -> PairFailure:
    # Bytes that are no picture stay none; a disk or a device may be back the next time.
    final = isinstance(error, (ImageError, ArgumentError)) or not isinstance(
        error, (Mast3rError, OSError, MemoryError)
    )
    text = without_secrets("".join(traceback.format_exception(error)))[-4000:]
    said = without_secrets(str(error))
    return PairFailure(number, key, type(error).__name__, said, text, socket.gethostname(), final)


def picture_hash(path: str) -> str:
    """The SHA-256 of a picture, empty where it cannot be read."""
    try:
        return file_hash(Path(path))
    except (OSError, ValueError):  # ValueError: no path at all
        return ""
