# SPDX-License-Identifier: Apache-2.0
"""Places meshes in scenes: on floors, tables and each other, at walls, under ceilings, in the open.

All tensors have fixed shapes and nothing is copied from the host, so that
this is part of a CUDA graph. Slots are filled one after the other: each
draws some candidates and takes the first that is clear of those before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .meshes import CEILING, FLOOR, OUTDOOR, PLACES, TABLE, WALL, Meshes
from .native import LAYOUT
from .rng import Random, constant

SLOTS = range(6, 14)  # of the primitives, after the subject of close-ups
CANDIDATES = 6
_GAP = 0.01  # metres between two footprints


@dataclass(frozen=True)
class MeshMix:
    """How many scenes have meshes, and how these are arranged. Shares; all 0: none."""

    meshes: float = 0.0  # of the rooms
    table: float = 0.0  # of the scenes with a table
    street: float = 0.0  # of the scenes in the open
    upon: float = 0.2  # of the meshes in rooms: on top of the one before, where something may stand
    walls: float = 0.13  # of the meshes in rooms
    hanging: float = 0.05  # likewise, under the ceiling
    crowd: float = 0.05  # of the scenes with meshes: all are the same one
    clutter: float = 0.08  # likewise: small ones that lie about in any direction
    paint: float = 0.2  # of the meshes with textures: the atlas's instead; of those without: half
    flat: float = 0.1  # of the meshes: shaded by flat triangles
    scale: float = 0.1  # of the meshes: half to twice the size

    @property
    def any(self) -> bool:
        return self.meshes > 0 or self.table > 0 or self.street > 0


class Candidates(NamedTuple):
    """What might stand in one slot: [B,C,...]."""

    index: Tensor  # mesh
    centre: Tensor  # [B,C,3] of the box
    half: Tensor  # [B,C,3]
    rot: Tensor  # [B,C,3,3]
    extent: Tensor  # [B,C,3] half extents of the footprint's rectangle and of the height
    yaw: Tensor  # of the rectangle
    fits: Tensor


def _yaw_matrix(angle: Tensor) -> Tensor:
    cos, sin, zero, one = angle.cos(), angle.sin(), torch.zeros_like(angle), torch.ones_like(angle)
    return torch.stack([cos, zero, sin, zero, one, zero, -sin, zero, cos], -1).unflatten(-1, (3, 3))


def _any_rotation(rng: Random, *shape: int) -> Tensor:
    w, x, y, z = torch.nn.functional.normalize(rng.normal(*shape, 4), dim=-1).unbind(-1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
        2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
        2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


def apart(centre: Tensor, extent: Tensor, yaw: Tensor, other: Tensor, reach: Tensor, turn: Tensor) -> Tensor:
    """Whether upright boxes do not meet: a line parallel to a side of one of their rectangles parts them, or
    a height. Centres and half extents [...,3], yaw [...]."""
    between = (other - centre)[..., ::2]

    def axes(angle: Tensor) -> Tensor:  # local x and z, as (x, z) in the world: [...,2,2]
        cos, sin = angle.cos(), angle.sin()
        return torch.stack([cos, -sin, sin, cos], -1).unflatten(-1, (2, 2))

    mine, theirs = axes(yaw), axes(turn)
    free = (other - centre)[..., 1].abs() > extent[..., 1] + reach[..., 1]
    for sides in (mine, theirs):
        for k in (0, 1):
            axis = sides[..., k, :]
            span = ((mine * axis[..., None, :]).sum(-1).abs() * extent[..., ::2]).sum(-1)
            span = span + ((theirs * axis[..., None, :]).sum(-1).abs() * reach[..., ::2]).sum(-1)
            free = free | ((between * axis).sum(-1).abs() > span + _GAP)
    return free


class _Slot(NamedTuple):
    """What is drawn once for a slot of each scene: [B]."""

    place: Tensor  # index into PLACES
    upon: Tensor  # on the mesh before it
    lying: Tensor  # turned in any direction


def _slot(rng: Random, mix: MeshMix, place, clutter: Tensor) -> _Slot:
    b = len(clutter)
    pick = rng.uniform(b)
    at = {bit: PLACES.index(bit) for bit in PLACES}
    kind = torch.full((b,), at[FLOOR], device=rng.device)
    edges = (mix.walls, mix.walls + mix.hanging, mix.walls + mix.hanging + mix.upon)
    kind = torch.where(pick < edges[1], at[CEILING], kind)
    kind = torch.where(pick < edges[0], at[WALL], kind)
    upon = (pick >= edges[1]) & (pick < edges[2]) & ~place.outdoor & ~place.table & ~clutter
    open_air = torch.where(rng.chance(0.7, b), at[OUTDOOR], at[FLOOR])
    kind = torch.where(place.outdoor, open_air, kind)
    small = upon | place.table | clutter
    return _Slot(torch.where(small, at[TABLE], kind), upon, clutter)


def _somewhere(rng: Random, place, prims: Tensor, c: int) -> Tensor:
    """Places [B,C,2] (x, z): round the target or anywhere; on the table where there is one."""
    b = len(place.floor)
    spread = rng.log_uniform(b, c, 1, lo=0.3, hi=1.5)
    spread = torch.where(place.outdoor[:, None, None], rng.log_uniform(b, c, 1, lo=2, hi=12), spread)
    near = place.target[:, None, ::2] + spread * rng.normal(b, c, 2)
    anywhere = rng.uniform(b, c, 2, lo=-0.9, hi=0.9) * place.room[:, None, ::2]
    out = torch.where(rng.chance(0.75, b, c, 1), near, anywhere)
    top = prims[:, 0]  # the table
    on = rng.uniform(b, c, 3, lo=-0.9, hi=0.9) * top[:, None, 13:16] * constant((1.0, 0.0, 1.0), rng.device)
    on = torch.einsum("bij,bcj->bci", top[:, 4:13].unflatten(-1, (3, 3)), on) + top[:, None, 1:4]
    return torch.where(place.table[:, None, None], on[..., ::2], out)


def _to_wall(place, at: Tensor, half: Tensor, gap: Tensor) -> tuple[Tensor, Tensor]:
    """Moves places [B,C,2] to the nearest wall; returns them and the yaw that turns the back to it."""
    room = place.room[:, None, ::2]
    along_x = (room - at.abs()).argmin(-1) == 0
    side = torch.where(at >= 0, 1.0, -1.0)
    flush = side * (room - half[..., 2:] - gap[..., None])
    x = torch.where(along_x, flush[..., 0], at[..., 0])
    z = torch.where(along_x, at[..., 1], flush[..., 1])
    zero = torch.zeros_like(x)
    way = [torch.where(along_x, side[..., 0], zero), torch.where(along_x, zero, side[..., 1])]
    return torch.stack([x, z], -1), torch.atan2(way[0], way[1])


def _candidates(
    rng: Random, mix: MeshMix, meshes: Meshes, place, prims: Tensor, slot: _Slot, before: Candidates | None,
    crowd: Tensor, first: Tensor | None,
) -> Candidates:  # fmt: skip
    b, c = len(crowd), CANDIDATES
    index = meshes.draw(slot.place, rng.uniform(b, c))
    if first is not None:
        index = torch.where(crowd[:, None], first, index)
    size = rng.uniform(b, c, 1, lo=0.9, hi=1.1)
    size = torch.where(rng.chance(mix.scale, b, c, 1), rng.log_uniform(b, c, 1, lo=0.5, hi=2.0), size)
    half = meshes.half[index] * size * rng.uniform(b, c, 3, lo=0.96, hi=1.04)
    yaw = rng.uniform(b, c, hi=2 * math.pi)
    at = _somewhere(rng, place, prims, c)
    is_wall = (slot.place == PLACES.index(WALL))[:, None]
    inside = ~(place.outdoor | place.table | slot.upon | slot.lying)[:, None]
    to_wall = (is_wall | (meshes.back[index] & rng.chance(0.85, b, c))) & inside
    flush, facing = _to_wall(place, at, half, rng.uniform(b, c, hi=0.03))
    at, yaw = torch.where(to_wall[..., None], flush, at), torch.where(to_wall, facing, yaw)
    rot = torch.where(slot.lying[:, None, None, None], _any_rotation(rng, b, c), _yaw_matrix(yaw))
    # What lies is taken as the box round it.
    extent = torch.where(slot.lying[:, None, None], (rot.abs() * half[..., None, :]).sum(-1), half)
    flat_yaw = torch.where(slot.lying[:, None], 0.0, yaw)

    base = torch.where(place.table, place.floor, place.room[:, 1])[:, None].expand(b, c)
    ceiling = -place.room[:, None, 1] + 2 * extent[..., 1]
    hung = torch.maximum(base - rng.uniform(b, c, lo=0.4, hi=1.9), ceiling)
    base = torch.where(is_wall, hung, base)
    base = torch.where((slot.place == PLACES.index(CEILING))[:, None], ceiling, base)
    fits = torch.ones_like(base, dtype=torch.bool)
    if before is not None:
        # On the mesh before it: within seven tenths of its half size, at the height where things may stand.
        under = before.rot[:, 0]
        on = rng.uniform(b, c, 3, lo=-0.7, hi=0.7) * before.half * constant((1.0, 0.0, 1.0), rng.device)
        on = torch.einsum("bij,bcj->bci", under, on) + before.centre
        share = meshes.top[before.index] / (2 * meshes.half[before.index][..., 1])
        high = before.centre[..., 1] + before.half[..., 1] * (1 - 2 * share)
        at = torch.where(slot.upon[:, None, None], on[..., ::2], at)
        base = torch.where(slot.upon[:, None], high, base)
        fits = fits & (~slot.upon[:, None] | (before.fits & (meshes.top[before.index] > 0.02)))
    else:
        fits = fits & ~slot.upon[:, None]
    centre = torch.stack([at[..., 0], base - extent[..., 1], at[..., 1]], -1)
    round_it = (_yaw_matrix(flat_yaw).abs() * extent[..., None, :]).sum(-1)  # axis-parallel
    fits = fits & (centre.abs() + round_it < place.room[:, None] + 1e-3).all(-1)
    return Candidates(index, centre, half, rot, extent, flat_yaw, fits)


def _choose(them: Candidates, done: list[Candidates], upon: Tensor, live: Tensor) -> Candidates:
    """The first candidate [B,1,...] that fits and is clear of what stands already."""
    free = them.fits
    for k, other in enumerate(done):
        clear = apart(them.centre, them.extent, them.yaw, other.centre, other.extent, other.yaw)
        below = upon[:, None] & (k == len(done) - 1)  # boxes of shelves and seats reach higher than their top
        free = free & (clear | below | ~other.fits)
    pick = free.float().argmax(1, keepdim=True)

    def take(v: Tensor) -> Tensor:
        return torch.take_along_dim(v, pick.view(-1, 1, *([1] * (v.ndim - 2))), 1)

    return Candidates(*(take(v) for v in them[:-1]), take(free) & live[:, None])


def _dress(rng: Random, mix: MeshMix, meshes: Meshes, row: Tensor, chosen: Candidates) -> Tensor:
    """The record [B,PRIM_FLOATS] of a mesh, from that of the primitive whose paint it may wear."""
    lay, b = LAYOUT, len(row)
    index = chosen.index[:, 0]
    out = row.clone()
    out[:, lay["PRIM_KIND"]] = lay["KIND_MESH"]
    out[:, 1:4], out[:, 4:13], out[:, 13:16] = (
        chosen.centre[:, 0],
        chosen.rot[:, 0].flatten(1),
        chosen.half[:, 0],
    )
    out[:, lay["PRIM_SHAPE"]] = index.float()
    paint = rng.uniform(b) < torch.where(meshes.textured[index], mix.paint, 0.5)
    flat = rng.chance(mix.flat, b)
    out[:, lay["PRIM_HEIGHT"]] = lay["MESH_FLAT"] * flat.float() + lay["MESH_PAINT"] * paint.float()
    tint = torch.where(rng.chance(0.3, b, 1), rng.uniform(b, 3, lo=0.4, hi=1.3), 1.0)
    out[:, 28:31] = torch.where(paint[:, None], out[:, 28:31], tint)
    return out


def _clear_away(rng: Random, prims: Tensor, done: list[Candidates], use: Tensor) -> None:
    """Fewer primitives in scenes with meshes, and hardly one inside a mesh's box."""
    lay, (b, count) = LAYOUT, prims.shape[:2]
    kind = prims[..., lay["PRIM_KIND"]]
    loose = (kind != lay["KIND_RELIEF"]) & (kind != lay["KIND_MESH"])
    loose[:, : SLOTS.start] = False
    gone = rng.chance(0.35, b, count) & use[:, None]
    spread = 0.3 * prims[..., 13:16].amin(-1)
    often = rng.chance(0.7, b, count)
    for mesh in done:
        away = prims[..., 1:4] - mesh.centre
        local = torch.einsum("bji,bpj->bpi", mesh.rot[:, 0], away).abs()
        inside = (local < mesh.half + spread[..., None]).all(-1)
        gone = gone | (inside & mesh.fits & often)
    prims[..., lay["PRIM_KIND"]] *= ~(gone & loose)


