# SPDX-License-Identifier: Apache-2.0
"""Draws rooms, objects, lights and camera pairs. World axes: x right, y down, z forward."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .furniture import MeshMix, add_meshes
from .meshes import Meshes
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
    zoomed: float = 0.0  # likewise: one of the two cameras with 1.5 to `tele` times the focal length
    tele: float = 4.0
    lenses: float = 0.0  # of all pairs: fields of view of 15 to 100 degrees instead of 34 to 82
    cropped: float = 0.0  # of all pairs: principal points far off the middle
    near: float = (
        0.0  # of the pairs of the plain kind: steps from 0.02 of the distance, evenly in their logarithm
    )
    close: float = 0.0  # of all pairs: one camera right before a box that is a small part of the other's view
    away: float = 0.0  # of all pairs: the second camera looks elsewhere in a scene of one material
    reach: float | Tensor = 1.0  # 0 starts with near views, 1 is the full range


@dataclass(frozen=True)
class SceneMix:
    """What is shown: shares of all scenes. What is left are rooms."""

    outdoor: float = 0.0  # ground, sky, facades of up to 12 m; 8 to 60 m across
    table: float = 0.0  # a table with things of 1 to 20 cm in a room, seen from 0.25 to 1.5 m
    facades: int = 0  # the last so many textures are facades (see Textures)
    prints: float = (
        0.0  # of the things: one texture shows about once on each side, as on a parcel or a poster
    )
    furniture: MeshMix = MeshMix()  # what of it are meshes
    corners: float = 0.0  # things darken each other's corners, within 0.15 to 0.6 m times the place's size


class Place(NamedTuple):
    """Where a scene plays."""

    room: Tensor  # [B,3] half extents
    target: Tensor  # [B,3] what the cameras look at
    floor: Tensor  # [B] height (y) on which things stand
    size: Tensor  # [B] of the things and of their textures, 1 in a room
    outdoor: Tensor  # [B]
    table: Tensor  # [B]
    alike: Tensor  # [B] all of one material


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


def relative_pose(cams: Tensor) -> Tensor:
    """Rotation and place [B,12] of camera 2 in camera 1's frame."""
    rot = cams[..., 3:12].unflatten(-1, (3, 3))
    back = rot[:, 0].mT
    place = torch.matmul(back, (cams[:, 1, :3] - cams[:, 0, :3])[..., None])
    return torch.cat([torch.matmul(back, rot[:, 1]).flatten(1), place[..., 0]], 1)


def _room(rng: Random, b: int) -> Tensor:
    """Half extents [B,3]: mostly rooms of 3 to 10 m and usual height, some halls."""
    half = rng.log_uniform(b, 3, lo=1.5, hi=5.0)
    half[:, 1] = rng.uniform(b, lo=1.15, hi=1.7)
    hall = rng.chance(0.15, b)
    scale = torch.where(hall, rng.uniform(b, lo=2.0, hi=4.0), torch.ones(b, device=rng.device))
    return half * torch.stack([scale, scale**0.7, scale], -1)


