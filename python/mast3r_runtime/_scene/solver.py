# SPDX-License-Identifier: Apache-2.0
"""The one module that knows pycolmap: verified pairs in, checked components out.

Pixels are handed over in units of half a network pixel: pycolmap's thresholds (4 pixels and the
like) are made for matches that are right to about a pixel, and a match is as exact as the network
was, however many pixels the original has. Results come back in original pixels.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._files.whole import replacing
from .._library.imports import heavy
from .._output import far
from ..errors import DependencyError
from . import check
from .loops import contradictions
from .model import F64, Lens, Model
from .tracks import KeyPoints, thinned

__all__ = ["Problem", "Solved", "Verified", "pycolmap", "solve", "verify"]

INSTALL = "pip install 'mast3r-runtime[scene]'"
LEAST_SHARE = 0.25  # of a pair's matches that must be inliers
VERIFY_ERROR = 4.0  # in units: two network pixels
INCREMENTAL_UP_TO = 200  # pictures; above it the global mapper comes first
JOIN_PICTURES = 3  # that two parts share, for them to be joined
JOIN_ERROR = 0.05  # of the size of what both see: so near their points must lie
JOIN_SHARE = 0.5  # of the common points
MANY = 60  # pictures, above which the mapper adjusts everything less often, and is given fewer tracks
TRACKS = 128  # that a picture begins, then
LEAST_INLIERS = 120  # that a pair keeps, then: of a pair with fewer than 100 the mapper does not begin
FIRST_ANGLES = (16.0, 8.0, 4.0)  # degrees that the first pair must have, tried in turn


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
    ``fixed`` cameras keep their parameters, ``known`` ones have a focal length from EXIF.
    ``network_pixel[i]`` is the size of a network pixel. ``poses[i]`` are given poses, camera from
    world: then there is no mapping, and pictures without one are not placed; they stay as given
    where ``fix_poses``, else they are where adjusting begins.
    """

    names: Sequence[str]
    keys: KeyPoints
    lenses: Sequence[Lens]
    camera_of: Sequence[int]
    fixed: frozenset[int]
    known: frozenset[int]
    network_pixel: Sequence[float]
    seed: int = 0
    threads: int = -1
    least: int = check.LEAST
    poses: Mapping[int, F64] = field(default_factory=dict)
    fix_poses: bool = False

    def unit(self, camera: int) -> float:
        """Original pixels per unit, one for all pictures of a camera."""
        return next(self.network_pixel[i] for i, c in enumerate(self.camera_of) if c == camera) / 2


@dataclass
class Verified:
    """Two-view geometry of the pairs: inliers of each, and pycolmap's own object."""

    inliers: dict[tuple[int, int], int] = field(default_factory=dict)
    matches: dict[tuple[int, int], int] = field(default_factory=dict)
    geometry: dict[tuple[int, int], Any] = field(default_factory=dict)
    contradicted: set[tuple[int, int]] = field(default_factory=set)

    def passed(self, least: int) -> list[tuple[int, int]]:
        """The pairs that count: enough inliers, and no contradiction by the way round over others."""
        enough = [p for p, n in self.inliers.items() if n >= least and n >= LEAST_SHARE * self.matches[p]]
        return [p for p in enough if p not in self.contradicted]

    def best(self, picture: int) -> tuple[int, int] | None:
        """The most inliers that a picture has with another, and with which."""
        found = [(n, sum(p) - picture) for p, n in self.inliers.items() if picture in p]
        return max(found, default=None)


@dataclass
class Solved:
    """Checked components, largest first, and why the other pictures are in none."""

    models: list[Model] = field(default_factory=list)
    unstable: dict[int, str] = field(default_factory=dict)  # number of a model: why
    reasons: dict[int, str] = field(default_factory=dict)  # picture: why it was taken out
    raw: list[Any] = field(default_factory=list)  # pycolmap's reconstructions of the models

    def score(self) -> tuple[int, int]:
        """Checked pictures, then observations: what one result is better by."""
        stable = [m for k, m in enumerate(self.models) if k not in self.unstable]
        return sum(len(m.pictures) for m in stable), sum(len(m.seen) for m in stable)


