# SPDX-License-Identifier: Apache-2.0
"""Which pictures share a camera, and the first guess of each camera's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from .._pictures import header as headers
from .._pictures.header import Photo
from ..errors import ArgumentError
from .model import CAMERA_MODELS, Lens

__all__ = ["MODELS", "SHARING", "Cameras", "plan"]

SHARING = ("auto", "shared", "per-picture", "per-folder")
MODELS = {name.lower().replace("_", "-"): name for name in CAMERA_MODELS}
FOCAL_SOURCES = ("auto", "exif", "points")
PHONES = ("apple", "samsung", "google", "xiaomi", "huawei", "oneplus", "oppo", "vivo", "honor", "motorola")
ENOUGH_FOR_DISTORTION = 20  # pictures of one camera


@dataclass(frozen=True)
class Cameras:
    """``lenses[c]``, and the camera ``of[i]`` of picture i. See :class:`.solver.Problem`."""

    lenses: tuple[Lens, ...]
    of: tuple[int, ...]
    fixed: frozenset[int]
    known: frozenset[int]


def plan(
    photos: Sequence[Photo],
    focals: Mapping[int, Sequence[float]],
    sharing: str = "auto",
    model: str | None = None,
    given: Mapping[int, Lens] | None = None,
    focal_from: str = "auto",
    refine: bool = False,
) -> Cameras:
    """Group pictures into cameras and guess their focal lengths.

    ``focals[i]`` are focal lengths in pixels from the network's points; ``given[i]`` is a lens
    from the user, kept unless ``refine``.
    """
    if sharing not in SHARING:
        raise ArgumentError(f"camera {sharing!r}, want one of {', '.join(SHARING)}")
    if model is not None and model not in MODELS:
        raise ArgumentError(f"camera model {model!r}, want one of {', '.join(MODELS)}")
    if focal_from not in FOCAL_SOURCES:
        raise ArgumentError(f"focal from {focal_from!r}, want one of {', '.join(FOCAL_SOURCES)}")
    given = given or {}
    headers.need_pinhole(photos, {photos[i].name for i in given})
    if sharing == "auto":
        sharing = "shared" if headers.same_camera(photos) else "per-picture"
    if sharing == "shared":
        headers.need_one_size(photos)
    groups: dict[object, list[int]] = {}
    for i, photo in enumerate(photos):
        groups.setdefault(given.get(i) or _group(i, photo, sharing), []).append(i)
    lenses, of, fixed, known = [], [0] * len(photos), set(), set()
    for number, (group, members) in enumerate(groups.items()):
        for i in members:
            of[i] = number
        if isinstance(group, Lens):
            lenses.append(group)
            known.add(number)
            if not refine:
                fixed.add(number)
            continue
        first = photos[members[0]]
        focal, from_exif = _focal([photos[i] for i in members], members, focals, focal_from)
        if from_exif:
            known.add(number)
        lenses.append(_lens(first, focal, MODELS[model] if model else _model(first, len(members))))
    return Cameras(tuple(lenses), tuple(of), frozenset(fixed), frozenset(known))


def _group(i: int, photo: Photo, sharing: str) -> object:
    size = (photo.width, photo.height)
    if sharing == "per-picture":
        return i
    return (str(PurePosixPath(photo.name).parent), size) if sharing == "per-folder" else size


def _focal(
    photos: Sequence[Photo], members: Sequence[int], focals: Mapping[int, Sequence[float]], source: str
) -> tuple[float, bool]:
    """The first guess in pixels, and whether EXIF says so."""
    long_side = max(photos[0].width, photos[0].height)
    exif = [photo.focal for photo in photos if photo.focal]
    if source == "exif" and not exif:
        raise ArgumentError(f"{photos[0].name}: no focal length in EXIF; use --focal-from points")
    if exif and source != "points":
        return float(np.clip(np.median(exif), 0.3 * long_side, 5 * long_side)), True
    points = [f for i in members for f in focals.get(i, ())]
    guess = float(np.median(points)) if points else 1.2 * long_side
    return float(np.clip(guess, 0.3 * long_side, 5 * long_side)), False


def _model(photo: Photo, count: int) -> str:
    phone = any(name in photo.make.lower() for name in PHONES)
    return "SIMPLE_RADIAL" if phone or count >= ENOUGH_FOR_DISTORTION else "SIMPLE_PINHOLE"


def _lens(photo: Photo, focal: float, model: str) -> Lens:
    values = {"cx": (photo.width - 1) / 2, "cy": (photo.height - 1) / 2}
    values.update(dict.fromkeys(("f", "fx", "fy"), focal))
    params = tuple(values.get(name, 0.0) for name in CAMERA_MODELS[model][1])
    return Lens(model, photo.width, photo.height, params)
