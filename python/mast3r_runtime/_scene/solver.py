# SPDX-License-Identifier: Apache-2.0
"""Verified pairs in, checked components out, by pycolmap's mappers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._files.whole import replacing
from . import adjust, check
from .loops import contradictions
from .model import F64, Model
from .problem import Problem, colmap_camera, pycolmap, read, units
from .tracks import thinned

__all__ = ["Solved", "Verified", "solve", "verify"]

SAME_PIXELS = 0.25  # network pixels: matches that move less are of one view
LEAST_SHARE = 0.25  # of a pair's matches that must be inliers
VERIFY_ERROR = 4.0  # in units: two network pixels
INCREMENTAL_UP_TO = 200  # pictures; above it the global mapper comes first
JOIN_PICTURES = 3  # that two parts share, for them to be joined
JOIN_ERROR = 0.05  # of the size of what both see: so near their points must lie
JOIN_SHARE = 0.5  # of the common points
MANY = 60  # pictures, above which the mapper adjusts everything less often, and is given fewer tracks
TRACKS = 128  # that a picture begins, then
LEAST_INLIERS = 120  # that a pair keeps, then: of a pair with fewer than 100 the mapper does not begin
FAR = 1.2  # times a known focal length, from which on it is said
FIRST_ANGLES = (16.0, 8.0, 4.0)  # degrees that the first pair must have, tried in turn


@dataclass
class Verified:
    """Two-view geometry of the pairs: inliers of each, and pycolmap's own object.

    ``angle`` is the median angle in degrees at which the rays of a pair that passed meet, ``shift`` the
    median distance of its matches' two pixels in network pixels.
    """

    inliers: dict[tuple[int, int], int] = field(default_factory=dict)
    matches: dict[tuple[int, int], int] = field(default_factory=dict)
    geometry: dict[tuple[int, int], Any] = field(default_factory=dict)
    contradicted: set[tuple[int, int]] = field(default_factory=set)
    angle: dict[tuple[int, int], float] = field(default_factory=dict)
    shift: dict[tuple[int, int], float] = field(default_factory=dict)

    def enough(self, least: int) -> list[tuple[int, int]]:
        """The pairs with enough inliers, contradicted ones among them."""
        return [p for p, n in self.inliers.items() if n >= least and n >= LEAST_SHARE * self.matches[p]]

    def passed(self, least: int) -> list[tuple[int, int]]:
        """The pairs that count: enough inliers, and no contradiction by the way round over others."""
        return [p for p in self.enough(least) if p not in self.contradicted]

    def best(self, picture: int) -> tuple[int, int] | None:
        """The most inliers that a picture has with another, and with which."""
        found = [(n, sum(p) - picture) for p, n in self.inliers.items() if picture in p]
        return max(found, default=None)

    def still(self, picture: int, least: int) -> str:
        """Why the pairs of a picture hold no place for it, as far as they say; empty where they do not."""
        own = [p for p in self.passed(least) if picture in p]
        if own and max(self.shift[p] for p in own) < SAME_PIXELS:
            return "the same view as the pictures that it matches: nothing moves between them"
        if own and max(self.angle[p] for p in own) < check.LEAST_ANGLE:
            return "no parallax: the camera only turned between it and what it matches, or all is far away"
        return ""


@dataclass
class Solved:
    """Checked components, largest first, and why the other pictures are in none."""

    models: list[Model] = field(default_factory=list)
    unstable: dict[int, str] = field(default_factory=dict)  # number of a model: why
    reasons: dict[int, str] = field(default_factory=dict)  # picture: why it was taken out
    raw: list[Any] = field(default_factory=list)  # pycolmap's reconstructions: their exact observations
    notes: list[str] = field(default_factory=list)  # for people, of focal lengths

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
    cameras = [colmap_camera(colmap, problem, c) for c in range(len(problem.lenses))]
    points = [units(problem, i) for i in range(len(problem.names))]
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
        out.shift[i, j] = _shift(problem, i, j)
        out.angle[i, j] = 0.0
        if colmap.estimate_two_view_geometry_pose(one, points[i], two, points[j], geometry):
            turns[i, j] = geometry.cam2_from_cam1.rotation.matrix()
            out.angle[i, j] = float(np.degrees(geometry.tri_angle))
    out.contradicted = contradictions(turns, out.inliers)
    return out


def _shift(problem: Problem, i: int, j: int) -> float:
    """The median distance in network pixels between the two pixels of a pair's matches."""
    numbers = problem.keys.matches[i, j]
    gap = problem.keys.xy[i][numbers[:, 0]] - problem.keys.xy[j][numbers[:, 1]]
    return float(np.median(np.linalg.norm(gap, axis=1))) / problem.network_pixel[i]


