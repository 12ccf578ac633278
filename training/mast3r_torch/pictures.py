# SPDX-License-Identifier: Apache-2.0
"""Pairs of one whole photograph: two cameras before it, as before a poster.

What matches is known exactly, and the picture is that of the world, not of
something rendered. The points would be those of a plane, which is not what
the photograph shows, so only descriptors learn from such pairs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .scenes import Random, constant
from .scenes.sampler import look_at

_LEVELS = 6


class Cameras(NamedTuple):
    """Cameras [B,2] before the plane z = 0, on which a picture reaches from -aspect to aspect and -1 to 1."""

    eye: Tensor  # [B,2,3], z < 0
    rot: Tensor  # [B,2,3,3] camera to world
    focal: Tensor  # [B,2] pixels
    aspect: Tensor  # [B]


def draw_cameras(rng: Random, aspect: Tensor, height: int, width: int) -> Cameras:
    """One view shows up to five times less than the other; tilts to 70 degrees, turns by any angle."""
    b = len(aspect)
    view = rng.uniform(b, 2, lo=14, hi=36) * (math.pi / 180)
    focal = max(height, width) / (2 * view.tan())
    # Half the height that is seen at the point that is looked at.
    zoom = torch.where(rng.chance(0.5, b), rng.log_uniform(b, lo=1.25, hi=5), rng.uniform(b, lo=1, hi=1.25))
    small = rng.log_uniform(b, lo=0.16, hi=0.6)
    large = (small * zoom).clamp_max(0.95)
    first = rng.chance(0.5, b)
    seen = torch.stack([torch.where(first, small, large), torch.where(first, large, small)], 1)
    # The narrow view lies within the wide one, more or less.
    limit = torch.stack([aspect, torch.ones_like(aspect)], 1) * 0.75
    middle = rng.uniform(b, 2, lo=-1, hi=1) * (limit - 0.5 * large[:, None]).clamp_min(0.05)
    aim = middle[:, None] + rng.normal(b, 2, 2) * 0.25 * large.view(b, 1, 1)
    steep = rng.chance(0.3, b, 1) & (torch.arange(2, device=rng.device) == rng.integers(2, b, 1))
    tilt = torch.where(steep, rng.uniform(b, 2, lo=30, hi=70), rng.uniform(b, 2, hi=30)) * (math.pi / 180)
    way = rng.uniform(b, 2, hi=2 * math.pi)
    out = torch.stack([tilt.sin() * way.cos(), tilt.sin() * way.sin(), -tilt.cos()], -1)
    target = F.pad(aim, (0, 1))
    distance = seen * focal / (min(height, width) / 2)
    eye = target + distance[..., None] * out
    roll = 0.15 * rng.normal(b, 2)
    free = rng.uniform(b, lo=-math.pi, hi=math.pi)
    quarter = free.sign() * math.pi / 2 * (1 + rng.chance(0.4, b).float()) + roll[:, 1]
    turned = torch.where(rng.chance(0.5, b), free, quarter)
    roll[:, 1] = torch.where(rng.chance(0.35, b), turned, roll[:, 1])
    rot = look_at(eye.flatten(0, 1), target.flatten(0, 1), roll.flatten()).unflatten(0, (b, 2))
    return Cameras(eye, rot, focal, aspect)


def see(cams: Cameras, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Where each pixel looks on the plane [B,2,H,W,2], and its pixel in the other view, -1: none."""
    device = cams.eye.device
    y, x = torch.meshgrid(
        torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij"
    )
    middle = constant(((width - 1) / 2, (height - 1) / 2), device)
    focal = cams.focal[..., None, None, None]
    flat = (torch.stack([x, y], -1) - middle) / focal
    ray = torch.einsum("bvij,bvhwj->bvhwi", cams.rot, F.pad(flat, (0, 1), value=1.0))
    eye = cams.eye[:, :, None, None]
    ahead = ray[..., 2] > 1e-3
    reach = -eye[..., 2] / ray[..., 2].clamp_min(1e-3)
    point = eye + ray * reach[..., None]
    local = torch.einsum("bvji,bvhwj->bvhwi", cams.rot.flip(1), point - eye.flip(1))
    there = local[..., :2] / local[..., 2:].clamp_min(1e-3) * focal.flip(1) + middle
    limit = torch.stack([cams.aspect, torch.ones_like(cams.aspect)], -1)[:, None, None, None]
    place = point[..., :2] / limit
    inside = (place.abs() < 1).all(-1) & ahead
    within = ((there >= 0) & (there <= 2 * middle)).all(-1) & (local[..., 2] > 1e-3)
    return torch.where(ahead[..., None], place, 2.0), torch.where((inside & within)[..., None], there, -1.0)


