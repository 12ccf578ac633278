# SPDX-License-Identifier: Apache-2.0
"""A scene as GLB: points, and a frustum of lines for every camera, through trimesh."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .._files.whole import replacing
from .._library.imports import heavy
from .._output import far
from .._output.export import glb_place, glb_scene
from .._pictures.arrays import U8
from .parts import Picture

__all__ = ["write"]

_UPRIGHT = np.diag([1.0, -1, -1])  # glTF: y up, z to the viewer


def write(path: Path, points: npt.NDArray[np.floating], colours: U8, pictures: Sequence[Picture]) -> Path:
    """Write ``points [N, 3]`` with ``colours`` and the cameras of ``pictures``.

    Far from the origin every node counts from the same whole numbers, its translation.
    """
    trimesh = heavy("trimesh")
    keep = far.finite(points, path.name)
    points, colours = points[keep], colours[keep]
    scene = glb_scene(points, colours)
    start = far.origin(points)
    reach = 0.04 * float(np.linalg.norm(np.percentile(points, 95, axis=0) - np.percentile(points, 5, axis=0)))
    for p in pictures:
        if p.pose is None or p.lens is None:
            continue
        edge = np.array([[0, 0], [p.width, 0], [p.width, p.height], [0, p.height]]) - 0.5
        corners = np.concatenate([np.zeros((1, 3)), p.lens.rays(edge) * reach])
        order = [0, 1, 2, 0, 3, 4, 0, 2, 3, 0, 4, 1]
        line = (corners[order] @ p.pose[:3, :3].T + (p.pose[:3, 3] - start)) @ _UPRIGHT.T
        scene.add_geometry(trimesh.load_path(line), geom_name=p.name, transform=glb_place(start))
    with replacing(path) as temporary:
        scene.export(str(temporary), file_type="glb")
    return path
