# SPDX-License-Identifier: Apache-2.0
"""Many small files as one: a zip, not compressed, whose members have the names the files would have.

For file systems on which a hundred thousand small files are slow, such as Lustre. A zip's own
directory is the index; it is read once.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

from .._files import zips
from . import kinds
from .places import Place

__all__ = ["COMMENT", "DAMAGED", "FOLDER", "Packs", "packed", "whole"]

FOLDER = "packs"
# The members are zips themselves (npz), so the end of a pack that was cut is a whole zip: that of its
# last member. The comment tells them apart, and a pack from the user's own archive.
COMMENT = b"mast3r-runtime pack"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same members make the same bytes, whenever they are packed
DAMAGED = (
    OSError, zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, RuntimeError,
    NotImplementedError, struct.error,
)  # fmt: skip


def packed(files: dict[str, bytes]) -> bytes:
    """Files by name as a zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), files[name])
        archive.comment = COMMENT
    return out.getvalue()


def whole(data: bytes) -> bool:
    """Whether every member of a pack can be read, and holds what its name says."""
    try:
        with zips.opened(io.BytesIO(data), COMMENT) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
            return all(kinds.whole(n, data) for n, data in members.items() if kinds.own(n))
    except DAMAGED:
        return False


class Packs:
    """The packs of a place, and which member lies in which."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._read: set[str] = set()
        self._of: dict[str, str] = {}

    def refresh(self) -> None:
        """Read the directories of packs that are new."""
        for entry in self._place.list(FOLDER):
            if entry.name not in self._read and kinds.own(entry.name):
                self._read.add(entry.name)
                for member in self.members(entry.name):
                    self._of[member] = entry.name

    def members(self, pack: str) -> list[str]:
        """The names in a pack; none where it is damaged, or no pack."""
        try:
            with self._place.open(pack) as file, zips.opened(file, COMMENT) as archive:
                return archive.namelist()
        except DAMAGED:
            return []

    def is_one(self, name: str) -> bool:
        """Whether a file with a pack's name has a pack's end, damaged or not."""
        with self._place.open(name) as file:
            file.seek(0, io.SEEK_END)
            file.seek(max(file.tell() - len(COMMENT), 0))
            return file.read() == COMMENT

    def has(self, name: str) -> bool:
        return name in self._of

    def read(self, name: str) -> bytes | None:
        """The bytes of a member, None where there is none or the pack is damaged."""
        pack = self._of.get(name)
        if pack is None:
            return None
        try:
            with self._place.open(pack) as file, zips.opened(file, COMMENT) as archive:
                return archive.read(name)
        except DAMAGED:
            return None

    def names(self, folder: str) -> list[str]:
        """The members below a folder."""
        return [name for name in self._of if name.startswith(f"{folder}/")]
