# SPDX-License-Identifier: Apache-2.0
"""Draws rooms, objects, lights and camera pairs. World axes: x right, y down, z forward."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .native import LAYOUT
from .rng import Random, constant

KINDS = {  # share of each shape among the objects
    "KIND_BOX": 0.28,
    "KIND_ELLIPSOID": 0.12,
    "KIND_TORUS": 0.09,
    "KIND_CYLINDER": 0.13,
    "KIND_ROUNDED": 0.09,
    "KIND_FRAME": 0.14,
    "KIND_STAR": 0.06,
    "KIND_BLOB": 0.05,
    "KIND_RELIEF": 0.04,
}


@dataclass(frozen=True)
class CameraMix:
    """How the second camera comes from the first: shares and how far it goes."""

    stereo: float = 0.27  # rectified: the same orientation, a sideways step
    orbit: float = 0.2  # round the target, keeping it in view
    forward: float = 0.08
    turn: float = 0.05  # almost no step: rotation only
    rolled: float = (
        0.0  # of the pairs that are not stereo: the second camera turned about its axis, any angle
    )
    zoomed: float = 0.0  # likewise: one of the two cameras with 1.5 to 4 times the focal length
    reach: float | Tensor = 1.0  # 0 starts with near views, 1 is the full range


class Scenes(NamedTuple):
    prims: Tensor  # [B,P,PRIM_FLOATS]
    cams: Tensor  # [B,2,CAM_FLOATS]
    lights: Tensor  # [B,LIGHT_FLOATS]


def quaternion_matrix(q: Tensor) -> Tensor:
    w, x, y, z = F.normalize(q, dim=-1).unbind(-1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
        2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
        2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


def yaw_matrix(angle: Tensor) -> Tensor:
    zero = torch.zeros_like(angle)
    return quaternion_matrix(torch.stack([(angle / 2).cos(), zero, (angle / 2).sin(), zero], -1))


def look_at(eye: Tensor, target: Tensor, roll: Tensor) -> Tensor:
    """Camera-to-world rotation [B,3,3]: z to the target, y roughly down."""
    z = F.normalize(target - eye, dim=-1)
    down = constant((0.0, 1.0, 0.0), eye.device).expand_as(z)
    x = F.normalize(torch.linalg.cross(down, z) + 1e-6, dim=-1)
    y = torch.linalg.cross(z, x)
    cos, sin = roll.cos()[:, None], roll.sin()[:, None]
    return torch.stack([cos * x + sin * y, cos * y - sin * x, z], -1)


def _room(rng: Random, b: int) -> Tensor:
    """Half extents [B,3]: mostly rooms of 3 to 10 m and usual height, some halls."""
    half = rng.log_uniform(b, 3, lo=1.5, hi=5.0)
    half[:, 1] = rng.uniform(b, lo=1.15, hi=1.7)
    hall = rng.chance(0.15, b)
    scale = torch.where(hall, rng.uniform(b, lo=2.0, hi=4.0), torch.ones(b, device=rng.device))
    return half * torch.stack([scale, scale**0.7, scale], -1)


def _objects(
    rng: Random, b: int, count: int, room: Tensor, target: Tensor, tex_count: int, heights: int
) -> Tensor:
    lay = LAYOUT
    prims = torch.zeros(b, count, lay["PRIM_FLOATS"], device=rng.device)
    names = list(KINDS)
    shares = constant(tuple(KINDS.values()), rng.device)
    edges = shares.cumsum(0) / shares.sum()
    index = torch.searchsorted(edges, rng.uniform(b, count)).clamp_max(len(names) - 1)
    kind = constant(tuple(float(lay[n]) for n in names), rng.device)[index]
    alive = torch.arange(count, device=rng.device) < rng.integers(count - 5, b, 1) + 6
    prims[..., lay["PRIM_KIND"]] = kind * alive

    size = rng.log_uniform(b, count, 1, lo=0.06, hi=0.7)
    shape = torch.exp(0.55 * rng.normal(b, count, 3))
    # Rods and bars: thin things are what real scenes have and blobs lack.
    thin = torch.where(rng.chance(0.2, b, count, 1), rng.uniform(b, count, 2, lo=0.08, hi=0.3), 1.0)
    shape[..., ::2] = shape[..., ::2] * thin
    half = (size * shape).clamp(0.01, 1.6)
    # A cluster round the target gives depth edges and clutter where the cameras look.
    spread = rng.uniform(b, 1, 1, lo=0.2, hi=1.0)
    near = target[:, None] + spread * rng.normal(b, count, 3)
    anywhere = rng.uniform(b, count, 3, lo=-0.9, hi=0.9) * room[:, None]
    centre = torch.where(rng.chance(0.75, b, count, 1), near, anywhere)
    centre = torch.minimum(torch.maximum(centre, -0.98 * room[:, None]), 0.98 * room[:, None])
    standing = rng.chance(0.55, b, count)
    floor = room[:, None, 1] - half[..., 1]
    centre[..., 1] = torch.where(standing, floor, centre[..., 1])
    free = quaternion_matrix(rng.normal(b, count, 4))
    upright = yaw_matrix(rng.uniform(b, count, hi=2 * math.pi))
    rot = torch.where((standing | rng.chance(0.3, b, count))[..., None, None], upright, free)
    prims[..., 1:4], prims[..., 4:13], prims[..., 13:16] = centre, rot.flatten(-2), half
    prims[..., lay["PRIM_SHAPE"]] = rng.uniform(b, count, lo=0.12, hi=0.9)
    _surface(rng, prims, tex_count, heights)
    _ground(rng, prims, room)
    return prims


def _surface(rng: Random, prims: Tensor, tex_count: int, heights: int) -> None:
    lay, (b, count) = LAYOUT, prims.shape[:2]
    tex = rng.integers(tex_count, b, count, 3)
    one = rng.chance(0.6, b, count, 1)  # most things are of one material
    prims[..., 17:20] = torch.where(one, tex[..., :1], tex).float()
    prims[..., lay["PRIM_PERIOD"]] = rng.log_uniform(b, count, lo=0.35, hi=3.0)
    prims[..., lay["PRIM_DETAIL"]] = rng.integers(tex_count, b, count).float()
    prims[..., lay["PRIM_DETAIL_AMOUNT"]] = rng.uniform(b, count, hi=0.8) * rng.chance(0.7, b, count)
    prims[..., lay["PRIM_SPECULAR"]] = rng.uniform(b, count, hi=0.7) * rng.chance(0.3, b, count)
    prims[..., lay["PRIM_GLOSS"]] = rng.log_uniform(b, count, lo=4, hi=120)
    prims[..., lay["PRIM_HEIGHT"]] = rng.integers(heights, b, count).float()
    prims[..., 26:28] = rng.uniform(b, count, 2)
    grey = rng.uniform(b, count, 1, lo=0.5, hi=1.15)
    prims[..., 28:31] = grey * (1 + 0.12 * rng.normal(b, count, 3))


def _ground(rng: Random, prims: Tensor, room: Tensor) -> None:
    """In some scenes the first object is an uneven floor, the second an uneven wall."""
    lay, b = LAYOUT, prims.shape[0]
    floor = prims[:, 0].clone()
    thick = rng.uniform(b, lo=0.03, hi=0.3)
    floor[:, 1:4] = torch.stack([torch.zeros_like(thick), room[:, 1] - thick, torch.zeros_like(thick)], -1)
    floor[:, 4:13] = torch.eye(3, device=rng.device).flatten()
    floor[:, 13:16] = torch.stack([room[:, 0], thick, room[:, 2]], -1)
    wall = prims[:, 1].clone()
    # Local "up" (-y) looks into the room along +z: columns are the local axes in the world.
    turned = constant(((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0)), rng.device)
    wall[:, 4:13] = turned.flatten()
    wall[:, 1:4] = torch.stack([torch.zeros_like(thick), torch.zeros_like(thick), room[:, 2] - thick], -1)
    wall[:, 13:16] = torch.stack([room[:, 0], thick, room[:, 1]], -1)
    for slot, relief in ((0, floor), (1, wall)):
        relief[:, lay["PRIM_KIND"]] = lay["KIND_RELIEF"]
        # The height map repeats every two to six metres.
        relief[:, lay["PRIM_SHAPE"]] = rng.uniform(b, lo=1.0, hi=3.0)
        relief[:, lay["PRIM_PERIOD"]] = rng.log_uniform(b, lo=1.0, hi=5.0)
        use = rng.chance(0.18, b, 1)
        prims[:, slot] = torch.where(use, relief, prims[:, slot])


def _add_room(rng: Random, prims: Tensor, room: Tensor, tex_count: int, heights: int) -> Tensor:
    lay, b = LAYOUT, prims.shape[0]
    shell = torch.zeros(b, 1, lay["PRIM_FLOATS"], device=rng.device)
    _surface(rng, shell, tex_count, heights)
    shell[..., lay["PRIM_KIND"]] = lay["KIND_ROOM"]
    shell[..., 4:13] = torch.eye(3, device=rng.device).flatten()
    shell[..., 13:16] = room[:, None]
    shell[..., 17:20] = rng.integers(tex_count, b, 1, 3).float()
    shell[..., lay["PRIM_PERIOD"]] = rng.log_uniform(b, 1, lo=1.2, hi=6.0)
    shell[..., lay["PRIM_SPECULAR"]] = 0
    return torch.cat([prims, shell], 1)


def _second_camera(
    rng: Random, mix: CameraMix, eye: Tensor, rot: Tensor, target: Tensor, roll: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Position, rotation and whether the pair is a rectified one."""
    b = eye.shape[0]
    dist = (target - eye).norm(dim=-1, keepdim=True)
    pick = rng.uniform(b, 1)
    edges = [mix.stereo, mix.stereo + mix.orbit]
    edges += [edges[-1] + mix.forward, edges[-1] + mix.forward + mix.turn]
    stereo, orbit = pick < edges[0], (pick >= edges[0]) & (pick < edges[1])
    forward, turn = (pick >= edges[1]) & (pick < edges[2]), (pick >= edges[2]) & (pick < edges[3])

    step = dist * rng.uniform(b, 1, lo=0.02, hi=0.2 + 0.6 * mix.reach)
    way = F.normalize(rng.normal(b, 3) * constant((1.0, 0.4, 0.7), rng.device), dim=-1)
    eye2 = eye + step * way
    side = torch.where(rng.chance(0.5, b, 1), 1.0, -1.0)
    eye2 = torch.where(
        stereo, eye + side * dist * rng.log_uniform(b, 1, lo=0.01, hi=0.22) * rot[:, :, 0], eye2
    )
    angle = rng.uniform(b, lo=0.1, hi=0.35 + 0.75 * mix.reach) * side[:, 0]
    around = torch.einsum("bij,bj->bi", yaw_matrix(angle), eye - target) * rng.uniform(b, 1, lo=0.7, hi=1.3)
    eye2 = torch.where(orbit, target + around, eye2)
    eye2 = torch.where(forward, eye + side * dist * rng.uniform(b, 1, lo=0.05, hi=0.5) * rot[:, :, 2], eye2)
    eye2 = torch.where(turn, eye + 0.01 * way, eye2)

    aim = target + rng.normal(b, 3) * dist * torch.where(turn, 0.1 + 0.2 * mix.reach, 0.12)
    rot2 = look_at(eye2, aim, roll)
    small = quaternion_matrix(F.pad(0.004 * rng.normal(b, 3) * rng.chance(0.4, b, 1), (1, 0), value=1.0))
    rot2 = torch.where(stereo[..., None], torch.matmul(rot, small), rot2)
    return eye2, rot2, stereo[:, 0]


