# SPDX-License-Identifier: Apache-2.0
"""What is to be solved, in our arrays and as pycolmap's objects.

Pixels are handed over in units of half a network pixel: pycolmap's thresholds (4 pixels and the
like) are made for matches that are right to about a pixel, and a match is as exact as the network
was, however many pixels the original has. Results come back in original pixels.

A picture may be its camera's turned by 90 degrees, as a phone held upright makes it: then its
pixels are turned back into the camera's before they are handed over, so that both ways of holding
a phone are one camera, and its pose and lens are turned again when they come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._library.imports import heavy
from ..errors import DependencyError
from . import check
from .model import F64, QUARTER, Lens, Model
from .tracks import KeyPoints

__all__ = ["INSTALL", "Problem", "colmap_camera", "pycolmap", "read", "residuals", "scaled_camera", "units"]

INSTALL = "pip install 'mast3r-runtime[scene]'"


def pycolmap(what: str = "reconstruct") -> Any:
    """The package, quiet; DependencyError with the command that installs it."""
    try:
        module = heavy("pycolmap")
    except ImportError as error:
        raise DependencyError(f"{what} needs pycolmap: {INSTALL}") from error
    if not hasattr(module, "global_mapping"):
        raise DependencyError(
            f"{what} needs pycolmap 4.2.1 or later, here is {module.__version__}: {INSTALL}"
        )
    module.logging.minloglevel = 3
    return module


@dataclass(frozen=True)
class Problem:
    """Pictures 0..n-1 with key points and cameras, in original pixels.

    ``lenses[c]`` are the first guesses of the cameras, ``camera_of[i]`` the camera of picture i;
    ``turned`` pictures are their camera's turned by 90 degrees. ``fixed`` cameras keep their
    parameters; ``known[c]`` is how far the focal length of a camera may be off, as a share (one
    standard deviation), where EXIF or the user gives it; ``open`` cameras may get a term of
    distortion if the points ask for it; ``others[c]`` is a first guess of another source where that
    differs much from the known one. ``network_pixel[i]`` is the size of a network pixel.
    ``poses[i]`` are given poses, camera from world: then there is no mapping, and pictures without
    one are not placed; they stay as given where ``fix_poses``, else they are where adjusting begins.
    """

    names: Sequence[str]
    keys: KeyPoints
    lenses: Sequence[Lens]
    camera_of: Sequence[int]
    fixed: frozenset[int]
    known: Mapping[int, float]
    network_pixel: Sequence[float]
    seed: int = 0
    threads: int = -1
    least: int = check.LEAST
    poses: Mapping[int, F64] = field(default_factory=dict)
    fix_poses: bool = False
    turned: frozenset[int] = frozenset()
    open: frozenset[int] = frozenset()
    others: Mapping[int, Lens] = field(default_factory=dict)

    def unit(self, camera: int) -> float:
        """Original pixels per unit, one for all pictures of a camera."""
        return next(self.network_pixel[i] for i, c in enumerate(self.camera_of) if c == camera) / 2

    def first_focals(self) -> dict[int, float]:
        """The first guess of every picture's focal length in pixels."""
        return {i: self.lenses[c].focal for i, c in enumerate(self.camera_of)}

    def into_camera(self, picture: int, pose: F64) -> F64:
        """A picture's pose, camera from world, as that of its camera before it was turned."""
        return QUARTER @ pose if picture in self.turned else pose


def colmap_camera(colmap: Any, problem: Problem, number: int) -> Any:
    """pycolmap's camera of one of the problem's, by its first guess."""
    camera = scaled_camera(colmap, problem.lenses[number], problem.unit(number))
    camera.camera_id = number + 1
    camera.has_prior_focal_length = True
    return camera


def scaled_camera(colmap: Any, lens: Lens, unit: float) -> Any:
    """pycolmap's camera of a picture whose pixels are ``unit`` original pixels wide."""
    params = lens.moved(0.5 / unit, 1 / unit).params
    size = {"width": round(lens.width / unit), "height": round(lens.height / unit)}
    return colmap.Camera(model=lens.model, params=params, **size)


def units(problem: Problem, picture: int) -> F64:
    """The key points of a picture in its camera, in units."""
    camera = problem.camera_of[picture]
    xy = problem.keys.xy[picture] + 0.5
    if picture in problem.turned:
        xy = np.stack([xy[:, 1], problem.lenses[camera].height - xy[:, 0]], 1)
    return xy / problem.unit(camera)


def residuals(camera: Any, pose: F64, points: F64, pixels: F64) -> F64:
    """Distances ``[N]`` of pixels from the projections of world points, infinite behind the camera.

    ``camera`` is pycolmap's, ``pose [3, 4]`` camera from world.
    """
    local = points @ pose[:, :3].T + pose[:, 3]
    error = np.linalg.norm(np.asarray(camera.img_from_cam(local)) - pixels, axis=1)
    return np.where((local[:, 2] > 0) & np.isfinite(error), error, np.inf)


def read(problem: Problem, raw: Any, mapper: str) -> Model:
    """A reconstruction of pycolmap as arrays in original pixels."""
    images = [raw.images[i] for i in sorted(raw.reg_image_ids())]
    pictures = np.array([image.image_id - 1 for image in images])
    poses = np.tile(np.eye(4), (len(images), 1, 1))
    lenses = []
    ids = sorted(raw.point3D_ids())
    row = {p: k for k, p in enumerate(ids)}
    seen, seen_by, seen_at = [], [], []
    for k, image in enumerate(images):
        poses[k, :3] = image.cam_from_world().matrix()
        c = image.camera_id - 1
        camera = raw.cameras[c + 1]
        params = tuple(map(float, camera.params))
        scaled = replace(problem.lenses[c], model=camera.model.name, params=params)
        lens = scaled.moved(-0.5, problem.unit(c))
        if int(pictures[k]) in problem.turned:
            lens, poses[k] = lens.turned(), QUARTER.T @ poses[k]
        lenses.append(lens)
        numbers = list(image.get_observation_point2D_idxs())
        seen.append(np.array([row[image.points2D[n].point3D_id] for n in numbers], np.int64))
        seen_by.append(np.full(len(numbers), pictures[k]))
        seen_at.append(problem.keys.xy[image.image_id - 1][numbers])
    points = np.array([raw.points3D[p].xyz for p in ids]).reshape(-1, 3)
    return Model(
        pictures,
        poses,
        tuple(lenses),
        points,
        np.full((len(ids), 3), 190, np.uint8),
        np.concatenate(seen) if seen else np.zeros(0, np.int64),
        np.concatenate(seen_by) if seen_by else np.zeros(0, np.int64),
        np.concatenate(seen_at) if seen_at else np.zeros((0, 2)),
        mapper,
    )
