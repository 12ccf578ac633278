# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Cameras, poses, pairs and masks as other programs and people write them: used, or an error."""

from __future__ import annotations

import json
import logging
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, unix_only
from PIL import Image

from mast3r_runtime._pairs.folder import read_pairs
from mast3r_runtime._pictures import masks
from mast3r_runtime._pictures.header import Photo
from mast3r_runtime._pictures.names import Names
from mast3r_runtime._scene import colmap_read, given, options
from mast3r_runtime._scene.model import Lens, check_lens, check_pose
from mast3r_runtime.errors import ArgumentError, FileError, Mast3rError
from mast3r_runtime.scene import Options

# ---- names -----------------------------------------------------------------------------------

ROOM = ["room_00.jpg", "room_01.jpg", "room_02.jpg"]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("a.jpg", "a.jpg"), ("images/a.jpg", "a.jpg"), ("images\\a.jpg", "a.jpg"), ("./a.jpg", "a.jpg"),
        ("C:\\me\\images\\a.jpg", "a.jpg"), ("images/a", "a.jpg"), ("a", "a.jpg"), ("A.JPG", "a.jpg"),
        ("a.upright.jpg", "a.jpg"), ("images/a.upright.png", "a.jpg"), ("a.jpg.upright.jpg", "a.jpg"),
        ("b.HEIC", "b.HEIC"), ("b.jpg", "b.HEIC"), ("b.HEIC.jpg", "b.HEIC"), ("b.heic.upright.jpg", "b.HEIC"),
        ("c d.jpg", "sub/c d.jpg"), ("sub/c d.jpg", "sub/c d.jpg"), ("x/sub/c d.jpg", "sub/c d.jpg"),
        ("e\u0301.jpg", "\u00e9.jpg"), ("other/c d.jpg", None), ("z.jpg", None), ("", None), ("a.txt", None),
        ("frame.0001", "frame.0001.png"), ("frame.0002", None),
    ],
)  # fmt: skip
def test_what_a_name_means(key: str, name: str | None) -> None:
    pictures = ["a.jpg", "b.HEIC", "sub/c d.jpg", "\u00e9.jpg", "frame.0001.png"]
    assert Names(pictures).find(key) == name
    if name is None:
        with pytest.raises(ArgumentError, match="none of its 1 names|names no pictures"):
            Names(pictures).match([key], "poses")
    else:
        assert Names(pictures).match([key], "poses") == {name: key}


def test_what_fits_better_wins() -> None:
    names = Names(["a.jpg", "a.png", "a.HEIC"])
    assert names.match(["a.png", "a.jpg.png", "a.HEIC.jpg"], "x") == {
        "a.png": "a.png", "a.jpg": "a.jpg.png", "a.HEIC": "a.HEIC.jpg"
    }  # fmt: skip
    with pytest.raises(ArgumentError, match=r"'a' may be 'a\.(jpg|png|HEIC)' or"):
        names.match(["a"], "poses")
    with pytest.raises(ArgumentError, match="'a' may be"):
        names.find("a")
    with pytest.raises(ArgumentError, match="'a.jpg' may be 'left/a.jpg' or 'right/a.jpg'"):
        Names(["a.jpg"]).match(["left/a.jpg", "right/a.jpg"], "poses")
    with pytest.raises(ArgumentError, match="'1.jpg' may be"):
        Names(["left/1.jpg", "right/1.jpg"]).match(["1.jpg"], "poses")


def test_equal_names_are_told_apart_by_the_folders_of_the_pictures() -> None:
    """A rig: the folder that was given is part of the picture's place, not of its name."""
    keys = [f"{side}/{n}" for side in ("left", "right") for n in ROOM]
    for side in ("left", "right"):
        names = Names({n: f"/data/rig/images/{side}/{n}" for n in ROOM})
        assert names.match(keys, "poses") == {n: f"{side}/{n}" for n in ROOM}
    deep = Names({f"{s}/{n}": f"/data/rig/images/{s}/{n}" for s in ("left", "right") for n in ROOM})
    assert deep.match(keys, "poses") == {k: k for k in keys}
    with pytest.raises(ArgumentError, match="may be 'left/room_00.jpg' or 'right/room_00.jpg'"):
        Names({n: f"/elsewhere/{n}" for n in ROOM}).match(keys, "poses")


