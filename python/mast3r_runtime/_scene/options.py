# SPDX-License-Identifier: Apache-2.0
"""How to reconstruct, and what is given by the names of pictures, fitted to the pictures that there are."""

from __future__ import annotations

import logging
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .._pictures.header import Photo
from .._pictures.masks import Mask, read_mask
from .._pictures.names import Names
from ..errors import ArgumentError, checked, quoted, shown
from .model import F64, Lens, check_lens, check_pose

__all__ = ["Options", "fitted", "unused"]

_log = logging.getLogger("mast3r_runtime")

MAPPERS = ("auto", "global", "incremental")
# What a scene that is a network's own has a use for; CLI's threads are the engine's too.
OF_A_NETWORK = ("poses", "intrinsics", "masks", "fix_poses", "threads", "seed")
ImagePath = str | os.PathLike[str]
T = TypeVar("T")


@checked
@dataclass(frozen=True)
class Options:
    """How to reconstruct. The same names as on the command line.

    ``graph`` is that of :func:`mast3r_runtime.scene_pairs`, or "auto": complete up to 40 pictures,
    then by retrieval where there is a head, else ``logwin-5``. ``pairs`` are pairs of names in its
    place. ``intrinsics`` are lenses by name, kept unless ``refine_intrinsics``. ``poses`` are known
    poses by name, world from camera: then only points are solved, and the poses are adjusted unless
    ``fix_poses``; the world stays theirs, and pictures without one are not placed. ``scale`` is
    "network", "none", a pair of names and their distance in metres, or places of cameras in metres
    by name. ``up`` is "auto", which levels the world, or "none". ``masks`` are, by name,
    arrays ``[H, W]`` of a picture's size, not 0 where to look, or files of them: what is masked has no
    matches and no dense points. ``stride`` is in network pixels; 0 means 8, or 16 above 200 pictures.
    ``features`` is how the store keeps them: "float32", "float16", or "auto": float16 where an
    earlier run of this model left such, so that its pairs are found.
    ``threads`` are the solver's; 1 makes it give the same bits every time.
    """

    graph: str = "auto"
    pairs: Sequence[tuple[str, str]] | None = None
    camera: str = "auto"
    camera_model: str | None = None
    focal_from: str = "auto"
    intrinsics: Mapping[str, Lens] | None = None
    refine_intrinsics: bool = False
    poses: Mapping[str, F64] | None = None
    fix_poses: bool = False
    mapper: str = "auto"
    stride: int = 0
    min_inliers: int = 30
    scale: str | tuple[str, str, float] | Mapping[str, F64] = "network"
    up: str = "auto"
    masks: Mapping[str, Mask | ImagePath] | None = None
    dense: bool = True
    dense_conf: float = 1.5
    features: str = "auto"
    covariance: bool = False
    seed: int = 0
    threads: int = -1

    def __post_init__(self) -> None:
        if self.mapper not in MAPPERS:
            raise ArgumentError(f"mapper {self.mapper!r}, want one of {', '.join(MAPPERS)}")
        if not 0 <= self.stride <= 64:
            raise ArgumentError(f"stride {self.stride}, want 1 to 64 network pixels, or 0 for the default")
        if self.up not in ("auto", "none"):
            raise ArgumentError(f"up {self.up!r}, want auto or none")
        if self.fix_poses and not self.poses:
            raise ArgumentError("fix_poses without poses")
        for name, pose in (self.poses or {}).items():
            check_pose(pose, f"pose of {quoted(name)}")
        for name, lens in (self.intrinsics or {}).items():
            if not isinstance(lens, Lens):
                raise ArgumentError(f"intrinsics of {quoted(name)}: {type(lens).__name__}, want a Lens")
            check_lens(lens, f"intrinsics of {quoted(name)}")
        if self.min_inliers < 8:
            raise ArgumentError(f"min_inliers {self.min_inliers}, want at least 8")
        for name in ("refine_intrinsics", "fix_poses", "dense", "covariance"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ArgumentError(f"{name} {getattr(self, name)!r:.80}, want True or False")
        for name in ("seed", "threads", "stride", "min_inliers"):
            if abs(operator.index(getattr(self, name))) >= 1 << 31:
                raise ArgumentError(f"{name} {getattr(self, name)}, want a number below 2^31")
        if not np.isfinite(self.dense_conf):
            raise ArgumentError(f"dense_conf {self.dense_conf}, want a finite number")
        if self.poses and self.scale != "network":
            raise ArgumentError("scale beside poses: the world and its lengths are those of the poses")
        _check_scale(self.scale)


def _check_scale(scale: object) -> None:
    if isinstance(scale, str) and scale in ("network", "none") or isinstance(scale, Mapping):
        return
    if isinstance(scale, tuple) and len(scale) == 3 and np.isfinite(scale[2]) and scale[2] > 0:
        return
    raise ArgumentError(
        f"scale {scale!r:.80}, want network, none, two names and their distance, or places by name"
    )


def unused(options: Options) -> list[str]:
    """The options that are set and that a scene without a solver has no use for."""
    default = Options()
    set_ones = [f.name for f in fields(Options) if getattr(options, f.name) is not getattr(default, f.name)]
    return [n for n in set_ones if n not in OF_A_NETWORK and getattr(options, n) != getattr(default, n)]


def fitted(options: Options, photos: Sequence[Photo]) -> Options:
    """The options with everything by the names of these pictures, masks read, all sizes checked.

    What fits no picture is an ArgumentError; what some pictures lack, the log says.
    """
    readable = {photo.name: photo for photo in photos if not photo.problem}
    if not readable:
        return options
    names = Names({photo.name: photo.path for photo in readable.values()})
    lenses = _by_name(options.intrinsics, names, readable, "intrinsics")
    for name, lens in (lenses or {}).items():
        _same_size(f"intrinsics of {quoted(name)}", (lens.width, lens.height), readable[name])
    masks = _by_name(options.masks, names, readable, "masks")
    scale = options.scale
    if isinstance(scale, Mapping):
        scale = _by_name(scale, names, readable, "places") or {}
    elif isinstance(scale, tuple):
        scale = (_one(names, scale[0], "scale"), _one(names, scale[1], "scale"), scale[2])
    pairs = options.pairs
    if pairs is not None:
        every = Names({photo.name: photo.path for photo in photos})
        pairs = [(_one(every, a, "pairs"), _one(every, b, "pairs")) for a, b in pairs]
    return replace(
        options, intrinsics=lenses, poses=_by_name(options.poses, names, readable, "poses"), scale=scale,
        pairs=pairs, masks=masks and {name: _mask(mask, readable[name]) for name, mask in masks.items()},
    )  # fmt: skip


def _by_name(
    values: Mapping[str, T] | None, names: Names, photos: Mapping[str, Photo], what: str
) -> dict[str, T] | None:
    if values is None:
        return None
    keys = names.match([str(key) for key in values], what)
    lacking = [name for name in photos if name not in keys]
    if lacking:
        some = ", ".join(map(shown, lacking[:5])) + (", ..." if len(lacking) > 5 else "")
        _log.warning("%s: for %d of %d pictures; none for %s", what, len(keys), len(photos), some)
    return {name: values[key] for name, key in keys.items()}


def _one(names: Names, key: str, what: str) -> str:
    found = names.find(str(key))
    if found is None:
        raise ArgumentError(f"{what}: {quoted(key)} is none of these pictures")
    return found


def _same_size(what: str, size: tuple[int, int], photo: Photo) -> None:
    if size != (photo.width, photo.height):
        turned = " as it is seen" if size == (photo.height, photo.width) else ""
        raise ArgumentError(
            f"{what}: for {size[0]} x {size[1]} pixels, "
            f"the picture has {photo.width} x {photo.height}{turned}"
        )


def _mask(mask: Any, photo: Photo) -> Mask:
    """Which pixels of a picture to use."""
    what = f"mask of {quoted(photo.name)}"
    if isinstance(mask, (str, os.PathLike)):
        what, values = f"mask {quoted(mask)}", read_mask(mask)
    else:
        array: npt.NDArray[Any] = np.asarray(mask)
        if array.ndim != 2 or array.dtype.kind not in "biuf":
            raise ArgumentError(f"{what}: shape {list(array.shape)} of {array.dtype}, want [H, W] of numbers")
        values = np.nan_to_num(array) != 0
    _same_size(what, values.shape[::-1], photo)
    return values
