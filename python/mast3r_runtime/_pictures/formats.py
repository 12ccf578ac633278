# SPDX-License-Identifier: Apache-2.0
"""What a file is by its name and its first bytes, and what to do with one that cannot be read."""

from __future__ import annotations

import functools
import shlex
import stat
from pathlib import Path
from typing import Literal, NamedTuple

from .._files.plain import irregular, no_wait

__all__ = ["Kind", "formats", "kind", "known_suffixes", "suffixes", "what"]

# What Pillow is asked for. Not for everything that it knows: for EPS it starts Ghostscript.
FORMATS = (
    "JPEG", "MPO", "PNG", "WEBP", "TIFF", "BMP", "DIB", "GIF", "PPM", "JPEG2000", "AVIF", "HEIF",
    "TGA", "PCX", "SGI", "QOI", "DDS", "PSD", "ICO",
)  # fmt: skip
HEAD = 64  # bytes that say what a file is

_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_HEIC = "a HEIC picture; pip install 'mast3r-runtime[heif]'"
_AVIF = "an AVIF picture, which this Pillow cannot read; pip install --upgrade pillow"
_JXL = "a JPEG XL picture; convert it to PNG or JPEG first, as with djxl"
_RAW = "a raw camera file; develop it first, as with darktable-cli"
_FLOAT = "a picture of brightness without bounds; convert it to PNG or JPEG first"
_EDITOR = "an editor's file; export it as PNG first"

_UNREADABLE = {
    **dict.fromkeys((".heic", ".heif", ".heics", ".heifs", ".hif"), _HEIC),
    **dict.fromkeys((".avif", ".avifs"), _AVIF),
    ".jxl": _JXL,
    **dict.fromkeys(
        (
            ".dng", ".cr2", ".cr3", ".crw", ".nef", ".nrw", ".arw", ".srf", ".sr2", ".orf", ".rw2", ".raf",
            ".pef", ".srw", ".x3f", ".3fr", ".fff", ".iiq", ".rwl", ".erf", ".mef", ".mos", ".kdc", ".dcr",
            ".raw", ".gpr", ".mrw",
        ),
        _RAW,
    ),
    **dict.fromkeys((".exr", ".hdr"), _FLOAT),
    **dict.fromkeys((".psb", ".xcf", ".kra"), _EDITOR),
}  # fmt: skip
_VIDEOS = {
    ".mov", ".mp4", ".m4v", ".qt", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".mts", ".m2ts", ".3gp", ".3g2",
    ".wmv", ".flv", ".ogv", ".vob", ".insv", ".360", ".lrv",
}  # fmt: skip
_QUICKTIME = (b"moov", b"mdat", b"wide", b"skip", b"pnot")  # what old .mov files begin with


class Kind(NamedTuple):
    """What a file is. ``advice`` says of pictures and videos that cannot be read now what to do."""

    name: Literal["picture", "unreadable", "video", "other"]
    advice: str = ""


def formats() -> list[str]:
    """Pillow's names of the file formats that are read here."""
    from PIL import Image

    Image.init()
    try:
        import pillow_heif  # type: ignore[import-not-found,unused-ignore]

        pillow_heif.register_heif_opener()
    except ImportError:
        pass
    return [name for name in FORMATS if name in Image.OPEN]


@functools.cache
def suffixes() -> set[str]:
    """The suffixes, in small letters, of the files that are read here."""
    from PIL import Image

    known = set(formats())
    return {suffix for suffix, name in Image.registered_extensions().items() if name in known}


def known_suffixes() -> set[str]:
    """The suffixes, in small letters, of all pictures, also of those that cannot be read here."""
    return suffixes() | set(_UNREADABLE)


def kind(path: Path) -> Kind:
    """What a file of a folder is: by its suffix, and by its first bytes where that says nothing.

    Never waits: of a pipe, a device or a link to nothing only the name is looked at.
    """
    suffix = path.suffix.lower()
    named = suffix in suffixes() or suffix in _UNREADABLE or suffix in _VIDEOS
    try:
        mode = path.stat().st_mode
    except OSError as error:  # a link to nothing, or round in a circle
        missing = isinstance(error, FileNotFoundError)
        text = "a link to nothing" if missing else f"cannot be read: {error.strerror or error}"
        return Kind("unreadable", text) if named else Kind("other")
    if not stat.S_ISREG(mode):
        return Kind("unreadable", f"{irregular(mode)}, want a file") if named else Kind("other")
    if suffix in suffixes():
        return Kind("picture")
    if suffix in _UNREADABLE:
        return Kind("unreadable", _UNREADABLE[suffix])
    if suffix in _VIDEOS:
        return Kind("video", video(suffix[1:].upper(), path.name))
    return _by_bytes(path)


