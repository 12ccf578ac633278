# SPDX-License-Identifier: Apache-2.0
"""Losses, optimiser, photometry and metrics against plain formulas."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mast3r_torch import evaluation, metrics
from mast3r_torch.losses import (
    LossWeights,
    Samples,
    contrast,
    found_costs,
    gather_local,
    interpolate_local,
    matching_loss,
    objective,
    point_errors,
    points_loss,
    ray_errors,
    sample_matches,
)
from mast3r_torch.model import Dims, Mast3r, Raw
from mast3r_torch.optim import Optimiser, orthogonalise
from mast3r_torch.photometry import develop, jpeg
from mast3r_torch.scenes import Random


def all_real(index1, index2) -> Samples:
    yes = torch.ones_like(index1, dtype=torch.bool)
    return Samples(index1, index2, yes, yes, yes, torch.zeros(*index1.shape, 2))


def straight(batch: int) -> torch.Tensor:
    """Poses of second cameras that stand where the first ones do."""
    return torch.cat([torch.eye(3).flatten(), torch.zeros(3)]).expand(batch, 12)


def test_contrast_is_cross_entropy():
    torch.manual_seed(0)
    a, b = F.normalize(torch.randn(2, 9, 6), dim=-1), F.normalize(torch.randn(2, 9, 6), dim=-1)
    index = torch.arange(9).expand(2, 9)
    forth, back = contrast(a, b, all_real(index, index), torch.tensor(0.2))
    logits, label = a @ b.mT / 0.2, torch.arange(9).expand(2, 9)
    assert torch.allclose(forth, F.cross_entropy(logits.mT, label, reduction="none"), atol=1e-5)
    assert torch.allclose(back, F.cross_entropy(logits, label, reduction="none"), atol=1e-5)


def test_contrast_leaves_out_what_is_no_negative():
    """Entries of the same pixel, and places that are not real, do not compete."""
    torch.manual_seed(1)
    a, b = F.normalize(torch.randn(1, 5, 6), dim=-1), F.normalize(torch.randn(1, 5, 6), dim=-1)
    i1, i2 = torch.tensor([[0, 1, 2, 3, 4]]), torch.tensor([[7, 7, 8, 9, 0]])
    s = all_real(i1, i2)._replace(
        matched=torch.tensor([[True, True, True, True, False]]),
        real2=torch.tensor([[True, True, True, True, False]]),
    )
    forth, back = contrast(a, b, s, torch.tensor(0.1))
    logits = (a @ b.mT / 0.1)[0]
    assert torch.allclose(forth[0, 0], torch.logsumexp(logits[0, [0, 2, 3]], 0) - logits[0, 0], atol=1e-5)
    assert torch.allclose(back[0, 0], torch.logsumexp(logits[[0, 2, 3, 4], 0], 0) - logits[0, 0], atol=1e-5)


def test_gradient_of_the_contrast():
    """The backward pass is written by hand."""
    torch.manual_seed(4)
    a, b = (F.normalize(torch.randn(2, 7, 4, dtype=torch.double), dim=-1).requires_grad_() for _ in "ab")
    i1, i2 = torch.randint(5, (2, 7)), torch.randint(5, (2, 7))
    real1, real2 = torch.rand(2, 7) < 0.7, torch.rand(2, 7) < 0.7
    s = Samples(i1, i2, real1 & real2, real1, real2, torch.zeros(2, 7, 2))
    assert torch.autograd.gradcheck(lambda a, b: contrast(a, b, s, torch.tensor(0.3)), (a, b))


def test_objective_adds_its_terms():
    rng = Random(3)
    raw1, raw2 = (Raw(rng.normal(2, 4, 32, 32), rng.normal(2, 7, 32, 32)) for _ in range(2))
    points, both = rng.normal(2, 2, 32, 32, 3) + 2, torch.ones(2, dtype=torch.bool)
    match = torch.stack(torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="xy"), -1)
    match = match.expand(2, 2, 32, 32, 2)

    def total(**values):
        weights = LossWeights(**{"nce": 0.0, "scale": 0.0, "desc_conf": 0.0, "samples": 64, **values})
        return objective(weights, raw1, raw2, points, match, both, straight(2), Random(1), torch.tensor(0.1))

    flat = raw1.dpt.flatten(2), raw2.dpt.flatten(2), points.flatten(2, 3)
    known = torch.ones(2, 2, 32 * 32, dtype=torch.bool)
    geo, error, scale, rays, pose = points_loss(*flat, known, both, straight(2), 0.2, 0.0)
    loss, parts = total(points=0.5, plain=2.0, scale=3.0, nce=0.7, rays=0.3, pose=0.2)
    want = 0.5 * geo + 2 * error + 3 * scale + 0.7 * parts["nce"] + 0.3 * rays + 0.2 * pose
    assert loss.item() == pytest.approx(want.item(), rel=1e-5)
    assert parts["points"].item() == pytest.approx(error.item())
    assert total()[0].item() == pytest.approx(geo.item(), rel=1e-5)


def test_desc_conf_settles_at_alpha_over_loss():
    torch.manual_seed(2)
    a, b = F.normalize(torch.randn(1, 6, 8), dim=-1), F.normalize(torch.randn(1, 6, 8), dim=-1)
    s = all_real(torch.arange(6)[None], torch.arange(6)[None])
    l12, l21 = contrast(a, b, s, torch.tensor(0.3))
    raw1 = (10 / l12).log().requires_grad_()
    raw2 = (10 / l21).log().requires_grad_()
    _, calibration = matching_loss(a, raw1, b, raw2, s, torch.tensor(0.3), 10.0, 20.0)
    calibration.backward()
    assert raw1.grad.abs().max() < 1e-5 and raw2.grad.abs().max() < 1e-5
    # A pixel without a partner is driven to alpha / unmatched.
    lone = s._replace(matched=torch.zeros(1, 6, dtype=torch.bool))
    raw = torch.full((1, 6), np.log(10 / 20.0), dtype=torch.float32, requires_grad=True)
    _, calibration = matching_loss(a, raw, b, raw.detach(), lone, torch.tensor(0.3), 10.0, 20.0)
    calibration.backward()
    assert raw.grad.abs().max() < 1e-5


def test_sampled_matches_agree_with_the_map():
    """A shift by (3, 1): every drawn pair is one, or says that it has no partner."""
    h, w = 24, 40
    y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    match = torch.stack([torch.stack([x + 3, y + 1], -1), torch.stack([x - 3, y - 1], -1)])[None].float()
    limit = torch.tensor([w - 1, h - 1])
    inside = ((match >= 0) & (match <= limit)).all(-1, keepdim=True)
    match = torch.where(inside, match, -1.0).expand(3, -1, -1, -1, -1)
    s = sample_matches(Random(0), match, 64)
    assert s.index1.shape == (3, 256) and 0.5 < s.matched.float().mean() < 1
    assert torch.equal((s.index2 - s.index1)[s.matched], torch.full((int(s.matched.sum()),), w + 3))
    assert torch.equal(s.matched, s.real1 & s.real2)
    assert s.real1[:, :128].all() and s.real2[:, 128:].all()


def test_point_errors_know_no_scale():
    torch.manual_seed(3)
    true = torch.rand(2, 2, 4, 5, 3) + 0.5
    both = torch.tensor([True, False])
    e1, e2, n, m = point_errors(3 * true[:, 0], 3 * true[:, 1], true, both)
    assert e1.max() < 1e-5 and e2[0].max() < 1e-5
    assert torch.allclose(n / m, torch.tensor(3.0))


def raw_of(points: torch.Tensor, conf: float = 0.0) -> torch.Tensor:
    """The raw output [B,4,N] that stands for points [B,N,3]."""
    far = points.norm(dim=-1, keepdim=True)
    raw = torch.cat([points / far * far.log1p(), torch.full_like(far, conf)], -1)
    return raw.mT.contiguous()


def test_points_loss_counts_the_second_view_only_where_it_belongs():
    torch.manual_seed(4)
    raw1, raw2 = torch.randn(2, 4, 24), torch.randn(2, 4, 24, requires_grad=True)
    true, known = torch.rand(2, 2, 24, 3) + 1, torch.ones(2, 2, 24, dtype=torch.bool)
    both = torch.tensor([True, False])
    out = points_loss(raw1, raw2, true, known, both, straight(2), 0.2, 0.0)
    sum(out).backward()
    assert raw2.grad[0].abs().sum() > 0 and raw2.grad[1].abs().sum() == 0
    assert out.plain > 0 and out.scale > 0
    # Where it does not belong its confidence is told so, and nothing else.
    raw2.grad = None
    sum(points_loss(raw1, raw2, true, known, both, straight(2), 0.2, 1.0)).backward()
    assert (raw2.grad[1, 3] > 0).all() and raw2.grad[1, :3].abs().sum() == 0


def test_the_sky_has_rays_but_no_distance():
    torch.manual_seed(5)
    true = torch.rand(1, 2, 30, 3) + torch.tensor([0.0, 0.0, 2.0])
    known = torch.ones(1, 2, 30, dtype=torch.bool)
    known[:, :, :10] = False
    both = torch.ones(1, dtype=torch.bool)
    far = torch.where(known[..., None], true, 50 * true)  # right directions, another distance
    out = points_loss(raw_of(far[:, 0]), raw_of(far[:, 1]), true, known, both, straight(1), 0.2, 1.0)
    assert out.plain < 1e-5 and out.rays < 1e-4 and out.pose < 1e-4
    aside = torch.where(known[..., None], true, true.roll(1, -1))
    out = points_loss(raw_of(aside[:, 0]), raw_of(aside[:, 1]), true, known, both, straight(1), 0.2, 1.0)
    assert out.plain < 1e-5 and out.rays > 0.1 and out.pose < 1e-4


@pytest.mark.parametrize("half_view", [0.15, 0.7])
def test_a_wrong_focal_length_costs_the_same_at_any_field_of_view(half_view):
    torch.manual_seed(6)
    xy = (torch.rand(1, 500, 2) * 2 - 1) * half_view
    true = torch.cat([xy, torch.ones(1, 500, 1)], -1) * (torch.rand(1, 500, 1) * 3 + 1)
    wrong = true * torch.tensor([1.1, 1.1, 1.0])
    one = torch.ones(1, 500)
    assert ray_errors(true * 5, true, one, 0.03) < 1e-5
    assert 0.06 < ray_errors(wrong, true, one, 0.03) < 0.11


def test_pose_of_the_second_camera():
    """True points cost nothing, whatever their scale; turned ones do."""
    torch.manual_seed(7)
    true = torch.rand(1, 2, 50, 3) + torch.tensor([0.0, 0.0, 2.0])
    known, both = torch.ones(1, 2, 50, dtype=torch.bool), torch.ones(1, dtype=torch.bool)
    c, s = np.cos(0.3), np.sin(0.3)
    turn = torch.tensor([[c, 0, s], [0, 1, 0], [-s, 0, c]], dtype=torch.float32)
    pose = torch.cat([turn.flatten(), torch.tensor([-0.5, 0.1, 0.2])])[None]

    def cost(points):
        return points_loss(raw_of(2 * true[:, 0]), raw_of(2 * points), true, known, both, pose, 0.2, 0.0).pose

    assert cost(true[:, 1]) < 1e-4
    assert cost(true[:, 1] @ turn.T) > 0.3


def test_descriptors_between_pixels():
    local = Random(8).normal(2, 7, 6, 9)
    index = torch.tensor([[0, 13, 52], [5, 44, 53]])
    at = torch.stack([index % 9, index // 9], -1).float()
    assert torch.allclose(interpolate_local(local, at), gather_local(local, index)[0], atol=1e-6)
    middle = interpolate_local(local, torch.tensor([[[2.5, 3.0]], [[2.5, 3.0]]]))[:, 0]
    ends = [F.normalize(local[:, :-1, 3, x], dim=1) for x in (2, 3)]
    assert torch.allclose(middle, F.normalize(ends[0] + ends[1], dim=1), atol=1e-6)


def test_cost_of_what_is_found():
    other = Random(9).normal(1, 9, 16, 16)
    right = torch.tensor([[[4.0, 6.0], [5.0, 6.0], [10.0, 2.0]]])
    desc = F.normalize(other[0, :-1, [6, 6, 2], [4, 4, 10]].T[None], dim=-1)
    there = torch.tensor([[True, True, False]])
    cost = found_costs(desc, other, right, there, 20.0)
    assert torch.allclose(cost, torch.tensor([[0.4, 0.55, 20.0]]))
    far = found_costs(desc, other, right + 8, there, 20.0)
    assert (far == 20).all()


def test_what_is_found_costs_the_same_in_each_row_and_column():
    """A rectified pair: partners lie on whole pixels, and odd rows are as good as even ones."""
    other = Random(9).normal(1, 9, 16, 24)
    y, x = torch.meshgrid(torch.arange(16.0), torch.arange(24.0), indexing="ij")
    truth = torch.stack([x, y], -1).flatten(0, 1)[None]
    desc = F.normalize(other[:, :-1].flatten(2), dim=1).mT
    cost = found_costs(desc, other, truth, torch.ones(1, 384, dtype=torch.bool), 20.0)
    assert torch.allclose(cost, torch.full((1, 384), 0.4))


def test_samples_seek_partners():
    """Where a tenth of a picture is seen in the other, a fifth of the scattered samples are matches."""
    match = torch.full((4, 2, 40, 40, 2), -1.0)
    match[:, :, :4] = 7.0
    plain, seek = (
        sample_matches(Random(0), match, 256, s).matched[:, :256].float().mean() for s in (False, True)
    )
    assert 0.06 < plain < 0.14 and 0.15 < seek < 0.25


def test_orthogonalise():
    torch.manual_seed(5)
    for shape in ((3, 8, 20), (2, 20, 8), (1, 12, 12)):
        values = torch.linalg.svdvals(orthogonalise(torch.randn(shape)))
        assert values.min() > 0.3 and values.max() < 1.3  # the quintic leaves them around 1
    g = torch.diag(torch.tensor([5.0, 1.0, 0.5]))[None]
    assert (orthogonalise(g)[0] - torch.diag(torch.diagonal(orthogonalise(g)[0]))).abs().max() < 1e-3


def tiny() -> Mast3r:
    torch.manual_seed(6)
    dims = Dims(
        enc_dim=16,
        enc_depth=1,
        enc_heads=1,
        dec_dim=16,
        dec_depth=4,
        dec_heads=1,
        patch_size=4,
        dpt_feature_dim=4,
        dpt_last_dim=2,
        dpt_layer_dims=(4, 4, 4, 4),
        local_hidden=8,
    )
    return Mast3r(dims)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_optimiser_resumes(kind):
    def run(net, steps, optimiser=None):
        lr = torch.tensor(0.01)
        optimiser = optimiser or Optimiser(dict(net.named_parameters()), kind, 0.05, lr)
        for step in steps:
            for i, p in enumerate(net.parameters()):
                p.grad = torch.sin(torch.arange(p.numel(), dtype=torch.float32) * (i + 1) + step).view_as(p)
            optimiser.step()
        return optimiser

    straight, stopped = tiny(), tiny()
    run(straight, range(4))
    saved = copy.deepcopy(run(stopped, range(2)).state())
    again = tiny()
    again.load_state_dict(stopped.state_dict())
    for warm in (False, True):  # into a fresh optimiser, and in place into one that has run
        net = tiny()
        second = Optimiser(dict(net.named_parameters()), kind, 0.05, torch.tensor(0.01))
        if warm:
            run(net, [9], second)
        net.load_state_dict(stopped.state_dict())
        second.load(copy.deepcopy(saved))
        run(net, range(2, 4), second)
        for a, b in zip(straight.parameters(), net.parameters(), strict=True):
            assert torch.allclose(a, b, atol=1e-6)
    assert not torch.allclose(next(again.parameters()), next(straight.parameters()))
    with pytest.raises(ValueError, match="want adamw or muon"):
        Optimiser(dict(net.named_parameters()), "sgd", 0.0, torch.tensor(0.1))


def test_jpeg_quantises_blocks():
    torch.manual_seed(7)
    x = F.interpolate(torch.rand(2, 3, 4, 4), (32, 32), mode="bilinear")
    out = jpeg(x, torch.tensor([0.0, 4.0]))
    assert (out[0] - x[0]).abs().max() < 0.02
    assert (out[1] - x[1]).abs().mean() > 3 * (out[0] - x[0]).abs().mean()
    flat = torch.full((1, 3, 8, 8), 0.5)
    assert (jpeg(flat, torch.tensor([1.0])) - flat).abs().max() < 0.01


def test_develop():
    linear = Random(0).uniform(8, 2, 3, 32, 48, hi=3.0)
    out = develop(Random(1), linear)
    assert out.shape == linear.shape and out.min() >= -1 and out.max() <= 1 and out.isfinite().all()
    assert torch.equal(out, develop(Random(1), linear))
    means = out.mean((2, 3, 4))
    assert means.std() > 0.05 and means.abs().max() < 0.9  # exposed differently, never burnt out


def test_worse_pictures():
    linear = F.interpolate(Random(2).uniform(32, 6, 8, 12, hi=2.0), (32, 48), mode="bilinear").view(
        32, 2, 3, 32, 48
    )
    good, bad = develop(Random(1), linear), develop(Random(1), linear, 0.5)
    assert bad.shape == good.shape and bad.isfinite().all() and bad.abs().max() <= 1

    def rough(x):
        return (x[..., 1:] - x[..., :-1]).abs().mean((2, 3, 4)).flatten()

    assert (
        rough(bad).max() > 1.3 * rough(good).max() and bad.mean((2, 3, 4)).std() > good.mean((2, 3, 4)).std()
    )


def test_match_finds_permuted_descriptors():
    torch.manual_seed(8)
    desc1 = F.normalize(torch.randn(6, 10, 24), dim=-1)
    desc2 = desc1.roll((2, 3), (0, 1))
    start = metrics.grid(6, 10, 2)
    m = metrics.match(desc1, desc2, start)
    truth = torch.stack([(start[:, 0] + 3) % 10, (start[:, 1] + 2) % 6], -1)
    assert torch.equal(m.found, truth) and m.mutual.all() and m.strict.all()
    figures = metrics.match_figures(m, truth)
    assert figures["all"] == figures["mutual"] == figures["strict_share"] == 1 and figures["same_pixel"] == 0


def test_covered_pixels_are_not_visible():
    """A near bar (disparity 6) hides the wall (disparity 1) five pixels to its left."""
    disparity = np.ones((4, 24))
    disparity[:, 14:17] = 6
    disparity[0, 20] = np.inf
    seen = evaluation.visible(disparity)
    assert seen[:, 14:17].all() and not seen[0, 20] and not seen[:, 0].any()
    assert not seen[1, 9:12].any() and seen[1, 2:8].all() and seen[1, 18:].all()


def test_ransac_homography():
    rng = np.random.default_rng(0)
    h = np.array([[1.1, 0.1, 5], [-0.05, 0.9, 3], [2e-4, -1e-4, 1]])
    a = rng.uniform(0, 200, (60, 2))
    p = np.c_[a, np.ones(60)] @ h.T
    b = p[:, :2] / p[:, 2:]
    b[:20] += rng.uniform(20, 60, (20, 2))
    inside = evaluation.ransac_homography(a, b, rounds=200)
    assert inside[20:].all() and inside[:20].sum() <= 3
    assert not evaluation.ransac_homography(a[:5], b[:5]).any()


def test_fit_keeps_the_shape():
    assert evaluation.fit(741, 500, 512) == (512, 352)
    assert evaluation.fit(300, 400, 256) == (192, 256)