def _objects(rng: Random, place: Place, count: int, tex_count: int, heights: int) -> Tensor:
    lay, (room, target, size_of) = LAYOUT, (place.room, place.target, place.size[:, None, None])
    b = len(room)
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
    half = (size * shape).clamp(0.01, 1.6) * size_of
    # A cluster round the target gives depth edges and clutter where the cameras look.
    spread = rng.uniform(b, 1, 1, lo=0.2, hi=1.0)
    near = target[:, None] + spread * size_of * rng.normal(b, count, 3)
    anywhere = rng.uniform(b, count, 3, lo=-0.9, hi=0.9) * room[:, None]
    centre = torch.where(rng.chance(0.75, b, count, 1), near, anywhere)
    centre = torch.minimum(torch.maximum(centre, -0.98 * room[:, None]), 0.98 * room[:, None])
    standing = rng.chance(0.55, b, count)
    # Things fall on the table, or beside it.
    off = (centre - target[:, None])[..., ::2].abs().amax(-1)
    floor = torch.where(off < 0.6, place.floor[:, None], room[:, None, 1]) - half[..., 1]
    centre[..., 1] = torch.where(standing, floor, centre[..., 1])
    free = quaternion_matrix(rng.normal(b, count, 4))
    upright = yaw_matrix(rng.uniform(b, count, hi=2 * math.pi))
    rot = torch.where((standing | rng.chance(0.3, b, count))[..., None, None], upright, free)
    prims[..., 1:4], prims[..., 4:13], prims[..., 13:16] = centre, rot.flatten(-2), half
    prims[..., lay["PRIM_SHAPE"]] = rng.uniform(b, count, lo=0.12, hi=0.9)
    _surface(rng, prims, tex_count, heights)
    prims[..., lay["PRIM_PERIOD"]] *= size_of[..., 0]
    _ground(rng, prims, room, ~(place.table | place.outdoor))
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


def _ground(rng: Random, prims: Tensor, room: Tensor, indoor: Tensor) -> None:
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
        use = rng.chance(0.18, b, 1) & indoor[:, None]
        prims[:, slot] = torch.where(use, relief, prims[:, slot])


def _print(rng: Random, prims: Tensor, share: float) -> None:
    lay, (b, count) = LAYOUT, prims.shape[:2]
    use = rng.chance(share, b, count) & (prims[..., lay["PRIM_KIND"]] != lay["KIND_RELIEF"])
    period = 2 * prims[..., 13:16].amax(-1) * rng.uniform(b, count, lo=0.6, hi=1.3)
    prims[..., lay["PRIM_PERIOD"]] = torch.where(use, period, prims[..., lay["PRIM_PERIOD"]])
    prims[..., lay["PRIM_DETAIL_AMOUNT"]] *= ~use


def _add_table(rng: Random, prims: Tensor, place: Place) -> None:
    """The first object of a scene with a table is its top."""
    lay, b = LAYOUT, prims.shape[0]
    top, thick = prims[:, 0].clone(), rng.uniform(b, lo=0.01, hi=0.03)
    half = rng.uniform(b, 2, lo=0.45, hi=1.1)
    top[:, lay["PRIM_KIND"]] = lay["KIND_BOX"]
    top[:, 1:4] = torch.stack([place.target[:, 0], place.floor + thick, place.target[:, 2]], -1)
    top[:, 4:13] = yaw_matrix(rng.uniform(b, hi=2 * math.pi)).flatten(-2)
    top[:, 13:16] = torch.stack([half[:, 0], thick, half[:, 1]], -1)
    top[:, lay["PRIM_PERIOD"]] = rng.log_uniform(b, lo=0.2, hi=1.5)
    prims[:, 0] = torch.where(place.table[:, None], top, prims[:, 0])