def add_meshes(rng: Random, mix: MeshMix, meshes: Meshes, prims: Tensor, place) -> list[Candidates]:
    """Puts meshes into `prims` [B,P,PRIM_FLOATS] in place of some primitives; returns what stands where."""
    b = len(prims)
    share = torch.where(place.table, mix.table, torch.where(place.outdoor, mix.street, mix.meshes))
    use = rng.uniform(b) < share
    count = rng.integers(len(SLOTS) - 1, b) + 2
    crowd, clutter = rng.chance(mix.crowd, b), rng.chance(mix.clutter, b)
    clutter = clutter & ~place.outdoor
    done: list[Candidates] = []
    first = None
    for k, at in enumerate(SLOTS):
        slot = _slot(rng, mix, place, clutter)
        slot = slot._replace(upon=slot.upon & ~crowd)
        before = done[-1] if done else None
        them = _candidates(rng, mix, meshes, place, prims, slot, before, crowd, first)
        chosen = _choose(them, done, slot.upon, use & (count > k))
        dressed = _dress(rng, mix, meshes, prims[:, at], chosen)
        prims[:, at] = torch.where(chosen.fits, dressed, prims[:, at])
        done.append(chosen)
        if first is None:
            first = chosen.index
    _clear_away(rng, prims, done, use)
    return done
