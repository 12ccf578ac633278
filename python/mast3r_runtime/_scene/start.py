# SPDX-License-Identifier: Apache-2.0
"""Cameras to start from: those that a network of many views gives, or that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._engine.engine import Engine
from .._pictures.header import Photo, need_pinhole
from ..errors import ArgumentError, SceneError
from . import dense, sift
from .model import F64, Lens
from .parts import Picture
from .scene import Scene

__all__ = ["cameras", "check", "known", "look"]


def check(matcher: Engine | str, many: bool) -> None:
    """Refuse a matcher that has no matches, before the work."""
    if not many:
        raise ArgumentError("a matcher beside a network of pairs, which has matches of its own")
    if matcher == "sift":
        sift.opencv()
    elif isinstance(matcher, str):
        raise ArgumentError(f"matcher {matcher!r}, want an engine or sift")


def look(
    engine: Engine,
    photos: Sequence[Photo],
    poses: Mapping[str, F64] | None,
    intrinsics: Mapping[str, Lens] | None,
    **options: Any,
) -> Scene:
    """The scene of the pictures, with known cameras where there are poses."""
    readable = {photo.name: photo.path for photo in photos if not photo.problem}
    if not readable:
        why = "; ".join(f"{p.name}: {p.problem}" for p in photos[:10])
        raise SceneError("no readable pictures" + (f" ({why})" if why else ""))
    need_pinhole(photos, intrinsics or ())
    scene = engine.infer_views(readable, **known(list(readable), poses, intrinsics), **options)
    return with_unreadable(scene, photos)


def finished(scene: Scene, masks: Mapping[str, Any], left_out: Mapping[str, str]) -> Scene:
    """A scene that needs no solver: what is masked is not kept, and what was left out is in its report."""
    pictures = dict(scene.pictures)
    for name, mask in masks.items():
        p = pictures[name]
        if p.depth is not None:
            keep = p.depth.keep & dense.at_network(mask, p.depth.transform)
            pictures[name] = replace(p, depth=replace(p.depth, keep=keep))
    return replace(scene, pictures=pictures, report={**scene.report, "left_out": dict(left_out)})


def with_unreadable(scene: Scene, photos: Sequence[Photo]) -> Scene:
    """The scene with the pictures that were not shown to the network, in the order of ``photos``."""
    pictures = {
        p.name: scene.pictures.get(p.name, Picture(p.name, p.path, 0, 0, "unreadable", p.problem))
        for p in photos
    }
    number = np.array([n for n, p in enumerate(photos) if not p.problem])
    components = tuple(
        replace(c, model=replace(c.model, pictures=number[c.model.pictures])) for c in scene.components
    )
    unreadable = {name: p.reason for name, p in pictures.items() if p.status == "unreadable"}
    report = {**scene.report, "pictures": len(pictures), "unreadable": unreadable}
    return Scene(pictures, components, scene.scale, report)


def known(
    names: Sequence[str], poses: Mapping[str, F64] | None, intrinsics: Mapping[str, Lens] | None
) -> dict[str, Any]:
    """The arguments of ``infer_views`` for cameras by name: all pictures have one, or none has.

    Lenses without poses are no arguments: the network has none to go with them.
    """
    if not poses:
        return {}
    for what, have in (("pose", poses), ("intrinsics", intrinsics or {})):
        lacking = [name for name in names if name not in have]
        if lacking:
            raise ArgumentError(
                f"a network of many views takes known cameras for all pictures: {len(lacking)} of "
                f"{len(names)} have no {what}, such as {lacking[0]}"
            )
    assert intrinsics is not None
    return {
        "poses": np.stack([np.asarray(poses[name], np.float64) for name in names]),
        "intrinsics": np.stack([_pinhole(name, intrinsics[name]) for name in names]),
    }


def _pinhole(name: str, lens: Lens) -> F64:
    if any(lens.named()[k] for k in ("k1", "k2", "p1", "p2")):
        raise ArgumentError(
            f"intrinsics of {name}: camera model {lens.model} with distortion; a network of many views "
            "takes pinhole cameras: undistort the pictures"
        )
    return lens.matrix()


def cameras(scene: Scene, intrinsics: Mapping[str, Lens] | None, refine: bool) -> dict[str, Any]:
    """The options of a reconstruction that starts from the cameras of ``scene``, and refines them.

    Lenses that were given are kept unless they are to be refined too.
    """
    pictures = [p for p in scene.pictures.values() if p.pose is not None and p.lens is not None]
    found = {p.name: p.lens for p in pictures}
    return {
        "poses": {p.name: p.pose for p in pictures},
        "intrinsics": {**found, **(intrinsics or {})},
        "refine_intrinsics": refine or not intrinsics,
    }
