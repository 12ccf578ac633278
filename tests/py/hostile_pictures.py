# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Files that a hostile or unlucky user has among the pictures, and what is said of each."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\nshowpage\n%%EOF\n"
HEIC = b"\0\0\0\x18ftypheic\0\0\0\0heicmif1" + b"\0" * 400
MOV = b"\0\0\0\x14ftypqt  \0\0\0\0qt  \0\0\0\x08wide" + b"\0" * 400
MP4 = b"\0\0\0\x18ftypisom\0\0\2\0isomiso2" + b"\0" * 400


def pixels(seed: int = 0, height: int = 48, width: int = 64) -> np.ndarray:
    """A picture of soft blobs."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def encoded(form: str, picture: Image.Image | None = None, **options: object) -> bytes:
    out = io.BytesIO()
    (picture or Image.fromarray(pixels())).save(out, form, **options)
    return out.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, data: bytes = b"") -> bytes:
    """A PNG whose header says so much, with few bytes behind it."""
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    rows = zlib.compress(data or b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def patched(form: str, at: int, code: str, width: int = 13300, height: int = 13300) -> bytes:
    """A picture whose header says that it is large."""
    data = bytearray(encoded(form))
    struct.pack_into(code, data, at, width, height)
    return bytes(data)


def large_tiff() -> bytes:
    data = bytearray(encoded("TIFF"))
    (at,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, at)
    for k in range(count):
        entry = at + 2 + 12 * k
        (tag, kind) = struct.unpack_from("<HH", data, entry)
        if tag in (256, 257):
            struct.pack_into("<H" if kind == 3 else "<I", data, entry + 8, 13300)
    return bytes(data)


def large_jpeg() -> bytes:
    data = bytearray(encoded("JPEG"))
    struct.pack_into(">HH", data, data.index(b"\xff\xc0") + 5, 13300, 13300)
    return bytes(data)


def large_jp2() -> bytes:
    data = bytearray(encoded("JPEG2000"))
    struct.pack_into(">II", data, data.index(b"ihdr") + 4, 13300, 13300)
    at = data.index(b"\xff\x4f\xff\x51")
    struct.pack_into(">II", data, at + 8, 13300, 13300)
    return bytes(data)


def icon() -> bytes:
    """An icon that says 16 x 16 and holds a PNG that says 12,000 x 12,000."""
    inner = png(12000, 12000)
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(inner), 22) + inner


def gif() -> bytes:
    data = bytearray(encoded("GIF"))
    struct.pack_into("<HH", data, 6, 13300, 13300)
    return bytes(data)


# Bombs: small files that say they are large. All are refused before a pixel is decoded.
BOMBS: dict[str, Callable[[], bytes]] = {
    "bomb.png": lambda: png(13300, 13300),
    "bomb.jpg": large_jpeg,
    "bomb.tif": large_tiff,
    "bomb.gif": gif,
    "bomb.bmp": lambda: patched("BMP", 18, "<ii"),
    "bomb.pcx": lambda: patched("PCX", 8, "<HH", 13299, 13299),
    "bomb.tga": lambda: patched("TGA", 12, "<HH"),
    "bomb.sgi": lambda: patched("SGI", 6, ">HH"),
    "bomb.qoi": lambda: patched("QOI", 4, ">II"),
    "bomb.psd": lambda: b"8BPS" + struct.pack(">H6xHIIHH", 1, 3, 13300, 13300, 8, 3) + b"\0" * 64,
    "bomb.dds": lambda: patched("DDS", 12, "<II"),
    "bomb.ppm": lambda: b"P6 13300 13300 255\n" + b"\0" * 64,
    "bomb.jp2": large_jp2,
    "bomb.ico": icon,
    "bomb.webp": lambda: b"RIFF\x22\0\0\0WEBPVP8L\x15\0\0\0\x2f" + (16382 | 16382 << 14).to_bytes(4, "little") + b"\0" * 16,
}  # fmt: skip

# Files that cannot be read: bytes, and a word of what is said. Written under their names.
BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "eps.jpg": (lambda: EPS, "PostScript"),
    "bomb.png": (BOMBS["bomb.png"], "pixels, want at most"),
    "cut.jpg": (lambda: encoded("JPEG", quality=95)[:-500], "truncated"),
    "cut.png": (lambda: encoded("PNG")[:700], ""),
    "wide.tif": (
        lambda: encoded("TIFF", Image.fromarray(np.full((48, 64), 1 << 20, np.int32))),
        "32-bit values",
    ),
    "negative.tif": (
        lambda: encoded("TIFF", Image.fromarray(np.full((48, 64), -1, np.int32))),
        "32-bit values",
    ),
    "bright.tif": (
        lambda: encoded("TIFF", Image.fromarray(np.full((48, 64), 9.0, np.float32))),
        "float values",
    ),
    "heic.jpg": (lambda: HEIC, "HEIC"),
    "mov.jpg": (lambda: MOV, "ffmpeg"),
    "empty.jpg": (lambda: b"", "empty"),
    "text.jpg": (lambda: b"no picture at all", "no picture"),
    "page.jpg": (lambda: b"<!DOCTYPE html><html></html>", "HTML"),
    "thin.png": (lambda: encoded("PNG", Image.new("RGB", (64, 1))), ""),
    "esc\x1b[31m.jpg": (lambda: encoded("JPEG"), "rename it"),
    "line\nbreak.jpg": (lambda: encoded("JPEG"), "rename it"),
}
# Left out by name, with what to do.
LEFT_OUT: dict[str, tuple[Callable[[], bytes], str]] = {
    "phone.HEIC": (lambda: HEIC, "mast3r-runtime[heif]"),
    "walk.MOV": (lambda: MOV, "ffmpeg -i walk.MOV"),
    "walk.mp4": (lambda: MP4, "ffmpeg -i walk.mp4"),
    "raw.dng": (lambda: b"II*\0" + b"\0" * 60, "develop it first"),
    "new.jxl": (lambda: b"\xff\x0a" + b"\0" * 60, "JPEG XL"),
    "no_suffix": (lambda: encoded("JPEG"), "rename it"),
    "video_without_suffix": (lambda: MP4, "ffmpeg"),
}
PLAIN = {"notes.txt": b"x", ".hidden.jpg": b"x", "._a.jpg": b"x", "Thumbs.db": b"x", "a.json": b"{}"}


def good(folder: Path, count: int = 3) -> list[Path]:
    """Pictures that are read, of unusual kinds."""
    folder.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    made = [
        ("g1.jpg", lambda p: Image.fromarray(pixels(1, 64, 48)).save(p, quality=95, exif=exif)),
        (
            "g2.png",
            lambda p: Image.fromarray(np.dstack([pixels(2), np.full((48, 64), 200, np.uint8)])).save(p),
        ),
        ("g3.png", lambda p: Image.fromarray(pixels(3)[..., 0].astype(np.uint16) * 257).save(p)),
    ]
    for name, write in made[:count]:
        write(folder / name)
    return [folder / name for name, _ in made[:count]]


def hostile(folder: Path) -> dict[str, str]:
    """Fill a folder with all of them; what is said of each of the files that are there, by name."""
    said = {}
    for name, (make, text) in {**BAD, **LEFT_OUT}.items():
        if os.name != "posix" and not name.isprintable():
            continue
        (folder / name).write_bytes(make())
        said[name] = text
    for name, data in PLAIN.items():
        (folder / name).write_bytes(data)
    (folder / "folder.jpg").mkdir()
    said["folder.jpg"] = "a folder"
    if os.name == "posix":
        (folder / "dangling.jpg").symlink_to("nowhere.jpg")
        (folder / "loop.jpg").symlink_to("loop.jpg")
        os.mkfifo(folder / "pipe.jpg")
        said |= {"dangling.jpg": "a link to nothing", "loop.jpg": "symbolic links", "pipe.jpg": "a pipe"}
        if os.geteuid() != 0:
            (folder / "locked.jpg").write_bytes(encoded("JPEG"))
            (folder / "locked.jpg").chmod(0)
            said["locked.jpg"] = "Permission denied"
    return said


def ghostscript(folder: Path) -> tuple[str, Path]:
    """A PATH with a ``gs`` that writes down that it was started, and the file into which it does."""
    folder.mkdir()
    started = folder / "started"
    for name in ("gs", "gswin32c", "gswin64c"):
        (folder / name).write_text(f'#!/bin/sh\necho "$0 $*" >> {started}\necho 10.0\n')
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}", started