def _cameras(
    rng: Random, mix: CameraMix, room: Tensor, target: Tensor, height: int, width: int
) -> tuple[Tensor, Tensor]:
    """Cameras [B,2,CAM_FLOATS] and their positions [B,2,3]."""
    lay, b = LAYOUT, room.shape[0]
    dist = rng.log_uniform(b, 1, lo=0.7, hi=4.0) * (room[:, :1] / 3).clamp(0.7, 2.5)
    way = F.normalize(rng.normal(b, 3) * constant((1.0, 0.35, 1.0), rng.device), dim=-1)
    inside = 0.93 * room
    eye = torch.minimum(torch.maximum(target + dist * way, -inside), inside)
    # Clipping may put the eye on the target.
    eye = torch.where((eye - target).norm(dim=-1, keepdim=True) < 0.3, -0.5 * target, eye)
    dist = (target - eye).norm(dim=-1, keepdim=True)
    rolls = rng.normal(b, 2) * torch.where(rng.chance(0.25, b, 2), 0.35, 0.06)
    if mix.rolled:
        half_turn = rng.uniform(b, lo=-math.pi, hi=math.pi)
        quarter_turn = half_turn.sign() * math.pi / 2 + rolls[:, 1]
        free = torch.where(rng.chance(0.5, b), half_turn, quarter_turn)
        rolls[:, 1] = torch.where(rng.chance(mix.rolled, b), free, rolls[:, 1])
    rot = look_at(eye, target + rng.normal(b, 3) * dist * 0.12, rolls[:, 0])
    eye2, rot2, stereo = _second_camera(rng, mix, eye, rot, target, rolls[:, 1])
    eye2 = torch.minimum(torch.maximum(eye2, -inside), inside)

    half_view = rng.uniform(b, lo=17, hi=41) * (math.pi / 180)
    focal = max(height, width) / (2 * half_view.tan())
    zoom = torch.where(
        rng.chance(0.3, b) & ~stereo, rng.log_uniform(b, lo=0.65, hi=1.5), torch.ones_like(focal)
    )
    tele = torch.ones(b, 2, device=rng.device)
    if mix.zoomed:
        power = torch.where(
            rng.chance(mix.zoomed, b) & ~stereo, rng.log_uniform(b, lo=1.5, hi=4.0), torch.ones_like(focal)
        )
        first = rng.chance(0.5, b)
        tele = torch.stack([torch.where(first, power, 1.0), torch.where(first, 1.0, power)], -1)
    cams = torch.zeros(b, 2, lay["CAM_FLOATS"], device=rng.device)
    cams[:, 0, :3], cams[:, 1, :3] = eye, eye2
    cams[:, 0, 3:12], cams[:, 1, 3:12] = rot.flatten(-2), rot2.flatten(-2)
    cams[:, 0, 12], cams[:, 1, 12] = focal * tele[:, 0], focal * zoom * tele[:, 1]
    # Crops move the principal point; in stereo sets the two views differ in it.
    off = rng.normal(b, 2, 2) * 0.035 * rng.chance(0.35, b, 1, 1)
    off[..., 1] = torch.where(stereo[:, None], off[:, :1, 1].expand(b, 2), off[..., 1])
    centre = constant(((width - 1) / 2, (height - 1) / 2), rng.device)
    cams[..., 13:15] = centre + off * width
    return cams, torch.stack([eye, eye2], 1)