def test_names_that_fit_nothing_are_an_error_with_two_of_each_side() -> None:
    with pytest.raises(ArgumentError, match=r"3 names, such as 'x' and 'y', .* 3 pictures, such as 'room_00"):
        Names(ROOM).match(["x", "y", "z"], "poses t.json")


# ---- lenses and poses ------------------------------------------------------------------------


def lens(f: float = 430, cx: float = 255.5, cy: float = 191.5, **bent: float) -> Lens:
    return Lens("OPENCV", 512, 384, (f, f, cx, cy, *(bent.get(k, 0.0) for k in ("k1", "k2", "p1", "p2"))))


@pytest.mark.parametrize(
    "make",
    [
        lambda: lens(k1=1e30), lambda: lens(k1=-1e30), lambda: lens(k1=10), lambda: lens(k1=1e3),
        lambda: lens(k2=1e30), lambda: lens(k1=-0.5), lambda: lens(p1=3), lambda: lens(p2=-1e9),
        lambda: lens(float("nan")), lambda: lens(float("inf")), lambda: lens(-1), lambda: lens(0),
        lambda: lens(1e308), lambda: lens(1e-300), lambda: lens(cx=1e300), lambda: lens(cx=-1e4),
        lambda: Lens("PINHOLE", 0, 384, (1, 1, 1, 1)), lambda: Lens("PINHOLE", -5, 384, (1, 1, 1, 1)),
        lambda: Lens("PINHOLE", 1 << 40, 384, (1, 1, 1, 1)), lambda: Lens("PINHOLE", 512, 384, (1, 1, 1)),
        lambda: Lens("NONE", 512, 384, (1, 1, 1, 1)), lambda: lens(k1=float("nan")),
    ],
)  # fmt: skip
def test_lenses_that_cannot_be(make: Callable[[], Lens]) -> None:
    """From files, from Python: before any work. Some of these a solver never ends on."""
    with pytest.raises(ArgumentError):
        Options(intrinsics={"a.jpg": make()})


def test_lenses_that_can_be() -> None:
    check_lens(lens(k1=-0.2, k2=0.05, p1=0.001, p2=-0.001), "phone")
    check_lens(lens(300, k1=-0.2, k2=0.02), "wide")
    euroc = Lens(
        "OPENCV", 752, 480, (458.654, 457.296, 366.715, 247.875, -0.28340811, 0.07395907, 2e-4, 1.8e-5)
    )
    check_lens(euroc, "EuRoC")
    corners = np.array([[0.0, 0], [751, 0], [0, 479], [751, 479], [375, 240]])
    np.testing.assert_allclose(euroc.pixels(euroc.rays(corners)), corners, atol=1e-9)


@pytest.mark.parametrize(
    "pose",
    [
        np.eye(3), np.full((4, 4), np.nan), np.diag([2.0, 1, 1, 1]), np.diag([1.0, 1, -1, 1]), np.zeros((4, 4)),
        np.diag([1.0, 1, 1, 2]), np.block([[np.eye(3), np.full((3, 1), 1e300)], [np.zeros((1, 3)), np.ones((1, 1))]]),
    ],
)  # fmt: skip
def test_poses_that_cannot_be(pose: np.ndarray) -> None:
    with pytest.raises(ArgumentError):
        check_pose(pose, "x")
    with pytest.raises(ArgumentError, match="pose of 'a.jpg'"):
        Options(poses={"a.jpg": pose})


