# SPDX-License-Identifier: Apache-2.0
"""What the user gives in files: cameras, poses, pairs, scale; by the names of the pictures.

Whose a camera or a pose is, :mod:`.names` decides for all of them. What is given and fits nothing is
an ArgumentError.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .._pictures.names import Names
from ..errors import ArgumentError, Mast3rError, quoted, reason
from . import colmap_read, transforms
from .model import F64, Lens, check_lens

__all__ = ["intrinsics", "poses", "scale"]

# What readers of text, JSON and numbers raise for files that hold something else.
_BROKEN = (
    OSError, ValueError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError, struct.error,
)  # fmt: skip
Sizes = Mapping[str, tuple[int, int]]


def intrinsics(text: str, sizes: Sizes, names: Names) -> dict[str, Lens]:
    """Lenses by name from ``FX,FY,CX,CY`` (original pixels, centres at whole numbers) or a file.

    COLMAP's ``cameras.txt`` or ``.bin``, or a folder with it, holds for all pictures where it has one
    camera, else ``images`` beside it says whose each is; ``transforms.json`` of nerfstudio has one for
    all or one a frame.
    """
    what = f"intrinsics {quoted(text)}"
    numbers = _numbers(text)
    if numbers is not None:
        found = {name: Lens("PINHOLE", w, h, numbers) for name, (w, h) in sizes.items()}
    else:
        path = Path(text)
        with _reading(what):
            read = _of_transforms if _is_json(path) else _of_colmap
            found = read(path, sizes, names, what)
    for name, lens in found.items():
        check_lens(lens, f"{what} of {quoted(name)}")
    return found


def _numbers(text: str) -> tuple[float, ...] | None:
    """Four numbers; None for the name of a file."""
    words = text.split(",")
    try:
        numbers = tuple(float(word) for word in words)
    except ValueError:
        if Path(text).suffix or os.path.exists(text):
            return None
        numbers = ()
    if len(numbers) != 4 or not np.isfinite(numbers).all() or min(numbers[:2]) <= 0:
        raise ArgumentError(
            f"intrinsics {quoted(text)}: want FX,FY,CX,CY with focal lengths above 0, cameras.txt or .bin, "
            "transforms.json, or a folder with one of them"
        )
    return numbers


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json" or (os.path.isdir(path) and _json_in(path) is not None)


def _json_in(folder: Path) -> Path | None:
    """A folder's transforms.json, where it has no files of COLMAP."""
    path = folder / "transforms.json"
    return path if path.is_file() and colmap_read.find(folder, "images") is None else None


def _of_colmap(path: Path, sizes: Sizes, names: Names, what: str) -> dict[str, Lens]:
    place = colmap_read.find(path, "cameras")
    if place is None:
        raise ValueError("no cameras.txt, cameras.bin or transforms.json there")
    lenses = {k: lens.moved(-0.5) for k, lens in colmap_read.cameras(place).items()}
    if not lenses:
        raise ValueError("no camera in it")
    if len(lenses) == 1:
        return dict.fromkeys(sizes, next(iter(lenses.values())))
    beside = colmap_read.find(place, "images")
    if beside is None:
        raise ValueError(f"{len(lenses)} cameras, and no images.txt or .bin that says whose they are")
    whose = {image.name: image.camera for image in colmap_read.images(beside)}
    keys = names.match(whose, what)
    return {name: lenses[whose[key]] for name, key in keys.items() if name in sizes}


def _of_transforms(path: Path, sizes: Sizes, names: Names, what: str) -> dict[str, Lens]:
    frames = transforms.frames(path if path.is_file() else path / "transforms.json")
    keys = names.match(frames, what)
    return {name: transforms.lens(frames[key], sizes[name]) for name, key in keys.items() if name in sizes}


def poses(path: Path, names: Names) -> dict[str, F64]:
    """World-from-camera poses ``[4, 4]`` by name, OpenCV's axes, of the pictures that the file has.

    ``images.txt`` or ``.bin`` of COLMAP, or a folder with it, gives its own world. Of a
    ``transforms.json`` the ``applied_transform`` is undone; without one its world, z up, becomes ours,
    y down: what is written again is the same.
    """
    what = f"poses {quoted(path)}"
    with _reading(what):
        if _is_json(path):
            found = transforms.poses(transforms.frames(path if path.is_file() else path / "transforms.json"))
        else:
            place = colmap_read.find(path, "images")
            if place is None:
                raise ValueError("no images.txt, images.bin or transforms.json there")
            found = {i.name: np.asarray(np.linalg.inv(i.pose)) for i in colmap_read.images(place)}
    return {name: found[key] for name, key in names.match(found, what).items()}


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Whatever a file of somebody else's runs into is an ArgumentError that names it."""
    try:
        yield
    except Mast3rError as error:
        if isinstance(error, ArgumentError) and str(error).startswith(what):
            raise
        raise ArgumentError(f"{what}: {reason(error)}") from error
    except KeyError as error:
        raise ArgumentError(f"{what}: no {error.args[0]!r:.80} in it") from error
    except _BROKEN as error:
        raise ArgumentError(f"{what}: {reason(error)}") from error


def scale(text: str, names: Names) -> str | tuple[str, str, float] | dict[str, F64]:
    """``network``, ``none``, ``A,B=METRES``: the distance of two cameras, or a file of poses in metres."""
    if text in ("network", "none"):
        return text
    path = Path(text)
    if "=" not in text and (path.suffix.lower() in (".json", ".txt", ".bin") or os.path.isdir(path)):
        return {name: pose[:3, 3] for name, pose in poses(path, names).items()}
    left, _, right = text.rpartition("=")
    cuts = [(left[:i], left[i + 1 :]) for i, letter in enumerate(left) if letter == ","]
    for exact in (True, False):
        for one, two in cuts:
            pair = [names.candidates(word.strip(), exact) for word in (one, two)]
            if all(len(found) == 1 for found in pair):
                return pair[0][0], pair[1][0], _metres(text, right)
    for one, two in cuts:
        names.find(one.strip())  # says which two pictures it may be
        names.find(two.strip())
    raise ArgumentError(
        f"scale {quoted(text)}: want network, none, a file of poses, or two pictures and a distance, "
        "as a.jpg,b.jpg=1.5"
    )


def _metres(text: str, number: str) -> float:
    try:
        metres = float(number)
    except ValueError:
        metres = float("nan")
    if not (np.isfinite(metres) and metres > 0):
        raise ArgumentError(f"scale {quoted(text)}: {quoted(number)} metres, want a number above 0")
    return metres
