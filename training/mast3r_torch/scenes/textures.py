# SPDX-License-Identifier: Apache-2.0
"""Textures: spectral noise, dead leaves, cells, stripes, plain paint, photographs."""

from __future__ import annotations

import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from . import native
from .rng import Random

HEIGHT_SIZE = 128


def load_photos(folder: str | Path, device: str | torch.device = "cpu") -> list[Tensor]:
    """All pictures of a folder as [3,H,W] in 0..1, in the order of their names."""
    import numpy as np
    from PIL import Image

    photos = []
    for path in sorted(Path(folder).iterdir()):
        if path.suffix.lower() in (".jpg", ".jpeg", ".png"):
            pixels = np.array(Image.open(path).convert("RGB"), np.float32) / 255
            photos.append(torch.from_numpy(pixels).permute(2, 0, 1).contiguous().to(device))
    return photos


def spectral(rng: Random, n: int, size: int, channels: int = 3) -> Tensor:
    """Gaussian noise with a power-law spectrum, mean 0 and deviation 1."""
    device = rng.device
    fy = torch.fft.fftfreq(size, device=device)[:, None]
    fx = torch.fft.rfftfreq(size, device=device)[None]
    radius = (fx**2 + fy**2).sqrt().clamp_min(1 / size)
    exponent = rng.uniform(n, 1, 1, 1, lo=0.6, hi=1.7)
    shape = (n, channels, size, size // 2 + 1)
    z = torch.complex(rng.normal(*shape), rng.normal(*shape)) * radius ** (-exponent)
    z[..., 0, 0] = 0
    noise = torch.fft.irfft2(z, s=(size, size))
    return noise / noise.std(dim=(1, 2, 3), keepdim=True)


def coloured_noise(rng: Random, n: int, size: int) -> Tensor:
    mix = torch.eye(3, device=rng.device) * rng.uniform(n, 3, 1, lo=0.2) + rng.uniform(n, 3, 3, hi=0.6)
    noise = torch.einsum("nij,njhw->nihw", mix, spectral(rng, n, size))
    return 0.5 + 0.22 * noise + rng.uniform(n, 3, 1, 1, lo=-0.3, hi=0.3)


def leaves(rng: Random, n: int, size: int, count: int) -> Tensor:
    """Opaque shapes with a power law of sizes: occlusion statistics like the world's."""
    layout = native.LAYOUT
    out = torch.empty(n, count, layout["LEAF_FLOATS"], device=rng.device)
    out[..., layout["LEAF_KIND"]] = rng.integers(3, n, count).float()
    out[..., 1:3] = rng.uniform(n, count, 2)
    angle = rng.uniform(n, count, hi=2 * math.pi)
    out[..., 3], out[..., 4] = angle.cos(), angle.sin()
    # Radii r with density r^-3 between 1/100 and 0.35 of the tile, larger ones below.
    lo = rng.uniform(n, 1, lo=0.008, hi=0.05)
    radius = (lo**-2 + rng.uniform(n, count) * (0.35**-2 - lo**-2)) ** -0.5
    out[..., 5] = radius
    out[..., 6] = radius * torch.exp(rng.uniform(n, count, lo=-1.6, hi=0.0))
    palette = rng.uniform(n, 6, 3)
    pick = rng.integers(6, n, count, 1).expand(-1, -1, 3)
    near_palette = torch.gather(palette, 1, pick) + 0.1 * rng.normal(n, count, 3)
    free = rng.uniform(n, count, 3)
    out[..., 7:10] = torch.where(rng.uniform(n, 1, 1) < 0.5, near_palette.clamp(0, 1), free)
    out[..., 10] = rng.normal(n, count) * 0.25 * (rng.uniform(n, 1) < 0.6)
    out[..., 11] = 0
    return F.avg_pool2d(native.dead_leaves(out, 2 * size), 2)


def cells(rng: Random, n: int, size: int) -> Tensor:
    count = 64
    side = int(count**0.5)
    grid = torch.stack(
        torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij"), -1
    ).reshape(1, count, 2).to(rng.device)  # fmt: skip
    # Jitter from a regular tiling (0) to free sites (1), brick-like shifts between rows.
    jitter = rng.uniform(n, 1, 1) ** 2
    shift = (grid[..., :1] % 2) * 0.5 * (rng.uniform(n, 1, 1) < 0.5)
    sites = (grid + torch.cat([torch.zeros_like(shift), shift], -1) + jitter * rng.normal(n, count, 2)) / side
    base = rng.uniform(n, 1, 3)
    colour = base + rng.uniform(n, 1, 1, lo=0.05, hi=0.6) * rng.normal(n, count, 3)
    grout = rng.uniform(n, lo=-0.02, hi=0.03)
    sites = torch.cat([sites, colour.clamp(0, 1)], -1).contiguous()
    return F.avg_pool2d(native.cells(sites, grout, 2 * size), 2)


def stripes(rng: Random, n: int, size: int) -> Tensor:
    """Stripes and checks, straight or warped by noise."""
    t = torch.arange(size, device=rng.device) * (2 * math.pi / size)
    warp = spectral(rng, n, size, 1)[:, 0] * rng.uniform(n, 1, 1, hi=1.0) * (rng.uniform(n, 1, 1) < 0.4)
    fx, fy = (rng.integers(14, n, 1, 1) + 2 for _ in range(2))
    across = torch.sin(t * fx + warp + rng.uniform(n, 1, 1, hi=6))
    along = torch.where(
        rng.uniform(n, 1, 1) < 0.5, torch.sin(t[:, None] * fy + warp), torch.ones_like(across)
    )
    mask = (across * along > rng.uniform(n, 1, 1, lo=-0.6, hi=0.6))[:, None]
    return torch.where(mask, rng.uniform(n, 3, 1, 1), rng.uniform(n, 3, 1, 1))


def plain(rng: Random, n: int, size: int) -> Tensor:
    """Paint and plaster: almost one colour. Real rooms are full of it."""
    return rng.uniform(n, 3, 1, 1, lo=0.15, hi=0.95) + rng.uniform(n, 1, 1, 1, hi=0.04) * spectral(
        rng, n, size
    )


def facades(rng: Random, n: int, size: int) -> Tensor:
    """Walls with 2 to 4 rows of equal windows a tile; texture i has 2 + i % 3."""
    count = (torch.arange(n, device=rng.device) % 3 + 2).view(n, 1, 1).float()
    at = (torch.arange(size, device=rng.device) + 0.5) / size
    u, v = at.view(1, 1, size) * count, at.view(1, size, 1) * count
    x, y = u - u.floor() - 0.5, v - v.floor() - 0.5
    wide, high = rng.uniform(n, 1, 1, lo=0.15, hi=0.4), rng.uniform(n, 1, 1, lo=0.2, hi=0.42)
    frame = rng.uniform(n, 1, 1, lo=0.02, hi=0.07)
    inside = (x.abs() < wide) & (y.abs() < high)
    glass = (x.abs() < wide - frame) & (y.abs() < high - frame)
    cross = ((x.abs() < 0.4 * frame) | ((y + 0.3 * high).abs() < 0.4 * frame)) & rng.chance(0.7, n, 1, 1)
    courses = rng.integers(20, n, 1, 1) + 6.0  # of bricks in a storey
    joint = ((v * courses) % 1 < 0.15) | (((u * courses / 2 + 0.5 * ((v * courses).floor() % 2)) % 1) < 0.08)
    wall = rng.uniform(n, 3, 1, 1, lo=0.3, hi=0.9) * (1 + 0.1 * spectral(rng, n, size, 1))
    wall = wall * (1 - rng.uniform(n, 1, 1, 1, hi=0.35) * (joint & rng.chance(0.6, n, 1, 1))[:, None])
    ledge = (v - v.floor() > 0.96) & rng.chance(0.5, n, 1, 1)
    wall = torch.where(ledge[:, None], 1.15 * wall, wall)
    # Curtains and reflections: the panes of one wall differ a little.
    cell = (v.floor() * 4 + u.floor()).long().expand(n, size, size)
    pane = torch.gather(rng.uniform(n, 16, lo=0.05, hi=0.5), 1, cell.flatten(1)).view(n, 1, size, size)
    pane = pane * rng.uniform(n, 3, 1, 1, lo=0.7, hi=1.0) + 0.1 * spectral(rng, n, size, 1)
    paint = rng.uniform(n, 3, 1, 1, lo=0.1, hi=1.0)
    out = torch.where(inside[:, None], paint, wall)
    return torch.where((glass & ~cross)[:, None], pane, out)


def photo_crops(rng: Random, n: int, size: int, photos: list[Tensor]) -> Tensor:
    """Random squares of photographs, mirrored, recoloured and sometimes rotated in hue."""
    out = torch.empty(n, 3, size, size, device=rng.device)
    draws = rng.uniform(n, 6).tolist()
    for i, (which, extent, y, x, flip, swap) in enumerate(draws):
        photo = photos[int(which * len(photos))]
        h, w = photo.shape[1:]
        side = max(16, int(min(h, w) * (0.25 + 0.75 * extent)))
        top, left = int(y * (h - side + 1)), int(x * (w - side + 1))
        crop = photo[None, :, top : top + side, left : left + side]
        crop = F.interpolate(crop, (size, size), mode="bilinear", align_corners=False, antialias=side > size)[
            0
        ]
        crop = crop.flip(-1) if flip < 0.5 else crop
        out[i] = crop.roll(int(swap * 6), 0) if swap < 0.5 else crop
    contrast = rng.uniform(n, 1, 1, 1, lo=0.7, hi=1.3)
    return ((out - 0.5) * contrast + 0.5 + rng.uniform(n, 3, 1, 1, lo=-0.12, hi=0.12)).clamp(0, 1)


class Textures:
    """An atlas of tiling textures with mip levels, and height maps for reliefs.

    `fixed` [K,3,size,size] lie after the `count` that are drawn anew: the textures of meshes.
    """

    def __init__(
        self,
        rng: Random,
        count: int,
        size: int,
        photos: list[Tensor] | None = None,
        facades: int = 0,
        fixed: Tensor | None = None,
    ):
        if size & (size - 1) or size < 16:
            raise ValueError(f"scenes: texture size {size}, want a power of two from 16")
        self.count, self.size, self.photos = count, size, photos or []
        self.facades = facades  # the last of the atlas
        self.levels = size.bit_length() - 2  # down to 4x4
        more, stride = 0 if fixed is None else len(fixed), sum((size >> i) ** 2 for i in range(self.levels))
        self.texels = torch.empty(count + more, stride, 4, dtype=torch.uint8, device=rng.device)
        if fixed is not None:
            self.texels[count:] = self._levels(fixed)
        self.heights = torch.empty(32, HEIGHT_SIZE, HEIGHT_SIZE, device=rng.device)
        self.refresh(rng)

    def _make(self, rng: Random) -> Tensor:
        size, groups = self.size, []
        rest = count = self.count - self.facades
        shares = [(coloured_noise, 0.13), (cells, 0.1), (stripes, 0.08), (plain, 0.07)]
        if self.photos:
            shares.append((lambda r, n, s: photo_crops(r, n, s, self.photos), 0.3))
        for make, share in shares:
            n = max(1, int(share * count))
            groups.append(make(rng, n, size))
            rest -= n
        if rest < 2:
            raise ValueError(f"scenes: {count} textures, want at least 12")
        groups.append(leaves(rng, rest // 2, size, 400))
        groups.append(leaves(rng, rest - rest // 2, size, 60))
        tex = torch.cat(groups)
        # Independent colour channels are gaudier than the world: most textures lose colour.
        grey = tex.mean(1, keepdim=True)
        tex = torch.lerp(tex, grey, rng.uniform(count, 1, 1, 1) ** 0.6)
        # Grain on most of them, so that inside a uniform patch there is something to match.
        grain = rng.uniform(count, 1, 1, 1, hi=0.14) * (rng.uniform(count, 1, 1, 1) < 0.7)
        return tex + grain * spectral(rng, count, size)

    def _levels(self, level: Tensor) -> Tensor:
        """All mip levels of textures [N,3,size,size], as bytes."""
        level = level.clamp(0, 1)
        mips = []
        for _ in range(self.levels):
            texels = (level * 255).round().to(torch.uint8).flatten(2).transpose(1, 2)
            mips.append(F.pad(texels, (0, 1)))  # four bytes a texel
            level = F.avg_pool2d(level, 2)
        return torch.cat(mips, 1)

    def refresh(self, rng: Random) -> None:
        """Draws the whole atlas anew, in place: CUDA graphs hold its address."""
        level = self._make(rng)[rng.permutation(self.count - self.facades)]
        if self.facades:
            level = torch.cat([level, facades(rng, self.facades, self.size)])
        self.texels[: self.count].copy_(self._levels(level))
        smooth = spectral(rng, 24, HEIGHT_SIZE, 1)[:, 0]
        steps = leaves(rng, 8, HEIGHT_SIZE, 40)[:, 0]
        self.heights.copy_(torch.cat([torch.sigmoid(1.5 * smooth), steps.clamp(0, 1)]))