def _add_facades(rng: Random, prims: Tensor, place: Place, mix: SceneMix, tex_count: int, count: int) -> None:
    """Outdoors the first `count` objects are houses round the target."""
    lay, b = LAYOUT, prims.shape[0]
    house = prims[:, :count].clone()
    half = torch.stack(
        [rng.log_uniform(b, count, lo=lo, hi=hi) for lo, hi in ((2, 12), (2.5, 6), (1.5, 6))], -1
    )
    # Most stand at the far side of the target or beside it, in a street or round a square.
    angle, distance = rng.uniform(b, count, hi=2 * math.pi), rng.log_uniform(b, count, lo=3, hi=25)
    centre = torch.stack([angle.cos() * distance, torch.zeros_like(angle), angle.sin() * distance], -1)
    centre = place.target[:, None] * constant((1.0, 0.0, 1.0), rng.device) + centre
    centre[..., 1] = place.room[:, None, 1] - half[..., 1]
    street = rng.chance(0.5, b, 1)  # parallel walls in half of the scenes
    yaw = torch.where(street, rng.uniform(b, 1, hi=2 * math.pi), rng.uniform(b, count, hi=2 * math.pi))
    house[..., lay["PRIM_KIND"]] = lay["KIND_BOX"]
    house[..., 1:4], house[..., 13:16] = centre, half
    house[..., 4:13] = yaw_matrix(yaw).flatten(-2)
    house[..., lay["PRIM_SPECULAR"]] = 0
    if mix.facades:
        wall = tex_count - mix.facades + rng.integers(mix.facades, b, count)
        house[..., 17:20] = wall[..., None].float()
        stories = (wall - (tex_count - mix.facades)) % 3 + 2
        house[..., lay["PRIM_PERIOD"]] = stories * rng.uniform(b, count, lo=2.6, hi=3.8)
        house[..., lay["PRIM_DETAIL_AMOUNT"]] *= 0.4
    prims[:, :count] = torch.where(place.outdoor[:, None, None], house, prims[:, :count])


def _add_room(rng: Random, prims: Tensor, place: Place, tex_count: int, heights: int) -> Tensor:
    lay, b, room = LAYOUT, prims.shape[0], place.room
    shell = torch.zeros(b, 1, lay["PRIM_FLOATS"], device=rng.device)
    _surface(rng, shell, tex_count, heights)
    shell[..., lay["PRIM_KIND"]] = lay["KIND_ROOM"]
    shell[..., 4:13] = torch.eye(3, device=rng.device).flatten()
    shell[..., 13:16] = room[:, None]
    shell[..., 17:20] = rng.integers(tex_count, b, 1, 3).float()
    shell[..., lay["PRIM_PERIOD"]] = rng.log_uniform(b, 1, lo=1.2, hi=6.0)
    shell[..., lay["PRIM_SPECULAR"]] = 0
    return torch.cat([prims, shell], 1)


def _open_air(rng: Random, prims: Tensor, place: Place) -> None:
    """Outdoors the last primitive, the room, keeps its floor and gets a sky."""
    lay, b = LAYOUT, prims.shape[0]
    open_air = prims[:, -1].clone()
    open_air[:, lay["PRIM_SHAPE"]] = 1
    open_air[:, lay["PRIM_PERIOD"]] = rng.log_uniform(b, lo=1.5, hi=10)
    open_air[:, lay["PRIM_GLOSS"]] = rng.uniform(b, lo=0.6, hi=1.6)  # how bright
    open_air[:, lay["PRIM_DETAIL_AMOUNT"]] = rng.uniform(b, hi=0.8) * rng.chance(0.6, b)
    blue = rng.uniform(b, lo=0.5, hi=1.0)
    open_air[:, 28:31] = torch.stack([blue * 0.6, 0.3 + 0.5 * blue, torch.ones_like(blue)], -1)
    prims[:, -1] = torch.where(place.outdoor[:, None], open_air, prims[:, -1])


def _one_material(rng: Random, prims: Tensor, place: Place, tex_count: int) -> None:
    material = prims.clone()
    material[..., 17:20] = rng.integers(tex_count, len(prims), 1, 1).float()
    material[..., LAYOUT["PRIM_DETAIL"]] = material[..., :1, 17]
    material[..., 28:31] = material[:, :1, 28:31]
    prims.copy_(torch.where(place.alike[:, None, None], material, prims))


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
    if mix.near:
        step = torch.where(rng.chance(mix.near, b, 1), dist * rng.log_uniform(b, 1, lo=0.02, hi=0.2), step)
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


def _inside(place: Place) -> tuple[Tensor, Tensor]:
    """Bounds [B,3] of the cameras: within the room, over the table, over the ground."""
    low, high = -0.93 * place.room, 0.93 * place.room
    below = torch.where(place.table, place.floor - 0.05, high[:, 1])
    high[:, 1] = torch.where(place.outdoor, place.room[:, 1] - 0.5, below)
    return low, high