def boards(count: int, device: torch.device) -> list[Tensor]:
    """Chessboards [3,H,W] with a margin, of 5 to 9 squares a side.

    All their squares look alike, and only the board's ends tell which is which.
    """
    rng, out = Random(1, "cpu"), []
    for k in range(count):
        across, down, cell = 5 + k % 5, 5 + (k * 3) % 4, 48
        y, x = torch.meshgrid(torch.arange(down * cell), torch.arange(across * cell), indexing="ij")
        dark = ((x // cell + y // cell) % 2 == 0)[None]
        paint, paper = rng.uniform(3, 1, 1, hi=0.35), rng.uniform(3, 1, 1, lo=0.7)
        board = torch.where(dark, paint, paper)
        out.append(F.pad(board, (cell,) * 4, value=float(paper.mean())).to(device))
    return out


class Pictures:
    """Photographs on a device, as squares of `size` pixels with all smaller levels, and some chessboards."""

    def __init__(self, photos: list[Tensor], size: int):
        if not photos:
            raise ValueError("pictures: no photographs")
        photos = photos + boards(math.ceil(len(photos) / 8), photos[0].device)
        self.size, device = size, photos[0].device
        squares = [
            F.interpolate(p[None], (size, size), mode="bilinear", antialias=True, align_corners=False)
            for p in photos
        ]
        level = torch.cat(squares)
        self.levels = []
        for _ in range(_LEVELS):
            self.levels.append(level.contiguous())
            if level.shape[-1] < 16:
                break
            level = F.avg_pool2d(level, 2)
        shape = [min(max(p.shape[2] / p.shape[1], 0.5), 2.0) for p in photos]
        self.aspect = torch.tensor(shape, device=device)

    def _look(self, index: Tensor, place: Tensor) -> Tensor:
        """Pictures [N,3,H,W] of photographs `index` [N] at places [N,H,W,2] in -1..1, without aliasing."""
        step = [F.pad(place.diff(dim=2), (0, 0, 0, 1)), F.pad(place.diff(dim=1), (0, 0, 0, 0, 0, 1))]
        texels = (step[0].norm(dim=-1) * step[1].norm(dim=-1)).clamp_min(1e-12).sqrt() * self.size / 2
        lod = texels.log2().clamp(0, len(self.levels) - 1)[:, None]
        out = torch.zeros(len(index), 3, *place.shape[1:3], device=place.device)
        for k, level in enumerate(self.levels):
            weight = (1 - (lod - k).abs()).clamp_min(0)
            sampled = F.grid_sample(level[index], place, mode="bilinear", padding_mode="reflection",
                                    align_corners=False)  # fmt: skip
            out = out + weight * sampled
        return out

    def pairs(self, rng: Random, count: int, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Linear images [B,2,3,H,W] and their matches [B,2,H,W,2], as `Rendered` has them."""
        index = rng.integers(len(self.aspect), count)
        cams = draw_cameras(rng, self.aspect[index], height, width)
        place, match = see(cams, height, width)
        outside = (place.abs() >= 1).any(-1).flatten(0, 1)[:, None]
        flat = place.flatten(0, 1).clamp(-1, 1)
        image = self._look(index[:, None].expand(-1, 2).flatten(), flat)
        # Round the poster lies something else in each view, as far away as it is.
        around = rng.integers(len(self.aspect), 2 * count)
        grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, width, device=rng.device),
                                          torch.linspace(-1, 1, height, device=rng.device),
                                          indexing="xy"), -1)  # fmt: skip
        other = self._look(around, (0.9 * grid).expand(2 * count, -1, -1, -1))
        image = torch.where(outside, other, image)
        # The camera's curve is undone: develop() puts its own.
        return image.clamp(1e-4, 1).pow(1.35).unflatten(0, (count, 2)), match
