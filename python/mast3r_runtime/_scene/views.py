# SPDX-License-Identifier: Apache-2.0
"""A scene from a network of many views, which needs no solver."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.linalg import inv

from .._engine.views import Taken, View
from .._library.version import __version__
from .._pictures.arrays import U8
from .dense import DepthMap, RayMap, small
from .gauge import Scale
from .model import Lens, Model
from .parts import Component, Picture
from .scene import Scene

__all__ = ["lens_of", "scene_of"]


def scene_of(taken: Taken) -> Scene:
    """Pictures with poses, lenses and dense depth; no solved points."""
    pictures = {}
    seen = zip(taken.pictures, taken.views, strict=True)
    for name, source in zip(taken.names, taken.sources, strict=True):
        path = Path(source) if isinstance(source, (str, os.PathLike)) else Path(name)
        if name in taken.lost:
            pictures[name] = Picture(name, path, 0, 0, "unreadable", taken.lost[name])
        else:
            pictures[name] = _picture(name, path, *next(seen))
    placed = [p for p in pictures.values() if p.pose is not None]
    components = (_component(taken, placed),) if placed else ()
    scale = Scale(1.0, "known" if taken.known else "none", 0.0, len(placed) if taken.known else 0)
    report = {
        "version": __version__,
        "network": taken.variant,
        "pictures": len(pictures),
        "placed": len(placed),
        "unreadable": dict(taken.lost),
        "windows": [asdict(w) for w in taken.windows],
        "timing_ms": dict(taken.timing),
    }
    return Scene(pictures, components, scale, report)


def lens_of(view: View) -> Lens:
    """The camera of a view for the picture as given."""
    k = view.transform.intrinsics_to_original(view.intrinsics)
    t = view.transform
    return Lens("PINHOLE", t.original_width, t.original_height, (k[0, 0], k[1, 1], k[0, 2], k[1, 2]))


def _picture(name: str, path: Path, image: U8, view: View) -> Picture:
    height, width = image.shape[:2]
    if not view.intrinsics.any():
        return Picture(name, path, width, height, "unstable", "the network knows no cameras")
    good = np.isfinite(view.depth) & (view.depth > 0) & np.isfinite(view.conf)
    depth = DepthMap(view.depth, view.conf, good, small(image, view.transform), view.transform)
    rays = None
    if view.rays is not None and view.ray_conf is not None:
        rays = RayMap(view.rays[..., :3], view.rays[..., 3:], view.ray_conf)
    return Picture(
        name, path, width, height, "placed", component=0, pose=view.pose, lens=lens_of(view), depth=depth,
        rays=rays,
    )  # fmt: skip


def _component(taken: Taken, placed: list[Picture]) -> Component:
    order = {name: i for i, name in enumerate(taken.names)}
    none = np.zeros(0, np.int64)
    model = Model(
        np.array([order[p.name] for p in placed]),
        np.array([inv(p.pose) for p in placed if p.pose is not None]),
        tuple(p.lens for p in placed if p.lens is not None),
        np.zeros((0, 3)), np.zeros((0, 3), np.uint8), none, none, np.zeros((0, 2)), taken.variant,
    )  # fmt: skip
    return Component(tuple(p.name for p in placed), taken.variant, "", model)
