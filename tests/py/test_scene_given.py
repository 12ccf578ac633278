# SPDX-License-Identifier: Apache-2.0
"""Scenes with what the user knows: poses, places in metres, lenses; and walls that look the same."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import made_scene as made
import numpy as np
import pytest
from PIL import Image

from mast3r_runtime import cli
from mast3r_runtime._pictures import header
from mast3r_runtime._pictures.header import Photo
from mast3r_runtime._pictures.names import Names
from mast3r_runtime._scene import cameras, files, gauge, given, known, loops, solver
from mast3r_runtime._scene.problem import Problem
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.errors import ArgumentError, SceneError
from mast3r_runtime.scene import Scene, reconstruct

pycolmap = pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene): nothing is solved")


def solve(scene: made.Made, **options: object) -> tuple[Problem, solver.Solved]:
    problem = scene.problem(**options)  # type: ignore[arg-type]
    return problem, solver.solve(problem, solver.verify(problem))


def errors(solved: solver.Solved, truth: np.ndarray) -> np.ndarray:
    model = solved.models[0]
    return made.position_errors(model.centres(), truth[model.pictures, :3, 3])[0]


# ---- given poses -----------------------------------------------------------------------------


@pytest.mark.parametrize("fixed", [True, False])
def test_given_poses_are_the_world(fixed: bool) -> None:
    """Points alone are solved; the poses stay as they are, or move by what the noise says."""
    scene = made.make(made.arc(6), noise=0.3)
    poses = {i: np.linalg.inv(scene.poses[i]) for i in range(5)}  # one picture has none
    _, solved = solve(scene, poses=poses, fix_poses=fixed)
    (model,) = solved.models
    assert model.mapper == "poses as given" and model.pictures.tolist() == [0, 1, 2, 3, 4]
    moved = np.abs(model.poses - [poses[int(i)] for i in model.pictures]).max()
    assert moved < 1e-9 if fixed else 1e-9 < moved < 0.02
    near = np.linalg.norm(model.points[:, None] - scene.points[None], axis=2).min(1)
    assert len(model.points) > 300 and np.median(near) < 0.02  # the world of the given poses


def test_files_of_poses(tmp_path: Path) -> None:
    poses = made.arc(3)
    poses[:, :3, 3] += [1, 2, 3]
    names = ["a.jpg", "sub/b c.jpg", "none.jpg"]
    frames = [
        {"file_path": f"images/{n}", "transform_matrix": files.opengl(p).tolist()}
        for n, p in zip(names[:2], poses)
    ]
    up = files.opengl(np.diag([1.0, -1, -1, 1]))[:3]  # ours: what opengl does to the world alone
    for values in ({"frames": frames}, {"frames": frames, "applied_transform": up.tolist()}):
        (tmp_path / "t.json").write_text(json.dumps(values))
        found = given.poses(tmp_path / "t.json", Names(names))
        assert list(found) == names[:2]
        np.testing.assert_allclose([found[n] for n in names[:2]], poses[:2], atol=1e-12)
    lines = ["# COLMAP"]
    for k, (name, pose) in enumerate(zip(names[:2], poses)):
        inverse = np.linalg.inv(pose)
        q = " ".join(map(repr, pycolmap.Rotation3d(inverse[:3, :3]).quat[[3, 0, 1, 2]].tolist()))
        lines += [f"{k + 1} {q} {' '.join(map(repr, inverse[:3, 3].tolist()))} 1 {name}", ""]
    (tmp_path / "images.txt").write_text("\n".join(lines) + "\n")
    found = given.poses(tmp_path / "images.txt", Names(names))
    np.testing.assert_allclose([found[n] for n in names[:2]], poses[:2], atol=1e-12)
    places = given.scale(str(tmp_path / "images.txt"), Names(names))
    assert isinstance(places, dict)
    np.testing.assert_allclose(places["a.jpg"], poses[0, :3, 3], atol=1e-12)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", '{"frames": 3}', '{"frames": [{"file_path": "a.jpg"}]}',
     '{"frames": [{"file_path": "a.jpg", "transform_matrix": [[1, 2], [3, 4]]}]}',
     '{"frames": [{"file_path": "a.jpg", "transform_matrix": [[9,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}]}',
     '{"frames": [{"file_path": "a.jpg", "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,-1,0],[0,0,0,1]]}]}',
     '{"frames": [{"file_path": "a.jpg", "transform_matrix": [[1,0,0,NaN],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}]}',
     '{"frames": []}'],
)  # fmt: skip
def test_files_that_hold_no_poses(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(text)
    (tmp_path / "images.txt").write_text(text or "1 0 0 0 0 0 0 0 1 a.jpg\n\n")
    for name in ("t.json", "images.txt", "absent.json"):
        with pytest.raises(ArgumentError, match="poses"):
            given.poses(tmp_path / name, Names(["a.jpg"]))


def test_scale_of_places_in_metres() -> None:
    scene = made.make(made.arc(5), noise=0.2)
    model = solve(scene)[1].models[0]
    centres = {int(i): 2.5 * scene.poses[i, :3, 3] + 7 for i in model.pictures}
    scale = gauge.scale_of_places(model, centres)
    between = np.linalg.norm(model.centres()[0] - model.centres()[4])
    true = 2.5 * np.linalg.norm(scene.poses[model.pictures[0], :3, 3] - scene.poses[model.pictures[4], :3, 3])
    assert abs(scale.value * between / true - 1) < 0.01
    assert scale.source == "known" and scale.pictures == 5 and scale.spread < 0.02
    with pytest.raises(SceneError, match="1 of the placed pictures"):
        gauge.scale_of_places(model, {0: np.zeros(3)})
    with pytest.raises(SceneError, match="all places"):
        gauge.scale_of_places(model, {0: np.zeros(3), 1: np.zeros(3)})


def test_without_levelling_the_world_is_the_base_camera() -> None:
    model = solve(made.make(made.arc(5), noise=0.2))[1].models[0]
    placed = gauge.place(model, 2.0, levelled=False)
    assert min(np.abs(pose - np.eye(4)).max() for pose in placed.poses) < 1e-9
    np.testing.assert_allclose(placed.errors(), model.errors(), atol=1e-8)


@pytest.mark.parametrize(
    "name", ["AC 10.5mm Fisheye", "EF 8-15mm f/4L FISH-EYE", "smc PENTAX-DA Fish-Eye 10-17mm"]
)
def test_fisheye_lenses_need_intrinsics(tmp_path: Path, name: str) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0xA434] = name
    Image.new("RGB", (640, 480)).save(tmp_path / "a.jpg", exif=exif)
    bent = header.read("a.jpg", tmp_path / "a.jpg")
    plain = Photo("b.jpg", Path("b.jpg"), 640, 480, lens="50mm F1.8")
    assert bent.fisheye and not plain.fisheye
    with pytest.raises(ArgumentError, match=r"a.jpg: taken with a fisheye lens .*--intrinsics"):
        cameras.plan([plain, bent], {})
    lens = given.intrinsics("600,601,319.5,239.5", {"a.jpg": (640, 480)}, Names(["a.jpg"]))["a.jpg"]
    assert cameras.plan([plain, bent], {}, given={1: lens}).of == (0, 1)
    frame = {"file_path": "a.jpg", "fl_x": 600, "cx": 320, "cy": 240, "w": 640, "h": 480}
    (tmp_path / "t.json").write_text(json.dumps({"camera_model": "OPENCV_FISHEYE", "frames": [frame]}))
    with pytest.raises(ArgumentError, match="fisheye"):
        given.intrinsics(str(tmp_path / "t.json"), {"a.jpg": (640, 480)}, Names(["a.jpg"]))


# ---- parts and walls -------------------------------------------------------------------------


def test_parts_that_share_pictures_are_joined(tmp_path: Path) -> None:
    """Two parts in worlds of their own, three pictures in both: one world afterwards."""
    scene = made.make(made.arc(9), 600, noise=0.3)
    problem = scene.problem()
    verified = solver.verify(problem)
    database = tmp_path / "database.db"
    geometry = {pair: verified.geometry[pair] for pair in verified.passed(30)}
    solver._write_database(pycolmap, problem, geometry, database)

    def part(pictures: range, scale: float, shift: list[float]) -> object:
        turn = pycolmap.Rotation3d(np.array([0, np.sin(0.3), 0, np.cos(0.3)]))
        other = pycolmap.Sim3d(scale, turn, np.array(shift))
        poses = {
            k: other.transform_camera_world(pycolmap.Rigid3d(np.linalg.inv(scene.poses[k])[:3]))
            for k in pictures
        }
        return solver._posed(pycolmap, problem, poses, database)

    first = part(range(6), 1.0, [0.0, 0.0, 0.0])
    joined = solver._joined(pycolmap, problem, [part(range(3, 9), 2.5, [1.0, 2.0, 3.0]), first], database)
    solved = solver._checked(pycolmap, problem, joined, "test")
    assert len(solved.models) == 1 and len(solved.models[0].pictures) == 9
    assert errors(solved, scene.poses).max() < 0.01
    apart = [part(range(5), 1.0, [0.0] * 3), part(range(3, 9), 2.5, [1.0, 2.0, 3.0])]  # two in both
    assert len(solver._joined(pycolmap, problem, apart, database)) == 2


def two_walls(count: int = 36, seed: int = 0) -> tuple[made.Made, set[tuple[int, int]]]:
    """A room that is walked round, looking outwards, in which two opposite walls look the same.

    Also the pairs that match one wall with the other.
    """
    rng = np.random.default_rng(seed)
    angle, far, y = (rng.uniform(a, b, 1500) for a, b in ((0, 2 * np.pi), (4, 5.5), (-1.5, 1.5)))
    second = np.abs(angle - np.pi) < np.radians(15)
    angle, far, y = angle[~second], far[~second], y[~second]
    wall = np.flatnonzero(np.abs((angle + np.pi) % (2 * np.pi) - np.pi) < np.radians(15))
    label = np.concatenate([np.arange(len(angle)), wall])
    angle = np.concatenate([angle, angle[wall] + np.pi])
    far, y = np.concatenate([far, far[wall]]), np.concatenate([y, y[wall]])
    xyz = np.stack([far * np.sin(angle), y, far * np.cos(angle)], 1)
    poses = np.tile(np.eye(4), (count, 1, 1))
    for i, a in enumerate(2 * np.pi * np.arange(count) / count):
        c, s = np.cos(a), np.sin(a)
        poses[i, :3, :3] = [[c, 0, s], [0, 1, 0], [-s, 0, c]]
        poses[i, :3, 3] = [1.2 * s, 0.2 * np.sin(3 * a), 1.2 * c]
    whole = made.make(poses, 1)
    seen = []
    for pose in poses:
        xy, inside = made.project(whole.lens, pose, xyz)
        seen.append((xy + 0.3 * rng.normal(size=xy.shape), inside))
    pairs, alike = [], set()
    for i in range(count):
        for j in range(i + 1, count):
            a, b = np.flatnonzero(seen[i][1]), np.flatnonzero(seen[j][1])
            if min(j - i, count - j + i) <= 5:
                one = two = np.intersect1d(a, b)
            else:
                _, ka, kb = np.intersect1d(label[a], label[b], return_indices=True)
                one, two = a[ka], b[kb]
                if len(one) >= 30:
                    alike.add((i, j))
            if len(one):
                ends = (seen[i][0][one].astype(np.float32), seen[j][0][two].astype(np.float32))
                pairs.append(made.PairMatches(i, j, *ends))
    return replace(whole, points=xyz, pairs=pairs), alike


def test_two_walls_that_look_the_same() -> None:
    """Their pairs are perfect, and are left out, as the way round says; with them the room folds up."""
    scene, alike = two_walls()
    problem = scene.problem(focal=450.0)
    verified = solver.verify(problem)
    assert len(alike) > 20 and verified.contradicted == alike
    solved = solver.solve(problem, verified, "incremental")
    assert len(solved.models[0].pictures) == 36 and errors(solved, scene.poses).max() < 0.05
    verified.contradicted = set()
    folded = solver.solve(problem, verified, "incremental")
    assert len(folded.models[0].pictures) < 36 or errors(folded, scene.poses).max() > 0.5


def test_a_wrong_focal_length_contradicts_nothing() -> None:
    """Turns that are a fifth too large do not close a round, and are no contradiction."""

    def turn(degrees: float) -> np.ndarray:
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])

    turns = {(min(i, (i + k) % 24), max(i, (i + k) % 24)): k for i in range(24) for k in (1, 2, 3)}
    large = {
        (i, j): turn(18.0 * k if j - i == k else -18.0 * k) for (i, j), k in turns.items()
    }  # 15 degrees each in truth
    worth = {pair: 100.0 / k for pair, k in turns.items()}
    assert loops.contradictions(large, worth) == set()
    large[0, 3] = turn(-120.0)
    assert loops.contradictions(large, worth) == {(0, 3)}


def test_a_long_walk_is_begun_with_a_pair_of_ours() -> None:
    """Of 64 pictures that see hardly any parallax between neighbours, each is placed."""
    scene = made.make(made.arc(64, 2.0), 300, noise=0.3, window=3, seed=2)
    problem = scene.problem()
    verified = solver.verify(problem)
    passed = verified.passed(30)
    pair = solver._first_pair(verified, passed, 16.0, 64)
    assert pair in passed and solver._first_pair(verified, passed, 16.0, 65) is None
    solved = solver.solve(problem, verified, "incremental")
    assert len(solved.models[0].pictures) == 64 and errors(solved, scene.poses).max() < 0.02


# ---- with the model in the wheel --------------------------------------------------------------


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scene, Path]:
    """A scene of five views whose options are on the command line, and its folder."""
    folder = tmp_path_factory.mktemp("scene")
    common = ["--resolution", "256", "--backend", "cpu", "--threads", "2"]
    names = [str(path) for path in known.paths()[:5]]
    tail = [
        "-o",
        str(folder),
        "--keep-database",
        "--max-dense",
        "500",
        "--up",
        "none",
        "--scale-from",
        "none",
    ]
    assert cli.main(["reconstruct", *names, *common, *tail]) == 0
    return Scene.load(folder), folder


def test_database_and_limits_of_the_command_line(views: tuple[Scene, Path]) -> None:
    scene, folder = views
    with sqlite3.connect(folder / "database.db") as database:
        counts = [database.execute(f"SELECT COUNT(*) FROM {t}").fetchone()[0] for t in ("images", "matches")]
    assert counts[0] == 5 and counts[1] >= 5
    header = (folder / "dense.ply").read_bytes()[:300].decode("ascii", "replace")
    assert 1 <= int(header.split("element vertex ")[1].split()[0]) <= 500
    assert min(np.abs(p.pose - np.eye(4)).max() for p in scene.placed) < 1e-6  # type: ignore[operator]
    assert all(pair["contradicted"] is False for pair in scene.report["pairs"])


@pytest.mark.parametrize("form", ["transforms.json", "sparse/0/text/images.txt"])
def test_poses_of_a_scene_are_taken_again(
    views: tuple[Scene, Path], tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What reconstruct wrote goes in as known poses, and comes out the same."""
    before, folder = views
    names = [str(path) for path in known.paths()[:5]]
    text = ["--resolution", "256", "--backend", "cpu", "--threads", "2", "--store", str(folder / ".cache")]
    how = ["--poses", str(folder / form), "--fix-poses", "--intrinsics", str(folder / "transforms.json")]
    assert cli.main(["reconstruct", *names, *text, "-o", str(tmp_path), *how, "--dense", "none"]) == 0
    after = Scene.load(tmp_path)
    assert len(after.placed) == 5 and after.scale.source == "poses" and after.scale.unit == "units"
    for p in after.placed:
        np.testing.assert_allclose(p.pose, before.pictures[p.name].pose, atol=1e-9)
    assert after.components[0].mapper == "poses as given" and len(after.points) > 300
    capsys.readouterr()


