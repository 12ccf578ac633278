# SPDX-License-Identifier: Apache-2.0
"""Scenes of networks of many views, with a small network of random weights."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

import mast3r_runtime as m3r
from mast3r_runtime import Transform, cli, errors
from mast3r_runtime._scene.dense import DepthMap
from mast3r_runtime.scene import Lens, Picture, Scale, Scene, reconstruct

TINY = ROOT / "internal" / "model" / "da3" / "testdata" / "tiny.safetensors"
PICTURES = ROOT / "python" / "mast3r_runtime" / "pictures"


@pytest.fixture(scope="module")
def many() -> Iterator[m3r.Engine]:
    with m3r.Engine("auto", resolution=112, precision="fp32", num_threads=2, backend="cpu") as engine:
        engine.load(TINY)
        yield engine


def room() -> list[Path]:
    return [PICTURES / "room_1.png", PICTURES / "room_2.png"]


def test_a_scene(many: m3r.Engine, tmp_path: Path) -> None:
    scene = many.infer_views(room())
    assert list(scene.pictures) == ["room_1.png", "room_2.png"]
    first, second = scene.pictures.values()
    for p in (first, second):
        assert p.status == "placed" and p.depth is not None and p.pose is not None and p.lens is not None
        height, width = p.depth.depth.shape
        assert (height % 14, width % 14, width) == (0, 0, 112)
        assert p.depth.rgb.shape == (height, width, 3)
        assert (p.depth.confidence >= 1).all() and (p.depth.depth > 0).all()
        assert np.allclose(p.pose[:3, :3] @ p.pose[:3, :3].T, np.eye(3), atol=1e-6)
        # The principal point is the middle of the picture.
        k = p.intrinsics
        middle = ((p.width - 1) / 2, (p.height - 1) / 2)
        assert k is not None and np.allclose(k[:2, 2], middle, atol=p.width / 100)
    assert np.allclose(first.pose, np.eye(4), atol=1e-6)
    assert scene.scale.unit == "units" and scene.report["network"] == "da3_32_8"
    assert [w["count"] for w in scene.report["windows"]] == [2]
    scene.write(tmp_path / "out")
    again = Scene.load(tmp_path / "out")
    for p, q in zip(scene.pictures.values(), again.pictures.values()):
        assert p.depth is not None and q.depth is not None
        np.testing.assert_array_equal(p.dense()[0], q.dense()[0])
    assert (tmp_path / "out" / "scene.html").stat().st_size > 10_000
    assert list(pickle.loads(pickle.dumps(scene)).pictures) == list(scene.pictures)


def test_a_pair(many: m3r.Engine) -> None:
    """A pair is the scene of two: points of both in the first camera's frame."""
    result = many.infer_gpu(*room())
    scene = many.infer_views(room())
    for points, p in zip((result.pts3d_1, result.pts3d_2), scene.pictures.values()):
        own = p.dense()[0]
        assert np.abs(points.numpy() - own).max() <= 1e-4 * np.abs(own).max()
    assert not result.has("desc") and result.has("pts3d") and result.has("conf")
    with pytest.raises(errors.UnsupportedError, match="correspondences"):
        many.match(result)
    with pytest.raises(errors.UnsupportedError, match="descriptors"):
        many.infer_gpu(*room(), only=("desc",))
    with pytest.raises(errors.UnsupportedError):
        many.export_onnx("never.onnx")
    kept = many.encode_batch(room())
    np.testing.assert_array_equal(many.decode(*kept).pts3d_2.numpy(), result.pts3d_2.numpy())


