# SPDX-License-Identifier: Apache-2.0
"""The objective: confident pointmaps, descriptors by contrast, calibrated confidences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .model import Raw
from .scenes import Random

_MAX_RAW = 12.0  # exp of a raw output beyond this is a broken step, not a prediction


@dataclass(frozen=True)
class LossWeights:
    nce: float = 1.0
    scale: float = 0.05  # metric scale, apart from the shape of the points
    desc_conf: float = 0.02
    conf_alpha: float = 0.2  # reward of pointmap confidence, as in MASt3R
    points: float = 1.0  # pointmaps, weighted by their confidence
    plain: float = 0.0  # the error of the points without confidence: hard pairs count as much as easy ones
    desc_conf_alpha: float = 10.0  # desc_conf tends to this over the expected InfoNCE
    unmatched: float = 20.0  # stands in for the InfoNCE of a pixel without a partner
    samples: int = 384  # scattered samples a view; as many again in small windows


def points_and_conf(dpt: Tensor) -> tuple[Tensor, Tensor]:
    """As `model.activate_points`, with the exponents bounded."""
    xyz = dpt[:, :3].permute(0, 2, 3, 1)
    d = xyz.norm(dim=-1, keepdim=True)
    pts = xyz / d.clamp_min(1e-8) * torch.expm1(d.clamp_max(_MAX_RAW))
    return pts, dpt[:, 3].clamp_max(_MAX_RAW)


def point_errors(
    pred1: Tensor, pred2: Tensor, true: Tensor, both: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Distances after each side is divided by its mean distance from the origin.

    `both` [B] says where view 2 shows the same scene; elsewhere only view 1
    counts. Also returns the two mean distances (predicted, true).
    """
    weight = both.float()

    def mean_norm(a: Tensor, b: Tensor) -> Tensor:
        first, second = a.norm(dim=-1).mean((1, 2)), b.norm(dim=-1).mean((1, 2))
        return ((first + weight * second) / (1 + weight)).clamp_min(1e-4)

    n, m = mean_norm(pred1, pred2), mean_norm(true[:, 0], true[:, 1])
    error = [
        (p / n.view(-1, 1, 1, 1) - t / m.view(-1, 1, 1, 1)).norm(dim=-1)
        for p, t in ((pred1, true[:, 0]), (pred2, true[:, 1]))
    ]
    return error[0], error[1], n, m


