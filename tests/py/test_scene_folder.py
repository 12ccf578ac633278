# SPDX-License-Identifier: Apache-2.0
"""A scene's folder over its life: written twice, failed, moved, interrupted, on a full disk."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import child_environment, unix_only
from test_out_verbs import made, made_scene, picture, run, seen, world  # noqa: F401

from mast3r_runtime import cli
from mast3r_runtime._commands import scene as verbs
from mast3r_runtime._files import manifest
from mast3r_runtime._files.folder import OutFolder
from mast3r_runtime._pictures.header import read
from mast3r_runtime._scene import files
from mast3r_runtime._scene.parts import TWIN
from mast3r_runtime.errors import FileError, SceneError
from mast3r_runtime.scene import Scene


@pytest.fixture
def photos(tmp_path: Path) -> dict[str, Path]:
    rng = random.Random(7)
    names = ("a.jpg", "b.jpg", "c.jpg")
    for name in names:
        picture(tmp_path / "photos" / name, rng)
    return {name: tmp_path / "photos" / name for name in names}


def names_in(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}


# ---- a second scene ------------------------------------------------------------------------


def test_two_scenes_never_mix(photos: dict[str, Path], tmp_path: Path) -> None:
    three, two = made_scene(photos), made_scene(dict(list(photos.items())[:2]))
    parts = replace(three, components=three.components * 2)
    parts.write(tmp_path / "s")
    assert (tmp_path / "s" / "sparse" / "1" / "points3D.bin").is_file()
    two.write(tmp_path / "s", [name for name in files.FORMATS if name != "html"])
    two.write(tmp_path / "fresh", [name for name in files.FORMATS if name != "html"])
    assert names_in(tmp_path / "s") == names_in(tmp_path / "fresh")
    assert not (tmp_path / "s" / "sparse" / "1").exists()
    assert list(Scene.load(tmp_path / "s").pictures) == ["a.jpg", "b.jpg"]


def test_formats_of_one_scene_come_together(photos: dict[str, Path], tmp_path: Path) -> None:
    scene = made_scene(photos)
    scene.write(tmp_path, ["npz", "report"])
    scene.write(tmp_path, ["dense"])
    assert {"scene.npz", "dense/a.jpg.npz"} <= names_in(tmp_path)
    assert Scene.load(tmp_path).pictures["a.jpg"].depth is not None
    made_scene(dict(list(photos.items())[:2])).write(tmp_path, ["ply"])
    assert names_in(tmp_path) - set(photos) == {"sparse.ply", "dense.ply", "report.json"} | {
        f"photos/{n}" for n in photos
    }


def test_depth_of_another_run_is_never_joined(photos: dict[str, Path], tmp_path: Path) -> None:
    first = made_scene(photos)
    depth = first.pictures["a.jpg"].depth
    assert depth is not None
    other = {
        **first.pictures,
        "a.jpg": replace(first.pictures["a.jpg"], depth=replace(depth, depth=depth.depth * 19)),
    }
    first.write(tmp_path / "one")
    replace(first, pictures=other).write(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "dense" / "a.jpg.npz", tmp_path / "one" / "dense" / "a.jpg.npz")
    with pytest.raises(FileError, match="of another run"):
        Scene.load(tmp_path / "one")


def test_a_failure_leaves_a_good_scene(photos: dict[str, Path], tmp_path: Path) -> None:
    scene = made_scene(photos)
    scene.write(tmp_path / "s")
    before = {n: (tmp_path / "s" / n).read_bytes() for n in names_in(tmp_path / "s")}
    for _ in range(2):
        with OutFolder(tmp_path / "s", files.SECTION) as out:
            assert files.write_failure(out, {"error": "no pair"}) == tmp_path.resolve() / "s" / "failed.json"
    after = {n: (tmp_path / "s" / n).read_bytes() for n in names_in(tmp_path / "s")}
    assert {n for n in after if after[n] != before.get(n)} == {"failed.json", "report.json"}
    report = json.loads(after["report.json"])
    assert report["made_by"] == "mast3r-runtime" and "error" not in report
    assert Scene.load(tmp_path / "s").report == scene.report
    scene.write(tmp_path / "s")  # the same scene again: what is of it stays
    with OutFolder(tmp_path / "none", files.SECTION) as out:
        assert files.write_failure(out, {"error": "no pair"}).name == "report.json"
    assert names_in(tmp_path / "none") == {"report.json"}
    scene.write(tmp_path / "none")


@pytest.mark.usefixtures("made")
def test_the_command_says_where_its_report_is(
    photos: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from mast3r_runtime._scene import reconstruct

    words = ["reconstruct", str(tmp_path / "photos"), "-o", str(tmp_path / "s")]
    assert cli.main(words) == 0

    def fails(*_: object, **__: object) -> Scene:
        error = SceneError("reconstruct: no pair")
        error.report = {"error": "no pair"}
        raise error

    monkeypatch.setattr(reconstruct, "reconstruct", fails)
    assert cli.main(words) == 1
    assert "failed.json" in capsys.readouterr().err
    assert len(Scene.load(tmp_path / "s").placed) == 3


# ---- a network's cameras, twins ------------------------------------------------------------------


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("verb", ["views", "reconstruct"])
def test_a_networks_scene_has_what_it_names(
    verb: str, photos: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T10: ``views``, and ``reconstruct --matcher none``."""
    from mast3r_runtime._scene import reconstruct

    def without_points(scene: Scene) -> Scene:
        (component,) = scene.components
        none = np.zeros(0, np.int64)
        model = replace(
            component.model, points=np.zeros((0, 3)), colours=np.zeros((0, 3), np.uint8), seen=none,
            seen_by=none, seen_at=np.zeros((0, 2)),
        )  # fmt: skip
        return replace(scene, components=(replace(component, model=model),))

    from mast3r_runtime._scene import start

    monkeypatch.setattr(start, "look", lambda _, headers, *__, **___: without_points(seen(headers)))
    monkeypatch.setattr(
        reconstruct, "reconstruct",
        lambda _, found, **__: without_points(seen([read(n, p) for n, p in found.items()])),
    )  # fmt: skip
    assert cli.main([verb, str(tmp_path / "photos"), "-o", str(tmp_path / "s")]) == 0
    values = json.loads((tmp_path / "s" / "transforms.json").read_text())
    assert values["ply_file_path"] == "dense_up.ply" and (tmp_path / "s" / "dense_up.ply").is_file()
    assert len(values["frames"]) == 3
    assert all((tmp_path / "s" / frame["file_path"]).is_file() for frame in values["frames"])