@pytest.mark.parametrize(
    "k", [(1e308, 430, 32, 24), (60, 60, 1e300, 24), (60, 60, 32, -900), (0.1, 60, 32, 24)]
)
def test_cameras_of_views_and_pairs_that_cannot_be(k: tuple[float, ...], tmp_path: Path, micro: Path) -> None:
    """The same check for the matrices of Python's calls and of ``pose``."""
    from mast3r_runtime import Engine, cli

    matrix = np.array([[k[0], 0, k[2]], [0, k[1], k[3]], [0, 0, 1]])
    usual = np.array([[60.0, 0, 32], [0, 60, 24], [0, 0, 1]])
    pictures = [np.zeros((48, 64, 3), np.uint8)] * 2
    with Engine("auto", 56, "fp32", 2, "cpu") as engine:
        engine.load(ROOT / "internal" / "model" / "da3" / "testdata" / "tiny.safetensors")
        poses = np.stack([np.eye(4)] * 2)
        with pytest.raises(Mast3rError, match="intrinsics"):
            engine.infer_views(pictures, poses=poses, intrinsics=np.stack([usual, matrix]))
        skew = usual + [[0, 5, 0], [0, 0, 0], [0, 0, 0]]
        with pytest.raises(ArgumentError, match="skew"):
            engine.infer_views(pictures, poses=poses, intrinsics=np.stack([usual, skew]))
    Image.fromarray(pictures[0]).save(tmp_path / "a.png")
    words = ["--model", str(micro), "--resolution", "96", "--backend", "cpu", "--threads", "2"]
    numbers = ",".join(map(repr, k))
    assert cli.main(["pose", *[str(tmp_path / "a.png")] * 2, f"--intrinsics={numbers}", *words]) == 1


def test_scale_beside_poses_is_an_error() -> None:
    for scale in ("none", ("a.jpg", "b.jpg", 5.0), {"a.jpg": np.zeros(3)}):
        with pytest.raises(ArgumentError, match="scale beside poses"):
            Options(poses={"a.jpg": np.eye(4)}, scale=scale)


# ---- files of nerfstudio ---------------------------------------------------------------------

CAMERA = {"fl_x": 430, "cx": 256, "cy": 192, "w": 512, "h": 384}
SIZES = dict.fromkeys(ROOM, (512, 384))


def transforms(path: Path, names: list[str], camera: dict[str, Any], **frame: Any) -> str:
    rows = [{"file_path": n, "transform_matrix": np.eye(4).tolist(), **frame} for n in names]
    path.write_text(json.dumps({**camera, "frames": rows}))
    return str(path)


@pytest.mark.parametrize("form", ["images/{}", "images\\{}", "{}", "./images/{}", "D:\\x\\{}"])
@pytest.mark.parametrize("suffix", [True, False])
def test_names_of_transforms(tmp_path: Path, form: str, suffix: bool) -> None:
    names = [form.format(n if suffix else n[:-4]) for n in ROOM]
    text = transforms(tmp_path / "t.json", names, CAMERA)
    found = given.intrinsics(text, SIZES, Names(ROOM))
    assert list(found) == ROOM and found[ROOM[0]].params[:4] == (430, 430, 255.5, 191.5)
    assert list(given.poses(Path(text), Names(ROOM))) == ROOM


def test_names_of_transforms_that_fit_nothing(tmp_path: Path) -> None:
    text = transforms(tmp_path / "t.json", ["x.jpg", "y.jpg"], CAMERA)
    for read in (
        lambda: given.intrinsics(text, SIZES, Names(ROOM)),
        lambda: given.poses(Path(text), Names(ROOM)),
    ):
        with pytest.raises(
            ArgumentError, match="such as 'x.jpg' and 'y.jpg'.*such as 'room_00.jpg' and 'room_01"
        ):
            read()


@pytest.mark.parametrize(
    ("camera", "focal"),
    [
        ({"camera_angle_x": 2 * np.arctan(256 / 430)}, (430, 430)),
        (
            {"camera_angle_x": 2 * np.arctan(256 / 430), "camera_angle_y": 2 * np.arctan(192 / 420)},
            (430, 420),
        ),
        ({**CAMERA, "fl_y": 431, "camera_angle_x": 3.0}, (430, 431)),
        ({"fl_y": 430}, (430, 430)),
    ],
)
def test_cameras_by_angles(tmp_path: Path, camera: dict[str, float], focal: tuple[float, float]) -> None:
    found = given.intrinsics(transforms(tmp_path / "t.json", ROOM, camera), SIZES, Names(ROOM))
    np.testing.assert_allclose(found[ROOM[1]].params[:4], (*focal, 255.5, 191.5))