def points_loss(
    dpt1: Tensor, dpt2: Tensor, true: Tensor, both: Tensor, alpha: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Confidence-weighted regression, the error alone, and the log error of the metric scale.

    The weighted loss alone tends to alpha log(error): confidence takes from
    hard pairs what it gives to easy ones.
    """
    (pred1, raw1), (pred2, raw2) = points_and_conf(dpt1), points_and_conf(dpt2)
    e1, e2, n, m = point_errors(pred1, pred2, true, both)

    def weighted(error: Tensor, raw: Tensor) -> Tensor:
        conf = 1 + raw.exp()
        return (conf * error - alpha * conf.log()).mean((1, 2))

    share = both.float()
    loss = (weighted(e1, raw1) + share * weighted(e2, raw2)).mean()
    plain = (e1.mean((1, 2)) + share * e2.mean((1, 2))).sum() / (1 + share).sum()
    return loss, plain, (n / m).log().abs().mean()


class Samples(NamedTuple):
    """Pixels to compare. Entry k is one correspondence, or a pixel of one view without one."""

    index1: Tensor  # [B,K] linear pixel in view 1
    index2: Tensor  # [B,K]
    matched: Tensor  # [B,K] both are real and the same point
    real1: Tensor  # [B,K] index1 means something
    real2: Tensor


def _sample_pixels(rng: Random, b: int, height: int, width: int, count: int) -> tuple[Tensor, Tensor]:
    """Half scattered over the image, half in 4x4 windows: near neighbours are the hard negatives."""
    scattered = rng.integers(width, b, count), rng.integers(height, b, count)
    windows = count // 16
    stride = rng.integers(2, b, windows, 1) + 1
    step = torch.arange(16, device=rng.device)
    x = rng.integers(width - 8, b, windows, 1) + stride * (step % 4)
    y = rng.integers(height - 8, b, windows, 1) + stride * (step // 4)
    return torch.cat([scattered[0], x.flatten(1)], 1), torch.cat([scattered[1], y.flatten(1)], 1)


def sample_matches(rng: Random, match: Tensor, count: int) -> Samples:
    """Draws from `match` [B,2,H,W,2] (see scenes.Rendered), `2 * count` pixels of each view."""
    b, _, height, width, _ = match.shape
    here, there, found = [], [], []
    for view in (0, 1):
        x, y = _sample_pixels(rng, b, height, width, count)
        index = y * width + x
        partner = torch.gather(match[:, view].flatten(1, 2), 1, index[..., None].expand(-1, -1, 2))
        nearest = partner.round().long()
        found.append(nearest[..., 0] >= 0)
        here.append(index)
        there.append((nearest[..., 1] * width + nearest[..., 0]).clamp_min(0))
    always = torch.ones_like(found[0])
    return Samples(
        torch.cat([here[0], there[1]], 1),
        torch.cat([there[0], here[1]], 1),
        torch.cat(found, 1),
        torch.cat([always, found[1]], 1),
        torch.cat([found[0], always], 1),
    )


def _repeated(index: Tensor) -> Tensor:
    """[B,K,K]: other entries with the same pixel. They are no negatives."""
    index = index.int()
    return index[:, :, None] == index[:, None]


class _Competition(torch.autograd.Function):
    """Sums over the competitors of each entry: rows_i = sum_j w_ij r2_j, cols_j = sum_i r1_i w_ij.

    w = exp((desc1 desc2^T - 1) / temperature), zero where `repeated`: a dot
    product is at most 1, so that the exponent needs no other shift. The
    [B,K,K] array w is much the largest of a whole step. Written out by hand
    the backward pass is two products with it and nothing element by element:
    d desc1 = (d rows * w (r2 desc2) + r1 * w (d cols desc2)) / temperature.
    """

    @staticmethod
    def forward(ctx, desc1: Tensor, desc2: Tensor, repeated: Tensor, real1: Tensor, real2: Tensor,
                temperature: Tensor) -> tuple[Tensor, Tensor]:  # fmt: skip
        # A further column carries the shift, so that the product is the exponent.
        one = torch.ones_like(desc1[..., :1])
        left, right = torch.cat([desc1, -one], -1) / temperature, torch.cat([desc2, one], -1)
        w = torch.bmm(left, right.transpose(1, 2)).exp_().masked_fill_(repeated, 0)
        rows = torch.bmm(w, real2[..., None])[..., 0]
        cols = torch.bmm(w.transpose(1, 2), real1[..., None])[..., 0]
        ctx.save_for_backward(desc1, desc2, w, real1, real2, temperature)
        return rows, cols

    @staticmethod
    def backward(ctx, drows: Tensor, dcols: Tensor):
        desc1, desc2, w, real1, real2, temperature = ctx.saved_tensors
        real1, real2, drows, dcols = (v[..., None] for v in (real1, real2, drows, dcols))
        one, other = torch.bmm(w, torch.cat([real2 * desc2, dcols * desc2], -1)).chunk(2, -1)
        ddesc1 = (drows * one + real1 * other) / temperature
        one, other = torch.bmm(w.transpose(1, 2), torch.cat([real1 * desc1, drows * desc1], -1)).chunk(2, -1)
        ddesc2 = (dcols * one + real2 * other) / temperature
        return ddesc1, ddesc2, None, None, None, None


def contrast(desc1: Tensor, desc2: Tensor, s: Samples, temperature: Tensor) -> tuple[Tensor, Tensor]:
    """InfoNCE [B,K] of each entry in both directions, from unit descriptors [B,K,D]."""
    positive = ((desc1 * desc2).sum(-1) - 1) / temperature
    repeated = _repeated(s.index1).logical_or_(_repeated(s.index2))
    repeated.diagonal(dim1=1, dim2=2).fill_(False)
    real1, real2 = s.real1.to(desc1.dtype), s.real2.to(desc1.dtype)
    rows, cols = _Competition.apply(desc1, desc2, repeated, real1, real2, temperature)
    return rows.clamp_min(1e-30).log() - positive, cols.clamp_min(1e-30).log() - positive


def gather_local(local: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Unit descriptors [B,K,D] and raw descriptor confidences [B,K] at pixels."""
    b, c, h, w = local.shape
    at = torch.gather(local.view(b, c, h * w), 2, index[:, None].expand(-1, c, -1))
    return F.normalize(at[:, :-1], dim=1).transpose(1, 2), at[:, -1].clamp_max(_MAX_RAW)


def matching_loss(
    desc1: Tensor, conf1: Tensor, desc2: Tensor, conf2: Tensor, s: Samples, temperature: Tensor,
    alpha: float, unmatched: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """InfoNCE over the correspondences, and the calibration of desc_conf on all samples.

    The calibration sees the InfoNCE as a constant: q l - alpha log q is least
    at q = alpha / E[l], so that desc_conf says how sure a match is, and pixels
    without a partner, which enter with a large l, get a low one.
    """
    l12, l21 = contrast(desc1, desc2, s, temperature)
    weight = s.matched.float()
    total = weight.sum().clamp_min(1)
    nce = ((l12 + l21) * weight).sum() / (2 * total)

    def calibrate(raw: Tensor, loss: Tensor, real: Tensor) -> Tensor:
        target = torch.where(s.matched, loss.detach(), unmatched)
        return ((raw.exp() * target - alpha * raw) * real).sum() / real.sum().clamp_min(1)

    return nce, calibrate(conf1, l12, s.real1) + calibrate(conf2, l21, s.real2)


def objective(
    weights: LossWeights, raw1: Raw, raw2: Raw, points: Tensor, match: Tensor, both: Tensor, rng: Random,
    temperature: Tensor,
) -> tuple[Tensor, dict[str, Tensor]]:  # fmt: skip
    """All terms together, and each on its own."""
    geo, error, scale = points_loss(raw1.dpt, raw2.dpt, points, both, weights.conf_alpha)
    s = sample_matches(rng, match, weights.samples)
    desc1, conf1 = gather_local(raw1.local, s.index1)
    desc2, conf2 = gather_local(raw2.local, s.index2)
    nce, calibration = matching_loss(
        desc1, conf1, desc2, conf2, s, temperature, weights.desc_conf_alpha, weights.unmatched
    )
    total = weights.points * geo + weights.plain * error + weights.nce * nce
    total = total + weights.scale * scale + weights.desc_conf * calibration
    parts = {"loss": total, "points": error, "nce": nce, "scale": scale, "matched": s.matched.float().mean()}
    return total, {k: v.detach() for k, v in parts.items()}
