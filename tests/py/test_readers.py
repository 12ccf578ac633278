# SPDX-License-Identifier: Apache-2.0
"""Every reader of files that a stranger may have made: an error of ours, or a whole answer, soon."""

from __future__ import annotations

import ast
import json
import os
import random
import struct
import threading
import time
from pathlib import Path

import given_files
import mutations
import numpy as np
import pytest
from conftest import ROOT

from mast3r_runtime._output.sources import points_page
from mast3r_runtime.errors import ArgumentError, FileError, ImageError, Mast3rError, WeightsError
from mast3r_runtime.scene import Scene
from mast3r_runtime.store import Store, check

COUNT = 150
NAMES = [
    "scene.npz", "report.json", "dense", "ply", "glb", "result.npz", "features", "features.npz", "store.json",
    *(f"store {kind}" for kind in mutations.kinds.KINDS), *given_files.KINDS,
]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, mutations.Reader]]:
    return mutations.targets(tmp_path_factory.mktemp("readers"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_mutated_files(files: dict[str, tuple[Path, mutations.Reader]], name: str) -> None:
    """The whole file is read; each mutation is read or is a typed error, and takes less than seconds."""
    assert set(files) == set(NAMES), "a reader that is not tried"
    path, read = files[name]
    whole = path.read_bytes()
    read(True)
    rng = random.Random(f"readers {name}")
    refused = 0
    for number in range(COUNT):
        data = mutations.mutated(rng, whole)
        path.write_bytes(data)
        start = time.monotonic()
        try:
            read(True)
        except (FileError, WeightsError):
            refused += 1
        except Mast3rError as error:
            if name.startswith("given "):  # an argument
                assert isinstance(error, (ArgumentError, ImageError)) and len(str(error)) < 2000, error
                refused += 1
                continue
            assert name in ("store.json", "store runs"), (
                f"{number}: {error!r}"
            )  # another schema, a damaged record
        except Exception as error:
            (path.parent / "failed").write_bytes(data)
            raise AssertionError(f"{name}, mutation {number}: {error!r}") from error
        assert time.monotonic() - start < 20, number
    path.write_bytes(whole)
    read(True)
    if not name.startswith(("store ", "given picture", "given mask")) and name != "report.json":
        assert refused > COUNT // 5


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith(" text")])
def test_pipes_hold_nobody_up(tmp_path: Path, name: str) -> None:
    """In the place of any file: whoever would write into it never comes."""
    path, read = mutations.targets(tmp_path)[name]
    path.unlink()
    os.mkfifo(path)
    done: list[object] = []

    def run() -> None:
        try:
            done.append(read(True))
        except Mast3rError as error:
            done.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert done, "it waits for a writer"
    if name.startswith("store "):
        found = check(Store(tmp_path / "store"))
        assert found.damaged == () and len(found.unreadable) + len(found.foreign) == 1


def test_dense_maps_of_another_kind(tmp_path: Path) -> None:
    """What Scene.load takes, a page can be made of."""
    mutations.scene().write(tmp_path, ["npz", "report", "dense"])
    path = tmp_path / "dense" / "0.jpg.npz"
    with np.load(path) as archive:
        good = {name: archive[name] for name in archive.files}
    for change in (
        {"rgb": good["rgb"].astype(np.float64)}, {"depth": good["depth"].astype(np.float64)},
        {"keep": good["keep"].astype(np.uint8)}, {"depth": good["depth"][:-1]}, {"rgb": good["rgb"][..., 0]},
        {"transform": good["transform"] * 0}, {"transform": good["transform"][:7]},
        {"ray_centres": good["ray_centres"][:3]},
    ):  # fmt: skip
        np.savez(path, **(good | change))
        with pytest.raises(FileError):
            Scene.load(tmp_path)
    np.savez(path, **good)
    Scene.load(tmp_path)


def test_poses_and_cameras_of_a_scene_are_checked(tmp_path: Path) -> None:
    mutations.scene().write(tmp_path, ["npz", "report"])
    path = tmp_path / "scene.npz"
    with np.load(path) as archive:
        good = {name: archive[name] for name in archive.files}
    for name, at, value in (
        ("world_from_camera", (0, 0, 0), np.nan), ("world_from_camera", (0, 0, 0), 2.0),
        ("world_from_camera", (0, 0, 0), -1.0), ("world_from_camera", (0, 3, 0), 1.0),
        ("world_from_camera", (0, 0, 3), np.inf), ("camera_params", (0, 0), 0.0),
        ("camera_params", (0, 0), -5.0), ("camera_params", (0, 2), np.nan), ("sizes", (0, 0), 0),
        ("track_offsets", 1, -1), ("track_offsets", -1, 10**9),
        ("track_pictures", 0, 2), ("component", 0, 7), ("components", (), 9), ("points", (0, 0), np.nan),
        ("names", 1, "0.jpg"), ("camera_model", 0, "FISHEYE"), ("schema", (), 9),
    ):  # fmt: skip
        array = good[name].copy()
        array[at] = value
        np.savez(path, **(good | {name: array}))
        with pytest.raises(FileError):
            Scene.load(tmp_path)
            raise AssertionError((name, at, value))


