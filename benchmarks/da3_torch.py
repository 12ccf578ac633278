# SPDX-License-Identifier: Apache-2.0
"""Depth Anything 3 in PyTorch, written from docs/internals/da3.md, as a peer to be timed.

The modules bear the names of the published files' tensors, so that a state dictionary with
``model.`` before every name is such a file.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PATCH, LAST = 14, 32


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, normed: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        if normed:
            self.q_norm, self.k_norm = nn.LayerNorm(dim // heads), nn.LayerNorm(dim // heads)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if turn is not None:
            q, k = rotate(self.q_norm(q), *turn), rotate(self.k_norm(k), *turn)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))


def turns(rows: Tensor, cols: Tensor, head: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines ``[N, head]`` of positions."""
    quarter = head // 4
    freq = 100.0 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
    angle = torch.cat([p[:, None].double() * f for p in (rows, cols) for f in (freq, freq)], 1)
    return angle.cos().float(), angle.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b, c, d = x.chunk(4, -1)
    return x * cos + torch.cat([-b, a, -d, c], -1) * sin


class Scale(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))


class Mlp(nn.Module):
    def __init__(self, dim: int, hidden: int, out: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, normed: bool, eps: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps), nn.LayerNorm(dim, eps)
        self.attn, self.mlp = Attention(dim, heads, normed), Mlp(dim, 4 * dim, dim)
        self.ls1, self.ls2 = Scale(dim), Scale(dim)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None = None) -> Tensor:
        x = x + self.ls1.gamma * self.attn(self.norm1(x), turn)
        return x + self.ls2.gamma * self.mlp(self.norm2(x))


class Backbone(nn.Module):
    def __init__(
        self, dim: int, depth: int, heads: int, start: int, grid: int, hooks: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.start, self.hooks, self.grid, self.head = start, hooks, grid, dim // heads
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, dim, PATCH, PATCH)})
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, grid * grid + 1, dim))
        self.camera_token = nn.Parameter(torch.zeros(1, 2, dim))
        self.blocks = nn.ModuleList(Block(dim, heads, i >= start, 1e-6) for i in range(depth))
        self.norm = nn.LayerNorm(dim, 1e-5)

    def positions(self, rows: int, cols: int) -> Tensor:
        table = self.pos_embed[:, 1:]
        if (rows, cols) == (self.grid, self.grid):
            return table
        table = table.reshape(1, self.grid, self.grid, -1).permute(0, 3, 1, 2)
        scale = ((rows + 0.1) / self.grid, (cols + 0.1) / self.grid)
        table = F.interpolate(table, scale_factor=scale, mode="bicubic")
        return table.flatten(2).transpose(1, 2)

    def forward(self, image: Tensor, reference: int | None = None) -> tuple[list[Tensor], Tensor, int]:
        """Hooks ``[N, P, 2D]``, camera tokens ``[N, 2D]``, the reference; image ``[N, 3, H, W]``."""
        n, _, height, width = image.shape
        rows, cols = height // PATCH, width // PATCH
        x = self.patch_embed["proj"](image).flatten(2).transpose(1, 2) + self.positions(rows, cols)
        x = torch.cat([(self.cls_token + self.pos_embed[:, :1]).expand(n, -1, -1), x], 1)
        for i in range(self.start):
            before = x[:, 0]
            x = self.blocks[i](x)
        ref = saddle(before) if reference is None else reference
        order = [ref, *(i for i in range(n) if i != ref)]
        back = torch.tensor(order).argsort()
        x = x[order]
        tokens = torch.cat([self.camera_token[:, :1], self.camera_token[:, 1:].expand(1, n - 1, -1)], 1)
        x = torch.cat([tokens.transpose(0, 1), x[:, 1:]], 1)
        t = rows * cols + 1
        r, c = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")
        zero = torch.zeros(1, dtype=torch.long)
        within = turns(torch.cat([zero, r.flatten() + 1]), torch.cat([zero, c.flatten() + 1]), self.head)
        ones = torch.cat([zero, torch.ones(t - 1, dtype=torch.long)]).repeat(n)
        across = turns(ones, ones, self.head)
        local, found = x, []
        for i in range(self.start, len(self.blocks)):
            if i % 2 == 0:
                local = x = self.blocks[i](x, within)
            else:
                x = self.blocks[i](x.reshape(1, n * t, -1), across).reshape(n, t, -1)
            if i in self.hooks:
                found.append(torch.cat([local, self.norm(x)], -1)[back, 1:])
        return found, torch.cat([local, x], -1)[back, 0], ref


