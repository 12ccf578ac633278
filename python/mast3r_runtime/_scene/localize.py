# SPDX-License-Identifier: Apache-2.0
"""The pose of a new picture in a scene that is solved.

Matches begin at the placed pictures' own key points, so most of their other ends are solved points,
exact ones; matches elsewhere take their place from dense depth, and only help to find the pose.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .._engine.engine import Engine
from .._engine.features import Features
from .._pictures import header as photos
from .._pictures.reading import ImageLike, read_image
from .._results.geometry import network_focal
from ..errors import ArgumentError, Mast3rError, SceneError, shown
from .model import F64, Lens, check_lens
from .problem import pycolmap
from .resection import AbsolutePose, absolute_pose

if TYPE_CHECKING:
    from .parts import Picture
    from .scene import Scene

__all__ = ["Located", "localize"]

_log = logging.getLogger("mast3r_runtime")

LEAST = 30  # inliers
LEAST_SHARE = 0.25  # of the matches with one picture, where there are few inliers
ENOUGH = 60  # inliers that count whatever their share
NEAREST = 10  # pictures whose matches are used
STRIDE = 8
SAME_PIXEL = 0.01  # original pixels: a key point and the match that begins at it
OTHER_LENS = 1.1  # times the focal length of the scene's camera, from which EXIF names another
# How much less the misfit must be for a focal length to move from where it is known, and from where on it
# is a rival.
BETTER, RIVAL = 0.15, 0.03
MOST_SPREAD = 0.5  # units: the solved points of a camera that is no pinhole about its middle lie farther off
OFF_GUESS = 1.5  # times the network's focal length, beyond which that of the matches is not believed
EXIF_WIDTH = 0.025  # of a focal length from EXIF, one standard deviation
# Errors are not independent, and some share a sign: places are so many times less sure than points say.
OPTIMISM = 2.0
MOST_UNSURE = 0.03  # of the distance to what is seen, beyond which a place is none


@dataclass(frozen=True)
class Located:
    """Where a picture was taken, or why that is not known.

    ``pose [4, 4]`` is world from camera. It is None with the ``reason`` "no_overlap" where fewer than 30
    matches agree on one, and "unsure" where more agree but leave its place open by more than 3 % of
    the distance to what it shows, fit two focal lengths, each from another place, or fit none well,
    as those of a part that was cut out of a picture. ``covariance [6, 6]`` is that of its inverse
    (rotation in radians before translation), ``interval`` how far off its place may be in 95 of 100
    cases, in the scene's unit, as far as the matches say. ``best`` is the placed picture it matched
    best, ``component`` the component that is the world. ``focal_from`` says where the focal length is
    from: "given", "scene", "exif" or "points".
    """

    pose: F64 | None
    intrinsics: F64 | None
    inliers: int
    matches: int
    best: str
    reason: str = ""
    covariance: F64 | None = None
    component: int = -1
    interval: float | None = None
    focal_from: str = ""


@dataclass(frozen=True)
class _Seen:
    """Pixels ``[N, 2]`` of the new picture, the world points ``[N, 3]`` there, and which are solved ones."""

    xy: F64
    xyz: F64
    exact: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.xy)


def localize(scene: Scene, engine: Engine, image: ImageLike, lens: Lens | None = None) -> Located:
    """Match a picture with placed ones, and solve its pose from their points.

    Parameters
    ----------
    lens : Lens, optional
        The camera, in original pixels. Else the scene's camera is tried, where the shapes are equal,
        the focal length of EXIF, and that of the network's points, and what fits the matches best is kept.

    Raises
    ------
    SceneError
        The scene has no dense points to match with.
    """
    pycolmap("localize")  # before the work, in case it is missing
    candidates = [p for p in scene.placed if p.depth is not None and p.status == "placed"]
    if not candidates:
        raise SceneError("localize: the scene has no placed pictures with dense depth")
    candidates = _readable(candidates if len(candidates) <= 40 else _spread(candidates, 40))
    told = None  # the focal length in EXIF
    if lens is not None:
        check_lens(lens, "localize: camera")
    elif isinstance(image, (str, os.PathLike)):
        header = photos.read(os.path.basename(image), Path(image))
        photos.need_pinhole([header])
        told = header.focal
    query = read_image(image)
    height, width = query.shape[:2]
    if lens is not None and (lens.width, lens.height) != (width, height):
        raise ArgumentError(
            f"localize: a camera for {lens.width} x {lens.height} pixels, the picture has {width} x {height}"
        )
    encoded = engine.encode(query)
    found = {p.name: _matched(scene, engine, p, query, encoded) for p in candidates}
    names = [n for n in sorted(found, key=lambda n: -len(found[n]))[:NEAREST] if len(found[n])]
    best = Located(None, None, 0, 0, names[0] if names else "", "no_overlap")
    if not names:
        return best
    starts = list(_lenses(scene, engine, told, query, encoded, names, lens))
    unit = float(np.mean(encoded.transform.scale)) / 2
    for component in sorted({scene.pictures[n].component for n in names}):
        own = [n for n in names if scene.pictures[n].component == component]
        located = _located(starts, unit, {n: found[n] for n in own}, component)
        if located.inliers > best.inliers:
            best = located
    return best


def _readable(pictures: Sequence[Picture]) -> list[Picture]:
    """Those whose files can still be read; the log says of the others why not. SceneError for none."""
    problems = {p.name: photos.read(p.name, p.path).problem for p in pictures}
    lost = [f"{shown(name)} ({why})" for name, why in problems.items() if why]
    if len(lost) == len(pictures):
        raise SceneError(f"localize: no picture of the scene can be read any more, such as {lost[0]}")
    if lost:
        _log.warning("localize: %d pictures of the scene left out: %s", len(lost), ", ".join(lost[:5]))
    return [p for p in pictures if not problems[p.name]]


def _spread(pictures: Sequence[Picture], count: int) -> list[Picture]:
    """So many of them, evenly over the order of their names."""
    return [pictures[int(i)] for i in np.linspace(0, len(pictures) - 1, count)]


def _matched(
    scene: Scene, engine: Engine, p: Picture, query: npt.NDArray[np.uint8], encoded: Features
) -> _Seen:
    """The matches of a placed picture that have a place in the world."""
    pixels = read_image(p.path)
    result = engine.decode(engine.encode(pixels), encoded).numpy()
    stride = int(scene.report.get("stride", STRIDE))
    matches = engine.match(
        result, top_k=0, subsample=stride, both_ways=False, images=(pixels, query), refine=True
    )
    xyz = _solved_points(scene, p, matches.original_1.astype(np.float64))
    exact = np.asarray(np.isfinite(xyz).all(axis=1))
    dense = np.asarray(p.dense()[0], np.float64)
    x, y = (np.rint(matches.pts2d_1[:, k]).astype(np.intp) for k in (0, 1))
    inside = ~exact & (x >= 0) & (y >= 0) & (x < dense.shape[1]) & (y < dense.shape[0])
    xyz[inside] = dense[y[inside], x[inside]]
    good = np.asarray(np.isfinite(xyz).all(axis=1))
    return _Seen(matches.original_2[good].astype(np.float64), xyz[good], exact[good])


def _solved_points(scene: Scene, p: Picture, xy: F64) -> F64:
    """The solved points ``[N, 3]`` whose key points in a picture are these pixels, NaN for the others."""
    out = np.full((len(xy), 3), np.nan)
    model = scene.components[p.component].model
    own = np.flatnonzero(model.seen_by == list(scene.pictures).index(p.name))
    if not len(own) or not len(xy):
        return out
    keys, at = (np.rint(v / SAME_PIXEL).astype(np.int64) for v in (model.seen_at[own], xy))
    place = {(int(x), int(y)): k for k, (x, y) in enumerate(keys)}
    for n, (x, y) in enumerate(at):
        k = place.get((int(x), int(y)))
        if k is not None:
            out[n] = model.points[model.seen[own[k]]]
    return out


def _lenses(
    scene: Scene,
    engine: Engine,
    told: float | None,
    query: npt.NDArray[np.uint8],
    encoded: Features,
    names: Sequence[str],
    lens: Lens | None,
) -> Iterator[tuple[str, Lens]]:
    """The cameras to try, with where each is from; a given one alone. ``told`` is EXIF's focal length."""
    height, width = query.shape[:2]
    if lens is not None:
        yield "given", lens
        return
    cameras = [p.lens for p in scene.placed if p.lens is not None]
    fitting = [own for c in cameras if (own := _fitted(c, width, height)) is not None]
    fitting = [lens for lens, _ in Counter(fitting).most_common()]
    if told is not None:
        fitting = [f for f in fitting if 1 / OTHER_LENS < told / f.focal < OTHER_LENS]
        if not fitting:
            yield "exif", _pinhole(width, height, told)
    for own in fitting[:3]:
        yield "scene", own
    if told is not None:
        return
    focals = []
    for name in names[:3]:
        result = engine.decode(encoded, engine.encode(str(scene.pictures[name].path))).numpy()
        with suppress(Mast3rError):  # points that say no focal length
            focals.append(network_focal(result))
    if not focals and not fitting:
        raise ArgumentError("localize: no focal length from the points; give the camera")
    if focals:
        yield "points", _pinhole(width, height, float(np.median(focals)))


