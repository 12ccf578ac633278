# SPDX-License-Identifier: Apache-2.0
"""Meshes of real things: read from a pack (see collect_meshes.py), with trees and normals for the ray caster.

A mesh stands upright in metres: y down, its base at y = 0, x and z about
its middle, its front to -z, its back, which goes to the wall, to +z.
"""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .native import LAYOUT, build_mesh

# Bits of a mesh's classes: where it may be.
FLOOR, TABLE, WALL, CEILING, OUTDOOR, BACK = 1, 2, 4, 8, 16, 32
PLACES = (FLOOR, TABLE, WALL, CEILING, OUTDOOR)

# Catalogue numbers of meshes that are kept for evaluation, some of each class.
HELD_OUT = (1, 13, 29, 34, 53, 68, 92, 109, 135, 151)

THINNEST = 5e-4  # metres, of half a box: flat things have a box, too
_CREASE = np.cos(np.radians(40.0))


class Mesh(NamedTuple):
    corners: np.ndarray  # [T,3,3] float32, units of the half box
    normals: np.ndarray  # [T,3,3] float32, of the corners
    uv: np.ndarray  # [T,3,2] float32, rows of the texture downwards; may leave 0..1, where it tiles
    material: np.ndarray  # [T] row of the material table
    half: np.ndarray  # [3] float32, metres
    top: float  # metres over the base on which things may stand; 0 or less: none
    classes: int
    catalogue: int


def crease_normals(places: np.ndarray, triangles: np.ndarray, metres: np.ndarray) -> np.ndarray:
    """Unit normals [T,3,3] of the corners of triangles [T,3].

    Each is the mean, by area, of the faces at the same place that are within
    40 degrees of the corner's own. `places` [V,3] are equal where vertices
    are welded. Faces may be wound either way: each is turned to the corner's.
    """
    a, b, c = (metres[triangles[:, k]] for k in range(3))
    area = np.cross(b - a, c - a)
    unit = area / np.maximum(np.linalg.norm(area, axis=1, keepdims=True), 1e-20)
    at = np.unique(places, axis=0, return_inverse=True)[1].reshape(-1)[triangles].reshape(-1)  # [3T]
    order = np.argsort(at, kind="stable")
    count = np.bincount(at)
    start = np.cumsum(count) - count
    # Every corner meets every corner at its place.
    mine = np.repeat(np.arange(len(at)), count[at])
    step = np.arange(len(mine)) - np.repeat(np.cumsum(count[at]) - count[at], count[at])
    face, other = mine // 3, order[start[at[mine]] + step] // 3
    alike = np.einsum("ij,ij->i", unit[face], unit[other])
    weight = np.where(np.abs(alike) > _CREASE, np.sign(alike), 0)
    sums = [np.bincount(mine, weight * area[other, k], len(at)) for k in range(3)]
    normal = np.stack(sums, 1)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-20)
    return normal.reshape(-1, 3, 3).astype(np.float32)


def _read_mesh(pack: dict[str, np.ndarray], row: int) -> Mesh:
    vertex, vertices, first, count, material, _, classes, catalogue = (int(v) for v in pack["head"][row])
    size, box = pack["size"][row], pack["uv_box"][row]
    places = pack["position"][vertex : vertex + vertices].astype(np.int64)
    uv = pack["uv"][vertex : vertex + vertices].astype(np.float32) / 65535 * box[2:] + box[:2]
    uv[:, 1] = 1 - uv[:, 1]
    triangles = pack["triangle"][first : first + count].astype(np.int64)
    unit = (places / 65535 * 2 - 1).astype(np.float32)
    half = np.maximum(size / 2, THINNEST).astype(np.float32)
    normals = crease_normals(places, triangles, unit.astype(np.float64) * half)
    materials = pack["material"][first : first + count].astype(np.int64) + material
    return Mesh(
        unit[triangles], normals, uv[triangles], materials, half, float(pack["top"][row]), classes, catalogue
    )


def _pictures(pack: dict[str, np.ndarray], size: int) -> Tensor:
    """The textures [K,3,size,size] in 0..1."""
    from PIL import Image

    out = torch.zeros(len(pack["jpeg_at"]) - 1, 3, size, size)
    ends = pack["jpeg_at"]
    for k, (low, high) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        image = Image.open(io.BytesIO(pack["jpeg"][low:high].tobytes())).convert("RGB")
        pixels = np.asarray(image.resize((size, size), Image.LANCZOS), np.float32) / 255
        out[k] = torch.from_numpy(pixels).permute(2, 0, 1)
    return out


