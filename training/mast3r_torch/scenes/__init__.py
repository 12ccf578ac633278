# SPDX-License-Identifier: Apache-2.0
"""Procedural two-view scenes with exact points, correspondences and occlusion.

`sampler` draws rooms, objects, lights and camera pairs; `textures` makes
what they are covered with; `native` casts the rays (`render.cu`, on CUDA or
on the CPU).
"""

from .furniture import MeshMix
from .meshes import Meshes, load_meshes
from .native import Rendered, render
from .rng import Random, constant
from .sampler import CameraMix, SceneMix, Scenes, relative_pose, sample
from .textures import Textures, load_photos

__all__ = [
    "CameraMix",
    "MeshMix",
    "Meshes",
    "Random",
    "Rendered",
    "SceneMix",
    "Scenes",
    "Textures",
    "constant",
    "load_meshes",
    "load_photos",
    "relative_pose",
    "render",
    "sample",
]
