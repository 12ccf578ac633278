# SPDX-License-Identifier: Apache-2.0
"""The pose of one picture from points whose places are known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .._output import far
from .adjust import RAYLEIGH
from .model import F64, Lens
from .problem import pycolmap, residuals, scaled_camera

__all__ = ["AbsolutePose", "absolute_pose"]

MOST_ERROR = 4.0  # units: two network pixels
ROUNDS = 3  # of finding the scale of the errors and refining by it
LEAST_SIGMA = 0.05  # units


@dataclass(frozen=True)
class AbsolutePose:
    """Camera from world ``[4, 4]``, the camera as refined, which points fit, and covariance ``[6, 6]``.

    The covariance is that of the pose, rotation in radians before translation, for errors as large as
    those of the points that fit; None where the points do not say it.
    """

    pose: F64
    lens: Lens
    fits: npt.NDArray[np.bool_]
    covariance: F64 | None
    misfit: float  # mean log(1 + square of the error) of the exact points, errors in tenths of a unit
    spread: float  # median error in units of those that refined it

    @property
    def inliers(self) -> int:
        return int(self.fits.sum())


def absolute_pose(
    lens: Lens, unit: float, xy: F64, xyz: F64, refine: bool, exact: npt.NDArray[np.bool_] | None = None
) -> AbsolutePose | None:
    """The pose that brings points ``[m, 3]`` to pixels ``[m, 2]``; ``refine`` frees the focal length.

    ``exact`` says which points are exact: where enough of them fit, they alone refine the pose.
    """
    colmap = pycolmap("localize")
    camera = scaled_camera(colmap, lens, unit)
    options = colmap.AbsolutePoseEstimationOptions()
    options.ransac.max_error = MOST_ERROR
    options.ransac.random_seed = 0
    start = far.origin(xyz)  # in a world of maps the solver finds nothing
    near, pixels = xyz - start, (xy + 0.5) / unit
    first = colmap.estimate_absolute_pose(pixels, near, camera, options)
    if first is None:
        return None
    fits = np.asarray(first["inlier_mask"], bool)
    used = fits & exact if exact is not None and (fits & exact).sum() >= 30 else fits
    refining = colmap.AbsolutePoseRefinementOptions()
    refining.refine_focal_length = refine
    pose, covariance = first["cam_from_world"], None
    for _ in range(ROUNDS):
        error = residuals(camera, pose.matrix(), near, pixels)
        refining.loss_function_scale = max(LEAST_SIGMA, float(np.median(error[used])) / RAYLEIGH)
        found = colmap.refine_absolute_pose(pose, pixels, near, used, camera, refining, True)
        if found is None:
            return None
        pose, covariance = found["cam_from_world"], found.get("covariance")
    error = residuals(camera, pose.matrix(), near, pixels)
    close = used & (error < 6 * refining.loss_function_scale)
    variance = float(np.square(error[close]).sum()) / max(2 * int(close.sum()) - 7, 1)
    matrix = np.eye(4)
    matrix[:3] = pose.matrix()
    turned = matrix[:3, :3] @ start
    matrix[:3, 3] -= turned
    refined = replace(lens, params=tuple(map(float, camera.params))).moved(-0.5, unit)
    if covariance is not None:  # a turn by d moves t by [R start] x d; pycolmap's d is half the turn
        x, y, z = turned
        move = np.diag([2.0, 2, 2, 1, 1, 1])
        move[3:, :3] = 2 * np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        covariance = move @ np.asarray(covariance) @ move.T * variance
    judged = exact if exact is not None and exact.sum() >= 30 else np.ones(len(error), bool)
    misfit = float(np.log1p(np.square(np.minimum(error[judged], MOST_ERROR) / 0.1)).mean())
    spread = float(np.median(error[used]))
    return AbsolutePose(matrix, refined, error < MOST_ERROR, covariance, misfit, spread)
