# SPDX-License-Identifier: Apache-2.0
"""One file that a user names: whether it may be replaced.

Each kind of file that a command writes under a name of the user's carries a mark by which it is known
again: an ONNX model's producer, a zip's comment. In pictures and pages, which people edit, the mark
holds the hash of the rest: one that was edited is the user's.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ..errors import ArgumentError, FileError, quoted
from .whole import check_target

__all__ = ["MARK", "not_an_input", "ours", "seal", "single"]

MARK = "mast3r-runtime"
_HEAD = 1 << 16
_PNG = b"\x89PNG\r\n\x1a\n"
_AFTER_HEADER = 33  # bytes of a PNG: its signature and its first chunk


def single(
    path: Path,
    suffixes: tuple[str, ...] = (),
    inputs: Iterable[str | os.PathLike[str]] = (),
    overwrite: bool = False,
) -> Path:
    """The file that writing to ``path`` may replace, or an error, before the work.

    It is never one of ``inputs``, through whatever link. A file without our mark is replaced only with
    ``overwrite``. Raises ArgumentError and FileError.
    """
    target = check_target(path, suffixes)
    not_an_input(path, inputs)
    if os.path.lexists(target) and not overwrite and not ours(target):
        raise FileError(
            f"{path}: there is a file that mast3r did not write; choose another name, or --overwrite it"
        )
    return target


def not_an_input(path: Path, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Raise ArgumentError where a file to write is one that is read, or lies in a folder that is."""
    for source in inputs:
        same = False
        with suppress(OSError, ValueError):  # what is not there is not the same
            files = list(Path(source).iterdir()) if os.path.isdir(source) else [Path(source)]
            same = any(os.path.samefile(path, file) for file in files)
        if same:
            raise ArgumentError(f"{path}: it is an input ({quoted(source)}), want another file to write")


def seal(path: Path) -> None:
    """Put the mark into a PNG or a page that was just written, under its temporary name."""
    data = path.read_bytes()
    text = f"{MARK} sha256 {hashlib.sha256(data).hexdigest()}"
    if data.startswith(_PNG):
        body = f"tEXtSoftware\0{text}".encode()
        chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
        path.write_bytes(data[:_AFTER_HEADER] + chunk + data[_AFTER_HEADER:])
    else:
        with open(path, "ab") as file:
            file.write(f"<!-- {text} -->\n".encode())


def _sealed(path: Path) -> bool:
    """Whether a PNG or a page has the bytes that were sealed."""
    data = path.read_bytes()
    if data.startswith(_PNG):
        (length,) = struct.unpack(">I", data[_AFTER_HEADER : _AFTER_HEADER + 4])
        end = _AFTER_HEADER + 12 + length
        mark, rest = data[_AFTER_HEADER:end], data[:_AFTER_HEADER] + data[end:]
    else:
        end = data.rfind(b"\n", 0, -1) + 1
        mark, rest = data[end:], data[:end]
    return f"{MARK} sha256 {hashlib.sha256(rest).hexdigest()}".encode() in mark


def ours(path: Path) -> bool:
    """Whether a file carries our mark."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            file.seek(max(file.seek(0, os.SEEK_END) - _HEAD, 0))
            tail = file.read()
        if (head.startswith(_PNG) and len(head) > 64) or head[:15].lower() == b"<!doctype html>":
            return _sealed(path)
    except OSError:
        return False
    if head.startswith(b"PK\x03\x04"):
        at = tail.rfind(b"PK\x05\x06")
        return at >= 0 and tail[at + 22 :].startswith(MARK.encode())
    if head[:1] == b"\x08":  # the version that an ONNX model begins with, then the producer
        return b"\x12" + bytes([len(MARK)]) + MARK.encode() in head[:64]
    return _safetensors(head)


def _safetensors(head: bytes) -> bool:
    (length,) = struct.unpack("<Q", head[:8]) if len(head) >= 8 else (0,)
    text = head[8 : 8 + length]
    with suppress(ValueError, RecursionError, AttributeError):
        return str(json.loads(text)["__metadata__"].get("made_by", "")).startswith(MARK)
    return f'"made_by":"{MARK}'.encode() in text.replace(b": ", b":")
