# SPDX-License-Identifier: Apache-2.0
"""Which pictures there are in folders and files, for every command and call that takes them."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from .._files.single import ours
from ..errors import ArgumentError, ImageNotFoundError, checked, quoted, shown
from .formats import kind, suffixes
from .outputs import Outputs

__all__ = ["Found", "Sources", "find", "list_images", "natural", "sentence"]

_log = logging.getLogger("mast3r_runtime")

Sources = Union[str, "os.PathLike[str]", Sequence["str | os.PathLike[str]"]]

_OTHERS = ("__MACOSX", "@eaDir")  # what systems put beside pictures: copies, thumbnails
REASONS = 12  # on one line
DEEP = 2000  # entries that are looked at for a hint


@dataclass(frozen=True, eq=False)
class Found(Mapping[str, Path]):
    """Pictures by name, in order.

    ``left_out`` are names of files that are pictures or videos and cannot be read now, and what to
    do with each. ``deeper`` counts the folders that hold pictures and were not gone into, ``ours``
    the pictures that are no input because a command wrote them.
    """

    pictures: Mapping[str, Path]
    left_out: Mapping[str, str] = field(default_factory=dict)
    deeper: int = 0
    ours: int = 0

    def __getitem__(self, name: str) -> Path:
        return self.pictures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.pictures)

    def __len__(self) -> int:
        return len(self.pictures)

    def need(self, least: int, where: object) -> None:
        """Raise ImageNotFoundError, with what was left out, where there are fewer pictures."""
        if len(self) < least:
            count = len(self) or "no"
            raise ImageNotFoundError(f"{where}: {count} pictures, want at least {least}{self.why()}")

    def why(self) -> str:
        """What else is there, as the end of an error text."""
        text = f"; {sentence(self.left_out)}" if self.left_out else ""
        if self.deeper:
            text += f"; {self.deeper} folders in it hold pictures: -r of reconstruct and views takes them in"
        if self.ours:
            text += f"; {self.ours} pictures there were written by a command here"
        return text


def sentence(left_out: Mapping[str, str]) -> str:
    """One line for people; each advice once."""
    by_advice: dict[str, list[str]] = {}
    for name, advice in left_out.items():
        # of videos, what differs is the name in the command
        by_advice.setdefault(re.sub(r"-i ('.*?'|\S+)", "-i VIDEO", advice), []).append(name)
    parts = [
        f"{', '.join(map(shown, names[:3]))}{', ...' if len(names) > 3 else ''}: "
        + (left_out[names[0]] if len(names) == 1 else advice)
        for advice, names in by_advice.items()
    ]
    more = f"; and {len(parts) - REASONS} more reasons" if len(parts) > REASONS else ""
    return f"{len(left_out)} files left out ({'; '.join(parts[:REASONS])}{more})"


def natural(name: str) -> list[int | str]:
    """The sort key of natural order: frame_2 before frame_10."""
    parts = re.split("([0-9]+)", name)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)]


def find(sources: Sources, recursive: bool = False, out: Path | None = None) -> Found:
    """The pictures of folders and files, in natural order within each folder.

    What a command wrote is no picture of the user's: it is left out where it lies in ``out``, or
    below a folder that is gone into. Of a scene's own ``images/``, given by name, the links count as
    the pictures that they lead to, and copies are taken where no original lies beside them.

    A name is the path below the folder it was found in, or the file's own; where two would be
    the same, the path below the folder that holds all pictures. It never leaves a folder by "..".
    A file that two sources name is there once. Links to folders are not followed.

    Raises ImageNotFoundError for a source that is not there or cannot be read.
    """
    listing = _Listing(recursive, out)
    for source in [sources] if isinstance(sources, (str, os.PathLike)) else sources:
        listing.add(Path(source))
    found = listing.without_links_to_found()
    once = {Path(os.path.abspath(path)): (name, path) for name, path in reversed(found)}
    seen = Counter(name for name, _ in once.values())
    top = _common(list(once)) if len(seen) < len(once) else Path()
    pictures = {
        (name if seen[name] == 1 else full.relative_to(top).as_posix()): path
        for full, (name, path) in reversed(once.items())
    }
    return Found(pictures, listing.left_out, listing.deeper, listing.ours)


class _Listing:
    """Sources one after the other."""

    def __init__(self, recursive: bool, out: Path | None) -> None:
        self.recursive = recursive
        self.out = None if out is None else os.path.realpath(out)
        self.outputs = Outputs()
        self.found: list[tuple[str, Path]] = []
        self.links: set[int] = set()  # which of found are links of ours, followed
        self.ours = 0
        self.left_out: dict[str, str] = {}
        self.deeper = 0

    def add(self, source: Path) -> None:
        try:
            folder = os.path.isdir(source)
            if not folder:
                os.stat(source)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            missing = isinstance(error, FileNotFoundError)
            text = "no such file or folder" if missing else f"cannot be read: {reason}"
            raise ImageNotFoundError(f"picture {quoted(source)}: {text}") from error
        if not folder:
            self.file(source.name, source, source, named=True)
            return
        before = len(self.found)
        try:
            paths = list(self.inside(source, source))
        except OSError as error:
            raise ImageNotFoundError(f"folder {quoted(source)}: {error.strerror or error}") from error
        for path in sorted(paths, key=lambda p: (natural(p.as_posix()), p.name)):
            self.file(path.relative_to(source).as_posix(), path, source)
        if not self.recursive and len(self.found) - before < 2:
            self.deeper += _deeper(source)

    def inside(self, folder: Path, top: Path) -> Iterator[Path]:
        """The files of a folder, and of those within where they are wanted."""
        with os.scandir(folder) as entries:
            for entry in entries:
                path = folder / entry.name
                if entry.name.startswith("."):
                    continue
                if not os.path.isdir(path):  # of a link that goes round too
                    yield path
                elif not self.recursive and path.suffix.lower() in suffixes():
                    self.left_out[path.relative_to(top).as_posix()] = "a folder, want a file"
                elif self.recursive and entry.name not in _OTHERS:
                    name = path.relative_to(top).as_posix()
                    if entry.is_symlink():
                        self.left_out[name] = "a link to a folder, not followed: give the folder itself"
                        continue
                    try:
                        yield from self.inside(path, top)
                    except OSError as error:
                        self.left_out[name] = f"cannot be read: {error.strerror or error}"

    def file(self, name: str, path: Path, source: Path, named: bool = False) -> None:
        """One file; ``named`` ones are pictures unless they are known not to be."""
        what = kind(path)
        if what.name == "picture" or (named and what.name == "other"):
            self.picture(name, path, source, named)
        elif what.name != "other":
            self.left_out[name if name not in self.left_out else path.as_posix()] = what.advice

    def picture(self, name: str, path: Path, source: Path, named: bool = False) -> None:
        """One picture, unless a command wrote it."""
        output = self.outputs.of(path)
        # a drawing that a command wrote under a name of the user's is in no list
        drawn = output is None and not named and path.suffix.lower() == ".png" and ours(path)
        if output is None and not drawn:
            self.found.append((name, path))
            return
        if output is not None and output.link:
            self.links.add(len(self.found))
            self.found.append((name, path.resolve()))
            return
        inside = output is not None and output.folder in Path(os.path.abspath(source)).parents
        own = output is not None and self.out == os.path.realpath(output.folder)
        if inside and not own and not _original_beside(path):
            self.found.append((name, path))
        else:
            self.ours += 1

    def without_links_to_found(self) -> list[tuple[str, Path]]:
        """What was found; a link of ours to a picture that was found itself is that one."""
        if not self.links:
            return self.found
        real = {os.path.realpath(path) for k, (_, path) in enumerate(self.found) if k not in self.links}
        out = []
        for k, (name, path) in enumerate(self.found):
            if k in self.links:
                if os.path.realpath(path) in real:
                    continue
                real.add(os.path.realpath(path))
            out.append((name, path))
        return out


def _original_beside(copy: Path) -> bool:
    """Whether the picture of which an upright copy, NAME.upright.jpg, was made lies beside it."""
    stem = copy.stem.removesuffix(".upright")
    if stem == copy.stem:
        return False
    with os.scandir(copy.parent) as entries:
        return any(os.path.splitext(e.name)[0] == stem and e.name != copy.name for e in entries)


def _deeper(folder: Path) -> int:
    """How many folders in a folder hold pictures; of a large tree only the first are looked at."""
    holding, looked, known = set(), 0, suffixes()
    for place, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".")]
        below = Path(place).relative_to(folder).parts
        if below and any(os.path.splitext(file)[1].lower() in known for file in files):
            holding.add(below[0])
        looked += len(files) + len(folders)
        if looked > DEEP:
            break
    return len(holding)


def _common(paths: Sequence[Path]) -> Path:
    """The folder that all are below; on Windows it may be that of one drive only."""
    top = paths[0].parent
    while not all(path.is_relative_to(top) for path in paths):
        if top == top.parent:
            raise ArgumentError(f"pictures of one name on two drives: {paths[0]} and others; give folders")
        top = top.parent
    return top


@checked
def list_images(folder: str | os.PathLike[str]) -> list[Path]:
    """The pictures of a folder in natural order: frame_2 before frame_10.

    Every file whose suffix is that of a format that :func:`read_image` reads; the log says which
    pictures and videos are left out, and why.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ImageNotFoundError(f"folder {quoted(folder)}: no such folder")
    found = find(folder)
    if found.left_out:
        _log.warning("folder %s: %s", quoted(folder), sentence(found.left_out))
    found.need(2, f"folder {quoted(folder)}")
    return list(found.values())