def test_the_same_places(many: m3r.Engine) -> None:
    """Two pictures that are one: every pixel agrees with itself, whatever the depth."""
    pictures = {"a": room()[0], "b": room()[0]}
    scene = many.infer_views(pictures, poses=[np.eye(4)] * 2, intrinsics=[camera()] * 2)
    m = scene.correspondences("a", 0)
    assert m.kind == "geometry" and len(m) == m.seeds and (m.confidence > 0.999).all()
    np.testing.assert_allclose(m.pts2d_2, m.pts2d_1, atol=1e-3)
    other = scene.correspondences(0, 1, tolerance=0.5, stride=4)
    assert 0 < len(other) <= len(m) / 10
    assert (np.diff(other.confidence) <= 0).all()
    apart = np.linalg.norm(other.pts3d_1 - other.pts3d_2, axis=1)
    assert apart.max() <= 0.5 * np.linalg.norm(other.pts3d_1, axis=1).max() + 1
    for bad in ("c", 2, -1):
        with pytest.raises(errors.SceneError):
            scene.correspondences(bad, 0)
    with pytest.raises(errors.ArgumentError):
        scene.correspondences(0, 1, tolerance=0)


def camera() -> np.ndarray:
    image = m3r.read_image(room()[0])
    height, width = image.shape[:2]
    return np.array([[width, 0, width / 2], [0, width, height / 2], [0, 0, 1.0]])


def test_known_cameras(many: m3r.Engine) -> None:
    pose = np.eye(4)
    pose[:3, 3] = (0.5, 0, 0.1)
    scene = many.infer_views(room(), poses=[np.eye(4), pose], intrinsics=[camera()] * 2)
    second = scene.pictures["room_2.png"]
    assert np.allclose(second.pose, pose) and np.allclose(second.intrinsics, camera(), atol=1e-6)
    assert scene.scale.source == "known"
    with pytest.raises(errors.ArgumentError):
        many.infer_views(room(), poses=[np.eye(4), pose])
    with pytest.raises(errors.ShapeError):
        many.infer_views(room(), poses=[np.eye(4)], intrinsics=[camera()])
    stretched = pose.copy()
    stretched[:3, :3] *= 2
    with pytest.raises(errors.ShapeError):
        many.infer_views(room(), poses=[np.eye(4), stretched], intrinsics=[camera()] * 2)