def _first_eye(rng: Random, scenes: SceneMix, place: Place) -> Tensor:
    room, target, b = place.room, place.target, len(place.room)
    dist = rng.log_uniform(b, 1, lo=0.7, hi=4.0) * (room[:, :1] / 3).clamp(0.7, 2.5)
    way = F.normalize(rng.normal(b, 3) * constant((1.0, 0.35, 1.0), rng.device), dim=-1)
    if scenes.outdoor or scenes.table:
        dist = torch.where(place.table[:, None], rng.log_uniform(b, 1, lo=0.25, hi=1.5), dist)
        dist = torch.where(place.outdoor[:, None], rng.log_uniform(b, 1, lo=3, hi=30), dist)
        over = way * constant((1.0, 0.0, 1.0), rng.device)
        over[:, 1] = -rng.uniform(b, lo=0.1, hi=1.2)  # down at the table
        way = torch.where(place.table[:, None], F.normalize(over, dim=-1), way)
    eye = target + dist * way
    if scenes.outdoor:
        eye[:, 1] = torch.where(
            place.outdoor, room[:, 1] - rng.log_uniform(b, lo=1.2, hi=12), eye[:, 1]
        )  # from the ground, some from a drone
    low, high = _inside(place)
    eye = torch.minimum(torch.maximum(eye, low), high)
    # Clipping may put the eye on the target.
    close = (eye - target).norm(dim=-1) < 0.3 * place.size.clamp_max(1)
    return torch.where(close[:, None], -0.5 * target, eye)


def _rolls(rng: Random, mix: CameraMix, b: int) -> Tensor:
    rolls = rng.normal(b, 2) * torch.where(rng.chance(0.25, b, 2), 0.35, 0.06)
    if mix.rolled:
        half_turn, pick = rng.uniform(b, lo=-math.pi, hi=math.pi), rng.uniform(b)
        quarter_turn = half_turn.sign() * math.pi / 2 + rolls[:, 1]
        over = torch.where(pick < 0.8, quarter_turn, math.pi + rolls[:, 1])
        free = torch.where(pick < 0.5, half_turn, over)
        rolls[:, 1] = torch.where(rng.chance(mix.rolled, b), free, rolls[:, 1])
    return rolls


def _focals(rng: Random, mix: CameraMix, stereo: Tensor, longest: int) -> Tensor:
    """Of both cameras [B,2]."""
    b = len(stereo)
    half_view = rng.uniform(b, lo=17, hi=41)
    if mix.lenses:
        half_view = torch.where(rng.chance(mix.lenses, b), rng.log_uniform(b, lo=7.5, hi=50), half_view)
    focal = longest / (2 * (half_view * (math.pi / 180)).tan())
    zoom = torch.where(
        rng.chance(0.3, b) & ~stereo, rng.log_uniform(b, lo=0.65, hi=1.5), torch.ones_like(focal)
    )
    tele = torch.ones(b, 2, device=rng.device)
    if mix.zoomed:
        power = torch.where(
            rng.chance(mix.zoomed, b) & ~stereo,
            rng.log_uniform(b, lo=1.5, hi=mix.tele),
            torch.ones_like(focal),
        )
        first = rng.chance(0.5, b)
        tele = torch.stack([torch.where(first, power, 1.0), torch.where(first, 1.0, power)], -1)
    return torch.stack([focal * tele[:, 0], focal * zoom * tele[:, 1]], -1)


