# SPDX-License-Identifier: Apache-2.0
"""Measures of matches and geometry. Descriptor maps are [H,W,D], pixels (x, y)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .losses import point_errors

CLOSE = 3.0  # pixels: a match this near the truth is right
RETURN = 2  # pixels: a match is mutual when the way back ends this near its start
_BLOCK = 1 << 25  # entries of one similarity block


def nearest(query: Tensor, desc: Tensor) -> Tensor:
    """Index of the best dot product in desc [M,D] for each row of query [N,D]."""
    rows = max(1, _BLOCK // desc.shape[0])
    return torch.cat([(q @ desc.T).argmax(1) for q in query.split(rows)])


class Matches(NamedTuple):
    start: Tensor  # [N,2] pixels asked for in view 1
    found: Tensor  # [N,2] their matches in view 2
    mutual: Tensor  # [N] the way back ends within RETURN of the start, in x and in y
    strict: Tensor  # [N] the way back ends on the start


def match(desc1: Tensor, desc2: Tensor, start: Tensor) -> Matches:
    w1, w2 = desc1.shape[1], desc2.shape[1]
    flat1, flat2 = desc1.flatten(0, 1), desc2.flatten(0, 1)
    index = start[:, 1] * w1 + start[:, 0]
    forth = nearest(flat1[index], flat2)
    back = nearest(flat2[forth], flat1)
    gap = torch.stack([back % w1 - start[:, 0], back // w1 - start[:, 1]], -1).abs().amax(-1)
    found = torch.stack([forth % w2, forth // w2], -1)
    return Matches(start, found, gap <= RETURN, back == index)


def grid(height: int, width: int, stride: int, device: torch.device | str = "cpu") -> Tensor:
    """All pixels (x, y) of a regular grid."""
    y, x = torch.meshgrid(
        torch.arange(stride // 2, height, stride, device=device),
        torch.arange(stride // 2, width, stride, device=device),
        indexing="ij",
    )
    return torch.stack([x.flatten(), y.flatten()], -1)


def mean(x: Tensor) -> float:
    return x.float().mean().item() if x.numel() else float("nan")


def match_figures(m: Matches, truth: Tensor) -> dict[str, float]:
    """Shares of right matches: all, the mutual ones, and of same-pixel guessing."""
    right = (m.found - truth).float().norm(dim=-1) < CLOSE
    still = (m.start - truth).float().norm(dim=-1) < CLOSE
    return {
        "all": mean(right),
        "mutual": mean(right[m.mutual]),
        "mutual_share": mean(m.mutual),
        "strict": mean(right[m.strict]),
        "strict_share": mean(m.strict),
        "same_pixel": mean(still),
        "pixels": float(len(truth)),
    }


def geometry_figures(pred1: Tensor, pred2: Tensor, true: Tensor) -> dict[str, float]:
    """Median normalised point error of a pair ([H,W,3] each, true [2,H,W,3]) and of a flat wall."""
    both = torch.ones(1, dtype=torch.bool, device=true.device)
    e1, e2, n, m = point_errors(pred1[None], pred2[None], true[None], both)
    # The baseline knows the true rays and nothing of depth: all points of a view equally far.
    flat = torch.nn.functional.normalize(true, dim=-1)
    f1, f2, _, _ = point_errors(flat[:1], flat[1:], true[None], both)
    return {
        "points1": e1.median().item(),
        "points2": e2.median().item(),
        "sphere1": f1.median().item(),
        "sphere2": f2.median().item(),
        "scale": (n / m).item(),
    }


def correlation(a: Tensor, b: Tensor) -> float:
    """Of two lists, after an affine map: what is left of inverse depth without its scale."""
    return torch.corrcoef(torch.stack([a.double(), b.double()]))[0, 1].item()
