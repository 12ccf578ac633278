# SPDX-License-Identifier: Apache-2.0
"""The pictures of a folder, and lists of pairs of them in files."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import ArgumentError, FileError, ImageNotFoundError, checked, quoted
from ..images import suffixes

__all__ = ["list_images", "natural", "read_pairs"]

_log = logging.getLogger("mast3r_runtime")


def natural(name: str) -> list[int | str]:
    """The sort key of natural order: frame_2 before frame_10."""
    parts = re.split("([0-9]+)", name)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)]


@checked
def list_images(folder: str | os.PathLike[str]) -> list[Path]:
    """The pictures of a folder in natural order: frame_2 before frame_10.

    Every file whose suffix is that of a format that :func:`read_image` reads; the log says what is
    left out.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ImageNotFoundError(f"folder {quoted(folder)}: no such folder")
    known = suffixes()
    try:
        files = [p for p in folder.iterdir() if p.is_file()]
    except OSError as error:
        raise ImageNotFoundError(f"folder {quoted(folder)}: {error.strerror or error}") from error
    paths = [p for p in files if p.suffix.lower() in known and not p.name.startswith(".")]
    left_out = sorted(p.name for p in set(files) - set(paths))
    if left_out:
        _log.warning(
            "folder %r: %d files left out: %s", str(folder), len(left_out), _some(left_out, heic_hint=True)
        )
    if len(paths) < 2:
        raise ImageNotFoundError(
            f"folder {quoted(folder)}: {len(paths)} pictures ({', '.join(sorted(known))}), want at least 2"
            + (f"; left out: {_some(left_out, heic_hint=True)}" if left_out else "")
        )
    return sorted(paths, key=lambda p: (natural(p.name), p.name))


def _some(names: Sequence[str], heic_hint: bool = False) -> str:
    text = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    if heic_hint and any(name.lower().endswith((".heic", ".heif", ".hif")) for name in names):
        text += "; for HEIC: pip install 'mast3r-runtime[heif]'"
    return text


@checked
def read_pairs(path: str | os.PathLike[str], names: Sequence[str]) -> list[tuple[int, int]]:
    """Read a list of pairs of pictures, as numbers into ``names``.

    The file is ``pairs.json`` of ``mast3r retrieve``, or a text with one pair on each line, as hloc and
    COLMAP write it: two names and an optional score, separated by white space or tabs. Empty lines
    and lines that start with # are ignored.
    """
    path = Path(path)
    number = {name: i for i, name in enumerate(names)}
    try:
        text = path.read_bytes().decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error
    if path.suffix.lower() == ".json":
        pairs = _json_pairs(path, text, number)
    else:
        lines = ((k, line.strip()) for k, line in enumerate(text.splitlines(), 1))
        pairs = [_pair_of(path, k, line, number) for k, line in lines if line and not line.startswith("#")]
    if not pairs:
        raise ArgumentError(f"{path}: no pairs")
    return pairs


def _json_pairs(path: Path, text: str, number: dict[str, int]) -> list[tuple[int, int]]:
    try:
        content = json.loads(text)
        rows = [(row["first"], row["second"]) for row in content["pairs"]]
        return [(number[a], number[b]) for a, b in rows]
    except KeyError as error:
        raise ArgumentError(f"{path}: {error} is missing, or no picture of the folder") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise ArgumentError(f"{path}: {error}, want pairs.json of mast3r retrieve") from error


def _pair_of(path: Path, k: int, line: str, number: dict[str, int]) -> tuple[int, int]:
    if "\t" in line:
        words = [word.strip() for word in line.split("\t")]
        rows = [tuple(words[:2])] if len(words) in (2, 3) else []
    else:
        # Names may hold spaces: every cut with two pictures of the folder is a reading.
        words = line.split(" ")
        rows = []
        for end in {len(words), len(words) - 1 if _is_number(words[-1]) else len(words)}:
            cuts = ((" ".join(words[:i]), " ".join(words[i:end])) for i in range(1, end))
            rows += [(a.strip(), b.strip()) for a, b in cuts]
    known = {(number[a], number[b]) for a, b in rows if a in number and b in number}
    if len(known) > 1:
        raise ArgumentError(
            f"{path} line {k}: {quoted(line)} can be read in {len(known)} ways; separate by tabs"
        )
    if not known:
        raise ArgumentError(
            f"{path} line {k}: {quoted(line)}, want two pictures of the folder, with or without a score"
        )
    return known.pop()


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
