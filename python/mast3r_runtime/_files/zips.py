# SPDX-License-Identifier: Apache-2.0
"""Zips of which every byte counts, and the arrays of an npz from one.

A zip is found by its directory, at its end. One flipped bit there (the length of a member's
comment, say) hides the members behind it, and the rest still parses. So the number of members
that the end record promises is compared with the number that was found.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

__all__ = ["Arrays", "Spec", "arrays", "fit", "opened"]

Arrays = dict[str, npt.NDArray[Any]]
# dtype and shape by name: a dtype of numpy, or "U" text, "i" and "f" any integers and floats; in a
# shape a letter stands for the same side everywhere.
Spec = Mapping[str, tuple[str, tuple[object, ...]]]

_KINDS = {"U": "U", "i": "iu", "f": "f"}
_END = 22  # bytes of the end record, before the comment
_MOST = 0xFFFF  # members that its field can count


def opened(file: IO[bytes], comment: bytes = b"") -> zipfile.ZipFile:
    """A zip as this package writes them: not compressed, with this comment, whole directory.

    Raises BadZipFile, or what else zipfile does with damaged bytes.
    """
    archive = zipfile.ZipFile(file)
    if archive.comment != comment:
        raise zipfile.BadZipFile(f"comment {archive.comment[:40]!r}, want {comment!r}")
    file.seek(-_END - len(comment), io.SEEK_END)
    (promised,) = struct.unpack_from("<H", file.read(_END), 10)
    members = archive.infolist()
    if min(len(members), _MOST) != promised:
        raise zipfile.BadZipFile(f"{len(members)} members in the directory, the end record says {promised}")
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise zipfile.BadZipFile(f"{member.filename!r}: compressed, want stored")
    return archive


def arrays(file: IO[bytes], only: Sequence[str] | None = None) -> Arrays:
    """The arrays of an npz that ``np.savez`` wrote, or those named.

    No array takes more memory than its bytes in the file, whatever its header says. Damaged
    bytes end in any of a dozen errors of zipfile and numpy.
    """
    out = {}
    with opened(file) as archive:
        names = archive.namelist()
        if len(set(names)) != len(names):
            raise zipfile.BadZipFile("a member twice")
        for name in names if only is None else [f"{wanted}.npy" for wanted in only]:
            out[name.removesuffix(".npy")] = _array(archive.read(name))
    return out


def _array(data: bytes) -> npt.NDArray[Any]:
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, fortran, dtype = read[version](file)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype} {shape}")
    if math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError(f"{len(data) - file.tell()} bytes for {dtype} {shape}")
    flat = np.frombuffer(data, dtype, offset=file.tell()).copy()
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def fit(arrays: Arrays, spec: Spec, finite: Sequence[str] = ()) -> None:
    """ValueError unless all arrays of ``spec`` are there as it says, and those of ``finite`` are."""
    sides: dict[object, object] = {}
    for name, (dtype, shape) in spec.items():
        if name not in arrays:
            raise ValueError(f"no {name} among {', '.join(sorted(arrays)):.200}")
        array = arrays[name]
        got = array.dtype
        same = (
            got.kind in {"i": "iu"}.get(dtype, dtype) if dtype in ("U", "i", "f") else got == np.dtype(dtype)
        )
        if not same or array.ndim != len(shape):
            raise ValueError(f"{name}: {got} {array.shape}, want {dtype} {shape}")
        for side, want in zip(array.shape, shape, strict=True):
            if side != (sides.setdefault(want, side) if isinstance(want, str) else want):
                raise ValueError(f"{name}: shape {array.shape}, want {shape}")
        if name in finite and not np.isfinite(array).all():
            raise ValueError(f"{name}: a number that is not finite")