def test_no_file_is_named_that_is_not_there(photos: dict[str, Path], tmp_path: Path) -> None:
    scene = made_scene(photos)
    pictures = {n: replace(p, depth=None) for n, p in scene.pictures.items()}
    (component,) = scene.components
    model = replace(component.model, points=np.zeros((0, 3)), colours=np.zeros((0, 3), np.uint8))
    none = np.zeros(0, np.int64)
    model = replace(model, seen=none, seen_by=none, seen_at=np.zeros((0, 2)))
    replace(scene, pictures=pictures, components=(replace(component, model=model),)).write(tmp_path / "s")
    assert "ply_file_path" not in json.loads((tmp_path / "s" / "transforms.json").read_text())


def test_twins_are_not_exported(photos: dict[str, Path], tmp_path: Path) -> None:
    scene = made_scene(photos)
    twin = replace(scene.pictures["a.jpg"], name="twin.jpg", reason=f"{TWIN}a.jpg", depth=None)
    replace(scene, pictures={**scene.pictures, "twin.jpg": twin}).write(tmp_path / "s")
    frames = json.loads((tmp_path / "s" / "transforms.json").read_text())["frames"]
    assert [Path(f["file_path"]).stem for f in frames] == ["a", "b", "c"]
    assert len(os.listdir(tmp_path / "s" / "images")) == 3


# ---- moved -----------------------------------------------------------------------------------


