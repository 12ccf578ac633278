# SPDX-License-Identifier: Apache-2.0
"""Whether the files of a scene fit each other, as the programs see it that read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

try:
    import pycolmap
except ImportError:
    pycolmap = None

__all__ = ["check_colours", "check_fit", "check_undistorted", "rgb_of"]


def check_fit(folder: Path) -> int:
    """Sizes of cameras and pictures, and nerfstudio's rule; how many pictures were looked at."""
    images = folder / "images"
    models = sorted((folder / "sparse").glob("*/cameras.bin")) if pycolmap is not None else []
    seen = 0
    for model in models:
        for image in pycolmap.Reconstruction(str(model.parent)).images.values():
            if not (images / image.name).exists():  # written without images/, or a picture that has no file
                continue
            seen += 1
            bitmap = pycolmap.Bitmap.read(str(images / image.name), as_rgb=True)
            assert bitmap is not None, f"{image.name}: COLMAP cannot read it"
            size = (image.camera.width, image.camera.height)
            assert (bitmap.width, bitmap.height) == size, f"{image.name}: COLMAP reads another size"
            with Image.open(images / image.name) as picture:
                assert picture.size == size and picture.mode in ("RGB", "RGBA"), image.name
    transforms = folder / "transforms.json"
    if transforms.is_file():
        values = json.loads(transforms.read_text(encoding="utf-8"))
        assert (folder / values["ply_file_path"]).is_file() if "ply_file_path" in values else True
        for frame in values["frames"]:
            if images.is_dir() and models and seen:
                assert (folder / frame["file_path"]).is_file(), frame["file_path"]
                with Image.open(folder / frame["file_path"]) as picture:
                    assert picture.size == tuple({**values, **frame}[k] for k in ("w", "h"))
    return seen


def rgb_of(path: Path) -> np.ndarray:
    """The pixels as Pillow reads them, without a thought of EXIF."""
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def check_colours(folder: Path, most: float) -> None:
    """The colours of points are those of the stored pixels at which they were seen."""
    model: Any = pycolmap.Reconstruction(str(folder / "sparse" / "0"))
    for image in model.images.values():
        bitmap = pycolmap.Bitmap.read(str(folder / "images" / image.name), as_rgb=True).to_array()
        stored = rgb_of(folder / "images" / image.name)
        rows = [(p.xy - 0.5, model.points3D[p.point3D_id].color) for p in image.points2D if p.has_point3D()]
        assert len(rows) > 50, image.name
        x, y = np.rint(np.array([xy for xy, _ in rows])).astype(int).T
        x, y = np.clip(x, 0, stored.shape[1] - 1), np.clip(y, 0, stored.shape[0] - 1)
        for read in (bitmap, stored):
            off = np.median(np.abs(read[y, x].astype(int) - np.array([c for _, c in rows]).astype(int)))
            assert off <= most, f"{image.name}: colours {off} off"


def check_undistorted(folder: Path, out: Path) -> None:
    """COLMAP's own undistortion takes the scene."""
    pycolmap.undistort_images(str(out), str(folder / "sparse" / "0"), str(folder / "images"))
    names = {image.name for image in pycolmap.Reconstruction(str(folder / "sparse" / "0")).images.values()}
    for name in names:
        assert (out / "images" / name).is_file(), name
