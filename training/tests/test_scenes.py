# SPDX-License-Identifier: Apache-2.0
"""The ray caster against geometry that can be written down."""

import math
from dataclasses import replace

import pytest
import torch

from mast3r_torch.scenes import CameraMix, Random, SceneMix, Textures, relative_pose, render, sample
from mast3r_torch.scenes.native import LAYOUT, cells, dead_leaves
from mast3r_torch.scenes.textures import facades

HEIGHT, WIDTH, FOCAL = 48, 64, 60.0


@pytest.fixture(scope="module")
def textures() -> Textures:
    return Textures(Random(5), 16, 32)


@pytest.fixture(scope="module")
def drawn(textures):
    """Six random scenes and their cameras."""
    scenes = sample(Random(11), 6, HEIGHT, WIDTH, textures.count, len(textures.heights), CameraMix())
    return scenes, render(*scenes, textures, HEIGHT, WIDTH, 2)


def project(cam: torch.Tensor, world: torch.Tensor) -> torch.Tensor:
    local = (world - cam[:3]) @ cam[3:12].view(3, 3)
    return local[..., :2] / local[..., 2:] * cam[12] + cam[13:15]


def to_world(cam1: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    return points @ cam1[3:12].view(3, 3).T + cam1[:3]


def pixels() -> torch.Tensor:
    y, x = torch.meshgrid(torch.arange(HEIGHT), torch.arange(WIDTH), indexing="ij")
    return torch.stack([x, y], -1).float()


def test_points_project_to_their_own_pixels(drawn):
    scenes, out = drawn
    for b in range(6):
        for view in (0, 1):
            world = to_world(scenes.cams[b, 0], out.points[b, view])
            assert (project(scenes.cams[b, view], world) - pixels()).abs().max() < 0.02


def test_matches_are_where_the_point_is_seen(drawn):
    scenes, out = drawn
    agree = total = 0
    for b in range(6):
        found = out.match[b, 0, ..., 0] >= 0
        world = to_world(scenes.cams[b, 0], out.points[b, 0])
        there = project(scenes.cams[b, 1], world)
        assert (there - out.match[b, 0])[found].abs().max() < 0.02
        # The other view's own point at that pixel is the same, up to a pixel's width at edges.
        xy = out.match[b, 0][found].round().long()
        other = out.points[b, 1, xy[:, 1], xy[:, 0]]
        gap = (other - out.points[b, 0][found]).norm(dim=-1) / out.points[b, 0][found].norm(dim=-1)
        agree += (gap < 0.1).sum().item()
        total += found.sum().item()
    assert total > 1000 and agree > 0.93 * total


def scene(*prims: dict, room: float = 5.0):
    """One scene with two equal cameras at the origin looking along z, unless told otherwise."""
    table = torch.zeros(1, len(prims) + 1, LAYOUT["PRIM_FLOATS"])
    for row, prim in zip(table[0], [*prims, {"kind": "ROOM", "half": (room,) * 3}], strict=True):
        row[LAYOUT["PRIM_KIND"]] = LAYOUT[f"KIND_{prim['kind']}"]
        row[1:4] = torch.tensor(prim.get("centre", (0.0, 0.0, 0.0)))
        row[4:13] = torch.eye(3).flatten()
        row[13:16] = torch.tensor(prim["half"])
        row[LAYOUT["PRIM_SHAPE"]] = prim.get("shape", 0.3)
        row[LAYOUT["PRIM_PERIOD"]] = 1.0
        row[LAYOUT["PRIM_GLOSS"]] = 10.0
        row[28:31] = 1.0
    cams = torch.zeros(1, 2, LAYOUT["CAM_FLOATS"])
    cams[..., 3:12] = torch.eye(3).flatten()
    cams[..., 12] = FOCAL
    cams[..., 13:15] = torch.tensor([(WIDTH - 1) / 2, (HEIGHT - 1) / 2])
    lights = torch.zeros(1, LAYOUT["LIGHT_FLOATS"])
    lights[:, :3] = torch.tensor([0.0, -4.0, -4.0])
    lights[:, 3:6] = 0.5
    lights[:, 7], lights[:, 10] = 1.0, 0.4
    return table, cams, lights


def test_box_in_front_of_a_wall(textures):
    prims, cams, lights = scene({"kind": "BOX", "centre": (0.0, 0.0, 2.5), "half": (0.5, 0.5, 0.5)})
    points = render(prims, cams, lights, textures, HEIGHT, WIDTH, 1).points[0, 0]
    ray = (pixels() - cams[0, 0, 13:15]) / FOCAL
    inside = (ray.abs() * 2 < 0.5).all(-1)
    assert torch.allclose(points[inside][:, 2], torch.tensor(2.0), atol=1e-5)
    assert torch.allclose(points[~inside][:, 2], torch.tensor(5.0), atol=1e-4)


def test_hidden_points_have_no_match(textures):
    """A board hides part of the wall from the second camera only."""
    board = {"kind": "BOX", "centre": (1.0, 0.0, 1.5), "half": (0.3, 0.4, 0.01)}
    prims, cams, lights = scene(board)
    cams[0, 1, 0] = 1.0  # a step to the right: the board stands right before it
    out = render(prims, cams, lights, textures, HEIGHT, WIDTH, 1)
    match, points = out.match[0, 0], out.points[0, 0]
    wall = points[..., 2] > 4.9
    # The shadow of the board on the wall z = 5, as the second camera casts it from x = 1.
    scale = 5.0 / 1.49
    shadow = (
        wall & ((points[..., 0] - 1).abs() < 0.3 * scale - 0.1) & (points[..., 1].abs() < 0.4 * scale - 0.1)
    )
    assert shadow.sum() > 20 and (match[shadow] == -1).all()
    clear = wall & (points[..., 0] < -0.2)
    assert clear.sum() > 20
    where = match[clear]
    seen = where[:, 0] >= 0
    assert torch.allclose(where[seen][:, 0], pixels()[clear][seen][:, 0] - FOCAL / 5, atol=1e-3)


SURFACES = {  # distance from each surface at a point relative to the centre, half extents (a, b, c)
    "ELLIPSOID": ((0.6, 0.4, 0.5), lambda p, h: (p / h).norm(dim=-1) - 1),
    "TORUS": ((0.7, 0.2, 0.7), lambda p, h: torch.hypot(torch.hypot(p[:, 0], p[:, 2]) - 0.5, p[:, 1]) - 0.2),
    "CYLINDER": (
        (0.5, 0.6, 0.5),
        lambda p, h: torch.maximum(torch.hypot(p[:, 0], p[:, 2]) / 0.5, p[:, 1].abs() / 0.6) - 1,
    ),
    "ROUNDED": ((0.5, 0.5, 0.5), lambda p, h: (p.abs() - 0.35).clamp_min(0).norm(dim=-1) - 0.15),
}


@pytest.mark.parametrize("kind", SURFACES)
def test_curved_shapes(textures, kind):
    half, distance = SURFACES[kind]
    centre = torch.tensor([0.1, 0.3, 2.0])
    prims, cams, lights = scene({"kind": kind, "centre": tuple(centre.tolist()), "half": half, "shape": 0.3})
    points = render(prims, cams, lights, textures, HEIGHT, WIDTH, 1).points[0, 0]
    hit = points[points[..., 2] < 4.5] - centre
    assert len(hit) > 50
    assert distance(hit, torch.tensor(half)).abs().max() < 0.01


@pytest.mark.parametrize("kind", ["FRAME", "STAR", "BLOB", "RELIEF"])
def test_other_shapes_stay_in_their_boxes(textures, kind):
    half = torch.tensor([0.5, 0.4, 0.5])
    prims, cams, lights = scene(
        {"kind": kind, "centre": (0.0, 0.4, 2.0), "half": tuple(half.tolist()), "shape": 0.5}
    )
    out = render(prims, cams, lights, textures, HEIGHT, WIDTH, 2)
    points = out.points[0, 0]
    hit = points[points[..., 2] < 4.5] - torch.tensor([0.0, 0.4, 2.0])
    assert len(hit) > 20 and (hit.abs() < half + 0.01).all()
    assert out.image.isfinite().all() and out.image.min() >= 0


def test_shadow_falls_under_a_box(textures):
    """The floor under a hovering box gets ambient and fill light only."""
    box = {"kind": "BOX", "centre": (0.0, 0.5, 3.0), "half": (0.6, 0.05, 0.6)}
    images = []
    for prims in ((), (box,)):
        table, cams, lights = scene(*prims, room=4.0)
        lights[:, :3] = torch.tensor([0.0, -3.9, 3.0])  # straight above
        cams[..., 13:15] -= torch.tensor([0.0, 60.0])  # look down at the floor
        images.append(render(table, cams, lights, textures, HEIGHT, WIDTH, 1))
    floor = (images[0].points[0, 0, ..., 1] > 3.9) & (images[1].points[0, 0, ..., 1] > 3.9)
    near = floor & ((images[0].points[0, 0] - torch.tensor([0.0, 4.0, 3.0])).norm(dim=-1) < 1.0)
    far = floor & (images[0].points[0, 0, ..., 0].abs() > 1.3)
    bright, dark = (i.image[0, 0].sum(0) for i in images)
    assert near.sum() > 5 and far.sum() > 5
    assert (dark[near] < 0.9 * bright[near]).all()
    assert torch.equal(dark[far], bright[far])


def test_same_seed_same_scene(textures):
    def draw(seed):
        return sample(Random(seed), 2, HEIGHT, WIDTH, textures.count, len(textures.heights), CameraMix())

    assert all(torch.equal(a, b) for a, b in zip(draw(3), draw(3), strict=True))
    assert not torch.equal(draw(3).prims, draw(4).prims)


def test_stereo_pairs_are_rectified(textures):
    mix = CameraMix(stereo=1.0)
    cams = sample(Random(2), 64, HEIGHT, WIDTH, textures.count, len(textures.heights), mix).cams
    rot = cams[..., 3:12].unflatten(-1, (3, 3))
    step = torch.einsum("bji,bj->bi", rot[:, 0], cams[:, 1, :3] - cams[:, 0, :3])
    sideways = step[:, 0].abs() / step.norm(dim=-1)
    assert (sideways > 0.99).float().mean() > 0.8  # the rest was stopped by a wall
    turn = torch.linalg.matrix_norm(rot[:, 0] - rot[:, 1])
    assert turn.max() < 0.1 and torch.equal(cams[:, 0, 12], cams[:, 1, 12])
    assert torch.equal(cams[:, 0, 14], cams[:, 1, 14])


def test_rolled_and_zoomed_cameras(textures):
    plain = CameraMix(stereo=0.0)
    both = replace(plain, rolled=0.5, zoomed=0.5)
    size = (HEIGHT, WIDTH, textures.count, len(textures.heights))
    usual, extreme = (sample(Random(6), 400, *size, mix).cams for mix in (plain, both))

    def roll(cams):  # of the second camera: how far its x axis points up or down, and whether y does
        rot = cams[:, 1, 3:12].unflatten(-1, (3, 3))
        return torch.atan2(rot[:, 1, 0], rot[:, 1, 1]).abs()

    def ratio(cams):
        return (cams[:, 0, 12] / cams[:, 1, 12]).log().abs().exp()

    assert (roll(usual) > 1.3).float().mean() < 0.05 and (ratio(usual) > 1.55).float().mean() < 0.02
    assert 0.3 < (roll(extreme) > 1.3).float().mean() < 0.6 and (roll(extreme) > 2.5).float().mean() > 0.03
    assert 0.3 < (ratio(extreme) > 1.55).float().mean() < 0.6 and ratio(extreme).max() < 4 * 1.55
    stereo = sample(Random(6), 64, *size, replace(both, stereo=1.0)).cams
    assert torch.equal(stereo[:, 0, 12], stereo[:, 1, 12])


def test_sky_over_a_floor(textures):
    """A room of shape 1 has a floor only: above the horizon there is nothing to match."""
    prims, cams, lights = scene({"kind": "BOX", "centre": (0.0, 0.0, 2.5), "half": (0.3, 0.3, 0.3)})
    prims[0, -1, LAYOUT["PRIM_SHAPE"]] = 1
    prims[0, -1, 14] = 1.0  # the floor is a metre below the camera
    out = render(prims, cams, lights, textures, HEIGHT, WIDTH, 2)
    sky = out.match[0, 0, ..., 0] == -2
    box = (out.points[0, 0, ..., 2] - 2.2).abs() < 1e-3
    floor = (out.points[0, 0, ..., 1] - 1).abs() < 1e-3
    assert box.sum() > 20 and floor.any() and torch.equal(sky, ~(box | floor))
    assert torch.equal(out.match[0, 0][sky], torch.full((int(sky.sum()), 2), -2.0))
    assert out.image.isfinite().all() and out.image[0, 0][:, sky].min() > 0


def test_second_cameras_in_the_first_one_s_frame(drawn):
    scenes, out = drawn
    pose = relative_pose(scenes.cams)
    rot, place = pose[:, :9].unflatten(1, (3, 3)), pose[:, 9:]
    for b in range(6):
        local = (out.points[b, 1] - place[b]) @ rot[b]
        cam = scenes.cams[b, 1]
        assert (local[..., :2] / local[..., 2:] * cam[12] + cam[13:15] - pixels()).abs().max() < 0.02


def draw(textures, mix, scenes, count=48, seed=3):
    made = sample(Random(seed), count, HEIGHT, WIDTH, textures.count, len(textures.heights), mix, scenes)
    return made, render(*made, textures, HEIGHT, WIDTH, 1)


def test_streets_and_tables(textures):
    streets, out = draw(textures, CameraMix(stereo=0.3), SceneMix(outdoor=1.0, facades=4))
    room = streets.prims[:, -1]
    assert (room[:, LAYOUT["PRIM_SHAPE"]] == 1).all() and (room[:, 13] >= 8).all()
    above = room[:, None, 14] - streets.cams[..., 1]  # the ground is at y = half the height
    assert (above > 0.4).all()
    distance = out.points.norm(dim=-1).median()
    sky = (out.match[..., 0] == -2).float().mean()
    assert distance > 4 and 0.01 < sky < 0.6
    tables, out = draw(textures, CameraMix(stereo=0.3), SceneMix(table=1.0))
    assert not (out.match == -2).any() and out.points.norm(dim=-1).median() < 1.6
    assert (tables.prims[:, 1:-1, 13:16].median() < 0.05).all()


def test_small_things_in_a_wide_view(textures):
    _, out = draw(textures, CameraMix(stereo=0.0, close=1.0), SceneMix(), 96)
    seen = (out.match[..., 0] >= 0).float().mean((2, 3))
    some = seen.amax(1) > 0.1
    assert some.float().mean() > 0.5
    ratio = (seen.amax(1) / seen.amin(1).clamp_min(1e-3))[some]
    assert ratio.median() > 4  # of areas: twice the size
    _, out = draw(textures, CameraMix(stereo=0.0), SceneMix(), 96)
    plain = (out.match[..., 0] >= 0).float().mean((2, 3))
    assert (plain.amax(1) / plain.amin(1).clamp_min(1e-3))[plain.amax(1) > 0.1].median() < 2


def test_pairs_that_look_away(textures):
    made, out = draw(textures, CameraMix(stereo=0.0, away=1.0), SceneMix())
    seen = (out.match[..., 0] >= 0).float().mean((1, 2, 3))
    assert seen.median() < 0.05
    materials = made.prims[..., LAYOUT["PRIM_TEX"]]
    assert torch.equal(materials, materials[:, :1].expand_as(materials))


def test_lenses_crops_and_steps(textures):
    size = (HEIGHT, WIDTH, textures.count, len(textures.heights))
    mix = CameraMix(stereo=0.0, orbit=0.0, forward=0.0, turn=0.0)
    wild = replace(mix, lenses=1.0, cropped=1.0, near=1.0, zoomed=1.0, tele=5.0)
    usual, cams = (sample(Random(4), 300, *size, m).cams for m in (mix, wild))
    view = 2 * torch.atan(WIDTH / 2 / usual[:, 0, 12]).rad2deg()
    assert view.min() > 33 and view.max() < 83
    ratio = (cams[:, 0, 12] / cams[:, 1, 12]).log().abs().exp()
    assert 1.8 < ratio.median() < 3.5 and ratio.max() > 4
    lens = sample(Random(4), 300, *size, replace(mix, lenses=1.0)).cams[:, 0, 12]
    view = 2 * torch.atan(WIDTH / 2 / lens).rad2deg()
    assert view.min() < 18 and view.max() > 90
    off = (cams[..., 13] - (WIDTH - 1) / 2).abs() / WIDTH
    assert off.max() > 0.2 and off.max() <= 0.31
    near = sample(Random(4), 300, *size, replace(mix, near=1.0)).cams
    steps = [(c[:, 1, :3] - c[:, 0, :3]).norm(dim=-1).median() for c in (usual, near)]
    assert steps[1] < 0.4 * steps[0]


def test_facades_repeat():
    tex = facades(Random(3), 3, 128)
    assert tex.shape == (3, 3, 128, 128) and tex.isfinite().all()
    for i in range(3):
        cell = 128 / (i + 2)
        shift = tex[i].roll(round(cell), -1)
        other = tex[i].roll(round(cell / 2), -1)
        assert (tex[i] - shift).abs().mean() < 0.7 * (tex[i] - other).abs().mean()
    atlas = Textures(Random(1), 16, 32, facades=3)
    assert atlas.texels.shape[0] == 16


def test_leaves_and_cells():
    leaf = torch.zeros(1, 2, LAYOUT["LEAF_FLOATS"])
    leaf[0, :, 3], leaf[0, :, 5:7] = 1.0, 0.25
    leaf[0, 0, 1:3], leaf[0, 0, 7:10] = 0.5, torch.tensor([1.0, 0.5, 0.25])
    disc = dead_leaves(leaf, 64)[0]
    share = (disc[0] == 1).float().mean().item()
    assert share == pytest.approx(math.pi * 0.25**2, abs=0.01)
    assert torch.equal(disc[:, 32, 32], torch.tensor([1.0, 0.5, 0.25])) and disc[:, 0, 0].eq(0).all()
    sites = torch.tensor([[[0.25, 0.5, 1, 0, 0], [0.75, 0.5, 0, 1, 0]]])
    two = cells(sites, torch.tensor([-1.0]), 32)[0]
    assert two[0, :, :15].eq(1).all() and two[1, :, 17:31].eq(1).all()


def test_textures_repeat_and_average():
    tex = Textures(Random(1), 16, 32)
    assert tex.texels.shape == (16, 32**2 + 16**2 + 8**2 + 4**2, 4)
    full, small = tex.texels[:, :1024, :3].float(), tex.texels[:, -16:, :3].float()
    assert (full.mean(1) - small.mean(1)).abs().max() < 1.0
    address, before = tex.texels.data_ptr(), tex.texels.clone()
    tex.refresh(Random(2))
    assert tex.texels.data_ptr() == address and not torch.equal(tex.texels, before)
    with pytest.raises(ValueError, match="power of two"):
        Textures(Random(1), 16, 48)


def test_wrong_tensors_are_refused(textures):
    prims, cams, lights = scene()
    with pytest.raises(ValueError, match="want contiguous float32"):
        render(prims.double(), cams, lights, textures, HEIGHT, WIDTH, 1)
    with pytest.raises(ValueError, match="want contiguous float32"):
        render(prims, cams[:, :1].contiguous(), lights, textures, HEIGHT, WIDTH, 1)