def saddle(z: Tensor) -> int:
    """The reference view by the rule saddle_balanced, from class tokens ``[N, D]``."""
    n = len(z)
    if n < 3:
        return 0
    a = F.normalize(z, dim=1)
    measures = [((a @ a.T).sum(1) - 1) / (n - 1), z.norm(dim=1), a.var(1)]
    total = sum(((m - m.min()) / (m.max() - m.min() + 1e-8) - 0.5).abs() for m in measures)
    return int(torch.as_tensor(total).argmin())


class CameraDecoder(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())
        self.fc_t, self.fc_qvec = nn.Linear(dim, 3), nn.Linear(dim, 4)
        self.fc_fov = nn.Sequential(nn.Linear(dim, 2), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        x = self.backbone(x)
        return torch.cat([self.fc_t(x), self.fc_qvec(x), self.fc_fov(x)], 1)


class CameraEncoder(nn.Module):
    """Here for its tensors; known cameras are not timed."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.pose_branch, self.token_norm = Mlp(9, dim // 2, dim), nn.LayerNorm(dim)
        self.trunk = nn.ModuleList(Block(dim, 16, False, 1e-5) for _ in range(4))
        self.trunk_norm = nn.LayerNorm(dim)


class Unit(nn.Module):
    def __init__(self, f: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(f, f, 3, 1, 1), nn.Conv2d(f, f, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(F.relu(self.conv1(F.relu(x))))


class Refine(nn.Module):
    def __init__(self, f: int, first: bool) -> None:
        super().__init__()
        if not first:
            self.resConfUnit1 = Unit(f)
        self.resConfUnit2, self.out_conv = Unit(f), nn.Conv2d(f, f, 1)

    def forward(self, x: Tensor, side: Tensor | None, size: tuple[int, int]) -> Tensor:
        x = self.resConfUnit2(x if side is None else x + self.resConfUnit1(side))
        # Before the upsampling, where a quarter of the products is enough.
        return F.interpolate(self.out_conv(x), size=size, mode="bilinear", align_corners=True)


class Head(nn.Module):
    def __init__(self, dim: int, f: int, c: tuple[int, ...]) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(2 * dim)
        self.projects = nn.ModuleList(nn.Conv2d(2 * dim, k, 1) for k in c)
        self.resize_layers = nn.ModuleList(
            [nn.ConvTranspose2d(c[0], c[0], 4, 4), nn.ConvTranspose2d(c[1], c[1], 2, 2), nn.Identity(),
             nn.Conv2d(c[3], c[3], 3, 2, 1)]
        )  # fmt: skip
        s = self.scratch = nn.Module()
        for i in range(4):
            setattr(s, f"layer{i + 1}_rn", nn.Conv2d(c[i], f, 3, 1, 1, bias=False))
            for suffix in ("", "_aux"):
                setattr(s, f"refinenet{i + 1}{suffix}", Refine(f, i == 3))
        s.output_conv1 = nn.Conv2d(f, f // 2, 3, 1, 1)
        s.output_conv2 = nn.Sequential(nn.Conv2d(f // 2, LAST, 3, 1, 1), nn.ReLU(), nn.Conv2d(LAST, 2, 1))
        widths = (f, f // 2, f, f // 2, f, f // 2)
        s.output_conv1_aux = nn.ModuleList(
            nn.Sequential(*(nn.Conv2d(i, o, 3, 1, 1) for i, o in zip(widths, widths[1:], strict=False)))
            for _ in range(4)
        )
        norm = nn.LayerNorm(LAST)
        s.output_conv2_aux = nn.ModuleList(
            nn.Sequential(nn.Conv2d(f // 2, LAST, 3, 1, 1), nn.Identity(), norm, nn.Identity(), nn.ReLU(),
                          nn.Conv2d(LAST, 7, 1))
            for _ in range(4)
        )  # fmt: skip

    def forward(self, hooks: list[Tensor], rows: int, cols: int, rays: bool) -> dict[str, Tensor]:
        s, size = self.scratch, (PATCH * rows, PATCH * cols)
        sides = []
        for i, x in enumerate(hooks):
            x = self.norm(x).transpose(1, 2).unflatten(2, (rows, cols))
            x = self.resize_layers[i](uv(self.projects[i](x), size))
            sides.append(getattr(s, f"layer{i + 1}_rn")(x))
        p = F.interpolate(s.output_conv1(fuse(s, sides, "")), size=size, mode="bilinear", align_corners=True)
        raw = s.output_conv2(uv(p, size))
        out = {"depth": raw[:, 0].exp(), "depth_conf": 1 + raw[:, 1].exp()}
        if rays:
            a, end = s.output_conv1_aux[3](fuse(s, sides, "_aux")), s.output_conv2_aux[3]
            a = end[2](end[0](uv(a, size)).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            a = end[5](F.relu(a)).permute(0, 2, 3, 1)
            out |= {"ray": a[..., :6], "ray_conf": 1 + a[..., 6].exp()}
        return out


def fuse(s: Any, sides: list[Tensor], suffix: str) -> Tensor:
    p, side = sides[3], None
    for i in range(3, -1, -1):
        size = sides[i - 1].shape[2:] if i else (2 * p.shape[2], 2 * p.shape[3])
        side = sides[i] if i < 3 else None
        p = getattr(s, f"refinenet{i + 1}{suffix}")(p, side, tuple(size))
    return p


_uv: dict[tuple[int, ...], Tensor] = {}


def uv(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Where each cell is in the picture, added; tables are kept, as a user would keep them."""
    _, c, h, w = x.shape
    key = (c, h, w, *size)
    if key not in _uv:
        aspect = size[1] / size[0]
        diagonal = math.hypot(aspect, 1)
        freq = 100.0 ** (-torch.arange(c // 4, dtype=torch.float64) / (c // 4))
        parts = []
        for n, span, view in ((w, aspect / diagonal, (1, w)), (h, 1 / diagonal, (h, 1))):
            edge = span * (n - 1) / n
            p = torch.linspace(-edge, edge, n, dtype=torch.float64)[None] * freq[:, None]
            for table in (p.sin(), p.cos()):
                parts.append(table.reshape(-1, *view).expand(-1, h, w))
        _uv[key] = 0.1 * torch.cat(parts).float()
    return x + _uv[key]


_BASE: dict[str, Any] = {"depth": 12, "start": 4, "hooks": (5, 7, 9, 11), "grid": 37}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"dim": 32, "depth": 8, "heads": 2, "start": 2, "hooks": (3, 4, 5, 7), "grid": 5}
    | {"f": 16, "c": (8, 16, 24, 32)},
    "small": _BASE | {"dim": 384, "heads": 6, "f": 64, "c": (48, 96, 192, 384)},
    "base": _BASE | {"dim": 768, "heads": 12, "f": 128, "c": (96, 192, 384, 768)},
}


class Da3(nn.Module):
    """A network of one of SIZES."""

    def __init__(self, size: str) -> None:
        super().__init__()
        z = SIZES[size]
        self.backbone = nn.ModuleDict(
            {"pretrained": Backbone(z["dim"], z["depth"], z["heads"], z["start"], z["grid"], z["hooks"])}
        )
        self.head = Head(z["dim"], z["f"], z["c"])
        self.cam_dec, self.cam_enc = CameraDecoder(2 * z["dim"]), CameraEncoder(z["dim"])

    @torch.inference_mode()
    def forward(self, image: Tensor, rays: bool = False, reference: int | None = None) -> dict[str, Tensor]:
        """Image ``[N, H, W, 3]``, normalised; heads run on one view at a time, as ours do."""
        rows, cols = image.shape[1] // PATCH, image.shape[2] // PATCH
        hooks, camera, ref = self.backbone["pretrained"](image.permute(0, 3, 1, 2), reference)
        out = {"pose": self.cam_dec(camera), "reference": torch.tensor(ref)}
        each = [self.head([h[i : i + 1] for h in hooks], rows, cols, rays) for i in range(len(image))]
        return out | {name: torch.cat([e[name] for e in each]) for name in each[0]}


def randomize(net: nn.Module, seed: int = 0) -> None:
    """Random weights that let errors through: nothing is near 0 or 1 by chance."""
    g = torch.Generator().manual_seed(seed)

    def draw(shape: torch.Size, middle: float, width: float) -> Tensor:
        return middle + width * (2 * torch.rand(shape, generator=g) - 1)

    with torch.no_grad():
        for name, p in net.named_parameters():
            if name.endswith("gamma"):
                p.copy_(draw(p.shape, 0.75, 0.25))
            elif name.endswith("fc_fov.0.bias"):
                p.copy_(draw(p.shape, 1, 0.1))
            elif name.endswith("bias"):
                p.copy_(draw(p.shape, 0, 0.1))
            elif p.ndim == 1:
                p.copy_(draw(p.shape, 1, 0.2))
            elif name.endswith(("_token", "pos_embed")):
                p.copy_(draw(p.shape, 0, 0.3))
            else:
                fan = (
                    p[0].numel()
                    if "resize_layers.0" not in name and "resize_layers.1" not in name
                    else p.shape[0]
                )
                p.copy_(draw(p.shape, 0, math.sqrt(3 / fan)))