def _pinhole(width: int, height: int, focal: float) -> Lens:
    return Lens("SIMPLE_PINHOLE", width, height, (focal, (width - 1) / 2, (height - 1) / 2))


def _fitted(lens: Lens, width: int, height: int) -> Lens | None:
    """A camera of the scene, scaled or turned, for a picture of this size; None for another shape."""
    for own in (lens, lens.turned()):
        scale = width / own.width
        if abs(own.height * scale - height) <= 1:
            moved = own.moved((scale - 1) / 2, scale)
            return replace(moved, width=width, height=height)
    return None


def _located(
    starts: Sequence[tuple[str, Lens]], unit: float, seen: dict[str, _Seen], component: int
) -> Located:
    """The pose that fits the matches best, of all cameras to start from."""
    xy, xyz = (np.concatenate([getattr(s, k) for s in seen.values()]) for k in ("xy", "xyz"))
    exact = np.concatenate([s.exact for s in seen.values()])
    name = next(iter(seen))
    tried: list[tuple[AbsolutePose, str]] = []
    for source, lens in starts if len(xy) >= LEAST else ():
        for free in (False, True) if source in ("exif", "scene") else (source == "points",):
            found = absolute_pose(lens, unit, xy, xyz, free, exact)
            if found is not None:
                tried.append((found, "points" if free else source))
    if not tried:
        return Located(None, None, 0, len(xy), name, "no_overlap", None, component)
    tried.sort(key=lambda t: t[0].misfit + (BETTER if t[1] == "points" else 0.0))
    # Where the points leave the focal length open, it is that of EXIF.
    chosen = [tried[0], *(t for t in tried[1:] if t[1] == "exif")]
    guess = next((lens.focal for told, lens in starts if told == "points"), None)
    for pose, source in chosen:
        radius, share = _unsure(pose, xyz)
        far_off = guess is not None and not 1 / OFF_GUESS < pose.lens.focal / guess < OFF_GUESS
        loose = source == "points" and (pose.spread > MOST_SPREAD or far_off)
        rivals = source == "scene" and _rivals(pose, tried, radius / share)
        if not (share > MOST_UNSURE or loose or rivals):
            break
    else:
        pose, source = tried[0]
        reason = "unsure" if _enough(pose, seen) else "no_overlap"
        return Located(None, None, pose.inliers, len(xy), name, reason, None, component)
    if not _enough(pose, seen):
        return Located(None, None, pose.inliers, len(xy), name, "no_overlap", None, component)
    if source == "exif":  # a place moves along its view as the focal length does
        radius = float(np.hypot(radius, 2 * EXIF_WIDTH * radius / share))
    return Located(
        np.asarray(np.linalg.inv(pose.pose)), pose.lens.matrix(), pose.inliers, len(xy), name, "",
        pose.covariance, component, radius, source,
    )  # fmt: skip


