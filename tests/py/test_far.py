# SPDX-License-Identifier: Apache-2.0
"""Coordinates of maps, points far from all others, points that are none, and colours of other programs.

What is written is read by programs of others: plyfile and trimesh, and a glTF's JSON as it stands.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from mast3r_runtime import cli, export, viewer
from mast3r_runtime._output import far, live, page
from mast3r_runtime._output.sources import points_page
from mast3r_runtime._scene import known
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.errors import ShapeError
from mast3r_runtime.scene import Scene, reconstruct

UTM = np.array([448262.3, 5411932.7, 120.5])
FARTHEST = np.array([1.1e7, -9.9e6, 8848.0])


def room(count: int = 2000, seed: int = 3) -> np.ndarray:
    """Points of 6 m, whose places on each axis are all different and evenly spaced."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(np.linspace(-3, 3, count)) for _ in range(3)], 1)


def grey(count: int) -> np.ndarray:
    return np.full((count, 3), 128, np.uint8)


def shown(path: Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The header of a page, and its clouds in the coordinates of the world, as its script has them."""
    text = path.read_text(encoding="utf-8")
    head = json.loads(re.search(r'id="head">(.*?)</script>', text)[1])  # type: ignore[index]
    clouds = []
    for number, cloud in enumerate(head["clouds"]):
        blocks = re.findall(rf'data-cloud="{number}" data-part="xyz">(.*?)</script>', text)
        kind, most = {2: ("<u2", 65535), 4: ("<u4", 2**32 - 1)}[cloud["place_bytes"]]
        places = np.frombuffer(b"".join(map(base64.b64decode, blocks)), kind).reshape(-1, 3)
        # the script's numbers on the screen are float32
        near = np.array(cloud["low"]) + places / most * np.array(cloud["size"])
        clouds.append(near.astype(np.float32).astype(np.float64) + np.array(head["origin"]))
    return head, clouds


def distinct(points: np.ndarray) -> list[int]:
    return [len(np.unique(points[:, k])) for k in range(3)]


def nearest(points: np.ndarray, wanted: np.ndarray) -> float:
    """How far each wanted point is from a point, at most; the order of a page is its own."""
    from scipy.spatial import cKDTree

    start = wanted.mean(0)
    return float(cKDTree(points - start).query(wanted - start)[0].max())


# ---- files of points -----------------------------------------------------


@pytest.mark.parametrize("offset", [np.zeros(3), UTM, FARTHEST, np.array([0, 0, 1e7])], ids=str)
def test_point_files_of_maps(tmp_path: Path, offset: np.ndarray) -> None:
    plyfile = pytest.importorskip("plyfile", reason="no plyfile here")
    points = room() + offset
    export.write_points(tmp_path / "a.ply", points, grey(len(points)))
    rows = plyfile.PlyData.read(str(tmp_path / "a.ply"))["vertex"]
    back = np.stack([np.asarray(rows[axis], np.float64) for axis in "xyz"], 1)
    assert np.abs(back - points).max() < 1e-6 and distinct(back) == distinct(points)
    assert rows["x"].dtype == (np.float64 if offset.any() else np.float32)
    loaded = trimesh.load(tmp_path / "a.ply")
    assert np.abs(loaded.vertices - points).max() < 1e-6 and (np.asarray(loaded.colors)[:, :3] == 128).all()
    export.write_points(tmp_path / "a.glb", points, grey(len(points)))
    there = trimesh.load(tmp_path / "a.glb").to_geometry().vertices * [1, -1, -1]
    assert np.abs(there - points).max() < 1e-5 and distinct(there) == distinct(points)
    # as it stands in the file: float32 places near 0, and one translation in whole numbers
    data = (tmp_path / "a.glb").read_bytes()
    (size,) = struct.unpack("<I", data[12:16])
    gltf = json.loads(data[20 : 20 + size])
    places = [a for a in gltf["accessors"] if a["type"] == "VEC3"]
    assert all(abs(v) < 10 for a in places for v in (*a.get("min", ()), *a.get("max", ())))
    moves = [n["matrix"][12:15] for n in gltf["nodes"] if "matrix" in n and any(n["matrix"][12:15])]
    assert moves == ([] if not offset.any() else [(far.origin(points) * [1, -1, -1]).tolist()])


def test_few_far_points_are_exact(tmp_path: Path) -> None:
    """One point, and points that are one, have no distances between them: nothing may be lost."""
    for points in (UTM[None], np.tile(UTM, (5, 1)), np.array([[0.1, 0.2, 0.3]])):
        export.write_points(tmp_path / "a.ply", points, grey(len(points)))
        assert np.abs(trimesh.load(tmp_path / "a.ply").vertices - points).max() < 1e-7


def test_whole_metres_of_a_map(tmp_path: Path) -> None:
    points = np.rint(room(40) * 100 + FARTHEST * 10).astype(np.int64)
    export.write_points(tmp_path / "a.ply", points, grey(40))
    np.testing.assert_array_equal(trimesh.load(tmp_path / "a.ply").vertices, points)


def test_text_files_of_points(tmp_path: Path) -> None:
    """PLY as text, and with the bytes the other way round."""
    points = room() + UTM
    head = "ply\nformat {} 1.0\nelement vertex 2000\n" + "".join(f"property double {a}\n" for a in "xyz")
    head += "".join(f"property uchar diffuse_{c}\n" for c in ("red", "green", "blue")) + "end_header\n"
    rows = "".join("{:.9f} {:.9f} {:.9f} 10 20 30\n".format(*row) for row in points)
    (tmp_path / "a.ply").write_text(head.format("ascii") + rows, encoding="ascii")
    back = np.zeros(2000, [(a, ">f8") for a in "xyz"] + [(c, "u1") for c in "rgb"])
    for k in range(3):
        back["xyz"[k]], back["rgb"[k]] = points[:, k], (10, 20, 30)[k]
    (tmp_path / "b.ply").write_bytes(head.format("binary_big_endian").encode() + back.tobytes())
    for name in ("a.ply", "b.ply"):
        (cloud,) = points_page(tmp_path / name).clouds
        assert np.abs(cloud.points - points).max() < 1e-8 and (cloud.colours == [10, 20, 30]).all(), name


def test_float32_stays_what_it_was(tmp_path: Path) -> None:
    points = room().astype(np.float32)
    export.write_points(tmp_path / "a.ply", points, grey(len(points)))
    assert b"property float x" in (tmp_path / "a.ply").read_bytes()
    np.testing.assert_array_equal(trimesh.load(tmp_path / "a.ply").vertices, points)
    assert not far.far(points) and far.narrow(points.astype(np.float64)).dtype == np.float32


@pytest.mark.parametrize("suffix", [".ply", ".glb", ".PLY", ".GLB"])
def test_points_that_are_none_are_left_out_and_counted(
    tmp_path: Path, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    points = room(50)
    points[3], points[7, 1], points[9, 2], points[11, 0] = np.nan, np.inf, -np.inf, 1e300
    export.write_points(tmp_path / f"a{suffix}", points, grey(50))
    assert "4 of 50 points are not finite" in caplog.text
    loaded = trimesh.load(tmp_path / f"a{suffix}", file_type=suffix[1:].lower())
    vertices = loaded.to_geometry().vertices if isinstance(loaded, trimesh.Scene) else loaded.vertices
    assert len(vertices) == 46 and np.isfinite(vertices).all()
    with pytest.raises(ShapeError, match="no points"):
        export.write_points(tmp_path / f"b{suffix}", np.full((3, 3), np.nan), grey(3))
    with pytest.raises(ShapeError, match="want \\[N, 3\\]"):
        export.write_points(tmp_path / f"b{suffix}", points, grey(49))
    assert [p.name for p in tmp_path.iterdir()] == [f"a{suffix}"]


# ---- pages ---------------------------------------------------------------


def ply_of_doubles(
    path: Path, points: np.ndarray, extra: tuple[tuple[str, str, np.ndarray], ...] = ()
) -> Path:
    """A PLY as other programs write it: doubles, and colours by any name."""
    fields = [(axis, "<f8") for axis in "xyz"] + [(name, kind) for name, kind, _ in extra]
    rows = np.zeros(len(points), fields)
    for k in range(3):
        rows["xyz"[k]] = points[:, k]
    for name, _, values in extra:
        rows[name] = values
    names = {"<f8": "double", "<f4": "float", "u1": "uchar"}
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(points)}"]
    header += [f"property {names[kind]} {name}" for name, kind in fields] + ["end_header", ""]
    path.write_bytes("\n".join(header).encode() + rows.tobytes())
    return path


@pytest.mark.parametrize("name", ["utm.ply", "utm.PLY", "UTM.Ply"])
def test_view_keeps_points_of_maps(tmp_path: Path, name: str) -> None:
    points = room() + UTM
    path = ply_of_doubles(tmp_path / name, points)
    assert cli.main(["view", str(path), "-o", str(tmp_path / "v.html")]) == 0
    head, (cloud,) = shown(tmp_path / "v.html")
    assert distinct(cloud) == [2000, 2000, 2000] and nearest(cloud, points) < 1e-6
    assert np.abs(np.array(head["origin"]) - UTM).max() < 3


@pytest.mark.parametrize("times", [1e3, 1e5, 1e9, 1e20])
@pytest.mark.parametrize("count", [5000, 300_000])
def test_far_points_do_not_flatten_a_page(tmp_path: Path, times: float, count: int) -> None:
    """Two of them: the others keep their places, and they are still there, at theirs."""
    points = np.random.default_rng(1).normal(size=(count, 3))
    points[0], points[count // 2] = (times, 0, 0), (-times, times, times)
    viewer.write_html(tmp_path / "a.html", points_page(ply_of_doubles(tmp_path / "a.ply", points)))
    head, (near, away) = shown(tmp_path / "a.html")
    assert [c["count"] for c in head["clouds"]] == [count - 2, 2]
    assert head["clouds"][1]["name"] == "points, far away"
    inner = np.delete(points, [0, count // 2], axis=0)
    step = np.ptp(inner, axis=0).max() / 65535 if count > page.FINE else 1e-6
    assert nearest(near, inner) < step
    assert np.abs(np.sort(away[:, 0]) - [-times, times]).max() < 1e-6 * times
    if count < page.FINE:
        assert min(distinct(near)) > 4900


def test_far_points_of_a_map(tmp_path: Path) -> None:
    """Both at once: a world of maps, in which one point lies at the origin."""
    points = room() + UTM
    points[5] = 0
    viewer.write_html(tmp_path / "a.html", points_page(ply_of_doubles(tmp_path / "a.ply", points)))
    head, (near, away) = shown(tmp_path / "a.html")
    assert len(away) == 1 and np.abs(away).max() < 1 and nearest(near, np.delete(points, 5, 0)) < 1e-6
    assert np.abs(np.array(head["origin"]) - UTM).max() < 3


def test_scenes_without_far_points_are_one_cloud() -> None:
    """Planes, lines, two rooms and single points are no reason to cut a cloud."""
    flat = room()
    flat[:, 2] = 0
    for points in (room(), flat, np.concatenate([room(), room() + 40]), room(1), room(3), np.zeros((9, 3))):
        n = len(points)
        cloud = page.Cloud("c", points, grey(n), np.zeros(n), np.zeros(n, np.int64))
        assert len(page._apart(cloud)) == 1


def test_the_live_view_counts_from_the_middle() -> None:
    n = 100
    points = room(n) + UTM
    pose = np.eye(4)
    pose[:3, 3] = UTM
    camera = page.Camera("a", (4, 3), pose, np.eye(3))
    moved, start = page.centred(
        page.Page("t", [page.Cloud("c", points, grey(n), np.zeros(n), np.zeros(n, np.int64))], [camera])
    )
    assert np.abs(np.asarray(moved.clouds[0].points, np.float32) + start - points).max() < 1e-6
    assert moved.cameras[0].pose is not None and np.abs(moved.cameras[0].pose[:3, 3]).max() < 3
    assert pose[0, 3] == UTM[0]  # the caller's own stays
    assert "centred(page)" in Path(live.__file__).read_text(encoding="utf-8")


# ---- colours of other programs -------------------------------------------


def test_gaussians_have_colours_and_opacity(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    points, wanted = room(100), rng.integers(0, 256, (100, 3))
    logit = rng.normal(0, 3, 100)
    bands = (wanted / 255 - 0.5) / 0.28209479177387814
    extra = tuple((f"f_dc_{k}", "<f4", bands[:, k]) for k in range(3)) + (("opacity", "<f4", logit),)
    shown_page = points_page(ply_of_doubles(tmp_path / "gs.ply", points, extra))
    (cloud,) = shown_page.clouds
    np.testing.assert_allclose(cloud.colours, wanted, atol=1)
    np.testing.assert_allclose(cloud.confidence, 1 / (1 + np.exp(-logit)), rtol=1e-5)
    assert cloud.quantity == "opacity"


@pytest.mark.parametrize(
    "names, kind, scale",
    [
        (("red", "green", "blue"), "u1", 1), (("diffuse_red", "diffuse_green", "diffuse_blue"), "u1", 1),
        (("r", "g", "b"), "u1", 1), (("red", "green", "blue"), "<f4", 1 / 255),
        (("diffuse_red", "diffuse_green", "diffuse_blue"), "<f4", 1),
    ],
)  # fmt: skip
def test_colours_by_other_names(tmp_path: Path, names: tuple[str, ...], kind: str, scale: float) -> None:
    wanted = np.random.default_rng(6).integers(0, 256, (80, 3))
    extra = tuple((name, kind, wanted[:, k] * scale) for k, name in enumerate(names))
    (cloud,) = points_page(ply_of_doubles(tmp_path / "a.ply", room(80), extra)).clouds
    np.testing.assert_allclose(cloud.colours, wanted, atol=1)


def test_a_file_without_colours_or_points(tmp_path: Path) -> None:
    (cloud,) = points_page(ply_of_doubles(tmp_path / "a.ply", room(9))).clouds
    assert (cloud.colours == 190).all() or len(np.unique(cloud.colours)) == 1
    bad = ply_of_doubles(tmp_path / "b.ply", np.full((4, 3), np.nan))
    assert cli.main(["view", str(bad)]) == 1


# ---- scenes --------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel() -> Any:
    with CPUEngine("auto", 192, "fp32", 2) as opened:
        opened.load()
        yield opened


@pytest.fixture(scope="module")
def near(wheel: CPUEngine) -> Scene:
    pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene)")
    return reconstruct(wheel, known.paths()[:5], threads=1)


def moved(scene: Scene, by: np.ndarray) -> Scene:
    """The same scene elsewhere."""
    pictures = {}
    for name, p in scene.pictures.items():
        pose = None if p.pose is None else p.pose.copy()
        if pose is not None:
            pose[:3, 3] += by
        pictures[name] = replace(p, pose=pose)
    components = tuple(
        replace(c, model=c.model.moved(1.0, np.eye(3), np.asarray(by, np.float64))) for c in scene.components
    )
    return Scene(pictures, components, scene.scale, scene.report)


@pytest.mark.parametrize("by", [UTM, FARTHEST], ids=str)
def test_a_scene_of_maps(
    near: Scene, wheel: CPUEngine, tmp_path: Path, by: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every file of it, as other programs read it, and a picture of it found again."""
    away = moved(near, by)
    away.write(tmp_path, ["npz", "report", "dense", "ply", "transforms", "glb", "html"])
    for name, wanted in (
        ("sparse.ply", near.points.xyz), ("dense.ply", near.dense_points(0).points),
        ("sparse_up.ply", None),
    ):  # fmt: skip
        vertices = np.asarray(trimesh.load(tmp_path / name).vertices)
        if wanted is None:
            up = np.array(json.loads((tmp_path / "transforms.json").read_text())["applied_transform"])[:, :3]
            wanted, vertices = near.points.xyz, vertices @ up
        assert len(vertices) == len(wanted) and nearest(vertices - by, wanted) < 1e-5, name
    glb = trimesh.load(tmp_path / "scene.glb")
    vertices = np.asarray(glb.to_geometry().vertices if not hasattr(glb, "dump") else glb.bounds)
    low, high = vertices.min(0), vertices.max(0)
    middle = (low + high) / 2 * [1, -1, -1]
    assert np.abs(middle - by).max() < 20 and (high - low).max() < 40
    back = Scene.load(tmp_path)
    for name, p in near.pictures.items():
        points, _ = back.pictures[name].dense()
        assert points.dtype == np.float64
        np.testing.assert_allclose(points - by, p.dense()[0], atol=1e-5)
    _, (dense, *_) = shown(tmp_path / "scene.html")
    assert nearest(dense, near.dense_points(0).points + by) < 1e-3
    path = known.paths()[2]
    located = back.localize(wheel, path)
    here = near.localize(wheel, path)
    assert located.pose is not None and here.pose is not None and located.inliers > 0.8 * here.inliers
    assert np.linalg.norm(located.pose[:3, 3] - by - here.pose[:3, 3]) < 0.02
    assert located.covariance is not None and np.isfinite(located.covariance).all()
    assert cli.main(["localize", str(tmp_path), str(path), "--resolution", "192", "--backend", "cpu"]) == 0
    said = re.search(r"^at (\S+) (\S+) (\S+) ", capsys.readouterr().out, re.M)
    assert said and np.abs(np.array(said.groups(), float) - by).max() < 20
    assert np.abs(np.array(said.groups(), float) - located.pose[:3, 3]).max() < 0.1


def test_matches_by_geometry_of_maps(near: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    away = moved(near, UTM)
    there, here = (s.correspondences(0, 1) for s in (away, near))
    assert abs(len(there.original_1) - len(here.original_1)) < 0.02 * len(here.original_1)
    assert there.pts3d_1.dtype == np.float64 and len(np.unique(there.pts3d_1[:, 1])) > 1000
