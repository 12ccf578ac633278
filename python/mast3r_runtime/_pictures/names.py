# SPDX-License-Identifier: Apache-2.0
"""Which picture a name in somebody's file means.

Files of cameras, poses, pairs and masks are made by other programs, on other machines, of other
folders. A name there means a picture where its file name is the picture's and no folder contradicts.
In this order, the first that fits decides:

* the same name; the same but for capital letters;
* the picture's name with something behind it: ``a.jpg.png``, ``a.HEIC.jpg``;
* the picture's name without its suffix;
* the same name with another suffix, or that of an upright copy: ``a.png``, ``a.upright.jpg``.

Of several that fit equally well, the one decides with which more of the picture's own folders agree;
where that leaves two, it is an error that names both.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import ArgumentError, quoted
from .formats import known_suffixes

__all__ = ["MASKS", "Names"]

COPY = (".upright",)  # behind the name of a picture's copy
MASKS = (*COPY, ".mask", "_mask", "-mask")  # behind the name of a picture's mask
EXACT = 1  # the last level at which the whole file name is the same


class _Fit(NamedTuple):
    """How well a name fits, smaller is better: the level, and how many folders do not agree."""

    level: int
    folders: int


class _Parts(NamedTuple):
    folders: tuple[str, ...]
    chain: tuple[str, ...]  # the file name, and what is left of it as suffixes are taken away


def _parts(name: str, markers: Sequence[str]) -> _Parts:
    text = unicodedata.normalize("NFC", name.replace("\\", "/"))
    pieces = [piece for piece in text.split("/") if piece not in ("", ".")] or [""]
    chain = [pieces[-1]]
    while shorter := _shorter(chain[-1], markers):
        chain.append(shorter)
    return _Parts(tuple(pieces[:-1]), tuple(chain))


def _shorter(name: str, markers: Sequence[str]) -> str:
    """A file name without its last suffix or marker; empty where there is none."""
    low = name.lower()
    for marker in markers:
        if low.endswith(marker) and len(name) > len(marker):
            return name[: -len(marker)]
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in known_suffixes() and stem else ""


class Names:
    """The pictures of a collection, and how others call them.

    ``pictures`` are names, or names and paths: the folders of a path tell apart what has one name.
    ``markers`` are what stands behind a name besides suffixes.
    """

    def __init__(
        self,
        pictures: Mapping[str, str | os.PathLike[str]] | Collection[str],
        markers: Sequence[str] = COPY,
    ) -> None:
        self.markers = markers
        self._all = list(pictures)
        self._known = set(self._all)
        self._parts = {name: _parts(name, markers) for name in self._all}
        paths = pictures if isinstance(pictures, Mapping) else dict.fromkeys(pictures, "")
        self._homes = {
            name: Path(os.path.abspath(path)).parts[:-1] if path else self._parts[name].folders
            for name, path in paths.items()
        }
        self._by_stem: dict[str, list[str]] = {}
        for name, parts in self._parts.items():
            self._by_stem.setdefault(parts.chain[-1].casefold(), []).append(name)

    def candidates(self, key: str, exact: bool = False) -> list[str]:
        """The pictures that a name means, best ones alone: one, none, or several that fit as well."""
        if key in self._known:
            return [key]
        fits = [(fit, name) for name, fit in self._fits(key) if not exact or fit.level <= EXACT]
        best = min((fit for fit, _ in fits), default=None)
        return [name for fit, name in fits if fit == best]

    def find(self, key: str) -> str | None:
        """The one picture that a name means, or None. ArgumentError where it may be two."""
        found = self.candidates(key)
        if len(found) > 1:
            raise ArgumentError(_may_be(key, *found[:2]))
        return found[0] if found else None

    def match(self, keys: Iterable[str], what: str) -> dict[str, str]:
        """For each picture that is meant by one of the keys, that key.

        ``what`` begins the error texts: none of the keys means a picture, or one picture is meant
        by two, or two pictures by one.
        """
        keys = list(dict.fromkeys(keys))
        fits: list[tuple[_Fit, str, str]] = []
        for key in keys:
            fits += [(fit, name, key) for name, fit in self._fits(key)]
        out: dict[str, str] = {}
        taken: dict[str, tuple[_Fit, str]] = {}  # by key
        given: dict[str, _Fit] = {}  # by picture
        for fit, name, key in sorted(fits, key=lambda row: row[0]):
            if (key in taken and taken[key][0] < fit) or (name in given and given[name] < fit):
                continue
            if name in given:
                raise ArgumentError(f"{what}: {_may_be(name, out[name], key)}")
            if key in taken:
                raise ArgumentError(f"{what}: {_may_be(key, taken[key][1], name)}")
            out[name], given[name], taken[key] = key, fit, (fit, name)
        if not out:
            raise ArgumentError(f"{what}: {self._none(keys)}")
        return {name: out[name] for name in self._all if name in out}

    def _fits(self, key: str) -> list[tuple[str, _Fit]]:
        if key in self._known:
            return [(key, _Fit(-1, 0))]
        parts = _parts(key, self.markers)
        near = self._by_stem.get(parts.chain[-1].casefold(), ())
        return [(name, fit) for name in near if (fit := self._fit(name, parts)) is not None]

    def _fit(self, name: str, key: _Parts) -> _Fit | None:
        own = self._parts[name]
        folders = list(zip(reversed(own.folders), reversed(key.folders)))
        if any(a.casefold() != b.casefold() for a, b in folders):
            return None
        agree = 0
        for a, b in zip(reversed(self._homes[name]), reversed(key.folders)):
            if a.casefold() != b.casefold():
                break
            agree += 1
        return _Fit(_level(own.chain, key.chain), -agree)

    def _none(self, keys: Sequence[str]) -> str:
        if not keys:
            return "it names no pictures"
        return (
            f"none of its {len(keys)} names, such as {_two(keys)}, "
            f"is one of these {len(self._all)} pictures, such as {_two(self._all)}"
        )


def _level(name: Sequence[str], key: Sequence[str]) -> int:
    if name[0] == key[0]:
        return 0
    low_name, low_key = ([part.casefold() for part in chain] for chain in (name, key))
    if low_name[0] == low_key[0]:
        return EXACT
    if low_name[0] in low_key:
        return 2
    return 3 if low_key[0] in low_name else 4


def _may_be(what: str, one: str, two: str) -> str:
    return f"{quoted(what)} may be {quoted(one)} or {quoted(two)}: want more of the path"


def _two(names: Sequence[str]) -> str:
    return " and ".join(map(quoted, names[:2]))
