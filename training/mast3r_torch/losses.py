# SPDX-License-Identifier: Apache-2.0
"""The objective: confident pointmaps and rays, descriptors by contrast, calibrated confidences."""

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
    edges: float = 0.0  # pixels beside a jump in depth count so much more in `plain`
    desc_conf_alpha: float = 10.0  # desc_conf tends to this over the expected InfoNCE
    unmatched: float = 20.0  # stands in for the InfoNCE of a pixel without a partner
    samples: int = 384  # scattered samples a view; as many again in small windows
    rays: float = 0.0  # directions of the points of view 1 from camera 1: its focal length
    pose: float = 0.0  # directions of the points of view 2 from the true camera 2: where that camera stands
    unknown: float = 0.0  # error that stands for points that cannot be known: sky, view 2 of something else
    found: int = 0  # samples a view whose match is looked for in the whole of the other, for desc_conf
    fraction: bool = False  # partners between pixels, by interpolation, instead of the nearest pixel
    seek: bool = False  # half of the scattered samples are the one of three that has a partner


def points_and_conf(dpt: Tensor) -> tuple[Tensor, Tensor]:
    """As `model.activate_points`, with the exponents bounded."""
    xyz = dpt[:, :3].permute(0, 2, 3, 1)
    d = xyz.norm(dim=-1, keepdim=True)
    pts = xyz / d.clamp_min(1e-8) * torch.expm1(d.clamp_max(_MAX_RAW))
    return pts, dpt[:, 3].clamp_max(_MAX_RAW)


