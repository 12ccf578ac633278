# SPDX-License-Identifier: Apache-2.0
"""Which files of a folder are what a command wrote there: those are no pictures of the user's."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from .._files import manifest

__all__ = ["Output", "Outputs"]

UPWARDS = 8  # folders above a file that may be the one that was written into


@dataclass(frozen=True)
class Output:
    """A file that a command wrote: the folder that it filled, and whether the file is a link."""

    folder: Path
    link: bool


class Outputs:
    """What ``report.json`` and journals of folders list; each is read once."""

    def __init__(self) -> None:
        self._lists: dict[Path, dict[str, list[manifest.Entry]]] = {}

    def of(self, path: Path) -> Output | None:
        """What a file is; None for one that no list names, or that has other bytes than were listed.

        A list that is broken lists nothing.
        """
        full = Path(os.path.abspath(path))
        for folder in full.parents[:UPWARDS]:
            name = full.relative_to(folder).as_posix()
            entries = self._listed(folder).get(name, ())
            if entries and manifest.state(folder, name, *entries) == manifest.State.OURS:
                return Output(folder, full.is_symlink())
        return None

    def _listed(self, folder: Path) -> dict[str, list[manifest.Entry]]:
        if folder not in self._lists:
            out: dict[str, list[manifest.Entry]] = {}
            report = manifest.read(folder)
            for section in report[1].values() if report else ():
                for name, entry in section.files.items():
                    out.setdefault(name, []).append(entry)
            for line in _journal(folder / manifest.JOURNAL):
                if line.entry is not None:
                    out.setdefault(line.name, []).append(line.entry)
            self._lists[folder] = out
        return self._lists[folder]


def _journal(path: Path) -> list[manifest.Line]:
    """What a run that was ended had written."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return []
        return manifest.journal(path.read_bytes()) or []
    except OSError:
        return []
