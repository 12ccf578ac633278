# SPDX-License-Identifier: Apache-2.0
"""Meshes in the ray caster against shapes that can be written down, and where they are placed."""

import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from mast3r_torch.scenes import CameraMix, Meshes, MeshMix, Random, SceneMix, Textures, render, sample
from mast3r_torch.scenes import furniture as furnish
from mast3r_torch.scenes.meshes import BACK, CEILING, FLOOR, OUTDOOR, TABLE, WALL, Mesh, crease_normals
from mast3r_torch.scenes.native import LAYOUT, build_mesh

HEIGHT, WIDTH, FOCAL = 48, 64, 60.0
CUBE = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float32)
FACES = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))


def mesh(points, faces, half=(0.5, 0.5, 0.5), uv=None, material=0, top=1.0, classes=FLOOR) -> Mesh:
    """`points` [V,3] in half boxes."""
    points, faces = np.asarray(points, np.float32), np.asarray(faces)
    corners = points[faces]
    normals = crease_normals(points, faces, points.astype(float) * np.array(half))
    uv = np.zeros((len(faces), 3, 2), np.float32) if uv is None else np.asarray(uv, np.float32)[faces]
    rows = np.full(len(faces), material)
    return Mesh(corners, normals, uv, rows, np.array(half, np.float32), top, classes, 0)


def cube(**more) -> Mesh:
    return mesh(CUBE, [t for a, b, c, d in FACES for t in ((a, b, c), (a, c, d))], **more)


def sphere(rings=24, **more) -> Mesh:
    """Closed; its triangles are small, and many lie edge on."""
    angle = [(math.pi * i / rings, 2 * math.pi * j / rings) for i in range(rings + 1) for j in range(rings)]
    points = [(math.sin(a) * math.cos(b), math.cos(a), math.sin(a) * math.sin(b)) for a, b in angle]
    faces = []
    for i in range(rings):
        for j in range(rings):
            a, b = i * rings + j, i * rings + (j + 1) % rings
            faces += [(a, b, a + rings)] * (i > 0) + [(b, b + rings, a + rings)] * (i < rings - 1)
    return mesh(points, faces, **more)


def pack(*meshes: Mesh, colour=(0.8, 0.8, 0.8), texture=-1.0, picture=None) -> Meshes:
    material = torch.zeros(1, LAYOUT["MATERIAL_FLOATS"])
    material[0, :3], material[0, 3], material[0, 5] = torch.tensor(colour), texture, 10.0
    return Meshes(list(meshes), material, torch.zeros(0, 3, 32, 32) if picture is None else picture)


@pytest.fixture(scope="module")
def textures() -> Textures:
    return Textures(Random(5), 16, 32)


def scene(*prims: dict, room: float = 5.0):
    """One scene, two equal cameras at the origin that look along z."""
    table = torch.zeros(1, len(prims) + 1, LAYOUT["PRIM_FLOATS"])
    for row, prim in zip(table[0], [*prims, {"kind": "ROOM", "half": (room,) * 3}], strict=True):
        row[LAYOUT["PRIM_KIND"]] = LAYOUT[f"KIND_{prim['kind']}"]
        row[1:4] = torch.tensor(prim.get("centre", (0.0, 0.0, 0.0)))
        row[4:13] = prim.get("rot", torch.eye(3)).flatten()
        row[13:16] = torch.tensor(prim["half"])
        row[LAYOUT["PRIM_SHAPE"]] = prim.get("shape", 0)
        row[LAYOUT["PRIM_HEIGHT"]] = prim.get("look", 0)
        row[LAYOUT["PRIM_PERIOD"]], row[LAYOUT["PRIM_GLOSS"]] = 1.0, 10.0
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


def turned() -> torch.Tensor:
    return furnish._any_rotation(Random(4), 1)[0]


def draw(textures, meshes, *prims, move=0.4, spp=1):
    table, cams, lights = scene(*prims)
    cams[0, 1, 0] = move
    return render(table, cams, lights, textures, HEIGHT, WIDTH, spp, meshes)


