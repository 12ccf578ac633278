# SPDX-License-Identifier: Apache-2.0
"""The kinds of files in a store: their names, what each holds, and the one place that unpacks them.

A file is the store's own by its name alone: KIND/HH/KEY.SUFFIX with a kind, a suffix and a form
of key from the table here, and HH the first two letters of the key. Everything else in the folder
is somebody else's: it is neither read nor removed.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from .._files import zips
from . import safetensors

__all__ = ["DESCRIPTION", "KINDS", "Damaged", "Kind", "own", "own_folder", "suffix_of", "unpack", "whole"]

Arrays = dict[str, npt.NDArray[Any]]

DESCRIPTION = "store.json"  # the store's own file that has no kind


class Damaged(ValueError):
    """The bytes are not what a file of this kind holds."""


@dataclass(frozen=True)
class Kind:
    """``arrays``: dtype and shape by name, where a letter stands for the same side everywhere; those
    of ``finite`` have no NaN. ``check`` raises for other things wrong with the arrays or the JSON value
    of a key. ``gc``: whether files of this kind are removed that no run needs."""

    suffix: str
    key: str
    arrays: zips.Spec | None = None
    finite: tuple[str, ...] = ()
    check: Callable[[str, Any], None] = lambda key, value: None
    gc: bool = True


def _want(good: bool, text: str) -> None:
    if not good:
        raise Damaged(text)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# ---- what each holds -----------------------------------------------------

_WINDOW = ("<i4", (8,))  # the fields of Transform, in order
_MODEL: zips.Spec = {  # of a solved component; _0, _1, ... behind the names
    "pictures": ("<i8", ("n",)), "poses": ("<f8", ("n", 4, 4)), "points": ("<f8", ("p", 3)),
    "colours": ("|u1", ("p", 3)), "seen": ("<i8", ("o",)), "seen_by": ("<i8", ("o",)),
    "seen_at": ("<f8", ("o", 2)),
}  # fmt: skip


def _windows(a: Arrays) -> None:
    for name in (name for name in a if name.startswith("transform")):
        height, width, resized_height, resized_width, y, x, h, w = a[name].tolist()
        inside = min(y, x) >= 0 and y + h <= resized_height and x + w <= resized_width
        _want(min(height, width, h, w) > 0 and inside, f"{name} {a[name].tolist()}")


def _pair(key: str, a: Arrays) -> None:
    _windows(a)
    if "verdict" in a:
        _want(0 <= int(a["verdict"]) < 3, f"verdict {a['verdict']}, want 0 to 2")
    if "matches" in a:
        count = len(a["weight"]) if "weight" in a else max(int(a["matches"]), 0)
        _want(int(a["matches"]) == count, f"matches {a['matches']}, and {count} of them")


def _features(key: str, a: Arrays) -> None:
    zips.fit(a, {"transform": _WINDOW})
    _windows(a)
    kind, rank = a["tokens"].dtype, a["tokens"].ndim
    _want(rank == 2 and kind in (np.float32, np.float16), f"tokens {kind}, {rank} sides")


def _result(key: str, a: Arrays) -> None:
    """What ``mast3r infer`` writes as result.npz; the viewer reads it, and asks for more."""
    for view in "12":
        height, width = a[f"conf_{view}"].shape
        _want(a[f"pts3d_{view}"].shape == (height, width, 3), f"pts3d_{view} {a[f'pts3d_{view}'].shape}")
        _want(a[f"transform_{view}"].shape == (8,), f"transform_{view} {a[f'transform_{view}'].shape}")


def _solved(key: str, a: Arrays) -> None:
    facts = json.loads(str(a["facts"]))
    models = facts["models"]
    _want(isinstance(models, list) and isinstance(facts["reasons"], dict), "facts")
    _want(isinstance(facts["unstable"], dict), "facts: unstable")
    groups = {f"{name}_{k}" for k in range(len(models)) for name in _MODEL}
    fixed = KINDS["solved"].arrays or {}
    _want(set(a) == {*groups, *fixed}, f"{len(models)} components, arrays {', '.join(sorted(a))}")
    for k, model in enumerate(models):
        own = {name: a[f"{name}_{k}"] for name in _MODEL}
        zips.fit(own, _MODEL, ("poses", "points", "seen_at"))
        _want(len(model["lenses"]) == len(own["pictures"]), f"component {k}: lenses")
        for name, most in (("seen", len(own["points"])), ("pictures", None)):
            wrong = own[name].size and (own[name].min() < 0 or (most is not None and own[name].max() >= most))
            _want(not wrong, f"{name}_{k} out of range")
        _want(bool(np.isin(own["seen_by"], own["pictures"]).all()), f"seen_by_{k} out of range")


def _picture(key: str, value: Any) -> None:
    texts = isinstance(value["path"], str) and value["sha256"] == key
    _want(texts and all(_whole(value[n]) for n in ("bytes", "height", "width")), f"fields {sorted(value)}")


def _failed(key: str, value: Any) -> None:
    _want(_texts(value["pair"]) and len(value["pair"]) == 2, f"pair {value['pair']!r:.80}")
    texts = all(isinstance(value[name], str) for name in ("error", "message", "traceback", "host"))
    _want(texts and _whole(value["attempts"]), f"fields {sorted(value)}")


def _run(key: str, value: Any) -> None:
    names, paths, shas, pairs = (value[name] for name in ("names", "paths", "sha256", "pairs"))
    _want(_texts(names) and _texts(paths) and _texts(shas), "names, paths and sha256: want lists of texts")
    counts = (len(names), len(paths), len(shas))
    _want(len(set(counts)) == 1, "{} names, {} paths, {} hashes".format(*counts))
    _want(all(re.fullmatch(r"[0-9a-f]{64}|", sha) for sha in shas), "sha256: want 64 hexadecimal digits")
    _want(isinstance(pairs, list) and len(pairs) % 2 == 0 and all(map(_whole, pairs)), "pairs")
    _want(not pairs or (min(pairs) >= 0 and max(pairs) < len(names)), "pairs of pictures that are not there")
    _want(isinstance(value["rule"], dict) and isinstance(value["only"], str), "rule and only")


_HASH = r"[0-9a-f]{32}"
_OF_PICTURE = r"[0-9a-f]{24}-[0-9a-f]{0,12}-[0-9a-f]{12}"

KINDS: Mapping[str, Kind] = {
    "features": Kind(".safetensors", _OF_PICTURE, check=_features),
    "pairs": Kind(
        ".npz", _HASH,
        {
            "xy_1": ("<f4", ("n", 2)), "xy_2": ("<f4", ("n", 2)), "weight": ("<f4", ("n",)),
            "matches": ("<i4", ()), "verdict": ("|i1", ()), "overlap": ("<f4", (3,)),
            "transform_1": _WINDOW, "transform_2": _WINDOW, "focal_1": ("<f8", ()), "focal_2": ("<f8", ()),
            "made_by": ("U", ()),
        },
        ("xy_1", "xy_2", "weight"), _pair,
    ),
    "depth": Kind(".npz", _HASH, {"depth": ("<f4", ("h", "w")), "conf": ("<f4", ("h", "w"))}),
    "results": Kind(".npz", _HASH, check=_result),
    "retrieval": Kind(
        ".npz", _OF_PICTURE,
        {"features": ("<f4", ("n", "d")), "attention": ("<f4", ("n",)), "global": ("<f4", ("d",))},
    ),
    "index": Kind(".safetensors", _HASH),
    "failed": Kind(".json", _HASH, check=_failed),
    "pictures": Kind(".json", r"[0-9a-f]{64}", check=_picture),
    "packs": Kind(".zip", _HASH),
    # What was asked for, and what is no result of a run, is never collected.
    "runs": Kind(".json", r"[0-9a-f]{12}", check=_run, gc=False),
    "solved": Kind(
        ".npz", _HASH,
        {"pairs": ("<i8", ("n", 5)), "facts": ("U", ()), "covariance_of": ("<i8", ("c",)),
         "covariance": ("<f8", ("c", 6, 6))},
        check=_solved, gc=False,
    ),
    "sift": Kind(
        ".npz", _HASH, {"xy_1": ("<f4", ("n", 2)), "xy_2": ("<f4", ("n", 2))}, ("xy_1", "xy_2"), gc=False
    ),
}  # fmt: skip


# ---- names and bytes -----------------------------------------------------


def own(name: str) -> tuple[str, str] | None:
    """The kind and the key of a file of the store by its name below it; None for anybody else's."""
    parts = name.split("/")
    kind = KINDS.get(parts[0])
    if len(parts) != 3 or kind is None or not parts[2].endswith(kind.suffix):
        return None
    key = parts[2].removesuffix(kind.suffix)
    good = re.fullmatch(kind.key, key, re.ASCII) is not None and parts[1] == key[:2]
    return (parts[0], key) if good else None