def verify(problem: Problem, tick: Callable[[], None] = lambda: None) -> Verified:
    """Estimate the two-view geometry of every pair with enough matches."""
    colmap = pycolmap()
    options = colmap.TwoViewGeometryOptions()
    options.ransac.max_error = VERIFY_ERROR
    options.ransac.random_seed = problem.seed
    options.detect_watermark = False  # two pictures of one scene may well be shifted copies
    cameras = [_camera(colmap, problem, c) for c in range(len(problem.lenses))]
    points = [_units(problem, i) for i in range(len(problem.names))]
    out = Verified()
    for (i, j), numbers in problem.keys.matches.items():
        tick()
        out.matches[i, j], out.inliers[i, j] = len(numbers), 0
        if len(numbers) < problem.least:
            continue
        found = colmap.estimate_calibrated_two_view_geometry(
            cameras[problem.camera_of[i]],
            points[i],
            cameras[problem.camera_of[j]],
            points[j],
            numbers,
            options,
        )
        out.inliers[i, j], out.geometry[i, j] = len(found.inlier_matches), found
    turns = {}
    for i, j in out.passed(problem.least):
        one, two = (cameras[problem.camera_of[k]] for k in (i, j))
        geometry = out.geometry[i, j]
        if colmap.estimate_two_view_geometry_pose(one, points[i], two, points[j], geometry):
            turns[i, j] = geometry.cam2_from_cam1.rotation.matrix()
    out.contradicted = contradictions(turns, out.inliers)
    return out


def solve(
    problem: Problem, verified: Verified, mapper: str = "auto", keep_database: Path | None = None
) -> Solved:
    """Run the mappers that ``mapper`` names and keep the result with most checked pictures."""
    colmap = pycolmap()
    passed = verified.passed(problem.least)
    linked = {i for pair in passed for i in pair}
    if not passed:
        return Solved()
    best = Solved()
    with tempfile.TemporaryDirectory(prefix="mast3r-scene-") as folder:
        database = Path(folder) / "database.db"
        geometry = {pair: verified.geometry[pair] for pair in passed}
        _write_database(colmap, problem, geometry, database)
        if keep_database is not None:
            with replacing(keep_database) as temporary:
                shutil.copyfile(database, temporary)
        if len(linked) > MANY and not problem.poses:
            database = database.with_name("thinned.db")
            _write_database(colmap, problem, _thinned(problem, geometry), database)
        if problem.poses:
            poses = {i: colmap.Rigid3d(pose[:3]) for i, pose in problem.poses.items() if i in linked}
            return _checked(colmap, problem, [_posed(colmap, problem, poses, database)], "poses as given")
        if len(linked) == 2:
            return _checked(colmap, problem, [_pair(colmap, problem, verified, passed[0], database)], "pair")
        for name, run in _mappers(colmap, problem, verified, database, passed, mapper, len(linked)):
            colmap.set_random_seed(problem.seed)
            parts = _joined(colmap, problem, list(run(Path(folder)).values()), database)
            found = _checked(colmap, problem, parts, name)
            if found.score() > best.score():
                best = found
            if best.score()[0] == len(linked):
                break
    return best


def _mappers(
    colmap: Any,
    problem: Problem,
    verified: Verified,
    database: Path,
    passed: Sequence[tuple[int, int]],
    mapper: str,
    count: int,
) -> list[tuple[str, Callable[[Path], Mapping[int, Any]]]]:
    """The mappers to try, in order, until all linked pictures are placed."""

    def incremental(angle: float) -> Callable[[Path], Mapping[int, Any]]:
        def run(folder: Path) -> Mapping[int, Any]:
            options = colmap.IncrementalPipelineOptions()
            options.random_seed = options.mapper.random_seed = problem.seed
            options.triangulation.random_seed = problem.seed
            options.num_threads = options.mapper.num_threads = problem.threads
            options.mapper.init_min_tri_angle = angle
            options.min_model_size = 3
            options.extract_colors = False
            options.ba_refine_principal_point = False
            options.constant_cameras = {c + 1 for c in _held(problem, passed)}
            if count > MANY:  # all cameras are adjusted together again whenever there are so many more
                options.ba_global_frames_ratio = options.ba_global_points_ratio = 1.4
                options.ba_global_max_refinements = 2
                first = _first_pair(verified, passed, angle, count)
                if first is not None:
                    options.init_image_id1, options.init_image_id2 = first[0] + 1, first[1] + 1
                    options.multiple_models = False
                    widest = float(np.degrees(verified.geometry[first].tri_angle))
                    options.mapper.init_min_tri_angle = min(angle, 0.9 * widest)
            out = folder / f"incremental-{angle:g}"
            out.mkdir(exist_ok=True)
            return dict(colmap.incremental_mapping(database, folder, out, options))

        return run

    def everything(folder: Path) -> Mapping[int, Any]:
        options = colmap.GlobalPipelineOptions()
        options.random_seed = options.mapper.random_seed = problem.seed
        options.num_threads = options.mapper.num_threads = problem.threads
        options.min_model_size = 3
        options.mapper.bundle_adjustment.refine_focal_length = len(problem.fixed) < len(problem.lenses)
        options.mapper.bundle_adjustment.ceres.use_gpu = options.mapper.global_positioning.use_gpu = False
        out = folder / "global"
        out.mkdir(exist_ok=True)
        return dict(colmap.global_mapping(database, folder, out, options))

    steps: list[tuple[str, Callable[[Path], Mapping[int, Any]]]]
    steps = [(f"incremental (first pair {a:g} degrees)", incremental(a)) for a in FIRST_ANGLES]
    whole: list[tuple[str, Callable[[Path], Mapping[int, Any]]]] = [("global", everything)]
    if mapper != "auto":
        return whole if mapper == "global" else steps
    return whole + steps if count > INCREMENTAL_UP_TO else steps + whole


