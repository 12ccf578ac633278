# SPDX-License-Identifier: Apache-2.0
"""Where a picture was taken, out of the bytes of its file.

A JPEG or PNG keeps its pixels and everything else; what can hold a place goes: GPS in EXIF, XMP and
IPTC that name one, a maker's notes beside GPS, and what lies behind the picture's end (a second
picture, a video). A file that holds none of it comes back as it is.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any

__all__ = ["clean_exif", "without_location"]

_PLACE = re.compile(rb"gps|location|latitude|longitude|geo|:city|:country|:state|:sublocation", re.IGNORECASE)
_XMP = (b"http://ns.adobe.com/xap/1.0/\0", b"http://ns.adobe.com/xmp/extension/\0")
_EXIF_START = b"Exif\0\0"
_GPS = 0x8825
# Tags that hold a place or may: GPS, IPTC, Photoshop's resources, XMP, notes of the maker.
_PLACES = (_GPS, 0x83BB, 0x8649, 0x02BC)
_INNER, _NOTES = 0x8769, 0x927C
# What a copy keeps: description, make, model, resolution, software, date, artist, rights.
_KEPT = (0x010E, 0x010F, 0x0110, 0x011A, 0x011B, 0x0128, 0x0131, 0x0132, 0x013B, 0x8298)
_STORED = (0xA002, 0xA003, 0xA005)  # width and height as stored, and where another directory lies


def without_location(data: bytes) -> bytes:
    """The bytes of a JPEG or PNG without places; those of another file as they are."""
    if data.startswith(b"\xff\xd8"):
        return _jpeg(data)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _png(data)
    return data


def clean_exif(exif: Any, keep_gps: bool = False) -> bytes:
    """Pillow's EXIF of a picture as bytes for an upright copy: camera, lens, focal length, date.

    Without the orientation and what describes the stored pixels; without places unless they are to
    stay. Notes of the maker go in any case: they break where they are moved.
    """
    from PIL import Image

    out = Image.Exif()
    try:
        for tag in _KEPT:
            if tag in exif:
                out[tag] = exif[tag]
        inner = {t: v for t, v in exif.get_ifd(_INNER).items() if t not in (_NOTES, *_STORED)}
        if inner:
            out[_INNER] = inner
        if keep_gps and exif.get_ifd(_GPS):
            out[_GPS] = dict(exif.get_ifd(_GPS))
        block = bytes(out.tobytes()) if len(out) else b""
    except Exception:  # tags that Pillow reads and cannot write: the copy does without
        return b""
    return block if len(block) < 65000 else b""  # what a JPEG can hold


def _drop_places(exif: Any) -> None:
    for tag in _PLACES:
        exif.pop(tag, None)
    exif.get_ifd(_INNER).pop(_NOTES, None)


def _exif_block(block: bytes) -> bytes | None:
    """EXIF bytes without places, None where none can be made; the same bytes where there are no places."""
    from PIL import Image

    exif = Image.Exif()
    try:
        exif.load(block)
        if not any(tag in exif for tag in _PLACES):
            return block
        _drop_places(exif)
        return bytes(exif.tobytes())
    except Exception:  # whatever a broken block raises
        return None


def _jpeg(data: bytes) -> bytes:
    out, changed, end = [data[:2]], False, len(data)
    for start, stop, marker in _segments(data):
        piece = data[start:stop]
        body = piece[4:]
        if marker == 0xE1 and body.startswith(_EXIF_START):
            block = _exif_block(body)
            if block != body:
                changed = True
                piece = b"" if block is None else _segment(0xE1, block)
        elif _is_place(marker, body):
            changed, piece = True, b""
        out.append(piece)
        end = stop
    if data[end:].strip(b"\0"):
        changed = True
    return b"".join(out) if changed else data


def _is_place(marker: int, body: bytes) -> bool:
    """Whether a part is XMP with a place, IPTC, or the list of the pictures behind this one."""
    named = marker == 0xE1 and body.startswith(_XMP) and _PLACE.search(body) is not None
    return named or marker == 0xED or (marker == 0xE2 and body.startswith(b"MPF\0"))


def _segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Start, end and marker of the parts of a JPEG behind its first two bytes, up to its own end."""
    at = 2
    while at + 2 <= len(data):
        if data[at] != 0xFF:  # bytes of no part
            following = data.find(b"\xff", at)
            following = len(data) if following < 0 else following
            yield at, following, 0
            at = following
            continue
        marker = data[at + 1]
        if marker in (0xFF, 0x01) or 0xD0 <= marker <= 0xD8:
            stop = at + (1 if marker == 0xFF else 2)
        elif marker == 0xD9:
            yield at, at + 2, marker
            return
        else:
            length = int.from_bytes(data[at + 2 : at + 4], "big")
            stop = min(at + 2 + max(length, 2), len(data))
            if marker == 0xDA:  # and what was coded, up to the next marker
                stop = _scan_end(data, stop)
        yield at, stop, marker
        at = stop


def _scan_end(data: bytes, at: int) -> int:
    while True:
        at = data.find(b"\xff", at)
        if at < 0 or at + 1 >= len(data):
            return len(data)
        if data[at + 1] != 0 and not 0xD0 <= data[at + 1] <= 0xD7 and data[at + 1] != 0xFF:
            return at
        at += 1 if data[at + 1] == 0xFF else 2


def _png(data: bytes) -> bytes:
    out, at, changed = [data[:8]], 8, False
    while at + 12 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        stop = at + 12 + length
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        piece = data[at:stop]
        if kind == b"eXIf":
            block = _exif_block(_EXIF_START + body)
            if block != _EXIF_START + body:
                changed = True
                piece = b"" if block is None else _chunk(kind, block[len(_EXIF_START) :])
        elif kind in (b"iTXt", b"tEXt", b"zTXt") and _text_names_a_place(kind, body):
            changed, piece = True, b""
        out.append(piece)
        at = stop
        if kind == b"IEND":
            break
    return b"".join(out) if changed or at < len(data) else data


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _text_names_a_place(kind: bytes, body: bytes) -> bool:
    word, _, text = body.partition(b"\0")
    if word.startswith(b"Raw profile type "):  # EXIF, IPTC or XMP as ImageMagick writes them
        return word != b"Raw profile type icc"
    if b"xmp" not in word.lower() and not _PLACE.search(word):
        return False
    if kind == b"zTXt" or (kind == b"iTXt" and text[:1] == b"\1"):
        packed = text[1:] if kind == b"zTXt" else text[2:].split(b"\0", 2)[-1]
        try:
            text = _inflated(packed)
        except zlib.error:
            return True
    return bool(_PLACE.search(text) or _PLACE.search(word))


def _inflated(packed: bytes, most: int = 1 << 24) -> bytes:
    return zlib.decompressobj().decompress(packed, most)
