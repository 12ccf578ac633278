# SPDX-License-Identifier: Apache-2.0
"""Many small files as one: a zip, not compressed, whose members have the names the files would have.

For file systems on which a hundred thousand small files are slow, such as Lustre. A zip's own
directory is the index; it is read once.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import IO

from .places import Place

__all__ = ["FOLDER", "Packs", "opened", "packed"]

FOLDER = "packs"
COMMENT = b"mast3r-runtime pack"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same members make the same bytes, whenever they are packed
DAMAGED = (OSError, zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, RuntimeError)


def packed(files: dict[str, bytes]) -> bytes:
    """Files by name as a zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), files[name])
        archive.comment = COMMENT
    return out.getvalue()


def opened(file: IO[bytes]) -> zipfile.ZipFile:
    """A pack; BadZipFile where it is none.

    The members are zips themselves (npz), so the end of a pack that was cut is a whole zip: that
    of its last member. The comment tells them apart.
    """
    archive = zipfile.ZipFile(file)
    if archive.comment != COMMENT:
        raise zipfile.BadZipFile("no pack")
    return archive


class Packs:
    """The packs of a place, and which member lies in which."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._read: set[str] = set()
        self._of: dict[str, str] = {}

    def refresh(self) -> None:
        """Read the directories of packs that are new."""
        for entry in self._place.list(FOLDER):
            if entry.name not in self._read:
                self._read.add(entry.name)
                for member in self.members(entry.name):
                    self._of[member] = entry.name

    def members(self, pack: str) -> list[str]:
        """The names in a pack; none where it is damaged."""
        try:
            with self._place.open(pack) as file, opened(file) as archive:
                return archive.namelist()
        except DAMAGED:
            return []

    def has(self, name: str) -> bool:
        return name in self._of

    def read(self, name: str) -> bytes | None:
        """The bytes of a member, None where there is none or the pack is damaged."""
        pack = self._of.get(name)
        if pack is None:
            return None
        try:
            with self._place.open(pack) as file, opened(file) as archive:
                return archive.read(name)
        except DAMAGED:
            return None

    def names(self, folder: str) -> list[str]:
        """The members below a folder."""
        return [name for name in self._of if name.startswith(f"{folder}/")]
