# SPDX-License-Identifier: Apache-2.0
"""The pose of one picture from points whose places are known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._output import far
from .model import F64, Lens
from .problem import pycolmap, scaled_camera

__all__ = ["AbsolutePose", "absolute_pose"]

MOST_ERROR = 4.0  # units: two network pixels


@dataclass(frozen=True)
class AbsolutePose:
    """Camera from world ``[4, 4]``, the camera as refined, inliers, covariance ``[6, 6]`` of the pose."""

    pose: F64
    lens: Lens
    inliers: int
    covariance: F64 | None


def absolute_pose(lens: Lens, unit: float, xy: F64, xyz: F64, refine: bool) -> AbsolutePose | None:
    """The pose that brings points ``[m, 3]`` to pixels ``[m, 2]``; ``refine`` frees the focal length."""
    colmap = pycolmap("localize")
    camera = scaled_camera(colmap, lens, unit)
    options = colmap.AbsolutePoseEstimationOptions()
    options.ransac.max_error = MOST_ERROR
    options.ransac.random_seed = 0
    refining = colmap.AbsolutePoseRefinementOptions()
    refining.refine_focal_length = refine
    start = far.origin(xyz)  # in a world of maps the solver finds nothing
    near = xyz - start
    found = colmap.estimate_and_refine_absolute_pose((xy + 0.5) / unit, near, camera, options, refining, True)
    if found is None:
        return None
    pose = np.eye(4)
    pose[:3] = found["cam_from_world"].matrix()
    turned = pose[:3, :3] @ start
    pose[:3, 3] -= turned
    refined = replace(lens, params=tuple(map(float, camera.params))).moved(-0.5, unit)
    covariance = found.get("covariance")
    if covariance is not None:  # a turn by d moves t by [R start] x 2 d: d is half the turn
        x, y, z = 2 * turned
        jacobian = np.eye(6)
        jacobian[3:, :3] = [[0, -z, y], [z, 0, -x], [-y, x, 0]]
        covariance = jacobian @ np.asarray(covariance) @ jacobian.T
    return AbsolutePose(pose, refined, int(found["num_inliers"]), covariance)
