# SPDX-License-Identifier: Apache-2.0
"""Batches of training pairs: rendered ones, then those of photographs."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .photometry import develop
from .pictures import Pictures
from .scenes import CameraMix, Meshes, MeshMix, Random, SceneMix, Textures, relative_pose, render, sample


class Batch(NamedTuple):
    images: Tensor  # [B,2,3,H,W] in -1..1
    points: Tensor  # [B,2,H,W,3], see scenes.Rendered; 0 in pairs of photographs, which come last
    match: Tensor  # [B,2,H,W,2]
    both: Tensor  # [B] the views overlap
    pose: Tensor  # [B,12] rotation and place of camera 2 in camera 1's frame


def scene_mix(settings: dict) -> SceneMix:
    """From a configuration's table, of which `furniture` is a table of its own."""
    furniture = MeshMix(**settings.get("furniture", {}))
    return SceneMix(**{**settings, "furniture": furniture})


def flat_pairs(share: float, batch: int) -> int:
    """How many pairs of a batch are photographs."""
    return min(round(share * batch), batch - 1)


def _estrange(share: float, images: Tensor, match: Tensor, both: Tensor) -> None:
    """The last few pairs get the second view of the first few."""
    count = min(math.ceil(share * len(images)), len(images) // 2)
    if count:
        both[-count:] = False
        images[-count:, 1] = images[:count, 1].clone()
        match[-count:] = match[-count:].clamp_max(-1)


class Source:
    """Batches of one process. `config` is a train.Config."""

    def __init__(
        self, config, rank: int, device: torch.device, photos: list[Tensor], skip: int,
        meshes: Meshes | None = None, whole: list[Tensor] | None = None,
    ):  # fmt: skip
        """`photos` are what textures are cut from, `whole` what pairs of one photograph show."""
        self.config, self.meshes = config, meshes
        self.rng = Random(config.seed * 1000 + rank + 7919 * skip, device)
        self.scenes = scene_mix(config.scenes)
        if self.scenes.furniture.any and meshes is None:
            raise ValueError("train: the configuration has meshes, want --meshes")
        if config.photographs and not whole:
            raise ValueError("train: the configuration has photographs, want --photographs")
        fixed = meshes.pictures if meshes else None
        self.textures = Textures(
            self.rng, config.textures, config.texture_size, photos, self.scenes.facades, fixed
        )
        self.pictures = Pictures(whole, config.picture_size) if config.photographs else None

    def _rendered(self, height: int, width: int, batch: int, reach: Tensor) -> Batch:
        config, rng = self.config, self.rng
        mix = CameraMix(reach=reach, **config.cameras)
        counts = self.textures.count, len(self.textures.heights)
        scenes = sample(rng, batch, height, width, *counts, mix, self.scenes, meshes=self.meshes)
        drawn = render(*scenes, self.textures, height, width, config.spp, self.meshes)
        images = develop(rng, drawn.image, config.hard, config.vignette)
        seen = (drawn.match[..., 0] >= 0).float().mean((2, 3)).amax(1)
        both = seen >= config.overlap
        _estrange(config.no_overlap, images, drawn.match, both)
        return Batch(images, drawn.points, drawn.match, both, relative_pose(scenes.cams))

    def _photographed(self, height: int, width: int, batch: int) -> Batch:
        config, rng = self.config, self.rng
        linear, match = self.pictures.pairs(rng, batch, height, width)
        images = develop(rng, linear, config.hard, config.vignette)
        both = torch.ones(batch, dtype=torch.bool, device=rng.device)
        _estrange(config.no_overlap, images, match, both)
        nowhere = torch.zeros(batch, 2, height, width, 3, device=rng.device)
        return Batch(images, nowhere, match, both, torch.zeros(batch, 12, device=rng.device))

    def next(self, shape: tuple[int, int, int], reach: Tensor) -> Batch:
        """Pairs of `shape` (width, height, batch); the last flat_pairs() of them are photographs."""
        width, height, batch = shape
        flat = flat_pairs(self.config.photographs, batch)
        drawn = self._rendered(height, width, batch - flat, reach)
        if not flat:
            return drawn
        parts = zip(drawn, self._photographed(height, width, flat), strict=True)
        return Batch(*(torch.cat(pair) for pair in parts))