@pytest.mark.parametrize(
    "wrong",
    [
        {"is_fisheye": True}, {"camera_model": "OPENCV_FISHEYE"}, {"camera_model": "EQUIRECTANGULAR"}, {"k3": 0.1},
        {"k4": -1e-9}, {"camera_model": "unheard"}, {"k1": 1e30}, {"k1": 10}, {"fl_x": -1}, {"fl_x": 0},
        {"fl_x": 1e308}, {"fl_x": None}, {"fl_x": "430"}, {"cx": 1e300}, {"w": float("inf")}, {"w": 0}, {"w": 1.5},
        {"h": -1}, {"fl_x": float("nan")}, {"w": 10**400}, {"fl_x": 10**400}, {"fl_x": [1]}, {"k1": {}},
    ],
)  # fmt: skip
def test_cameras_that_do_not_fit(tmp_path: Path, wrong: dict[str, Any]) -> None:
    for own in (False, True):
        camera = CAMERA if own else {**CAMERA, **wrong}
        text = transforms(tmp_path / "t.json", ROOM, camera, **(wrong if own else {}))
        with pytest.raises(ArgumentError):
            given.intrinsics(text, SIZES, Names(ROOM))


def test_angles_that_are_none(tmp_path: Path) -> None:
    for angle in (0, -1, 3.15, float("nan")):
        with pytest.raises(ArgumentError, match="camera_angle_x"):
            given.intrinsics(
                transforms(tmp_path / "t.json", ROOM, {"camera_angle_x": angle}), SIZES, Names(ROOM)
            )
    with pytest.raises(ArgumentError, match="no focal length"):
        given.intrinsics(transforms(tmp_path / "t.json", ROOM, {"w": 512}), SIZES, Names(ROOM))


@pytest.mark.parametrize(
    "wrong",
    [
        {"applied_transform": np.zeros((3, 4)).tolist()}, {"applied_transform": np.diag([2.0, 1, 1, 1])[:3].tolist()},
        {"applied_transform": [[1, 0, 0, float("nan")]] * 3}, {"applied_transform": 3}, {"applied_scale": 2},
        {"transform_matrix": None}, {"transform_matrix": [[1, 0], [0, 1]]}, {"transform_matrix": [["a"] * 4] * 4},
        {"transform_matrix": np.diag([1.0, 1, -1, 1]).tolist()}, {"transform_matrix": [[1e200] * 4] * 4},
        {"transform_matrix": [[10**400] * 4] * 4},
    ],
)  # fmt: skip
def test_poses_of_transforms_that_cannot_be(tmp_path: Path, wrong: dict[str, Any]) -> None:
    text = transforms(tmp_path / "t.json", ROOM, CAMERA, **wrong)
    with pytest.raises(ArgumentError, match="t.json"):
        given.poses(Path(text), Names(ROOM))


# ---- files of COLMAP -------------------------------------------------------------------------


def lines(names: list[str]) -> list[str]:
    return [f"{k} 1 0 0 0 {k} 0 0 {k} {name}" for k, name in enumerate(names, 1)]


