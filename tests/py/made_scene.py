# SPDX-License-Identifier: Apache-2.0
"""Scenes of exact numbers, without a network: points, cameras, and the matches they make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mast3r_runtime._scene.evidence import PairMatches
from mast3r_runtime._scene.model import Lens
from mast3r_runtime._scene.problem import Problem
from mast3r_runtime._scene.tracks import key_points

WIDTH, HEIGHT, FOCAL = 640, 480, 520.0


@dataclass
class Made:
    """World points, world-from-camera poses ``[n, 4, 4]``, and matches of pairs."""

    points: np.ndarray
    poses: np.ndarray
    lens: Lens
    pairs: list[PairMatches]

    def problem(self, focal: float = FOCAL, **options: object) -> Problem:
        """All pictures share one camera whose focal length is first guessed as ``focal``."""
        count = len(self.poses)
        first = Lens(self.lens.model, WIDTH, HEIGHT, (focal, *self.lens.params[1:]))
        values: dict[str, object] = {
            "names": [f"{i:02d}.jpg" for i in range(count)],
            "keys": key_points(count, self.pairs),
            "lenses": (first,),
            "camera_of": (0,) * count,
            "fixed": frozenset(),
            "known": {},
            "network_pixel": (2.0,) * count,
            "threads": 1,
            **options,
        }
        return Problem(**values)  # type: ignore[arg-type]


def arc(count: int, reach: float = 2.0) -> np.ndarray:
    """Cameras on an arc that look at the middle of the points."""
    poses = []
    for i in range(count):
        a = (i / max(count - 1, 1) - 0.5) * reach / 2
        c, s = np.cos(-a), np.sin(-a)
        pose = np.eye(4)
        pose[:3, :3] = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
        pose[:3, 3] = [5 * np.sin(a), 0.3 * np.sin(3 * a), 5 - 5 * np.cos(a)]
        poses.append(pose)
    return np.array(poses)


def turning(count: int) -> np.ndarray:
    """A camera that turns on the spot."""
    poses = arc(count)
    poses[:, :3, 3] = 0
    return poses


def project(lens: Lens, pose: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    local = (points - pose[:3, 3]) @ pose[:3, :3]
    xy = lens.pixels(local)
    inside = (local[:, 2] > 0.1) & (xy > -0.5).all(1) & (xy < (WIDTH - 0.5, HEIGHT - 0.5)).all(1)
    return xy, inside


def make(
    poses: np.ndarray,
    points: int = 400,
    noise: float = 0.0,
    wrong: float = 0.0,
    window: int | None = None,
    seed: int = 0,
    model: str = "SIMPLE_PINHOLE",
    extra: tuple[float, ...] = (),
) -> Made:
    """Matches of every pair, or those ``window`` apart: ``noise`` in pixels, a share ``wrong``."""
    made = np.random.default_rng(seed)
    lens = Lens(model, WIDTH, HEIGHT, (FOCAL, (WIDTH - 1) / 2, (HEIGHT - 1) / 2, *extra))
    xyz = made.uniform((-2.2, -1.5, 3.5), (2.2, 1.5, 6.5), (points, 3))
    seen = []
    for pose in poses:
        xy, inside = project(lens, pose, xyz)
        seen.append((xy + noise * made.normal(size=xy.shape), inside))
    pairs = []
    for i in range(len(poses)):
        for j in range(i + 1, len(poses)):
            if window is not None and j - i > window:
                continue
            both = np.flatnonzero(seen[i][1] & seen[j][1])
            partner = both.copy()
            off = made.random(len(both)) < wrong
            partner[off] = made.permutation(partner[off])
            one, two = seen[i][0][both], seen[j][0][partner]
            pairs.append(PairMatches(i, j, one.astype(np.float32), two.astype(np.float32)))
    return Made(xyz, poses, lens, pairs)


def position_errors(poses: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, float]:
    """Distances of centres ``[n, 3]`` after the best similarity, and its scale."""
    a, b = poses - poses.mean(0), truth - truth.mean(0)
    u, s, vt = np.linalg.svd(b.T @ a)
    e = np.diag([1, 1, np.sign(np.linalg.det(u @ vt))])
    scale = float((s * np.diag(e)).sum() / (a**2).sum())
    return np.linalg.norm(b - scale * a @ (u @ e @ vt).T, axis=1), scale