def test_a_cube_is_a_box(textures):
    """Turned, and with three different sides: the same points and, its far side aside, the same matches."""
    half, rot = (0.5, 0.3, 0.8), turned()
    prim = {"centre": (0.1, 0.2, 2.6), "half": half, "rot": rot}
    box = draw(textures, None, {"kind": "BOX", **prim})
    ours = draw(textures, pack(cube(half=half)), {"kind": "MESH", **prim})
    assert (ours.points - box.points).norm(dim=-1).max() < 3e-5 * 5
    hit = ours.points[..., 2] < 4.9
    assert hit.sum() > 500
    there = (ours.match[..., 0] >= 0) == (box.match[..., 0] >= 0)
    assert there.float().mean() > 0.995
    both = (ours.match[..., 0] >= 0) & (box.match[..., 0] >= 0)
    assert (ours.match - box.match)[both].abs().max() < 1e-3


def test_scale_is_of_the_record_not_of_the_mesh(textures):
    """A cube of any half is drawn with the half box of the primitive."""
    prim = {"kind": "MESH", "centre": (0.0, 0.0, 2.5), "half": (0.7, 0.2, 0.4)}
    points = draw(textures, pack(cube(half=(0.5, 0.5, 0.5))), prim).points[0, 0]
    front = points[points[..., 2] < 2.2]
    assert len(front) > 100 and (front[:, 2] - 2.1).abs().max() < 1e-4
    assert 0.6 < front[:, 0].abs().max() <= 0.7 + 1e-4 and 0.15 < front[:, 1].abs().max() <= 0.2 + 1e-4


def loop(corners: torch.Tensor, eye: torch.Tensor, rays: torch.Tensor) -> torch.Tensor:
    """The least parameter over all triangles [T,3,3] of rays [N,3], in float64; inf: none is hit."""
    a, b, c = (corners[:, k].double() for k in range(3))
    e1, e2, s = b - a, c - a, eye.double() - a
    d = rays.double()[:, None]
    p = torch.linalg.cross(d, e2[None].expand(len(rays), -1, -1))
    det = (e1 * p).sum(-1)
    u = (s * p).sum(-1) / det
    q = torch.linalg.cross(s, e1)
    v = (d * q).sum(-1) / det
    t = (e2 * q).sum(-1) / det
    ok = (u >= -1e-9) & (v >= -1e-9) & (u + v <= 1 + 1e-9) & (t > 0.03)
    return torch.where(ok, t, torch.inf).amin(1)


def test_the_tree_finds_what_a_loop_over_all_triangles_finds(textures):
    """Eighty triangles anywhere: which is nearest is left to the tree."""
    rng = np.random.default_rng(2)
    points = np.clip(rng.normal(size=(80, 1, 3)) * 0.5 + rng.normal(size=(80, 3, 3)) * 0.4, -1, 1)
    many = mesh(points.reshape(-1, 3), np.arange(240).reshape(80, 3), half=(1.0, 1.0, 1.0))
    out = draw(textures, pack(many), {"kind": "MESH", "centre": (0.0, 0.0, 3.0), "half": (1.0, 1.0, 1.0)})
    _, cams, _ = scene()
    y, x = torch.meshgrid(torch.arange(HEIGHT), torch.arange(WIDTH), indexing="ij")
    rays = torch.nn.functional.pad((torch.stack([x, y], -1) - cams[0, 0, 13:15]) / FOCAL, (0, 1), value=1.0)
    corners = torch.from_numpy(many.corners) + torch.tensor([0.0, 0.0, 3.0])
    want = loop(corners, torch.zeros(3), rays.view(-1, 3)).view(HEIGHT, WIDTH)
    got = out.points[0, 0, ..., 2]
    hit = got < 4.9
    assert hit.sum() > 800
    assert (hit == (want < 4.9)).float().mean() > 0.998  # but for pixels on an edge
    both = hit & (want < 4.9)
    assert ((got - want)[both].abs() < 1e-4).float().mean() > 0.998


def test_nodes_hold_their_triangles():
    ball = sphere()
    corners = torch.from_numpy(ball.corners)
    nodes, order = build_mesh(corners.contiguous(), torch.from_numpy(ball.half))
    assert sorted(order.tolist()) == list(range(len(corners)))
    leaves = nodes[nodes[:, 7] > 0]
    assert int(leaves[:, 7].sum()) == len(corners) and leaves[:, 7].max() <= 8
    for node in leaves:
        inside = corners[order[int(node[3]) : int(node[3] + node[7])]].reshape(-1, 3)
        assert (inside >= node[:3]).all() and (inside <= node[4:7]).all()


