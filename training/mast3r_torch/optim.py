# SPDX-License-Identifier: Apache-2.0
"""Optimisers: AdamW, or Muon for the matrices of the transformer and AdamW for the rest."""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor, nn

# Quintic Newton-Schulz coefficients (K. Jordan, "Muon", 2024): they push all
# singular values near 1 in five steps rather than converging exactly.
_NS = (3.4445, -4.7750, 2.0315)


def orthogonalise(g: Tensor, steps: int = 5) -> Tensor:
    """Nearly the orthogonal factor of each matrix of g [n,rows,cols]."""
    x = g.bfloat16() if g.is_cuda else g
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = _NS
    for _ in range(steps):
        s = x @ x.mT
        x = a * x + (b * s + c * s @ s) @ x
    return (x.mT if tall else x).to(g.dtype)


class Muon:
    """Momentum, orthogonalised a matrix at a time and scaled to the size of Adam's steps.

    Matrices of one shape are stacked, so that a step is a few batched
    products. A fused qkv weight counts as three matrices.
    """

    def __init__(
        self, params: list[tuple[str, nn.Parameter]], momentum: float = 0.95, weight_decay: float = 0.05
    ):
        self.momentum, self.weight_decay = momentum, weight_decay
        groups: dict[tuple[int, int], list[tuple[nn.Parameter, int]]] = defaultdict(list)
        for name, p in params:
            pieces = 3 if name.endswith("qkv.weight") else 1
            groups[(p.shape[0] // pieces, p.shape[1])].append((p, pieces))
        self.groups = list(groups.items())
        self.buffers = [
            torch.zeros(sum(k for _, k in members), *shape, device=members[0][0].device)
            for shape, members in self.groups
        ]

    @torch.no_grad()
    def step(self, lr: Tensor) -> None:
        for (shape, members), buffer in zip(self.groups, self.buffers, strict=True):
            grad = torch.cat([p.grad.view(k, *shape) for p, k in members])
            buffer.lerp_(grad, 1 - self.momentum)
            update = orthogonalise(grad.lerp(buffer, self.momentum)) * (lr * (0.2 * max(shape) ** 0.5))
            pieces = update.split([k for _, k in members])
            params = [p for p, _ in members]
            torch._foreach_mul_(params, 1 - lr * self.weight_decay)
            torch._foreach_sub_(params, [u.reshape(p.shape) for u, p in zip(pieces, params)])

    def state(self) -> list[Tensor]:
        return self.buffers

    def load(self, buffers: list[Tensor]) -> None:
        for mine, theirs in zip(self.buffers, buffers, strict=True):
            mine.copy_(theirs)


class Optimiser:
    """`lr` is a tensor of one element that the caller sets: a CUDA graph reads it anew each step."""

    def __init__(self, params: dict[str, nn.Parameter], kind: str, weight_decay: float, lr: Tensor):
        if kind not in ("adamw", "muon"):
            raise ValueError(f"optim: kind {kind!r}, want adamw or muon")
        named = list(params.items())
        matrices = [(n, p) for n, p in named if kind == "muon" and p.ndim == 2 and "blocks" in n]
        taken = {n for n, _ in matrices}
        rest = [(n, p) for n, p in named if n not in taken]
        groups = [{"params": [p for _, p in rest if p.ndim > 1], "weight_decay": weight_decay}]
        groups.append({"params": [p for _, p in rest if p.ndim <= 1], "weight_decay": 0.0})
        self.lr, cuda = lr, lr.is_cuda
        self.adam = torch.optim.AdamW(
            groups, lr=lr, betas=(0.9, 0.95), fused=cuda, capturable=cuda, foreach=False
        )
        self.muon = Muon(matrices, weight_decay=weight_decay) if matrices else None

    def step(self) -> None:
        self.adam.step()
        if self.muon:
            self.muon.step(self.lr)

    def state(self) -> dict:
        return {"adam": self.adam.state_dict(), "muon": self.muon.state() if self.muon else []}

    def load(self, state: dict) -> None:
        if self.adam.state:  # in place: CUDA graphs hold the addresses
            params = [p for group in self.adam.param_groups for p in group["params"]]
            for index, saved in state["adam"]["state"].items():
                for key, value in saved.items():
                    self.adam.state[params[index]][key].copy_(value)
        else:
            self.adam.load_state_dict(state["adam"])
            for group in self.adam.param_groups:
                group["lr"] = self.lr
        if self.muon:
            self.muon.load(state["muon"])
