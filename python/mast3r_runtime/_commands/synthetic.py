# SPDX-License-Identifier: Apache-2.0
"""A MASt3R-shaped model with made-up weights, for the self-check and for tests.

The weights are a hash of their names, so a file of any size is made in a moment and the
same everywhere: the published reference's outputs with exactly these weights are known.
bits, unit and the gains below are the definition, not a choice.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["MICRO", "Dims", "write", "write_views"]

F32 = npt.NDArray[np.float32]
Shape = tuple[int, ...]
Rule = Callable[[str, Shape], tuple[float, float]]


@dataclass(frozen=True)
class Dims:
    """Sizes of a model. The default is the micro one of the reference outputs."""

    variant: str = "mast3r_micro"
    patch_size: int = 16
    enc_dim: int = 64
    enc_depth: int = 3
    enc_heads: int = 2
    dec_dim: int = 48
    dec_depth: int = 10
    dec_heads: int = 3
    mlp_ratio: int = 4
    desc_dim: int = 24
    dpt_feature_dim: int = 24
    dpt_last_dim: int = 12
    dpt_layer_dims: tuple[int, int, int, int] = (8, 16, 32, 48)
    local_hidden: int = 12


MICRO = Dims()

_GAINS = (
    ("patch_embed.proj.weight", 4.0),
    (".attn.qkv.weight", 1.75),
    (".cross_attn.projq.weight", 1.75),
    (".cross_attn.projk.weight", 1.75),
    (".cross_attn.proj.weight", 0.5),
    (".attn.proj.weight", 0.375),
    (".mlp.fc2.weight", 0.5),
    ("decoder_embed.weight", 2.0),
    (".act_postprocess.1.0.weight", 0.5),
    (".act_postprocess.2.0.weight", 0.5),
    (".dpt.head.4.weight", 0.5),
    (".head_local_features.fc2.weight", 1.25),
)


def write(path: Path, dims: Dims = MICRO) -> None:
    """Write the model as a safetensors file."""
    _write(path, _metadata(dims), sorted(_tensors(dims)), _rule)


def write_views(path: Path, names: dict[str, Shape]) -> None:
    """Write a network of many views, of these tensors, as a safetensors file."""
    _write(path, {"variant": "views"}, sorted(names.items()), loud)


def _write(path: Path, metadata: dict[str, str], tensors: Iterable[tuple[str, Shape]], rule: Rule) -> None:
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    blobs, offset = [], 0
    for name, shape in tensors:
        blob = tensor(name, shape, rule).astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": (offset, offset + len(blob))}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(blobs)


def tensor(name: str, shape: Shape, rule: Rule | None = None) -> F32:
    """The values of one tensor: base + scale * unit, each step rounded to float32."""
    for k in range(4):  # two spellings of one convolution hold the same data
        name = name.replace(f".scratch.layer{k + 1}_rn.", f".scratch.layer_rn.{k}.")
    base, scale = (rule or _rule)(name, shape)
    values = _unit(name, math.prod(shape)) * np.float32(scale)
    if base:
        values += np.float32(base)
    return values.reshape(shape)


def _unit(name: str, count: int) -> F32:
    """Odd multiples of 2^-24 in (-1, 1): the top 24 bits of a mixed counter."""
    seed = 0xCBF29CE484222325  # FNV-1a
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    z = np.arange(1, count + 1, dtype=np.uint64)
    z *= np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    z ^= z >> np.uint64(31)
    top = (z >> np.uint64(40)).astype(np.int64)
    return ((2 * top + 1 - 2**24) / 2.0**24).astype(np.float32)


def _rule(name: str, shape: Shape) -> tuple[float, float]:
    """Base and scale of a tensor."""
    *_, parent, last = ("", *name.split("."))
    if last == "mask_token":
        return 0.0, 0.05
    if last == "weight" and parent in ("norm1", "norm2", "norm3", "norm_y", "enc_norm", "dec_norm"):
        return 1.0, 0.1
    if last == "bias":
        return 0.0, 0.5 if name.endswith(".dpt.head.4.bias") else 0.05
    transposed = ".act_postprocess.0.1." in name or ".act_postprocess.1.1." in name
    fan_in = shape[0] if transposed else math.prod(shape[1:])
    gain = next((g for suffix, g in _GAINS if name.endswith(suffix)), 1.0)
    return 0.0, gain * math.sqrt(3.0 / fan_in)


def loud(name: str, shape: Shape) -> tuple[float, float]:
    """Base and scale that let every error show: nothing is near 0 or 1 by chance."""
    *_, last = name.split(".")
    if last == "gamma":
        return 0.75, 0.25
    if last in ("cls_token", "pos_embed", "camera_token"):
        return 0.0, 0.3
    if last == "weight" and len(shape) == 1:
        return 1.0, 0.2
    if last == "bias":
        return (1.0, 0.1) if name.endswith("fc_fov.0.bias") else (0.0, 0.1)
    transposed = ".resize_layers.0." in name or ".resize_layers.1." in name
    return 0.0, math.sqrt(3.0 / (shape[0] if transposed else math.prod(shape[1:])))


def _metadata(dims: Dims) -> dict[str, str]:
    depth = dims.dec_depth
    values = {
        name: ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in asdict(dims).items()
    }
    return {
        **values,
        "arch": "mast3r",
        "format": "pt",
        "weights": "synthetic",
        "dpt_hooks": f"0,{depth * 2 // 4},{depth * 3 // 4},{depth}",
        "rope_base": "100",
        "depth_mode": "exp,-inf,inf",
        "conf_mode": "exp,1,inf",
        "desc_conf_mode": "exp,0,inf",
        "two_confs": "1",
        "norm_eps": "1e-6",
    }


Tensors = Iterator[tuple[str, Shape]]


def _tensors(c: Dims) -> Tensors:
    """Names and shapes of a whole model."""
    yield "mask_token", (1, 1, c.dec_dim)
    yield from _conv("patch_embed.proj", c.enc_dim, 3, c.patch_size)
    for i in range(c.enc_depth):
        yield from _block(f"enc_blocks.{i}", c.enc_dim, c.mlp_ratio)
    yield from _norm("enc_norm", c.enc_dim)
    yield from _linear("decoder_embed", c.dec_dim, c.enc_dim)
    for side in ("dec_blocks", "dec_blocks2"):
        for i in range(c.dec_depth):
            name = f"{side}.{i}"
            yield from _block(name, c.dec_dim, c.mlp_ratio)
            for part in ("projq", "projk", "projv", "proj"):
                yield from _linear(f"{name}.cross_attn.{part}", c.dec_dim, c.dec_dim)
            yield from _norm(f"{name}.norm3", c.dec_dim)
            yield from _norm(f"{name}.norm_y", c.dec_dim)
    yield from _norm("dec_norm", c.dec_dim)
    for side in ("1", "2"):
        yield from _head(f"downstream_head{side}", c)


def _linear(name: str, out: int, into: int) -> Tensors:
    yield f"{name}.weight", (out, into)
    yield f"{name}.bias", (out,)


def _norm(name: str, dim: int) -> Tensors:
    yield f"{name}.weight", (dim,)
    yield f"{name}.bias", (dim,)


def _conv(name: str, out: int, into: int, side: int, bias: bool = True) -> Tensors:
    yield f"{name}.weight", (out, into, side, side)
    if bias:
        yield f"{name}.bias", (out,)


def _block(name: str, dim: int, ratio: int) -> Tensors:
    yield from _norm(f"{name}.norm1", dim)
    yield from _linear(f"{name}.attn.qkv", 3 * dim, dim)
    yield from _linear(f"{name}.attn.proj", dim, dim)
    yield from _norm(f"{name}.norm2", dim)
    yield from _linear(f"{name}.mlp.fc1", ratio * dim, dim)
    yield from _linear(f"{name}.mlp.fc2", dim, ratio * dim)


def _head(name: str, c: Dims) -> Tensors:
    dpt, f, layers = f"{name}.dpt", c.dpt_feature_dim, c.dpt_layer_dims
    for k, width in enumerate(layers):
        yield from _conv(f"{dpt}.act_postprocess.{k}.0", width, c.dec_dim if k else c.enc_dim, 1)
        for spelling in (f"layer{k + 1}_rn", f"layer_rn.{k}"):
            yield from _conv(f"{dpt}.scratch.{spelling}", f, width, 3, bias=False)
        net = f"{dpt}.scratch.refinenet{k + 1}"
        yield from _conv(f"{net}.out_conv", f, f, 1)
        for unit in ("resConfUnit1", "resConfUnit2"):
            yield from _conv(f"{net}.{unit}.conv1", f, f, 3)
            yield from _conv(f"{net}.{unit}.conv2", f, f, 3)
    # transposed convolutions: [in, out, side, side], here with in = out
    yield from _conv(f"{dpt}.act_postprocess.0.1", layers[0], layers[0], 4)
    yield from _conv(f"{dpt}.act_postprocess.1.1", layers[1], layers[1], 2)
    yield from _conv(f"{dpt}.act_postprocess.3.1", layers[3], layers[3], 3)
    yield from _conv(f"{dpt}.head.0", f // 2, f, 3)
    yield from _conv(f"{dpt}.head.2", c.dpt_last_dim, f // 2, 3)
    yield from _conv(f"{dpt}.head.4", 4, c.dpt_last_dim, 1)
    local = f"{name}.head_local_features"
    yield from _linear(f"{local}.fc1", c.local_hidden, c.enc_dim + c.dec_dim)
    yield from _linear(f"{local}.fc2", (c.desc_dim + 1) * c.patch_size**2, c.local_hidden)
