# SPDX-License-Identifier: Apache-2.0
"""Solving on exact numbers: conventions, mappers, our own check, files beside pycolmap's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import made_scene as made
import numpy as np
import pytest

from mast3r_runtime._pairs.folder import read_pairs
from mast3r_runtime._pictures.header import Photo
from mast3r_runtime._pictures.names import Names
from mast3r_runtime._scene import (
    cameras,
    check,
    colmap_files,
    colmap_read,
    dense,
    gauge,
    given,
    solver,
    tracks,
    uncertainty,
)
from mast3r_runtime._scene.model import Lens, Model
from mast3r_runtime._scene.problem import Problem
from mast3r_runtime.errors import ArgumentError, FileError
from mast3r_runtime.results import Transform

pycolmap = pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene): nothing is solved")


def solve(scene: made.Made, mapper: str = "auto", **options: object) -> tuple[Problem, solver.Solved]:
    problem = scene.problem(**options)  # type: ignore[arg-type]
    return problem, solver.solve(problem, solver.verify(problem), mapper)


def centre_errors(model: Model, poses: np.ndarray) -> np.ndarray:
    return made.position_errors(model.centres(), poses[model.pictures, :3, 3])[0]


@pytest.mark.parametrize("mapper", ["incremental", "global"])
def test_exact_matches_give_exact_cameras(mapper: str) -> None:
    """Half-pixel conventions: any mistake of half a pixel leaves errors 10,000 times as large."""
    scene = made.make(made.arc(6))
    _, solved = solve(scene, mapper, focal=450.0)
    (model,) = solved.models
    assert len(model.pictures) == 6
    assert centre_errors(model, scene.poses).max() < 1e-4
    assert np.median(model.errors()) < 1e-4  # key points are float32
    for lens in model.lenses:
        n = lens.named()
        assert abs(n["fx"] - made.FOCAL) < 0.01
        assert abs(n["cx"] - 319.5) < 0.01 and abs(n["cy"] - 239.5) < 0.01


def test_two_pictures() -> None:
    scene = made.make(made.arc(2, 0.6))
    problem, solved = solve(scene)
    (model,) = solved.models
    assert model.mapper == "pair" and not solved.unstable
    turn = model.poses[1, :3, :3] @ model.poses[0, :3, :3].T
    true = scene.poses[1, :3, :3].T @ scene.poses[0, :3, :3]
    assert np.abs(turn - true).max() < 1e-3
    assert problem.names[1] == "01.jpg"


def test_chain_is_solved_by_each_mapper() -> None:
    """Neighbours alone, 8 degrees apart: the first pair's usual 16 degrees would give no model."""
    scene = made.make(made.arc(10, 1.6), window=2, noise=0.2)
    for mapper in ("incremental", "global"):
        _, solved = solve(scene, mapper)
        assert len(solved.models[0].pictures) == 10, mapper
        assert centre_errors(solved.models[0], scene.poses).max() < 0.05


def test_two_places_are_two_components() -> None:
    one, two = made.make(made.arc(5), seed=1), made.make(made.arc(4), seed=2)
    moved = [replace(p, first=p.first + 5, second=p.second + 5) for p in two.pairs]
    chance = made.make(made.arc(9), wrong=1.0, seed=3, points=120)
    cross = [p for p in chance.pairs if p.first < 5 <= p.second]
    both = replace(one, poses=np.concatenate([one.poses, two.poses]), pairs=one.pairs + moved + cross)
    _, solved = solve(both)
    assert [sorted(m.pictures.tolist()) for m in solved.models] == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]


def test_a_picture_of_chance_matches_is_not_placed() -> None:
    scene = made.make(made.arc(5), noise=0.3)
    stranger = made.make(made.arc(6), wrong=1.0, seed=5)
    pairs = scene.pairs + [p for p in stranger.pairs if p.second == 5]
    problem, solved = solve(replace(scene, poses=made.arc(6), pairs=pairs))
    assert 5 not in solved.models[0].pictures and len(solved.models[0].pictures) == 5
    assert problem.names[5] == "05.jpg"


