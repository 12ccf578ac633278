# SPDX-License-Identifier: Apache-2.0
"""What a run asked for, as the store keeps it: enough to say what is done and what is needed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._engine.engine import Engine
from .._store.store import Store, key_of, name_of
from ..errors import ArgumentError
from .plan import I32, depth_pairs, rows
from .rule import Rule
from .task import Picture, picture_hash

__all__ = ["Run", "Status", "features_in", "needed", "read_run", "readable", "runs", "status", "write_run"]


@dataclass(frozen=True)
class Run:
    """Pictures by name, path and hash (empty where no worker has read it), and pairs of them."""

    key: str
    names: list[str]
    pictures: list[Picture]
    pairs: I32
    rule: Rule
    only: str

    def hashed(self) -> list[Picture]:
        """The pictures with their hashes; those that no worker has read are read here."""
        return [p if p.sha256 else Picture(p.path, picture_hash(p.path)) for p in self.pictures]


def run_key(names: Sequence[str], pictures: Sequence[Picture], pairs: I32, rule: Rule, only: str) -> str:
    """The same call has the same key."""
    paths = [picture.path for picture in pictures]
    digest = hashlib.sha256(pairs.astype("<i4").tobytes()).hexdigest()  # as JSON they would fill memory
    return key_of(list(names), paths, digest, rule.record(), only)[:12]


def write_run(
    store: Store, names: Sequence[str], pictures: Sequence[Picture], pairs: I32, rule: Rule, only: str
) -> str:
    """Write down what is asked for; its key. What earlier writers knew of hashes stays."""
    key = run_key(names, pictures, pairs, rule, only)
    before = store.read_json("runs", key) or {}
    known = {path: sha for path, sha in zip(before.get("paths", ()), before.get("sha256", ()), strict=False)}
    value = {
        "only": only, "rule": rule.record(),
        "names": list(names), "paths": [p.path for p in pictures],
        "sha256": [p.sha256 or known.get(p.path, "") for p in pictures], "pairs": pairs.ravel().tolist(),
    }  # fmt: skip
    if value != before:
        store.write_json("runs", key, value)
    return key


def read_run(store: Store, key: str) -> Run:
    """A run by its key, or the start of it."""
    found = [k for k in store.keys("runs", ".json") if k.startswith(key)]
    if len(found) != 1:
        raise ArgumentError(f"run {key!r}: {len(found)} of that name; there are {', '.join(runs(store))}")
    value: Any = store.read_json("runs", found[0])
    if value is None:
        raise ArgumentError(f"run {found[0]!r}: its record is damaged; mast3r store --check removes it")
    pictures = [Picture(path, sha) for path, sha in zip(value["paths"], value["sha256"], strict=True)]
    pairs = np.array(value["pairs"], np.int32).reshape(-1, 2)
    try:
        rule = Rule.from_record(value["rule"])
    except ArgumentError as error:
        raise ArgumentError(f"run {found[0]!r}: its record is damaged: {error}") from error
    return Run(found[0], value["names"], pictures, pairs, rule, value["only"])


def runs(store: Store) -> list[str]:
    """The keys of all runs."""
    return list(store.keys("runs", ".json"))


def readable(store: Store) -> dict[str, Run | ArgumentError]:
    """Every run by its key, or what is wrong with its record."""
    out: dict[str, Run | ArgumentError] = {}
    for key in runs(store):
        try:
            out[key] = read_run(store, key)
        except ArgumentError as error:
            out[key] = error
    return out


def needed(run: Run) -> set[str]:
    """The names of every file that a run needs or made."""
    pictures, rule = run.hashed(), run.rule
    near = depth_pairs(list(rows(run.pairs))) if run.only != "matches" else {}
    out = {name_of("runs", run.key, ".json")}
    for picture in pictures:
        out.add(name_of("features", rule.feature_key(picture.sha256), ".safetensors"))
        out.add(name_of("pictures", picture.sha256, ".json"))
    for i, j in rows(run.pairs):
        one, two = pictures[i].sha256, pictures[j].sha256
        key = rule.pair_key(one, two)
        out.update({name_of("pairs", key), name_of("failed", key, ".json"), name_of("results", key)})
        if near and (i, j) in near[i]:
            out.add(name_of("depth", rule.depth_key(one, two)))
        if near and (i, j) in near[j]:
            out.add(name_of("depth", rule.depth_key(two, one)))
    return out


def features_in(store: Store, engine: Engine) -> str:
    """The type of the features that runs of this model left in a store; float32 where none did."""
    for run in readable(store).values():
        if not isinstance(run, Run) or run.rule.features != "float16":
            continue
        if run.rule == Rule.of(engine, run.rule.stride, "float16", bool(run.rule.isa)):
            return "float16"
    return "float32"


@dataclass(frozen=True)
class Status:
    """How far a run is, by what lies in the store. ``rate`` is of the last minutes, in a second."""

    run: str
    pairs: int
    done: int
    failed: int
    pictures: int
    encoded: int
    rate: float
    seconds_left: float | None

    @property
    def left(self) -> int:
        return self.pairs - self.done - self.failed


def status(store: Store, run: Run) -> Status:
    """Count what is there. Only reads; another host's last files may not be seen yet."""
    pictures, rule = run.hashed(), run.rule
    times = {e.name.rpartition("/")[2][:-4]: e.modified for e in store.place.list("pairs")}
    packed = set(store.keys("pairs"))
    failed = set(store.keys("failed", ".json"))
    features = set(store.keys("features", ".safetensors"))
    keys = {rule.pair_key(pictures[i].sha256, pictures[j].sha256) for i, j in rows(run.pairs)}
    done = keys & packed
    recent = sorted(times[key] for key in done if key in times)[-500:]
    rate = _rate(recent)
    left = len(keys) - len(done) - len(failed & keys - done)
    return Status(
        run.key, len(keys), len(done), len(failed & keys - done), len(pictures),
        sum(rule.feature_key(p.sha256) in features for p in pictures), rate, left / rate if rate else None,
    )  # fmt: skip


def _rate(times: list[float]) -> float:
    span = times[-1] - times[0] if len(times) > 1 else 0.0
    return (len(times) - 1) / span if span > 0 else 0.0