def own_folder(name: str) -> bool:
    """Whether files of the store lie in a folder of that name below it."""
    kind, _, head = name.partition("/")
    return name == "" or (kind in KINDS and re.fullmatch(r"[0-9a-f]{2}", head, re.ASCII) is not None)


def suffix_of(kind: str) -> str:
    """The suffix of a kind's files; ``.npz`` for one that is not in the table."""
    return KINDS[kind].suffix if kind in KINDS else ".npz"


def unpack(
    kind: str, key: str, suffix: str, file: IO[bytes] | bytes, only: tuple[str, ...] | None = None
) -> Any:
    """What the bytes of a key hold: arrays by name (those of ``only``), or the value of a JSON file.

    Raises Damaged where they do not hold what files of this kind do, whatever the reason.
    """
    stream = io.BytesIO(file) if isinstance(file, bytes) else file
    known = KINDS.get(kind)
    try:
        if suffix == ".json":
            value = json.loads(stream.read(), parse_constant=_no_number)
        else:
            packed = suffix == ".safetensors"
            value = safetensors.unpack(stream.read()) if packed else zips.arrays(stream, only)
            if known is not None and known.arrays is not None:
                spec = {name: known.arrays[name] for name in only} if only else known.arrays
                zips.fit(value, spec, known.finite)
        if known is not None and suffix == known.suffix:
            known.check(key, value)
    except (Damaged, MemoryError):
        raise
    except Exception as error:  # hostile bytes end in any of a dozen errors of zip, json and numpy
        raise Damaged(f"{type(error).__name__}: {error}") from error
    return value


def whole(name: str, data: bytes) -> bool:
    """Whether the bytes of a file of the store hold what its kind does."""
    found = own(name)
    if found is None:
        return False
    try:
        unpack(*found, suffix_of(found[0]), data)
    except Damaged:
        return False
    return True


def _no_number(text: str) -> float:
    raise Damaged(f"{text} is no number of JSON")
