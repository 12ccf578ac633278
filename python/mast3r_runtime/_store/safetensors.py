# SPDX-License-Identifier: Apache-2.0
"""Named arrays as bytes of safetensors, with a checksum of the data in the header."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["checked", "pack", "unpack"]

_NAMES = {"float32": "F32", "float16": "F16", "int32": "I32", "uint8": "U8"}
_DTYPES = {"F32": "<f4", "F16": "<f2", "I32": "<i4", "U8": "|u1"}


def pack(arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str] | None = None) -> bytes:
    """Arrays of float32, float16, int32 and uint8 as bytes."""
    header: dict[str, object] = {}
    at = 0
    parts = []
    for name, array in arrays.items():
        kind = _NAMES[array.dtype.name]
        parts.append(np.ascontiguousarray(array).astype(_DTYPES[kind]).tobytes())
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": (at, at + len(parts[-1]))}
        at += len(parts[-1])
    data = b"".join(parts)
    header["__metadata__"] = {**(metadata or {}), "crc32": f"{zlib.crc32(data):08x}"}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def checked(data: bytes) -> bytes:
    """What another writer made, with a checksum in its header too."""
    (size,) = struct.unpack("<Q", data[:8])
    return pack(unpack(data), json.loads(data[8 : 8 + size]).get("__metadata__"))


def unpack(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays of :func:`pack`, or of another writer.

    Raises one of a dozen errors of json, struct and numpy where the bytes are damaged, and
    ValueError where the checksum, if there is one, is another.
    """
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    wanted = header.pop("__metadata__", {}).get("crc32")
    if wanted is not None and wanted != f"{zlib.crc32(memoryview(data)[8 + size :]):08x}":
        raise ValueError("the checksum of the data is not the header's")
    out = {}
    for name, entry in header.items():
        start, end = (8 + size + int(v) for v in entry["data_offsets"])
        if not 8 + size <= start <= end <= len(data):
            raise ValueError(f"{name}: data at {start} to {end} of {len(data)} bytes")
        out[name] = np.frombuffer(data[start:end], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return out
