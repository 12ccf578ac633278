# SPDX-License-Identifier: Apache-2.0
"""What a scene is made of: pictures, points, components."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .._output import far
from .._pictures.arrays import U8
from ..errors import SceneError, checked, quoted
from .dense import DepthMap, RayMap
from .model import F64, Lens, Model

__all__ = ["TWIN", "Component", "Picture", "Points", "is_twin"]


@checked
@dataclass(frozen=True)
class Picture:
    """One picture of a collection.

    ``status`` is "placed", "unstable" (a pose, in a component without parallax or with large
    errors), "unmatched" or "unreadable"; ``reason`` says why it is not placed. ``pose [4, 4]`` is
    world from camera with OpenCV's axes (x right, y down, z forward). ``covariance [6, 6]`` is that
    of its inverse, rotation (radians) before translation, where it was asked for.
    """

    name: str
    path: Path
    width: int
    height: int
    status: str
    reason: str = ""
    component: int = -1
    pose: F64 | None = None
    lens: Lens | None = None
    covariance: F64 | None = None
    observations: int = 0
    reprojection: float = float("nan")  # median, original pixels
    depth: DepthMap | None = None
    rays: RayMap | None = None  # of infer_views, where asked for

    @property
    def intrinsics(self) -> F64 | None:
        """The camera matrix ``[3, 3]`` in original pixels, whose centres lie at whole numbers."""
        return None if self.lens is None else self.lens.matrix()

    def dense(self) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.float32]]:
        """Points ``[H, W, 3]`` in the world and confidence ``[H, W]``, at network size.

        Points are float32, or float64 where the world is so far from its origin that float32 would
        move them by more than a hundredth of what lies between them, as in coordinates of maps.

        Points that were not kept (too little confidence, or no neighbour agrees) are NaN.
        Raises SceneError for a picture without dense depth.
        """
        if self.depth is None or self.pose is None or self.lens is None:
            raise SceneError(f"picture {quoted(self.name)}: {self.status}, it has no dense depth")
        points = self.depth.camera_points(self.lens) @ self.pose[:3, :3].T + self.pose[:3, 3]
        points[~self.depth.keep] = np.nan
        return far.narrow(points), self.depth.confidence


TWIN = "the same file as "  # what the reason begins with


def is_twin(picture: Picture) -> bool:
    """Whether it is placed as a copy of another picture of the scene."""
    return picture.reason.startswith(TWIN)


@checked
@dataclass(frozen=True)
class Points:
    """Solved points of a component: ``xyz [N, 3]``, ``rgb``, mean ``error`` in original pixels."""

    xyz: F64
    rgb: U8
    error: F64
    track_length: npt.NDArray[np.int64]
    _model: Model = field(repr=False)
    _names: tuple[str, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.xyz)

    def observations(self, point: int) -> list[tuple[str, tuple[float, float]]]:
        """Which pictures saw a point, and at which pixel (x, y)."""
        own = np.flatnonzero(self._model.seen == point)
        at = self._model.seen_at[own]
        names = [self._names[int(self._model.seen_by[k])] for k in own]
        return [(name, (float(x), float(y))) for name, (x, y) in zip(names, at)]


@dataclass(frozen=True)
class Component:
    """Pictures that are placed relative to each other. ``unstable`` says why not to trust it."""

    names: tuple[str, ...]
    mapper: str
    unstable: str
    model: Model = field(repr=False)