def _looks(mesh: Mesh) -> Tensor:
    material = torch.from_numpy(mesh.material.astype(np.float32))[:, None]
    parts = [torch.from_numpy(v).flatten(1) for v in (mesh.normals, mesh.uv)]
    return torch.cat([*parts, material], 1)


class Meshes:
    """Meshes on a device, as the ray caster and the sampler read them.

    `materials` [M,MATERIAL_FLOATS] and `pictures` [K,3,size,size] belong to
    all of them; the latter go into the atlas (see Textures).
    """

    def __init__(
        self, meshes: list[Mesh], materials: Tensor, pictures: Tensor, device: str | torch.device = "cpu"
    ):
        if not meshes:
            raise ValueError("scenes: no meshes")

        def tree(mesh: Mesh) -> tuple[Tensor, Tensor, Tensor]:
            corners, half = torch.from_numpy(mesh.corners).contiguous(), torch.from_numpy(mesh.half)
            nodes, order = build_mesh(corners, half)
            return nodes, corners[order].flatten(1), _looks(mesh)[order]

        with ThreadPoolExecutor() as pool:
            parts = list(pool.map(tree, meshes))
        nodes, corners, looks = (torch.cat(column) for column in zip(*parts, strict=True))
        roots = [[0, 0]]
        for part in parts[:-1]:
            roots.append([roots[-1][0] + len(part[0]), roots[-1][1] + len(part[1])])
        if max(len(nodes), len(corners)) >= 1 << 24:
            raise ValueError(f"scenes: {len(corners)} triangles, want less than {1 << 24}")
        lists = (nodes, corners, looks, materials.float(), torch.tensor(roots, dtype=torch.int32))
        self.arrays = tuple(t.contiguous().to(device) for t in lists)
        self.pictures = pictures.to(device)
        self.count = len(meshes)
        self.half = torch.from_numpy(np.stack([m.half for m in meshes])).to(device)  # [N,3]
        self.top = torch.tensor([m.top for m in meshes], device=device)  # [N]
        bits = torch.tensor([m.classes for m in meshes])
        self.back = (bits & BACK > 0).to(device)  # [N]
        own = [bool((materials[m.material, LAYOUT["MATERIAL_TEXTURE"]] >= 0).any()) for m in meshes]
        self.textured = torch.tensor(own, device=device)  # [N]
        share = torch.stack([(bits & place > 0).float() for place in PLACES])
        share = share / share.sum(1, keepdim=True).clamp_min(1)
        self.there = (share.sum(1) > 0).to(device)  # [places]
        self.edges = share.cumsum(1).to(device)  # [places,N] to draw one of a class by

    def draw(self, place: Tensor, uniform: Tensor) -> Tensor:
        """Indices, shaped as `uniform` [B,...], of meshes of the class PLACES[place]; `place` [B]."""
        edges = self.edges[place]
        found = torch.searchsorted(edges, uniform.flatten(1).contiguous() * edges[:, -1:], right=True)
        return found.clamp_max(self.count - 1).view_as(uniform)


def load_meshes(
    path: str | Path, size: int, device: str | torch.device = "cpu", held_out: bool | None = False
) -> Meshes:
    """The meshes of a pack, with textures of `size` pixels a side.

    `held_out` False: without those of HELD_OUT, True: only those, None: all.
    """
    with np.load(path) as z:
        pack = {name: z[name] for name in z.files}
    rows = [
        k for k, head in enumerate(pack["head"]) if held_out is None or (int(head[7]) in HELD_OUT) == held_out
    ]
    with ThreadPoolExecutor() as pool:
        meshes = list(pool.map(lambda row: _read_mesh(pack, row), rows))
    texture, gloss = pack["texture"].astype(np.float32), pack["gloss"].astype(np.float32)
    columns = [pack["rgb"] / np.float32(255), texture[:, None], pack["specular"][:, None] / np.float32(255)]
    materials = torch.from_numpy(np.concatenate([*columns, gloss[:, None]], 1).astype(np.float32))
    materials = F.pad(materials, (0, LAYOUT["MATERIAL_FLOATS"] - materials.shape[1]))
    return Meshes(meshes, materials, _pictures(pack, size), device)