def _first_pair(
    verified: Verified, passed: Sequence[tuple[int, int]], angle: float, count: int
) -> tuple[int, int] | None:
    """The pair of most inliers whose rays meet at ``angle`` degrees, or nearly at the widest there is.

    None where the mapper must look for it.

    The mapper's own search estimates every pair anew, and of a video, where hardly any has the angle,
    it does so for all of them. Pictures that are not all connected make several models: it looks.
    """
    group = {i: {i} for pair in passed for i in pair}
    for i, j in passed:
        if group[i] is not group[j]:
            group[i] |= group[j]
            for k in group[j]:
                group[k] = group[i]
    if any(len(own) < count for own in group.values()):
        return None
    angles = {p: float(np.degrees(verified.geometry[p].tri_angle)) for p in passed}
    wide = [p for p in passed if angles[p] >= min(angle, 0.7 * max(angles.values()))]
    return max(wide, key=lambda p: (verified.inliers[p], p), default=None)


def _held(problem: Problem, passed: Sequence[tuple[int, int]]) -> set[int]:
    """Cameras whose focal length too few pairs decide: held while mapping, freed at the end."""
    degree = dict.fromkeys(range(len(problem.lenses)), 0)
    for pair in passed:
        for i in pair:
            degree[problem.camera_of[i]] += 1
    weak = {c for c, n in degree.items() if n < 3 and c not in problem.known}
    return weak | set(problem.fixed)


def _camera(colmap: Any, problem: Problem, number: int) -> Any:
    camera = _scaled_camera(colmap, problem.lenses[number], problem.unit(number))
    camera.camera_id = number + 1
    camera.has_prior_focal_length = True
    return camera


def _scaled_camera(colmap: Any, lens: Lens, unit: float) -> Any:
    """pycolmap's camera of a picture whose pixels are ``unit`` original pixels wide."""
    params = lens.moved(0.5 / unit, 1 / unit).params
    size = {"width": round(lens.width / unit), "height": round(lens.height / unit)}
    return colmap.Camera(model=lens.model, params=params, **size)


def _units(problem: Problem, picture: int) -> F64:
    return (problem.keys.xy[picture] + 0.5) / problem.unit(problem.camera_of[picture])


def _write_database(
    colmap: Any, problem: Problem, geometry: Mapping[tuple[int, int], Any], path: Path
) -> None:
    database = colmap.Database.open(path)
    try:
        for c in range(len(problem.lenses)):
            database.write_camera(_camera(colmap, problem, c), use_camera_id=True)
            rig = colmap.Rig()
            rig.rig_id = c + 1
            rig.add_ref_sensor(colmap.sensor_t(colmap.SensorType.CAMERA, c + 1))
            database.write_rig(rig, use_rig_id=True)
        for i, name in enumerate(problem.names):
            image = colmap.Image(name=name, camera_id=problem.camera_of[i] + 1, image_id=i + 1)
            database.write_image(image, use_image_id=True)
            frame = colmap.Frame()
            frame.frame_id, frame.rig_id = i + 1, problem.camera_of[i] + 1
            frame.add_data_id(image.data_id)
            database.write_frame(frame, use_frame_id=True)
            database.write_keypoints(i + 1, _units(problem, i).astype(np.float32))
        for (i, j), two_view in geometry.items():
            database.write_matches(i + 1, j + 1, problem.keys.matches[i, j])
            database.write_two_view_geometry(i + 1, j + 1, two_view)
    finally:
        database.close()


