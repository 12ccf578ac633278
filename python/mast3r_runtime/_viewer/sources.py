# SPDX-License-Identifier: Apache-2.0
"""Pages of pairs and of files of points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import export
from ..errors import ArgumentError
from ..images import U8
from ..results import InferenceResult, MatchResult
from .focal import focal_of_points
from .page import Camera, Cloud, Matches, Page

__all__ = ["pair_page", "points_page"]


def pair_page(
    result: InferenceResult, image_1: U8, image_2: U8, matches: MatchResult | None = None, title: str = "pair"
) -> Page:
    """Both views' points in camera 1's frame, and the first camera."""
    points, colours, confidence, number = [], [], [], []
    for view, image in ((1, image_1), (2, image_2)):
        xyz = getattr(result, f"pts3d_{view}").reshape(-1, 3)
        points.append(xyz)
        colours.append(export.network_pixels(image, result, view).reshape(-1, 3))
        confidence.append(getattr(result, f"conf_{view}").reshape(-1))
        number.append(np.full(len(xyz), view - 1))
    cloud = Cloud(
        "dense", np.concatenate(points), np.concatenate(colours), np.concatenate(confidence),
        np.concatenate(number),
    )  # fmt: skip
    sizes = [(image.shape[1], image.shape[0]) for image in (image_1, image_2)]
    cameras = [
        Camera("picture 1", sizes[0], np.eye(4), _intrinsics(result), image=image_1),
        Camera("picture 2", sizes[1], status="no pose", image=image_2),
    ]
    lines = []
    if matches is not None:
        lines.append(Matches(0, 1, np.hstack([matches.original_1, matches.original_2])))
    return Page(title, [cloud], cameras, lines, "m", "Lengths are the network's guess.")


def _intrinsics(result: InferenceResult) -> npt.NDArray[np.float64] | None:
    t = result.transform_1
    focal = focal_of_points(result.pts3d_1)
    if focal is None:
        return None
    middle = np.array([[focal, 0, (t.width - 1) / 2], [0, focal, (t.height - 1) / 2], [0, 0, 1]])
    return t.intrinsics_to_original(middle)


def points_page(path: Path, title: str | None = None) -> Page:
    """A file of points (PLY or GLB) as a page without pictures."""
    import trimesh

    try:
        loaded: Any = trimesh.load(str(path))
        cloud: Any = loaded.to_geometry() if isinstance(loaded, trimesh.Scene) else loaded
        points = np.asarray(cloud.vertices, np.float32)
        colours = np.asarray(cloud.visual.vertex_colors if hasattr(cloud, "faces") else cloud.colors)
    except FileNotFoundError:
        raise
    except Exception as error:  # hostile bytes end in any of a dozen errors of its parsers
        raise ArgumentError(f"points {str(path)!r}: {error!r}") from error
    if colours.shape[0] != len(points):
        colours = np.full((len(points), 4), 190, np.uint8)
    colours = colours[:, :3].astype(np.uint8)
    if path.suffix.lower() == ".glb":
        points, colours = points * np.array([1, -1, -1], np.float32), export.from_linear(colours)
    n = len(points)
    whole = Cloud("points", points, colours, np.zeros(n), np.zeros(n, np.int64))
    return Page(title or path.name, [whole], [], scale="Units as in the file.")
