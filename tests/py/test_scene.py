# SPDX-License-Identifier: Apache-2.0
"""Scenes from pictures to files, with the model in the wheel on rendered views."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, child_environment
from PIL import Image

from mast3r_runtime import cli
from mast3r_runtime._commands.scene import _warnings
from mast3r_runtime._files.folder import OutFolder
from mast3r_runtime._output.export import write_points
from mast3r_runtime._pictures import header
from mast3r_runtime._pictures.find import find
from mast3r_runtime._scene import colmap_read, gauge, known, solver
from mast3r_runtime._scene.album import plan
from mast3r_runtime._scene.budget import Budget
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.distributed import run_pairs
from mast3r_runtime.errors import ArgumentError, FileError, ImageNotFoundError, SceneError
from mast3r_runtime.scene import FORMATS, Lens, Scene, reconstruct
from mast3r_runtime.viewer import pair_page, write_html

try:
    import pycolmap
except ImportError:
    pycolmap = None
needs_pycolmap = pytest.mark.skipif(
    pycolmap is None, reason="no pycolmap here (extra scene): no scene is made"
)


@pytest.fixture(scope="module")
def wheel_engine() -> Iterator[CPUEngine]:
    with CPUEngine("auto", resolution=256, precision="fp32", num_threads=2) as engine:
        engine.load()
        yield engine


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five rendered views, a copy of one, a stranger, and files that are no pictures."""
    folder = tmp_path_factory.mktemp("pictures")
    for path in known.paths()[:5]:
        shutil.copy(path, folder)
    shutil.copy(known.paths()[2], folder / "twin of 02.jpg")
    noise = np.random.default_rng(0).integers(0, 256, (384, 512, 3), np.uint8)
    Image.fromarray(noise).save(folder / "noise.png")
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "text.png").write_text("no picture")
    (folder / "torn.jpg").write_bytes(known.paths()[0].read_bytes()[:9000])
    return folder


@pytest.fixture(scope="module")
def scene(wheel_engine: CPUEngine, collection: Path, store: Path) -> Scene:
    if pycolmap is None:
        pytest.skip("no pycolmap here (extra scene): no scene is made")
    return reconstruct(wheel_engine, [collection], store=store, covariance=True, threads=1)


def test_places_the_views_and_names_the_rest(scene: Scene) -> None:
    status = {name: p.status for name, p in scene.pictures.items()}
    assert status == {
        **{f"room_0{i}.jpg": "placed" for i in range(5)},
        "twin of 02.jpg": "placed",
        "noise.png": "unmatched",
        "empty.jpg": "unreadable",
        "text.png": "unreadable",
        "torn.jpg": "unreadable",
    }
    assert "nothing in it matches" in scene.pictures["noise.png"].reason
    assert scene.pictures["twin of 02.jpg"].reason == "the same file as room_02.jpg"
    np.testing.assert_array_equal(scene.pictures["twin of 02.jpg"].pose, scene.pictures["room_02.jpg"].pose)
    assert all(p.reason for p in scene.pictures.values() if p.status != "placed")


def test_agrees_with_the_truth(scene: Scene) -> None:
    rated = known.rate(scene)
    assert rated.placed == 5
    assert rated.position < 0.006 and abs(rated.focal) < 0.01 and rated.dense < 0.03
    assert "5 of 8 pictures placed" in rated.text()


