# SPDX-License-Identifier: Apache-2.0
"""Writes the PyTorch and numpy files beside it: python make.py (torch 2.x and numpy needed).

Each value is its index in the tensor, plus the tensor's number times a hundred, so that a
reader's mistake in offset, stride or type shows in the first numbers.
"""

import argparse
import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent


def count(number: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    size = int(np.prod(shape))
    return (torch.arange(size) + 100 * number).to(dtype).reshape(shape)


def checkpoint() -> None:
    """MASt3R's form: args and model, an alias, strides, every type, a parameter."""
    base = count(1, 4, 6)
    model = OrderedDict(
        [
            ("module.plain", count(0, 2, 3)),
            ("module.transposed", base.t()),
            ("module.slice", base[1:3, 2:5]),
            ("module.expanded", count(2, 3, 1).expand(3, 2)),
            ("module.parameter", torch.nn.Parameter(count(3, 2))),
            ("module.scalar", torch.tensor(7.5)),
            ("module.empty", torch.zeros(0, 3)),
            ("module.scratch.layer1_rn.weight", count(4, 2, 2)),
            ("module.f64", count(5, 2, dtype=torch.float64)),
            ("module.f16", count(6, 2, dtype=torch.float16)),
            ("module.bf16", count(7, 2, dtype=torch.bfloat16)),
            ("module.i64", count(8, 2, dtype=torch.int64)),
            ("module.i32", count(9, 2, dtype=torch.int32)),
            ("module.i16", count(10, 2, dtype=torch.int16)),
            ("module.i8", count(1, 2, dtype=torch.int8)),
            ("module.u8", count(2, 2, dtype=torch.uint8)),
            ("module.bool", torch.tensor([True, False])),
        ]
    )
    model["module.scratch.layer_rn.0.weight"] = model["module.scratch.layer1_rn.weight"]
    model._metadata = OrderedDict(version=1)  # nn.Module.state_dict() leaves this
    args = argparse.Namespace(
        model="AsymmetricMASt3R(pos_embed='RoPE100', patch_embed_cls='ManyAR_PatchEmbed', "
        "img_size=(512, 384), head_type='catmlp+dpt', output_mode='pts3d+desc24', "
        "depth_mode=('exp', -inf, inf), conf_mode=('exp', 1, inf), enc_embed_dim=1024, enc_depth=24, "
        "enc_num_heads=16, dec_embed_dim=768, dec_depth=12, dec_num_heads=12, two_confs=True, "
        "desc_conf_mode=('exp', 0, inf), landscape_only=False)",
        lr=1e-4,
        epochs=10,
        resume=None,
        device=torch.device("cuda"),
        dtype=torch.float32,
        best=np.float64(0.25),
    )
    torch.save({"args": args, "model": model, "epoch": 3}, HERE / "checkpoint.pth")


def others() -> None:
    torch.save({"weight": count(0, 2)}, HERE / "flat.pth")
    torch.save({"model": {"weight": count(0, 2)}}, HERE / "legacy.pth", _use_new_zipfile_serialization=False)
    torch.save({"model": torch.nn.Linear(1, 1)}, HERE / "module.pth")
    centroids = np.arange(12, dtype=np.float32).reshape(3, 4)
    for name, array in (("c", centroids), ("fortran", np.asfortranarray(centroids))):
        for protocol in (2, 3, 4, 5):
            book = {"type": "Codebook", "params": {"size": 3}, "state": {"centroids": array}}
            (HERE / f"codebook_{name}_{protocol}.pkl").write_bytes(pickle.dumps(book, protocol))


checkpoint()
others()