def test_places_in_metres_set_the_scale(views: tuple[Scene, Path], engine_256: CPUEngine) -> None:
    before, folder = views
    metres = {p.name: 3.0 * p.pose[:3, 3] for p in before.placed}  # type: ignore[index]
    made_scene = reconstruct(
        engine_256, known.paths()[:5], store=folder / ".cache", scale=metres, dense=False
    )
    ends = [made_scene.pictures[n].pose[:3, 3] for n in ("room_00.jpg", "room_04.jpg")]  # type: ignore[index]
    wanted = np.linalg.norm(metres["room_00.jpg"] - metres["room_04.jpg"])
    assert abs(np.linalg.norm(ends[0] - ends[1]) / wanted - 1) < 0.01 and made_scene.scale.source == "known"


@pytest.fixture(scope="module")
def engine_256() -> CPUEngine:
    engine = CPUEngine("auto", resolution=256, num_threads=2)
    engine.load()
    return engine


@pytest.mark.parametrize(
    ("options", "words"),
    [({"up": "down"}, "up"), ({"fix_poses": True}, "fix_poses without poses"),
     ({"poses": {"a": np.eye(3)}}, "pose of 'a'"), ({"poses": {"a": np.full((4, 4), np.nan)}}, "finite"),
     ({"scale": ("a", "b", -1.0)}, "scale"), ({"scale": ("a", "b", float("nan"))}, "scale"),
     ({"scale": "big"}, "scale"), ({"dense": "yes"}, "dense"), ({"threads": 2**31}, "threads"),
     ({"dense_conf": float("inf")}, "dense_conf")],
)  # fmt: skip
def test_options_that_cannot_be(engine_256: CPUEngine, options: dict[str, object], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        reconstruct(engine_256, known.paths()[:2], **options)  # type: ignore[arg-type]
