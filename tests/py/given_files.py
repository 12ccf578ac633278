# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Files that a user gives beside pictures, whole, and what reads them; for :mod:`mutations`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from mast3r_runtime._pairs.folder import read_pairs
from mast3r_runtime._pictures import header, masks
from mast3r_runtime._pictures.names import Names
from mast3r_runtime._scene import colmap_files, colmap_read, given
from mast3r_runtime._scene.model import Lens, Model, check_pose

NAMES = ["a.jpg", "sub/b c.jpg", "d.jpg"]
SIZES = dict.fromkeys(NAMES, (64, 48))
KINDS = [
    "given transforms.json intrinsics", "given transforms.json poses", "given cameras.txt", "given cameras.bin",
    "given images.txt", "given images.bin", "given points3D.txt", "given points3D.bin", "given pairs.txt",
    "given pairs.json", "given intrinsics text", "given scale text", "given mask.png", "given mask.gif",
    "given picture.jpg", "given picture.tif",
]  # fmt: skip


def _model() -> Model:
    lenses = (
        Lens("OPENCV", 64, 48, (60.0, 61.0, 31.5, 23.5, 0.1, 0.01, 0.001, 0.001)),
        Lens("SIMPLE_RADIAL", 64, 48, (60.0, 31.5, 23.5, 0.05)),
        Lens("PINHOLE", 64, 48, (60.0, 61.0, 31.5, 23.5)),
    )
    poses = np.tile(np.eye(4), (3, 1, 1))
    poses[:, 0, 3] = range(3)
    rng = np.random.default_rng(0)
    points, colours = rng.normal(size=(5, 3)) + (0, 0, 4), np.full((5, 3), 200, np.uint8)
    seen, by = np.repeat(np.arange(5), 3), np.tile(np.arange(3), 5)
    return Model(np.arange(3), poses, lenses, points, colours, seen, by, rng.uniform(0, 40, (15, 2)))


def _read_poses(path: Path) -> None:
    for pose in given.poses(path, Names(NAMES)).values():
        check_pose(pose, "poses")


def _read_lenses(text: str) -> None:
    for lens in given.intrinsics(text, SIZES, Names(NAMES)).values():
        assert np.isfinite(lens.rays([[0, 0], [63, 47], [31, 23]])).all()


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _read_mask(path: Path) -> None:
    assert masks.read_mask(path).dtype == bool


def _read_header(path: Path) -> None:
    photo = header.read("a", path)
    assert photo.problem or (photo.width >= 2 and photo.sha256)


def targets(folder: Path) -> dict[str, tuple[Path, Callable[..., object]]]:
    """A whole file of each kind, and what reads it."""
    folder.mkdir(parents=True)
    colmap_files.write_binary(folder / "binary", NAMES, _model())
    colmap_files.write_text(folder / "text", NAMES, _model())
    camera = {"fl_x": 60, "fl_y": 61, "cx": 32, "cy": 24, "w": 64, "h": 48, "k1": 0.1, "camera_angle_x": 0.9}
    frames = [{"file_path": f"images/{n}", "transform_matrix": np.eye(4).tolist(), "k2": 0.01} for n in NAMES]
    applied = np.eye(4)[[0, 2, 1]] * [[1], [1], [-1]]
    values = {**camera, "camera_model": "OPENCV", "applied_transform": applied.tolist(), "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(values))
    (folder / "pairs.txt").write_text("a.jpg\tsub/b c.jpg\t0.5\na.jpg d.jpg 0.25\n# c\nsub/b c.jpg d.jpg\n")
    rows = [{"first": "a.jpg", "second": "d.jpg", "score": 1.0}]
    (folder / "pairs.json").write_text(json.dumps({"method": "x", "pairs": rows}))
    (folder / "intrinsics.text").write_text("60.5,61,31.5,23.5")
    (folder / "scale.text").write_text("a.jpg,sub/b c.jpg=1.25")
    grey = np.zeros((48, 64), np.uint8)
    grey[:, :30] = 255
    Image.fromarray(grey).save(folder / "mask.png")
    Image.fromarray(grey).convert("P").save(folder / "mask.gif")
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "Made"
    exif.get_ifd(0x8769)[0xA405] = 26
    Image.fromarray(grey).save(folder / "picture.jpg", exif=exif)
    Image.fromarray(grey.astype(np.uint16)).save(folder / "picture.tif")
    table: dict[str, tuple[str, Callable[[Path], object]]] = {
        "transforms.json intrinsics": ("transforms.json", lambda p: _read_lenses(str(p))),
        "transforms.json poses": ("transforms.json", _read_poses),
        "cameras.txt": ("text/cameras.txt", lambda p: _read_lenses(str(p))),
        "cameras.bin": ("binary/cameras.bin", lambda p: _read_lenses(str(p))),
        "images.txt": ("text/images.txt", _read_poses),
        "images.bin": ("binary/images.bin", _read_poses),
        "points3D.txt": ("text/points3D.txt", lambda p: colmap_read.read(p.parent)),
        "points3D.bin": ("binary/points3D.bin", lambda p: colmap_read.read(p.parent)),
        "pairs.txt": ("pairs.txt", lambda p: read_pairs(p, NAMES)),
        "pairs.json": ("pairs.json", lambda p: read_pairs(p, NAMES)),
        "intrinsics text": ("intrinsics.text", lambda p: _read_lenses(_text(p))),
        "scale text": ("scale.text", lambda p: given.scale(_text(p), Names(NAMES))),
        "mask.png": ("mask.png", _read_mask),
        "mask.gif": ("mask.gif", _read_mask),
        "picture.jpg": ("picture.jpg", _read_header),
        "picture.tif": ("picture.tif", _read_header),
    }
    out: dict[str, tuple[Path, Callable[..., object]]] = {}
    for name, (file, read) in table.items():
        out[f"given {name}"] = (folder / file, lambda _=True, path=folder / file, read=read: read(path))  # type: ignore[misc]
    return out