def _cameras(
    rng: Random, mix: CameraMix, scenes: SceneMix, place: Place, height: int, width: int
) -> tuple[Tensor, Tensor]:
    """Cameras [B,2,CAM_FLOATS] and which pairs look at different parts of the scene."""
    lay, target, b = LAYOUT, place.target, len(place.room)
    eye = _first_eye(rng, scenes, place)
    low, high = _inside(place)
    dist = (target - eye).norm(dim=-1, keepdim=True)
    rolls = _rolls(rng, mix, b)
    rot = look_at(eye, target + rng.normal(b, 3) * dist * 0.12, rolls[:, 0])
    eye2, rot2, stereo = _second_camera(rng, mix, eye, rot, target, rolls[:, 1])
    eye2 = torch.minimum(torch.maximum(eye2, low), high)
    focals = _focals(rng, mix, stereo, max(height, width))
    if mix.away:
        turned = torch.matmul(yaw_matrix(rng.uniform(b, lo=0.55, hi=1.45) * math.pi), rot)
        aside = place.alike & ~stereo
        rot2 = torch.where(aside[:, None, None], turned, rot2)
    cams = torch.zeros(b, 2, lay["CAM_FLOATS"], device=rng.device)
    cams[:, 0, :3], cams[:, 1, :3] = eye, eye2
    cams[:, 0, 3:12], cams[:, 1, 3:12] = rot.flatten(-2), rot2.flatten(-2)
    cams[..., 12] = focals
    # Crops move the principal point; in stereo sets the two views differ in it.
    off = rng.normal(b, 2, 2) * 0.035 * rng.chance(0.35, b, 1, 1)
    if mix.cropped:
        far = (rng.normal(b, 2, 2) * 0.12).clamp(-0.3, 0.3)
        off = torch.where(rng.chance(mix.cropped, b, 1, 1), far, off)
    off[..., 1] = torch.where(stereo[:, None], off[:, :1, 1].expand(b, 2), off[..., 1])
    centre = constant(((width - 1) / 2, (height - 1) / 2), rng.device)
    cams[..., 13:15] = centre + off * width
    return cams, stereo


_SUBJECT = 5  # the object that close-ups show; houses come before it