def solve(
    problem: Problem, verified: Verified, mapper: str = "auto", keep_database: Path | None = None
) -> Solved:
    """Run the mappers that ``mapper`` names and keep the result with most checked pictures."""
    colmap = pycolmap()
    passed = verified.passed(problem.least)
    linked = {i for pair in passed for i in pair}
    if not passed:
        return Solved()
    with tempfile.TemporaryDirectory(prefix="mast3r-scene-") as name:
        folder = Path(name)
        database = _databases(colmap, problem, verified, folder, keep_database)
        if problem.poses:
            poses = {
                i: colmap.Rigid3d(problem.into_camera(i, pose)[:3])
                for i, pose in problem.poses.items() if i in linked
            }  # fmt: skip
            return _checked(colmap, problem, [_posed(colmap, problem, poses, database)], "poses as given")
        if len(linked) == 2:
            return _checked(colmap, problem, [_pair(colmap, problem, verified, passed[0], database)], "pair")
        best = _best(_tries(colmap, problem, verified, mapper, folder, database), len(linked))
        placed = {int(i) for m in best.models for i in m.pictures}
        for i in linked - placed:
            why = verified.still(i, problem.least)
            if why:
                best.reasons[i] = why
        return best


def _databases(
    colmap: Any, problem: Problem, verified: Verified, folder: Path, keep: Path | None = None
) -> Path:
    """COLMAP's database of the pairs that passed; of many pictures, with fewer tracks."""
    database = folder / "database.db"
    passed = verified.passed(problem.least)
    geometry = {pair: verified.geometry[pair] for pair in passed}
    _write_database(colmap, problem, geometry, database)
    if keep is not None:
        with replacing(keep) as temporary:
            shutil.copyfile(database, temporary)
    if len({i for pair in passed for i in pair}) > MANY and not problem.poses:
        database = database.with_name("thinned.db")
        _write_database(colmap, problem, _thinned(problem, geometry), database)
    return database


def _best(tries: Iterator[Solved], count: int) -> Solved:
    """The best of what is tried, until all pictures are placed; with reasons of those that are not."""
    best = Solved()
    reasons: dict[int, str] = {}
    for found in tries:
        reasons = {**found.reasons, **reasons}
        if found.score() > best.score():
            best = found
        if best.score()[0] == count and not best.notes:
            break
    placed = {int(i) for m in best.models for i in m.pictures}
    best.reasons = {i: why for i, why in {**reasons, **best.reasons}.items() if i not in placed}
    return best


def _tries(
    colmap: Any, problem: Problem, verified: Verified, mapper: str, folder: Path, database: Path
) -> Iterator[Solved]:
    """What each mapper makes: with focal lengths free, then with the known ones held, then without them.

    A known focal length is held second and not first: a good scene says it better than EXIF does. A
    weak one, such as of the ground seen from above, lets it run away, and then it is held.
    """
    passed = verified.passed(problem.least)
    count = len({i for pair in passed for i in pair})

    def run(
        trial: Problem, own: Verified, held: Collection[int], place: Path, where: Path
    ) -> Iterator[Solved]:
        place.mkdir(exist_ok=True)
        for name, mapped in _mappers(colmap, trial, own, where, own.passed(trial.least), mapper, count, held):
            colmap.set_random_seed(trial.seed)
            parts = _joined(colmap, trial, list(mapped(place).values()), where)
            found = _checked(colmap, trial, parts, name + ("; known focal lengths held" if held else ""))
            yield found
            if found.score()[0] == count:
                return

    yield from run(problem, verified, (), folder / "free", database)
    known = frozenset(problem.known) - problem.fixed
    if known:
        yield from run(problem, verified, known, folder / "held", database)
    if problem.others:
        lenses = [problem.others.get(c, lens) for c, lens in enumerate(problem.lenses)]
        left = {c: width for c, width in problem.known.items() if c not in problem.others}
        trial = replace(problem, lenses=tuple(lenses), known=left, others={})
        again = verify(trial)
        place = folder / "others"
        place.mkdir()
        if again.passed(trial.least):
            for other in run(trial, again, (), place, _databases(colmap, trial, again, place)):
                other.notes += _other_notes(problem, other)
                yield other


