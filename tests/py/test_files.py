# SPDX-License-Identifier: Apache-2.0
"""Files of strangers and odd targets: what is read, what is refused, what is said.

The pictures are those of public reports about other projects: broken side data, previews in
raw camera files, more than eight bits, names of all kinds.
"""

from __future__ import annotations

import io
import json
import logging
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from conftest import child_environment, noise, unix_only
from PIL import Image

from mast3r_runtime import cli, collection, errors, export
from mast3r_runtime._files.whole import check_target, replacing, short_name
from mast3r_runtime._pictures.find import natural
from mast3r_runtime.images import formats, read_image

QUIET = ["--resolution", "64", "--precision", "fp32", "--threads", "2"]


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def with_chunk(pixels: np.ndarray, kind: bytes, data: bytes) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    plain = file.getvalue()
    return plain[:33] + png_chunk(kind, data) + plain[33:]


def jpeg_with_exif(picture: Image.Image, entries: bytes, tail: bytes) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG")
    exif = b"Exif\0\0II*\0\x08\0\0\0" + entries + b"\0\0\0\0" + tail
    return b"\xff\xd8\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + file.getvalue()[2:]


def tiff(pages: list[tuple[dict[int, tuple[int, int]], bytes]], sub: int | None = None) -> bytes:
    """A TIFF of raw strips; tags are tag: (type, value). With ``sub`` page 1 hangs below page 0."""
    out = bytearray(b"II*\0\0\0\0\0")
    offsets = []
    for tags, strip in pages:
        at_strip = len(out)
        out += strip
        all_tags = {**tags, 273: (4, at_strip), 279: (4, len(strip)), 278: (4, tags[257][1]), 277: (3, 1)}
        offsets.append(len(out))
        out += struct.pack("<H", len(all_tags))
        for tag, (kind, value) in sorted(all_tags.items()):
            out += struct.pack("<HHI", tag, kind, 4 if tag == 50706 else 1) + struct.pack("<I", value)
        out += b"\0\0\0\0"
    out[4:8] = struct.pack("<I", offsets[0])
    if sub is not None:  # the value of tag 330 of the first page
        at = out.index(struct.pack("<HHI", 330, 4, 1), offsets[0]) + 8
        out[at : at + 4] = struct.pack("<I", offsets[sub])
    return bytes(out)


def grey(width: int, height: int, bits: int = 8, white: int = 1, **more: int) -> dict[int, tuple[int, int]]:
    return {256: (4, width), 257: (4, height), 258: (3, bits), 259: (3, 1), 262: (3, white)}


# ---- pictures ------------------------------------------------------------


def test_side_data_never_decides(rng: np.random.Generator, caplog: pytest.LogCaptureFixture) -> None:
    pixels = noise(rng, 48, 64)
    for kind, data in (
        (b"eXIf", b"\0\x08\0\x02 no TIFF at all"),
        (b"zTXt", b"key\0\0" + zlib.compress(b"x" * (2 << 20))),
        (b"iCCP", b"profile\0\0garbage"),
        (b"tEXt", b"k\0" + b"x" * (5 << 20)),
        (b"iTXt", b"k\0\1\0\0\0garbage"),
        (b"gAMA", b"\0"),
        (b"pHYs", b""),
    ):
        np.testing.assert_array_equal(read_image(with_chunk(pixels, kind, data)), pixels, str(kind))
    # A rational of -1/0 beside a plain orientation of 6.
    ok = struct.pack("<H", 2) + struct.pack("<HHII", 274, 3, 1, 6) + struct.pack("<HHII", 282, 10, 1, 38)
    turned = read_image(jpeg_with_exif(Image.fromarray(pixels), ok, struct.pack("<ii", -1, 0)))
    assert turned.shape == (64, 48, 3)
    with caplog.at_level(logging.INFO, "mast3r_runtime"):
        read_image(with_chunk(pixels, b"eXIf", b"nothing"))
    assert "orientation" in caplog.text


@pytest.mark.parametrize("turn", range(1, 9))
def test_every_orientation(turn: int, rng: np.random.Generator) -> None:
    from PIL import ImageOps

    file = io.BytesIO()
    exif = Image.Exif()
    exif[274] = turn
    Image.fromarray(noise(rng, 40, 56)).save(file, "PNG", exif=exif)
    want = np.asarray(ImageOps.exif_transpose(Image.open(file)))
    np.testing.assert_array_equal(read_image(file.getvalue()), want)