def test_rays(many: m3r.Engine, engine: m3r.Engine, tmp_path: Path) -> None:
    """What the network gives is named, and its rays come with the scene where asked for."""
    assert many.info()["outputs"] == ("depth", "conf", "pts3d", "poses", "intrinsics", "rays", "ray_conf")
    assert engine.info()["outputs"] == ("pts3d", "conf", "desc", "desc_conf")
    assert all(p.rays is None for p in many.infer_views(room()).pictures.values())
    scene = many.infer_views(room(), rays=True)
    scene.write(tmp_path, ["report", "npz", "dense"])
    for p, again in zip(scene.pictures.values(), Scene.load(tmp_path).pictures.values()):
        assert p.depth is not None and p.rays is not None and again.rays is not None
        height, width = p.depth.depth.shape
        cells = (height * 8 // 14, width * 8 // 14)
        assert p.rays.directions.shape == p.rays.centres.shape == (*cells, 3)
        assert p.rays.confidence.shape == cells and (p.rays.confidence >= 1).all()
        assert np.isfinite(p.rays.directions).all() and p.rays.directions.std() > 0
        np.testing.assert_array_equal(again.rays.directions, p.rays.directions)
        np.testing.assert_array_equal(again.rays.confidence, p.rays.confidence)


def test_windows(many: m3r.Engine) -> None:
    rng = np.random.default_rng(3)
    pictures = [rng.integers(0, 256, (84, 112, 3), np.uint8) for _ in range(5)]
    scene = many.infer_views(pictures, window=3, overlap=1, reference="first")
    assert list(scene.pictures)[0] == "picture_0000" and len(scene.placed) == 5
    windows = scene.report["windows"]
    assert [(w["first"], w["count"], w["overlap"]) for w in windows] == [(0, 3, 0), (2, 3, 1)]
    assert windows[1]["scale"] > 0 and windows[1]["residual"] >= 0 and windows[1]["points"] > 100


def test_what_is_refused(many: m3r.Engine, engine: m3r.Engine) -> None:
    with pytest.raises(errors.UnsupportedError, match="da3_base"):
        engine.infer_views(room())
    for bad in ([], "room_1.png"):
        with pytest.raises((errors.ShapeError, errors.ArgumentError)):
            many.infer_views(bad)
    with pytest.raises(errors.ArgumentError, match="saddle_balanced"):
        many.infer_views(room(), reference="best")
    with pytest.raises(errors.ArgumentError):
        many.infer_views(room(), window=2, overlap=2)


def run_verb(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = cli.main([str(w) for w in words])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    common = ("--model", TINY, "--resolution", 84, "--backend", "cpu", "--threads", 2)
    status, text, _ = run_verb(capsys, "views", *room(), "-o", out, *common)
    assert status == 0 and "2 of 2 pictures placed by da3_32_8" in text and "arbitrary units" in text
    assert {p.name for p in out.iterdir()} >= {"scene.npz", "scene.html", "dense.ply", "transforms.json"}
    assert len(Scene.load(out).placed) == 2
    status, text, _ = run_verb(
        capsys, "reconstruct", *room(), "-o", tmp_path / "plain", *common, "--matcher", "none"
    )
    assert status == 0 and "placed by da3_32_8" in text
    status, _, err = run_verb(capsys, "views", tmp_path / "out" / "dense", "-o", out, *common)
    assert status == 1 and "no pictures" in err
    # Without a model of its own the verb wants the published one, and says how to get it.
    status, _, err = run_verb(capsys, "views", *room(), "-o", out, "--backend", "cpu")
    assert status == 1 and "mast3r download da3_base" in err


def test_known_cameras_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files that a scene writes are those that it takes: what comes back is what went in."""
    common = ("--model", TINY, "--resolution", 84, "--backend", "cpu", "--threads", 2, "--no-html")
    pose = np.eye(4)
    pose[:3, 3] = (0.5, 0, 0.1)
    frames = [
        {"file_path": f"images/{path.name}", "transform_matrix": (at @ np.diag([1, -1, -1, 1])).tolist()}
        for path, at in zip(room(), (np.eye(4), pose))
    ]
    own = [{"fl_x": 500, "fl_y": 510, "cx": 256, "cy": 192, "w": 512, "h": 384, **f} for f in frames]
    file = tmp_path / "transforms.json"
    file.write_text(json.dumps({"applied_transform": np.eye(4)[:3].tolist(), "frames": own}))
    out = tmp_path / "out"
    given = ("--poses", file, "--intrinsics", file)
    status, _, err = run_verb(capsys, "views", *room(), "-o", out, *common, *given, "--rays")
    assert status == 0, err
    second = Scene.load(out).pictures["room_2.png"]
    np.testing.assert_allclose(second.pose, pose, atol=1e-9)
    assert second.intrinsics is not None and second.rays is not None
    np.testing.assert_allclose(second.intrinsics, [[500, 0, 255.5], [0, 510, 191.5], [0, 0, 1]], atol=1e-9)
    status, _, err = run_verb(capsys, "views", *room(), "-o", out, *common, "--poses", file)
    assert status == 1 and "--intrinsics" in err
    own[1]["k1"] = 0.1
    file.write_text(json.dumps({"frames": own}))
    status, _, err = run_verb(capsys, "views", *room(), "-o", out, *common, *given)
    assert status == 1 and "distortion" in err
    file.write_text(json.dumps({"frames": own[:1]}))
    status, _, err = run_verb(capsys, "views", *room(), "-o", out, *common, *given)
    assert status == 1 and "room_2.png" in err


def moved_cameras(count: int) -> tuple[list[Path], Callable[..., Scene]]:
    """Pictures of the rendered room, and in the place of ``infer_views`` what gives their true
    cameras moved a little, and the true depth."""
    from mast3r_runtime._scene import known

    paths = known.paths()[:count]
    with np.load(known.FOLDER / "truth.npz") as truth:
        poses, k, surfaces = (truth[n] for n in ("world_from_camera", "intrinsics", "surfaces"))
    t = Transform(384, 512, 96, 128, 0, 0, 96, 128)
    grid = t.to_original(np.stack(np.meshgrid(np.arange(128), np.arange(96)), -1).reshape(-1, 2))

    def guess(pictures: dict[str, Path]) -> Scene:
        rng = np.random.default_rng(1)
        found = {}
        for (name, path), pose in zip(pictures.items(), poses):
            moved = np.linalg.inv(poses[0]) @ pose
            moved[:3, 3] += rng.normal(0, 0.03, 3)
            lens = Lens("PINHOLE", 512, 384, (k[0, 0] * 1.02, k[1, 1] * 1.02, k[0, 2], k[1, 2]))
            depth = known._depth(surfaces, pose, k, grid).reshape(96, 128).astype(np.float32)
            sure, grey = np.full_like(depth, 2), np.zeros((96, 128, 3), np.uint8)
            found[name] = Picture(
                name, path, 512, 384, "placed", component=0, pose=moved, lens=lens,
                depth=DepthMap(depth, sure, sure > 0, grey, t),
            )  # fmt: skip
        return Scene(found, (), Scale(1.0, "none", 0.0, 0), {})

    return paths, guess


def test_cameras_to_start_from(many: m3r.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cameras that a network of many views gives, here the true ones moved a little, are refined
    by the matches of a MASt3R model."""
    pytest.importorskip("pycolmap")
    from mast3r_runtime._scene import known

    paths, guess = moved_cameras(4)
    start = guess({p.name: p for p in paths})
    monkeypatch.setattr(type(many), "infer_views", lambda self, pictures: guess(pictures))
    with m3r.Engine("auto", 256, "auto", 2, "cpu") as matcher:
        matcher.load()
        scene = reconstruct(many, paths, matcher=matcher, dense=False, stride=16, threads=1)
    assert len(scene.placed) == 4 and scene.components[0].mapper == "poses as given"
    before, after = known.rate(start), known.rate(scene)
    assert after.position < 0.3 * before.position and abs(after.focal) < abs(before.focal)


def test_cameras_refined_by_sift(many: m3r.Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The same by SIFT; the dense depth is that of the network of many views, and what was matched
    is not matched again."""
    pytest.importorskip("pycolmap")
    pytest.importorskip("cv2")
    from mast3r_runtime._scene import known, sift

    paths, guess = moved_cameras(4)
    start = guess({p.name: p for p in paths})
    monkeypatch.setattr(type(many), "infer_views", lambda self, pictures: guess(pictures))
    scene = reconstruct(many, paths, matcher="sift", threads=1, store=tmp_path)
    assert len(scene.placed) == 4 and scene.report["matches"] == "sift" and scene.report["encoded"] == 4
    before, after = known.rate(start), known.rate(scene)
    assert after.position < 0.1 * before.position and abs(after.focal) < 0.2 * abs(before.focal)
    assert after.dense < 0.005 and all(p.depth is not None for p in scene.placed)
    monkeypatch.setattr(sift, "_match", None)
    again = reconstruct(many, paths, matcher="sift", threads=1, store=tmp_path)
    np.testing.assert_array_equal(again.placed[1].pose, scene.placed[1].pose)


def test_matchers_that_are_refused(
    many: m3r.Engine, engine: m3r.Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pycolmap")
    with pytest.raises(errors.ArgumentError, match="orb"):
        reconstruct(many, room(), matcher="orb")
    with pytest.raises(errors.ArgumentError, match="of its own"):
        reconstruct(engine, room(), matcher="sift")
    with pytest.raises(errors.ArgumentError, match="no intrinsics, such as room_1.png"):
        reconstruct(many, room(), poses={p.name: np.eye(4) for p in room()})
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(errors.DependencyError, match=r"mast3r-runtime\[sift\]"):
        reconstruct(many, room(), matcher="sift", store=tmp_path / "none")
    assert not (tmp_path / "none").exists()  # before the work
