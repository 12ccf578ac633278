# SPDX-License-Identifier: Apache-2.0
"""The MASt3R network for any dimensions: encoder, two decoders, two heads.

Module names follow the key layout of the published checkpoints, so that
`state_dict()` is the file layout (see `weights`). Shapes: images
[B,3,H,W] in -1..1, tokens [B,N,D] in row-major order of the patch grid.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROPE_BASE = 100.0
NORM_EPS = 1e-6


@dataclass(frozen=True)
class Dims:
    """Everything that the shape of the network depends on."""

    enc_dim: int = 192
    enc_depth: int = 6
    enc_heads: int = 3
    dec_dim: int = 192
    dec_depth: int = 6
    dec_heads: int = 3
    patch_size: int = 16
    dpt_feature_dim: int = 64
    dpt_last_dim: int = 32
    dpt_layer_dims: tuple[int, int, int, int] = (24, 48, 96, 192)
    local_hidden: int = 256
    desc_dim: int = 24

    def __post_init__(self) -> None:
        for side in ("enc", "dec"):
            dim, heads = getattr(self, f"{side}_dim"), getattr(self, f"{side}_heads")
            # RoPE splits a head into row and column halves of rotated pairs.
            if dim % heads or (dim // heads) % 4:
                raise ValueError(f"model: {side}: width {dim} does not give {heads} heads of a multiple of 4")
        if self.dec_depth < 4:
            raise ValueError(
                f"model: decoder depth {self.dec_depth}, want at least 4 (the DPT reads four levels)"
            )

    @property
    def hooks(self) -> tuple[int, int, int, int]:
        """Entries of the token list that the DPT reads; 0 is the encoder."""
        return 0, self.dec_depth * 2 // 4, self.dec_depth * 3 // 4, self.dec_depth

    @classmethod
    def from_dict(cls, values: dict) -> Dims:
        known = {f.name for f in fields(cls)}
        if unknown := set(values) - known:
            raise ValueError(f"model: unknown dimensions {sorted(unknown)}")
        values = dict(values)
        if "dpt_layer_dims" in values:
            values["dpt_layer_dims"] = tuple(values["dpt_layer_dims"])
        return cls(**values)


class View(NamedTuple):
    """What the network says about one image, in camera 1's frame."""

    pts3d: Tensor  # [B,H,W,3]
    conf: Tensor  # [B,H,W], > 1
    desc: Tensor  # [B,H,W,desc_dim], unit length
    desc_conf: Tensor  # [B,H,W], > 0


class Raw(NamedTuple):
    """One head's output before the output functions of `activate`."""

    dpt: Tensor  # [B,4,H,W]
    local: Tensor  # [B,desc_dim+1,H,W]


