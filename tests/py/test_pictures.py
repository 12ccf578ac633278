# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Pictures: which files are some, how they are opened, what is refused; nothing else in the package opens any."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import unix_only
from hostile_pictures import (
    BOMBS,
    HEIC,
    LEFT_OUT,
    MP4,
    PLAIN,
    encoded,
    good,
    hostile,
    pixels,
    png,
)
from PIL import Image, PngImagePlugin

from mast3r_runtime import read_image
from mast3r_runtime._files.folder import OutFolder
from mast3r_runtime._files.single import seal
from mast3r_runtime._pictures import formats, header
from mast3r_runtime._pictures.find import find, sentence
from mast3r_runtime._pictures.formats import suffixes
from mast3r_runtime._pictures.reading import pixels_of
from mast3r_runtime._store import store as stores
from mast3r_runtime.errors import ArgumentError, ImageError, ImageNotFoundError

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "mast3r_runtime"

# Files of the wheel, not of the user.
OWN_PICTURES = {"_commands/demo.py"}
# Suffixes of what is written, not of what is read.
WRITTEN = {".png", ".jpg"}


def sources() -> dict[str, ast.Module]:
    """The modules of the package outside the room that reads pictures."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in PACKAGE.rglob("*.py")
        if not {"_pictures", "_gopy"} & set(path.parts)
    }


def opens(tree: ast.Module) -> list[int]:
    """Lines that call Pillow's ``open``, under whatever name it was imported."""
    names = {"Image", "PILImage"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "PIL":
            names |= {alias.asname or alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            names |= {a.asname or a.name for a in node.names if a.name.partition(".")[0] == "PIL"}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "open":
            base = ast.unparse(node.value)
            if base in names or base.endswith(".Image") or base == "PIL.Image":
                found.append(node.lineno)
    return found


def test_one_room_opens_pictures() -> None:
    found = {name: lines for name, tree in sources().items() if (lines := opens(tree))}
    assert set(found) <= OWN_PICTURES, found
    assert opens(ast.parse("from PIL import Image as I\nI.open(x)")) == [2]
    assert opens(ast.parse("import PIL.Image\nPIL.Image.open(x)")) == [2]


def test_one_room_knows_suffixes_of_pictures() -> None:
    """A list of suffixes elsewhere is a second opinion about what a picture is."""
    known = suffixes() | {".heic", ".heif", ".mov", ".mp4", ".dng"}
    for name, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value.lower() not in known - WRITTEN, f"{name}:{node.lineno}: {node.value!r}"


# ---- one picture at a time -------------------------------------------------------------------


@pytest.mark.parametrize("name", BOMBS)
def test_sizes_are_checked_before_pixels(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BOMBS[name]())
    started = time.monotonic()
    with pytest.raises(ImageError, match=r"want at most|exceeds limit|12000|could exceed") as caught:
        read_image(tmp_path / name)
    assert time.monotonic() - started < 5 and caught.value.file == str(tmp_path / name)
    assert "cannot be read" in header.read(name, tmp_path / name).problem


def test_no_pixel_of_a_large_png_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its orientation may stand behind its pixels: the size is looked at first."""
    from PIL import PngImagePlugin

    (tmp_path / "a.png").write_bytes(png(13300, 13300))
    loaded: list[str] = []
    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", lambda self: loaded.append("load"))
    with pytest.raises(ImageError, match="want at most"):
        read_image(tmp_path / "a.png")
    assert not loaded


def test_files_that_are_too_long_are_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "long.jpg", "wb") as file:
        file.write(encoded("JPEG"))
        file.truncate(3 << 30)  # a file with a hole: no disk is used
    with open(tmp_path / "long.mp4", "wb") as file:
        file.write(MP4)
        file.truncate(3 << 30)
    started = time.monotonic()
    with pytest.raises(ImageError, match="bytes, want at most"):
        read_image(tmp_path / "long.jpg")
    with pytest.raises(ImageError, match="ffmpeg -i long.mp4"):
        read_image(tmp_path / "long.mp4")
    assert time.monotonic() - started < 2


def test_what_is_hashed_is_what_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal size and time, other bytes: no memory of hashes, and no features under the old one."""
    path = tmp_path / "a.png"
    one, two = (encoded("BMP", Image.fromarray(pixels(k))) for k in (1, 2))
    assert len(one) == len(two)
    path.write_bytes(one)
    times = (1_600_000_000, 1_600_000_000)
    os.utime(path, times)
    monkeypatch.setattr(stores, "TICK", -1.0)  # as if both changes were long ago
    before = stores.file_hash(path)
    assert before == header.read("a", path).sha256 == hashlib.sha256(one).hexdigest()
    np.testing.assert_array_equal(pixels_of(path, before), pixels(1))
    other = tmp_path / "b.png"
    other.write_bytes(two)
    os.utime(other, times)
    os.replace(other, path)
    if os.name == "posix":
        assert stores.file_hash(path) == hashlib.sha256(two).hexdigest()
    with pytest.raises(ImageError, match="changed while it was worked on"):
        pixels_of(path, before)
    assert header.read("a", path).sha256 == hashlib.sha256(two).hexdigest()


def test_a_hash_is_remembered_once_its_file_has_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    read: list[object] = []
    sha = stores._sha
    monkeypatch.setattr(stores, "_sha", lambda file: (read.append(file), sha(file))[1])
    stores.file_hash(path)
    stores.file_hash(path)
    assert len(read) == 2  # it was changed just now: the next change might not be seen
    if os.name == "posix":
        monkeypatch.setattr(stores, "TICK", -1.0)
        stores.file_hash(path)
        stores.file_hash(path)
        assert len(read) == 3


@pytest.mark.parametrize("turn", range(2, 9))
def test_white_of_sixteen_bits_is_turned_as_white(tmp_path: Path, turn: int) -> None:
    """Pillow forgets that zero is white as it turns."""
    values = np.linspace(0, 65535, 48 * 64).reshape(48, 64).astype(np.uint16)
    tags = {262: 0, 274: turn}
    Image.fromarray(values).save(tmp_path / "a.tif", tiffinfo=tags)
    Image.fromarray(values).save(tmp_path / "plain.tif", tiffinfo={262: 0})
    plain, turned = read_image(tmp_path / "plain.tif"), read_image(tmp_path / "a.tif")
    assert sorted(plain[..., 0].ravel()) == sorted(turned[..., 0].ravel())
    assert (turned[0, 0, 0] > 250) == (turn in (5,)) or turn in (2, 3, 4, 6, 7, 8)


@pytest.mark.parametrize(
    "xmp",
    [
        b'<rdf:Description GPano:ProjectionType="equirectangular"/>',
        b"<GPano:ProjectionType>equirectangular</GPano:ProjectionType>",
        b"<GPano:ProjectionType>cylindrical</GPano:ProjectionType>",
    ],
)
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_panoramas_are_refused_as_fisheyes_are(tmp_path: Path, xmp: bytes, form: str) -> None:
    packet = b'<x:xmpmeta xmlns:GPano="http://ns.google.com/photos/1.0/panorama/">' + xmp + b"</x:xmpmeta>"
    options: dict[str, object] = {"xmp": packet}
    if form == "PNG":
        info = PngImagePlugin.PngInfo()
        info.add_itxt("XML:com.adobe.xmp", packet.decode(), zip=True)
        options = {"pnginfo": info}
    (tmp_path / "a").write_bytes(encoded(form, **options))
    photo = header.read("a", tmp_path / "a")
    assert not photo.problem and photo.bent.startswith("a panorama")
    with pytest.raises(ArgumentError, match="a: a panorama .*undistort the pictures"):
        header.need_pinhole([photo])
    header.need_pinhole([photo], ["a"])  # its camera is given


def test_what_is_damaged_is_not_told_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.heic").write_bytes(HEIC)
    assert "mast3r-runtime[heif]" in header.read("a", tmp_path / "a.heic").problem
    own = formats.formats()
    monkeypatch.setattr(formats, "formats", lambda: [*own, "HEIF"])
    assert formats.what(HEIC[:64]) == "a HEIC picture that is damaged"


# ---- folders ---------------------------------------------------------------------------------


def test_what_a_folder_holds(tmp_path: Path) -> None:
    made = [path.name for path in good(tmp_path)]
    said = hostile(tmp_path)
    found = find(tmp_path)
    left = {name for name in said if name in found.left_out}
    assert set(found) == {*made, *said} - left and made == [n for n in found if n in made]
    assert not set(found.left_out) & set(PLAIN) and not set(found) & set(PLAIN)
    wanted = {name: said[name] for name in LEFT_OUT} | {"folder.jpg": "a folder"}
    if os.name == "posix":
        wanted |= {name: said[name] for name in ("pipe.jpg", "loop.jpg", "dangling.jpg")}
    assert left == set(wanted)
    for name, text in wanted.items():
        assert text in found.left_out[name], name
    for name in set(said) - left:
        assert said[name] in header.read(name, tmp_path / name).problem, name
    line = sentence(found.left_out)
    assert line.isprintable() and "walk.MOV" in line and "\n" not in line


def test_a_folder_of_folders_hints(tmp_path: Path) -> None:
    good(tmp_path / "100APPLE")
    good(tmp_path / "101APPLE")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ImageNotFoundError, match="2 folders in it hold pictures: -r"):
        find(tmp_path).need(2, "x")
    assert len(find(tmp_path, recursive=True)) == 6


@unix_only
def test_links_to_folders_are_named_and_loops_end(tmp_path: Path) -> None:
    good(tmp_path / "a")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "trip.jpg").mkdir()
    good(tmp_path / "trip.jpg", 1)
    found = find(tmp_path, recursive=True)
    assert list(found) == ["a/g1.jpg", "a/g2.png", "a/g3.png", "trip.jpg/g1.jpg"]
    assert set(found.left_out) == {"a/up", "b"} and "not followed" in found.left_out["b"]


