# SPDX-License-Identifier: Apache-2.0
"""What lies in a scene's ``images/``: the pixels that the cameras describe, under names that fit, and
no places where pictures were taken."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import unix_only
from PIL import Image, PngImagePlugin
from scene_checks import check_colours, check_fit, check_undistorted, rgb_of

from mast3r_runtime._files.folder import OutFolder
from mast3r_runtime._pictures.reading import read_image
from mast3r_runtime._scene import known
from mast3r_runtime._scene.album import Album, plan
from mast3r_runtime._scene.location import without_location
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.errors import FileError
from mast3r_runtime.scene import Scene, reconstruct

try:
    import pycolmap
except ImportError:
    pycolmap = None
try:
    import pillow_heif
except ImportError:
    pillow_heif = None
needs_pycolmap = pytest.mark.skipif(pycolmap is None, reason="no pycolmap here (extra scene)")

GPS = {1: "N", 2: (59.0, 20.0, 1.5), 3: "E", 4: (18.0, 4.0, 2.5), 29: "2026:11:29"}
# How stored pixels come out of seen ones, by orientation.
STORED = {
    1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_270,
}  # fmt: skip


def smooth(width: int = 96, height: int = 64) -> Image.Image:
    y, x = np.mgrid[:height, :width]
    return Image.fromarray(np.stack([2 * x, 3 * y, 255 - x - y], -1).clip(0, 255).astype(np.uint8))


def exif(turn: int = 1, gps: bool = False) -> Image.Exif:
    out = Image.Exif()
    out[0x010F], out[0x0110] = "Maker", "Model 5"
    if turn != 1:
        out[0x0112] = turn
    out.get_ifd(0x8769)[0xA405] = 28
    out.get_ifd(0x8769)[0x927C] = b"notes of the maker 59.33"
    if gps:
        out.get_ifd(0x8825).update(GPS)
    return out


def save(path: Path, seen: Image.Image, turn: int = 1, gps: bool = False, **options: object) -> Path:
    stored = seen if STORED[turn] is None else seen.transpose(STORED[turn])
    path.parent.mkdir(parents=True, exist_ok=True)
    stored.save(path, exif=exif(turn, gps), **options)
    return path


def png16(path: Path, seen: Image.Image) -> Path:
    """RGB of 16 bits, which Pillow does not write."""
    pixels = np.asarray(seen.convert("RGB")).astype(">u2") * 257
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", seen.width, seen.height, 16, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + parts)
    return path


def show(folder: Path, listed: dict[str, Path], **how: bool) -> Album:
    with OutFolder(folder, "scene") as out:
        album = plan(listed, out)
        out.claim(album.targets())
        assert album.write(out, list(listed), **how) == []
        out.finish()
    return album


def assert_seen_alike(original: Path, shown: Path, most: float = 3.0) -> None:
    """Other readers see at ``shown`` what we see at ``original``."""
    want = read_image(original).astype(int)
    readers = [rgb_of(shown)]
    if pycolmap is not None:
        bitmap = pycolmap.Bitmap.read(str(shown), as_rgb=True)
        assert bitmap is not None
        readers.append(bitmap.to_array())
    for read in readers:
        assert read.shape == want.shape and np.abs(read.astype(int) - want).mean() < most


# ---- pixels -------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
@pytest.mark.parametrize("turn", range(1, 9))
def test_every_orientation_in_every_format(tmp_path: Path, suffix: str, turn: int) -> None:
    source = save(tmp_path / "in" / f"a{suffix}", smooth(), turn)
    before = source.read_bytes()
    album = show(tmp_path / "out", {source.name: source})
    file = tmp_path / "out" / "images" / album.file(source.name)
    assert_seen_alike(source, file)
    plain = turn == 1 and suffix in (".jpg", ".png")
    assert file.is_symlink() == plain and file.suffix == (".jpg" if suffix in (".jpg", ".webp") else ".png")
    with Image.open(file) as picture:
        assert picture.getexif().get(0x0112, 1) == 1
    assert source.read_bytes() == before


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1", "I;16", "CMYK", "RGB;16"])
@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_every_kind_of_pixels(tmp_path: Path, mode: str, suffix: str) -> None:
    source = tmp_path / f"a{suffix}"
    if mode == "RGB;16":
        png16(source, smooth())
    elif mode == "I;16":
        grey = np.asarray(smooth().convert("L")).astype(np.uint16) * 257
        Image.fromarray(grey).save(source, "PNG")
    elif mode == "CMYK" or (suffix == ".jpg" and mode == "L"):
        smooth().convert(mode).save(source, "JPEG", quality=95)
    else:
        smooth().convert(mode).save(source, "PNG")
    album = show(tmp_path / "out", {source.name: source})
    file = tmp_path / "out" / "images" / album.file(source.name)
    assert_seen_alike(source, file)
    with Image.open(file) as picture:
        assert picture.mode in ("RGB", "RGBA")


@pytest.mark.skipif(pillow_heif is None, reason="no pillow-heif here (extra heif)")
@pytest.mark.parametrize("turn", [1, 6])
def test_heic(tmp_path: Path, turn: int) -> None:
    pillow_heif.register_heif_opener()
    source = save(tmp_path / "IMG_1.HEIC", smooth(), turn, gps=True)
    album = show(tmp_path / "out", {source.name: source})
    assert album.file(source.name) == "IMG_1.jpg"
    assert_seen_alike(source, tmp_path / "out" / "images" / "IMG_1.jpg", 6)
    assert_no_place((tmp_path / "out" / "images" / "IMG_1.jpg").read_bytes())


def test_a_name_that_lies_about_its_format(tmp_path: Path) -> None:
    smooth().save(tmp_path / "a.jpg", "WEBP", lossless=True)
    smooth().save(tmp_path / "b.png", "JPEG", quality=95)
    album = show(tmp_path / "out", {n: tmp_path / n for n in ("a.jpg", "b.png")})
    for name in ("a.jpg", "b.png"):
        assert_seen_alike(tmp_path / name, tmp_path / "out" / "images" / album.file(name))


# ---- names --------------------------------------------------------------------------------


def test_names_of_copies(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    plain = {"a.jpg": smooth(), "sub/b.jpg": smooth()}
    for name, picture in plain.items():
        save(folder / name, picture, quality=95)
    for name in ("a.webp", "A.JPG", "c.JPG", "sub/b.webp", "d.e.webp"):
        save(folder / name, smooth(), 6)
    names = ["a.jpg", "sub/b.jpg", "a.webp", "A.JPG", "c.JPG", "sub/b.webp", "d.e.webp"]
    album = show(tmp_path / "out", {n: folder / n for n in names})
    assert {n: album.file(n) for n in names} == {
        "a.jpg": "a.jpg", "sub/b.jpg": "sub/b.jpg", "a.webp": "a.webp.jpg", "A.JPG": "A.JPG.jpg",
        "c.JPG": "c.jpg", "sub/b.webp": "sub/b.webp.jpg", "d.e.webp": "d.e.jpg",
    }  # fmt: skip
    assert len({album.file(n).casefold() for n in names}) == len(names)


@unix_only
def test_names_that_one_system_has_and_another_has_not(tmp_path: Path) -> None:
    """Equal names in large and small letters, long ones, backslashes, names that lead out."""
    source = save(tmp_path / "a.jpg", smooth(), quality=95)
    turned = save(tmp_path / "t.jpg", smooth(), 6)
    long = "x" * 251 + ".jpg"
    names = ["IMG.jpg", "img.jpg", "e\u0301.jpg", "\u00e9.jpg", "a\\b.jpg", "../../up.jpg", "C:/c.jpg", long]
    listed = dict.fromkeys(names, source) | {"y" * 250 + ".webp": turned, "IMG.JPG": turned}
    (tmp_path / "deep").mkdir()
    album = show(tmp_path / "deep" / "out", listed)
    files = [album.file(n) for n in listed]
    assert len({f.casefold() for f in files}) == len(files) and "\\" not in "".join(files)
    assert all((tmp_path / "deep" / "out" / "images" / f).is_file() for f in files)
    assert sorted(os.listdir(tmp_path)) == ["a.jpg", "deep", "t.jpg"]
    show(tmp_path / "deep" / "out", listed)  # and they are ours again


def test_a_turned_picture_that_lies_in_images(tmp_path: Path) -> None:
    out = tmp_path / "data"
    turned = save(out / "images" / "IMG_2004.JPG", smooth(), 6)
    plain = save(out / "images" / "IMG_2005.JPG", smooth())
    before = {p: p.read_bytes() for p in (turned, plain)}
    for _ in range(2):
        album = show(out, {p.name: p for p in (turned, plain)})
        assert album.file("IMG_2004.JPG") == "IMG_2004.upright.jpg"
        assert album.file("IMG_2005.JPG") == "IMG_2005.JPG"
        assert {p: p.read_bytes() for p in before} == before
        assert not plain.is_symlink() and len(os.listdir(out / "images")) == 3
    assert_seen_alike(turned, out / "images" / "IMG_2004.upright.jpg")


# ---- what lies there already --------------------------------------------------------------


@unix_only
@pytest.mark.parametrize(
    "how", ["itself", "hard link", "link", "folder is a link", "parent is a link", "same bytes"]
)
@pytest.mark.parametrize("copy", [False, True])
def test_pictures_at_their_place_stay(tmp_path: Path, how: str, copy: bool) -> None:
    photos, out = tmp_path / "photos", tmp_path / "out"
    source = save(photos / "a.jpg", smooth())
    (out / "images").mkdir(parents=True)
    if how == "folder is a link":
        (out / "images").rmdir()
        (out / "images").symlink_to(photos)
    elif how == "hard link":
        os.link(source, out / "images" / "a.jpg")
    elif how == "link":
        (out / "images" / "a.jpg").symlink_to("../../photos/a.jpg")
    elif how == "same bytes":
        (out / "images" / "a.jpg").write_bytes(source.read_bytes())
    else:
        source = save(out / "images" / "a.jpg", smooth())
        if how == "parent is a link":
            (tmp_path / "alias").symlink_to("out")
            source = tmp_path / "alias" / "images" / "a.jpg"
    before = os.lstat(out / "images" / "a.jpg"), source.read_bytes(), os.lstat(source).st_ino
    for _ in range(2):
        show(out, {"a.jpg": source}, copy=copy)
        after = os.lstat(out / "images" / "a.jpg"), source.read_bytes(), os.lstat(source).st_ino
        assert (after[0].st_ino, after[0].st_mtime_ns, *after[1:]) == (
            before[0].st_ino, before[0].st_mtime_ns, *before[1:],
        )  # fmt: skip


def test_smaller_pictures_do_not_take_the_place_of_the_originals(tmp_path: Path) -> None:
    """``images`` beside ``images_4``, as nerfstudio and gsplat have them."""
    out = tmp_path / "p"
    large = save(out / "images" / "a.jpg", smooth(192, 128))
    small = save(out / "images_4" / "a.jpg", smooth())
    before = large.read_bytes()
    with pytest.raises(FileError, match=r"images/a\.jpg"):
        show(out, {"a.jpg": small})
    assert (
        large.read_bytes() == before and not large.is_symlink() and os.listdir(out) == ["images", "images_4"]
    )


def test_from_links_to_copies_and_back(tmp_path: Path) -> None:
    source = save(tmp_path / "photos" / "a.jpg", smooth())
    place = tmp_path / "out" / "images" / "a.jpg"
    show(tmp_path / "out", {"a.jpg": source})
    assert place.is_symlink()
    show(tmp_path / "out", {"a.jpg": place}, copy=True)  # its own images/ as the source
    assert not place.is_symlink() and place.read_bytes() == source.read_bytes()
    show(tmp_path / "out", {"a.jpg": place})
    assert not place.is_symlink() and place.read_bytes() == source.read_bytes()
    show(tmp_path / "out", {"a.jpg": source})
    assert place.is_symlink() and place.resolve() == source.resolve()


# ---- places where pictures were taken ---------------------------------------------------------


def assert_no_place(data: bytes) -> None:
    with Image.open(io.BytesIO(data)) as picture:
        picture.load()
        assert not picture.getexif().get_ifd(0x8825), "GPS in EXIF"
        assert not any(b"GPS" in str(v).encode() for k, v in picture.info.items() if k != "exif")
    assert b"GPSL" not in data and b"Stockholm" not in data and b"59.33" not in data


XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    b'<rdf:Description exif:GPSLatitude="59,20.0N" photoshop:City="Stockholm"/></rdf:RDF></x:xmpmeta>'
)


def hidden_places(path: Path, suffix: str) -> Path:
    """A picture with a place in every corner that can hold one."""
    out = io.BytesIO()
    if suffix == ".png":
        text = PngImagePlugin.PngInfo()
        text.add_itxt("XML:com.adobe.xmp", XMP.decode(), zip=True)
        text.add_text("Raw profile type exif", "\nexif\n 8\n47505300\n")
        text.add_text("GPSLatitude", "59.33")
        text.add_text("Author", "somebody")
        smooth().save(out, "PNG", exif=exif(1, True), pnginfo=text)
        path.write_bytes(out.getvalue() + b"Stockholm behind the end")
        return path
    smooth().save(out, "JPEG", quality=95, exif=exif(1, True), xmp=XMP, progressive=True)
    data = out.getvalue()
    iptc = b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x0e\x1c\x02\x5a\0\x09Stockholm"
    extra = b"".join(
        struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body
        for marker, body in ((0xED, iptc), (0xE1, b"http://ns.adobe.com/xmp/extension/\0" + XMP))
    )
    path.write_bytes(data[:2] + extra + data[2:] + data + b"ftypmp4 Stockholm")
    return path


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_copies_say_no_place(tmp_path: Path, suffix: str) -> None:
    source = hidden_places(tmp_path / f"a{suffix}", suffix)
    with pytest.raises(AssertionError):
        assert_no_place(source.read_bytes())
    show(tmp_path / "out", {source.name: source}, copy=True)
    file = tmp_path / "out" / "images" / source.name
    assert_no_place(file.read_bytes())
    with Image.open(file) as copy, Image.open(source) as original:
        np.testing.assert_array_equal(np.asarray(copy), np.asarray(original))
        assert copy.getexif()[0x0110] == "Model 5" and copy.getexif().get_ifd(0x8769)[0xA405] == 28
    show(tmp_path / "kept", {source.name: source}, copy=True, keep_gps=True)
    assert (tmp_path / "kept" / "images" / source.name).read_bytes() == source.read_bytes()


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
def test_upright_copies_say_no_place_and_keep_the_camera(tmp_path: Path, suffix: str) -> None:
    source = save(tmp_path / f"a{suffix}", smooth(), 6, gps=True)
    for keep in (False, True):
        album = show(tmp_path / str(keep), {source.name: source}, keep_gps=keep)
        file = tmp_path / str(keep) / "images" / album.file(source.name)
        with Image.open(file) as copy:
            tags = copy.getexif()
            assert tags[0x010F] == "Maker" and 0x0112 not in tags
            if suffix != ".tif":  # for TIFF, Pillow's writer leaves out what is in directories of their own
                assert tags.get_ifd(0x8769)[0xA405] == 28 and bool(tags.get_ifd(0x8825)) == keep
        if not keep:
            assert_no_place(file.read_bytes())


def test_what_says_no_place_is_copied_byte_by_byte(tmp_path: Path) -> None:
    for suffix in (".jpg", ".png"):
        source = save(tmp_path / f"a{suffix}", smooth())
        assert without_location(source.read_bytes()) == source.read_bytes()
    assert without_location(b"\xff\xd8") == b"\xff\xd8" and without_location(b"text") == b"text"


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_torn_pictures_are_cleaned_or_left_in_bounded_time(tmp_path: Path, suffix: str) -> None:
    data = hidden_places(tmp_path / f"a{suffix}", suffix).read_bytes()
    rng = np.random.default_rng(3)
    for _ in range(300):
        torn = bytearray(data[: rng.integers(2, len(data))])
        for at in rng.integers(0, len(torn), 5):
            torn[at] = rng.integers(256)
        without_location(bytes(torn))


# ---- a whole scene ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, Path]]:
    """The rendered room by a telephone: every orientation, 16 bits, grey, alpha, WebP, HEIC."""
    if pycolmap is None:
        pytest.skip("no pycolmap here (extra scene): no scene is made")
    folder = tmp_path_factory.mktemp("telephone")
    room = [Image.fromarray(rgb_of(path)) for path in known.paths()]
    for turn, view in zip(range(1, 9), room):
        save(folder / f"IMG_{turn}.JPG", view, turn, gps=True, quality=95)
    png16(folder / "deep.png", room[0])
    room[1].convert("L").save(folder / "grey.jpg", quality=95)
    room[2].convert("RGBA").save(folder / "alpha.png")
    room[3].save(folder / "web.webp", quality=95)
    if pillow_heif is not None:
        pillow_heif.register_heif_opener()
        save(folder / "IMG_9.HEIC", room[4], 6, quality=90)
    with CPUEngine("auto", resolution=256, precision="fp32", num_threads=2) as engine:
        engine.load()
        yield reconstruct(engine, [folder], graph="swin-3", threads=1), folder


def test_a_scene_of_a_telephone_fits_its_pictures(turned: tuple[Scene, Path], tmp_path: Path) -> None:
    scene, _ = turned
    assert len(scene.placed) == len(scene.pictures) >= 12
    scene.write(tmp_path / "scene")
    assert check_fit(tmp_path / "scene") == len(scene.placed)
    check_colours(tmp_path / "scene", 8)
    check_undistorted(tmp_path / "scene", tmp_path / "undistorted")
    files = set(os.listdir(tmp_path / "scene" / "images"))
    assert {"IMG_1.JPG", "IMG_6.jpg", "deep.png", "grey.jpg", "alpha.png", "web.jpg"} <= files
    back = Scene.load(tmp_path / "scene")
    assert list(back.pictures) == list(scene.pictures), "pictures keep their own names"
    assert back.pictures["IMG_6.JPG"].path == tmp_path / "scene" / "images" / "IMG_6.jpg"


def test_a_moved_scene_works(
    turned: tuple[Scene, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, _ = turned
    scene.write(tmp_path / "here" / "scene", copy_images=True)
    (tmp_path / "here").rename(tmp_path / "there")
    monkeypatch.chdir("/")
    back = Scene.load(tmp_path / "there" / "scene")
    for name, p in back.pictures.items():
        assert p.path.is_file() and p.path.is_relative_to(tmp_path / "there" / "scene"), name
        assert read_image(p.path).shape[:2] == (p.height, p.width)


# ---- the last copy ------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [1, 6])
def test_a_copy_whose_original_is_gone_is_the_users(tmp_path: Path, turn: int) -> None:
    """A scene with copies may be all that is left of the pictures."""
    photos, out = tmp_path / "photos", tmp_path / "out"
    one = save(photos / "a.jpg", smooth(), turn, gps=True)
    two = save(photos / "b.jpg", smooth(120), turn, gps=True)
    show(out, {"a.jpg": one, "b.jpg": two}, copy=True)
    place = {n: out / "images" / n for n in ("a.jpg", "b.jpg")}
    kept = place["a.jpg"].read_bytes()
    one.unlink()
    show(out, {"b.jpg": two}, copy=True)  # it is no longer written, and not removed
    assert place["a.jpg"].read_bytes() == kept
    save(photos / "a.jpg", smooth(192, 128), turn)  # another picture of that name
    with pytest.raises(FileError, match=r"images/a\.jpg"):
        show(out, {"a.jpg": one, "b.jpg": two}, copy=True)
    assert place["a.jpg"].read_bytes() == kept
    two.unlink()
    with pytest.raises(FileError):
        show(out, {"b.jpg": save(tmp_path / "new" / "b.jpg", smooth(192, 128), turn)}, copy=True)


@pytest.mark.parametrize("turn", [1, 6])
def test_copies_of_pictures_that_were_moved_are_copies(tmp_path: Path, turn: int) -> None:
    source = save(tmp_path / "photos" / "a.jpg", smooth(), turn, gps=True)
    show(tmp_path / "out", {"a.jpg": source}, copy=True)
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    for _ in range(2):
        show(tmp_path / "out", {"a.jpg": tmp_path / "elsewhere" / "a.jpg"}, copy=True)
    show(tmp_path / "out", {}, copy=True)
    assert not (tmp_path / "out" / "images").exists()
