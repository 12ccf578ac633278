# SPDX-License-Identifier: Apache-2.0
"""Bundle adjustment of a component.

Refined matches are of two kinds: most are right to a few hundredths of a network pixel, and some,
at edges of depth and where nothing was refined, are off by a whole one, all to one side. A loss
that fits the second kind lets it bend the cameras. So the scale of the loss (Cauchy's, which lets
go of what is far off) is that of the residuals themselves, found anew in each round, and what is
far beyond it does not count for the cameras. It still makes points, once the cameras are right.

A focal length that is known beforehand (EXIF, the user) pulls as much as it is sure, beside what the
points say: where the points say it well, it changes nothing, and where they hardly do, as of
pictures of the ground from above, it holds.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .model import CAMERA_MODELS, F64
from .problem import Problem, colmap_camera, residuals, units

__all__ = ["RAYLEIGH", "adjuster", "exact", "rough", "sigma_of", "variance_of"]

ROUNDS = 3
STEPS = 10  # of the solver in a round; the next goes on from there
REJECT = 6.0  # robust standard deviations, beyond which an observation does not count for cameras
LEAST_SIGMA = 0.02  # units: no match is more exact than that
RAYLEIGH = 1.1774  # the median length of a two-dimensional normal of standard deviation 1
KEEP_ERROR = 4.0  # units: a point's observation when the cameras are right (COLMAP's own bound)
# The errors of matches are not independent, and some are of one sign: what the points say of a
# focal length is so many times less sure than their covariance.
OPTIMISM = 5.0
CLEAR = 0.1  # a focal length that the points know so much better than the prior is theirs
SHOWS = 2.0  # robust standard deviations at the corner, from which distortion is kept
FOR_DISTORTION = 1000  # observations of a camera, from which it may be found


@dataclass(frozen=True)
class _Seen:
    """Observations: image, number of the key point, residual in units."""

    image: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    error: F64


def rough(colmap: Any, problem: Problem, raw: Any) -> None:
    """Adjust with a loss that suits what a mapper leaves; everything counts."""
    adjuster(colmap, problem, raw, "SOFT_L1", 1.0, 3 * STEPS).solve()
    raw.update_point_3d_errors()


def exact(colmap: Any, problem: Problem, raw: Any) -> Any:
    """Adjust by the exact observations, and give the cameras to all.

    Returns the reconstruction of the exact observations alone, for what else they say; ``raw`` gets its
    cameras and keeps the points that then hold.
    """
    tight = colmap.Reconstruction(raw)
    sigma = _rounds(colmap, problem, tight)
    if _bent(colmap, problem, tight, sigma):
        sigma = _rounds(colmap, problem, tight)
    _known(colmap, problem, tight)
    _give_cameras(colmap, problem, tight, raw)
    return tight


def adjuster(
    colmap: Any, problem: Problem, raw: Any, loss: str, scale: float, steps: int, held: Collection[int] = ()
) -> Any:
    """Bundle adjustment with the cameras that are given, and those ``held``, kept."""
    options = colmap.BundleAdjustmentOptions()
    options.refine_principal_point = False
    options.print_summary = False
    options.ceres.loss_function_type = getattr(colmap.LossFunctionType, loss)
    options.ceres.loss_function_scale = scale
    options.ceres.solver_options.num_threads = problem.threads
    options.ceres.solver_options.function_tolerance = 1e-7
    options.ceres.solver_options.max_num_iterations = steps
    config = colmap.BundleAdjustmentConfig()
    for image_id in raw.reg_image_ids():
        config.add_image(image_id)
    for camera_id in raw.cameras:
        if camera_id - 1 in problem.fixed:
            raw.cameras[camera_id].params = colmap_camera(colmap, problem, camera_id - 1).params
        if camera_id - 1 in _kept(problem, raw) or camera_id - 1 in held:
            config.set_constant_cam_intrinsics(camera_id)
    if problem.poses and problem.fix_poses:
        for image_id in raw.reg_image_ids():
            config.set_constant_rig_from_world_pose(raw.images[image_id].frame_id)
    else:
        config.fix_gauge(colmap.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    return colmap.create_default_ceres_bundle_adjuster(options, config, raw)


def _kept(problem: Problem, raw: Any) -> frozenset[int]:
    """The cameras whose parameters are not adjusted."""
    # Two pictures do not tell a focal length: of a stereo pair with parallel axes any fits.
    if raw.num_reg_images() == 2:
        return frozenset(range(len(problem.lenses)))
    return problem.fixed


def sigma_of(problem: Problem, raw: Any) -> float:
    """The robust standard deviation of a coordinate of the observations, in units."""
    return _sigma(_observations(problem, raw).error)


def variance_of(problem: Problem, raw: Any) -> float:
    """The variance of a coordinate of the observations, in units: of all that count, what is free set off.

    By the mean square and not by :func:`sigma_of`: points follow their most exact observations, so the
    median residual is smaller than the matches' error.
    """
    error = _observations(problem, raw).error
    error = error[error < KEEP_ERROR]  # a point may have come behind a camera in the last steps
    free = 2 * len(error) - 3 * int(raw.num_points3D()) - 6 * int(raw.num_reg_images())
    return float(np.square(error).sum()) / max(free, 1)


def _sigma(error: F64) -> float:
    return max(LEAST_SIGMA, float(np.median(error)) / RAYLEIGH) if len(error) else 1.0


def _observations(problem: Problem, raw: Any) -> _Seen:
    images, numbers, errors = [], [], []
    for image_id in sorted(raw.reg_image_ids()):
        image = raw.images[image_id]
        own = list(image.get_observation_point2D_idxs())
        if not own:
            continue
        points2d = image.points2D
        xyz = np.array([raw.points3D[points2d[n].point3D_id].xyz for n in own])
        camera, pose = raw.cameras[image.camera_id], image.cam_from_world().matrix()
        images.append(np.full(len(own), image_id))
        numbers.append(np.array(own))
        errors.append(residuals(camera, pose, xyz, units(problem, image_id - 1)[own]))
    if not images:
        none = np.zeros(0, np.int64)
        return _Seen(none, none, np.zeros(0))
    return _Seen(np.concatenate(images), np.concatenate(numbers), np.concatenate(errors))


def _take_out(raw: Any, seen: _Seen, which: npt.NDArray[np.bool_]) -> None:
    """Delete observations; one of a track of two takes its point with it, and so the other."""
    for k in np.flatnonzero(which):
        image_id, number = int(seen.image[k]), int(seen.number[k])
        if raw.images[image_id].points2D[number].has_point3D():
            raw.delete_observation(image_id, number)


def _rounds(colmap: Any, problem: Problem, raw: Any, held: Collection[int] = ()) -> float:
    """Rounds of taking out what is far off and adjusting; the last standard deviation."""
    sigma = 1.0
    for _ in range(ROUNDS):
        seen = _observations(problem, raw)
        sigma = _sigma(seen.error)
        most = np.zeros(int(seen.image.max(initial=0)) + 1)
        for image_id in np.unique(seen.image):  # a picture that is less exact is not emptied
            most[image_id] = REJECT * max(sigma, _sigma(seen.error[seen.image == image_id]))
        _take_out(raw, seen, seen.error > most[seen.image])
        adjuster(colmap, problem, raw, "CAUCHY", sigma, STEPS, held).solve()
    return sigma


def _bent(colmap: Any, problem: Problem, raw: Any, sigma: float) -> bool:
    """Give open cameras a term of radial distortion where it shows; whether one has it now."""
    counts: dict[int, int] = {}
    for image_id in raw.reg_image_ids():
        image = raw.images[image_id]
        counts[image.camera_id] = counts.get(image.camera_id, 0) + image.num_points3D
    tried = [
        c for c in sorted(raw.cameras)
        if c - 1 in problem.open and c - 1 not in _kept(problem, raw) and counts.get(c, 0) >= FOR_DISTORTION
        and raw.cameras[c].model.name == "SIMPLE_PINHOLE"
    ]  # fmt: skip
    if not tried:
        return False
    before = {c: list(raw.cameras[c].params) for c in tried}
    for c in tried:
        raw.cameras[c].model = colmap.CameraModelId.SIMPLE_RADIAL
        raw.cameras[c].params = [*before[c], 0.0]
    adjuster(colmap, problem, raw, "CAUCHY", sigma, STEPS).solve()
    kept = False
    for c in tried:
        f, cx, cy, k = raw.cameras[c].params
        corner = np.hypot(cx, cy) / f
        if abs(k) * corner**3 * f >= SHOWS * sigma:
            kept = True
            continue
        raw.cameras[c].model = colmap.CameraModelId.SIMPLE_PINHOLE
        raw.cameras[c].params = before[c]
    return kept


def _known(colmap: Any, problem: Problem, raw: Any) -> None:
    """Bring known focal lengths to where they and the points together want them."""
    free = {c: w for c, w in problem.known.items() if c + 1 in raw.cameras and c not in _kept(problem, raw)}
    if not free or raw.num_points3D() == 0:
        return
    bundle = adjuster(colmap, problem, raw, "TRIVIAL", 1.0, 0)
    bundle.solve()
    options = colmap.BACovarianceOptions()
    options.params = colmap.BACovarianceOptionsParams.ALL
    found = colmap.estimate_ba_covariance(options, raw, bundle)
    variance, held = variance_of(problem, raw), []
    for c, width in free.items():
        camera = raw.cameras[c + 1]
        matrix = None if found is None else found.get_other_params_cov(camera.params)
        now, first = np.log(camera.mean_focal_length()), np.log(problem.lenses[c].focal / problem.unit(c))
        own = np.inf
        if matrix is not None and np.isfinite(matrix[0, 0]) and matrix[0, 0] > 0:
            own = OPTIMISM * float(np.sqrt(variance * matrix[0, 0])) / camera.mean_focal_length()
        if own < CLEAR * width:
            continue
        share = width**2 / (width**2 + own**2) if np.isfinite(own) else 0.0
        factor = float(np.exp((1 - share) * (first - now)))
        names = CAMERA_MODELS[camera.model.name][1]
        camera.params = [p * factor if n in ("f", "fx", "fy") else p for n, p in zip(names, camera.params)]
        held.append(c)
    if held:
        _rounds(colmap, problem, raw, held)


def _give_cameras(colmap: Any, problem: Problem, tight: Any, raw: Any) -> None:
    """Give ``raw`` the cameras of ``tight``, its points to fit them, and take out what does not."""
    for camera_id, camera in tight.cameras.items():
        raw.cameras[camera_id].model = camera.model
        raw.cameras[camera_id].params = camera.params
    for image_id in raw.reg_image_ids():
        frame = raw.frames[raw.images[image_id].frame_id]
        frame.rig_from_world = tight.frames[tight.images[image_id].frame_id].rig_from_world
    options = colmap.BundleAdjustmentOptions()
    options.print_summary = False
    options.refine_focal_length = options.refine_extra_params = options.refine_principal_point = False
    options.refine_rig_from_world = False
    options.ceres.loss_function_type = colmap.LossFunctionType.CAUCHY
    options.ceres.loss_function_scale = sigma_of(problem, tight)
    options.ceres.solver_options.num_threads = problem.threads
    options.ceres.solver_options.max_num_iterations = 2 * STEPS
    config = colmap.BundleAdjustmentConfig()
    for image_id in raw.reg_image_ids():
        config.add_image(image_id)
    colmap.create_default_ceres_bundle_adjuster(options, config, raw).solve()
    seen = _observations(problem, raw)
    _take_out(raw, seen, ~(seen.error < KEEP_ERROR))
    raw.update_point_3d_errors()
