# SPDX-License-Identifier: Apache-2.0
"""The list of what runs wrote into a folder: ``report.json``, and the journal of a run that is not done.

``report.json`` holds what a command reports, and under ``written`` one section a product::

    {section: {"made_by": text, "key": text, "folders": [name],
               "files": {name: {"bytes": n, "sha256": hex} or {"link": text}},  # of a copy, "source" and "of"
               "from": {path: sha256}, "stale": bool}}

Names are relative and have ``/``. ``sha256`` beside ``written`` is that of everything else in the
file: a report that was edited is no list of ours. Whoever reads it takes it for hostile: a name that
leads out of the folder, or through a link, is never followed; a file counts as ours only while it has
the bytes that are listed. A list that is broken lists nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._library.version import __version__

__all__ = [
    "JOURNAL", "REPORT", "Entry", "Line", "Section", "State", "entry_of", "journal", "parse", "read",
    "sealed", "state",
]  # fmt: skip

REPORT = "report.json"
JOURNAL = ".mast3r-journal"
_HEX = re.compile(r"[0-9a-f]{64}")
_BEGIN = b'{"section": "'  # of a line of the journal
_WORD = re.compile(r"[a-z]{1,20}")


@dataclass(frozen=True)
class Entry:
    """What a file was when it was written: its size and hash, or the text of a link.

    ``source`` is the path of the user's file of which it is a copy, and ``of`` that file's hash.
    """

    bytes: int = 0
    sha256: str = ""
    link: str | None = None
    source: str = field(default="", compare=False)
    of: str = field(default="", compare=False)

    def record(self) -> dict[str, object]:
        if self.link is not None:
            return {"link": self.link}
        copy = {"source": self.source, "of": self.of} if self.source else {}
        return {"bytes": self.bytes, "sha256": self.sha256, **copy}


@dataclass
class Section:
    """What runs of one product wrote."""

    files: dict[str, Entry] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    made_from: dict[str, str] = field(default_factory=dict)
    key: str = ""
    stale: bool = False

    def record(self) -> dict[str, object]:
        return {
            "made_by": f"mast3r-runtime {__version__}",
            "key": self.key,
            "folders": self.folders,
            "files": {name: entry.record() for name, entry in sorted(self.files.items())},
            "from": self.made_from,
            "stale": self.stale,
        }


class State:
    """What lies at a listed name."""

    ABSENT = "absent"
    OURS = "ours"
    OTHER = "other"  # there, and not what was listed
    OUTSIDE = "outside"  # a parent is no folder of this folder


def sealed(report: Mapping[str, Any], sections: Mapping[str, Section]) -> str:
    """The text of ``report.json``."""
    values = {k: v for k, v in report.items() if k not in ("written", "sha256")}
    values["written"] = {name: section.record() for name, section in sections.items()}
    values = json.loads(json.dumps(values))  # as it will be read: tuples are lists, keys are texts
    return json.dumps({**values, "sha256": _seal(values)}, indent=1) + "\n"


def _seal(values: Mapping[str, Any]) -> str:
    rest = {k: v for k, v in values.items() if k != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Section]] | None:
    """The report of a folder and its sections; None where there is none, or none of ours."""
    path = folder / REPORT
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        return parse(path.read_bytes())
    except OSError:
        return None


def parse(text: bytes) -> tuple[dict[str, Any], dict[str, Section]] | None:
    """The report and its sections, of a text; None where it is no whole report of ours."""
    try:
        values = json.loads(text)
        if not isinstance(values, dict) or values.get("sha256") != _seal(values):
            return None
        sections = {name: _section(name, rows) for name, rows in values["written"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return {k: v for k, v in values.items() if k not in ("written", "sha256")}, sections


def _section(name: str, rows: Mapping[str, Any]) -> Section:
    if not _WORD.fullmatch(name):
        raise ValueError(f"section {name!r}")
    files = {_name(file): _entry(row) for file, row in rows["files"].items()}
    folders = [_name(part) for part in rows["folders"]]
    made_from = {str(path): str(digest) for path, digest in rows["from"].items()}
    return Section(files, folders, made_from, str(rows["key"]), rows["stale"] is True)


def _name(text: object) -> str:
    """A relative name, or ValueError. No name of ours has a backslash: Windows would see folders."""
    if not isinstance(text, str) or len(text) > 4096 or "\0" in text or "\\" in text:
        raise ValueError(f"name {text!r}")
    parts = text.split("/")
    if any(part in ("", ".", "..") for part in parts) or re.match(r"[A-Za-z]:", text):
        raise ValueError(f"name {text!r}")
    if parts[-1] in (REPORT, JOURNAL):
        raise ValueError(f"name {text!r}")
    return text


def _entry(row: Mapping[str, Any]) -> Entry:
    if set(row) == {"link"} and isinstance(row["link"], str):
        return Entry(link=row["link"])
    size, digest = row["bytes"], row["sha256"]
    if type(size) is not int or size < 0 or not isinstance(digest, str) or not _HEX.fullmatch(digest):
        raise ValueError(f"entry {row!r:.200}")
    return Entry(size, digest, None, str(row.get("source", "")), str(row.get("of", "")))


@dataclass(frozen=True)
class Line:
    """A line of the journal: a file that is about to get its name, or (no entry) a folder that is made."""

    section: str
    name: str
    entry: Entry | None

    def text(self) -> str:
        entry = None if self.entry is None else self.entry.record()
        return json.dumps({"section": self.section, "name": self.name, "entry": entry}) + "\n"


def journal(text: bytes) -> list[Line] | None:
    """The lines of a journal, of which the last may be torn; None where it is none of ours."""
    rows = text.split(b"\n")
    out = []
    for number, row in enumerate(rows):
        try:
            values = json.loads(row)
            if not _WORD.fullmatch(values["section"]):
                return None
            entry = None if values["entry"] is None else _entry(values["entry"])
            out.append(Line(values["section"], _name(values["name"]), entry))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            if number < len(rows) - 1 or not _BEGIN.startswith(row[: len(_BEGIN)]):
                return None
    return out


def state(folder: Path, name: str, *entries: Entry) -> str:
    """What lies at ``name`` below ``folder``: see :class:`State`. Links are never followed."""
    at = folder
    for part in name.split("/")[:-1]:
        at = at / part
        try:
            facts = at.lstat()
        except FileNotFoundError:
            return State.ABSENT
        except OSError:
            return State.OUTSIDE
        # A junction of Windows is a folder to lstat, and leads elsewhere.
        if not stat.S_ISDIR(facts.st_mode) or bool(getattr(facts, "st_reparse_tag", False)):
            return State.OUTSIDE
    path = folder / name
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return State.ABSENT
    except OSError:
        return State.OTHER
    for entry in entries:
        if entry.link is None and stat.S_ISREG(facts.st_mode) and facts.st_size == entry.bytes:
            # A file that was made read-only is meant to stay.
            if facts.st_mode & 0o222 and entry_of(path) == entry:
                return State.OURS
        elif entry.link is not None and stat.S_ISLNK(facts.st_mode) and os.readlink(path) == entry.link:
            return State.OURS
    return State.OTHER


def entry_of(path: Path) -> Entry | None:
    """The entry of a file or link as it is now; None where it cannot be read."""
    try:
        if path.is_symlink():
            return Entry(link=os.readlink(path))
        digest, size = hashlib.sha256(), 0
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
                size += len(piece)
        return Entry(size, digest.hexdigest())
    except OSError:
        return None