def test_nothing_is_seen_through_the_edges_of_a_closed_mesh(textures):
    """Rays at the vertices and at the middles of edges, where two or more triangles meet."""
    ball, centre, half = sphere(), torch.tensor([0.3, -0.2, 2.5]), 0.6
    corners = torch.from_numpy(ball.corners) * half + centre
    normal = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    facing = (normal * corners[:, 0]).sum(-1) * (normal * (corners[:, 0] - centre)).sum(-1) < 0
    away = torch.nn.functional.normalize(corners.mean(1) - centre, dim=-1)
    well = facing & (-(away * torch.nn.functional.normalize(corners.mean(1), dim=-1)).sum(-1) > 0.4)
    ends = corners[well]
    aims = torch.cat([ends.flatten(0, 1), (ends + ends.roll(1, 1)).flatten(0, 1) / 2])
    # One camera a ray: its first pixel looks at the aim.
    prim = {"kind": "MESH", "centre": tuple(centre.tolist()), "half": (half,) * 3}
    table, cams, lights = scene(prim)
    n = len(aims)
    assert n > 1000
    cams = cams.expand(n, 2, -1).clone()
    cams[:, 0, 13:15] = -aims[:, :2] / aims[:, 2:] * FOCAL
    table, lights = (t.expand(n, *t.shape[1:]).contiguous() for t in (table, lights))
    out = render(table, cams, lights, textures, 1, 1, 1, pack(ball))
    # What went through the front would meet the back.
    assert (out.points[:, 0, 0, 0, 2] - aims[:, 2]).abs().max() < 0.01


def from_both_sides(textures, thing, half):
    """A mesh a metre before camera 1, and camera 2 behind it, which looks back; the matches of its pixels."""
    table, cams, lights = scene({"kind": "MESH", "centre": (0.0, 0.0, 1.0), "half": half})
    cams[0, 1, 2] = 2.0
    cams[0, 1, 3:12] = torch.tensor([-1.0, 0, 0, 0, 1, 0, 0, 0, -1])
    out = render(table, cams, lights, textures, HEIGHT, WIDTH, 1, pack(thing))
    shown = [(out.points[0, view, ..., 2] - 1).abs() < 0.01 for view in (0, 1)]
    assert min(s.sum() for s in shown) > 500
    return torch.cat([out.match[0, view][s] for view, s in enumerate(shown)])


def test_the_far_side_of_a_thin_plate_has_no_match(textures):
    """Five millimetres: within a hundredth of the distance, which is the slack of other shapes."""
    half = (0.4, 0.3, 0.0025)
    assert (from_both_sides(textures, cube(half=half), half) == -1).all()


def test_the_other_side_of_a_sheet_is_another_surface(textures):
    """Without thickness, nothing stands between the two sides."""
    half = (0.4, 0.3, 5e-4)
    sheet = mesh([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)], [(0, 1, 2), (0, 2, 3)], half=half)
    assert (from_both_sides(textures, sheet, half) == -1).all()


def test_what_is_close_behind_a_mesh_is_hidden(textures):
    """A box whose front is 4 mm behind a sheet. Camera 1 sees it to the left of the sheet; camera 2, which
    stands to the right, does not see the column of pixels nearest to the sheet's edge."""
    half = (0.2, 0.6, 5e-4)
    sheet = mesh([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)], [(0, 1, 2), (0, 2, 3)], half=half)
    front = {"kind": "MESH", "centre": (0.1922, 0.0, 1.0), "half": half}
    behind = {"kind": "BOX", "centre": (0.0, 0.0, 1.054), "half": (0.4, 0.3, 0.05)}
    out = draw(textures, pack(sheet), front, behind, move=0.5)
    rows = slice(12, 36)
    left = out.points[0, 0, rows, 30:32]
    assert ((left[..., 2] - 1.004).abs() < 1e-3).all()  # the box
    match = out.match[0, 0, rows, 30:32, 0]
    assert (match[:, 0] >= 0).all() and (match[:, 1] == -1).all()


