# SPDX-License-Identifier: Apache-2.0
"""The pose of a new picture in a scene that is solved."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._engine.engine import Engine
from .._pictures import header as photos
from .._pictures.reading import ImageLike, read_image
from .._results.geometry import network_focal
from .._results.results import InferenceResult
from ..errors import ArgumentError, Mast3rError, SceneError, quoted
from .model import F64, Lens
from .problem import pycolmap
from .resection import absolute_pose
from .solver import LEAST_SHARE

if TYPE_CHECKING:
    from .parts import Picture
    from .scene import Scene

__all__ = ["Located", "localize"]

LEAST = 30  # inliers
NEAREST = 10  # pictures that are matched
STRIDE = 8


@dataclass(frozen=True)
class Located:
    """Where a picture was taken, or why that is not known.

    ``pose [4, 4]`` is world from camera, None with the ``reason`` "no_overlap" where fewer than 30
    matches agree on one; ``covariance [6, 6]`` that of its inverse (rotation before translation).
    ``best`` is the placed picture it matched best, ``component`` the component that is the world.
    """

    pose: F64 | None
    intrinsics: F64 | None
    inliers: int
    matches: int
    best: str
    reason: str = ""
    covariance: F64 | None = None
    component: int = -1


def localize(scene: Scene, engine: Engine, image: ImageLike, lens: Lens | None = None) -> Located:
    """Match a picture with placed ones, and solve its pose from their dense points.

    Parameters
    ----------
    lens : Lens, optional
        The camera, in original pixels. Else its focal length comes from EXIF, from the scene's
        camera where the sizes are equal and shared, or from the network's points.

    Raises
    ------
    SceneError
        The scene has no dense points to match with.
    """
    pycolmap("localize")  # before the work, in case it is missing
    candidates = [p for p in scene.placed if p.depth is not None and p.status == "placed"]
    if not candidates:
        raise SceneError("localize: the scene has no placed pictures with dense depth")
    query = read_image(image)
    encoded = engine.encode(query)
    focals: list[float] = []
    found: dict[str, tuple[F64, F64]] = {}
    for p in candidates if len(candidates) <= 40 else _spread(candidates, 40):
        result = engine.decode(encoded, engine.encode(str(_present(p)))).numpy()
        with suppress(Mast3rError):  # points that say no focal length
            focals.append(network_focal(result))
        found[p.name] = _lifted(engine, result, p)
    names = sorted(found, key=lambda n: -len(found[n][0]))[:NEAREST]
    height, width = query.shape[:2]
    camera = lens or _lens(scene, image, width, height, focals)
    unit = float(np.mean(encoded.transform.scale)) / 2
    best = Located(None, None, 0, 0, names[0] if names else "", "no_overlap")
    for component in sorted({scene.pictures[n].component for n in names}):
        own = [n for n in names if scene.pictures[n].component == component]
        xy, xyz = (np.concatenate([found[n][k] for n in own]) for k in (0, 1))
        located = _solve(camera, unit, xy, xyz, lens is None, own[0], component)
        if located.inliers > best.inliers:
            best = located
    return best


def _present(p: Picture) -> Path:
    if not p.path.is_file():
        raise SceneError(f"localize: picture {quoted(p.name)} of the scene is no longer at {p.path}")
    return p.path


def _spread(pictures: Sequence[Picture], count: int) -> list[Picture]:
    """So many of them, evenly over the order of their names."""
    return [pictures[int(i)] for i in np.linspace(0, len(pictures) - 1, count)]


def _lifted(engine: Engine, result: InferenceResult, p: Picture) -> tuple[F64, F64]:
    """Pixels of the query and the world points that a placed picture has at their matches."""
    matches = engine.match(result, top_k=0, subsample=STRIDE, both_ways=False, refine=False)
    points, _ = p.dense()
    x, y = (np.rint(matches.pts2d_2[:, k]).astype(np.intp) for k in (0, 1))
    inside = (x >= 0) & (y >= 0) & (x < points.shape[1]) & (y < points.shape[0])
    xyz = points[y[inside], x[inside]].astype(np.float64)
    good = np.isfinite(xyz).all(1)
    return matches.original_1[inside][good], xyz[good]


def _lens(scene: Scene, image: ImageLike, width: int, height: int, focals: Sequence[float]) -> Lens:
    for p in scene.placed:
        if p.lens is not None and (p.width, p.height) == (width, height):
            shared = {q.lens for q in scene.placed if (q.width, q.height) == (width, height)}
            if len(shared) == 1:
                return p.lens
    focal = None
    if isinstance(image, (str, os.PathLike)):
        focal = photos.read("query", Path(image)).focal
    if focal is None:
        if not focals:
            raise ArgumentError("localize: no focal length from the points; give the camera")
        focal = float(np.median(focals))
    return Lens("SIMPLE_PINHOLE", width, height, (focal, (width - 1) / 2, (height - 1) / 2))


def _solve(lens: Lens, unit: float, xy: F64, xyz: F64, refine: bool, best: str, component: int) -> Located:
    nothing = Located(None, None, 0, len(xy), best, "no_overlap", None, component)
    found = absolute_pose(lens, unit, xy, xyz, refine) if len(xy) >= LEAST else None
    if found is None:
        return nothing
    if found.inliers < LEAST or found.inliers < LEAST_SHARE * len(xy):
        return replace(nothing, inliers=found.inliers)
    return Located(
        np.asarray(np.linalg.inv(found.pose)), found.lens.matrix(), found.inliers, len(xy), best, "",
        found.covariance, component,
    )  # fmt: skip