def rope_table(h: int, w: int, head_dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines [h*w, head_dim] of the two-dimensional rotary embedding.

    The first half of a head rotates with the row, the second with the
    column; inside a half, feature j pairs with j + head_dim/4. Always
    float32: half precision angles are wrong in the third digit.
    """
    quarter = head_dim // 4
    freq = ROPE_BASE ** (-torch.arange(quarter, device=device, dtype=torch.float32) / quarter)
    row = torch.arange(h, device=device, dtype=torch.float32)[:, None] * freq
    col = torch.arange(w, device=device, dtype=torch.float32)[:, None] * freq
    row = row[:, None].expand(h, w, quarter).reshape(h * w, quarter)
    col = col[None].expand(h, w, quarter).reshape(h * w, quarter)
    angle = torch.cat([row, row, col, col], -1)
    return angle.cos(), angle.sin()


def apply_rope(x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    a, b, c, d = x.chunk(4, -1)
    rotated = torch.cat([-b, a, -d, c], -1)
    cos, sin = table
    return x * cos.to(x.dtype) + rotated * sin.to(x.dtype)


def split_heads(x: Tensor, heads: int) -> Tensor:
    b, n, d = x.shape
    return x.view(b, n, heads, d // heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    b, h, n, d = x.shape
    return x.transpose(1, 2).reshape(b, n, h * d)


class Mlp(nn.Module):
    def __init__(self, dim: int, hidden: int, out: int):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))  # the exact (erf) GELU


class SelfAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
        q, k, v = (split_heads(t, self.heads) for t in self.qkv(x).chunk(3, -1))
        return self.proj(
            merge_heads(F.scaled_dot_product_attention(apply_rope(q, rope), apply_rope(k, rope), v))
        )


class CrossAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.projq = nn.Linear(dim, dim)
        self.projk = nn.Linear(dim, dim)
        self.projv = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(
        self, x: Tensor, y: Tensor, rope_x: tuple[Tensor, Tensor], rope_y: tuple[Tensor, Tensor]
    ) -> Tensor:
        q = apply_rope(split_heads(self.projq(x), self.heads), rope_x)
        k = apply_rope(split_heads(self.projk(y), self.heads), rope_y)
        v = split_heads(self.projv(y), self.heads)
        return self.proj(merge_heads(F.scaled_dot_product_attention(q, k, v)))


def layer_norm(dim: int) -> nn.LayerNorm:
    return nn.LayerNorm(dim, eps=NORM_EPS)


class EncoderBlock(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.norm1 = layer_norm(dim)
        self.attn = SelfAttention(dim, heads)
        self.norm2 = layer_norm(dim)
        self.mlp = Mlp(dim, 4 * dim, dim)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
        x = x + self.attn(self.norm1(x), rope)
        return x + self.mlp(self.norm2(x))


class DecoderBlock(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.norm1 = layer_norm(dim)
        self.attn = SelfAttention(dim, heads)
        self.norm2 = layer_norm(dim)
        self.norm_y = layer_norm(dim)
        self.cross_attn = CrossAttention(dim, heads)
        self.norm3 = layer_norm(dim)
        self.mlp = Mlp(dim, 4 * dim, dim)

    def forward(
        self, x: Tensor, y: Tensor, rope_x: tuple[Tensor, Tensor], rope_y: tuple[Tensor, Tensor]
    ) -> Tensor:
        x = x + self.attn(self.norm1(x), rope_x)
        x = x + self.cross_attn(self.norm2(x), self.norm_y(y), rope_x, rope_y)
        return x + self.mlp(self.norm3(x))


class ResidualConvUnit(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.conv1 = nn.Conv2d(dim, dim, 3, padding=1)
        self.conv2 = nn.Conv2d(dim, dim, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(F.relu(self.conv1(F.relu(x))))


@functools.cache
def _interpolation(small: int, large: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Matrix [large, small] of linear interpolation, first and last points fixed."""
    eye = torch.eye(small, dtype=torch.float64, device=device)[None]
    return F.interpolate(eye, size=large, mode="linear", align_corners=True)[0].T.to(dtype).contiguous()


class _Upsample(torch.autograd.Function):
    """Bilinear up-sampling whose backward pass is two matrix products.

    PyTorch's own adds every pixel into four others atomically.
    """

    @staticmethod
    def forward(ctx, x: Tensor, size: tuple[int, int]) -> Tensor:
        ctx.small = x.shape[-2:]
        # Autocast would make float32 of what the next convolution rounds again.
        with torch.autocast(x.device.type, enabled=False):
            return F.interpolate(x, size=size, mode="bilinear", align_corners=True)

    @staticmethod
    def backward(ctx, g: Tensor):
        (h, w), (b, c, hh, ww) = ctx.small, g.shape
        rows = _interpolation(h, hh, g.device, g.dtype)
        cols = _interpolation(w, ww, g.device, g.dtype)
        # The decoder's maps are channels-last in memory, so that these are views.
        g = rows.T @ g.permute(0, 2, 3, 1).reshape(b, hh, ww * c)
        g = cols.T @ g.view(b * h, ww, c)
        return g.view(b, h, w, c).permute(0, 3, 1, 2), None


def upsample(x: Tensor, size: tuple[int, int]) -> Tensor:
    if x.requires_grad:
        return _Upsample.apply(x, size)
    return F.interpolate(x, size=size, mode="bilinear", align_corners=True)


class Fusion(nn.Module):
    """One refinement level: add the skip, refine, double the size."""

    def __init__(self, dim: int, has_skip: bool):
        super().__init__()
        self.out_conv = nn.Conv2d(dim, dim, 1)
        if has_skip:  # the deepest level has none; its unit in published files is never used
            self.resConfUnit1 = ResidualConvUnit(dim)
        self.resConfUnit2 = ResidualConvUnit(dim)

    def forward(self, x: Tensor, skip: Tensor | None = None) -> Tensor:
        if skip is not None:
            x = x + self.resConfUnit1(skip)
        x = self.resConfUnit2(x)
        # A 1x1 convolution commutes with interpolation; before it costs a quarter.
        return upsample(self.out_conv(x), (2 * x.shape[-2], 2 * x.shape[-1]))


class Dpt(nn.Module):
    """Dense prediction from four token levels: x, y, z and confidence, raw."""

    def __init__(self, dims: Dims):
        super().__init__()
        l0, l1, l2, l3 = dims.dpt_layer_dims
        f, last, dec = dims.dpt_feature_dim, dims.dpt_last_dim, dims.dec_dim
        self.hooks = dims.hooks
        self.act_postprocess = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(dims.enc_dim, l0, 1), nn.ConvTranspose2d(l0, l0, 4, stride=4)),
                nn.Sequential(nn.Conv2d(dec, l1, 1), nn.ConvTranspose2d(l1, l1, 2, stride=2)),
                nn.Sequential(nn.Conv2d(dec, l2, 1)),
                nn.Sequential(nn.Conv2d(dec, l3, 1), nn.Conv2d(l3, l3, 3, stride=2, padding=1)),
            ]
        )
        self.scratch = nn.Module()
        for i, width in enumerate(dims.dpt_layer_dims, 1):
            self.scratch.add_module(f"layer{i}_rn", nn.Conv2d(width, f, 3, padding=1, bias=False))
        for i in range(1, 5):
            self.scratch.add_module(f"refinenet{i}", Fusion(f, has_skip=i != 4))
        self.head = nn.Sequential(
            nn.Conv2d(f, f // 2, 3, padding=1),
            nn.Identity(),  # index 1 is the up-sampling, which needs the image size
            nn.Conv2d(f // 2, last, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(last, 4, 1),
        )

    def forward(self, tokens: list[Tensor], h: int, w: int, size: tuple[int, int]) -> Tensor:
        b = tokens[0].shape[0]
        levels = []
        for i, hook in enumerate(self.hooks):
            grid = tokens[hook].transpose(1, 2).reshape(b, -1, h, w)
            levels.append(getattr(self.scratch, f"layer{i + 1}_rn")(self.act_postprocess[i](grid)))
        # ceil(h/2) doubled may exceed h by one: the reference cuts it off.
        path = self.scratch.refinenet4(levels[3])[:, :, :h, :w]
        path = self.scratch.refinenet3(path, levels[2])
        path = self.scratch.refinenet2(path, levels[1])
        path = self.scratch.refinenet1(path, levels[0])
        out = upsample(self.head[0](path), size)
        return self.head[4](self.head[3](self.head[2](out)))


class Head(nn.Module):
    def __init__(self, dims: Dims):
        super().__init__()
        self.patch = dims.patch_size
        self.dpt = Dpt(dims)
        outputs = (dims.desc_dim + 1) * dims.patch_size**2
        self.head_local_features = Mlp(dims.enc_dim + dims.dec_dim, dims.local_hidden, outputs)

    def forward(self, tokens: list[Tensor], h: int, w: int) -> Raw:
        dpt = self.dpt(tokens, h, w, (h * self.patch, w * self.patch)).float()
        # Descriptors live in float32: with bfloat16 here training collapsed
        # to one descriptor for all pixels.
        with torch.autocast(dpt.device.type, enabled=False):
            local = self.head_local_features(torch.cat([tokens[0], tokens[-1]], -1).float())
        local = local.transpose(1, 2).reshape(local.shape[0], -1, h, w)
        return Raw(dpt, F.pixel_shuffle(local, self.patch))


def activate_points(dpt: Tensor) -> tuple[Tensor, Tensor]:
    """Raw [B,4,H,W] to points [B,H,W,3] and confidence [B,H,W]."""
    xyz = dpt[:, :3].permute(0, 2, 3, 1)
    d = xyz.norm(dim=-1, keepdim=True)
    return xyz / d.clamp_min(1e-8) * torch.expm1(d), 1 + dpt[:, 3].exp()


def activate(raw: Raw) -> View:
    pts3d, conf = activate_points(raw.dpt)
    # No epsilon in the norm, as the specification says: a zero vector is NaN.
    desc = raw.local[:, :-1].permute(0, 2, 3, 1)
    return View(pts3d, conf, desc / desc.norm(dim=-1, keepdim=True), raw.local[:, -1].exp())


class Mast3r(nn.Module):
    """Both views through encoder, decoders and heads. The views may differ in size."""

    def __init__(self, dims: Dims):
        super().__init__()
        self.dims = dims
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(3, dims.enc_dim, dims.patch_size, stride=dims.patch_size)
        self.enc_blocks = nn.ModuleList(
            EncoderBlock(dims.enc_dim, dims.enc_heads) for _ in range(dims.enc_depth)
        )
        self.enc_norm = layer_norm(dims.enc_dim)
        self.decoder_embed = nn.Linear(dims.enc_dim, dims.dec_dim)
        self.dec_blocks = nn.ModuleList(
            DecoderBlock(dims.dec_dim, dims.dec_heads) for _ in range(dims.dec_depth)
        )
        self.dec_blocks2 = nn.ModuleList(
            DecoderBlock(dims.dec_dim, dims.dec_heads) for _ in range(dims.dec_depth)
        )
        self.dec_norm = layer_norm(dims.dec_dim)
        self.downstream_head1 = Head(dims)
        self.downstream_head2 = Head(dims)

    def grid(self, img: Tensor) -> tuple[int, int]:
        p = self.dims.patch_size
        if img.ndim != 4 or img.shape[1] != 3 or img.shape[2] % p or img.shape[3] % p:
            raise ValueError(
                f"model: image shape {list(img.shape)}, want [B,3,H,W] with sides multiples of {p}"
            )
        return img.shape[2] // p, img.shape[3] // p

    def encode(self, img: Tensor) -> Tensor:
        h, w = self.grid(img)
        rope = rope_table(h, w, self.dims.enc_dim // self.dims.enc_heads, img.device)
        x = self.patch_embed.proj(img).flatten(2).transpose(1, 2)
        for block in self.enc_blocks:
            x = block(x, rope)
        return self.enc_norm(x)

    def decode(
        self, feat1: Tensor, feat2: Tensor, grid1: tuple[int, int], grid2: tuple[int, int]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Token lists of both views: entry 0 is the encoder's, the last is normalised."""
        head_dim = self.dims.dec_dim // self.dims.dec_heads
        rope1 = rope_table(*grid1, head_dim, feat1.device)
        rope2 = rope1 if grid1 == grid2 else rope_table(*grid2, head_dim, feat2.device)
        x, y = self.decoder_embed(feat1), self.decoder_embed(feat2)
        tokens1, tokens2 = [feat1], [feat2]
        for block1, block2 in zip(self.dec_blocks, self.dec_blocks2, strict=True):
            x, y = block1(x, y, rope1, rope2), block2(y, x, rope2, rope1)  # both read the old pair
            tokens1.append(x)
            tokens2.append(y)
        tokens1[-1], tokens2[-1] = self.dec_norm(x), self.dec_norm(y)
        return tokens1, tokens2

    def raw(self, img1: Tensor, img2: Tensor) -> tuple[Raw, Raw]:
        grid1, grid2 = self.grid(img1), self.grid(img2)
        if img1.shape == img2.shape:
            feat1, feat2 = self.encode(torch.cat([img1, img2])).chunk(2)
        else:
            feat1, feat2 = self.encode(img1), self.encode(img2)
        tokens1, tokens2 = self.decode(feat1, feat2, grid1, grid2)
        return self.downstream_head1(tokens1, *grid1), self.downstream_head2(tokens2, *grid2)

    def forward(self, img1: Tensor, img2: Tensor) -> tuple[View, View]:
        raw1, raw2 = self.raw(img1, img2)
        return activate(raw1), activate(raw2)


@torch.no_grad()
def init_weights(net: Mast3r, spread: float = 0.15) -> None:
    """Start values that let descriptors learn.

    All p*p sub-pixel rows of one descriptor channel start from the same
    random projection plus `spread` of their own, and both heads start
    equal. Corresponding patches then agree from the first step and the
    contrast between pixels of one patch grows out of that; from independent
    rows, positives start uncorrelated and the descriptors collapse.
    """
    for module in net.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
    dims, head1, head2 = net.dims, net.downstream_head1, net.downstream_head2
    rows, width = dims.desc_dim + 1, dims.local_hidden
    weight = head1.head_local_features.fc2.weight
    shared = torch.randn(rows, 1, width, device=weight.device)
    own = torch.randn(rows, dims.patch_size**2, width, device=weight.device)
    weight.copy_(((shared + spread * own) * width**-0.5).reshape_as(weight))
    head2.head_local_features.load_state_dict(head1.head_local_features.state_dict())