def test_previews_are_refused() -> None:
    small, large = bytes(range(120)) * 10, bytes(640 * 480)
    dng = tiff(
        [({**grey(40, 30), 254: (4, 1), 330: (4, 0), 50706: (1, 0x0401)}, small), (grey(640, 480), large)], 1
    )
    with pytest.raises(errors.ImageError, match=r"raw camera file \(DNG\); develop it first"):
        read_image(dng)
    nef = tiff([({**grey(40, 30), 254: (4, 0), 330: (4, 0)}, small), (grey(640, 480), large)], 1)
    with pytest.raises(errors.ImageError, match="reduced one"):
        read_image(nef)
    with pytest.raises(errors.ImageError, match="reduced one"):
        read_image(tiff([({**grey(40, 30), 254: (4, 1)}, small)]))
    pyramid = tiff([({**grey(40, 30), 330: (4, 0)}, small), (grey(20, 15), small[:300])], 1)
    assert read_image(pyramid).shape == (30, 40, 3)


def test_sixteen_bits_are_their_eight_bit_twins(caplog: pytest.LogCaptureFixture) -> None:
    eight = np.arange(256, dtype=np.uint8).reshape(16, 16)
    sixteen = eight.astype("<u2") * 257
    want = np.repeat(eight[:, :, None], 3, axis=2)
    for white in (1, 0):
        np.testing.assert_array_equal(
            read_image(tiff([(grey(16, 16, 16, white), sixteen.tobytes())])), want if white else 255 - want
        )
        np.testing.assert_array_equal(
            read_image(tiff([(grey(16, 16, 8, white), eight.tobytes())])), want if white else 255 - want
        )
    file = io.BytesIO()
    Image.fromarray(sixteen).save(file, "PNG")
    np.testing.assert_array_equal(read_image(file.getvalue()), want)
    transparent = file.getvalue()
    transparent = transparent[:33] + png_chunk(b"tRNS", struct.pack(">H", 100 * 257)) + transparent[33:]
    over_white = want.copy()
    over_white[eight == 100] = 255
    np.testing.assert_array_equal(read_image(transparent), over_white)
    assert "bits in 16" not in caplog.text
    read_image(tiff([(grey(16, 16, 16), (sixteen >> 6).tobytes())]))
    assert "10 bits in 16" in caplog.text


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b"\0\0\0\x18ftypheic", "HEIC.*heif"),
        (b"\0\0\0\x18ftypisom", "video"),
        (b"\0\0\0\x18ftypcrx ", "raw camera"),
        (b"<svg xmlns=", "SVG"),
        (b"<!DOCTYPE html>", "HTML"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "PostScript"),
        (b"%PDF-1.7", "PDF"),
        (b"\x76\x2f\x31\x01", "OpenEXR"),
        (b"", "empty"),
        (b"nothing of the kind", "starts with"),
    ],
)
def test_unknown_files_are_named(head: bytes, text: str) -> None:
    with pytest.raises(errors.ImageError, match=text) as caught:
        read_image(head + bytes(200) * bool(head))
    assert " at 0x" not in str(caught.value)


def test_large_pictures_are_refused_before_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    Image.new("L", (13000, 13000)).save(file, "PNG", compress_level=1)
    with pytest.raises(errors.ImageError, match=r"13000 x 13000.*at most 89478485"):
        read_image(file.getvalue())
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(errors.ImageError, match="want at most 100"):
        read_image(with_chunk(np.zeros((11, 10, 3), np.uint8), b"tEXt", b"k\0v"))


def test_ghostscript_is_never_asked() -> None:
    assert "EPS" not in formats() and {"JPEG", "PNG", "TIFF"} <= set(formats())


# ---- folders -------------------------------------------------------------