def test_pictures_are_found_from_any_folder(
    photos: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scene = made_scene({n: Path("photos") / n for n in photos})
    scene.write("copied", copy_images=True)
    scene.write("bare", ["npz", "report"])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("/")
    paths = {n: p.path for n, p in Scene.load(tmp_path / "bare").pictures.items()}
    assert all(path.is_file() for path in paths.values()), paths
    shutil.copytree(tmp_path / "copied", tmp_path / "elsewhere" / "s")
    shutil.rmtree(tmp_path / "copied")
    shutil.rmtree(tmp_path / "photos")
    for p in Scene.load(tmp_path / "elsewhere" / "s").pictures.values():
        assert p.path.parent == tmp_path / "elsewhere" / "s" / "images" and p.path.is_file()


def test_the_scene_and_its_pictures_moved_together(photos: dict[str, Path], tmp_path: Path) -> None:
    made_scene(photos).write(tmp_path / "s", ["npz", "report"])
    (tmp_path / "new").mkdir()
    for name in ("photos", "s"):
        (tmp_path / name).rename(tmp_path / "new" / name)
    assert all(p.path.is_file() for p in Scene.load(tmp_path / "new" / "s").pictures.values())


def test_a_picture_is_found_by_its_copys_name(tmp_path: Path) -> None:
    rng = random.Random(3)
    while not (tmp_path / "IMG_1.JPG").exists() or read("x", tmp_path / "IMG_1.JPG").width != 48:
        picture(tmp_path / "IMG_1.JPG", rng)  # until it is a turned one
    picture(tmp_path / "b.jpg", rng)
    scene = made_scene({n: tmp_path / n for n in ("IMG_1.JPG", "b.jpg")})
    scene.write(tmp_path / "s")
    assert (tmp_path / "s" / "images" / "IMG_1.jpg").is_file()
    for name in ("IMG_1.JPG", "IMG_1.jpg", "IMG_1.upright.jpg"):
        assert Scene.load(tmp_path / "s")._picture(name).name == "IMG_1.JPG"


# ---- the system ------------------------------------------------------------------------------


@unix_only
@pytest.mark.skipif(sys.platform == "darwin", reason="there every name of a file is text")
@pytest.mark.usefixtures("made")
def test_a_folder_whose_name_is_no_text(photos: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / os.fsdecode(b"o\xff")
    for _ in range(2):
        assert cli.main(["reconstruct", str(tmp_path / "photos"), "-o", str(out)]) == 0
    assert "o\\udcff" in (out / "scene.html").read_text(encoding="utf-8")
    assert len(list((out / "images").iterdir())) == 3 and len(Scene.load(out).placed) == 3


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("verb", ["reconstruct", "infer", "batch"])
def test_a_full_disk_is_5_in_every_verb(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(tmp_path / "w", random.Random(4))
    w.out = tmp_path / "w" / "full"

    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(manifest, "sealed", full)
    assert run(verb, w) == 5 and "No space left" in w.notes[-1]


SLOW = """
import time
try:
    time.sleep(4)
except BaseException:  # as trimesh does, whatever it is
    pass
class PointCloud: pass
"""
IMPORTING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from mast3r_runtime._commands import main
from mast3r_runtime._library.imports import heavy
def verb(arguments):
    print("importing", flush=True)
    heavy("trimesh")
    print("went on", flush=True)
    return 0
main.scene._view = verb
sys.exit(main.main())
"""


@unix_only
def test_an_interrupt_within_an_import_is_no_accident(tmp_path: Path) -> None:
    (tmp_path / "trimesh.py").write_text(SLOW)
    environment = child_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    child = subprocess.Popen(
        [sys.executable, "-c", IMPORTING, "view", "x.ply"], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None and child.stdout.readline() == "importing\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (130, "", "mast3r: interrupted\n")


@unix_only
def test_a_terminated_solver_prints_no_stack() -> None:
    pytest.importorskip("pycolmap")
    code = (
        "import time\nfrom mast3r_runtime._scene import solver\nsolver.pycolmap()\n"
        "print('here', flush=True)\ntime.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], env=child_environment(), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None and child.stdout.readline() == "here\n"
    child.terminate()
    _, err = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGTERM and err == ""


def test_nothing_imports_large_packages_another_way() -> None:
    """Where a signal would be lost: trimesh and pycolmap come through ``heavy``."""
    for path in Path(verbs.__file__).parents[1].rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for line in text.splitlines():
            assert not line.strip().startswith(("import trimesh", "import pycolmap", "from pycolmap")), path
            assert 'import_module("pycolmap")' not in line and 'import_module("trimesh")' not in line, path


@pytest.fixture(autouse=True)
def nothing_private_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    assert not [p for p in tmp_path.rglob(".mast3r-*") if p.name != manifest.JOURNAL]
