# SPDX-License-Identifier: Apache-2.0
"""The page's points and cameras served by viser, for work that goes on (extra ``viewer``).

The server listens on this machine alone.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from PIL import Image

from ..errors import DependencyError, checked
from .page import Camera, Page, centred, thin

__all__ = ["serve"]

INSTALL = "pip install 'mast3r-runtime[viewer]'"
HOST = "127.0.0.1"


@checked
def serve(page: Page, port: int = 8080, max_points: int = 1_000_000, thumb: int = 160) -> Any:
    """Start a ``viser.ViserServer`` that shows ``page``. Another ``serve`` needs another port."""
    try:
        viser = importlib.import_module("viser")
        turns = importlib.import_module("viser.transforms")
    except ImportError as error:
        raise DependencyError(f"view --live needs viser: {INSTALL}") from error
    page, _ = centred(page)
    server = viser.ViserServer(host=HOST, port=port, label=page.title, verbose=False)
    server.scene.set_up_direction("-y")
    size = _size(page)
    for cloud in page.clouds:
        small = thin(cloud, max_points)
        server.scene.add_point_cloud(
            f"/points/{cloud.name}",
            small.points.astype(np.float32),
            small.colours,
            point_size=size / 500,
            visible=cloud is page.clouds[0],
        )
    for number, camera in enumerate(page.cameras):
        if camera.pose is not None and camera.intrinsics is not None:
            wxyz = turns.SO3.from_matrix(np.asarray(camera.pose[:3, :3], np.float64)).wxyz
            _frustum(server, number, camera, wxyz, size / 20, thumb)
    return server


def _size(page: Page) -> float:
    """The middle half of the first cloud, in its longest direction."""
    points = page.clouds[0].points if page.clouds else np.zeros((0, 3))
    if not len(points):
        return 1.0
    low, high = np.quantile(points, (0.25, 0.75), axis=0)
    return float(2 * (high - low).max()) or 1.0


def _frustum(server: Any, number: int, camera: Camera, wxyz: Any, size: float, thumb: int) -> None:
    assert camera.pose is not None and camera.intrinsics is not None
    width, height = camera.size
    image = None
    if camera.image is not None:
        small = Image.fromarray(camera.image)
        small.thumbnail((thumb, thumb))
        image = np.asarray(small)
    server.scene.add_camera_frustum(
        f"/cameras/{number:05d}",  # a picture's name may hold anything, a node's name is a path
        fov=float(2 * np.arctan(height / 2 / camera.intrinsics[1, 1])),
        aspect=width / height,
        scale=size,
        image=image,
        wxyz=wxyz,
        position=np.asarray(camera.pose[:3, 3], np.float64),
    )
