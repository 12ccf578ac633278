# SPDX-License-Identifier: Apache-2.0
"""N pictures to one scene: cameras, points, dense depth, and why a picture is left out.

    import mast3r_runtime as m3r
    from mast3r_runtime.scene import Scene, reconstruct

    with m3r.Engine("auto", resolution=256) as engine:
        engine.load()
        scene = reconstruct(engine, ["photos/"])
    scene.write("scene/")                             # COLMAP, nerfstudio, PLY, GLB, npz, scene.html
    scene.pictures["a.jpg"].pose                      # world from camera, OpenCV axes

Reconstructing and localising need ``pip install 'mast3r-runtime[scene]'``; loading, writing and
looking do not.
"""

from __future__ import annotations

from ._scene.files import FORMATS
from ._scene.gauge import Scale
from ._scene.localize import Located
from ._scene.model import Lens, Model
from ._scene.parts import Component, Picture, Points
from ._scene.reconstruct import Options, reconstruct
from ._scene.scene import Scene

__all__ = [
    "FORMATS",
    "Component",
    "Lens",
    "Located",
    "Model",
    "Options",
    "Picture",
    "Points",
    "Scale",
    "Scene",
    "reconstruct",
]