def _lights(rng: Random, room: Tensor) -> Tensor:
    lay, b = LAYOUT, room.shape[0]
    lights = torch.zeros(b, lay["LIGHT_FLOATS"], device=rng.device)
    lamp = rng.uniform(b, 3, lo=-0.85, hi=0.85) * room
    lamp[:, 1] = -room[:, 1] * rng.uniform(b, lo=0.5, hi=0.95)
    sun = F.normalize(rng.normal(b, 3) - constant((0.0, 1.2, 0.0), rng.device), dim=-1) * 60
    lights[:, :3] = torch.where(rng.chance(0.7, b, 1), lamp, sun)
    lights[:, 3:6] = rng.uniform(b, 1, lo=0.3, hi=1.0) * (1 + 0.1 * rng.normal(b, 3))
    lights[:, 6:9] = F.normalize(rng.normal(b, 3), dim=-1)
    lights[:, 9] = rng.uniform(b, hi=0.3)
    lights[:, 10] = rng.uniform(b, lo=0.15, hi=0.55)
    return lights


def _clear_of_cameras(prims: Tensor, eyes: Tensor, margin: float = 0.2) -> None:
    """Takes away objects that contain a camera or press against it."""
    rot = prims[..., 4:13].unflatten(-1, (3, 3))
    away = eyes[:, None] - prims[:, :, None, 1:4]  # [B,P,2,3]
    local = torch.einsum("bpji,bpcj->bpci", rot, away).abs()
    hit = (local < prims[:, :, None, 13:16] + margin).all(-1).any(-1)
    prims[..., LAYOUT["PRIM_KIND"]] *= ~hit


def sample(
    rng: Random,
    batch: int,
    height: int,
    width: int,
    tex_count: int,
    heights: int,
    mix: CameraMix,
    objects: int = 22,
) -> Scenes:
    """Scenes with a camera pair each, ready for `native.render`."""
    room = _room(rng, batch)
    target = rng.uniform(batch, 3, lo=-0.6, hi=0.6) * room
    target[:, 1] = room[:, 1] - rng.uniform(batch, lo=0.1, hi=1.4)
    prims = _objects(rng, batch, objects, room, target, tex_count, heights)
    cams, eyes = _cameras(rng, mix, room, target, height, width)
    _clear_of_cameras(prims, eyes)
    prims = _add_room(rng, prims, room, tex_count, heights)
    return Scenes(prims.contiguous(), cams.contiguous(), _lights(rng, room).contiguous())
