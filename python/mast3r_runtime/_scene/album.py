# SPDX-License-Identifier: Apache-2.0
"""The pictures of a scene as other programs read them: what lies in ``images/``, and under which name.

A camera is that of the picture as it is seen. Programs that train on a scene read the pixels as they
are stored: they ignore EXIF's orientation and know few formats. So a picture that all of them see as
we do is a link (or a copy); any other is an upright copy, which the model names. A picture that lies
at its place already stays untouched.
"""

from __future__ import annotations

import filecmp
import io
import itertools
import logging
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._files.folder import OutFolder
from .._files.single import MARK
from .._files.whole import short_name
from .._pictures.reading import Source, fetch, opened, pixels
from .._store.store import hashes
from ..errors import ImageError
from .location import clean_exif, without_location

__all__ = ["Album", "plan"]

FOLDER = "images"
_PLAIN = {"JPEG": "JPEG", "MPO": "JPEG", "PNG": "PNG", "BMP": "BMP"}  # and what their suffix stands for
_LOSSY = ("JPEG", "MPO", "HEIF", "AVIF", "WEBP", "JPEG2000")
_log = logging.getLogger("mast3r_runtime")


@dataclass(frozen=True)
class _Shown:
    """How a picture is shown: the source, its name below ``images/``, and what is to be done.

    ``how`` is "stays" (it lies there), "link" (or a copy of its bytes), or "upright": a copy whose
    suffix says its format.
    """

    path: Path
    file: str
    how: str


@dataclass(frozen=True)
class Album:
    """What goes into ``images/``, by the pictures' names."""

    shown: Mapping[str, _Shown]

    def file(self, name: str) -> str:
        """The name below ``images/`` of a picture; its own where it has no file."""
        return self.shown[name].file if name in self.shown else name

    def targets(self, names: Sequence[str] | None = None) -> list[str]:
        """Names below the scene's folder that are written, for these pictures or all."""
        chosen = self.shown if names is None else [name for name in names if name in self.shown]
        return [f"{FOLDER}/{self.shown[n].file}" for n in chosen if self.shown[n].how != "stays"]

    def write(
        self, out: OutFolder, names: list[str], copy: bool = False, keep_gps: bool = False
    ) -> list[str]:
        """Stage the pictures of these names; the names of those whose file is gone or unreadable."""
        lost = []
        for name in names:
            shown = self.shown.get(name)
            if shown is None:
                lost.append(name)
            elif shown.how == "stays":
                out.keep(f"{FOLDER}/{shown.file}")
            else:
                file = f"{FOLDER}/{shown.file}"
                try:
                    if shown.how == "upright":
                        source = fetch(shown.path)
                        data = _upright(source, Path(file).suffix, keep_gps)
                        out.put(file, data, shown.path, source.sha256)
                    elif copy or not (shown.path.is_file() and out.link(file, shown.path)):
                        source = fetch(os.path.realpath(shown.path))
                        data = source.data if keep_gps else without_location(source.data)
                        out.put(file, data, Path(os.path.realpath(shown.path)), source.sha256)
                except (ImageError, FileNotFoundError) as error:
                    _log.warning("%s/%s: left out: %s", FOLDER, shown.file, error)
                    lost.append(name)
        return lost


def plan(listed: Mapping[str, Path], out: OutFolder) -> Album:
    """Decide how each picture is shown in the folder. Files that cannot be opened are left out."""
    folder = out.path / FOLDER
    out.originals |= set(hashes(listed.values()).values())
    taken = _Taken()
    shown: dict[str, _Shown] = {}
    rest: list[tuple[str, Path, str]] = []
    for name, path in listed.items():
        try:
            copy = _copy_suffix(path)
        except (ImageError, OSError):
            continue
        own = _below(path, folder)
        if copy:
            rest.append((name, path, copy))
            if own is not None:
                taken.add(own)
            continue
        file = own or taken.free([_safe(name)])
        taken.add(file)
        shown[name] = _Shown(path, file, "stays" if _stays(out, path, file) else "link")
    for name, path, suffix in rest:  # behind the others, whose names are their own
        own = _below(path, folder) or (_safe(name) if _same(path, folder / _safe(name)) else None)
        file = taken.free(_copy_names(own, _safe(name), suffix))
        taken.add(file)
        stays = out.ours(f"{FOLDER}/{file}") and _same(path, folder / file)
        shown[name] = _Shown(path, file, "stays" if stays else "upright")
    return Album({name: shown[name] for name in listed if name in shown})