def _close_up(
    rng: Random, mix: CameraMix, place: Place, prims: Tensor, cams: Tensor, tex_count: int, longest: int
) -> Tensor:
    """In some scenes one camera stands right before a face of a box, which is 10 to 45 %
    of the width of what the other sees. Says which."""
    lay, b = LAYOUT, len(prims)
    use = rng.chance(mix.close, b)
    half = rng.log_uniform(b, 3, lo=0.08, hi=0.35) * place.size[:, None]
    lying = rng.chance(0.3, b)
    rot = quaternion_matrix(rng.normal(b, 4))
    rot = torch.where(lying[:, None, None], rot, yaw_matrix(rng.uniform(b, hi=2 * math.pi)))
    centre = place.target + 0.3 * place.size[:, None] * rng.normal(b, 3)
    centre[:, 1] = place.floor - torch.where(lying, half.norm(dim=-1), half[:, 1])
    box = prims[:, _SUBJECT].clone()
    box[:, lay["PRIM_KIND"]] = lay["KIND_BOX"]
    box[:, 1:4], box[:, 4:13], box[:, 13:16] = centre, rot.flatten(-2), half
    box[:, 17:20] = rng.integers(tex_count, b, 1).float()
    extent = half[:, :2].amax(-1)
    box[:, lay["PRIM_PERIOD"]] = 2 * extent * rng.uniform(b, lo=0.7, hi=1.5)  # about one picture a face
    box[:, lay["PRIM_DETAIL_AMOUNT"]] *= 0.3
    prims[:, _SUBJECT] = torch.where(use[:, None], box, prims[:, _SUBJECT])

    normal = rot[:, :, 2]  # of the face that is shown: into the room, and not down
    middle = centre + F.pad(2 * place.room[:, 1:2], (1, 1))
    inwards = torch.where((normal * middle).sum(-1, keepdim=True) > 0, -1.0, 1.0)
    normal = normal * inwards
    low, high = _inside(place)
    eyes, rots, focals = [], [], []
    share = rng.log_uniform(b, lo=0.1, hi=0.45)
    for near in (True, False):
        view = rng.log_uniform(b, lo=14, hi=40) * (math.pi / 180)
        reach = rng.uniform(b, lo=0.75, hi=1.3) if near else 1 / share
        distance = (extent / view.tan() * reach + half[:, 2])[:, None]
        bend = constant((0.22,) * 3 if near else (0.5, 0.3, 0.5), rng.device)
        eye = centre + distance * F.normalize(normal + bend * rng.normal(b, 3), dim=-1)
        eye = torch.minimum(torch.maximum(eye, low), high)
        aim = centre + rng.normal(b, 3) * distance * view.tan()[:, None] * (0.1 if near else 0.3)
        roll = torch.where(
            rng.chance(mix.rolled, b), rng.uniform(b, lo=-math.pi, hi=math.pi), 0.15 * rng.normal(b)
        )
        eyes.append(eye)
        rots.append(look_at(eye, aim, roll).flatten(-2))
        focals.append(longest / (2 * view.tan()))
    # What stands between the near camera and its subject goes.
    way = centre - eyes[0]
    to = prims[..., 1:4] - eyes[0][:, None]
    along = ((to * way[:, None]).sum(-1) / way.square().sum(-1, keepdim=True).clamp_min(1e-9)).clamp(0, 1)
    gap = (to - along[..., None] * way[:, None]).norm(dim=-1)
    blocks = use[:, None] & (gap < 0.6 * prims[..., 13:16].norm(dim=-1))
    blocks &= prims[..., lay["PRIM_KIND"]] != lay["KIND_RELIEF"]
    blocks[:, _SUBJECT] = False
    blocks[:, 0] &= ~place.table
    prims[..., lay["PRIM_KIND"]] *= ~blocks

    swap = rng.chance(0.5, b)[:, None, None]
    pair = cams.clone()
    pair[..., :3], pair[..., 3:12] = torch.stack(eyes, 1), torch.stack(rots, 1)
    pair[..., 12] = torch.stack(focals, 1)
    pair = torch.where(swap, pair.flip(1), pair)
    cams.copy_(torch.where(use[:, None, None], pair, cams))
    return use


def _lights(rng: Random, place: Place) -> Tensor:
    lay, room = LAYOUT, place.room
    b = len(room)
    lights = torch.zeros(b, lay["LIGHT_FLOATS"], device=rng.device)
    lamp = rng.uniform(b, 3, lo=-0.85, hi=0.85) * room
    lamp[:, 1] = -room[:, 1] * rng.uniform(b, lo=0.5, hi=0.95)
    sun = F.normalize(rng.normal(b, 3) - constant((0.0, 1.2, 0.0), rng.device), dim=-1) * 60
    lights[:, :3] = torch.where(rng.chance(0.7, b, 1), lamp, sun)
    lights[:, :3] = torch.where(place.outdoor[:, None], 20 * sun, lights[:, :3])
    lights[:, 3:6] = rng.uniform(b, 1, lo=0.3, hi=1.0) * (1 + 0.1 * rng.normal(b, 3))
    lights[:, 6:9] = F.normalize(rng.normal(b, 3), dim=-1)
    lights[:, 9] = rng.uniform(b, hi=0.3)
    lights[:, 10] = rng.uniform(b, lo=0.15, hi=0.55)
    return lights


def _clear_of_cameras(prims: Tensor, eyes: Tensor, margin: Tensor) -> None:
    """Takes away objects that contain a camera or press against it."""
    rot = prims[..., 4:13].unflatten(-1, (3, 3))
    away = eyes[:, None] - prims[:, :, None, 1:4]  # [B,P,2,3]
    local = torch.einsum("bpji,bpcj->bpci", rot, away).abs()
    hit = (local < prims[:, :, None, 13:16] + margin.view(-1, 1, 1, 1)).all(-1).any(-1)
    prims[..., LAYOUT["PRIM_KIND"]] *= ~hit