def test_points_that_name_other_files(tmp_path: Path) -> None:
    """A GLB whose bytes lie elsewhere, and textures in any format: nothing else is opened."""
    gltf = {
        "asset": {"version": "2.0"}, "buffers": [{"byteLength": 12, "uri": "../secret.bin"}],
        "bufferViews": [{"buffer": 0, "byteLength": 12}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 1, "type": "VEC3"}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "mode": 0}]}], "nodes": [{"mesh": 0}],
        "scenes": [{"nodes": [0]}],
    }  # fmt: skip
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.bin").write_bytes(struct.pack("<3f", 1, 2, 3))
    glb(tmp_path / "in" / "a.glb", gltf)
    with pytest.raises(FileError, match="other files"):
        points_page(tmp_path / "in" / "a.glb")
    gltf["buffers"] = [{"byteLength": 12}]
    gltf["accessors"] = [{"componentType": 5126, "count": 10**9, "type": "VEC3"}]
    glb(tmp_path / "a.glb", gltf)
    with pytest.raises(FileError, match="1000000000 elements"):
        points_page(tmp_path / "a.glb")
    header = (
        "ply\nformat binary_little_endian 1.0\nelement vertex 99999999999\nproperty float x\nend_header\n"
    )
    (tmp_path / "a.ply").write_bytes(header.encode() + b"1234")
    with pytest.raises(FileError, match="99999999999 elements"):
        points_page(tmp_path / "a.ply")


def test_textures_start_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PLY with a texture beside it that is a text: Pillow would hand it to Ghostscript."""
    from PIL import Image

    opened: list[object] = []
    monkeypatch.setattr(Image, "open", lambda *a, **k: opened.append(a) or Image.new("RGB", (2, 2)))
    (tmp_path / "t.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n")
    text = (
        "ply\nformat ascii 1.0\ncomment TextureFile t.jpg\nelement vertex 3\n"
        "property float x\nproperty float y\nproperty float z\nelement face 2\n"
        "property list uchar int vertex_indices\nproperty list uchar float texcoord\nend_header\n"
        "0 0 0\n1 0 0\n0 1 0\n3 0 1 2 6 0 0 1 0 0 1\n3 2 1 0 6 0 0 1 0 0 1\n"
    )
    (tmp_path / "a.ply").write_text(text, encoding="ascii")
    assert len(points_page(tmp_path / "a.ply").clouds[0].points) >= 3 and opened == []


def test_textures_of_a_glb_start_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    opened: list[object] = []
    monkeypatch.setattr(Image, "open", lambda *a, **k: opened.append(a) or Image.new("RGB", (2, 2)))
    corner = {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}
    gltf = {
        "asset": {"version": "2.0"}, "buffers": [{"byteLength": 60}],
        "bufferViews": [{"buffer": 0, "byteLength": 36}, {"buffer": 0, "byteOffset": 36, "byteLength": 24}],
        "accessors": [corner, {"bufferView": 1, "componentType": 5126, "count": 3, "type": "VEC2"}],
        "images": [{"bufferView": 0, "mimeType": "image/png"}], "textures": [{"source": 0}],
        "materials": [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0, "TEXCOORD_0": 1}, "material": 0}]}],
        "nodes": [{"mesh": 0}], "scenes": [{"nodes": [0]}], "scene": 0,
    }  # fmt: skip
    glb(tmp_path / "a.glb", gltf, struct.pack("<15f", *range(15)))
    assert len(points_page(tmp_path / "a.glb").clouds[0].points) >= 3 and opened == []


def glb(path: Path, gltf: object, body: bytes = bytes(12)) -> None:
    text = json.dumps(gltf).encode()
    text += b" " * (-len(text) % 4)
    size = 12 + 8 + len(text) + 8 + len(body)
    data = struct.pack("<4sII", b"glTF", 2, size) + struct.pack("<I4s", len(text), b"JSON") + text
    path.write_bytes(data + struct.pack("<I4s", len(body), b"BIN\0") + body)


def test_zips_are_opened_in_one_place() -> None:
    """A reader of its own would not count a zip's members, nor bound what an array promises."""
    ours = "a file of our own in the package"
    allowed = {
        "_files/zips.py": "the place", "_store/packs.py": "writes packs",
        "_commands/doctor.py": "writes a report", "_scene/known.py": ours,
        "_commands/selfcheck.py": ours, "_commands/demo.py": ours,
    }  # fmt: skip
    package = ROOT / "python" / "mast3r_runtime"
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "np.load",
                "zipfile.ZipFile",
                "ZipFile",
            ):
                assert path.relative_to(package).as_posix() in allowed, f"{path.name}: use _files/zips.py"