def test_a_camera_that_only_turns_is_unstable() -> None:
    scene = made.make(made.turning(5), noise=0.3)
    _, solved = solve(scene)
    stable = [m for k, m in enumerate(solved.models) if k not in solved.unstable]
    assert not stable
    assert all("parallax" in why or "error" in why or "points" in why for why in solved.unstable.values())


@pytest.mark.parametrize("mapper", ["incremental", "global"])
def test_no_accepted_picture_is_weak(mapper: str) -> None:
    """Over sets of all kinds and seeds: never fewer than 30 observations, never a wild focal length."""
    placed = 0
    for seed in range(10):
        poses = made.arc(5, 0.4 + 0.15 * seed)
        scene = made.make(poses, 60 + 40 * (seed % 4), 0.5 + 0.3 * (seed % 3), 0.08 * (seed % 5), seed=seed)
        problem, solved = solve(scene, mapper, focal=made.FOCAL * (0.75 + 0.05 * seed), seed=seed)
        for k, model in enumerate(solved.models):
            if k in solved.unstable:
                continue
            least = 2 if len(model.pictures) == 2 else 3
            good = model.track_lengths()[model.seen] >= least
            for row, i in enumerate(model.pictures):
                assert ((model.seen_by == i) & good).sum() >= 30
                assert 0.3 < model.lenses[row].focal / made.WIDTH < 5
                placed += 1
        assert problem.least == 30
    assert placed >= 25  # the sets are not all hopeless