def written(folder: Path, files: dict[str, Path | bytes]) -> None:
    """Files that a command wrote into a folder: links to paths, or bytes."""
    with OutFolder(folder, "scene", "reconstruct") as out:
        for name, what in files.items():
            path = out.stage / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(what, Path):
                path.symlink_to(what)
            else:
                path.write_bytes(what)
        out.finish({})


@unix_only
def test_outputs_are_no_inputs(tmp_path: Path) -> None:
    """Links of ours count as what they lead to; copies and thumbnails of a scene are no pictures."""
    photos, scene = tmp_path / "photos", tmp_path / "scene"
    originals = good(photos)
    copy = encoded("JPEG", quality=95)
    written(scene, {"images/g1.jpg": originals[0], "images/g2.upright.jpg": copy, "images/x/t.png": copy})
    assert list(find(tmp_path, recursive=True)) == [f"photos/{p.name}" for p in originals]
    assert find(tmp_path, recursive=True).ours == 2
    # the scene's own pictures, given by name, for another scene: the link is the picture that it leads to
    found = find(scene / "images", recursive=True, out=tmp_path / "other")
    assert found["g1.jpg"] == originals[0] and "g2.upright.jpg" in found
    # and for the same scene: no copies of its own
    again = find(scene / "images", recursive=True, out=scene)
    assert list(again) == ["g1.jpg"] and again.ours == 2
    # an original beside its upright copy
    shutil.copy(originals[1], scene / "images" / "g2.png")
    assert "g2.upright.jpg" not in find(scene / "images", out=tmp_path / "other")
    assert "g2.png" in find(scene / "images", out=tmp_path / "other")


