# SPDX-License-Identifier: Apache-2.0
"""Camera matrices both ways, and choosing pixels by confidence."""

import numpy as np
import pytest

from mast3r_runtime import Transform, confidence_mask

# 640x480 to 512x384 with a crop, and a squeeze that differs in x and y.
TRANSFORMS = [
    Transform(480, 640, 384, 512, 0, 0, 384, 512),
    Transform(500, 741, 345, 512, 4, 0, 336, 512),
    Transform(1000, 333, 512, 170, 0, 5, 512, 160),
]
K = np.array([[520.0, 0, 311.2], [0, 515.0, 254.9], [0, 0, 1]])


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_intrinsics_project_to_the_same_pixel(transform: Transform) -> None:
    """A point seen through the given matrix, moved, is the point seen through the moved one."""
    points = np.random.default_rng(0).normal(size=(50, 3)) + [0, 0, 5]

    def project(k: np.ndarray) -> np.ndarray:
        p = points @ k.T
        return p[:, :2] / p[:, 2:]

    moved = project(transform.intrinsics_to_network(K))
    np.testing.assert_allclose(moved, transform.to_network(project(K)), atol=1e-9)
    back = transform.intrinsics_to_original(transform.intrinsics_to_network(K))
    np.testing.assert_allclose(back, K, atol=1e-9)


@pytest.mark.parametrize(
    "k",
    [np.eye(4), np.full((3, 3), np.nan), np.diag([0, 1, 1]), np.diag([1, -5, 1]), np.diag([5, 5, 2]), [1, 2]],
)
def test_intrinsics_that_are_none(k: object) -> None:
    for call in (TRANSFORMS[0].intrinsics_to_network, TRANSFORMS[0].intrinsics_to_original):
        with pytest.raises(ValueError, match="intrinsics|focal"):
            call(k)  # type: ignore[arg-type]


def test_confidence_mask() -> None:
    conf = np.float32([[1.0, 1.5, 2.0], [3.0, 1.2, 9.0]])
    assert confidence_mask(conf).all()
    assert np.array_equal(confidence_mask(conf, threshold=1.5), conf >= 1.5)
    for q in (0, 25, 50, 90, 100):
        assert np.array_equal(confidence_mask(conf, percentile=q), conf >= np.percentile(conf, q))
    both = confidence_mask(conf, threshold=2.5, percentile=50)
    assert np.array_equal(both, (conf >= 2.5) & (conf >= np.percentile(conf, 50)))
    assert confidence_mask(np.zeros((0, 4)), percentile=50).shape == (0, 4)
    for bad in (-1, 101, float("nan")):
        with pytest.raises(ValueError):
            confidence_mask(conf, percentile=bad)
    with pytest.raises(ValueError):
        confidence_mask(conf, threshold=float("nan"))
