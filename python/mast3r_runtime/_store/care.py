# SPDX-License-Identifier: Apache-2.0
"""What keeps a store in order: damaged files out, sizes, what no run needs."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import checked
from . import safetensors
from .packs import Packs, opened
from .places import Entry
from .store import Store

__all__ = ["Checked", "check", "collect", "failures", "sizes"]

# The description of the store, runs, and what is no result of a run are never collected.
_COLLECTED = ("features", "pairs", "depth", "results", "retrieval", "index", "packs", "failed", "pictures")


@dataclass(frozen=True)
class Checked:
    """How many files were read, the names of the damaged, how many half-written were removed."""

    files: int
    damaged: tuple[str, ...]
    leftovers: int


@checked
def check(store: Store) -> Checked:
    """Read every file, remove what does not parse, and what killed processes left half-written."""
    leftovers = store.place.sweep()
    damaged, count = [], 0
    for entry in list(store.place.list("")):
        count += 1
        if not _whole(store, entry):
            store.place.remove(entry.name)
            damaged.append(entry.name)
    return Checked(count, tuple(damaged), leftovers)


def _whole(store: Store, entry: Entry) -> bool:
    try:
        with store.place.open(entry.name) as file:
            data = file.read()
        return _parses(entry.name, data)
    except FileNotFoundError:  # removed meanwhile
        return True


def _parses(name: str, data: bytes) -> bool:
    try:
        if name.endswith(".json"):
            json.loads(data)
        elif name.endswith(".safetensors"):
            safetensors.unpack(data)
        elif name.endswith(".npz"):
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                return all(archive[part] is not None for part in archive.files)
        elif name.endswith(".zip"):
            with opened(io.BytesIO(data)) as archive:
                return all(_parses(member, archive.read(member)) for member in archive.namelist())
    except Exception:  # damaged bytes end in any error of zip, json and numpy
        return False
    return True


@checked
def sizes(store: Store) -> dict[str, tuple[int, int]]:
    """Files and bytes of each kind."""
    out: dict[str, tuple[int, int]] = {}
    for entry in store.place.list(""):
        kind = entry.name.partition("/")[0]
        files, total = out.get(kind, (0, 0))
        out[kind] = files + 1, total + entry.bytes
    return dict(sorted(out.items()))


def collect(store: Store, wanted: Collection[str], dry: bool = False) -> dict[str, tuple[int, int]]:
    """Remove the files that are not among the names ``wanted``; files and bytes by kind.

    A pack stays where one of its members is wanted. With ``dry`` nothing is removed.
    """
    packs = Packs(store.place)
    gone: dict[str, tuple[int, int]] = {}
    for kind in _COLLECTED:
        for entry in list(store.place.list(kind)):
            members = packs.members(entry.name) if kind == "packs" else [entry.name]
            if any(member in wanted for member in members):
                continue
            if not dry:
                store.place.remove(entry.name)
            files, total = gone.get(kind, (0, 0))
            gone[kind] = files + 1, total + entry.bytes
    return gone


@checked
def failures(store: Store) -> Iterator[dict[str, Any]]:
    """What was set aside: pair, error, host, attempts."""
    for key in store.keys("failed", ".json"):
        value = store.read_json("failed", key)
        if isinstance(value, dict):
            yield {"key": key, **value}