def test_a_scene_of_parts_that_differ_in_size_is_unstable(
    scene: Scene, wheel_engine: CPUEngine, collection: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a mapper joined wrongly is not called placed, however many points hold it."""
    true = gauge.depth_ratios

    def torn(*arguments: Any) -> gauge.Ratios:
        return {i: (at, logs + i * np.log(3)) for i, (at, logs) in true(*arguments).items()}

    monkeypatch.setattr(gauge, "depth_ratios", torn)
    again = reconstruct(wheel_engine, [collection], store=store, covariance=True, threads=1)
    assert "4 of 5 pictures are off by a factor of 2" in again.components[0].unstable
    assert {p.status for p in again.pictures.values() if p.pose is not None} == {"unstable"}
    assert scene.components[0].unstable == ""


def test_parts_of_a_scene(scene: Scene) -> None:
    points = scene.points
    assert points.xyz.shape == points.rgb.shape == (len(points), 3) and points.rgb.std() > 10
    seen = points.observations(0)
    assert len(seen) == points.track_length[0] >= 2
    name, (x, y) = seen[0]
    p = scene.pictures[name]
    assert p.pose is not None and p.lens is not None and p.intrinsics is not None
    local = (points.xyz[:1] - p.pose[:3, 3]) @ p.pose[:3, :3]
    assert np.linalg.norm(p.lens.pixels(local)[0] - (x, y)) < 20
    dense, confidence = p.dense()
    assert dense.shape == (*confidence.shape, 3) and np.isfinite(dense).any()
    assert scene.scale.source == "network" and "true lengths are unknown" in scene.scale.sentence()
    assert sum(p.covariance is not None for p in scene.placed) >= 3
    with pytest.raises(SceneError, match="no dense depth"):
        scene.pictures["noise.png"].dense()
    with pytest.raises(SceneError, match="the scene has 1"):
        scene.points_of(1)


def test_a_second_run_computes_nothing(
    scene: Scene, wheel_engine: CPUEngine, collection: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("verify", "solve"):
        monkeypatch.setattr(solver, name, lambda *_: pytest.fail("solved twice"))
    again = reconstruct(wheel_engine, [collection], store=store, covariance=True, threads=1)
    assert (again.report["encoded"], again.report["decoded"]) == (0, 0)
    for name, p in scene.pictures.items():
        if p.pose is not None:
            np.testing.assert_array_equal(again.pictures[name].pose, p.pose)
            if p.covariance is not None:
                np.testing.assert_array_equal(again.pictures[name].covariance, p.covariance)
    assert again.report["pairs"] == scene.report["pairs"]
    assert [p.reason for p in again.pictures.values()] == [p.reason for p in scene.pictures.values()]


def test_a_stopped_run_goes_on(wheel_engine: CPUEngine, tmp_path: Path) -> None:
    """Ctrl-C between two pairs: what was done is kept."""
    pictures = known.paths()[4:8]

    def stop(step: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    if pycolmap is None:
        pytest.skip("no pycolmap here")
    with pytest.raises(KeyboardInterrupt):
        reconstruct(wheel_engine, pictures, store=tmp_path, progress=stop)
    assert not list(tmp_path.rglob(".part-*"))
    done = reconstruct(wheel_engine, pictures, store=tmp_path)
    assert done.report["decoded"] == 2 * 3 and len(done.placed) == 4


@needs_pycolmap
@pytest.mark.parametrize("features", ["float16", "float32"])
def test_pairs_of_batch_are_not_made_again(wheel_engine: CPUEngine, tmp_path: Path, features: str) -> None:
    """``batch --only dense`` leaves all that ``reconstruct`` takes: nothing is encoded or decoded again."""
    pictures = known.paths()[4:8]
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    done = run_pairs(
        pictures, pairs, store=tmp_path, only="dense", features=features,
        backend="cpu", precision="fp32", resolution=256, threads=2,
    )  # fmt: skip
    assert done.computed == len(pairs) and done.encoded == 4
    scene = reconstruct(wheel_engine, pictures, store=tmp_path)
    assert (scene.report["encoded"], scene.report["decoded"]) == (0, 0) and len(scene.placed) == 4


def test_files_come_back(scene: Scene, tmp_path: Path) -> None:
    folder = tmp_path / "scene"
    scene.write(folder)
    back = Scene.load(folder)
    assert list(back.pictures) == list(scene.pictures)
    for name, p in scene.pictures.items():
        q = back.pictures[name]
        assert (p.status, p.reason, p.component, p.lens) == (q.status, q.reason, q.component, q.lens)
        if p.pose is not None:
            np.testing.assert_array_equal(p.pose, q.pose)
        if p.depth is not None:
            np.testing.assert_array_equal(p.dense()[0], q.dense()[0])
    np.testing.assert_array_equal(back.points.xyz, scene.points.xyz)
    np.testing.assert_allclose(back.points.error, scene.points.error, rtol=1e-9)
    assert back.scale == scene.scale and json.loads(json.dumps(back.report)) == back.report
    copy = pickle.loads(pickle.dumps(scene))
    np.testing.assert_array_equal(copy.points.xyz, scene.points.xyz)
    wanted = {
        "report.json", "scene.npz", "dense", "sparse", "transforms.json", "sparse.ply", "sparse_up.ply",
        "dense.ply", "scene.glb", "scene.html", "images",
    }  # fmt: skip
    assert {path.name for path in folder.iterdir()} == wanted


@needs_pycolmap
def test_colmap_reads_the_folder(scene: Scene, tmp_path: Path) -> None:
    scene.write(tmp_path, ["colmap"])
    for form in ("", "text"):
        model = pycolmap.Reconstruction(str(tmp_path / "sparse" / "0" / form))
        assert model.num_reg_images() == 5
        for image in model.images.values():
            pose = scene.pictures[image.name].pose
            assert pose is not None
            np.testing.assert_allclose(np.linalg.inv(pose)[:3], image.cam_from_world().matrix(), atol=1e-9)
    assert scene.to_pycolmap().num_points3D() == len(scene.points)


def test_transforms_agree_with_the_poses(scene: Scene, tmp_path: Path) -> None:
    """nerfstudio's axes: y up and z back in the camera, z up in the world; its points follow."""
    import trimesh

    scene.write(tmp_path, ["transforms"])
    values = json.loads((tmp_path / "transforms.json").read_text())
    lens = scene.pictures["room_00.jpg"].lens
    assert lens is not None
    assert values["w"] == 512 and abs(values["cx"] - 256) < 1e-9 and abs(values["fl_x"] - lens.focal) < 1e-9
    up = np.array(values["applied_transform"])
    for frame in values["frames"]:
        pose = scene.pictures[Path(frame["file_path"]).name].pose
        matrix = np.array(frame["transform_matrix"])
        assert pose is not None
        np.testing.assert_allclose(matrix[:3, 3], up[:, :3] @ pose[:3, 3] + up[:, 3], atol=1e-7)
        np.testing.assert_allclose(matrix[:3, 2], -up[:, :3] @ pose[:3, 2], atol=1e-7)
        np.testing.assert_allclose(matrix[:3, 1], -up[:, :3] @ pose[:3, 1], atol=1e-7)
    cloud = trimesh.load(tmp_path / values["ply_file_path"])
    np.testing.assert_allclose(cloud.vertices, scene.points.xyz @ up[:, :3].T, atol=1e-5)
    assert np.mean([np.array(f["transform_matrix"])[2, 1] for f in values["frames"]]) > 0.9  # up is up


def test_point_files_agree_with_the_points(scene: Scene, tmp_path: Path) -> None:
    """T30: an independent reader finds the same numbers."""
    import trimesh

    scene.write(tmp_path, ["ply", "glb"])
    sparse = trimesh.load(tmp_path / "sparse.ply")
    np.testing.assert_allclose(sparse.vertices, scene.points.xyz, atol=1e-5)
    np.testing.assert_array_equal(np.asarray(sparse.colors)[:, :3], scene.points.rgb)
    dense = trimesh.load(tmp_path / "dense.ply")
    assert len(dense.vertices) == len(scene.dense_points(0).points)
    glb = trimesh.load(tmp_path / "scene.glb")
    assert len(glb.geometry) >= 1 + 5


def test_more_points_than_a_float_counts(tmp_path: Path) -> None:
    """T30: of more than 2^24 points none is lost, and the last are where they belong."""
    count = 2**24 + 3
    points, colours = np.zeros((count, 3), np.float32), np.zeros((count, 3), np.uint8)
    points[-3:] = np.arange(1, 10).reshape(3, 3)
    colours[-3:] = np.arange(10, 100, 10).reshape(3, 3)
    path = tmp_path / "many.ply"
    write_points(path, points, colours)
    with path.open("rb") as file:
        head = file.read(400).split(b"end_header\n")[0].decode()
        assert f"element vertex {count}\n" in head
        fields = [("xyz", "<f4", 3), ("rgba", "u1", 4)]
        file.seek(-3 * 16, os.SEEK_END)
        last = np.frombuffer(file.read(), np.dtype(fields))
    assert path.stat().st_size == len(head) + len("end_header\n") + 16 * count
    np.testing.assert_array_equal(last["xyz"], points[-3:])
    np.testing.assert_array_equal(last["rgba"][:, :3], colours[-3:])


def test_writing_twice_and_where_it_cannot(scene: Scene, tmp_path: Path) -> None:
    """T30: what is there is replaced whole; where nothing can be written, nothing half is left."""
    scene.write(tmp_path, ["npz", "report"])
    before = (tmp_path / "scene.npz").read_bytes()
    scene.write(tmp_path, ["npz", "report"])
    assert (tmp_path / "scene.npz").read_bytes() == before  # and the same bytes
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        scene.write(tmp_path / "file" / "scene")
    with pytest.raises(ArgumentError, match="want some of"):
        scene.write(tmp_path, ["obj"])
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("file", ["scene.npz", "report.json"])
def test_torn_scenes_are_named(scene: Scene, tmp_path: Path, file: str) -> None:
    scene.write(tmp_path, ["npz", "report"])
    whole = (tmp_path / file).read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"PK\x03\x04" + b"\xff" * 60):
        (tmp_path / file).write_bytes(content)
        with pytest.raises(FileError, match="scene"):
            Scene.load(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(FileError, match=f"no {file}"):
        Scene.load(tmp_path)


def test_pages_and_notebooks(scene: Scene, tmp_path: Path) -> None:
    path = write_html(tmp_path / "scene.html", scene, title="five")
    assert path.stat().st_size > 1e6
    text = scene._repr_html_()
    assert text.startswith("<iframe") and "&lt;!doctype html&gt;" in text and text.count("<") == 2


def test_page_of_a_pair_has_both_cameras(wheel_engine: CPUEngine) -> None:
    """The second camera stands where the matches say: beside the first, as the truth has it."""
    one, two = (np.asarray(Image.open(p).convert("RGB")) for p in known.paths()[2:4])
    result = wheel_engine.infer_gpu(one, two).numpy()
    page = pair_page(result, one, two, wheel_engine.match(result, top_k=None))
    first, second = page.cameras
    assert first.status == second.status == "placed" and first.intrinsics is not None
    with np.load(known.FOLDER / "truth.npz") as archive:
        a, b = archive["world_from_camera"][2:4]
    true = (np.linalg.inv(a) @ b)[:3, 3]
    assert second.pose is not None
    step = second.pose[:3, 3]
    assert step @ true > 0.95 * np.linalg.norm(step) * np.linalg.norm(true)
    alone = pair_page(result, one, two)
    assert alone.cameras[1].pose is None and alone.cameras[1].reason == "no matches were given"
    assert alone.cameras[0].intrinsics is not None


def _where(scene: Scene) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Scale, turn and shift from the scene's world to the truth's, and the true poses."""
    with np.load(known.FOLDER / "truth.npz") as archive:
        true = archive["world_from_camera"]
    centres = np.array([scene.pictures[f"room_0{i}.jpg"].pose[:3, 3] for i in range(5)])  # type: ignore[index]
    return *known.similarity(centres, true[:5, :3, 3]), true


def test_localises_a_new_view(scene: Scene, wheel_engine: CPUEngine) -> None:
    new = known.paths()[5]
    found = scene.localize(wheel_engine, new)
    assert found.pose is not None and found.inliers >= 30 and found.component == 0
    scale, turn, shift, true = _where(scene)
    error = np.linalg.norm(scale * turn @ found.pose[:3, 3] + shift - true[5, :3, 3])
    assert error < 0.01  # metres, in a room of 2.6; by dense depth alone it was 0.04
    assert found.interval is not None and error < scale * found.interval < 0.1
    assert found.focal_from == "scene"
    noise = np.random.default_rng(1).integers(0, 256, (384, 512, 3), np.uint8)
    lost = scene.localize(wheel_engine, noise)
    assert lost.pose is None and lost.reason == "no_overlap" and lost.inliers < 30


@pytest.mark.parametrize("case", ["half", "zoomed", "zoomed, by EXIF", "cut out"])
def test_localises_a_view_of_another_lens(
    scene: Scene, wheel_engine: CPUEngine, tmp_path: Path, case: str
) -> None:
    """A camera of the scene's size is not taken for the scene's where the picture says otherwise."""
    picture, path, exif = Image.open(known.paths()[5]), tmp_path / "query.png", Image.Exif()
    width, height = picture.size
    if case == "half":
        picture = picture.resize((width // 2, height // 2), Image.Resampling.LANCZOS)
    elif case == "cut out":
        picture = picture.crop((0, 0, int(0.6 * width), int(0.7 * height)))
    else:
        box = (width * 0.23, height * 0.23, width * 0.77, height * 0.77)
        picture = picture.resize((width, height), Image.Resampling.LANCZOS, box)
        if "EXIF" in case:
            exif[0x010F] = "Canon"  # Pillow writes no EXIF that has nothing but an inner part
            exif.get_ifd(0x8769)[0xA405] = round(430 / 0.54 / np.hypot(width, height) * 43.27)
    picture.save(path, exif=exif)
    found = scene.localize(wheel_engine, path)
    if found.pose is None:
        assert case in ("zoomed", "cut out") and found.reason == "unsure"
        return
    scale, turn, shift, true = _where(scene)
    error = np.linalg.norm(scale * turn @ found.pose[:3, 3] + shift - true[5, :3, 3])
    assert case != "cut out"
    assert error < 0.06 and found.interval is not None and error < scale * found.interval


def test_localises_by_a_given_camera(scene: Scene, wheel_engine: CPUEngine) -> None:
    lens = Lens("SIMPLE_PINHOLE", 512, 384, (430.0, 255.5, 191.5))
    with pytest.raises(ArgumentError, match="640 x 480 pixels, the picture has 512 x 384"):
        scene.localize(wheel_engine, known.paths()[5], replace(lens, width=640, height=480))
    found = scene.localize(wheel_engine, known.paths()[5], lens)
    assert found.focal_from == "given" and found.intrinsics is not None
    assert found.intrinsics[0, 0] == 430.0
    scale, turn, shift, true = _where(scene)
    assert found.pose is not None
    assert np.linalg.norm(scale * turn @ found.pose[:3, 3] + shift - true[5, :3, 3]) < 0.01


@needs_pycolmap
def test_known_cameras_scale_and_masks(wheel_engine: CPUEngine, store: Path) -> None:
    pictures = {p.name: p for p in known.paths()[:4]}
    lens = Lens("PINHOLE", 512, 384, (430.0, 430.0, 255.5, 191.5))
    upper = np.zeros((384, 512, 3), np.uint8)[:, :, 0]
    upper[:250] = 255
    made = reconstruct(
        wheel_engine, pictures, store=store, intrinsics=dict.fromkeys(pictures, lens), dense=False,
        scale=("room_00.jpg", "room_03.jpg", 1.25), masks={"room_01.jpg": upper},
    )  # fmt: skip
    assert {p.lens for p in made.placed} == {lens}
    gap = made.pictures["room_00.jpg"].pose[:3, 3] - made.pictures["room_03.jpg"].pose[:3, 3]  # type: ignore[index]
    assert abs(np.linalg.norm(gap) - 1.25) < 1e-9 and made.scale.source == "known"
    model = made.components[0].model
    assert model.seen_at[model.seen_by == 1][:, 1].max() < 250.5
    wrong = {"room_00.jpg": Lens("PINHOLE", 640, 480, (430.0, 430.0, 319.5, 239.5))}
    with pytest.raises(ArgumentError, match="640 x 480 pixels, the picture has 512 x 384"):
        reconstruct(wheel_engine, pictures, store=store, intrinsics=wrong)


@needs_pycolmap
def test_two_pictures_and_portraits(wheel_engine: CPUEngine, tmp_path: Path) -> None:
    """Two pictures of different shapes; one lies on its side in the file and is turned by EXIF."""
    for k, path in enumerate(known.paths()[1:3]):
        picture = Image.open(path)
        if k == 0:
            picture = picture.crop((40, 0, 472, 384))
            picture.save(tmp_path / "a b.jpg", quality=95)
        else:
            exif = Image.Exif()
            exif[0x0112] = 6
            picture.rotate(90, expand=True).save(tmp_path / "turned.jpg", quality=95, exif=exif)
    made = reconstruct(wheel_engine, [tmp_path])
    assert [(p.width, p.height, p.status) for p in made.pictures.values()] == [
        (432, 384, "placed"), (512, 384, "placed"),
    ]  # fmt: skip
    assert made.components[0].mapper == "pair"
    assert len({p.lens for p in made.placed}) == 2


@needs_pycolmap
def test_too_few_pictures(wheel_engine: CPUEngine, tmp_path: Path) -> None:
    shutil.copy(known.paths()[0], tmp_path / "one.jpg")
    (tmp_path / "bad.jpg").write_bytes(b"x")
    with pytest.raises(SceneError, match="1 readable pictures that differ, want at least 2") as caught:
        reconstruct(wheel_engine, [tmp_path])
    assert caught.value.report is not None
    assert caught.value.report["pictures"]["bad.jpg"]["status"] == "unreadable"  # type: ignore[index]
    with pytest.raises(ImageNotFoundError):
        reconstruct(wheel_engine, [tmp_path / "none.jpg"])
    noise = np.random.default_rng(0).integers(0, 256, (2, 192, 256, 3), np.uint8)
    for k in range(2):
        Image.fromarray(noise[k]).save(tmp_path / f"noise{k}.png")
    with pytest.raises(SceneError, match="no pair of pictures holds") as caught:
        reconstruct(wheel_engine, [tmp_path / "noise0.png", tmp_path / "noise1.png"])
    assert "noise1.png" in str(caught.value)


def test_budget_is_checked_first() -> None:
    budget = Budget(900, 404_550, 2**29, 2**34, 2**36)
    with pytest.raises(ArgumentError, match="900 pictures is 404,550 pairs"):
        budget.check(2**33, "complete")
    Budget(10, 45, 1, 1, 1).check(2**30, "complete")


@needs_pycolmap
def test_arguments(wheel_engine: CPUEngine) -> None:
    for options in (
        {"mapper": "best"},
        {"stride": 99},
        {"min_inliers": 3},
        {"graph": "all"},
        {"camera": "mine"},
    ):
        with pytest.raises(ArgumentError):
            reconstruct(wheel_engine, known.paths()[:2], **options)
    with pytest.raises(ArgumentError, match="needs about"):
        reconstruct(wheel_engine, known.paths()[:2], limit=1000)


# ---- headers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", range(1, 9))
def test_headers(tmp_path: Path, turn: int) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F], exif[0x0110] = turn, "Made", "Model\0"
    exif.get_ifd(0x8769)[0xA405] = 26
    path = tmp_path / "a.jpg"
    Image.new("RGB", (640, 480)).save(path, exif=exif)
    photo = header.read("a.jpg", path)
    assert (photo.width, photo.height) == ((640, 480) if turn < 5 else (480, 640))
    assert photo.focal is not None and abs(photo.focal - 26 * 800 / np.hypot(36, 24)) < 1e-6
    assert (photo.make, photo.model, photo.problem) == ("Made", "Model", "")


@pytest.mark.parametrize("focal", [0, 100_000, "x"])
def test_focal_lengths_that_are_none(tmp_path: Path, focal: object) -> None:
    exif = Image.Exif()
    if isinstance(focal, int):
        exif.get_ifd(0x8769)[0xA405] = min(focal, 65535)
    Image.new("RGB", (64, 48)).save(tmp_path / "a.jpg", exif=exif)
    assert header.read("a", tmp_path / "a.jpg").focal is None


def test_finding_pictures(tmp_path: Path) -> None:
    for name in ("b.jpg", "a.png", "sub/c d.jpg", ".hidden.jpg", "note.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert list(find([tmp_path])) == ["a.png", "b.jpg"]
    assert list(find([tmp_path], recursive=True)) == ["a.png", "b.jpg", "sub/c d.jpg"]
    names = list(find([tmp_path / "b.jpg", tmp_path / "sub"]))
    assert names == ["b.jpg", "c d.jpg"]
    assert list(find([tmp_path, tmp_path / "b.jpg"])) == ["a.png", "b.jpg"]


def test_names_stay_inside_the_scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of one name from folders above: with "../.." in a name, its link would replace the picture."""
    for folder in ("left", "right", "here/deep"):
        (tmp_path / folder).mkdir(parents=True)
        shutil.copy(known.paths()[len(folder) % 3], tmp_path / folder / "1.jpg")
    monkeypatch.chdir(tmp_path / "here" / "deep")
    found = list(find(["../../left/1.jpg", Path("../../right"), "1.jpg"]).items())
    assert [n for n, _ in found] == ["left/1.jpg", "right/1.jpg", "here/deep/1.jpg"]
    assert all(path.is_file() for _, path in found)
    with OutFolder(tmp_path, "scene") as out:
        plan(dict(found), out).write(out, [name for name, _ in found])
        out.finish()
    assert sum(path.is_symlink() for path in tmp_path.rglob("*.jpg")) == 3
    for name, path in found:
        assert not path.is_symlink() and (tmp_path / "images" / name).read_bytes() == path.read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not have such names")
@needs_pycolmap
def test_hostile_names(
    tmp_path: Path, store: Path, wheel_engine: CPUEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any name a file can have: a scene is made, files come back, and what cannot be held is named."""
    fine = ["<script><img src=x onerror=alert(1)>.jpg", "a  b %2F.jpg", "\u202eגיפה 😀.jpg"]
    fine += ["-o --json '; rm.jpg", "# 1.jpg"]
    names = [*fine, "line\nbreak.jpg", os.fsdecode(b"\xff\xfe.jpg")]
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, path in zip(names, known.paths()):
        shutil.copy(path, folder / name)
    out = tmp_path / "out"
    common = ["--resolution", "256", "--precision", "fp32", "--backend", "cpu", "--threads", "2"]
    assert cli.main(["reconstruct", str(folder), "-o", str(out), "--store", str(store), *common]) == 0
    told = capsys.readouterr().err
    assert "5 of 7 pictures placed" in told and told.count("rename it") == 2
    loaded = Scene.load(out)
    assert {p.name for p in loaded.placed} == set(fine)
    text, _ = colmap_read.read(out / "sparse" / "0" / "text")
    assert sorted(text) == sorted(fine)
    # COLMAP's own reader of text cuts names at a blank, that of binary files does not
    whole = pycolmap.Reconstruction(out / "sparse" / "0")
    assert {image.name for image in whole.images.values()} == set(fine)
    assert {frame["file_path"] for frame in json.loads((out / "transforms.json").read_text())["frames"]} == {
        f"images/{name}" for name in fine
    }
    assert all((out / "images" / name).is_file() for name in fine)
    assert "<img src=x" not in (out / "scene.html").read_text(encoding="utf-8")


# ---- the command line ------------------------------------------------------------------------


@needs_pycolmap
def test_command_line(
    collection: Path, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "scene"
    common = ["--resolution", "256", "--precision", "fp32", "--backend", "cpu", "--threads", "2"]
    make = ["reconstruct", str(collection), "-o", str(out), "--store", str(store), *common]
    assert cli.main([*make, "--json"]) == 0
    taken = capsys.readouterr()
    report = json.loads(taken.out)
    assert (report["encoded"], report["decoded"]) == (0, 0) and len(report["pictures"]) == 10
    assert "6 of 10 pictures placed; not placed:" in taken.err
    assert "noise.png (unmatched: nothing in it" in taken.err
    assert (out / "images" / "room_00.jpg").read_bytes() == known.paths()[0].read_bytes()
    assert (out / "scene.html").is_file() and (out / "sparse" / "0" / "cameras.bin").is_file()
    assert cli.main([*make, "--strict", "--no-html", "--copy-images"]) == 4
    assert not (out / "images" / "room_00.jpg").is_symlink()
    capsys.readouterr()
    assert (
        cli.main(["view", str(out), "-o", str(tmp_path / "page.html"), "--max-points", "1e4", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["bytes"] == (tmp_path / "page.html").stat().st_size
    assert cli.main(["view", str(out / "sparse.ply")]) == 0 and (out / "sparse.html").is_file()
    assert cli.main(["view", str(tmp_path / "none.txt")]) == 1
    capsys.readouterr()
    find = ["localize", str(out)]
    assert cli.main([*find, str(known.paths()[3]), *common, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inliers"] >= 30
    assert cli.main([*find, str(collection / "noise.png"), *common]) == 3
    assert "no_overlap" in capsys.readouterr().out


def test_warnings_name_what_is_wrong(scene: Scene) -> None:
    """Of pictures that are not placed, of several components and of unstable ones, in plain words."""
    (lost,) = _warnings(scene)
    assert lost.startswith("6 of 10 pictures placed; not placed: ") and "noise.png (unmatched: " in lost
    part = replace(scene.components[0], names=("x.jpg", "y.jpg"), unstable="no parallax: flat")
    several = replace(scene, components=(*scene.components, part))
    assert _warnings(several)[1:] == [
        "2 components that share no pictures, each in a world of its own: "
        f"0: {', '.join(scene.components[0].names[:6])}; 1: x.jpg, y.jpg",
        "component 1 is unstable: no parallax: flat",
    ]


@needs_pycolmap
def test_command_line_where_it_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(known.paths()[0], tmp_path / "a.jpg")
    out = tmp_path / "out"
    assert cli.main(["reconstruct", str(tmp_path / "a.jpg"), "-o", str(out), "--resolution", "256"]) == 1
    assert "want at least 2" in capsys.readouterr().err
    assert json.loads((out / "report.json").read_text())["pictures"]["a.jpg"]["status"] == "unmatched"
    assert cli.main(["localize", str(tmp_path), str(tmp_path / "a.jpg")]) == 1


WITHOUT = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {'pycolmap', 'playwright', 'skimage', 'cv2', 'huggingface_hub'}:
            raise ImportError(name)
sys.meta_path.insert(0, Block())
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=child_environment(), capture_output=True, text=True, timeout=120
    )


def test_importing_imports_no_extra() -> None:
    done = python(
        "import mast3r_runtime, mast3r_runtime.scene, mast3r_runtime.viewer, sys; print(*sys.modules)"
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert not loaded & {
        "pycolmap",
        "skimage",
        "cv2",
        "huggingface_hub",
        "torch",
        "onnxruntime",
        "playwright",
    }


def test_without_the_extra(scene: Scene, tmp_path: Path) -> None:
    """The rest works; what needs pycolmap says how to get it, with exit status 2."""
    scene.write(tmp_path / "s", ["npz", "report", "dense"])
    done = python(
        WITHOUT
        + f"""
from mast3r_runtime.scene import Scene
from mast3r_runtime import cli
scene = Scene.load({str(tmp_path / "s")!r})
scene.write({str(tmp_path / "again")!r})
print(len(scene.placed))
sys.exit(cli.main(["reconstruct", {str(known.FOLDER)!r}, "-o", {str(tmp_path / "out")!r}]))
"""
    )
    assert done.stdout.strip() == "6" and done.returncode == 2, done.stderr
    assert "pip install 'mast3r-runtime[scene]'" in done.stderr
    assert (tmp_path / "again" / "scene.html").is_file()


def test_the_views_of_the_demo_are_what_the_script_says() -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import scene_views

    truth = scene_views.demo_truth()
    with np.load(known.FOLDER / "truth.npz") as stored:
        assert set(stored.files) == set(truth)
        for name, value in truth.items():
            np.testing.assert_allclose(stored[name], value, atol=1e-12)
    assert len(known.paths()) == len(truth["world_from_camera"]) == 8
    quads = scene_views.room.scene()
    xy = np.stack(np.meshgrid(np.arange(0, 512, 40), np.arange(0, 384, 40)), -1).reshape(-1, 2)
    for pose in truth["world_from_camera"][::3]:
        exact = scene_views.depth(quads, (pose[:3, :3], pose[:3, 3]))[xy[:, 1], xy[:, 0]]
        ours = known._depth(truth["surfaces"], pose, truth["intrinsics"], xy)
        np.testing.assert_allclose(ours, exact, rtol=1e-9)


def test_pictures_show_what_the_truth_says() -> None:
    """A surface point has the same colour in two views that see it: the JPEGs belong to their cameras."""
    with np.load(known.FOLDER / "truth.npz") as stored:
        poses, k, surfaces = stored["world_from_camera"], stored["intrinsics"], stored["surfaces"]
    images = [np.asarray(Image.open(p).convert("RGB")).astype(float) for p in known.paths()]
    xy = np.stack(np.meshgrid(np.arange(4, 508, 9), np.arange(4, 380, 9)), -1).reshape(-1, 2)
    for a, b in ((0, 1), (2, 5), (3, 4), (6, 7)):
        z = known._depth(surfaces, poses[a], k, xy)
        rays = np.concatenate([xy, np.ones((len(xy), 1))], 1) @ np.linalg.inv(k).T
        world = rays * z[:, None] @ poses[a][:3, :3].T + poses[a][:3, 3]
        local = (world - poses[b][:3, 3]) @ poses[b][:3, :3]
        flat = local @ k.T
        there = flat[:, :2] / flat[:, 2:]
        inside = (local[:, 2] > 0) & (there > 0).all(1) & (there < (511, 383)).all(1)
        hidden = known._depth(surfaces, poses[b], k, there) < local[:, 2] - 0.02
        seen = inside & ~hidden
        at = np.rint(there[seen]).astype(int)
        own = images[a][xy[seen, 1], xy[seen, 0]]
        difference = np.abs(own - images[b][at[:, 1], at[:, 0]]).mean()
        shifted = np.abs(own - images[b][at[:, 1], (at[:, 0] + 25) % 512]).mean()
        assert difference < 12 < shifted


def test_formats_are_all_written() -> None:
    assert list(FORMATS) == ["report", "npz", "dense", "colmap", "transforms", "ply", "glb", "html", "images"]
    assert os.sep  # the table is what docs/scenes.md lists
