# SPDX-License-Identifier: Apache-2.0
"""A seeded source of random tensors on one device."""

from __future__ import annotations

import functools

import torch
from torch import Tensor


class Random:
    def __init__(self, seed: int, device: str | torch.device = "cpu"):
        self.device = torch.device(device)
        self.generator = torch.Generator(self.device).manual_seed(seed)

    def uniform(self, *shape: int, lo: float = 0.0, hi: float | Tensor = 1.0) -> Tensor:
        return torch.rand(*shape, generator=self.generator, device=self.device) * (hi - lo) + lo

    def log_uniform(self, *shape: int, lo: float, hi: float) -> Tensor:
        return lo * (hi / lo) ** self.uniform(*shape)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, device=self.device)

    def integers(self, below: int, *shape: int) -> Tensor:
        return torch.randint(below, shape, generator=self.generator, device=self.device)

    def chance(self, p: float, *shape: int) -> Tensor:
        return self.uniform(*shape) < p

    def permutation(self, n: int) -> Tensor:
        return torch.randperm(n, generator=self.generator, device=self.device)


@functools.cache
def constant(values: tuple, device: torch.device) -> Tensor:
    """A float tensor of fixed (nested) numbers, copied to the device only once.

    A copy from the host cannot be part of a CUDA graph.
    """
    return torch.tensor(values, dtype=torch.float32, device=device)
