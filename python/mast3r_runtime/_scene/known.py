# SPDX-License-Identifier: Apache-2.0
"""A collection in the wheel whose truth is known: eight rendered views of the demo's room.

They are rendered by ``benchmarks/scene_views.py`` in the repository; cameras and surfaces are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .model import F64

if TYPE_CHECKING:
    from .scene import Scene

__all__ = ["FOLDER", "Errors", "paths", "rate", "similarity"]

FOLDER = Path(__file__).resolve().parents[1] / "pictures" / "scene"


@dataclass(frozen=True)
class Errors:
    """How far a scene of the known views is from their truth, after the best similarity.

    Positions and ``extent`` are in metres; ``focal`` and ``dense`` are relative: of the focal
    length, and the median of depth over the pixels that the scene keeps. NaN where nothing is known.
    """

    placed: int
    pictures: int
    position: float
    extent: float
    focal: float
    dense: float

    def text(self) -> str:
        return (
            f"{self.placed} of {self.pictures} pictures placed; position error {1000 * self.position:.1f} mm "
            f"of {self.extent:.2f} m, focal length {self.focal:+.2%}, dense depth {self.dense:.1%}"
        )


def paths() -> list[Path]:
    """The pictures, in order."""
    return sorted(FOLDER.glob("room_*.jpg"))


def rate(scene: Scene) -> Errors:
    """Compare a scene of these pictures with the truth."""
    with np.load(FOLDER / "truth.npz") as archive:
        poses, k, surfaces = (archive[n] for n in ("world_from_camera", "intrinsics", "surfaces"))
    number = {path.name: i for i, path in enumerate(paths())}
    own = [p for p in scene.placed if p.component == 0 and p.name in number]
    nothing = float("nan")
    extent = float(np.ptp(poses[:, :3, 3], axis=0).max())
    if len(own) < 3:
        return Errors(len(own), len(number), nothing, extent, nothing, nothing)
    true = np.array([poses[number[p.name]] for p in own])
    estimated = np.array([p.pose for p in own])
    scale, turn, shift = similarity(estimated[:, :3, 3], true[:, :3, 3])
    left = scale * estimated[:, :3, 3] @ turn.T + shift - true[:, :3, 3]
    dense = []
    for p, pose in zip(own, true):
        if p.depth is None or not p.depth.keep.any():
            continue
        y, x = np.nonzero(p.depth.keep)
        y, x = y[::7], x[::7]
        xy = p.depth.transform.to_original(np.stack([x, y], 1))
        exact = _depth(surfaces, pose, k, xy)
        dense.append(np.median(np.abs(scale * p.depth.depth[y, x] - exact) / exact))
    focals = [p.lens.focal for p in own if p.lens is not None]
    return Errors(
        len(own), len(number), float(np.sqrt((left**2).sum(1).mean())), extent,
        float(np.median(focals) / k[0, 0] - 1), float(np.median(dense)) if dense else nothing,
    )  # fmt: skip


def similarity(source: F64, target: F64) -> tuple[float, F64, F64]:
    """Scale, rotation and translation that bring points ``[n, 3]`` nearest to others (Umeyama)."""
    a, b = source - source.mean(0), target - target.mean(0)
    u, s, vt = np.linalg.svd(b.T @ a)
    sign = np.diag([1, 1, np.sign(np.linalg.det(u @ vt))])
    turn = u @ sign @ vt
    scale = float((s * np.diag(sign)).sum() / (a**2).sum())
    return scale, turn, target.mean(0) - scale * turn @ source.mean(0)


def _depth(surfaces: F64, pose: F64, k: F64, xy: npt.NDArray[np.floating]) -> F64:
    """Exact depth at pixels: the nearest of the parallelograms (corner, u, v) along each ray."""
    rays = np.concatenate([xy, np.ones((len(xy), 1))], 1) @ np.linalg.inv(k).T @ pose[:3, :3].T
    best = np.full(len(rays), np.inf)
    for corner, u, v in surfaces:
        normal = np.cross(u, v)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = ((corner - pose[:3, 3]) @ normal) / (rays @ normal)
            at = pose[:3, 3] + rays * t[:, None] - corner
        a, b = at @ u / (u @ u), at @ v / (v @ v)
        hit = (t > 1e-6) & (t < best) & (a >= 0) & (a <= 1) & (b >= 0) & (b <= 1)
        best[hit] = t[hit]
    return best