def test_a_sheet_has_two_sides_and_one_of_them_is_seen(textures):
    """A single square, wound either way: both are hit, lit by the viewer's side, and matched from there."""
    square = [(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)]
    images = []
    for faces in ([(0, 1, 2), (0, 2, 3)], [(2, 1, 0), (3, 2, 0)]):
        sheet = mesh(square, faces, half=(0.5, 0.4, 5e-4))
        prim = {"kind": "MESH", "centre": (0.0, 0.0, 2.0), "half": (0.5, 0.4, 5e-4)}
        table, cams, lights = scene(prim)
        lights[0, :3] = torch.tensor([0.0, -1.0, -2.0])
        cams[0, 1, 0] = 0.2
        out = render(table, cams, lights, textures, HEIGHT, WIDTH, 1, pack(sheet))
        hit = (out.points[0, 0, ..., 2] - 2).abs() < 1e-3
        assert hit.sum() > 500 and (out.match[0, 0][hit][:, 0] >= 0).float().mean() > 0.95
        images.append(out.image[0, 0][:, hit].mean().item())
    assert images[0] == pytest.approx(images[1], rel=1e-5)
    dark = 0.8 * 0.4  # ambient alone
    assert images[0] > 1.5 * dark


def test_shadows_of_meshes(textures):
    """A mesh darkens the floor below it, and a sheet in the light does not darken itself."""
    plate = {"kind": "MESH", "centre": (0.0, 0.5, 3.0), "half": (0.8, 0.02, 0.8)}
    table, cams, lights = scene(plate, room=2.0)
    table[0, -1, 13:16] = torch.tensor([4.0, 1.5, 6.0])
    table[0, -1, 17:20] = 0
    lights[0, :3] = torch.tensor([0.0, -1.4, 3.0])
    one = pack(cube(half=(0.8, 0.02, 0.8)))
    with_it = render(table, cams, lights, textures, HEIGHT, WIDTH, 1, one)
    table[0, 0, 0] = 0
    without = render(table, cams, lights, textures, HEIGHT, WIDTH, 1, one)
    points = with_it.points[0, 0]
    floor = (
        ((points[..., 1] - 1.5).abs() < 1e-3)
        & ((points[..., 2] - 3).abs() < 1.0)
        & (points[..., 0].abs() < 1)
    )
    assert floor.sum() > 20
    assert (with_it.image[0, 0].sum(0)[floor] < 0.9 * without.image[0, 0].sum(0)[floor]).all()
    # On top of the plate, all is lit alike: no acne.
    top = (
        ((points[..., 1] - 0.48).abs() < 1e-3) & (points[..., 2] > 2.25) & (points[..., 0].abs() < 0.79)
    ).nonzero()
    values = with_it.image[0, 0].sum(0)[top[:, 0], top[:, 1]]
    ambient = 3 * 0.8 * 0.4
    assert len(values) > 20 and values.min() > 0.8 * values.max() and values.min() > 1.5 * ambient


def test_own_textures_by_corner(textures):
    """A square whose texture has four quarters of different colours, shown by its coordinates."""
    picture = torch.zeros(1, 3, 32, 32)
    picture[0, 0, :16, 16:], picture[0, 1, 16:, :16], picture[0, 2, 16:, 16:] = 1, 1, 1
    atlas = Textures(Random(5), 16, 32, fixed=picture)
    square = [(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)]
    shown = [(0, 0), (1, 0), (1, 1), (0, 1)]
    sheet = mesh(square, [(0, 1, 2), (0, 2, 3)], half=(0.9, 0.6, 5e-4), uv=shown)
    prim = {"kind": "MESH", "centre": (0.0, 0.0, 2.0), "half": (0.9, 0.6, 5e-4)}
    image = draw(atlas, pack(sheet, colour=(1, 1, 1), texture=0.0, picture=picture), prim).image[0, 0]
    colours = [image[:, 24 + dy, 32 + dx] for dy in (-8, 8) for dx in (-12, 12)]
    assert colours[0].max() < 0.05 * colours[1].max()
    assert [c.argmax().item() for c in colours[1:]] == [0, 1, 2]


def flat_normals(corners: np.ndarray) -> np.ndarray:
    out = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return out / np.linalg.norm(out, axis=1, keepdims=True)


