# SPDX-License-Identifier: Apache-2.0
"""A deeper network, with a wider descriptor layer, that starts as the same function as a smaller one."""

from __future__ import annotations

import re
from dataclasses import replace

import torch
from torch import Tensor

from .model import Dims

_BLOCK = re.compile(r"(enc_blocks|dec_blocks2?)\.(\d+)\.(.*)")
# The last layer of each branch of a block: where it is zero, the block hands on its input.
_LAST = re.compile(r"(attn\.proj|cross_attn\.proj|mlp\.fc2)\.(weight|bias)")


def spread(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[int, bool]]:
    """For each block of the deeper stack: the block that it copies, and whether it is that block itself.

    `old` and `new` are the depths at which the same levels are read, from 0
    to the end. Between two of them the old blocks keep their order, evenly
    spread, and each new one follows the block that it copies.
    """
    out: list[tuple[int, bool]] = []
    for (a, b), (c, d) in zip(zip(old, old[1:]), zip(new, new[1:]), strict=True):
        have, want = b - a, d - c
        if want < have:
            raise ValueError(f"growth: {want} blocks between two levels that are read, want at least {have}")
        sources = [a + k * have // want for k in range(want)]
        out += [(s, k == 0 or sources[k - 1] != s) for k, s in enumerate(sources)]
    return out


def grow(tensors: dict[str, Tensor], old: Dims, new: Dims) -> dict[str, Tensor]:
    """Weights of the network `new` that computes what `tensors` compute in `old`.

    Only the depths and `local_hidden` may differ. A block more is a copy of
    the one before it whose branches end in zeros: it changes nothing yet, and
    learns from the first step. So does a hidden unit more: it reads the
    tokens at random, and nothing is read from it.
    """
    if replace(old, enc_depth=new.enc_depth, dec_depth=new.dec_depth, local_hidden=new.local_hidden) != new:
        raise ValueError(f"growth: {old}, want {new} but for the depths and local_hidden")
    if new.local_hidden < old.local_hidden:
        raise ValueError(f"growth: local_hidden {new.local_hidden}, want at least {old.local_hidden}")
    encoder = spread((0, old.enc_depth), (0, new.enc_depth))
    decoder = spread(old.hooks, new.hooks)
    out = {name: t for name, t in tensors.items() if not _BLOCK.fullmatch(name)}
    for name, t in tensors.items():
        if not (block := _BLOCK.fullmatch(name)):
            continue
        stack, at, rest = block[1], int(block[2]), block[3]
        for k, (source, itself) in enumerate(encoder if stack == "enc_blocks" else decoder):
            if source == at:
                zero = not itself and _LAST.fullmatch(rest)
                out[f"{stack}.{k}.{rest}"] = torch.zeros_like(t) if zero else t.clone()
    for head in ("downstream_head1", "downstream_head2"):
        out |= _widen(out, f"{head}.head_local_features", new.local_hidden - old.local_hidden)
    return out


def _widen(tensors: dict[str, Tensor], layer: str, more: int) -> dict[str, Tensor]:
    """The two matrices of an MLP with `more` hidden units."""
    first, bias, second = (tensors[f"{layer}.{name}"] for name in ("fc1.weight", "fc1.bias", "fc2.weight"))
    fresh = torch.randn(more, first.shape[1]) * first.std()
    return {
        f"{layer}.fc1.weight": torch.cat([first, fresh]),
        f"{layer}.fc1.bias": torch.cat([bias, torch.zeros(more)]),
        f"{layer}.fc2.weight": torch.cat([second, torch.zeros(len(second), more)], 1),
    }
