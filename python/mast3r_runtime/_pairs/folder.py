# SPDX-License-Identifier: Apache-2.0
"""Lists of pairs of pictures in files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from .._pictures.find import list_images
from ..errors import ArgumentError, FileError, checked, quoted

__all__ = ["list_images", "read_pairs"]


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