def _stays(out: OutFolder, path: Path, file: str) -> bool:
    """Whether the picture lies at its place: as the user's own file, link or copy, or as a copy of ours."""
    target = out.path / FOLDER / file
    if out.ours(f"{FOLDER}/{file}"):
        return _same(path, target) and not target.is_symlink()
    try:
        return _same(path, target) or filecmp.cmp(path, target, shallow=False)
    except OSError:
        return False


def _same(path: Path, target: Path) -> bool:
    try:
        return os.path.samefile(path, target)
    except OSError:
        return False


def _below(path: Path, folder: Path) -> str | None:
    """The name below ``folder`` of a file that lies there, through real folders; None for others."""
    real = os.path.join(os.path.realpath(path.parent), path.name)
    try:
        inside = os.path.relpath(real, folder)
    except ValueError:  # another drive
        return None
    name = inside.replace(os.sep, "/")
    return None if name.startswith("../") or os.path.isabs(inside) or "\\" in name else name


def _copy_names(own: str | None, name: str, suffix: str) -> list[str]:
    """Names for an upright copy, the first that is free is taken."""
    if own is not None:
        return [f"{_stem(own)}.upright{suffix}"]
    return [f"{_stem(name)}{suffix}", f"{name}{suffix}", f"{_stem(name)}.upright{suffix}"]


def _stem(name: str) -> str:
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{os.path.splitext(last)[0]}"


def _safe(name: str) -> str:
    """A relative name without what leads out of a folder on any system."""
    parts = [re.sub(r"[\\\0:]", "_", part) for part in name.split("/")]
    return "/".join("_" if part in ("", ".", "..") else part for part in parts)


class _Taken:
    """Names that are given, also where large and small letters are the same."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def add(self, name: str) -> None:
        key = _key(name)
        self._files.add(key)
        self._folders.update(_above(key))

    def free(self, names: list[str]) -> str:
        """The first name that is free, or one with a number."""
        names = [_fitting(name) for name in names]
        head, dot, suffix = names[0].rpartition(".")
        numbered = (f"{head}-{n}{dot}{suffix}" for n in itertools.count(2))
        return next(n for n in itertools.chain(names, numbered) if self._is_free(_key(n)))

    def _is_free(self, key: str) -> bool:
        return not (key in self._files or key in self._folders or self._files.intersection(_above(key)))


def _above(key: str) -> list[str]:
    parts = key.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


def _fitting(name: str) -> str:
    """The name, with a last part that a folder can hold."""
    head, slash, last = name.rpartition("/")
    if len(os.fsencode(last)) <= 255:
        return name
    stem, suffix = os.path.splitext(last)
    return f"{head}{slash}{short_name(stem, suffix)}"


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _copy_suffix(path: Path) -> str:
    """The suffix of the upright copy that a picture needs; empty where every reader sees it as we do."""
    from PIL import Image

    source = fetch(path)
    with opened(source) as (picture, turn):
        kind = picture.format or ""
        deep = kind == "PNG" and source.data[24:25] == b"\x10"
        named = Image.registered_extensions().get(path.suffix.lower(), "none")
        plain = turn is None and not deep and _PLAIN.get(kind) == named
        if plain and (picture.mode == "RGB" or (picture.mode == "RGBA" and kind == "PNG")):
            return ""
        return ".jpg" if kind in _LOSSY and picture.mode[0] != "I" else ".png"


def _upright(source: Source, suffix: str, keep_gps: bool) -> bytes:
    """The bytes of an upright copy, RGB and 8 bits, with the camera's tags."""
    from PIL import Image, PngImagePlugin

    with opened(source) as (picture, _):
        side: dict[str, Any] = {}
        if picture.mode == "RGB" and picture.info.get("icc_profile"):
            side["icc_profile"] = picture.info["icc_profile"]
        exif = clean_exif(picture.getexif(), keep_gps)
        if exif:
            side["exif"] = exif
    copy = Image.fromarray(pixels(source))
    out = io.BytesIO()
    if suffix == ".png":
        text = PngImagePlugin.PngInfo()
        text.add_text("Software", MARK)
        copy.save(out, "PNG", pnginfo=text, **side)
    else:
        copy.save(out, "JPEG", quality=95, subsampling=0, comment=MARK.encode(), **side)
    return out.getvalue()