def test_normals_stop_at_creases():
    """A cube and a tetrahedron keep flat faces; a ball of small triangles is smooth, however wound."""
    tetrahedron = mesh(CUBE[[0, 3, 5, 6]], [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)])
    for sharp in (cube(), tetrahedron):
        flat = flat_normals(sharp.corners)
        assert np.abs(np.einsum("tki,ti->tk", sharp.normals, flat)).min() > 0.9999
    ball = sphere()
    mixed = ball.corners.copy()
    mixed[::2] = mixed[::2, ::-1]
    places = np.round(mixed.reshape(-1, 3) * 1e5).astype(int)
    normals = crease_normals(
        places, np.arange(len(places)).reshape(-1, 3), mixed.reshape(-1, 3).astype(float)
    )
    out = mixed / np.linalg.norm(mixed, axis=-1, keepdims=True)
    assert np.abs((normals * out).sum(-1)).min() > 0.98


def test_corners_darken(textures):
    """Where a box stands on the floor it is darker, with a reach; in the open it is not."""
    prims, cams, lights = scene({"kind": "BOX", "centre": (0.0, 0.3, 3.0), "half": (0.5, 0.5, 0.5)})
    prims[0, -1, 13:16] = torch.tensor([4.0, 0.8, 6.0])
    lights[0, 3:6] = 0
    plain = render(prims, cams, lights, textures, HEIGHT, WIDTH, 1).image[0, 0].sum(0)
    lights[0, LAYOUT["LIGHT_REACH"]] = 0.5
    drawn = render(prims, cams, lights, textures, HEIGHT, WIDTH, 1)
    ratio, points = drawn.image[0, 0].sum(0) / plain, drawn.points[0, 0]
    foot = (points[..., 2] - 2.5).abs().lt(0.1) & (points[..., 1] > 0.6)
    far = (points[..., 1] - 0.8).abs().lt(1e-3) & (points[..., 0].abs() > 1.2) & (points[..., 2] < 5)
    assert foot.sum() > 10 and far.sum() > 10
    assert ratio[foot].mean() < 0.9 and ratio[far].mean() > 0.98 and ratio.max() <= 1 + 1e-5


@pytest.fixture(scope="module")
def things() -> Meshes:
    """One of each class, none of them a cube's size."""
    kinds = [((0.4, 0.5, 0.3), FLOOR), ((0.5, 0.8, 0.3), FLOOR | BACK), ((0.08, 0.1, 0.06), TABLE)]
    kinds += [((0.3, 0.3, 0.15), WALL | BACK), ((0.3, 0.2, 0.3), CEILING), ((0.6, 0.9, 0.5), OUTDOOR)]
    return pack(*(cube(half=half, top=2 * half[1], classes=bits) for half, bits in kinds))


def furnished(things, seed=3, count=64, **more):
    mix = MeshMix(meshes=1.0, table=1.0, street=1.0, scale=0.0, **more)
    rng = Random(seed)
    shown = SceneMix(outdoor=0.25, table=0.25, furniture=mix)
    from mast3r_torch.scenes import sampler

    place = sampler._place(rng, count, CameraMix(), shown)
    prims = sampler._objects(rng, place, 22, 16, 32)
    sampler._add_table(rng, prims, place)
    done = furnish.add_meshes(rng, mix, things, prims, place)
    return place, prims, done


def test_meshes_stand_apart_and_on_something(things):
    place, prims, done = furnished(things, clutter=0.0, crowd=0.0)
    placed = torch.stack([d.fits[:, 0] for d in done], 1)
    assert placed.sum(1).float().mean() > 3
    for i, a in enumerate(done):
        for k, b in enumerate(done[:i]):
            both = (a.fits & b.fits)[:, 0]
            # What stands upon the one before it touches that one only.
            clear = furnish.apart(a.centre, a.extent - 2e-3, a.yaw, b.centre, b.extent, b.yaw)[:, 0]
            assert clear[both].all() or k == i - 1
    low = torch.stack([(d.centre + d.extent)[:, 0, 1] for d in done], 1)
    floor = torch.where(place.table, place.floor, place.room[:, 1])[:, None]
    kind = things.half[torch.stack([d.index[:, 0] for d in done], 1)]
    standing = placed & (kind[..., 0] != 0.3)  # not at a wall, not hanging
    on_floor = (low - floor).abs() < 1e-4
    assert (on_floor | (kind[..., 0] < 0.1))[standing].all()  # small things may be on others
    assert (low <= floor + 1e-4)[placed].all()