def _by_bytes(path: Path) -> Kind:
    try:
        with open(path, "rb", opener=no_wait) as file:
            head = file.read(HEAD)
    except OSError:
        return Kind("other")
    format_ = _picture(head)
    if format_:
        return Kind("unreadable", f"a {format_} picture whose name does not end so; rename it")
    text = what(head, path.name)
    if text.startswith("a video"):
        return Kind("video", text)
    return Kind("unreadable", text) if text in (_HEIC, _AVIF, _JXL, _RAW) else Kind("other")


def video(form: str, name: str = "VIDEO") -> str:
    """What to do with a video."""
    name = shlex.quote(name.replace("'", "_")) if name.isprintable() else "VIDEO"
    return (
        f"a video ({form}); take pictures out of it first: mkdir frames; "
        f"ffmpeg -i {name} -vf fps=2 -qscale:v 2 frames/%05d.jpg"
    )


def _picture(head: bytes) -> str:
    """The format of a picture that is read here, by its first bytes; empty where they say none."""
    for start, name in (
        (b"\xff\xd8\xff", "JPEG"), (b"\x89PNG\r\n\x1a\n", "PNG"), (b"GIF8", "GIF"), (b"II*\0", "TIFF"),
        (b"MM\0*", "TIFF"), (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG2000"), (b"8BPS", "PSD"), (b"qoif", "QOI"),
    ):  # fmt: skip
        if head.startswith(start):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    brand = head[8:12] if head[4:8] == b"ftyp" else b""
    known = formats() if brand else []
    if brand in _HEIF_BRANDS and "HEIF" in known:
        return "HEIF"
    return "AVIF" if brand in (b"avif", b"avis") and "AVIF" in known else ""


def what(head: bytes, name: str = "VIDEO") -> str:
    """What a file is that no decoder here takes, by its first bytes, and what to do with it."""
    brand = head[8:12] if head[4:8] == b"ftyp" else b""
    if brand in _HEIF_BRANDS:
        return "a HEIC picture that is damaged" if "HEIF" in formats() else _HEIC
    if brand in (b"avif", b"avis"):
        return "an AVIF picture that is damaged" if "AVIF" in formats() else _AVIF
    if head.startswith((b"\xff\x0a", b"\0\0\0\x0cJXL \r\n\x87\n")):
        return _JXL
    if brand == b"crx " or head.startswith((b"FUJIFILMCCD-RAW", b"IIRS", b"IIU\0", b"FOVb")):
        return _RAW
    if brand or head[4:8] in _QUICKTIME:
        return video("MOV" if brand in (b"", b"qt  ") else "MP4", name)
    for start, form in (
        (b"\x1aE\xdf\xa3", "Matroska"), (b"\0\0\1\xba", "MPEG"), (b"FLV\1", "FLV"),
        (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "WMV"),
    ):  # fmt: skip
        if head.startswith(start):
            return video(form, name)
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        return video("AVI", name)
    suffix = Path(name).suffix.lower()
    return _UNREADABLE[suffix] if suffix in _UNREADABLE and head else _other(head)


def _other(head: bytes) -> str:
    want = f"want a picture ({', '.join(formats())})"
    for start, name in (
        (b"%!PS", "PostScript"), (b"\xc5\xd0\xd3\xc6", "PostScript"), (b"%PDF", "a PDF file"),
        (b"\x76\x2f\x31\x01", "an OpenEXR file"), (b"#?RADIANCE", "a Radiance HDR file"),
        (b"PK\x03\x04", "a zip archive"), (b"\x1f\x8b", "gzip"), (b"RIFF", "a RIFF file (WAV)"),
    ):  # fmt: skip
        if head.startswith(start):
            return f"{name}, {want}"
    text = head.lstrip().lower()
    if text.startswith((b"<svg", b"<?xml")):
        return f"an SVG or XML file, {want}"
    if text.startswith((b"<!doctype", b"<html")):
        return f"an HTML page, {want}"
    if not head:
        return "empty"
    return f"no picture that Pillow knows; it starts with {head[:16]!r}"
