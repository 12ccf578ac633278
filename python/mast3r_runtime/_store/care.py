# SPDX-License-Identifier: Apache-2.0
"""What keeps a store in order: damaged files out, sizes, what no run needs.

Only files with a name of the store's own form are read or removed; see :mod:`.kinds`. What else
lies in the folder is the user's: it is reported, and stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import checked
from . import kinds, packs
from .places import Entry
from .store import Store

__all__ = ["Checked", "Collected", "check", "collect", "failures", "foreign", "sizes"]


@dataclass(frozen=True)
class Checked:
    """What :func:`check` found, by name.

    ``files`` were read; ``damaged`` and ``leftovers`` (half-written) were removed, unless it was
    a dry run; ``unreadable`` could not be read, so nothing is known of them; ``foreign`` are not
    the store's: they were not read.
    """

    files: int
    damaged: tuple[str, ...]
    leftovers: tuple[str, ...]
    unreadable: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True)
class Collected:
    """What :func:`collect` removed, or would: names and bytes."""

    files: tuple[Entry, ...]

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Files and bytes of each kind."""
        return _by_kind(self.files)


def _by_kind(entries: Collection[Entry]) -> dict[str, tuple[int, int]]:
    out: dict[str, tuple[int, int]] = {}
    for entry in entries:
        kind = entry.name.partition("/")[0]
        files, total = out.get(kind, (0, 0))
        out[kind] = files + 1, total + entry.bytes
    return dict(sorted(out.items()))


def _sorted_out(store: Store) -> tuple[list[Entry], list[Entry]]:
    """The files of the store, and those that are somebody else's."""
    held = packs.Packs(store.place)
    own: list[Entry] = []
    others: list[Entry] = []
    for entry in store.place.list(""):
        named = entry.name == kinds.DESCRIPTION or kinds.own(entry.name) is not None
        mine = named and not entry.link
        if mine and entry.name.startswith(f"{packs.FOLDER}/"):
            try:
                mine = held.is_one(entry.name)
            except OSError:  # gone meanwhile, or it cannot be read: then it is not touched
                mine = False
        (own if mine else others).append(entry)
    return own, others


@checked
def foreign(store: Store) -> list[str]:
    """The names of what lies in the store's folder and is not the store's."""
    return [entry.name for entry in _sorted_out(store)[1]]


@checked
def check(store: Store, dry: bool = False) -> Checked:
    """Read every file of the store; remove what is damaged, and what killed processes left half-written.

    A file is damaged where it does not hold what files of its kind do. With ``dry`` nothing is
    removed.
    """
    leftovers = tuple(store.place.leftovers())
    own, others = _sorted_out(store)
    damaged, unreadable = [], []
    for entry in own:
        try:
            if not _whole(store, entry.name):
                damaged.append(entry.name)
        except FileNotFoundError:  # removed meanwhile
            continue
        except (OSError, MemoryError):
            unreadable.append(entry.name)
    if not dry:
        for name in (*leftovers, *damaged):
            store.place.remove(name)
    names = tuple(entry.name for entry in others)
    return Checked(len(own), tuple(damaged), leftovers, tuple(unreadable), names)


def _whole(store: Store, name: str) -> bool:
    with store.place.open(name) as file:
        data = file.read()
    if name.startswith(f"{packs.FOLDER}/"):
        return packs.whole(data)
    return name == kinds.DESCRIPTION or kinds.whole(name, data)


@checked
def sizes(store: Store) -> dict[str, tuple[int, int]]:
    """Files and bytes of each kind, of the store's own files."""
    return _by_kind(_sorted_out(store)[0])


def collect(store: Store, wanted: Collection[str], dry: bool = False) -> Collected:
    """Remove the files of the store that are not among the names ``wanted``.

    A pack stays where one of its members is wanted, or where it is damaged. With ``dry`` nothing
    is removed. Descriptions of runs, and what is no result of a run, stay.
    """
    held = packs.Packs(store.place)
    gone = []
    for entry in _sorted_out(store)[0]:
        found = kinds.own(entry.name)
        if found is None or not kinds.KINDS[found[0]].gc:
            continue
        members = held.members(entry.name) if found[0] == packs.FOLDER else [entry.name]
        if not members or any(member in wanted for member in members):
            continue
        if not dry:
            store.place.remove(entry.name)
        gone.append(entry)
    return Collected(tuple(gone))


@checked
def failures(store: Store) -> Iterator[dict[str, Any]]:
    """What was set aside: pair, error, host, attempts. Damaged records are left out."""
    for key in store.keys("failed", ".json"):
        value = store.read_json("failed", key)
        if value is not None:
            yield {"key": key, **value}
