# SPDX-License-Identifier: Apache-2.0
"""Builds render.cu for the machine at hand and calls it on torch tensors."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

_HERE = Path(__file__).parent


def _parse_layout() -> dict[str, int]:
    text = (_HERE / "layout.h").read_text()
    return {m[1]: int(m[2]) for m in re.finditer(r"^\s+([A-Z_]+) = (\d+),", text, re.M)}


LAYOUT = _parse_layout()


class _Textures(ctypes.Structure):
    _fields_ = [("texels", ctypes.c_void_p), ("heights", ctypes.c_void_p)] + [
        (name, ctypes.c_int) for name in ("count", "size", "levels", "stride", "height_count", "height_size")
    ]


class _Job(ctypes.Structure):
    _fields_ = (
        [(name, ctypes.c_void_p) for name in ("prims", "cams", "lights", "image", "points", "match")]
        + [("tex", _Textures)]
        + [(name, ctypes.c_int) for name in ("batch", "prim_count", "height", "width", "spp")]
        + [(name, ctypes.c_void_p) for name in ("nodes", "corners", "looks", "materials", "roots")]
    )


@functools.cache
def library(cuda: bool) -> ctypes.CDLL:
    """The compiled kernels; built once per source text and kind of machine."""
    source = _HERE / "render.cu"
    if cuda:
        compiler = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        flags = ["-std=c++17", "-O3", "--use_fast_math", "-arch=native", "-Xcompiler", "-fPIC", "-shared"]
    else:
        compiler = os.environ.get("CXX", "g++")
        flags = ["-x", "c++", "-std=c++17", "-O3", "-ffp-contract=off", "-fPIC", "-shared"]
    headers = b"".join(path.read_bytes() for path in sorted(_HERE.glob("*.h")))
    text = source.read_bytes() + headers + " ".join([compiler, *flags]).encode()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mast3r-training"
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"render-{'cuda' if cuda else 'cpu'}-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache) as tmp:
            out = Path(tmp) / "render.so"
            subprocess.run([compiler, *flags, str(source), "-o", str(out)], check=True)
            out.rename(path)  # atomic: several processes may build at once
    lib = ctypes.CDLL(str(path))
    lib.render.argtypes = [ctypes.POINTER(_Job), ctypes.c_void_p]
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    lib.dead_leaves.argtypes = [pointer, integer, integer, integer, pointer, pointer]
    lib.cells.argtypes = [pointer, integer, integer, integer, pointer, pointer, pointer]
    lib.build_mesh.argtypes = [pointer, integer, pointer, pointer, pointer]
    return lib


def _check(status: int, what: str) -> None:
    if status:
        raise RuntimeError(f"scenes: {what}: CUDA error {status}")


def _stream(device: torch.device) -> int:
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0


def _pointer(t: Tensor, *shape: int) -> int:
    if tuple(t.shape) != shape or t.dtype != torch.float32 or not t.is_contiguous():
        raise ValueError(f"scenes: tensor {list(t.shape)} {t.dtype}, want contiguous float32 {list(shape)}")
    return t.data_ptr()


class Rendered(NamedTuple):
    image: Tensor  # [B,2,3,H,W], linear light, not clipped
    points: Tensor  # [B,2,H,W,3], in camera 1's frame, metres
    match: Tensor  # [B,2,H,W,2], pixel (x, y) in the other view, -1 where it is not seen, -2 for sky


def render(
    prims: Tensor, cams: Tensor, lights: Tensor, textures, height: int, width: int, spp: int, meshes=None
) -> Rendered:
    """Draws both views of each scene. `textures` is a `Textures`, `meshes` the `Meshes` that prims name."""
    b, count = prims.shape[:2]
    empty = functools.partial(torch.empty, device=prims.device, dtype=torch.float32)
    out = Rendered(
        empty(b, 2, 3, height, width), empty(b, 2, height, width, 3), empty(b, 2, height, width, 2)
    )
    job = _Job(
        _pointer(prims, b, count, LAYOUT["PRIM_FLOATS"]),
        _pointer(cams, b, 2, LAYOUT["CAM_FLOATS"]),
        _pointer(lights, b, LAYOUT["LIGHT_FLOATS"]),
        *(t.data_ptr() for t in out),
        _Textures(
            textures.texels.data_ptr(), textures.heights.data_ptr(), textures.count, textures.size,
            textures.levels, textures.texels.shape[1], textures.heights.shape[0], textures.heights.shape[-1],
        ),
        b, count, height, width, spp,
        *((None,) * 5 if meshes is None else (t.data_ptr() for t in meshes.arrays)),
    )  # fmt: skip
    lib = library(prims.device.type == "cuda")
    _check(lib.render(ctypes.byref(job), _stream(prims.device)), "render")
    return out


def build_mesh(corners: Tensor, half: Tensor) -> tuple[Tensor, Tensor]:
    """The tree of a mesh, on the CPU: nodes [n,NODE_FLOATS] and the order [T] of the triangles in its leaves.

    `corners` [T,3,3] in units of the half box, `half` [3] in metres.
    """
    count = len(corners)
    nodes = torch.empty(2 * count, LAYOUT["NODE_FLOATS"])
    order = torch.empty(count, dtype=torch.int32)
    pointers = _pointer(corners, count, 3, 3), _pointer(half, 3)
    used = library(False).build_mesh(pointers[0], count, pointers[1], nodes.data_ptr(), order.data_ptr())
    if used < 0:
        raise ValueError(f"scenes: the tree of a mesh of {count} triangles is too deep")
    return nodes[:used].clone(), order.long()


def dead_leaves(leaves: Tensor, size: int) -> Tensor:
    """Textures [n,3,size,size] from leaf lists [n,count,LEAF_FLOATS], the topmost first."""
    n, count = leaves.shape[:2]
    out = torch.empty(n, 3, size, size, device=leaves.device)
    pointer = _pointer(leaves, n, count, LAYOUT["LEAF_FLOATS"])
    lib = library(leaves.device.type == "cuda")
    _check(lib.dead_leaves(pointer, n, count, size, out.data_ptr(), _stream(leaves.device)), "dead_leaves")
    return out


def cells(sites: Tensor, grout: Tensor, size: int) -> Tensor:
    """Voronoi textures from sites [n,count,5] (x, y, colour) and grout widths [n]."""
    n, count = sites.shape[:2]
    out = torch.empty(n, 3, size, size, device=sites.device)
    pointers = _pointer(sites, n, count, 5), _pointer(grout, n)
    lib = library(sites.device.type == "cuda")
    _check(
        lib.cells(pointers[0], n, count, size, pointers[1], out.data_ptr(), _stream(sites.device)), "cells"
    )
    return out
