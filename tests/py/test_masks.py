# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Masks as people have them: what they say, their names, what fits nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mast3r_runtime._pictures import masks
from mast3r_runtime._pictures.names import MASKS, Names
from mast3r_runtime._results.results import Transform
from mast3r_runtime._scene import dense
from mast3r_runtime.errors import ArgumentError, ImageError

ROOM = ["room_00.jpg", "room_01.jpg", "room_02.jpg"]

LEFT = np.zeros((16, 24), bool)
LEFT[:, :12] = True


def palette(colours: list[tuple[int, int, int]], numbers: np.ndarray) -> Image.Image:
    picture = Image.fromarray(numbers.astype(np.uint8), "P") if False else Image.new("P", numbers.shape[::-1])
    picture.putdata(numbers.astype(int).ravel().tolist())
    picture.putpalette([c for colour in colours for c in colour])
    return picture


def with_alpha(colour: int, alpha: np.ndarray, mode: str = "RGBA") -> Image.Image:
    grey = np.full((*alpha.shape, len(mode) - 1), colour, np.uint8)
    return Image.fromarray(np.concatenate([grey, alpha.astype(np.uint8)[..., None]], 2), mode)


MASK_FILES: dict[str, tuple[str, Callable[[], Image.Image]]] = {
    "8 bits": (".png", lambda: Image.fromarray(LEFT.astype(np.uint8) * 255)),
    "labels": (".png", lambda: Image.fromarray(LEFT.astype(np.uint8) * 7)),
    "0 and 1": (".png", lambda: Image.fromarray(LEFT.astype(np.uint8))),
    "1 bit": (".png", lambda: Image.fromarray(LEFT)),
    "16 bits of labels": (".png", lambda: Image.fromarray(LEFT.astype(np.uint16))),
    "16 bits": (".png", lambda: Image.fromarray(LEFT.astype(np.uint16) * 65535)),
    "32 bits": (".tif", lambda: Image.fromarray(LEFT.astype(np.int32) * 100000)),
    "float": (".tif", lambda: Image.fromarray(np.where(LEFT, 0.25, 0).astype(np.float32))),
    "colours": (".png", lambda: Image.fromarray(LEFT[..., None] * np.array([0, 200, 0], np.uint8))),
    "alpha over black": (".png", lambda: with_alpha(0, LEFT * 255)),
    "alpha over white": (".png", lambda: with_alpha(255, LEFT * 255)),
    "grey and alpha": (".png", lambda: with_alpha(255, LEFT * 255, "LA")),
    "alpha of labels": (".png", lambda: with_alpha(9, LEFT)),
    "colours under an alpha that says nothing": (
        ".png", lambda: Image.fromarray(np.dstack([LEFT * 255, LEFT * 0, LEFT * 9, LEFT * 0 + 255]).astype(np.uint8)),
    ),
    "colours under an alpha of nothing": (
        ".png", lambda: Image.fromarray(np.dstack([LEFT * 255, LEFT * 0, LEFT * 9, LEFT * 0]).astype(np.uint8)),
    ),
    "palette of labels": (".png", lambda: palette([(0, 0, 0), (0, 255, 0), (9, 9, 9)], LEFT)),
    "palette with a colour for 0": (".png", lambda: palette([(200, 0, 0), (0, 255, 0)], LEFT)),
    "palette of white and black": (".png", lambda: palette([(255, 255, 255), (0, 0, 0)], ~LEFT)),
    "GIF": (".gif", lambda: palette([(0, 0, 0), (255, 255, 255)], LEFT)),
    "JPEG": (".jpg", lambda: Image.fromarray(LEFT.astype(np.uint8) * 255)),
    "WebP": (".webp", lambda: Image.fromarray(LEFT.astype(np.uint8) * 255).convert("RGB")),
    "BMP": (".bmp", lambda: Image.fromarray(LEFT.astype(np.uint8) * 255)),
}  # fmt: skip


@pytest.mark.parametrize("kind", MASK_FILES)
def test_files_of_masks(tmp_path: Path, kind: str) -> None:
    suffix, make = MASK_FILES[kind]
    make().save(tmp_path / f"m{suffix}")
    found = masks.read_mask(tmp_path / f"m{suffix}")
    assert found.dtype == bool and found.shape == LEFT.shape
    lossy = suffix in (".jpg", ".webp")
    assert (found == LEFT)[:, [*range(10), *range(14, 24)] if lossy else slice(None)].all()