def _mappers(
    colmap: Any,
    problem: Problem,
    verified: Verified,
    database: Path,
    passed: Sequence[tuple[int, int]],
    mapper: str,
    count: int,
    held: Collection[int] = (),
) -> list[tuple[str, Callable[[Path], Mapping[int, Any]]]]:
    """The mappers to try, in order, until all linked pictures are placed; ``held`` cameras stay as given."""

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
            options.constant_cameras = {c + 1 for c in _held(problem, passed) | set(held)}
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
        kept = set(held) | problem.fixed
        options.mapper.bundle_adjustment.refine_focal_length = len(kept) < len(problem.lenses)
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


def _write_database(
    colmap: Any, problem: Problem, geometry: Mapping[tuple[int, int], Any], path: Path
) -> None:
    database = colmap.Database.open(path)
    try:
        for c in range(len(problem.lenses)):
            database.write_camera(colmap_camera(colmap, problem, c), use_camera_id=True)
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
            database.write_keypoints(i + 1, units(problem, i).astype(np.float32))
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
        out.add_camera_with_trivial_rig(own if own is not None else colmap_camera(colmap, problem, c))
    for k, pose in sorted(poses.items()):
        points = colmap.Point2DList([colmap.Point2D(p) for p in units(problem, k)])
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
    for raw in sorted(found, key=lambda r: -r.num_reg_images()):
        for image_id in [i for i in raw.reg_image_ids() if i - 1 in taken]:
            raw.deregister_frame(image_id)  # a larger component has it
        part, reasons = _held_together(colmap, problem, raw, mapper)
        out.reasons.update({i: why for i, why in reasons.items() if i not in taken})
        if part is None:
            continue
        model, exact = part
        weak = check.weakness(model, dict(enumerate(problem.network_pixel)))
        if weak:
            out.unstable[len(out.models)] = weak
        taken.update(int(i) for i in model.pictures)
        out.models.append(model)
        out.raw.append(exact)
    out.notes = _focal_notes(problem, out)
    out.reasons = {i: why for i, why in out.reasons.items() if i not in taken}
    return out


def _held_together(
    colmap: Any, problem: Problem, raw: Any, mapper: str
) -> tuple[tuple[Model, Any] | None, dict[int, str]]:
    """A component without its faulty pictures: model, exact observations; and the reasons of those."""
    reasons: dict[int, str] = {}
    exact = None
    for _ in range(12):
        if raw.num_reg_images() < 2 or not raw.num_points3D():
            return None, reasons
        if exact is None:
            adjust.rough(colmap, problem, raw)
        model = read(problem, raw, mapper)
        bad = check.faults(model, problem.first_focals(), dict(enumerate(problem.network_pixel)))
        if not bad and exact is not None:
            return (model, exact), reasons
        if not bad:
            exact = adjust.exact(colmap, problem, raw)
            continue
        exact = None
        reasons.update(bad)
        for picture in bad:
            raw.deregister_frame(picture + 1)
    return None, reasons


def _focal_notes(problem: Problem, solved: Solved) -> list[str]:
    """What is to be said of known focal lengths that the points do not confirm."""
    out = []
    for c in sorted(set(problem.known) - problem.fixed):
        first = problem.lenses[c].focal
        now = [lens.focal for m in solved.models for i, lens in zip(m.pictures, m.lenses)
               if problem.camera_of[int(i)] == c]  # fmt: skip
        if now and not 1 / FAR < now[0] / first < FAR:
            name = problem.names[problem.camera_of.index(c)]
            out.append(
                f"focal length {now[0]:.0f} px, where {first:.0f} px were given or are in EXIF "
                f"({now[0] / first - 1:+.0%}): {name} and others of its camera"
            )
    return out


def _other_notes(problem: Problem, solved: Solved) -> list[str]:
    """That focal lengths of EXIF were not used at all."""
    notes = _focal_notes(problem, solved)
    return [f"{note}; the focal length in EXIF was not used" for note in notes]
