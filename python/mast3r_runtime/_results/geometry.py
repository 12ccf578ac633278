# SPDX-License-Identifier: Apache-2.0
"""The cameras of a pair from matched places: relative pose, focal lengths, their uncertainty.

Everything here is in pixels of the pictures as given, centres at whole numbers. A camera's
axes are x right, y down, z forward; a pose takes camera 2's coordinates to camera 1's,
``X_1 = R X_2 + t``. Nothing but numpy is needed; see :func:`relative_pose` for what poselib
and pycolmap do where they are installed.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._library import calls
from .._library import structs as S
from .._library.cameras import c_matrix, check_intrinsics, check_pinhole, focal_of_map
from .._library.imports import heavy
from .._library.memory import FLOAT64, INT64, GPUTensor
from .._library.options import places_struct
from .._pictures import header
from ..errors import ArgumentError, DependencyError, ShapeError, checked

if TYPE_CHECKING:
    from .results import GPUInferenceResult, InferenceResult, MatchResult, Transform

__all__ = ["PairPose", "dependence", "exif_focal", "network_focal", "pair_cameras", "relative_pose"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

ESTIMATORS = ("poselib", "pycolmap", "geometry")

# How exact the network's focal lengths are: the standard deviation of their logarithms on
# photographs with known cameras, for the first picture, and for a second one of another size,
# about which the network says nothing.
FOCAL_SIGMA = 0.22
OTHER_FOCAL_SIGMA = 0.35

# A refined match is placed by a patch under a Gaussian of this many pixels of picture 1, where it
# is as fine as the patch: see internal/match/refine.
PATCH_SIGMA = 5.0
SAMPLE = 128  # matches whose surroundings are counted

# Four neighbours whose depths differ by more than this share lie on both sides of an edge.
EDGE = 0.05


@dataclass(frozen=True, slots=True, eq=False)  # arrays have no one truth
class PairPose:
    """Two cameras.

    Attributes
    ----------
    pose : float64 [4, 4] or None
        Camera 2 to camera 1, ``X_1 = R X_2 + t`` with det R = +1. Its translation has length
        1, or 0 if the camera only turned. None if no pose was found; ``reason`` says why.
    covariance : float64 [6, 6]
        Of the pose: of a rotation vector w in ``exp(w) R``, in radians, and of a change of t.
    intrinsics_1, intrinsics_2 : float64 [3, 3]
        The camera matrices. ``intrinsics_source`` says where they come from: "given", "exif" or
        "network". Given ones are not changed.
    focal_sigma : (float, float)
        Standard deviation of the logarithms of the focal lengths; 0 for given ones.
    inliers : int64 [M], points : float64 [M, 3]
        The matches that agree, and their points in camera 1's frame, in units of the baseline; no
        points if the camera only turned.
    rms, angle : float
        Root mean square distance of the inliers from the epipolar geometry, in pixels; median
        angle between their two rays, in degrees.
    scale : float or None
        Length of the baseline in metres. ``scale_source`` says where it comes from: "network" is a
        guess from the appearance of things. ``scale_spread`` is the relative scatter of the single
        estimates; an error that all of them share does not show in it.
    warnings : tuple of str
        What you should know before you use the result.
    """

    pose: F64 | None
    reason: str
    covariance: F64
    intrinsics_1: F64
    intrinsics_2: F64
    intrinsics_source: str
    focal_sigma: tuple[float, float]
    turn_only: bool
    inliers: npt.NDArray[np.int64]
    points: F64
    rms: float
    angle: float
    scale: float | None
    scale_spread: float | None
    scale_source: str
    estimator: str
    warnings: tuple[str, ...] = ()

    @property
    def metric_pose(self) -> F64 | None:
        """The pose with its translation in metres, None without a pose or a scale."""
        if self.pose is None or self.scale is None:
            return None
        out = self.pose.copy()
        out[:3, 3] *= self.scale
        return out

    @property
    def turn_interval(self) -> float:
        """Half of the 95 % interval of the turn, in degrees, about its least certain axis."""
        return float(np.degrees(1.96 * np.sqrt(np.linalg.eigvalsh(self.covariance[:3, :3])[-1])))

    @property
    def direction_interval(self) -> float:
        """Half of the 95 % interval of the direction of the translation, in degrees."""
        return float(np.degrees(1.96 * np.sqrt(np.linalg.eigvalsh(self.covariance[3:, 3:])[-1])))


@checked
def relative_pose(
    xy_1: npt.ArrayLike,
    xy_2: npt.ArrayLike,
    intrinsics_1: npt.ArrayLike,
    intrinsics_2: npt.ArrayLike,
    *,
    covariance: npt.ArrayLike | None = None,
    sigma: float = 0.5,
    tolerance: float = 1.5,
    focal_sigma: tuple[float, float] = (0.0, 0.0),
    shared_focal: bool = False,
    depth: npt.ArrayLike | None = None,
    dependence: float = 1.0,
    estimator: str = "auto",
) -> PairPose:
    """The relative pose of two cameras from matching pixels of any source.

    Parameters
    ----------
    xy_1, xy_2 : [N, 2]
        Matching pixels (x, y) of the two pictures.
    intrinsics_1, intrinsics_2 : [3, 3]
        Camera matrices. One that is no camera matrix is a ShapeError (a ValueError).
    covariance : [N, 2, 2], optional
        Of ``xy_2``, ``xy_1`` taken as exact, in squared pixels; else ``sigma`` for all.
    tolerance : float
        Distance from the epipolar geometry, in pixels, that counts as agreement.
    focal_sigma : (float, float)
        How uncertain the focal lengths are: standard deviation of their logarithms. They are
        then estimated along with the pose. 0: used as given.
    shared_focal : bool
        One camera took both pictures: the focal lengths change by one factor.
    dependence : float
        So many matches tell as much as one with errors of its own: above 1 for matches that lie
        so densely that neighbours err alike. The intervals widen by its root.
    depth : [N], optional
        Depths in camera 1 of the matches, in metres, for the length of the baseline.
    estimator : {"auto", "poselib", "pycolmap", "geometry"}
        Who searches among the matches. "auto": poselib where it is installed, else pycolmap,
        else this project's own; with uncertain focal lengths always its own. What is found is
        polished by all matches that agree, and given its uncertainty, in one and the same way.
    """
    if not (np.isfinite(tolerance) and tolerance > 0):
        raise ShapeError(f"tolerance {tolerance}, want a number above 0")
    k1, k2 = check_intrinsics(intrinsics_1), check_intrinsics(intrinsics_2)
    places, keep = places_struct(xy_1, xy_2, covariance)
    options = S.struct(
        S.PoseOptions,
        shared_focal=int(shared_focal),
        intrinsics1=c_matrix(k1),
        intrinsics2=c_matrix(k2),
        focal_sigma1=float(focal_sigma[0]),
        focal_sigma2=float(focal_sigma[1]),
        tolerance=float(tolerance),
        sigma=float(sigma),
        dependence=float(dependence),
    )
    held: list[Any] = [places, keep, options]
    known = not any(focal_sigma)
    name, start = _search(estimator, known, keep[0], keep[1], k1, k2, tolerance)
    if start is not None:
        options.start = start.ctypes.data
        held.append(start)
    if depth is not None:
        depths = np.ascontiguousarray(np.asarray(depth, np.float64))
        if depths.shape != (places.count,):
            raise ShapeError(f"depth of shape {depths.shape}, want ({places.count},)")
        options.depth = depths.ctypes.data
        held.append(depths)
    with calls.Job("mast3r_submit_pose", places, options, keep=held) as job:
        job.wait()
        out = job.take(S.Pose, "mast3r_job_take_pose")
    n = out.count
    inliers = GPUTensor._of(out.inliers, (n,), INT64).numpy()
    points = GPUTensor._of(out.points, (0 if out.turn_only else n, 3), FLOAT64).numpy()
    found = bool(out.found)
    warnings = []
    if out.turn_only:
        warnings.append("the camera only turned, as far as the matches tell: no direction, no depth")
    elif found and out.angle < 1:
        warnings.append(f"narrow baseline: rays meet at {out.angle:.2f} degrees, the direction is uncertain")
    length = out.length if found and out.length > 0 else None
    if length is not None:
        warnings.append("the scale is the network's guess from what things look like, not a measurement")
    return PairPose(
        pose=np.array(out.pose).reshape(4, 4) if found else None,
        reason=out.reason.decode(),
        covariance=np.array(out.covariance).reshape(6, 6),
        intrinsics_1=np.array(out.intrinsics1).reshape(3, 3),
        intrinsics_2=np.array(out.intrinsics2).reshape(3, 3),
        intrinsics_source="given" if known else "estimated",
        focal_sigma=(out.focal_sigma1, out.focal_sigma2),
        turn_only=bool(out.turn_only),
        inliers=inliers,
        points=points,
        rms=out.rms,
        angle=out.angle,
        scale=length,
        scale_spread=out.length_spread if length is not None else None,
        scale_source="network" if length is not None else "none",
        estimator=name,
        warnings=tuple(warnings),
    )


@checked
def dependence(xy_1: npt.ArrayLike, sigma: float = PATCH_SIGMA) -> float:
    """How many refined matches tell as much as one with errors of its own.

    Two matches at a distance d are placed by the same pixels, and so by the same noise, to the share
    that their patches have in common: the correlation of their errors is that of two Gaussians,
    exp(-d^2 / (4 sigma^2)). Summed over all matches around one, this is what one counts for: 1 where
    they are far apart, as on large photographs, and 3 to 4 where they lie 8 pixels apart.

    Parameters
    ----------
    xy_1 : [N, 2]
        The places in picture 1.
    sigma : float
        Of the patches, in pixels of picture 1.
    """
    if not 0 < sigma < 1e6:
        raise ArgumentError(f"sigma {sigma} pixels, want above 0")
    xy = np.asarray(xy_1, np.float64).reshape(-1, 2)
    if not len(xy):
        return 1.0
    some = xy[:: -(-len(xy) // SAMPLE)]
    total = 0.0
    for place in some:  # one at a time: all at once would need 2 KB for each match
        square = ((place - xy) ** 2).sum(1)
        near = square[square < (6 * sigma) ** 2]
        total += np.exp(-near / (4 * sigma * sigma)).sum()
    return max(1.0, float(total / len(some)))


def _search(
    estimator: str, known: bool, xy_1: F64, xy_2: F64, k1: F64, k2: F64, tolerance: float
) -> tuple[str, F64 | None]:
    """A pose found by a library, [4, 4] camera 2 to camera 1, and by which; None: by our own."""
    if estimator not in ("auto", *ESTIMATORS):
        raise ArgumentError(f"estimator {estimator!r}, want auto or one of {', '.join(ESTIMATORS)}")
    if estimator == "auto":
        installed = [n for n in ESTIMATORS[:2] if importlib.util.find_spec(n) is not None]
        estimator = installed[0] if installed and known else "geometry"
    elif estimator != "geometry":
        if not known:
            raise ArgumentError(f"estimator {estimator}: needs known focal lengths")
        if importlib.util.find_spec(estimator) is None:
            raise DependencyError(f"estimator {estimator}: not installed; pip install {estimator}")
    if estimator == "geometry" or len(xy_1) < 12:
        return estimator, None
    find = _poselib if estimator == "poselib" else _pycolmap
    motion = find(xy_1 + 0.5, xy_2 + 0.5, k1, k2, tolerance)  # both have pixel centres at halves
    if motion is None:
        return "geometry", None
    r, t = motion
    size = float(np.linalg.norm(t))
    if not (np.isfinite(r).all() and np.isfinite(size) and size > 0):
        return "geometry", None
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = r.T, -r.T @ t / size
    return estimator, np.ascontiguousarray(pose)


def _camera(k: F64) -> list[float]:
    return [k[0, 0], k[1, 1], k[0, 2] + 0.5, k[1, 2] + 0.5]


def _size(k: F64) -> dict[str, int]:
    return {"width": int(2 * k[0, 2]) + 1, "height": int(2 * k[1, 2]) + 1}


def _poselib(xy_1: F64, xy_2: F64, k1: F64, k2: F64, tolerance: float) -> tuple[F64, F64] | None:
    import poselib

    cameras = [
        {
            "model": "PINHOLE",
            "width": int(2 * k[0, 2]) + 1,
            "height": int(2 * k[1, 2]) + 1,
            "params": _camera(k),
        }
        for k in (k1, k2)
    ]
    rules = {
        "max_epipolar_error": tolerance,
        "min_iterations": 200,
        "max_iterations": 20_000,  # of no consensus at all; nothing can end its search
        "success_prob": 0.9999,
        "seed": 0,
    }
    found, info = poselib.estimate_relative_pose(xy_1, xy_2, *cameras, rules, {})
    found = getattr(found, "pose", found)
    if info["num_inliers"] < 12:
        return None
    return np.asarray(found.R, np.float64), np.asarray(found.t, np.float64)


def _pycolmap(xy_1: F64, xy_2: F64, k1: F64, k2: F64, tolerance: float) -> tuple[F64, F64] | None:
    pycolmap = heavy("pycolmap")
    cameras = [pycolmap.Camera(model="PINHOLE", **_size(k), params=_camera(k)) for k in (k1, k2)]
    options = pycolmap.TwoViewGeometryOptions()
    options.ransac.max_error = tolerance
    options.ransac.random_seed = 0
    pairs = np.stack([np.arange(len(xy_1))] * 2, 1).astype(np.uint32)
    found = pycolmap.estimate_calibrated_two_view_geometry(cameras[0], xy_1, cameras[1], xy_2, pairs, options)
    pycolmap.estimate_two_view_geometry_pose(cameras[0], xy_1, cameras[1], xy_2, found)
    motion = found.cam2_from_cam1
    if motion is None:
        return None
    matrix = np.asarray(motion.matrix(), np.float64)
    return matrix[:, :3], matrix[:, 3]


@checked
def pair_cameras(
    result: GPUInferenceResult | InferenceResult,
    matches: MatchResult,
    intrinsics_1: npt.ArrayLike | None = None,
    intrinsics_2: npt.ArrayLike | None = None,
    *,
    focal_1: float | None = None,
    focal_2: float | None = None,
    estimator: str = "auto",
) -> PairPose:
    """The cameras of an inferred pair.

    The pose comes from the matches, never from the points alone. Given camera matrices are not
    changed. Without them the focal length is estimated from the matches; the estimate starts from
    ``focal_1`` and ``focal_2`` in pixels (from EXIF, for example), or from the network's points, and
    the principal point is the middle of the picture. Two pictures of the same size are taken to be
    from one camera. The length of the baseline is the network's guess.
    """
    if matches.transform_1 is None or matches.transform_2 is None:
        raise ShapeError("cameras: matches of bare descriptors; match the whole result")
    given = intrinsics_1 is not None or intrinsics_2 is not None
    k1, k2, sigma, source = _intrinsics(result, intrinsics_1, intrinsics_2, focal_1, focal_2)
    one, two = matches.transform_1, matches.transform_2
    same = (one.original_height, one.original_width) == (two.original_height, two.original_width)
    use = (
        matches.refined
        if matches.refined.sum() >= max(30, 0.3 * len(matches))
        else np.ones(len(matches), bool)
    )
    where = np.flatnonzero(use)
    pixel = max(two.scale)
    depth = matches.pts3d_1[where, 2] if np.isfinite(matches.pts3d_1).any() else None
    # Descriptors that were not refined on the pictures see about a patch of the network each.
    patch = PATCH_SIGMA if matches.refined.any() else 2.5 * max(one.scale)
    share = dependence(matches.original_1[where], patch)
    found = relative_pose(
        matches.original_1[where],
        matches.original_2[where],
        k1,
        k2,
        covariance=matches.covariance[where],
        tolerance=1.5 if matches.refined.any() else max(1.5, 0.6 * pixel),
        focal_sigma=sigma,
        shared_focal=same and not given,
        depth=depth,
        dependence=share,
        estimator=estimator,
    )
    warnings = list(found.warnings)
    if any(sigma):
        percent = 1.96 * 100 * max(found.focal_sigma)
        warnings.append(
            f"the focal length is estimated, within {percent:.0f} % (95 %); give intrinsics if you can"
        )
    overlap = matches.overlap
    if overlap is not None and overlap.verdict == "NO" and found.pose is not None:
        return replace(found, pose=None, reason=f"no overlap: {overlap.reason}", scale=None, warnings=())
    if overlap is not None and overlap.verdict == "UNSURE":
        warnings.append(f"overlap is unsure: {overlap.reason}")
    return replace(found, inliers=where[found.inliers], intrinsics_source=source, warnings=tuple(warnings))


def _intrinsics(
    result: GPUInferenceResult | InferenceResult,
    intrinsics_1: npt.ArrayLike | None,
    intrinsics_2: npt.ArrayLike | None,
    focal_1: float | None,
    focal_2: float | None,
) -> tuple[F64, F64, tuple[float, float], str]:
    """Camera matrices in original pixels, the uncertainty of their focal lengths, the source."""
    one, two = result.transform_1, result.transform_2
    source = "given" if intrinsics_1 is not None or intrinsics_2 is not None else "network"
    same = (one.original_height, one.original_width) == (two.original_height, two.original_width)
    matrices: list[F64 | None] = [
        None if k is None else check_intrinsics(k) for k in (intrinsics_1, intrinsics_2)
    ]
    if same:  # one camera: what is known of it holds for both
        matrices = [matrices[0] if k is None else k for k in (matrices[0], matrices[1])]
        matrices = [matrices[1] if k is None else k for k in matrices]
        focal_1, focal_2 = focal_1 or focal_2, focal_2 or focal_1
    for m, way in zip(matrices, (one, two)):
        if m is not None:
            size = (way.original_width, way.original_height)
            check_pinhole(m[0, 0], m[1, 1], m[0, 2], m[1, 2], size, "intrinsics")
    sigmas = [0.0, 0.0]
    for number, (way, focal) in enumerate(((one, focal_1), (two, focal_2))):
        if matrices[number] is not None:
            continue
        sigmas[number] = 0.05  # EXIF rounds to millimetres of a 35-mm film, and lenses breathe
        if focal is not None:
            if not (np.isfinite(focal) and focal > 0):
                raise ShapeError(f"focal length {focal}, want a number above 0")
            source = "exif" if source == "network" else source
        else:
            sigmas[number] = FOCAL_SIGMA if number == 0 or same else OTHER_FOCAL_SIGMA
            scale = max(way.original_height, way.original_width) / max(
                one.original_height, one.original_width
            )
            focal = network_focal(result) * (1 if number == 0 or same else scale)
        matrices[number] = np.array(
            [
                [focal, 0, (way.original_width - 1) / 2],
                [0, focal, (way.original_height - 1) / 2],
                [0, 0, 1],
            ]
        )
    k1, k2 = matrices
    assert k1 is not None
    assert k2 is not None
    return k1, k2, (sigmas[0], sigmas[1]), source


@checked
def network_focal(result: GPUInferenceResult | InferenceResult) -> float:
    """The focal length of picture 1 from its points, in original pixels."""
    way = result.transform_1
    if not result.has("pts3d"):  # a view of about 55 degrees, as phones have
        return 1.0 * max(way.original_height, way.original_width)
    cx, cy = way.to_network([(way.original_width - 1) / 2, (way.original_height - 1) / 2])
    focal = focal_of_map(np.asarray(result.pts3d_1), way.height, way.width, cx, cy)
    return focal * max(way.scale)


@checked
def exif_focal(path: str | os.PathLike[str]) -> float | None:
    """The focal length of a photograph in pixels from its EXIF data, None if it has none.

    It is the 35-mm equivalent focal length, divided by the diagonal of the film (43.27 mm), times
    the diagonal of the picture in the file. It is right to a few per cent, unless the picture was
    cropped afterwards.
    """
    return header.focal(path)


def resampled(values: F32, way: Transform, depth: F32 | None) -> F32:
    """A map of the network's pixels, resampled at the pixels of the original picture: see ``at_original``."""
    height, width = values.shape[:2]
    xs = way.to_network(np.stack([np.arange(way.original_width), np.zeros(way.original_width)], 1))[:, 0]
    ys = way.to_network(np.stack([np.zeros(way.original_height), np.arange(way.original_height)], 1))[:, 1]
    out = np.full((way.original_height, way.original_width, *values.shape[2:]), np.nan, np.float32)
    columns = np.flatnonzero((xs > -0.5) & (xs < width - 0.5))
    x = np.clip(xs[columns], 0, width - 1)
    left = np.minimum(x.astype(int), max(0, width - 2))
    right = np.minimum(left + 1, width - 1)
    fx = (x - left).astype(np.float32).reshape(-1, *(1,) * (values.ndim - 2))
    near_x = np.rint(x).astype(int)
    for row in np.flatnonzero((ys > -0.5) & (ys < height - 0.5)):
        y = min(max(ys[row], 0.0), height - 1.0)
        top = min(int(y), max(0, height - 2))
        bottom = min(top + 1, height - 1)
        fy = np.float32(y - top)
        upper = values[top, left] * (1 - fx) + values[top, right] * fx
        lower = values[bottom, left] * (1 - fx) + values[bottom, right] * fx
        line = upper * (1 - fy) + lower * fy
        if depth is not None:
            around = np.stack(
                [depth[top, left], depth[top, right], depth[bottom, left], depth[bottom, right]]
            )
            edge = ~(np.ptp(around, axis=0) < EDGE * np.abs(around).min(axis=0))
            line[edge] = values[round(y), near_x[edge]]
        out[row, columns] = line
    return out
