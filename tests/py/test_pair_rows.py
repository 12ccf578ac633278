# SPDX-License-Identifier: Apache-2.0
"""Pairs as users bring them: known transforms, the original's camera, stereo (T25, T26, T32)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

import mast3r_runtime as m3r
from mast3r_runtime import geometry
from mast3r_runtime._commands import demo
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.results import Transform


@pytest.fixture(scope="module")
def tiny() -> Iterator[CPUEngine]:
    with CPUEngine("auto", resolution=256, num_threads=2) as engine:
        engine.load()
        yield engine


def warped(picture: np.ndarray, h: np.ndarray, width: int, height: int) -> np.ndarray:
    """The picture whose pixel p lies at ``h p`` of the given one; centres at whole numbers."""
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
    to = half @ h @ np.linalg.inv(half)  # Pillow's centres lie at halves
    coefficients = tuple((to / to[2, 2]).ravel()[:8])
    image = Image.fromarray(picture)
    return np.asarray(
        image.transform((width, height), Image.Transform.PERSPECTIVE, coefficients, Image.Resampling.BICUBIC)
    )


CASES = {
    "crop": (np.array([[1, 0, 37.0], [0, 1, 21], [0, 0, 1]]), 480, 330),
    "scale": (np.array([[1.25, 0, 0.125], [0, 1.25, 0.125], [0, 0, 1]]), 450, 300),
    "homography": (np.array([[0.95, -0.08, 40], [0.06, 0.97, 5], [1e-4, 5e-5, 1]]), 520, 360),
}


@pytest.mark.parametrize("case", CASES)
def test_known_transform(tiny: CPUEngine, case: str) -> None:
    """T25: nearly all refined matches map back within half a pixel of the known transform."""
    one = np.asarray(Image.open(m3r.__path__[0] + "/pictures/coffee.png").convert("RGB"))
    h, width, height = CASES[case]
    two = warped(one, h, width, height)
    result = tiny.infer_gpu(two, one)  # h takes pixels of the first to the second
    matches = tiny.match(result)
    p = np.c_[matches.original_1, np.ones(len(matches))] @ h.T
    error = np.linalg.norm(p[:, :2] / p[:, 2:] - matches.original_2, axis=1)[matches.refined]
    assert matches.overlap and matches.refined.mean() > 0.5
    assert np.median(error) < 0.1 and np.mean(error < 0.5) > 0.93


def test_camera_of_the_original(rng: np.random.Generator) -> None:
    """T26: off-centre crops, unequal factors: K survives, and points come back to themselves."""
    for way in (Transform(375, 500, 192, 256, 0, 0, 192, 256), Transform(517, 389, 333, 256, 8, 3, 320, 240)):
        k = np.array([[431.0, 0, 261.3], [0, 439.0, 170.2], [0, 0, 1]])
        np.testing.assert_allclose(way.intrinsics_to_original(way.intrinsics_to_network(k)), k, rtol=1e-12)
        xy = rng.uniform(0, 300, (50, 2))
        np.testing.assert_allclose(way.to_original(way.to_network(xy)), xy, atol=1e-9)
        points = np.c_[rng.uniform(-1, 1, (50, 2)), rng.uniform(2, 5, 50)]
        seen, small = points @ k.T, points @ way.intrinsics_to_network(k).T
        np.testing.assert_allclose(
            way.to_original(small[:, :2] / small[:, 2:]), seen[:, :2] / seen[:, 2:], atol=1e-9
        )


def test_stereo_with_truth(tiny: CPUEngine) -> None:
    """T32: matches on one row, a metric baseline of the right size, its source stated."""
    pair = demo.motorcycle()
    if pair is None:
        pytest.skip("scikit-image with the motorcycle pair is not installed")
    result = tiny.infer_gpu(pair.image_1, pair.image_2)
    matches = tiny.match(result, top_k=None)
    rows = np.abs(matches.original_1[:, 1] - matches.original_2[:, 1])[matches.consistent & matches.refined]
    assert np.mean(rows < 1.5) > 0.95
    k1 = np.array([[994.978, 0, 311.193], [0, 994.978, 254.877], [0, 0, 1]])
    k2 = k1 + [[0, 0, 31.086], [0, 0, 0], [0, 0, 0]]
    found = tiny.relative_pose(result, matches, intrinsics_1=k1, intrinsics_2=k2)
    assert found.pose is not None and found.scale is not None
    turn = np.degrees(np.arccos((np.trace(found.pose[:3, :3]) - 1) / 2))
    assert turn < 0.5 and np.degrees(np.arccos(found.pose[0, 3])) < 3  # camera 2 is to the right
    assert 0.5 < found.scale / 0.193 < 2 and found.scale_source == "network"
    assert isinstance(found, geometry.PairPose) and any("guess" in w for w in found.warnings)