@pytest.mark.parametrize("turn", range(1, 9))
def test_masks_turn_as_pictures_do(tmp_path: Path, turn: int) -> None:
    from test_images import STORED

    exif = Image.Exif()
    exif[0x0112] = turn
    stored = np.ascontiguousarray(STORED[turn](LEFT.astype(np.uint8) * 255))
    Image.fromarray(stored).save(tmp_path / "m.png", exif=exif)
    np.testing.assert_array_equal(masks.read_mask(tmp_path / "m.png"), LEFT)


def test_masks_that_say_nothing_sure(tmp_path: Path) -> None:
    Image.fromarray(LEFT.astype(np.uint8) * 60).save(tmp_path / "dark.jpg")
    with pytest.raises(ImageError, match="lost information"):
        masks.read_mask(tmp_path / "dark.jpg")
    (tmp_path / "no.png").write_text("no picture")
    with pytest.raises(ImageError):
        masks.read_mask(tmp_path / "no.png")


@pytest.mark.parametrize(
    "form",
    ["{name}", "{stem}.png", "{name}.png", "{stem}.mask.png", "{name}.mask.png", "{stem}_mask.png", "{stem}-mask.png",
     "{stem}.JPG", "{stem}.webp", "{stem}_MASK.PNG", "sub/{stem}.png"],
)  # fmt: skip
def test_names_of_masks(tmp_path: Path, form: str) -> None:
    pictures = {n: tmp_path / "photos" / n for n in ROOM}
    folder = tmp_path / "masks"
    for name in ROOM[:2]:
        file = folder / form.format(name=name, stem=name[:-4])
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(LEFT.astype(np.uint8)).save(
            file, {".webp": "WEBP", ".png": "PNG"}.get(file.suffix.lower(), "JPEG")
        )
    found = masks.find(folder, pictures)
    assert list(found) == ROOM[:2] and all(p.is_file() for p in found.values())


def test_masks_of_pictures_with_one_stem(tmp_path: Path) -> None:
    """COLMAP's names say whose a mask is where a stem does not."""
    for name in ("a.jpg.png", "a.png.png"):
        Image.fromarray(LEFT.astype(np.uint8)).save(tmp_path / name)
    pictures = {"a.jpg": Path("/p/a.jpg"), "a.png": Path("/p/a.png")}
    assert {n: p.name for n, p in masks.find(tmp_path, pictures).items()} == {
        "a.jpg": "a.jpg.png",
        "a.png": "a.png.png",
    }


def test_masks_beside_the_pictures(tmp_path: Path) -> None:
    for name in ("a.jpg", "a.mask.png", "b.jpg"):
        Image.fromarray(LEFT.astype(np.uint8)).save(tmp_path / name)
    pictures = {n: tmp_path / n for n in ("a.jpg", "b.jpg")}
    assert {n: p.name for n, p in masks.find(tmp_path, pictures).items()} == {"a.jpg": "a.mask.png"}


def test_a_folder_of_everything_is_none_of_masks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "MOST", 3)
    for k in range(5):
        (tmp_path / f"{k}.txt").touch()
    with pytest.raises(ArgumentError, match="more than 3 files"):
        masks.find(tmp_path, {"a.jpg": Path("a.jpg")})


def test_masks_that_fit_nothing(tmp_path: Path) -> None:
    pictures = {n: tmp_path / n for n in ROOM}
    (tmp_path / "empty").mkdir()
    Image.fromarray(LEFT.astype(np.uint8)).save(tmp_path / "one.png")
    for path, text in (
        (tmp_path / "none", "no such folder"), (tmp_path / "empty", "names no pictures"),
        (tmp_path / "one.png", "a file, want a folder"), (tmp_path, r"1 names, such as 'one.png', .*3 pictures"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=text):
            masks.find(path, pictures)
    assert Names(ROOM, MASKS).find("room_00_mask.png") == "room_00.jpg"
    assert Names(ROOM).find("room_00_mask.png") is None


def test_a_mask_at_network_size() -> None:
    way = Transform(16, 24, 8, 12, 0, 0, 8, 12)
    np.testing.assert_array_equal(dense.at_network(LEFT, way), LEFT[::2, ::2])