def _rivals(pose: AbsolutePose, tried: Sequence[tuple[AbsolutePose, str]], depth: float) -> bool:
    """Whether another focal length fits a little better, from another place: a zoom, or a step ahead."""
    places = [
        -other.pose[:3, :3].T @ other.pose[:3, 3] for other, _ in tried if other.misfit < pose.misfit - RIVAL
    ]
    own = -pose.pose[:3, :3].T @ pose.pose[:3, 3]
    return any(float(np.linalg.norm(place - own)) > MOST_UNSURE * depth for place in places)


def _enough(pose: AbsolutePose, seen: dict[str, _Seen]) -> bool:
    """Whether so many matches agree, of one picture if they are few: most of the others need not overlap."""
    if pose.inliers >= ENOUGH:
        return True
    at = 0
    share = 0.0
    for own in seen.values():
        share = max(share, float(pose.fits[at : at + len(own)].mean()) if len(own) >= 10 else 0.0)
        at += len(own)
    return pose.inliers >= LEAST and share >= LEAST_SHARE


def _unsure(pose: AbsolutePose, xyz: F64) -> tuple[float, float]:
    """How far off the place may be (95 %), and that as a share of the distance to the points."""
    if pose.covariance is None or not pose.fits.any():
        return np.inf, np.inf
    turn, shift = pose.pose[:3, :3], pose.pose[:3, 3]
    # the centre is -R' t: it moves by R' (d x t - dt) for a turn d and a shift dt of the pose
    x, y, z = shift
    jacobian = -turn.T @ np.hstack([[[0, -z, y], [z, 0, -x], [-y, x, 0]], np.eye(3)])
    place = jacobian @ pose.covariance @ jacobian.T
    radius = 2.0 * OPTIMISM * float(np.sqrt(max(np.linalg.eigvalsh(place).max(), 1e-24)))
    depth = float(np.median((xyz[pose.fits] @ turn.T + shift)[:, 2]))
    return radius, radius / max(depth, 1e-12)
