# SPDX-License-Identifier: Apache-2.0
"""The demo's truths: a score is worth what its truth is worth."""

from __future__ import annotations

import numpy as np
import pytest
import render_scene
from conftest import ROOT

from mast3r_runtime._commands import demo
from mast3r_runtime.results import InferenceResult, MatchResult, Transform


def grid(image: np.ndarray, step: int = 5) -> np.ndarray:
    height, width = image.shape[:2]
    return (
        np.stack(np.meshgrid(np.arange(0, width, step), np.arange(0, height, step)), -1)
        .reshape(-1, 2)
        .astype(float)
    )


@pytest.mark.parametrize(
    ("make", "share", "difference"), [(demo.room, 0.75, 4), (demo.coffee, 0.6, 5), (demo.motorcycle, 0.9, 12)]
)
def test_truth_shows_the_same_colours(make, share: float, difference: float) -> None:
    """Where the truth says a pixel went, the second picture has its colour."""
    pair = make()
    if pair is None:
        pytest.skip("scikit-image (extra demo) is not installed")
    xy = grid(pair.image_1)
    true = pair.locate(xy)
    known = np.isfinite(true).all(1)
    assert known.mean() > share
    first = demo._lookup(pair.image_1, xy[known]).astype(float)
    error = np.abs(first - demo._lookup(pair.image_2, true[known])).mean()
    still = np.abs(first - demo._lookup(pair.image_2, xy[known])).mean()
    assert error < difference < still / 3


def test_room_is_what_the_script_renders() -> None:
    """Truth and pictures come from tools/render_scene.py."""
    truth = render_scene.truth()
    with np.load(demo._PICTURES / "room_truth.npz") as stored:
        assert set(stored.files) == set(truth)
        for name, value in truth.items():
            if name.startswith("surface"):
                assert (stored[name] != value).mean() < 1e-4, name  # an edge may fall either way
            else:
                np.testing.assert_allclose(stored[name], value, atol=1e-12)
    assert (ROOT / "tools" / "render_scene.py").exists()


def test_room_depth_is_the_geometry() -> None:
    """The depth at a pixel is the distance at which its ray meets the scene's surfaces."""
    pair = demo.room()
    assert pair.depth is not None
    distance, _ = render_scene.hits(render_scene.scene(), np.zeros(3), render_scene.pixel_rays())
    error = np.abs(pair.depth.reshape(-1) - distance)
    assert np.quantile(error, 0.9999) < 1e-9


def made_up(pair: demo.Pair, shift: float) -> tuple[InferenceResult, MatchResult]:
    """Matches that are wrong by ``shift`` pixels, and depth that is the truth, scaled."""
    height, width = pair.image_1.shape[:2]
    same = Transform(height, width, height, width, 0, 0, height, width)
    xy = grid(pair.image_1)
    true = pair.locate(xy)
    known = np.isfinite(true).all(1)
    nothing = np.zeros((known.sum(), 3), np.float32)
    one, two = xy[known].astype(np.float32), (true[known] + (shift, 0)).astype(np.float32)
    index = np.zeros(len(one), np.int64)
    matches = MatchResult(index, index, one, two, nothing, nothing, nothing[:, 0], {}, same, same)
    points = np.zeros((height, width, 3), np.float32)
    points[..., 2] = 1 if pair.depth is None else 3.7 * pair.depth
    flat = np.ones((height, width), np.float32)
    return InferenceResult(points, points, flat, flat, points, points, flat, flat, same, same), matches


@pytest.mark.parametrize(("shift", "near"), [(0.0, 1.0), (2.9, 1.0), (3.2, 0.0)])
def test_score(shift: float, near: float) -> None:
    pair = demo.room()
    rated = demo.score(pair, *made_up(pair, shift))
    assert rated.near == near and abs(rated.median_px - shift) < 1e-4
    assert rated.same_pixel < 0.1
    assert rated.depth_correlation is not None and rated.depth_correlation > 1 - 1e-6


def test_score_of_nothing() -> None:
    pair = demo.coffee()
    result, matches = made_up(pair, 0)
    empty = MatchResult(
        matches.idx_1[:0], matches.idx_2[:0], matches.pts2d_1[:0], matches.pts2d_2[:0], matches.pts3d_1[:0],
        matches.pts3d_2[:0], matches.confidence[:0], {}, matches.transform_1, matches.transform_2,
    )  # fmt: skip
    rated = demo.score(pair, result, empty)
    assert rated.matches == 0 and rated.near is None and rated.depth_correlation is None
    assert "0 matches" in rated.text()
