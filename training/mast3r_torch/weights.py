# SPDX-License-Identifier: Apache-2.0
"""Reading and writing model files in the project's safetensors layout."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from .model import Dims, Mast3r

PART_BYTES = 15 << 20  # a part stays under 16 MiB with its header

# Tensors that files in the published layout carry and the network never
# reads: the mask token of pre-training and one unit of the deepest fusion.
_UNUSED = re.compile(r"mask_token|downstream_head[12]\.dpt\.scratch\.refinenet4\.resConfUnit1\..*")
_ALIAS = re.compile(r"(downstream_head[12]\.dpt\.scratch\.)layer_rn\.(\d)\.(.*)")

# What the network is apart from its dimensions (see golden.md).
_FIXED_METADATA = {
    "format": "pt",
    "arch": "mast3r",
    "mlp_ratio": "4",
    "two_confs": "1",
    "depth_mode": "exp,-inf,inf",
    "conf_mode": "exp,1,inf",
    "desc_conf_mode": "exp,0,inf",
    "rope_base": "100",
    "norm_eps": "1e-6",
}


def dims_metadata(dims: Dims) -> dict[str, str]:
    """The dimensions as the strings that a file's __metadata__ holds."""
    meta = {
        key: ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for key, value in asdict(dims).items()
    }
    meta["dpt_hooks"] = ",".join(map(str, dims.hooks))
    return {**_FIXED_METADATA, **meta}


def dims_from_metadata(meta: dict[str, str]) -> Dims:
    wanted = asdict(Dims())
    missing = sorted(set(wanted) - set(meta))
    if missing:
        raise ValueError(f"weights: metadata lacks {missing}")
    values = {
        key: tuple(int(x) for x in meta[key].split(",")) if isinstance(example, tuple) else int(meta[key])
        for key, example in wanted.items()
    }
    dims = Dims(**values)
    hooks = ",".join(map(str, dims.hooks))
    if meta.get("dpt_hooks", hooks) != hooks:
        raise ValueError(f"weights: dpt_hooks {meta['dpt_hooks']}, want {hooks} for depth {dims.dec_depth}")
    return dims


def read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors under the network's own names, and the metadata."""
    tensors: dict[str, Tensor] = {}
    with safe_open(str(path), framework="pt") as f:
        meta = f.metadata() or {}
        for key in f.keys():  # noqa: SIM118 - the file is no dictionary
            if _UNUSED.fullmatch(key):
                continue
            name = _ALIAS.sub(lambda m: f"{m[1]}layer{int(m[2]) + 1}_rn.{m[3]}", key)
            if name not in tensors:
                tensors[name] = f.get_tensor(key)
    return tensors, meta


def load(path: str | Path, dims: Dims | None = None, device: str = "cpu") -> tuple[Mast3r, dict[str, str]]:
    """The network in a file, in float32. Missing or surplus tensors are errors."""
    tensors, meta = read(path)
    net = Mast3r(dims or dims_from_metadata(meta))
    net.load_state_dict({k: v.float() for k, v in tensors.items()}, strict=True)
    return net.to(device).eval(), meta


def save(
    state: dict[str, Tensor], path: str | Path, meta: dict[str, str], dtype: torch.dtype = torch.float16
) -> None:
    tensors = {k: v.detach().to("cpu", dtype).contiguous() for k, v in state.items()}
    for name, t in tensors.items():
        if not torch.isfinite(t).all():
            raise ValueError(f"weights: tensor {name!r} is not finite in {dtype}")
    save_file(tensors, str(path), meta)


def save_parts(state: dict[str, Tensor], folder: str | Path, meta: dict[str, str]) -> list[Path]:
    """Writes part files small enough for a narrow way home; see `merge_parts`."""
    groups: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, t in state.items():
        nbytes = t.numel() * 2
        if nbytes > PART_BYTES:
            raise ValueError(
                f"weights: tensor {name!r} has {nbytes} bytes, more than a part may ({PART_BYTES})"
            )
        if size + nbytes > PART_BYTES:
            groups.append({})
            size = 0
        groups[-1][name] = t
        size += nbytes
    paths = [Path(folder) / f"part{i}.safetensors" for i in range(len(groups))]
    for path, group in zip(paths, groups, strict=True):
        save(group, path, {**meta, "parts": str(len(groups))})
    return paths


def merge_parts(folder: str | Path, out: str | Path, extra: dict[str, str] | None = None) -> dict[str, str]:
    """Joins part files into one, checked against the network that they describe."""
    tensors: dict[str, Tensor] = {}
    paths = sorted(Path(folder).glob("part*.safetensors"))
    if not paths:
        raise FileNotFoundError(f"weights: no part*.safetensors in {folder}")
    for path in paths:
        part, meta = read(path)
        tensors.update(part)
    if len(paths) != int(meta.pop("parts")):
        raise ValueError(f"weights: {len(paths)} parts in {folder}, want {meta.get('parts')}")
    meta |= extra or {}
    Mast3r(dims_from_metadata(meta)).load_state_dict({k: v.float() for k, v in tensors.items()}, strict=True)
    save(tensors, out, meta)
    return meta