def test_thinning_keeps_the_longest_tracks_of_all_of_a_picture() -> None:
    """Stars: anchors of picture 0 with matches in pictures 1 to 5, some in all, some in one."""
    made_up = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(32), np.arange(24)), -1).reshape(-1, 2) * 20.0
    reach = made_up.integers(1, 6, len(grid))  # in how many pictures an anchor is seen
    matches, xy = {}, [grid]
    for k in range(1, 6):
        anchors = np.flatnonzero(reach >= k)
        xy.append(grid[anchors] + made_up.uniform(-3, 3, (len(anchors), 2)))
        matches[0, k] = np.stack([anchors, np.arange(len(anchors))], 1).astype(np.uint32)
    kept = tracks.thinned(tracks.KeyPoints(xy, matches), matches, 192, 0)
    anchors = {k: set(numbers[:, 0].tolist()) for (_, k), numbers in kept.items()}
    assert len(anchors[1]) == 192
    for k in range(1, 6):
        whole = {(int(a), int(b)) for a, b in matches[0, k]}
        assert {(int(a), int(b)) for a, b in kept[0, k]} <= whole
        assert anchors[k] == {a for a in anchors[1] if reach[a] >= k}  # a track is kept whole
    # one of every 2 x 2 anchors: the one that is seen most
    assert reach[sorted(anchors[1])].mean() > reach.mean() + 1
    cells = {(int(x) // 2, int(y) // 2) for x, y in grid[sorted(anchors[1])] / 20}
    assert len(cells) == 192
    floor = tracks.thinned(tracks.KeyPoints(xy, matches), matches, 4, 50)
    assert [len(n) for n in floor.values()] == [50] * 5


def test_many_pictures_are_solved_by_the_longest_tracks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a number of pictures the mapper is given fewer tracks; places stay as exact."""
    monkeypatch.setattr(solver, "MANY", 7)
    monkeypatch.setattr(solver, "TRACKS", 40)
    monkeypatch.setattr(solver, "LEAST_INLIERS", 100)
    scene = made.make(made.arc(8), 600, noise=0.3)
    _, thin = solve(scene)
    monkeypatch.setattr(solver, "MANY", 8)
    _, whole = solve(scene)
    assert len(thin.models[0].pictures) == 8
    assert len(thin.models[0].seen) < 0.6 * len(whole.models[0].seen)
    assert centre_errors(thin.models[0], scene.poses).max() < 0.02


def test_given_cameras_are_kept() -> None:
    scene = made.make(made.arc(5))
    _, solved = solve(scene, focal=530.0, fixed=frozenset([0]), known={0: 0.05})
    assert all(abs(lens.focal - 530.0) < 1e-9 for lens in solved.models[0].lenses)


def test_distortion_is_found() -> None:
    scene = made.make(made.arc(8), model="SIMPLE_RADIAL", extra=(0.06,), points=900)
    start = Lens("SIMPLE_RADIAL", made.WIDTH, made.HEIGHT, (480.0, 319.5, 239.5, 0.0))
    _, solved = solve(scene, lenses=(start,))
    n = solved.models[0].lenses[0].named()
    assert abs(n["k1"] - 0.06) < 1e-3 and abs(n["fx"] / made.FOCAL - 1) < 1e-3


def test_same_seed_same_bits() -> None:
    scene = made.make(made.arc(5), noise=0.4, wrong=0.1)
    one, two = (solve(scene, "incremental", seed=3)[1].models[0] for _ in range(2))
    for a, b in ((one.poses, two.poses), (one.points, two.points), (one.seen_at, two.seen_at)):
        np.testing.assert_array_equal(a, b)


def test_covariance_is_that_of_repeated_noise() -> None:
    """The spread of a camera over repeated noise is what its covariance says, within a factor of 1.6."""
    poses, spread, said = made.arc(6), [], []
    for seed in range(12):
        scene = made.make(poses, 250, 0.5, seed=7)
        noisy = np.random.default_rng(seed)
        exact = made.make(poses, 250, 0.0, seed=7)
        shift = [noisy.normal(size=(2, 100_000)) * 0.5 for _ in poses]
        pairs = [
            replace(p, xy_1=_moved(p.xy_1, shift[p.first]), xy_2=_moved(p.xy_2, shift[p.second]))
            for p in exact.pairs
        ]
        problem, solved = solve(replace(scene, pairs=pairs), "incremental", fixed=frozenset([0]))
        model = solved.models[0]
        covariance = uncertainty.poses(problem, solved)
        inside = [i for i in covariance if i in (2, 3)]
        assert inside
        said.append(np.sqrt(np.trace(covariance[inside[0]][:3, :3])))
        # rotation of camera inside[0] in the frame of camera 0, against the truth
        first = model.poses[model.row(0), :3, :3]
        relative = model.poses[model.row(inside[0]), :3, :3] @ first.T
        true = poses[inside[0], :3, :3].T @ poses[0, :3, :3]
        error = relative @ true.T
        spread.append(np.linalg.norm([error[2, 1], error[0, 2], error[1, 0]]))
    ratio = np.sqrt(np.mean(np.square(spread))) / np.median(said)
    assert 1 / 1.6 < ratio < 1.6, ratio


def _moved(xy: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The same pixel moves the same way in every pair."""
    key = (np.rint(xy.astype(float) * 64).astype(np.int64) @ [1, 7919]) % shift.shape[1]
    return (xy + shift[:, key].T).astype(np.float32)


# ---- our own check ---------------------------------------------------------------------------


def solved_model() -> Model:
    scene = made.make(made.arc(5), noise=0.2)
    return solve(scene)[1].models[0]


def test_check_names_every_fault() -> None:
    model = solved_model()
    first = dict.fromkeys(range(5), made.FOCAL)
    pixel = dict.fromkeys(range(5), 2.0)
    assert check.faults(model, first, pixel) == {}
    keep = (model.seen_by != 2) | (np.arange(len(model.seen)) % 40 == 0)
    few = replace(model, seen=model.seen[keep], seen_by=model.seen_by[keep], seen_at=model.seen_at[keep])
    assert check.faults(few, first, pixel)[2].endswith("observations in tracks of 3 pictures, want 30")
    wild = replace(model, lenses=(Lens("SIMPLE_PINHOLE", 640, 480, (4e8, 319.5, 239.5)), *model.lenses[1:]))
    assert check.faults(wild, first, pixel)[0].startswith("0 observations")  # none where it was seen
    assert "moved to" in check.faults(model, {**first, 1: 1300.0}, pixel)[1]
    wide = replace(model, lenses=(replace(model.lenses[0], width=1800, height=480), *model.lenses[1:]))
    assert "long sides, want 0.3 to 5" in check.faults(wide, first, pixel)[0]
    corner = np.where((model.seen_by == 3)[:, None], model.seen_at * 0.1, model.seen_at)
    close = replace(model, seen_at=corner)
    assert check.faults(close, first, {**pixel, 3: 1e4})[3].startswith("its observations reach")


def test_weak_components_say_why() -> None:
    model = solved_model()
    pixel = dict.fromkeys(range(5), 2.0)
    assert check.weakness(model, pixel) == ""
    assert "reprojection" in check.weakness(replace(model, seen_at=model.seen_at + 9), pixel)
    far = replace(model, points=model.points * [1, 1, 1] + np.array([0, 0, 1e4]))
    assert check.overlap_angles(far).max() < 0.1


# ---- gauge and dense depth -------------------------------------------------------------------


def test_gauge_keeps_the_pictures_and_sets_the_world() -> None:
    model = solved_model()
    placed = gauge.place(model, 2.5)
    np.testing.assert_allclose(placed.errors(), model.errors(), atol=1e-8)
    centres = placed.centres()
    assert np.linalg.norm(centres, axis=1).min() < 1e-9
    before = np.linalg.norm(model.centres()[0] - model.centres()[4])
    assert abs(np.linalg.norm(centres[0] - centres[4]) / before - 2.5) < 1e-9
    down = placed.poses[:, 1, :3].mean(0)
    assert down @ [0, 1, 0] > 0.99 * np.linalg.norm(down)


def test_network_scale_is_the_median_factor() -> None:
    model = solved_model()
    same = Transform(480, 640, 480, 640, 0, 0, 480, 640)
    ratios, depth = {}, {}
    for k, i in enumerate(int(p) for p in model.pictures):
        own = model.seen_by == i
        z = model.points[model.seen[own]] @ model.poses[k, 2, :3] + model.poses[k, 2, 3]
        depth[i] = np.full((480, 640), np.nan)
        xy = np.rint(model.seen_at[own]).astype(int)
        depth[i][np.clip(xy[:, 1], 0, 479), np.clip(xy[:, 0], 0, 639)] = 3 * z
    ratios = gauge.depth_ratios(model, depth, dict.fromkeys(range(5), same))
    scale = gauge.network_scale(ratios)
    assert abs(scale.value - 3) < 0.05 and scale.source == "network" and scale.pictures == 5
    assert "true lengths are unknown" in scale.sentence()


@pytest.mark.parametrize(
    "factors, off", [([1.0] * 12, 0), ([0.6, 1.9] * 6, 0), ([1.0] * 10 + [2.2] * 2, 0),
                     ([1.0] * 9 + [2.2] * 3, 3), ([1.0] * 9 + [0.4] * 3, 3), ([1.0] * 7 + [3.0] * 5, 5),
                     ([1.0, 1.0, 9.0, 9.0], 4), ([1.0, 1.0, 1.0, 9.0], 0), ([], 0)],
)  # fmt: skip
def test_parts_of_different_size_are_a_misfit(factors: list[float], off: int) -> None:
    """A quarter of the pictures, and three, at another size by a factor of two or more."""
    ratios = {i: (np.zeros((12, 2)), np.full(12, np.log(f))) for i, f in enumerate(factors)}
    said = gauge.misfit(ratios)
    assert (f"{off} of {len(factors)} pictures are off" in said) if off else said == ""


def test_bending_takes_away_a_smooth_error() -> None:
    made_up = np.random.default_rng(0)
    y, x = np.mgrid[0:96, 0:128]
    true = 3 + np.sin(x / 20) + y / 96
    wrong = (true * np.exp(0.3 + 0.1 * np.sin(x / 40) * np.cos(y / 30))).astype(np.float32)
    xy = np.stack([made_up.integers(0, 128, 300), made_up.integers(0, 96, 300)], 1).astype(float)
    at = xy.astype(int)
    ratio = np.log(true[at[:, 1], at[:, 0]] / wrong[at[:, 1], at[:, 0]])
    bent = dense.bend(wrong, xy, ratio)
    one_factor = wrong * np.exp(np.median(ratio))
    assert np.median(np.abs(bent / true - 1)) < 0.01 < np.median(np.abs(one_factor / true - 1))
    np.testing.assert_array_equal(dense.bend(wrong, xy[:0], ratio[:0]), wrong)


# ---- COLMAP's files --------------------------------------------------------------------------


def mixed() -> tuple[list[str], Model]:
    """A model with lenses of all kinds and awkward names."""
    model = solved_model()
    lenses = (
        Lens("PINHOLE", 640, 480, (520.25, 521.5, 319.5, 239.5)),
        Lens("SIMPLE_RADIAL", 640, 480, (520.0, 319.5, 239.5, 0.01)),
        Lens("OPENCV", 640, 480, (520.0, 519.0, 320.0, 240.0, 0.01, -0.002, 1e-4, 2e-4)),
        *model.lenses[3:],
    )
    names = ["a b.jpg", "sub/c d.png", "\u00e9.jpg", "d.jpg", "e.jpg"]
    colours = np.random.default_rng(0).integers(0, 256, (len(model.points), 3), np.uint8)
    return names, replace(model, lenses=lenses, colours=colours)


@pytest.mark.parametrize("form", ["text", "binary"])
def test_pycolmap_reads_our_files(form: str, tmp_path: Path) -> None:
    names, model = mixed()
    if form == "text":  # COLMAP ends a name at its first space there
        names = [name.replace(" ", "_") for name in names]
    getattr(colmap_files, f"write_{form}")(tmp_path, names, model)
    read = pycolmap.Reconstruction(str(tmp_path))
    assert read.num_reg_images() == 5 and read.num_points3D() == len(model.points) and read.num_frames() == 5
    for k, name in enumerate(names):
        image = read.find_image_with_name(name)
        np.testing.assert_allclose(image.cam_from_world().matrix(), model.poses[k, :3], atol=1e-9)
        camera = read.cameras[image.camera_id]
        wanted = model.lenses[k].moved(0.5)
        assert camera.model_name == wanted.model
        np.testing.assert_allclose(camera.params, wanted.params, atol=1e-9)
        own = model.seen_at[model.seen_by == model.pictures[k]] + 0.5
        np.testing.assert_allclose(np.array([p.xy for p in image.points2D]), own, atol=1e-9)
    ids = sorted(read.point3D_ids())
    np.testing.assert_allclose(np.array([read.points3D[i].xyz for i in ids]), model.points, atol=1e-9)
    np.testing.assert_array_equal(np.array([read.points3D[i].color for i in ids]), model.colours)
    lengths = [read.points3D[i].track.length() for i in ids]
    np.testing.assert_array_equal(lengths, model.track_lengths())
    # pycolmap projects with its own cameras: the same errors as ours
    read.update_point_3d_errors()
    total = np.bincount(model.seen, model.errors(), minlength=len(model.points)) / model.track_lengths()
    np.testing.assert_allclose([read.points3D[i].error for i in ids], total, atol=1e-6)


@pytest.mark.parametrize("form", ["text", "binary"])
def test_we_read_what_pycolmap_writes(form: str, tmp_path: Path) -> None:
    names, model = mixed()
    colmap_files.write_binary(tmp_path, names, model)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    getattr(pycolmap.Reconstruction(str(tmp_path)), f"write_{form}")(str(theirs))
    found, back = colmap_read.read(theirs)
    order = [found.index(name) for name in names]
    np.testing.assert_allclose(back.poses[order], model.poses, atol=1e-9)
    np.testing.assert_allclose(np.sort(back.points, 0), np.sort(model.points, 0), atol=1e-9)
    assert [back.lenses[k].model for k in order] == [lens.model for lens in model.lenses]
    np.testing.assert_allclose(np.sort(back.errors()), np.sort(model.errors()), atol=1e-7)


def test_torn_files_are_named(tmp_path: Path) -> None:
    names, model = mixed()
    colmap_files.write_binary(tmp_path, names, model)
    whole = {path.name: path.read_bytes() for path in tmp_path.glob("*.bin")}
    for file in ("cameras.bin", "images.bin", "points3D.bin"):
        for cut in (0, 4, 11, len(whole[file]) // 2, len(whole[file]) - 1):
            (tmp_path / file).write_bytes(whole[file][:cut])
            with pytest.raises(FileError, match="COLMAP model"):
                colmap_read.read(tmp_path)
        (tmp_path / file).write_bytes(b"\xff" * 64)
        with pytest.raises(FileError):
            colmap_read.read(tmp_path)
        (tmp_path / file).write_bytes(whole[file])
    with pytest.raises(FileError):
        colmap_read.read(tmp_path / "none")


def test_quaternions() -> None:
    for seed in range(50):
        q = np.random.default_rng(seed).normal(size=4) * [1, 1, 1, 0 if seed % 5 == 0 else 1]
        m = colmap_files.rotation(q)
        np.testing.assert_allclose(colmap_files.rotation(colmap_files.quaternion(m)), m, atol=1e-12)
    for axis in np.eye(3):  # half turns: w = 0
        m = 2 * np.outer(axis, axis) - np.eye(3)
        np.testing.assert_allclose(colmap_files.rotation(colmap_files.quaternion(m)), m, atol=1e-12)


def test_lens_rays_are_the_inverse_of_pixels() -> None:
    lens = Lens("OPENCV", 640, 480, (520.0, 510.0, 322.0, 237.0, -0.08, 0.02, 1e-3, -5e-4))
    xy = np.random.default_rng(0).uniform((0, 0), (639, 479), (200, 2))
    np.testing.assert_allclose(lens.pixels(lens.rays(xy) * 3.7), xy, atol=1e-7)


# ---- which cameras ---------------------------------------------------------------------------


def photo(
    name: str, width: int = 640, height: int = 480, focal: float | None = None, make: str = ""
) -> Photo:
    return Photo(name, Path(name), width, height, focal, make, "", name)


def test_sharing_of_cameras() -> None:
    same = [photo("a/1.jpg"), photo("a/2.jpg"), photo("b/3.jpg")]
    assert cameras.plan(same, {}).of == (0, 0, 0)
    assert cameras.plan(same, {}, "per-picture").of == (0, 1, 2)
    assert cameras.plan(same, {}, "per-folder").of == (0, 0, 1)
    upright = [*same, photo("b/4.jpg", 480, 640)]
    for sharing in ("auto", "shared"):
        planned = cameras.plan(upright, {}, sharing)
        assert planned.of == (0, 0, 0, 0) and planned.turned == {3}
    other = [*same, photo("b/4.jpg", 480, 320)]
    assert cameras.plan(other, {}).of == (0, 0, 0, 1)  # an odd one gets its own, and no other does
    with pytest.raises(ArgumentError, match=r"640 x 480, b/4.jpg is 480 x 320"):
        cameras.plan(other, {}, "shared")
    phones = [photo("1.jpg", focal=500.0, make="Apple"), photo("2.jpg", focal=500.0, make="Apple")]
    phones += [photo("3.jpg", focal=900.0, make="Apple"), photo("4.jpg", focal=500.0, make="Google")]
    assert cameras.plan(phones, {}).of == (0, 0, 1, 2)
    mostly = [photo("1.jpg", 480, 640), photo("2.jpg", 480, 640), photo("3.jpg")]
    planned = cameras.plan(mostly, {})
    assert planned.turned == {2} and planned.lenses[0].width == 480


def test_a_focal_length_in_exif_that_the_points_deny_has_another_guess() -> None:
    two = [photo("1.jpg", focal=1800.0), photo("2.jpg", focal=1800.0)]
    planned = cameras.plan(two, {0: [500.0], 1: [520.0]})
    assert planned.lenses[0].focal == 1800 and planned.others[0].focal == 510
    assert not cameras.plan(two, {0: [1700.0]}).others


def test_first_focal_lengths() -> None:
    points = {0: [500.0, 520.0], 1: [510.0]}
    two = [photo("1.jpg"), photo("2.jpg")]
    assert cameras.plan(two, points).lenses[0].focal == 510
    exif = [photo("1.jpg", focal=700.0), photo("2.jpg", focal=700.0)]
    planned = cameras.plan(exif, points)
    assert planned.lenses[0].focal == 700 and planned.known == {0: cameras.EXIF_WIDTH}
    assert cameras.plan(exif, points, focal_from="points").lenses[0].focal == 510
    with pytest.raises(ArgumentError, match="no focal length in EXIF"):
        cameras.plan(two, points, focal_from="exif")
    assert cameras.plan(two, {0: [1e9]}).lenses[0].focal == 5 * 640
    assert cameras.plan([photo("p.jpg", make="Apple")], points).lenses[0].model == "SIMPLE_RADIAL"
    lens = Lens("PINHOLE", 640, 480, (600.0, 601.0, 319.0, 240.0))
    mixed = cameras.plan(two, points, given={1: lens})
    assert mixed.of == (0, 1) and mixed.fixed == {1} and mixed.lenses[1] == lens
    assert cameras.plan(two, points, given={1: lens}, refine=True).fixed == frozenset()


def test_given_intrinsics(tmp_path: Path) -> None:
    sizes = {"a.jpg": (640, 480), "sub/b c.jpg": (640, 480)}
    plain = given.intrinsics("600,601,319.5,239.5", sizes, Names(list(sizes)))
    assert plain["a.jpg"].params == (600, 601, 319.5, 239.5)
    (tmp_path / "cameras.txt").write_text("# c\n1 PINHOLE 640 480 600 601 320 240\n")
    assert given.intrinsics(str(tmp_path / "cameras.txt"), sizes, Names(list(sizes)))["a.jpg"].params == (
        600,
        601,
        319.5,
        239.5,
    )
    frames = [{"file_path": "images/sub/b c.jpg", "fl_x": 600}]
    values = {"fl_x": 1, "cx": 320, "cy": 240, "w": 640, "h": 480, "frames": frames}
    (tmp_path / "t.json").write_text(json.dumps(values))
    found = given.intrinsics(str(tmp_path / "t.json"), sizes, Names(list(sizes)))
    assert set(found) == {"sub/b c.jpg"} and found["sub/b c.jpg"].params[:4] == (600, 600, 319.5, 239.5)
    for bad in ("600,601,319.5", "a,b,c,d", "-1,2,3,4", "nan,1,1,1", str(tmp_path / "no.txt")):
        with pytest.raises(ArgumentError):
            given.intrinsics(bad, sizes, Names(list(sizes)))


def test_given_pairs_and_scale(tmp_path: Path) -> None:
    names = ["a.jpg", "b c.jpg", "d.jpg"]
    path = tmp_path / "pairs.txt"
    path.write_text("\ufeffa.jpg\tb c.jpg\nb c.jpg d.jpg 0.75\n\nx.jpg y.jpg\n", encoding="utf-8")
    assert read_pairs(path, names, others=True) == [(0, 1), (1, 2)]
    path.write_text("x.jpg y.jpg\n")
    with pytest.raises(ArgumentError, match="no pairs of these"):
        read_pairs(path, names, others=True)
    assert given.scale("a.jpg,b c.jpg=1.5", Names(names)) == ("a.jpg", "b c.jpg", 1.5)
    for bad in ("metres", "a.jpg,x.jpg=2"):
        with pytest.raises(ArgumentError, match="want network, none"):
            given.scale(bad, Names(names))
    for bad in ("far", "-1", "0", "inf", "nan"):
        with pytest.raises(ArgumentError, match="above 0"):
            given.scale(f"a.jpg,d.jpg={bad}", Names(names))
