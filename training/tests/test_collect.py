# SPDX-License-Identifier: Apache-2.0
"""From a library of OBJ files to the pack that training reads, and what its pictures are used for."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

import collect_meshes
import collect_photos
from mast3r_torch import obj
from mast3r_torch.scenes import load_meshes
from mast3r_torch.scenes.meshes import BACK, CEILING, FLOOR, OUTDOOR, TABLE, WALL

CATALOGUE = """\
name#1=L-shaped
model#1=/el/el%20one.obj
creator#1=Somebody
width#1=100.0
depth#1=50.0
height#1=80.0
dropOnTopElevation#1=40
name#28=Marked
model#28=/marked/marked.obj
name#9=No model
"""
# A letter L in the plane z = 0, thick by its second face; a texture that tiles twice; a double and a line.
MODEL = """\
mtllib el.mtl
v 0 0 0
v 2 0 0
v 2 1 0
v 1 1 0
v 1 4 0
v 0 4 0
v 0 0 1
v 2 0 1
vt 0 0
vt 2 0
vt 2 1
usemtl paint
f 1/1 2/2 3/3 4/1 5/2 6/3
usemtl plain
f 1 7 8 2
f 1 2 8 7
f 1 1 2
"""
MATERIALS = (
    "newmtl paint\nKd 0.2 0.4 0.6\nmap_Kd wood.png\nnewmtl plain\nKd 1 0 0\nKs 0.5 0.5 0.5\nNs 40\nd 0.5\n"
)


def polygon_area(points: np.ndarray) -> float:
    x, y = points[:, 0], points[:, 1]
    return abs((x * np.roll(y, -1) - np.roll(x, -1) * y).sum()) / 2


def test_concave_polygons_keep_their_area():
    """A fan of triangles would cover what is not in the polygon."""
    comb = np.array(
        [(0, 0), (5, 0), (5, 3), (4, 3), (4, 1), (3, 1), (3, 3), (2, 3), (2, 1), (1, 1), (1, 3), (0, 3)]
    )
    for points in (comb, comb[::-1], np.roll(comb, 4, 0)):
        flat = np.concatenate([points, np.zeros((len(points), 1))], 1) * 0.1
        for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):  # in any plane
            triangles = obj.triangulate(flat[:, order])
            assert len(triangles) == len(points) - 2
            area = sum(polygon_area(flat[list(t)]) for t in triangles)
            assert area == pytest.approx(polygon_area(flat))


def test_convex_polygons_are_fans():
    angle = np.linspace(0, 2 * np.pi, 7)[:-1]
    points = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    assert obj.triangulate(points) == [(0, k, k + 1) for k in range(1, 5)]


@pytest.fixture
def library(tmp_path):
    path, picture = tmp_path / "library.sh3f", io.BytesIO()
    wood = np.zeros((240, 240, 3), np.uint8)
    wood[:120] = (200, 100, 0)
    Image.fromarray(wood).save(picture, "PNG")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("PluginFurnitureCatalog.properties", CATALOGUE)
        archive.writestr("el/el one.obj", MODEL)
        archive.writestr("el/el.mtl", MATERIALS)
        archive.writestr("el/wood.png", picture.getvalue())
        archive.writestr("el/LICENSE.txt", "CC0")
        archive.writestr("other/unused.txt", "")
    return path


def test_the_pack_is_what_the_loader_reads(library, tmp_path, capsys):
    out = tmp_path / "meshes.npz"
    with zipfile.ZipFile(library) as archive:
        credits = collect_meshes.collect(archive, out)
    assert [(c["title"], c["author"], c["licence_from"]) for c in credits] == [
        ("L-shaped", "Somebody", "LICENSE.txt")
    ]
    assert "a maker's badge" in capsys.readouterr().out
    with np.load(out) as pack:
        # Four triangles of the L; the square once, though it is there twice; the line not at all.
        assert len(pack["triangle"]) == 6 and pack["material"].tolist() == [0] * 4 + [1] * 2
        assert pack["rgb"].tolist() == [[255, 255, 255], [255, 0, 0]]
        assert pack["texture"].tolist() == [0, -1] and pack["gloss"].tolist() == [1, 40]
        assert pack["alpha"].tolist() == [255, 128]
        places = pack["position"] / 65535 * pack["size"][0] - pack["size"][0] * (0.5, 1, 0.5)
        corners = places[pack["triangle"].astype(int)]
        area = (
            np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
        )
        # The file's L of area 5 in a box of 2 x 4, made 1 x 0.8 metres.
        assert area[:4].sum() == pytest.approx(5 / 8 * 0.8, rel=1e-3)
    meshes = load_meshes(out, 32, held_out=None)
    assert meshes.count == 1 and meshes.half[0].tolist() == pytest.approx([0.5, 0.4, 0.25])
    assert meshes.top[0] == pytest.approx(0.4) and meshes.pictures.shape == (1, 3, 32, 32)
    # The upper half of the picture is orange, and rows go downwards.
    assert meshes.pictures[0, 0, :12].min() > 0.7 and meshes.pictures[0, 0, 20:].max() < 0.1


def test_up_is_down_and_the_front_is_near(library, tmp_path):
    """The file has y up and its front at +z, the scenes y down and the front at -z."""
    with zipfile.ZipFile(library) as archive:
        collect_meshes.collect(archive, tmp_path / "meshes.npz")
    with np.load(tmp_path / "meshes.npz") as pack:
        places = pack["position"].astype(float)
        paint = places[pack["triangle"][:4].astype(int)].reshape(-1, 3)
    assert (paint[:, 2] == 65535).all()  # z = 0 of the file is the back
    # The narrow part of the L is its upper one: small y.
    assert paint[paint[:, 1] < 40000][:, 0].max() < 40000 < paint[:, 0].max()


def test_too_many_triangles_are_left_out(library, tmp_path, monkeypatch):
    monkeypatch.setattr(collect_meshes, "MOST_TRIANGLES", 5)
    with zipfile.ZipFile(library) as archive, pytest.raises(SystemExit, match="no model"):
        collect_meshes.collect(archive, tmp_path / "meshes.npz")


def test_classes():
    assert collect_meshes.classes(1) == FLOOR
    assert collect_meshes.classes(7) == TABLE
    assert collect_meshes.classes(43) == FLOOR | TABLE | BACK
    assert collect_meshes.classes(20) == WALL | BACK
    assert collect_meshes.classes(92) == CEILING
    assert collect_meshes.classes(97) == OUTDOOR
    assert collect_meshes.classes(29) == FLOOR | OUTDOOR


def test_textures_of_the_library(library, tmp_path):
    """Pictures of models, once each; icons, small ones and those that show a mark are not used."""
    with zipfile.ZipFile(library, "a") as archive:
        archive.writestr("double/again.png", archive.read("el/wood.png"))
        archive.writestr("icon.png", archive.read("el/wood.png"))
        other, small = io.BytesIO(), io.BytesIO()
        Image.new("RGB", (256, 256), (9, 9, 9)).save(other, "PNG")
        Image.new("RGB", (64, 256), (8, 8, 8)).save(small, "PNG")
        archive.writestr("iPhone/iphone.png", other.getvalue())
        archive.writestr("el/small.png", small.getvalue())
    out = tmp_path / "paint"
    out.mkdir()
    collect_photos.furniture(library, out)
    assert [p.name for p in sorted(out.iterdir())] == ["bswap_double_again.jpg"]