def _thinned(problem: Problem, geometry: Mapping[tuple[int, int], Any]) -> dict[tuple[int, int], Any]:
    """The pairs with the inliers of the longest tracks: time grows with them, exactness hardly."""
    out = {}
    inliers = {pair: two_view.inlier_matches for pair, two_view in geometry.items()}
    for pair, numbers in thinned(problem.keys, inliers, TRACKS, LEAST_INLIERS).items():
        out[pair] = copy(geometry[pair])
        out[pair].inlier_matches = numbers
    return out


def _pair(colmap: Any, problem: Problem, verified: Verified, pair: tuple[int, int], database: Path) -> Any:
    """Two pictures: pose of the pair, triangulation; bundle adjustment follows with the check."""
    i, j = pair
    geometry = verified.geometry[pair]
    if geometry.cam2_from_cam1 is None:
        return colmap.Reconstruction()
    return _posed(colmap, problem, {i: colmap.Rigid3d(), j: geometry.cam2_from_cam1}, database)


def _posed(
    colmap: Any, problem: Problem, poses: Mapping[int, Any], database: Path, lenses: Any = None
) -> Any:
    """The points that pictures with poses (camera from world) see together.

    ``lenses`` are pycolmap's cameras by number, by default the first guesses.
    """
    out = colmap.Reconstruction()
    for c in sorted({problem.camera_of[k] for k in poses}):
        own = None if lenses is None else lenses.get(c + 1)
        out.add_camera_with_trivial_rig(own if own is not None else _camera(colmap, problem, c))
    for k, pose in sorted(poses.items()):
        points = colmap.Point2DList([colmap.Point2D(p) for p in _units(problem, k)])
        image = colmap.Image(
            name=problem.names[k], points2D=points, camera_id=problem.camera_of[k] + 1, image_id=k + 1
        )
        out.add_image_with_trivial_frame(image, pose)
    if len(poses) < 2:
        return out
    options = colmap.IncrementalPipelineOptions()
    options.random_seed = options.triangulation.random_seed = problem.seed
    options.triangulation.ignore_two_view_tracks = len(poses) > 2
    options.extract_colors = False
    folder = database.parent / "posed"
    folder.mkdir(exist_ok=True)
    return colmap.triangulate_points(out, database, database.parent, folder, True, options, False)


def _joined(colmap: Any, problem: Problem, parts: list[Any], database: Path) -> list[Any]:
    """Parts that share pictures, brought into one world where their points say how.

    The mapper starts a part anew from pictures that the others did not reach, and may take up to
    twenty of theirs into it. Where the places of points that both have agree on a similarity, all
    pictures get their pose in the world of the larger part, and the points are made anew.
    """
    parts = sorted(parts, key=lambda r: -r.num_reg_images())
    k = 0
    while k < len(parts):
        for other in parts[k + 1 :]:
            motion = _similarity(colmap, problem, parts[k], other)
            if motion is None:
                continue
            poses, cameras = {}, {}
            for source, move in ((other, motion), (parts[k], None)):  # the larger part has the last word
                for image_id in source.reg_image_ids():
                    pose = source.images[image_id].cam_from_world()
                    poses[image_id - 1] = move.transform_camera_world(pose) if move is not None else pose
                    camera_id = source.images[image_id].camera_id
                    cameras[camera_id] = source.cameras[camera_id]
            parts[k] = _posed(colmap, problem, poses, database, cameras)
            parts.remove(other)
            break
        else:
            k += 1
    return parts


