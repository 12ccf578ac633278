# SPDX-License-Identifier: Apache-2.0
"""Measures on photographs, without any: descriptors and pointmaps that are known."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mast3r_torch import photographs
from mast3r_torch.model import View

MAP = np.array([[2.0, 2.0], [0.5, 0.5]])  # pictures twice the network's size


def view(desc: torch.Tensor, conf: float = 5.0) -> View:
    points = torch.zeros(*desc.shape[:2], 3)
    return View(points, points[..., 0], desc, torch.full(desc.shape[:2], conf))


def test_raw_matches_of_a_shift():
    torch.manual_seed(0)
    desc = F.normalize(torch.randn(40, 56, 16), dim=-1)
    moved = desc.roll((3, 5), (0, 1))
    m = photographs.raw_matches(view(desc), view(moved), MAP, MAP)
    # The grid starts at pixel 4; what the shift wraps round the border is left aside.
    inside = (m[:, 0] < 100) & (m[:, 1] < 70)
    assert inside.sum() >= 20
    assert np.allclose((m[:, 2:] - m[:, :2])[inside], [10, 6])
    assert len(photographs.raw_matches(view(desc), view(moved, 0.9), MAP, MAP)) == 0


def test_walk_keeps_only_what_chooses_each_other():
    torch.manual_seed(1)
    one, two = (F.normalize(torch.randn(24, 32, 8), dim=-1) for _ in range(2))
    pairs = photographs.walk(one, two)
    similarity = one.flatten(0, 1) @ two.flatten(0, 1).T
    assert len(pairs) > 3
    assert torch.equal(similarity.argmax(1)[pairs[:, 0]], pairs[:, 1])
    assert torch.equal(similarity.argmax(0)[pairs[:, 1]], pairs[:, 0])


@pytest.mark.parametrize("focal", [30.0, 200.0])
def test_focal_length_of_a_pointmap(focal):
    y, x = np.mgrid[:48, :64]
    z = 2 + np.sin(x / 9) + 0.1 * y
    points = np.stack([(x - 31.5) / focal * z, (y - 23.5) / focal * z, z], -1)
    assert photographs.focal_length(points) == pytest.approx(focal, rel=1e-6)


def test_depth_error_knows_no_scale():
    y, x = np.mgrid[:24, :32]
    truth = 2 + 0.01 * np.mgrid[:48, :64][1].astype(float)
    at = (x * 2 + 0.5, y * 2 + 0.5)
    z = 3 * truth[np.rint(at[1]).astype(int), np.rint(at[0]).astype(int)]
    points = np.stack([x, y, z], -1)
    assert photographs.depth_error(points, truth, MAP) < 1e-9
    points[:12, :, 2] *= 1.2
    assert 0.05 < photographs.depth_error(points, truth, MAP) < 0.2


def test_a_pair_is_measured_with_every_list():
    """By the judge of `make match-bench`: a change of either shows here."""
    pytest.importorskip("cv2")
    pytest.importorskip("mast3r_runtime")
    photographs.pairs_module()
    from pairs_sets import Pair

    rng = np.random.default_rng(0)
    image = (rng.random((96, 128, 3)) * 255).astype(np.uint8)
    k = np.array([[150.0, 0, 63.5], [0, 150, 47.5], [0, 0, 1]])
    cameras = (k, k, np.eye(3), np.array([-1.0, 0, 0]))
    shift = np.array([[1.0, 0, 8], [0, 1, 0], [0, 0, 1]])

    def network(one: torch.Tensor, two: torch.Tensor) -> tuple[View, View]:
        assert torch.equal(one, two)
        torch.manual_seed(1)
        desc = F.normalize(torch.randn(*one.shape[1:], 16), dim=-1)
        y, x = torch.meshgrid(*(torch.arange(float(n)) for n in one.shape[1:]), indexing="ij")
        points = torch.stack([(x - x.mean()) / 600, (y - y.mean()) / 600, torch.ones_like(x)], -1)
        first = view(desc)._replace(pts3d=points)
        return first, first._replace(desc=desc.roll(32, 1))  # 8 pixels of the picture

    for pair in (
        Pair("zoom", "shift x2", image, image, homography=shift),
        Pair("stereo", "shift", image, image, locate=lambda xy: xy + [8.0, 0], cameras=cameras),
    ):
        row = photographs.measure_pair(network, pair, classic=True)
        assert row["raw_p3"] == pytest.approx(15 / 16)  # a sixteenth wraps round the border
        assert row["magsac_p3"] == (1 if pair.homography is not None else row["raw_p3"])  # on its own row
        assert row["sift_n"] > 0 and row["sift_goal"] >= 0
        assert ("focal_off" in row) == (pair.cameras is not None)
    assert row["focal_off"] < 1e-3
    assert photographs.group_of(pair) == "stereo"