def _place(rng: Random, b: int, mix: CameraMix, scenes: SceneMix) -> Place:
    room = _room(rng, b)
    target = rng.uniform(b, 3, lo=-0.6, hi=0.6) * room
    target[:, 1] = room[:, 1] - rng.uniform(b, lo=0.1, hi=1.4)
    no = torch.zeros(b, dtype=torch.bool, device=rng.device)
    place = Place(room, target, room[:, 1].clone(), torch.ones(b, device=rng.device), no, no, no)
    if scenes.outdoor or scenes.table:
        pick = rng.uniform(b)
        outdoor = pick < scenes.outdoor
        table = (pick >= scenes.outdoor) & (pick < scenes.outdoor + scenes.table)
        across, high = rng.log_uniform(b, lo=8, hi=60), rng.uniform(b, lo=25, hi=35)
        wide = torch.stack([across, high, across], -1)
        room = torch.where(outdoor[:, None], wide, room)
        target[:, ::2] = torch.where(
            outdoor[:, None], 0.3 * rng.uniform(b, 2, lo=-1, hi=1) * room[:, ::2], target[:, ::2]
        )
        top = room[:, 1] - rng.uniform(b, lo=0.6, hi=0.85)
        floor = torch.where(table, top, room[:, 1])
        target[:, 1] = torch.where(outdoor, room[:, 1] - rng.log_uniform(b, lo=0.3, hi=6), target[:, 1])
        target[:, 1] = torch.where(table, top - rng.uniform(b, hi=0.1), target[:, 1])
        size = torch.where(outdoor, rng.log_uniform(b, lo=2, hi=8), place.size)
        size = torch.where(table, rng.log_uniform(b, lo=0.08, hi=0.3), size)
        place = Place(room, target, floor, size, outdoor, table, no)
    if mix.away:
        place = place._replace(alike=rng.chance(mix.away, b))
    return place


def sample(
    rng: Random,
    batch: int,
    height: int,
    width: int,
    tex_count: int,
    heights: int,
    mix: CameraMix,
    scenes: SceneMix = SceneMix(),  # noqa: B008 - immutable
    objects: int = 22,
    meshes: Meshes | None = None,
) -> Scenes:
    """Scenes with a camera pair each, ready for `native.render`."""
    if scenes.furniture.any and meshes is None:
        raise ValueError("scenes: a share of meshes, but no meshes")
    place = _place(rng, batch, mix, scenes)
    prims = _objects(rng, place, objects, tex_count, heights)
    if scenes.prints:
        _print(rng, prims, scenes.prints)
    if scenes.table:
        _add_table(rng, prims, place)
    if scenes.outdoor:
        _add_facades(rng, prims, place, scenes, tex_count, _SUBJECT)
    if scenes.furniture.any:
        add_meshes(rng, scenes.furniture, meshes, prims, place)
    cams, _ = _cameras(rng, mix, scenes, place, height, width)
    margin = 0.2 * place.size.clamp_max(2.5)
    if mix.close:
        near = _close_up(rng, mix, place, prims, cams, tex_count, max(height, width))
        margin = torch.where(near, 0.0, margin)
    _clear_of_cameras(prims, cams[..., :3], margin)
    prims = _add_room(rng, prims, place, tex_count, heights)
    if scenes.outdoor:
        _open_air(rng, prims, place)
    if mix.away:
        _one_material(rng, prims, place, tex_count)
    lights = _lights(rng, place)
    if scenes.corners:
        reach = rng.log_uniform(batch, lo=0.15, hi=0.6) * place.size.clamp_max(2)
        lights[:, LAYOUT["LIGHT_REACH"]] = torch.where(rng.chance(scenes.corners, batch), reach, 0.0)
    return Scenes(prims.contiguous(), cams.contiguous(), lights.contiguous())
