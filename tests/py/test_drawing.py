# SPDX-License-Identifier: Apache-2.0
"""Drawings: what is drawn where, and pictures of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from mast3r_runtime import errors, export
from mast3r_runtime._output import drawing
from mast3r_runtime._output.export import coloured_points
from mast3r_runtime.errors import ShapeError


def test_colours_follow_the_values() -> None:
    values = np.array([[0.0, 0.5, 1.0, -5, 9, np.nan]])
    pixels = np.asarray(drawing.colourise(values, 0, 1))[0]
    assert pixels[0].tolist() == pixels[3].tolist() == [0x44, 0x01, 0x54]  # viridis, dark end
    assert pixels[2].tolist() == pixels[4].tolist() == [0xFD, 0xE7, 0x25]
    assert pixels[5].tolist() == [128, 128, 128]
    assert len(drawing.colourise(np.full((3, 3), 7.0), 7, 7).getcolors()) == 1
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        drawing.colourise(np.zeros(3), 0, 1)


@pytest.mark.parametrize(
    "values", [np.zeros((4, 5)), np.full((4, 5), np.nan), np.full((4, 5), -1.0), np.eye(600)]
)
def test_maps_of_anything(values: np.ndarray) -> None:
    for draw in (drawing.depth_map, drawing.confidence_map):
        picture = draw(values)
        assert picture.width >= 512 and picture.mode == "RGB"


def test_captions_are_whole() -> None:
    """A long caption goes on in further lines: each has ink, and none reaches the edge."""
    black, ends = np.zeros((20, 60, 3), np.uint8), np.zeros((0, 2))
    heights = []
    for count in (1, 10, 40):
        sheet = np.asarray(drawing.matches(black, black, ends, ends, caption=" ".join(["words"] * count)))
        text = sheet[20:].astype(int)
        ink = (np.abs(text - text[-1, -1]).sum(2) > 60).any(1)
        heights.append(int(np.diff(np.concatenate([[0], ink, [0]]).astype(int)).clip(0).sum()))
        assert not (np.abs(text[:, -4:] - text[-1, -1]).sum(2) > 60).any()
    assert heights[0] == 1 and heights[1] > 1 and heights[2] > 3 * heights[1]


def test_lines_end_at_their_pixels() -> None:
    """One match between two black pictures: the ends are coloured, the rest stays black."""
    one, two = np.zeros((40, 60, 3), np.uint8), np.zeros((50, 30, 3), np.uint8)
    for good, colour in ((True, (66, 214, 120)), (False, (235, 64, 52))):
        pixels = np.asarray(drawing.matches(one, two, [[10, 20]], [[15, 30]], [good])).astype(int)
        assert pixels.shape == (50, 98, 3)
        assert np.abs(pixels[20, 10] - colour).max() < 30
        assert np.abs(pixels[30, 68 + 15] - colour).max() < 30
        assert not pixels[:5, :55].any() and not pixels[45:, 73:].any()  # clear of the gap


def test_large_pictures_are_reduced() -> None:
    one, two = np.zeros((1200, 1600, 3), np.uint8), np.zeros((600, 1000, 3), np.uint8)
    picture = drawing.matches(one, two, [[1599, 1199]], [[999, 599]])
    assert picture.size == (800 + 8 + 500, 600)
    pixels = np.asarray(picture)
    assert pixels[595:, 795:800].any() and pixels[295:300, 1303:].any() and not pixels[:250, :790].any()


def test_few_of_many_lines() -> None:
    """A dense map is thinned evenly: no quarter of the picture is left out."""
    y, x = np.mgrid[0:100, 0:160]
    points = np.stack([x, y], -1).reshape(-1, 2).astype(float)
    keep = drawing._spread(points, 160)
    assert 100 <= len(keep) <= 220
    quarter = (points[keep, 0] > 80) * 2 + (points[keep, 1] > 50)
    assert np.bincount(quarter, minlength=4).min() > 20
    assert drawing._spread(points[:7], 160) == list(range(7))


def test_clouds_of_anything(rng: np.random.Generator) -> None:
    colours = np.full((500, 3), (200, 10, 10), np.uint8)
    points = rng.uniform(-1, 1, (500, 3)) + (0, 0, 4)
    points[:10] = np.nan
    points[10:20, 2] = -3
    red = (np.asarray(drawing.point_cloud(points, colours)) == (200, 10, 10)).all(2)
    assert red.sum() > 1000
    for none in (np.zeros((0, 3)), np.full((5, 3), np.nan), -points[20:]):
        assert (np.asarray(drawing.point_cloud(none, colours[: len(none)])) == 250).all()


def test_point_files(tmp_path: Path, rng: np.random.Generator) -> None:
    points = rng.standard_normal((50, 3)).astype(np.float32)
    colours = rng.integers(0, 256, (50, 3), np.uint8)
    export.write_points(tmp_path / "a.ply", points, colours)
    again = trimesh.load(tmp_path / "a.ply")
    np.testing.assert_array_equal(np.asarray(again.vertices, np.float32), points)
    np.testing.assert_array_equal(again.colors[:, :3], colours)
    with pytest.raises(errors.FileError, match=r"a\.obj"):
        export.write_points(tmp_path / "a.obj", points, colours)
    with pytest.raises(errors.FileError, match="nowhere"):
        export.write_points(tmp_path / "nowhere" / "a.ply", points, colours)
    assert [path.name for path in tmp_path.iterdir()] == ["a.ply"]


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    export.write_png(path, drawing.colourise(np.zeros((4, 4)), 0, 1))
    before = path.read_bytes()

    class Broken:
        def save(self, target: Path, kind: str) -> None:
            Path(target).write_bytes(b"half")
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        export.write_png(path, Broken())  # type: ignore[arg-type]
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_no_points(tmp_path: Path) -> None:
    nothing = np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8)
    with pytest.raises(ValueError, match="no points"):
        export.write_points(tmp_path / "a.glb", *nothing)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (-5, -5), (1 << 20, 1 << 20)])
def test_clouds_without_pixels(size: tuple[int, int]) -> None:
    with pytest.raises(errors.ArgumentError, match="point_cloud: .* pixels, want 1 to"):
        drawing.point_cloud(np.eye(3), np.zeros((3, 3), np.uint8), size=size)


@pytest.mark.parametrize("keep", [0.0, -0.1, 1.01, float("nan")])
def test_a_share_of_the_points_is_above_0_and_up_to_1(keep: float) -> None:
    result: Any = None  # the share is looked at first
    with pytest.raises(errors.ArgumentError, match="want a share"):
        coloured_points(result, result, result, keep)
