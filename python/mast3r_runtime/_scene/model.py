# SPDX-License-Identifier: Apache-2.0
"""A solved component as arrays, independent of the solver that made it."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .._library.cameras import check_pinhole
from ..errors import ArgumentError, checked

__all__ = ["CAMERA_MODELS", "QUARTER", "Lens", "Model", "check_lens", "check_pose", "project"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

# COLMAP's numbers and parameters of the camera models that are used here.
CAMERA_MODELS = {
    "SIMPLE_PINHOLE": (0, ("f", "cx", "cy")),
    "PINHOLE": (1, ("fx", "fy", "cx", "cy")),
    "SIMPLE_RADIAL": (2, ("f", "cx", "cy", "k1")),
    "OPENCV": (4, ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2")),
}

_BENT = ("k1", "k2", "p1", "p2")
LARGEST = 1 << 20  # pixels of a side
MOST_BENT = 2.0  # times as far from the middle as without distortion, or as near
STEPS = 20  # of Newton's method
GRID = 17  # places on a side at which distortion is tried
UNDONE = 0.01  # pixels
FARTHEST = 1e12
# The frame of a camera from that of its picture turned by 90 degrees: x is the picture's y.
QUARTER = np.array([[0.0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])


@checked
@dataclass(frozen=True)
class Lens:
    """A camera model of a picture of ``width x height``, whose pixel centres lie at whole numbers.

    (COLMAP's first pixel has its centre at 0.5: reading and writing its files moves cx and cy.)
    """

    model: str
    width: int
    height: int
    params: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.model not in CAMERA_MODELS:
            raise ArgumentError(f"camera model {self.model!r:.80}, want one of {', '.join(CAMERA_MODELS)}")
        want = CAMERA_MODELS[self.model][1]
        params = tuple(map(float, self.params))
        if len(params) != len(want):
            raise ArgumentError(f"camera {self.model}: {len(params)} parameters, want {', '.join(want)}")
        if not np.isfinite(params).all():
            raise ArgumentError(f"camera {self.model}: parameters {_text(params)}, want finite numbers")
        size = operator.index(self.width), operator.index(self.height)
        if not all(1 <= side <= LARGEST for side in size):
            raise ArgumentError(f"camera of {size[0]} x {size[1]} pixels, want 1 to {LARGEST} a side")
        object.__setattr__(self, "params", params)
        object.__setattr__(self, "width", size[0])
        object.__setattr__(self, "height", size[1])

    def named(self) -> dict[str, float]:
        """All parameters by the names of the OpenCV model; those the model lacks are 0."""
        own = dict(zip(CAMERA_MODELS[self.model][1], self.params, strict=True))
        f = own.pop("f", None)
        if f is not None:
            own["fx"] = own["fy"] = f
        return {name: own.get(name, 0.0) for name in CAMERA_MODELS["OPENCV"][1]}

    @property
    def focal(self) -> float:
        """The mean focal length in pixels."""
        n = self.named()
        return (n["fx"] + n["fy"]) / 2

    def matrix(self) -> F64:
        n = self.named()
        return np.array([[n["fx"], 0, n["cx"]], [0, n["fy"], n["cy"]], [0, 0, 1]])

    def moved(self, shift: float, scale: float = 1.0) -> Lens:
        """In pixels that are ``scale`` times as many, with the origin moved by ``-shift``."""
        out = [
            (p * scale + shift if name in ("cx", "cy") else p * scale if name in ("f", "fx", "fy") else p)
            for name, p in zip(CAMERA_MODELS[self.model][1], self.params, strict=True)
        ]
        return replace(self, params=tuple(out))

    def turned(self) -> Lens:
        """The lens of this camera's picture turned by :data:`QUARTER`: width and height change places."""
        n = self.named()
        other = {
            "f": n["fy"], "fx": n["fy"], "fy": n["fx"], "cx": self.height - 1 - n["cy"], "cy": n["cx"],
            "k": n["k1"], "k1": n["k1"], "k2": n["k2"], "p1": n["p2"], "p2": -n["p1"],
        }  # fmt: skip
        params = tuple(other[name] for name in CAMERA_MODELS[self.model][1])
        return Lens(self.model, self.height, self.width, params)

    def rays(self, xy: npt.ArrayLike) -> F64:
        """Rays ``[N, 3]`` with z = 1 through pixels ``[N, 2]``, distortion undone."""
        n, pixel = self.named(), np.asarray(xy, np.float64)
        target = (pixel - (n["cx"], n["cy"])) / (n["fx"], n["fy"])
        flat = target.copy()
        if any(n[k] for k in _BENT):
            with np.errstate(all="ignore"):
                for _ in range(STEPS):
                    flat = flat - _newton(flat, _distorted(flat, n) - target, n)
        return np.concatenate([flat, np.ones((len(flat), 1))], 1)

    def pixels(self, points: npt.ArrayLike) -> F64:
        """Pixels ``[N, 2]`` of points ``[N, 3]`` in the camera's frame."""
        n, xyz = self.named(), np.asarray(points, np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            flat = xyz[:, :2] / xyz[:, 2:]
        return np.asarray(_distorted(flat, n) * (n["fx"], n["fy"]) + (n["cx"], n["cy"]))


def check_lens(lens: Lens, who: str) -> None:
    """Raise ArgumentError for a camera that cannot have taken a picture of its size.

    Its focal length and principal point must be possible, and its distortion one that can be undone
    everywhere in the picture: a solver that is given another may never end.
    """
    n = lens.named()
    check_pinhole(n["fx"], n["fy"], n["cx"], n["cy"], (lens.width, lens.height), who)
    if not _can_be_undone(lens, n):
        values = ", ".join(f"{k} {n[k]:g}" for k in _BENT)
        raise ArgumentError(f"{who}: distortion {values}, which cannot be undone all over the picture")


def _can_be_undone(lens: Lens, n: dict[str, float]) -> bool:
    """Whether every pixel has one ray, on the way from the middle outwards without a fold."""
    if not any(n[k] for k in _BENT):
        return True
    x, y = (np.linspace(-0.5, side - 0.5, GRID) for side in (lens.width, lens.height))
    pixels = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
    flat = lens.rays(pixels)[:, :2]
    with np.errstate(all="ignore"):
        back = _distorted(flat, n) * (n["fx"], n["fy"]) + (n["cx"], n["cy"])
        if not np.abs(back - pixels).max() < UNDONE:  # NaN too
            return False
        target = (pixels - (n["cx"], n["cy"])) / (n["fx"], n["fy"])
        far, near = (np.linalg.norm(v, axis=1) for v in (target, flat))
        if not (far <= MOST_BENT * near + 1e-6).all() or not (near <= MOST_BENT * far + 1e-6).all():
            return False
        for share in np.linspace(0, 1, GRID):
            a, b, d = _jacobian(flat * share, n)
            if not (a * d - b * b > 0).all() or not (a + d > 0).all():
                return False
    return True


def check_pose(pose: npt.ArrayLike, who: str) -> F64:
    """The pose as ``float64 [4, 4]``. ArgumentError where it is no rotation and translation."""
    matrix = np.asarray(pose, np.float64)
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        raise ArgumentError(f"{who}: shape {list(matrix.shape)}, want [4, 4] of finite numbers")
    turn = np.clip(matrix[:3, :3], -9, 9)  # large ones are wrong, and squares of larger ones infinite
    off = max(float(np.abs(turn @ turn.T - np.eye(3)).max()), abs(float(np.linalg.det(turn)) - 1))
    if off > 0.01 or np.abs(matrix[3] - (0, 0, 0, 1)).max() > 1e-6:
        raise ArgumentError(f"{who}: no rotation and translation (off by {off:.2g})")
    if np.abs(matrix[:3, 3]).max() > FARTHEST:
        raise ArgumentError(f"{who}: a place {np.abs(matrix[:3, 3]).max():g} away, want up to {FARTHEST:g}")
    return matrix


def _text(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{v:g}" for v in numbers)


def _jacobian(flat: F64, n: dict[str, float]) -> tuple[F64, F64, F64]:
    """The derivative of the distortion, which is symmetric: xx, xy, yy."""
    x, y = flat[:, 0], flat[:, 1]
    r = x * x + y * y
    radial, slope = 1 + n["k1"] * r + n["k2"] * r * r, n["k1"] + 2 * n["k2"] * r
    p1, p2 = n["p1"], n["p2"]
    return (
        radial + 2 * x * x * slope + 2 * p1 * y + 6 * p2 * x,
        2 * x * y * slope + 2 * p1 * x + 2 * p2 * y,
        radial + 2 * y * y * slope + 6 * p1 * y + 2 * p2 * x,
    )


def _newton(flat: F64, off: F64, n: dict[str, float]) -> F64:
    """What to take away from rays whose distorted places are ``off``."""
    a, b, d = _jacobian(flat, n)
    det = a * d - b * b
    return np.stack([(d * off[:, 0] - b * off[:, 1]) / det, (a * off[:, 1] - b * off[:, 0]) / det], 1)


def _distorted(flat: F64, n: dict[str, float]) -> F64:
    if not any(n[k] for k in _BENT):
        return flat
    x, y = flat[:, 0], flat[:, 1]
    r = x * x + y * y
    radial = 1 + n["k1"] * r + n["k2"] * r * r
    return np.stack(
        [
            x * radial + 2 * n["p1"] * x * y + n["p2"] * (r + 2 * x * x),
            y * radial + n["p1"] * (r + 2 * y * y) + 2 * n["p2"] * x * y,
        ],
        1,
    )


@checked
@dataclass(frozen=True)
class Model:
    """Pictures with poses, points, and which pixel of which picture saw which point.

    ``pictures [n]`` are numbers in the caller's list, ``poses [n, 4, 4]`` camera from world.
    An observation k says that picture ``seen_by[k]`` (a number in the caller's list) saw point
    ``seen[k]`` at pixel ``seen_at[k]``.
    """

    pictures: I64
    poses: F64
    lenses: tuple[Lens, ...]
    points: F64
    colours: npt.NDArray[np.uint8]
    seen: I64
    seen_by: I64
    seen_at: F64
    mapper: str = ""

    def row(self, picture: int) -> int:
        """The row of a picture of the caller's list."""
        return int(np.flatnonzero(self.pictures == picture)[0])

    def track_lengths(self) -> I64:
        return np.bincount(self.seen, minlength=len(self.points))

    def centres(self) -> F64:
        """Camera centres ``[n, 3]`` in the world."""
        r, t = self.poses[:, :3, :3], self.poses[:, :3, 3]
        return np.asarray(-np.einsum("nji,nj->ni", r, t))

    def errors(self) -> F64:
        """Distance in pixels of every observation from its point's projection."""
        out = np.full(len(self.seen), np.inf)
        for k, picture in enumerate(self.pictures):
            own = self.seen_by == picture
            pixel = project(self.poses[k], self.lenses[k], self.points[self.seen[own]])
            out[own] = np.linalg.norm(pixel - self.seen_at[own], axis=1)
        return out

    def moved(self, scale: float, rotation: F64, translation: F64) -> Model:
        """In the world X' = scale * rotation X + translation."""
        if not all(np.isrealobj(v) and np.isfinite(v).all() for v in (scale, rotation, translation)):
            raise ArgumentError(f"moved: scale {scale}, rotation and translation, want finite numbers")
        poses = self.poses.copy()
        turn = np.einsum("nij,kj->nik", self.poses[:, :3, :3], rotation)
        poses[:, :3, :3] = turn
        poses[:, :3, 3] = scale * self.poses[:, :3, 3] - turn @ translation
        points = scale * self.points @ rotation.T + translation
        return replace(self, poses=poses, points=points)


def project(pose: F64, lens: Lens, points: F64) -> F64:
    """Pixels of world points in a picture."""
    return lens.pixels(points @ pose[:3, :3].T + pose[:3, 3])
