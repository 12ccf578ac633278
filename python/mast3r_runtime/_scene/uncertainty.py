# SPDX-License-Identifier: Apache-2.0
"""How exactly the cameras are known, as far as the solved points say."""

from __future__ import annotations

import numpy as np

from .adjust import adjuster, variance_of
from .model import F64, QUARTER
from .problem import Problem, pycolmap
from .solver import Solved

__all__ = ["moved", "poses"]

# Ceres moves a quaternion by (cos |d|, sin |d| d / |d|): its d is half the turn.
_RADIANS = np.diag([2.0, 2, 2, 1, 1, 1])
_BACK = np.kron(np.eye(2), QUARTER[:3, :3].T)  # from a camera's frame into that of its turned picture


def poses(problem: Problem, solved: Solved) -> dict[int, F64]:
    """Covariance ``[6, 6]`` of camera from world (rotation in radians, translation) by picture.

    Two cameras carry the gauge and are left out. pycolmap takes residuals as having a standard
    deviation of 1 unit; they are scaled by what they have.
    """
    colmap = pycolmap("covariance")
    out: dict[int, F64] = {}
    for raw, model in zip(solved.raw, solved.models):
        bundle = adjuster(colmap, problem, raw, "TRIVIAL", 1.0, 0)  # nothing moves: it is solved
        bundle.solve()
        options = colmap.BACovarianceOptions()
        options.params = colmap.BACovarianceOptionsParams.POSES
        found = colmap.estimate_ba_covariance(options, raw, bundle)
        if found is None:
            continue
        variance = variance_of(problem, raw)
        for i in (int(p) for p in model.pictures):
            matrix = found.get_cam_cov_from_world(i + 1)
            if matrix is not None and matrix.shape == (6, 6):
                own = _RADIANS @ np.asarray(matrix) @ _RADIANS * variance
                out[i] = _BACK @ own @ _BACK.T if i in problem.turned else own
    return out


def moved(matrix: F64, before: F64, after: F64, scale: float) -> F64:
    """The covariance in the world X' = scale R X + T: camera from world ``before`` and ``after``.

    t' = scale t - R' T, so a turn of the camera moves t' as well, by [R' T] x.
    """
    x, y, z = scale * before[:3, 3] - after[:3, 3]
    jacobian = np.eye(6)
    jacobian[3:, :3] = [[0, -z, y], [z, 0, -x], [-y, x, 0]]
    jacobian[3:, 3:] *= scale
    return np.asarray(jacobian @ matrix @ jacobian.T)