def point_errors(
    pred1: Tensor, pred2: Tensor, true: Tensor, both: Tensor, known: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Distances after each side is divided by its mean distance from the origin.

    `both` [B] says where view 2 shows the same scene; elsewhere only view 1
    counts. `known` [B,2,...] leaves out pixels (the sky). Also returns the two
    mean distances (predicted, true).
    """
    weight = both.float()
    count = torch.ones_like(true[..., 0]) if known is None else known.float()
    share = count.flatten(2).mean(2)
    total = (share[:, 0] + weight * share[:, 1]).clamp_min(1e-3)

    def mean_norm(a: Tensor, b: Tensor) -> Tensor:
        first, second = ((v.norm(dim=-1) * count[:, i]).flatten(1).mean(1) for i, v in enumerate((a, b)))
        return ((first + weight * second) / total).clamp_min(1e-4)

    n, m = mean_norm(pred1, pred2), mean_norm(true[:, 0], true[:, 1])
    shape = (-1,) + (1,) * (pred1.ndim - 1)
    error = [
        (p / n.view(shape) - t / m.view(shape)).norm(dim=-1)
        for p, t in ((pred1, true[:, 0]), (pred2, true[:, 1]))
    ]
    return error[0], error[1], n, m


class Geometry(NamedTuple):
    """Terms of the pointmaps, see points_loss."""

    weighted: Tensor
    plain: Tensor
    scale: Tensor
    rays: Tensor
    pose: Tensor


def ray_errors(pred: Tensor, true: Tensor, count: Tensor, least: float) -> Tensor:
    """Mean distance [B] between unit directions of points [B,N,3], relative to how far the true ones spread.

    So relative, a focal length wrong by a tenth costs about a tenth at any
    field of view; the points themselves hardly show it in a narrow one. A
    spread below `least` counts as that.
    """
    far = true.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    want = true / far
    got = pred / torch.maximum(pred.norm(dim=-1, keepdim=True), 0.1 * far)
    total = count.sum(1).clamp_min(1)
    middle = (want * count[..., None]).sum(1, keepdim=True) / total[:, None, None]
    spread = ((want - middle).norm(dim=-1) * count).sum(1) / total
    return ((got - want).norm(dim=-1) * count).sum(1) / total / spread.clamp_min(least)


@torch.no_grad()
def edge_weights(points: Tensor, pose: Tensor, more: float) -> Tensor:
    """Weights [B,2,H,W] of pixels, mean 1: `1 + more` beside a jump in depth, within two pixels of it.

    `points` [B,2,H,W,3] in camera 1's frame. A jump is a pixel that is 4 % further from its own camera than
    the next: an edge is a hundredth of a picture, and a cloud is judged by it.
    """
    first = points[:, 0].norm(dim=-1)
    second = (points[:, 1] - pose[:, None, None, 9:]).norm(dim=-1)
    depth = torch.stack([first, second], 1).clamp_min(1e-4).log()
    high = F.max_pool2d(depth, 3, stride=1, padding=1)
    low = -F.max_pool2d(-depth, 3, stride=1, padding=1)
    # Slopes that go on are no jumps: twice the middle, less both sides.
    bent = (high + low - 2 * depth).abs() > 0.04
    near = F.max_pool2d(bent.float(), 3, stride=1, padding=1)
    weight = 1 + more * near
    return weight / weight.mean((2, 3), keepdim=True)


def points_loss(
    dpt1: Tensor, dpt2: Tensor, true: Tensor, known: Tensor, both: Tensor, pose: Tensor, alpha: float,
    unknown: float, weight: Tensor | None = None,
) -> Geometry:  # fmt: skip
    """Of raw outputs [B,4,N] and true points [B,2,N,3] where `known` [B,2,N]; `weight` [B,2,N] is of `plain`.

    Confidence-weighted regression, the error alone, the log error of the
    metric scale, rays of both cameras. The weighted loss alone tends to alpha
    log(error): confidence takes from hard pairs what it gives to easy ones.
    `pose` [B,12]: rotation and place of camera 2 in camera 1's frame.
    """
    (pred1, raw1), (pred2, raw2) = (points_and_conf(dpt[..., None]) for dpt in (dpt1, dpt2))
    pred1, pred2, raw1, raw2 = pred1[:, :, 0], pred2[:, :, 0], raw1[..., 0], raw2[..., 0]
    e1, e2, n, m = point_errors(pred1, pred2, true, both, known)
    # Of what is far behind the rest, as in a street, only the error relative to its distance can be small.
    near = (2 * m[:, None, None] / true.norm(dim=-1).clamp_min(1e-6)).clamp_max(1)
    e1, e2 = e1 * near[:, 0], e2 * near[:, 1]
    share, count = both.float(), known.float()

    def weighted(error: Tensor, raw: Tensor, there: Tensor) -> Tensor:
        conf = 1 + raw.exp()
        if unknown:
            error = torch.where(there, error, unknown)
            return (conf * error - alpha * conf.log()).mean(1)
        return ((conf * error - alpha * conf.log()) * there).mean(1)

    there2 = known[:, 1] & both[:, None]
    loss = (weighted(e1, raw1, known[:, 0]) + weighted(e2, raw2, there2)).mean()
    of = count if weight is None else count * weight
    plain = ((e1 * of[:, 0]).mean(1) + share * (e2 * of[:, 1]).mean(1)).sum() / (1 + share).sum()
    scale = (n / m).log().abs().mean()
    rays = ray_errors(pred1, true[:, 0], torch.ones_like(count[:, 0]), 0.03).mean()  # the sky has rays, too
    rot, place = pose[:, :9].unflatten(1, (3, 3)), pose[:, None, 9:]
    local = [torch.matmul(v - place, rot) for v in (pred2 * (m / n)[:, None, None], true[:, 1])]
    second = ray_errors(local[0], local[1], there2.float(), 0.15) * share
    return Geometry(loss, plain, scale, rays, second.clamp_max(2.0).sum() / share.sum().clamp_min(1))


class Samples(NamedTuple):
    """Pixels to compare. Entry k is one correspondence, or a pixel of one view without one."""

    index1: Tensor  # [B,K] linear pixel in view 1
    index2: Tensor  # [B,K]
    matched: Tensor  # [B,K] both are real and the same point
    real1: Tensor  # [B,K] index1 means something
    real2: Tensor
    partner: Tensor  # [B,K,2] its place between pixels: in view 2 for the first half, else in view 1


def _scattered(rng: Random, match: Tensor, count: int, seek: bool) -> tuple[Tensor, Tensor]:
    b, height, width, _ = match.shape
    x, y = rng.integers(width, b, count), rng.integers(height, b, count)
    if seek:
        # Where little of a picture is seen in the other, few samples would be matches.
        half = count // 2
        for _ in range(2):
            last = y[:, half:] * width + x[:, half:]
            found = torch.gather(match[..., 0].flatten(1), 1, last) >= 0
            x[:, half:] = torch.where(found, x[:, half:], rng.integers(width, b, count - half))
            y[:, half:] = torch.where(found, y[:, half:], rng.integers(height, b, count - half))
    return x, y


def _sample_pixels(rng: Random, match: Tensor, count: int, seek: bool) -> tuple[Tensor, Tensor]:
    """Half scattered over the image, half in 4x4 windows: near neighbours are the hard negatives."""
    b, height, width, _ = match.shape
    scattered = _scattered(rng, match, count, seek)
    windows = count // 16
    stride = rng.integers(2, b, windows, 1) + 1
    step = torch.arange(16, device=rng.device)
    x = rng.integers(width - 8, b, windows, 1) + stride * (step % 4)
    y = rng.integers(height - 8, b, windows, 1) + stride * (step // 4)
    return torch.cat([scattered[0], x.flatten(1)], 1), torch.cat([scattered[1], y.flatten(1)], 1)


def sample_matches(rng: Random, match: Tensor, count: int, seek: bool = False) -> Samples:
    """Draws from `match` [B,2,H,W,2] (see scenes.Rendered), `2 * count` pixels of each view."""
    b, _, height, width, _ = match.shape
    here, there, found, partners = [], [], [], []
    for view in (0, 1):
        x, y = _sample_pixels(rng, match[:, view], count, seek)
        index = y * width + x
        partner = torch.gather(match[:, view].flatten(1, 2), 1, index[..., None].expand(-1, -1, 2))
        nearest = partner.round().long()
        found.append(nearest[..., 0] >= 0)
        here.append(index)
        partners.append(partner)
        there.append((nearest[..., 1] * width + nearest[..., 0]).clamp_min(0))
    always = torch.ones_like(found[0])
    return Samples(
        torch.cat([here[0], there[1]], 1),
        torch.cat([there[0], here[1]], 1),
        torch.cat(found, 1),
        torch.cat([always, found[1]], 1),
        torch.cat([found[0], always], 1),
        torch.cat(partners, 1),
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


def interpolate_local(local: Tensor, at: Tensor) -> Tensor:
    """Unit descriptors [B,K,D] at places `at` [B,K,2]: bilinear in those of four pixels, normalised."""
    b, c, h, w = local.shape
    x, y = at[..., 0].clamp(0, w - 1), at[..., 1].clamp(0, h - 1)
    x0, y0 = x.floor().clamp_max(w - 2), y.floor().clamp_max(h - 2)
    fx, fy = x - x0, y - y0
    first = y0.long() * w + x0.long()
    index = torch.cat([first, first + 1, first + w, first + w + 1], 1)
    four = gather_local(local, index)[0].unflatten(1, (4, -1))
    weight = torch.stack([(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy], 1)
    return F.normalize((four * weight[..., None]).sum(1), dim=-1)


def sampled_local(local1: Tensor, local2: Tensor, s: Samples, fraction: bool) -> tuple[Tensor, ...]:
    """Descriptors and raw confidences of view 1, then of view 2, at the samples."""
    (desc1, conf1), (desc2, conf2) = gather_local(local1, s.index1), gather_local(local2, s.index2)
    if fraction:
        half = s.index1.shape[1] // 2
        desc2 = torch.cat([interpolate_local(local2, s.partner[:, :half]), desc2[:, half:]], 1)
        desc1 = torch.cat([desc1[:, :half], interpolate_local(local1, s.partner[:, half:])], 1)
    return desc1, conf1, desc2, conf2


@torch.no_grad()
def found_costs(desc: Tensor, other: Tensor, truth: Tensor, there: Tensor, unmatched: float) -> Tensor:
    """What the match that is really found is worth [B,F]: `unmatched` where it is wrong, else 0.4 and a
    little more a pixel of error. `desc` [B,F,D], `other` raw [B,C,H,W], `truth` [B,F,2].

    It is looked for among all pixels, as the runtime does. Among some of them only, as every second of every
    second row, partners of the others would be missing, and `desc_conf` would say which rows are odd.
    """
    width = other.shape[-1]
    flat = F.normalize(other[:, :-1].flatten(2), dim=1)
    if desc.is_cuda:
        desc, flat = desc.bfloat16(), flat.bfloat16()
    best = torch.bmm(desc, flat).argmax(-1)
    off = (torch.stack([best % width, best // width], -1) - truth).norm(dim=-1)
    return torch.where(there & (off < 3.5), 0.4 + 0.15 * off, unmatched)


def matching_loss(
    desc1: Tensor, conf1: Tensor, desc2: Tensor, conf2: Tensor, s: Samples, temperature: Tensor,
    alpha: float, unmatched: float, found: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """InfoNCE over the correspondences, and the calibration of desc_conf on all samples.

    The calibration sees the InfoNCE as a constant: q l - alpha log q is least
    at q = alpha / E[l], so that desc_conf says how sure a match is, and pixels
    without a partner, which enter with a large l, get a low one. `found`
    are costs of the matches that are really found, for the first pixels of
    each view: the InfoNCE only knows the competitors that were drawn.
    """
    l12, l21 = contrast(desc1, desc2, s, temperature)
    weight = s.matched.float()
    total = weight.sum().clamp_min(1)
    nce = ((l12 + l21) * weight).sum() / (2 * total)

    def calibrate(raw: Tensor, loss: Tensor, real: Tensor) -> Tensor:
        target = torch.where(s.matched, loss.detach(), unmatched)
        return ((raw.exp() * target - alpha * raw) * real).sum() / real.sum().clamp_min(1)

    calibration = calibrate(conf1, l12, s.real1) + calibrate(conf2, l21, s.real2)
    if found:
        half = s.index1.shape[1] // 2
        for raw, cost in ((conf1, found[0]), (conf2[:, half:], found[1])):
            raw = raw[:, : cost.shape[1]]
            calibration = calibration + (raw.exp() * cost - alpha * raw).mean()
    return nce, calibration


def objective(
    weights: LossWeights, raw1: Raw, raw2: Raw, points: Tensor, match: Tensor, both: Tensor, pose: Tensor,
    rng: Random, temperature: Tensor, flat: int = 0,
) -> tuple[Tensor, dict[str, Tensor]]:  # fmt: skip
    """All terms together, and each on its own. The last `flat` pairs are photographs, without points."""
    solid = slice(len(match) - flat)
    known = match[solid, ..., 0] > -1.5  # not the sky
    # One shape for pictures on end and across: the loss is compiled for each.
    weight = None
    if weights.edges:
        weight = edge_weights(points[solid], pose[solid], weights.edges).flatten(2)
    geometry = points_loss(
        raw1.dpt[solid].flatten(2), raw2.dpt[solid].flatten(2), points[solid].flatten(2, 3), known.flatten(2),
        both[solid], pose[solid], weights.conf_alpha, weights.unknown, weight,
    )  # fmt: skip
    s = sample_matches(rng, match, weights.samples, weights.seek)
    desc1, conf1, desc2, conf2 = sampled_local(raw1.local, raw2.local, s, weights.fraction)
    found = None
    if weights.found:
        first, half = slice(weights.found), s.index1.shape[1] // 2
        second = slice(half, half + weights.found)
        found = tuple(
            found_costs(desc[:, part], other, s.partner[:, part], s.matched[:, part], weights.unmatched)
            for desc, other, part in ((desc1, raw2.local, first), (desc2, raw1.local, second))
        )
    nce, calibration = matching_loss(
        desc1, conf1, desc2, conf2, s, temperature, weights.desc_conf_alpha, weights.unmatched, found
    )
    total = weights.points * geometry.weighted + weights.plain * geometry.plain + weights.nce * nce
    total = total + weights.scale * geometry.scale + weights.desc_conf * calibration
    total = total + weights.rays * geometry.rays + weights.pose * geometry.pose
    parts = {"loss": total, "points": geometry.plain, "nce": nce, "matched": s.matched.float().mean()}
    parts |= {"scale": geometry.scale, "rays": geometry.rays, "pose": geometry.pose}
    return total, {k: v.detach() for k, v in parts.items()}