FORMS: dict[str, Callable[[list[str]], bytes]] = {
    "as COLMAP writes": lambda rows: "".join(
        f"{r}\n12.5 3 -1 7 8 -1\n" for r in ["# IMAGE_ID", *rows][1:]
    ).encode(),
    "without points": lambda rows: "".join(f"{r}\n\n" for r in rows).encode(),
    "a line a picture": lambda rows: "".join(f"{r}\n" for r in rows).encode(),
    "a blank line first": lambda rows: ("\n\n" + "".join(f"{r}\n\n" for r in rows)).encode(),
    "line ends of Windows": lambda rows: "".join(f"{r}\r\n\r\n" for r in rows).encode(),
    "a line a picture, Windows": lambda rows: "".join(f"{r}\r\n" for r in rows).encode(),
    "byte order mark": lambda rows: b"\xef\xbb\xbf# c\n" + "".join(f"{r}\n\n" for r in rows).encode(),
    "byte order mark alone": lambda rows: b"\xef\xbb\xbf" + "".join(f"{r}\n\n" for r in rows).encode(),
    "comments between": lambda rows: "".join(f"# c\n{r}\n\n" for r in rows).encode(),
    "no end of line": lambda rows: "\n\n".join(rows).encode(),
    "some with points": lambda rows: "\n".join([rows[0], "1 2 -1", rows[1], "", rows[2]]).encode(),
    "ten points": lambda rows: "".join(f"{r}\n{' '.join(['1 2 -1'] * 10)}\n" for r in rows).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_texts_of_pictures(tmp_path: Path, form: str) -> None:
    (tmp_path / "images.txt").write_bytes(FORMS[form](lines(ROOM)))
    found = given.poses(tmp_path / "images.txt", Names(ROOM))
    assert list(found) == ROOM and [p[0, 3] for p in found.values()] == [-1, -2, -3]


def colmap_folder(folder: Path, model: int = 1, params: tuple[float, ...] = (430, 431, 256, 192)) -> Path:
    """A binary model of one camera a picture."""
    folder.mkdir(parents=True)
    cameras = struct.pack("<Q", 3)
    images = struct.pack("<Q", 3)
    for k, name in enumerate(ROOM, 1):
        cameras += struct.pack("<IiQQ", k, model, 512, 384) + struct.pack(f"<{len(params)}d", *params)
        images += (
            struct.pack("<I7dI", k, 1, 0, 0, 0, k, 0, 0, k) + name.encode() + b"\0" + struct.pack("<Q", 1)
        )
        images += struct.pack("<2dq", 1, 2, -1)
    (folder / "cameras.bin").write_bytes(cameras)
    (folder / "images.bin").write_bytes(images)
    return folder


@pytest.mark.parametrize("place", ["", "sparse", "sparse/0", "colmap/sparse/0"])
def test_folders_and_binary_files(tmp_path: Path, place: str) -> None:
    folder = colmap_folder(tmp_path / "m" / place)
    for path in (tmp_path / "m", folder, folder / "images.bin"):
        assert [p[0, 3] for p in given.poses(path, Names(ROOM)).values()] == [-1, -2, -3]
    for path in (tmp_path / "m", folder, folder / "cameras.bin", folder / "images.bin"):
        found = given.intrinsics(str(path), SIZES, Names(ROOM))
        assert [lens.params for lens in found.values()] == [(430, 431, 255.5, 191.5)] * 3


def test_a_folder_with_transforms(tmp_path: Path) -> None:
    transforms(tmp_path / "transforms.json", ROOM, CAMERA)
    assert list(given.poses(tmp_path, Names(ROOM))) == ROOM
    assert list(given.intrinsics(str(tmp_path), SIZES, Names(ROOM))) == ROOM


MODELS = {
    "SIMPLE_PINHOLE": (0, (430, 256, 192), (430, 430, 0, 0)), "PINHOLE": (1, (430, 431, 256, 192), (430, 431, 0, 0)),
    "SIMPLE_RADIAL": (2, (430, 256, 192, 0.1), (430, 430, 0.1, 0)),
    "RADIAL": (3, (430, 256, 192, 0.1, 0.01), (430, 430, 0.1, 0.01)),
    "OPENCV": (4, (430, 431, 256, 192, 0.1, 0.01, 0, 0), (430, 431, 0.1, 0.01)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_camera_models(tmp_path: Path, name: str) -> None:
    number, params, want = MODELS[name]
    colmap_folder(tmp_path / "b", number, params)
    (tmp_path / "cameras.txt").write_text(f"\ufeff1 {name} 512 384 {' '.join(map(str, params))}\r\n", "utf-8")
    for path in (tmp_path / "b", tmp_path / "cameras.txt"):
        for found in given.intrinsics(str(path), SIZES, Names(ROOM)).values():
            n = found.named()
            assert (n["fx"], n["fy"], n["k1"], n["k2"], n["cx"], n["cy"]) == (*want, 255.5, 191.5)


@pytest.mark.parametrize(("number", "count"), [(5, 8), (6, 12), (7, 5), (8, 4), (9, 5), (10, 12), (77, 4)])
def test_camera_models_that_are_not_ours(tmp_path: Path, number: int, count: int) -> None:
    colmap_folder(tmp_path / "b", number, (430.0,) * count)
    with pytest.raises(ArgumentError, match="camera model"):
        given.intrinsics(str(tmp_path / "b"), SIZES, Names(ROOM))


def test_one_camera_for_all_and_cameras_of_nobody(tmp_path: Path) -> None:
    (tmp_path / "cameras.txt").write_text("1 PINHOLE 512 384 1 1 1 1\n2 PINHOLE 512 384 1 1 1 1\n")
    with pytest.raises(ArgumentError, match=r"2 cameras, and no images.txt or .bin"):
        given.intrinsics(str(tmp_path / "cameras.txt"), SIZES, Names(ROOM))
    (tmp_path / "images.txt").write_text("\n\n".join(lines(["x.jpg", "y.jpg"])))
    with pytest.raises(ArgumentError, match="such as 'x.jpg' and 'y.jpg'"):
        given.intrinsics(str(tmp_path / "cameras.txt"), SIZES, Names(ROOM))
    for path in (tmp_path / "cameras.txt", tmp_path / "none", tmp_path / "none.txt"):
        with pytest.raises(ArgumentError) as caught:
            given.poses(path, Names(ROOM))
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["t.json", "images.txt", "cameras.txt", "images.bin", "cameras.bin"])
def test_bytes_that_are_no_text_are_not_printed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(bytes(range(256)) * 400)
    for read in (
        lambda: given.poses(tmp_path / name, Names(ROOM)),
        lambda: given.intrinsics(str(tmp_path / name), SIZES, Names(ROOM)),
        lambda: given.scale(str(tmp_path / name), Names(ROOM)),
    ):
        with pytest.raises(ArgumentError) as caught:
            read()
        assert len(str(caught.value)) < 600 and str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["x" * 5000, "1," * 3000, "a\0b", "a=" + "y" * 400, "\udcff"])
def test_texts_that_are_no_names(text: str) -> None:
    """A name that no system takes is no file, and not an error of the system."""
    for read in (
        lambda: given.intrinsics(text, SIZES, Names(ROOM)),
        lambda: given.scale(text, Names(ROOM)),
        lambda: given.poses(Path(text), Names(ROOM)),
        lambda: masks.find(Path(text), {n: Path(n) for n in ROOM}),
    ):
        with pytest.raises(ArgumentError):
            read()


@unix_only
def test_pipes_do_not_hang(tmp_path: Path) -> None:
    for name in ("p.json", "p.txt", "p.bin"):
        os.mkfifo(tmp_path / name)
        for read in (
            lambda: given.poses(tmp_path / name, Names(ROOM)),  # noqa: B023
            lambda: given.intrinsics(str(tmp_path / name), SIZES, Names(ROOM)),  # noqa: B023
            lambda: read_pairs(tmp_path / name, ROOM),  # noqa: B023
        ):
            with pytest.raises(Mast3rError):
                read()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("points3D.txt", "1 0 0 1 256 0 0 0.5 1 0\n"), ("points3D.txt", "1 0 0 1 -1 0 0 0.5 1 0\n"),
        ("points3D.txt", "1 nan 0 1 1 0 0 0.5 1 0\n"), ("points3D.txt", "1 0 0\n"),
        ("images.txt", "1 nan 0 0 0 0 0 0 1 a.jpg\n\n"), ("images.txt", "1 1 0 0 0 inf 0 0 1 a.jpg\n\n"),
        ("images.txt", "1 0 0 0 0 0 0 0 1 a.jpg\n\n"), ("images.txt", "1 1 0 0 0 0 0 0 9 a.jpg\n\n"),
        ("images.txt", "1 1 0 0 0 0 0 0 1 a.jpg\n1 2 77\n"), ("images.txt", "1 1 0 0 0 0 0 0 1\n\n"),
        ("images.txt", "1 1 0 0 0 0 0 0 1 a.jpg\n\n2 1 0 0 0 0 0 0 1 a.jpg\n\n"), ("images.txt", "1 2 -1\n"),
        ("cameras.txt", "1 PINHOLE 4 4 nan 1 1 1\n"), ("cameras.txt", "1 PINHOLE\n"),
        ("cameras.txt", "1 PINHOLE 1e9 4 1 1 1 1\n"), ("cameras.txt", f"1 PINHOLE {10**30} 4 1 1 1 1\n"),
    ],
)  # fmt: skip
def test_models_that_do_not_hold(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / "cameras.txt").write_text("1 PINHOLE 4 4 1 1 1 1\n")
    (tmp_path / "images.txt").write_text("1 1 0 0 0 0 0 0 1 a.jpg\n1 2 1\n")
    (tmp_path / "points3D.txt").write_text("1 0 0 1 255 0 0 0.5 1 0\n")
    assert colmap_read.read(tmp_path)[0] == ["a.jpg"]
    (tmp_path / file).write_text(text)
    with pytest.raises(FileError, match="COLMAP model"):
        colmap_read.read(tmp_path)


