# SPDX-License-Identifier: Apache-2.0
"""Where the world's origin is, which way is down, and how long a metre is.

Bundle adjustment leaves seven numbers free. The origin goes to the camera with most
observations; the world is turned so that down is +y (OpenCV's axes), taking for level the plane
that the cameras' x axes lie in, because people hold cameras level; and lengths are scaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._results.results import Transform
from ..errors import SceneError
from .model import F64, Model

__all__ = ["Ratios", "Scale", "depth_ratios", "level", "misfit", "network_scale", "place", "scale_of_places"]

Ratios = Mapping[int, tuple[F64, F64]]  # see depth_ratios

# A component of which so large a share, and so many, are seen at another size by this factor is torn.
OTHER_SIZE, SHARE_OFF, LEAST_OFF = 2.0, 0.25, 3


@dataclass(frozen=True)
class Scale:
    """What a length of 1 is worth.

    ``source`` is "network" (metres as the network guessed them: its training data's idea of size,
    not verified), "known" (from the user), "poses" (those of the given poses) or "none" (arbitrary
    units). ``spread`` is how far the pictures differ, as a share; it says nothing of an error that
    they share.
    """

    value: float
    source: str
    spread: float
    pictures: int

    @property
    def unit(self) -> str:
        return "units" if self.source in ("none", "poses") else "m"

    def sentence(self) -> str:
        """For people."""
        if self.source == "known":
            return "Scale given by the user."
        if self.source == "poses":
            return "The world and its lengths are those of the given poses."
        if self.source == "none":
            return "Lengths are in arbitrary units."
        return (
            "Scale guessed by the network: true lengths are unknown, indoors often off by a third, "
            f"outdoors 5 to 30 times longer (the {self.pictures} pictures agree to {self.spread:.0%}, "
            "which does not say that they are right). --scale-from gives metres."
        )


def depth_ratios(
    model: Model, depth: Mapping[int, npt.NDArray[np.floating[Any]]], transforms: Mapping[int, Transform]
) -> dict[int, tuple[F64, F64]]:
    """For each picture the network pixels ``[m, 2]`` of its points and log(solved / network depth)."""
    lengths = model.track_lengths()[model.seen]
    least = 2 if len(model.pictures) == 2 else 3
    out = {}
    for k, i in enumerate(int(p) for p in model.pictures):
        own = (model.seen_by == i) & (lengths >= least)
        if i not in depth or not own.any():
            continue
        xy = transforms[i].to_network(model.seen_at[own])
        z = model.points[model.seen[own]] @ model.poses[k, 2, :3] + model.poses[k, 2, 3]
        height, width = depth[i].shape
        x = np.clip(np.rint(xy[:, 0]), 0, width - 1).astype(np.intp)
        y = np.clip(np.rint(xy[:, 1]), 0, height - 1).astype(np.intp)
        network = depth[i][y, x].astype(np.float64)
        good = (network > 0) & (z > 0) & np.isfinite(network)
        out[i] = (xy[good], np.log(z[good] / network[good]))
    return out


def _log_scales(ratios: Ratios) -> F64:
    """log(network / solved depth) of every picture that says it."""
    return np.array([-np.median(r) for _, r in ratios.values() if len(r) >= 10])


def misfit(ratios: Ratios) -> str:
    """Why a component cannot be one rigid scene, by the network's sizes; empty where it may be.

    A mapper can join parts of different sizes. Each part's points hold its pictures, so no count of
    observations shows it; but the network sees things of one size in all of them.
    """
    logs = _log_scales(ratios)
    off = int((np.abs(logs - np.median(logs)) > np.log(OTHER_SIZE)).sum()) if len(logs) else 0
    if off < max(LEAST_OFF, SHARE_OFF * len(logs)):
        return ""
    return (
        f"its parts differ in size: by the network's depth {off} of {len(logs)} pictures are off by a "
        f"factor of {OTHER_SIZE:g} or more; try a graph with more pairs"
    )


def network_scale(ratios: Ratios) -> Scale:
    """The factor that brings solved depths to the network's: median over pictures."""
    logs = _log_scales(ratios)
    if not len(logs):
        return Scale(1.0, "none", 0.0, 0)
    middle = float(np.median(logs))
    spread = 1.4826 * float(np.median(np.abs(logs - middle)))
    return Scale(float(np.exp(middle)), "network", spread, len(logs))


def scale_of_places(model: Model, places: Mapping[int, F64]) -> Scale:
    """The factor by which cameras lie as far apart as ``places [3]`` in metres say: median over pairs."""
    rows = [(k, places[int(i)]) for k, i in enumerate(model.pictures) if int(i) in places]
    if len(rows) < 2:
        raise SceneError(f"scale: {len(rows)} of the placed pictures have a place in metres, want 2")
    ours, theirs = model.centres()[[k for k, _ in rows]], np.array([place for _, place in rows])
    i, j = np.triu_indices(len(rows), 1)
    gap, metres = (np.linalg.norm(x[i] - x[j], axis=1) for x in (ours, theirs))
    good = (gap > 1e-12) & (metres > 1e-12)
    if not good.any():
        raise SceneError("scale: all places in metres are one")
    logs = np.log(metres[good] / gap[good])
    middle = float(np.median(logs))
    spread = 1.4826 * float(np.median(np.abs(logs - middle)))
    return Scale(float(np.exp(middle)), "known", spread, len(rows))


def level(model: Model) -> F64:
    """A rotation after which down is +y. The identity where the cameras do not say.

    Down is the direction in which the cameras' x axes vary least. It is only believed where it
    also lies near the cameras' own y axes, and where there are three pictures.
    """
    axes_x, axes_y = model.poses[:, 0, :3], model.poses[:, 1, :3]  # rows: camera axes in the world
    mean_y = axes_y.mean(0)
    if len(model.pictures) < 3 or np.linalg.norm(mean_y) < 0.3:
        return np.eye(3)
    values, vectors = np.linalg.eigh(axes_x.T @ axes_x / len(axes_x))
    down = vectors[:, 0] * np.sign(vectors[:, 0] @ mean_y)
    if values[1] < 4 * values[0] or down @ (mean_y / np.linalg.norm(mean_y)) < np.cos(np.deg2rad(35)):
        down = mean_y / np.linalg.norm(mean_y)  # all cameras look the same way: their y axes say
    return _turn(down, np.array([0.0, 1.0, 0.0]))


def _turn(source: F64, target: F64) -> F64:
    """The smallest rotation that brings one unit vector to another."""
    axis, cosine = np.cross(source, target), float(source @ target)
    if cosine < -1 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    x, y, z = axis
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + skew + skew @ skew / (1 + cosine))


def place(model: Model, scale: float, levelled: bool = True) -> Model:
    """Scale, level, and put the origin at the camera with most observations, which looks along +z.

    Without levelling the world has the axes of that camera.
    """
    counts = [int((model.seen_by == i).sum()) for i in model.pictures]
    base = int(np.argmax(counts))
    centre = model.centres()[base]
    if not levelled:
        turn = model.poses[base, :3, :3]
        return model.moved(scale, turn, -scale * turn @ centre)
    turn = level(model)
    forward = turn @ model.poses[base, 2, :3]
    heading = np.arctan2(forward[0], forward[2])
    c, s = np.cos(heading), np.sin(heading)
    turn = np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]]) @ turn
    return model.moved(scale, turn, -scale * turn @ centre)
