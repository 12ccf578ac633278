# SPDX-License-Identifier: Apache-2.0
"""A folder that a command fills, beside whatever else lies in it.

What is ours is what a run of the same product wrote and nobody changed since, by the list in
``report.json`` (see :mod:`.manifest`). Nothing else is ever replaced or removed.

A run writes below ``stage``, a folder of its own in the folder. :meth:`OutFolder.commit` gives the
files their names, each after a line in the journal, so that a run that is killed at any moment leaves
files that the next one knows. :meth:`OutFolder.finish` removes what an earlier run wrote and this one
did not, and writes the list last. A run that ends before that changes nothing.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import FileError, Mast3rError, quoted
from . import manifest
from .lock import FolderLock
from .manifest import JOURNAL, REPORT, Entry, Line, Section, State
from .single import not_an_input
from .whole import replacing

__all__ = ["OutFolder"]

_STAGE = re.compile(r"\.mast3r-[0-9a-f]{16}\.new")
_log = logging.getLogger("mast3r_runtime")


class OutFolder:
    """A folder for the files of one product: ``with OutFolder(folder, "pair", "infer") as out``.

    ``section`` names the product: verbs that make the same one share it, and take each other's place.
    The folder is held from ``with`` on (see :class:`.FolderLock`), made where there is none, and
    removed again where nothing came into it.

    Raises BusyError where another run holds it, FileError where it is no folder, cannot be written, or
    has a ``report.json`` that is none of ours or was edited.
    """

    def __init__(
        self, folder: str | os.PathLike[str], section: str, verb: str = "", *, wait: bool = False
    ) -> None:
        self.given = Path(folder)
        self.path = Path(os.path.realpath(folder))
        self.section, self.verb, self.wait = section, verb or section, wait
        self.report: dict[str, Any] = {}
        self.stage = self.path / f".mast3r-{secrets.token_hex(8)}.new"
        self._sections: dict[str, Section] = {}
        self._named: dict[str, Entry] = {}  # files of this run that have their names
        self._kept: set[str] = set()
        self._copies: dict[str, tuple[str, str]] = {}  # what is staged as a copy: path and hash of what
        self.originals: set[str] = set()  # hashes of files that this run knows to be there
        self._made: list[Path] = []
        self._lock: FolderLock | None = None
        self._journal = -1

    def __enter__(self) -> OutFolder:
        try:
            with _typed(self.path):
                self._make()
                self._lock = FolderLock(self.path, self.verb, self.wait)
                self._recover()
                self.stage.mkdir()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def earlier(self) -> Section:
        """What earlier runs of this product left here."""
        return self._sections.get(self.section) or Section()

    def written(self) -> list[str]:
        """The files of this run that have their names."""
        return [*self._named, REPORT]

    def ours(self, name: str) -> bool:
        """Whether a file of this product lies there as it was written."""
        return self._state(name, *self._entries(name)) == State.OURS

    def claim(self, names: Iterable[str], inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
        """Refuse, before the work, names at which something lies that is not ours, or is an input.

        Raises FileError with some of the names and their number, ArgumentError for an input.
        """
        names, inputs = list(dict.fromkeys(names)), list(inputs)
        with _typed(self.path):
            for name in names if inputs else ():
                not_an_input(self.path / name, inputs)
            foreign = [name for name in names if not self._free(name)]
        if foreign:
            raise FileError(_refusal(self.path, foreign))

    def keep(self, name: str) -> None:
        """Let a file of an earlier run stay: this run would write the same."""
        self._kept.add(name)

    def put(self, name: str, data: bytes, source: Path | None = None, of: str = "") -> None:
        """Stage a file; of a copy, with the file of which it is one, and that file's hash.

        A copy whose original is gone may be all that the user has: it is no longer ours.
        """
        target = self.stage / name
        if source is not None:
            self._copies[name] = (os.path.abspath(source), of)
        with _typed(self.path):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    def link(self, name: str, source: Path) -> bool:
        """Stage a link to a file, relative, past links on the way; False where the system makes none."""
        target = self.stage / name
        final = os.path.realpath((self.path / name).parent)
        with _typed(self.path):
            target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.symlink_to(os.path.relpath(os.path.realpath(source), final))
        except (OSError, ValueError):  # Windows without the right to, or another drive
            return False
        return True

    def commit(self) -> None:
        """Give the files below ``stage`` their names; all, or on an error of what is there, none."""
        with _typed(self.path):
            files = {path.relative_to(self.stage).as_posix(): path for path in _files(self.stage)}
            self.claim(files)
            entries = {name: self._entry(name, path) for name, path in files.items()}
            for name, path in files.items():
                self._parents(name)
                self._write_line(Line(self.section, name, entries[name]))
                self._move(name, path)
                self._named[name] = entries[name]

    def finish(
        self,
        report: Mapping[str, Any] | None = None,
        *,
        key: str = "",
        made_from: Mapping[str, str] | None = None,
        add: bool = False,
    ) -> list[str]:
        """Name what is staged, remove what only earlier runs of this product wrote, write the list.

        Parameters
        ----------
        report : mapping, optional
            What ``report.json`` says; that of before when left out.
        key : str
            What the product is, as a hash.
        made_from : mapping, optional
            SHA-256 of inputs by path. Products of other commands that were made from other bytes of the
            same files are marked stale, and so are those made from a file that this run replaced.
        add : bool
            Leave what earlier runs wrote: these files are of the same product.

        Returns
        -------
        list of str
            Files of earlier runs that were changed since, and therefore stay.
        """
        self.commit()
        with _typed(self.path):
            old = self.earlier()
            files = dict(old.files) if add else {n: e for n, e in old.files.items() if n in self._kept}
            files |= self._named
            left = [name for name in old.files if name not in files and not self._remove(name)]
            section = Section(files, self._swept(old.folders), dict(made_from or old.made_from), key)
            self._sections[self.section] = section
            self._mark_stale(section, old)
            with replacing(self.path / REPORT) as temporary:
                temporary.write_text(
                    manifest.sealed(self.report if report is None else report, self._sections),
                    encoding="utf-8",
                )
            self._close_journal()
        if left:
            _log.warning(
                "folder %s: %d files of an earlier run were changed since and stay: %s",
                quoted(self.path), len(left), _some(left),
            )  # fmt: skip
        return left

    # ---- what is there ------------------------------------------------------------------

    def _entries(self, name: str) -> list[Entry]:
        return [s[name] for s in (self._named, self.earlier().files) if name in s][:1]

    def _entry(self, name: str, path: Path) -> Entry:
        source, of = self._copies.get(name, ("", ""))
        return replace(_known(path), source=source, of=of)

    def _free(self, name: str) -> bool:
        return self._state(name, *self._entries(name)) in (State.ABSENT, State.OURS)

    def _state(self, name: str, *entries: Entry) -> str:
        found = manifest.state(self.path, name, *entries)
        if found == State.OURS and not all(self._has_original(entry) for entry in entries):
            return State.OTHER
        return found

    def _has_original(self, entry: Entry) -> bool:
        """Whether a copy is one: the file of which it was made is there."""
        if not entry.source or entry.of in self.originals:
            return True
        original = manifest.entry_of(Path(entry.source)) if os.path.isfile(entry.source) else None
        return original is not None and original.sha256 == entry.of

    def _make(self) -> None:
        """Make the folder and those above it, and remember which."""
        missing = []
        at = self.path
        while not os.path.lexists(at):
            missing.append(at)
            at = at.parent
        for folder in reversed(missing):
            with suppress(FileExistsError):  # another run made it just now
                folder.mkdir()
                self._made.append(folder)
        if not self.path.is_dir():
            raise FileError(f"folder {quoted(self.path)}: it is a file, want a folder")

    def _recover(self) -> None:
        """Read the list; take up the journal of a run that was ended, and remove what it staged."""
        if os.path.lexists(self.path / REPORT):
            found = manifest.read(self.path)
            if found is None:
                raise FileError(_refusal(self.path, [REPORT]))
            self.report, self._sections = found
        for line in self._old_lines():
            section = self._sections.setdefault(line.section, Section())
            if line.entry is None:
                section.folders += [line.name] if line.name not in section.folders else []
            elif manifest.state(self.path, line.name, line.entry) == State.OURS:
                section.files[line.name] = line.entry
        for left in self.path.iterdir():
            if _STAGE.fullmatch(left.name) and stat.S_ISDIR(left.lstat().st_mode):
                shutil.rmtree(left)

    def _old_lines(self) -> list[Line]:
        path = self.path / JOURNAL
        if not os.path.lexists(path):
            return []
        facts = path.lstat()
        lines = None
        if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1:
            lines = manifest.journal(path.read_bytes())
        if lines is None:
            raise FileError(_refusal(self.path, [JOURNAL]))
        return lines

    # ---- what is done -------------------------------------------------------------------

    def _write_line(self, line: Line) -> None:
        path = self.path / JOURNAL
        if self._journal < 0:
            with replacing(path) as temporary:  # without a torn last line, which would swallow the next
                temporary.write_text("".join(old.text() for old in self._old_lines()), encoding="utf-8")
            self._journal = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0))
        os.write(self._journal, line.text().encode())

    def _close_journal(self) -> None:
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1
        (self.path / JOURNAL).unlink(missing_ok=True)

    def _parents(self, name: str) -> None:
        parts = name.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            folder = "/".join(parts[:count])
            if not os.path.lexists(self.path / folder):
                self._write_line(Line(self.section, folder, None))
                (self.path / folder).mkdir()
                self._sections.setdefault(self.section, Section()).folders.append(folder)

    def _move(self, name: str, staged: Path) -> None:
        target = self.path / name
        if os.path.lexists(target):
            staged.replace(target)
        elif not _move_new(staged, target):
            raise FileError(_refusal(self.path, [name]))

    def _remove(self, name: str) -> bool:
        """Remove a file of an earlier run; False where something else lies there now."""
        found = self._state(name, self.earlier().files[name])
        if found == State.OURS:
            (self.path / name).unlink()
        return found in (State.OURS, State.ABSENT)

    def _swept(self, folders: list[str]) -> list[str]:
        """Remove the folders that runs made and that are empty now; those that stay."""
        stay = []
        for name in sorted(dict.fromkeys(folders), key=lambda n: n.count("/"), reverse=True):
            try:
                if manifest.state(self.path, f"{name}/x") != State.OUTSIDE:
                    (self.path / name).rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                stay.append(name)
        return sorted(stay)

    def _mark_stale(self, new: Section, old: Section) -> None:
        changed = {
            str(self.path / name): (new.files[name].sha256 if name in new.files else "")
            for name in {*old.files, *new.files}
            if old.files.get(name) != new.files.get(name)
        }
        for name, section in self._sections.items():
            if name != self.section:
                now = {**new.made_from, **changed}
                section.stale |= any(now.get(at, known) != known for at, known in section.made_from.items())

    def _leave(self) -> None:
        """Let go of the folder; what was not finished leaves nothing behind."""
        with suppress(OSError):
            if stat.S_ISDIR(self.stage.lstat().st_mode):
                shutil.rmtree(self.stage)
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        for folder in reversed(self._made):
            with suppress(OSError):
                folder.rmdir()
        self._made.clear()


def _files(folder: Path) -> Iterator[Path]:
    """The files and links below a folder, in order; links to folders are links."""
    for path in sorted(folder.iterdir()):
        if stat.S_ISDIR(path.lstat().st_mode):
            yield from _files(path)
        else:
            yield path


def _known(path: Path) -> Entry:
    entry = manifest.entry_of(path)
    if entry is None:
        raise FileError(f"{path}: it cannot be read again after writing")
    return entry


def _move_new(staged: Path, target: Path) -> bool:
    """Give a file a name that nothing has; False where something has it after all."""
    if os.name == "nt":
        try:
            staged.rename(target)  # replaces nothing there
        except FileExistsError:
            return False
        return True
    try:
        os.link(staged, target, follow_symlinks=False)
    except FileExistsError:
        return False
    except (OSError, NotImplementedError):  # no hard links here: the moment between is very short
        if os.path.lexists(target):
            return False
        staged.rename(target)
        return True
    staged.unlink()
    return True


@contextmanager
def _typed(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, Mast3rError):
            raise
        raise FileError(f"folder {quoted(folder)}: {error.strerror or error}") from error


def _refusal(folder: Path, names: list[str]) -> str:
    return (
        f"folder {quoted(folder)}: at {len(names)} of the names that this command writes lies what it did "
        "not write, what was changed since, a copy whose original is gone, or a link in place of a folder: "
        f"{_some(names)}; nothing was changed. Move them away, or choose another folder"
    )


def _some(names: list[str]) -> str:
    return ", ".join(map(quoted, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