# ---- pairs and scale -------------------------------------------------------------------------


def test_pairs_by_other_names(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_bytes(b"\xef\xbb\xbfimages\\room_00.jpg images\\room_01.jpg 0.5\r\nroom_01 room_02\r\n")
    assert read_pairs(path, ROOM) == [(0, 1), (1, 2)]
    path.write_bytes(b"\xff\xfe\x00 \xff\n")
    for others in (True, False):
        with pytest.raises(ArgumentError, match="pairs.txt") as caught:
            read_pairs(path, ROOM, others=others)
        assert "surrogate" not in str(caught.value)
    (tmp_path / "p.json").write_text(
        json.dumps({"pairs": [{"first": "x/room_00.jpg", "second": "room_02.jpg"}]})
    )
    assert read_pairs(tmp_path / "p.json", ROOM) == [(0, 2)]
    name = os.fsdecode(b"\xff.jpg")
    path.write_bytes(b"\xff.jpg room_00.jpg\n")
    assert read_pairs(path, [*ROOM, name]) == [(3, 0)]


def test_pairs_of_equal_names(tmp_path: Path) -> None:
    rig = {f"{s}/1.jpg": tmp_path / s / "1.jpg" for s in ("left", "right")}
    (tmp_path / "pairs.txt").write_text("left/1.jpg right/1.jpg\n")
    assert read_pairs(tmp_path / "pairs.txt", rig) == [(0, 1)]
    (tmp_path / "pairs.txt").write_text("1.jpg right/1.jpg\n")
    with pytest.raises(ArgumentError, match="2 ways"):
        read_pairs(tmp_path / "pairs.txt", rig)


def test_scale_by_other_names(tmp_path: Path) -> None:
    assert given.scale("images/room_00.jpg, room_01=2", Names(ROOM)) == ("room_00.jpg", "room_01.jpg", 2.0)
    places = given.scale(str(colmap_folder(tmp_path / "sparse")), Names(ROOM))
    assert isinstance(places, dict) and places["room_01.jpg"].tolist() == [-2, 0, 0]
    with pytest.raises(ArgumentError, match="may be"):
        given.scale("a,b.jpg=2", Names(["a.jpg", "a.png", "b.jpg"]))


# ---- options by the names of the pictures ----------------------------------------------------


def photos(folder: Path, size: tuple[int, int] = (512, 384)) -> list[Photo]:
    return [Photo(n, folder / n, *size) for n in ROOM]


def test_options_fit_pictures(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The same rule for what Python gives."""
    caplog.set_level(logging.WARNING, "mast3r_runtime")
    poses = {f"images/{n}": np.eye(4) for n in ROOM[:2]}
    chosen = options.fitted(Options(poses=poses, intrinsics={"room_00": lens()}), photos(tmp_path))
    assert list(chosen.poses or ()) == ROOM[:2] and list(chosen.intrinsics or ()) == ROOM[:1]
    assert "poses: for 2 of 3 pictures; none for room_02.jpg" in caplog.text
    assert "intrinsics: for 1 of 3 pictures; none for room_01.jpg, room_02.jpg" in caplog.text
    for wrong in (
        {"poses": {"x.jpg": np.eye(4)}}, {"intrinsics": {"x.jpg": lens()}}, {"masks": {"x": np.ones((384, 512))}},
        {"scale": ("x.jpg", "room_00.jpg", 2.0)}, {"scale": {"x.jpg": np.zeros(3)}},
        {"pairs": [("x.jpg", "room_00.jpg")]}, {"intrinsics": {"room_00.jpg": Lens("PINHOLE", 9, 9, (9, 9, 4, 4))}},
        {"masks": {"room_00.jpg": np.ones((512, 384))}}, {"masks": {"room_00.jpg": np.ones((384, 512, 3))}},
        {"masks": {"room_00.jpg": "text"}}, {"masks": {"room_00.jpg": np.array([["a"]])}},
    ):  # fmt: skip
        with pytest.raises(Mast3rError):
            options.fitted(Options(**wrong), photos(tmp_path))