def test_meshes_are_inside_and_backs_are_at_walls(things):
    place, prims, done = furnished(things, clutter=0.2)
    rows = prims[prims[..., 0] == LAYOUT["KIND_MESH"]]
    assert len(rows) > 200
    scenes = (prims[..., 0] == LAYOUT["KIND_MESH"]).nonzero()[:, 0]
    reach = (rows[:, 4:13].view(-1, 3, 3).abs() * rows[:, None, 13:16]).sum(-1)
    assert (rows[:, 1:4].abs() + reach <= place.room[scenes] + 2e-3).all()
    hung = rows[:, 16] == 3
    indoor = hung & ~place.outdoor[scenes] & ~place.table[scenes]
    assert indoor.sum() > 5
    back = rows[indoor, 4:13].view(-1, 3, 3)[:, :, 2]  # its +z in the world: into the wall
    gap = (place.room[scenes[indoor]] - (rows[indoor, 1:4] + back * rows[indoor, 15:16]).abs())[..., ::2]
    along = back.abs()[..., ::2] > 0.99
    assert (along.sum(-1) == 1).all() and ((gap < 0.04) & along).any(-1).all()


def test_crowds_and_clutter(things):
    _, prims, done = furnished(things, crowd=1.0, clutter=0.0)
    index, placed = (
        torch.stack([v[:, 0] for v in column], 1) for column in zip(*[(d.index, d.fits) for d in done])
    )
    assert all(len(set(i[p].tolist())) == 1 for i, p in zip(index, placed, strict=True) if p.any())
    place, prims, done = furnished(things, crowd=0.0, clutter=1.0)
    indoor = ~place.outdoor
    for d in done:
        assert (d.index[:, 0][d.fits[:, 0] & indoor] == 2).all()
        assert (d.rot[:, 0, 1, 1].abs()[d.fits[:, 0] & indoor] < 0.999).float().mean() > 0.9


def digest(*tensors: torch.Tensor) -> str:
    out = hashlib.sha256()
    for t in tensors:
        out.update(t.contiguous().numpy().tobytes())
    return out.hexdigest()[:16]


def test_scenes_without_meshes_stay_what_they_were(textures, things):
    """The evaluation's sets are of such scenes: the same bytes as before there were meshes."""
    all_on = CameraMix(
        rolled=0.2, zoomed=0.3, tele=5.0, lenses=0.05, cropped=0.04, near=0.12, close=0.06, away=0.02
    )
    shown = SceneMix(outdoor=0.3, table=0.3, prints=0.3)
    for mix, scenes in ((CameraMix(), SceneMix()), (all_on, shown)):
        plain = sample(Random(11), 4, HEIGHT, WIDTH, 16, 32, mix, scenes)
        other = sample(Random(11), 4, HEIGHT, WIDTH, 16, 32, mix, scenes, meshes=things)
        assert digest(*plain) == digest(*other)
        drawn = render(*plain, textures, HEIGHT, WIDTH, 2)
        assert digest(*drawn) == digest(*render(*other, textures, HEIGHT, WIDTH, 2, things))


def test_same_seed_same_furniture(things):
    shown = SceneMix(
        outdoor=0.2, table=0.2, corners=0.5, furniture=MeshMix(meshes=0.5, table=0.5, street=0.5)
    )
    one, two = (
        sample(Random(9), 16, HEIGHT, WIDTH, 16, 32, CameraMix(), shown, meshes=things) for _ in range(2)
    )
    assert digest(*one) == digest(*two)
    other = replace(shown, furniture=MeshMix())
    three = sample(Random(9), 16, HEIGHT, WIDTH, 16, 32, CameraMix(), other)
    assert digest(*one) != digest(*three)
    share = (one.prims[..., 0] == LAYOUT["KIND_MESH"]).any(1).float().mean()
    assert 0.2 < share < 0.8


def test_shares_without_meshes_are_refused():
    shown = SceneMix(furniture=MeshMix(meshes=0.5))
    with pytest.raises(ValueError, match="no meshes"):
        sample(Random(9), 2, HEIGHT, WIDTH, 16, 32, CameraMix(), shown)
    with pytest.raises(ValueError, match="no meshes"):
        Meshes([], torch.zeros(0, 8), torch.zeros(0, 3, 8, 8))
