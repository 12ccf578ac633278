# SPDX-License-Identifier: Apache-2.0
"""Lists of pairs of pictures in files."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from .._files.plain import read_text
from .._pictures.find import list_images
from .._pictures.names import Names
from ..errors import ArgumentError, FileError, checked, quoted, reason

__all__ = ["list_images", "read_pairs"]

_log = logging.getLogger("mast3r_runtime")


@checked
def read_pairs(
    path: str | os.PathLike[str],
    names: Collection[str] | Mapping[str, str | os.PathLike[str]],
    *,
    others: bool = False,
) -> list[tuple[int, int]]:
    """Read a list of pairs of pictures, as numbers into ``names``.

    The file is ``pairs.json`` of ``mast3r retrieve``, or a text with one pair on each line, as hloc and
    COLMAP write it: two names and an optional score, separated by white space or tabs. Empty lines
    and lines that start with # are ignored. Names are found as those of poses and masks are: by the
    picture's own name, or more or less of its path; ``names`` may be a mapping of names to paths.

    With ``others``, lines with pictures that are not among ``names`` are left out, and the log says
    how many; else they are an ArgumentError.
    """
    path = Path(path)
    pictures = Names(names)
    number = {name: i for i, name in enumerate(names)}
    try:
        text = read_text(path)
    except OSError as error:
        raise FileError(f"{path}: {reason(error)}") from error
    rows = _json_rows(path, text) if path.suffix.lower() == ".json" else _text_rows(path, text)
    pairs, left_out = [], 0
    for where, cuts in rows:
        pair = _pair(where, cuts, pictures)
        if pair is not None:
            pairs.append((number[pair[0]], number[pair[1]]))
        elif others:
            left_out += 1
        else:
            raise ArgumentError(f"{where}, want two pictures of the folder, with or without a score")
    if left_out:
        _log.warning("%s: %d lines left out, of other pictures", quoted(path), left_out)
    if not pairs:
        some = ", ".join(map(quoted, list(number)[:2]))
        raise ArgumentError(f"{path}: no pairs" + (f" of these pictures, such as {some}" if left_out else ""))
    return pairs


Cuts = list[tuple[str, str]]  # the ways to read a line as two names


def _json_rows(path: Path, text: str) -> Iterator[tuple[str, Cuts]]:
    try:
        rows = [(str(row["first"]), str(row["second"])) for row in json.loads(text)["pairs"]]
    except KeyError as error:
        raise ArgumentError(f"{path}: {error} is missing, want pairs.json of mast3r retrieve") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise ArgumentError(f"{path}: {reason(error)}, want pairs.json of mast3r retrieve") from error
    for k, (one, two) in enumerate(rows):
        yield f"{path} pair {k}: {quoted(one)} and {quoted(two)}", [(one, two)]


def _text_rows(path: Path, text: str) -> Iterator[tuple[str, Cuts]]:
    for k, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line and not line.startswith("#"):
            yield f"{path} line {k}: {quoted(line[:300])}", _cuts(line)


def _cuts(line: str) -> Cuts:
    if "\t" in line:
        words = [word.strip() for word in line.split("\t")]
        return [(words[0], words[1])] if len(words) in (2, 3) else []
    # Names may hold spaces: every cut with two pictures of the folder is a reading.
    words = line.split(" ")
    cuts: Cuts = []
    for end in {len(words), len(words) - 1 if _is_number(words[-1]) else len(words)}:
        cuts += [(" ".join(words[:i]).strip(), " ".join(words[i:end]).strip()) for i in range(1, end)]
    return cuts


def _pair(where: str, cuts: Cuts, pictures: Names) -> tuple[str, str] | None:
    """The two pictures; readings with their very names before others. None where there are none."""
    for exact in (True, False):
        found = [(pictures.candidates(a, exact), pictures.candidates(b, exact)) for a, b in cuts]
        known = {(one, two) for ones, twos in found for one in ones for two in twos}
        if len(known) > 1:
            raise ArgumentError(f"{where} can be read in {len(known)} ways; separate by tabs")
        if known:
            return known.pop()
    return None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
