# SPDX-License-Identifier: Apache-2.0
"""Which pictures share a camera, and the first guess of each camera's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
EXIF_WIDTH = 0.05  # how far a focal length in EXIF is off, as a share: it is rounded, and focusing moves it
GIVEN_WIDTH = 0.02  # and one from the user, where it is to be refined
OTHER = 1.25  # times the focal length in EXIF: where the points say so much another, it may be wrong


@dataclass(frozen=True)
class Cameras:
    """``lenses[c]``, and the camera ``of[i]`` of picture i. See :class:`.problem.Problem` for the rest."""

    lenses: tuple[Lens, ...]
    of: tuple[int, ...]
    fixed: frozenset[int]
    known: Mapping[int, float]
    turned: frozenset[int] = frozenset()
    open: frozenset[int] = frozenset()
    others: Mapping[int, Lens] = field(default_factory=dict)


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

    ``sharing`` "auto" gives pictures one camera that are of one size up to a turn by 90 degrees and
    of one make, model, lens and focal length by EXIF; an odd one gets its own. ``focals[i]`` are
    focal lengths in pixels from the network's points; ``given[i]`` is a lens from the user, kept
    unless ``refine``.
    """
    if sharing not in SHARING:
        raise ArgumentError(f"camera {sharing!r}, want one of {', '.join(SHARING)}")
    if model is not None and model not in MODELS:
        raise ArgumentError(f"camera model {model!r}, want one of {', '.join(MODELS)}")
    if focal_from not in FOCAL_SOURCES:
        raise ArgumentError(f"focal from {focal_from!r}, want one of {', '.join(FOCAL_SOURCES)}")
    given = given or {}
    headers.need_pinhole(photos, {photos[i].name for i in given})
    if sharing == "shared":
        headers.need_one_size(photos)
    groups: dict[object, list[int]] = {}
    for i, photo in enumerate(photos):
        groups.setdefault(given.get(i) or _group(i, photo, sharing), []).append(i)
    out = _Plan([], [0] * len(photos))
    for number, (group, members) in enumerate(groups.items()):
        for i in members:
            out.of[i] = number
        if isinstance(group, Lens):
            out.lenses.append(group)
            out.known[number] = GIVEN_WIDTH
            if not refine:
                out.fixed.add(number)
        else:
            out.add(photos, members, focals, focal_from, model)
    return Cameras(
        tuple(out.lenses), tuple(out.of), frozenset(out.fixed), out.known, frozenset(out.turned),
        frozenset(out.open), out.others,
    )  # fmt: skip


@dataclass
class _Plan:
    """:class:`Cameras` while they are made."""

    lenses: list[Lens]
    of: list[int]
    fixed: set[int] = field(default_factory=set)
    known: dict[int, float] = field(default_factory=dict)
    turned: set[int] = field(default_factory=set)
    open: set[int] = field(default_factory=set)
    others: dict[int, Lens] = field(default_factory=dict)

    def add(
        self,
        photos: Sequence[Photo],
        members: Sequence[int],
        focals: Mapping[int, Sequence[float]],
        source: str,
        model: str | None,
    ) -> None:
        """Add the camera of a group of pictures that has none given."""
        number = len(self.lenses)
        wide = [i for i in members if photos[i].width >= photos[i].height]
        first = photos[(wide if 2 * len(wide) >= len(members) else members)[0]]
        size = (first.width, first.height)
        self.turned |= {i for i in members if (photos[i].width, photos[i].height) != size}
        exif, points = _focals([photos[i] for i in members], members, focals, max(size))
        if source == "exif" and exif is None:
            raise ArgumentError(f"{first.name}: no focal length in EXIF; use --focal-from points")
        chosen = MODELS[model] if model else _model(first, len(members))
        if exif is not None and source != "points":
            self.known[number] = EXIF_WIDTH
            if points is not None and not 1 / OTHER < points / exif < OTHER:
                self.others[number] = _lens(first, points, chosen)
            self.lenses.append(_lens(first, exif, chosen))
        else:
            self.lenses.append(_lens(first, points or 1.2 * max(size), chosen))
        if model is None:
            self.open.add(number)


def _group(i: int, photo: Photo, sharing: str) -> object:
    size = tuple(sorted((photo.width, photo.height)))
    if sharing == "per-picture":
        return i
    if sharing == "per-folder":
        return str(PurePosixPath(photo.name).parent), size
    if sharing == "shared":
        return size
    focal = None if photo.focal is None else round(photo.focal)
    return size, photo.make, photo.model, photo.lens, focal


def _focals(
    photos: Sequence[Photo], members: Sequence[int], focals: Mapping[int, Sequence[float]], long_side: int
) -> tuple[float | None, float | None]:
    """The focal length in pixels by EXIF and by the network's points."""
    exif = [photo.focal for photo in photos if photo.focal]
    points = [f for i in members for f in focals.get(i, ())]
    least, most = 0.3 * long_side, 5 * long_side
    told = float(np.median(exif)) if exif else None
    return (
        told if told is not None and least <= told <= most else None,
        float(np.clip(np.median(points), least, most)) if points else None,
    )


def _model(photo: Photo, count: int) -> str:
    phone = any(name in photo.make.lower() for name in PHONES)
    return "SIMPLE_RADIAL" if phone or count >= ENOUGH_FOR_DISTORTION else "SIMPLE_PINHOLE"


def _lens(photo: Photo, focal: float, model: str) -> Lens:
    values = {"cx": (photo.width - 1) / 2, "cy": (photo.height - 1) / 2}
    values.update(dict.fromkeys(("f", "fx", "fy"), focal))
    params = tuple(values.get(name, 0.0) for name in CAMERA_MODELS[model][1])
    return Lens(model, photo.width, photo.height, params)