def test_a_drawing_beside_the_pictures_is_no_input(tmp_path: Path) -> None:
    """What `match -o photos/m.png` wrote is in no list; its mark says whose it is. Edited, it is the user's."""
    good(tmp_path)
    drawn = tmp_path / "m.png"
    drawn.write_bytes(encoded("PNG"))
    seal(drawn)
    assert "m.png" not in find(tmp_path) and find(tmp_path).ours == 1
    assert list(find(drawn)) == ["m.png"]  # named, it is what the user wants
    drawn.write_bytes(drawn.read_bytes() + b"x")
    assert "m.png" in find(tmp_path)


@unix_only
def test_what_a_broken_list_names_is_the_users(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    copy = encoded("JPEG")
    written(tmp_path, {"images/a.jpg": copy, "images/b.jpg": copy})
    assert find(tmp_path, recursive=True).ours == 2
    (tmp_path / "images" / "a.jpg").write_bytes(encoded("JPEG", Image.fromarray(pixels(9))))  # edited
    assert list(find(tmp_path, recursive=True)) == ["images/a.jpg"]
    report = tmp_path / "report.json"
    whole = report.read_text()
    for broken in ("", "{}", whole[:-20], whole.replace("images/b.jpg", "../images/b.jpg"), "[" * 100_000):
        report.write_text(broken)
        assert list(find(tmp_path, recursive=True)) == ["images/a.jpg", "images/b.jpg"]