def test_natural_order_and_what_is_left_out(
    tmp_path: Path, rng: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    for i in (1, 2, 10, 11, 9, 100):
        Image.fromarray(noise(rng, 16, 16)).save(tmp_path / f"frame_{i}.png")
    for name in ("a.jfif", "b.gif", "c.pgm", "d.JPG"):
        Image.fromarray(noise(rng, 16, 16)).convert("L").save(
            tmp_path / name, {"jfif": "JPEG", "JPG": "JPEG", "pgm": "PPM", "gif": "GIF"}[name.split(".")[1]]
        )
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "x.nef").write_text("x")
    (tmp_path / "folder.jpg").mkdir()
    names = [p.name for p in collection.list_images(tmp_path)]
    assert names == ["a.jfif", "b.gif", "c.pgm", "d.JPG", *(f"frame_{i}.png" for i in (1, 2, 9, 10, 11, 100))]
    assert "2 files left out" in caplog.text and "notes.txt" not in caplog.text
    assert "x.nef: a raw camera file; develop it first" in caplog.text
    assert "folder.jpg: a folder" in caplog.text
    padded = [f"p_{i:04d}" for i in range(200)]
    assert sorted(padded, key=natural) == sorted(padded)


NAMES = ["a.jpg", "b.jpg", "a b.jpg", "c.jpg", "a.jpg b.jpg"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a.jpg b.jpg\n", [(0, 1)]),
        ("a.jpg b.jpg 0.5\n\n", [(0, 1)]),
        ("\ufeffa.jpg\tb.jpg\r\n# comment\nb.jpg\tc.jpg\t0.25\n", [(0, 1), (1, 3)]),
        ("a.jpg  b.jpg   0.5", [(0, 1)]),
        ("a b.jpg\tc.jpg\t1", [(2, 3)]),
        ("a b.jpg c.jpg 1", [(2, 3)]),
    ],
)
def test_pair_lists_of_others(text: str, want: list[tuple[int, int]], tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_bytes(text.encode())
    assert collection.read_pairs(path, NAMES[:4]) == want


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "no pairs"), ("# nothing\n", "no pairs"), ("a.jpg", "line 1"), ("a.jpg z.jpg", "line 1"),
        ("a.jpg b.jpg c.jpg", "line 1"),
    ],
)  # fmt: skip
def test_pair_lists_that_are_none(text: str, match: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text(text)
    with pytest.raises(errors.ArgumentError, match=match):
        collection.read_pairs(path, NAMES[:4])
    for bad in ('{"pairs": [{"first": "a.jpg"}]}', "[", "[" * 100000, '{"pairs": 3}', "null"):
        path.with_suffix(".json").write_text(bad)
        with pytest.raises(errors.ArgumentError):
            collection.read_pairs(path.with_suffix(".json"), NAMES)
    with pytest.raises(errors.FileError):
        collection.read_pairs(tmp_path / "none.txt", NAMES)


def test_a_pair_that_can_be_read_in_two_ways(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("x y x\n")
    with pytest.raises(errors.ArgumentError, match="2 ways"):
        collection.read_pairs(path, ["x", "y x", "x y"])


@pytest.fixture
def odd_folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in (b"caf\xe9_0.jpg", b"caf\xe9_1.jpg", b"x" * 120 + b".png"):
        with open(os.fsencode(folder) + b"/" + name, "wb") as file:
            Image.fromarray(noise(rng, 48, 64)).save(file, "PNG")
    (folder / "m.png").write_bytes((folder / ("x" * 120 + ".png")).read_bytes()[:900])
    return folder


@unix_only
def test_a_bad_picture_does_not_end_a_run(
    odd_folder: Path, micro: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["batch", str(odd_folder), "--model", str(micro), *QUIET, "-o", str(out), "--json"]
    assert cli.main([*arguments, "--graph", "complete"]) == 1  # something was left out
    values = json.loads(capsys.readouterr().out)
    assert list(values["left_out"]) == ["m.png"] and len(values["pairs"]) == 3 and values["kept"] == 0
    files = sorted(p.name for p in out.iterdir())
    files.remove("report.json")
    assert len(files) == 4 and "pairs.json" in files and not [f for f in files if f.startswith(".")]
    manifest = json.loads((out / "pairs.json").read_text())
    assert {row["file"] for row in manifest["pairs"]} == set(files) - {"pairs.json"}
    # A second run keeps what is there, makes what is not, and mixes nothing.
    (out / values["pairs"][1]["file"]).unlink()
    assert cli.main([*arguments, "--graph", "complete"]) == 1
    again = json.loads(capsys.readouterr().out)
    assert again["kept"] == 2 and again["pairs"] == values["pairs"]
    assert cli.main([*arguments, "--top-k", "3"]) == 1
    assert "another top_k" in capsys.readouterr().err


@unix_only
def test_retrieve_with_odd_names(
    odd_folder: Path, micro: Path, head: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found"
    arguments = ["--model", str(micro), *QUIET, "--retrieval", str(head)]
    assert cli.main(["retrieve", str(odd_folder), *arguments, "-o", str(out), "--graph", "complete"]) == 1
    assert "left out: m.png" in capsys.readouterr().out
    names = [p.name for p in collection.list_images(odd_folder) if p.name != "m.png"]
    pairs = collection.read_pairs(out / "pairs.txt", names)
    assert pairs == collection.read_pairs(out / "pairs.json", names)
    assert {frozenset(pair) for pair in pairs} == {frozenset(p) for p in ((0, 1), (0, 2), (1, 2))}


# ---- targets -------------------------------------------------------------


@unix_only
def test_targets(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("old")
    (tmp_path / "link").symlink_to("plain")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "sealed").write_text("old")
    (tmp_path / "sealed").chmod(0o444)
    os.mkfifo(tmp_path / "fifo")
    # No device of the machine: a fault in what is tested here would replace it.
    for path in (tmp_path / n for n in ("loop", "folder", "sealed", "fifo")):
        with pytest.raises(errors.FileError), replacing(path) as temporary:
            temporary.write_text("new")
    with replacing(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "plain").read_text() == "new"
    long = tmp_path / ("x" * 251 + ".npz")
    with replacing(long) as temporary:
        temporary.write_text("new")
    assert long.read_text() == "new"
    with pytest.raises(errors.FileError, match="none"), replacing(tmp_path / "none" / "f") as temporary:
        pass
    with pytest.raises(errors.FileError, match="suffix"):
        check_target(tmp_path / "x.jpg", (".png",))


@unix_only
def test_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / ".mast3r-00000000deadbeef.tmp").write_text("of a process that was killed")
    with pytest.raises(KeyError), replacing(tmp_path / "f") as temporary:
        temporary.write_text("half")
        raise KeyError
    assert not list(tmp_path.iterdir())


@unix_only
def test_the_umask_counts(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with replacing(tmp_path / "f") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


def test_names_are_shortened() -> None:
    assert short_name("a__b", ".npz") == "a__b.npz"
    a, b = short_name("é" * 200 + "1", ".npz"), short_name("é" * 200 + "2", ".npz")
    assert a != b and len(a.encode()) <= 200 and a.endswith(".npz")


def test_suffixes_are_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("x.jpg", "x", "x.npz"):
        assert cli.main(["match", "a.png", "b.png", "-o", str(tmp_path / name)]) == 1
        assert "want .png" in capsys.readouterr().err
    with pytest.raises(errors.FileError, match="want .ply or .glb"):
        export.write_points(tmp_path / "x.obj", np.zeros((1, 3), np.float32), np.zeros((1, 3), np.uint8))


# ---- terminals -----------------------------------------------------------


def test_a_closed_pipe_is_quiet() -> None:
    command = [sys.executable, "-m", "mast3r_runtime", "status", "--json"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=child_environment(), check=False)
    os.close(write)
    assert done.returncode in (0, 141) and done.stderr == b""


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp437"])
def test_a_terminal_without_the_letters(
    tmp_path: Path, micro: Path, rng: np.random.Generator, encoding: str
) -> None:
    """What a terminal or a pipe cannot show is spelled out, in results and in errors; the status is right."""
    for name in ("写真一.png", "写真二.png"):
        Image.fromarray(noise(rng, 48, 64)).save(tmp_path / name)
    environment = child_environment() | {"PYTHONIOENCODING": encoding}

    def run(*names: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "mast3r_runtime", "match", *names, "--model", str(micro), *QUIET]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)

    done = run("写真一.png", "写真二.png", "-o", "Größe 写真.png")
    size = {"ascii": b"Gr\\xf6", "cp1252": b"Gr\xf6", "cp437": b"Gr\x94"}[encoding]
    assert done.returncode == 0 and size in done.stdout and b"\\u5199\\u771f.png" in done.stdout, done
    assert (tmp_path / "Größe 写真.png").is_file()
    done = run("写真一.png", "無い.png", "-o", "no.png")
    assert done.returncode == 1 and b"\\u7121\\u3044.png" in done.stderr, done
    assert b"Traceback" not in done.stderr