def _similarity(colmap: Any, problem: Problem, one: Any, two: Any) -> Any:
    """What brings the world of ``two`` to that of ``one``; None unless their common points agree."""
    shared = set(one.reg_image_ids()) & set(two.reg_image_ids())
    if len(shared) < JOIN_PICTURES:
        return None
    places: dict[tuple[int, int], list[F64]] = {}
    for image_id in sorted(shared):
        ends = (one.images[image_id], two.images[image_id])
        for n in range(len(ends[0].points2D)):
            if all(end.points2D[n].has_point3D() for end in ends):
                ids = tuple(end.points2D[n].point3D_id for end in ends)
                places[ids] = [part.points3D[i].xyz for part, i in zip((one, two), ids)]
    if len(places) < problem.least:
        return None
    target, source = np.array(list(places.values())).transpose(1, 0, 2)
    options = colmap.RANSACOptions()
    options.random_seed = problem.seed
    near = np.median(np.linalg.norm(target - np.median(target, 0), axis=1))
    options.max_error = JOIN_ERROR * float(near)
    found = colmap.estimate_sim3d_robust(source, target, options)
    if found is None or found["num_inliers"] < max(problem.least, JOIN_SHARE * len(source)):
        return None
    return found["tgt_from_src"]


def _checked(colmap: Any, problem: Problem, found: Sequence[Any], mapper: str) -> Solved:
    """Take out what does not hold, adjust again, until all that is left holds."""
    out = Solved()
    taken: set[int] = set()
    rated = sorted(found, key=lambda r: -r.num_reg_images())
    for raw in rated:
        reasons: dict[int, str] = {}
        for image_id in [i for i in raw.reg_image_ids() if i - 1 in taken]:
            raw.deregister_frame(image_id)  # a larger component has it
        model = None
        for _ in range(12):
            if raw.num_reg_images() < 2 or not raw.num_points3D():
                model = None
                break
            _adjust(colmap, problem, raw)
            model = read(problem, raw, mapper)
            bad = check.faults(model, _first_focals(problem), dict(enumerate(problem.network_pixel)))
            if not bad:
                break
            reasons.update(bad)
            for picture in bad:
                raw.deregister_frame(picture + 1)
        out.reasons.update({i: why for i, why in reasons.items() if i not in taken})
        if model is None or bad:
            continue
        weak = check.weakness(model, dict(enumerate(problem.network_pixel)))
        if weak:
            out.unstable[len(out.models)] = weak
        taken.update(int(i) for i in model.pictures)
        out.models.append(model)
        out.raw.append(raw)
    out.reasons = {i: why for i, why in out.reasons.items() if i not in taken}
    return out


def _first_focals(problem: Problem) -> dict[int, float]:
    return {i: problem.lenses[c].focal for i, c in enumerate(problem.camera_of)}


def adjuster(colmap: Any, problem: Problem, raw: Any) -> Any:
    """Bundle adjustment of a component with the cameras that are given held."""
    options = colmap.BundleAdjustmentOptions()
    options.refine_principal_point = False
    options.print_summary = False
    options.ceres.loss_function_type = colmap.LossFunctionType.SOFT_L1
    options.ceres.solver_options.num_threads = problem.threads
    options.ceres.solver_options.function_tolerance = 1e-7
    config = colmap.BundleAdjustmentConfig()
    for image_id in raw.reg_image_ids():
        config.add_image(image_id)
    for camera_id in raw.cameras:
        if camera_id - 1 in problem.fixed:
            _give(colmap, problem, raw, camera_id)
        # Two pictures do not tell a focal length: of a stereo pair with parallel axes any fits.
        if camera_id - 1 in problem.fixed or raw.num_reg_images() == 2:
            config.set_constant_cam_intrinsics(camera_id)
    if problem.poses and problem.fix_poses:
        for image_id in raw.reg_image_ids():
            config.set_constant_rig_from_world_pose(raw.images[image_id].frame_id)
    else:
        config.fix_gauge(colmap.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    return colmap.create_default_ceres_bundle_adjuster(options, config, raw)


def _give(colmap: Any, problem: Problem, raw: Any, camera_id: int) -> None:
    raw.cameras[camera_id].params = _camera(colmap, problem, camera_id - 1).params


def _adjust(colmap: Any, problem: Problem, raw: Any) -> None:
    adjuster(colmap, problem, raw).solve()
    raw.update_point_3d_errors()


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
        unit = problem.unit(c)
        scaled = replace(problem.lenses[c], params=tuple(map(float, raw.cameras[c + 1].params)))
        lenses.append(scaled.moved(-0.5, unit))
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
    camera = _scaled_camera(colmap, lens, unit)
    options = colmap.AbsolutePoseEstimationOptions()
    options.ransac.max_error = VERIFY_ERROR
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
