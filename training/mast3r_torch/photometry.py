# SPDX-License-Identifier: Apache-2.0
"""What a camera does to a picture: exposure, colour, blur, sharpening, noise, JPEG."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .scenes import Random, constant

# Luminance quantisation of the JPEG standard (annex K), quality 50.
_JPEG_TABLE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)


def _dct_matrix(device: torch.device) -> Tensor:
    k = torch.arange(8, device=device, dtype=torch.float32)
    m = torch.cos((2 * k[None] + 1) * k[:, None] * math.pi / 16) * 0.5
    m[0] *= 0.5**0.5
    return m


def jpeg(x: Tensor, strength: Tensor) -> Tensor:
    """Quantises 8x8 DCT blocks of x [N,3,H,W] in 0..1; strength [N] scales the table, 0 is almost none."""
    n, c, h, w = x.shape
    dct = _dct_matrix(x.device)
    table = constant(_JPEG_TABLE, x.device) / 255
    step = (table * strength.view(n, 1, 1, 1, 1, 1)).clamp_min(1 / 1020)
    blocks = x.view(n, c, h // 8, 8, w // 8, 8).transpose(3, 4)
    coeff = dct @ blocks @ dct.T
    coeff = (coeff / step).round() * step
    return (dct.T @ coeff @ dct).transpose(3, 4).reshape(n, c, h, w)


def _blur(x: Tensor, amount: Tensor) -> Tensor:
    """Towards a 5x5 binomial blur; negative amounts sharpen."""
    k = constant((1.0, 4.0, 6.0, 4.0, 1.0), x.device) / 16
    c = x.shape[1]
    y = F.conv2d(F.pad(x, (2, 2, 0, 0), mode="replicate"), k.view(1, 1, 1, 5).expand(c, 1, 1, 5), groups=c)
    y = F.conv2d(F.pad(y, (0, 0, 2, 2), mode="replicate"), k.view(1, 1, 5, 1).expand(c, 1, 5, 1), groups=c)
    return torch.lerp(x, y, amount)


def _strong_blur(x: Tensor, amount: Tensor) -> Tensor:
    """Towards a blur of about four pixels, by way of a smaller picture."""
    h, w = x.shape[-2:]
    small = F.avg_pool2d(x, 8, stride=4, padding=2, count_include_pad=False)
    return torch.lerp(x, F.interpolate(small, (h, w), mode="bilinear", align_corners=False), amount)


def _falloff(rng: Random, share: float, n: int, h: int, w: int) -> Tensor:
    """Factors [N,1,H,W] by which lenses darken corners, to a half; 1 for most."""
    y, x = (torch.linspace(-1, 1, k, device=rng.device) * k for k in (h, w))
    square = (x.square()[None] + y.square()[:, None]) / (w * w + h * h)  # 1 in the corners
    strength = rng.uniform(n, 1, 1, 1, hi=0.5) * rng.chance(share, n, 1, 1, 1)
    return 1 - strength * square


def develop(rng: Random, linear: Tensor, hard: float = 0.0, vignette: float = 0.0) -> Tensor:
    """Linear renderings [B,2,3,H,W] to network inputs [B,2,3,H,W] in -1..1.

    Every view is exposed on its own; black-and-white and a share of the
    colour cast are common to a pair, as they are with one camera. `hard` is
    the share of views with each of the worse faults: exposure wrong by up to
    two stops, strong blur, noise of 50 of 255, JPEG of quality 4. `vignette`
    is the share of views that are darker towards their corners.
    """
    b, _, _, h, w = linear.shape
    x = linear.flatten(0, 1)
    n = 2 * b
    if vignette:
        x = x * _falloff(rng, vignette, n, h, w)
    # Auto-exposure to a mid grey, missed by about a third of a stop.
    level = x.mean((1, 2, 3), keepdim=True).clamp_min(0.02)
    exposure = 0.35 * rng.normal(n, 1, 1, 1)
    if hard:
        wrong = rng.uniform(n, 1, 1, 1, lo=-2, hi=1.5)
        exposure = torch.where(rng.chance(hard, n, 1, 1, 1), wrong, exposure)
        # The textures are gaudier than the world; pictures of one camera share their saturation.
        pale = rng.uniform(b, 1, 1, 1, 1, hi=0.8).expand(b, 2, 1, 1, 1).reshape(n, 1, 1, 1)
        x = torch.lerp(x, x.mean(1, keepdim=True), pale)
    x = x / level * 0.42 * torch.exp2(exposure)
    cast = torch.exp(0.06 * rng.normal(b, 1, 3, 1, 1) + 0.05 * rng.normal(b, 2, 3, 1, 1)).flatten(0, 1)
    x = (x * cast).clamp(0, 4)
    x = torch.where(x > 0.8, 0.8 + 0.2 * torch.tanh((x - 0.8) / 0.2), x)  # a shoulder instead of clipping
    x = x.clamp_min(1e-4) ** torch.exp(0.22 * rng.normal(n, 1, 1, 1) - 0.3)
    x = (x - 0.5) * rng.uniform(n, 1, 1, 1, lo=0.75, hi=1.2) + 0.5
    grey = rng.chance(0.1, b, 1, 1, 1, 1).expand(b, 2, 1, 1, 1).reshape(n, 1, 1, 1)
    x = torch.where(grey, x.mean(1, keepdim=True), x)
    x = _blur(x, rng.uniform(n, 1, 1, 1, lo=-0.5, hi=1.0))
    if hard:
        x = _strong_blur(x, rng.uniform(n, 1, 1, 1) * rng.chance(hard, n, 1, 1, 1))
    noise = rng.normal(n, 3, h, w)
    grain = torch.where(rng.chance(0.5, n, 1, 1, 1), noise, noise[:, :1])
    sigma = rng.uniform(n, 1, 1, 1, hi=0.035) ** 1.5 * 5
    quantum = rng.uniform(n, hi=1.0) * rng.chance(0.5, n)
    if hard:
        sigma = torch.where(rng.chance(hard, n, 1, 1, 1), rng.uniform(n, 1, 1, 1, lo=0.03, hi=0.2), sigma)
        quantum = torch.where(rng.chance(hard, n), rng.log_uniform(n, lo=1, hi=12), quantum)
    x = (x + grain * sigma).clamp(0, 1)
    x = jpeg(x, quantum)
    return (x.clamp(0, 1) * 2 - 1).view(b, 2, 3, h, w)
