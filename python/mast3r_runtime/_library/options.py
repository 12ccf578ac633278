# SPDX-License-Identifier: Apache-2.0
"""Pictures, maps and options on their way into the library."""

from __future__ import annotations

import ctypes as C
from collections.abc import Iterable, Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentError, ShapeError
from . import calls, header
from . import structs as S
from .memory import Array, GPUTensor

__all__ = [
    "OUTPUTS",
    "DescLike",
    "Only",
    "image_array",
    "infer_options",
    "map_struct",
    "outputs",
    "views_options",
    "windows_of",
]

OUTPUTS = {
    "pts3d": header.POINTS,
    "conf": header.CONF,
    "desc": header.DESC,
    "desc_conf": header.DESC_CONF,
}

U8 = npt.NDArray[np.uint8]
Only = Iterable[str] | None
DescLike = Union[npt.ArrayLike, GPUTensor]

_IMAGE_SIZE = C.sizeof(S.Image)


def outputs(only: Only) -> int:
    """Return a set of output names as the library's bits; 0 stands for all."""
    if only is None:
        return 0
    names = (only,) if isinstance(only, str) else tuple(only)
    for name in names:
        if name not in OUTPUTS:
            raise ArgumentError(f"only: {name!r}, want some of {', '.join(OUTPUTS)}")
    if not names:
        raise ArgumentError(f"only: nothing, want some of {', '.join(OUTPUTS)}, or None for all")
    return sum(OUTPUTS[name] for name in set(names))


def infer_options(
    preprocess: bool = True, square_ok: bool = True, resolution: int | None = None, only: Only = None
) -> S.InferOptions:
    """Return the options of one call."""
    return S.struct(
        S.InferOptions,
        raw=int(not preprocess),
        rectangle_43=int(not square_ok),
        resolution=calls.int32("resolution", resolution or 0),
        only=outputs(only),
    )


def image_array(pictures: Sequence[U8]) -> C.Array[S.Image]:
    """Return RGB pictures as an array of structs, which point at the pictures' memory."""
    structs = (S.Image * len(pictures))()
    for struct, picture in zip(structs, pictures, strict=True):
        struct.size = _IMAGE_SIZE
        struct.height, struct.width, _ = picture.shape
        struct.stride = 3 * struct.width
        struct.pixels = picture.ctypes.data
    return structs


def views_options(
    count: int,
    raw: bool,
    resolution: int,
    reference: str,
    rays: bool,
    window: int,
    overlap: int,
    poses: npt.ArrayLike | None,
    intrinsics: npt.ArrayLike | None,
) -> tuple[S.ViewsOptions, list[object]]:
    """Return the options of a scene of ``count`` views, and what they point at."""
    if (poses is None) != (intrinsics is None):
        raise ArgumentError("poses without intrinsics or the other way round, want both or neither")
    name = calls.text("reference", reference)
    keep: list[object] = [name]
    out = S.struct(
        S.ViewsOptions,
        raw=int(raw),
        resolution=calls.int32("resolution", resolution),
        rays=int(rays),
        window=calls.int32("window", window),
        overlap=calls.int32("overlap", overlap),
        reference=name,
    )
    for field, value, shape in (("poses", poses, (count, 4, 4)), ("intrinsics", intrinsics, (count, 3, 3))):
        if value is None:
            continue
        array = np.ascontiguousarray(np.asarray(value), np.float64)
        if array.shape != shape:
            raise ShapeError(f"{field} of shape {array.shape}, want {shape}")
        keep.append(array)
        setattr(out, field, array.ctypes.data)
    return out, keep


def windows_of(job: calls.Job) -> tuple[list[tuple[Any, ...]], S.Timing]:
    """The windows of a finished scene, each as the fields of its struct, and where the time went."""
    count, timing = C.c_size_t(), S.Timing()
    calls.call("mast3r_job_windows", job._handle, None, 0, count, timing)
    out = (S.Window * count.value)()
    for one in out:
        one.size = C.sizeof(S.Window)
    calls.call("mast3r_job_windows", job._handle, out, len(out), count, timing)
    return [(w.first, w.count, w.reference, w.overlap, w.points, w.scale, w.residual) for w in out], timing


def map_struct(
    which: str,
    desc: DescLike,
    weight: DescLike | None,
    points: DescLike | None,
    mask: npt.ArrayLike | None,
) -> tuple[S.Map, list[object]]:
    """Return the C struct of one map and the arrays whose memory it points at."""
    out = S.struct(S.Map)
    descriptors: GPUTensor | Array
    if isinstance(desc, GPUTensor) and desc._unread and desc.ndim == 3:
        descriptors, out.tensor = desc, desc._held()._handle
    else:
        descriptors = _floats(f"desc_{which}", desc)
    if isinstance(descriptors, np.ndarray) and descriptors.ndim == 4 and descriptors.shape[0] == 1:
        descriptors = descriptors[0]
    if descriptors.ndim != 3:
        raise ShapeError(f"match: desc_{which} of shape {descriptors.shape}, want (H, W, D) or (1, H, W, D)")
    height, width, dim = descriptors.shape
    keep: list[object] = [descriptors]
    out.height, out.width, out.dim = height, width, dim
    if isinstance(descriptors, np.ndarray):
        out.descriptors = descriptors.ctypes.data
    if weight is None and points is None and mask is None:
        return out, keep
    for field, name, value, shape in (
        ("weight", f"conf_{which}", weight, (height, width)),
        ("points", f"pts3d_{which}", points, (height, width, 3)),
        ("mask", f"mask_{which}", mask, (height, width)),
    ):
        if value is None:
            continue
        array: Array
        if field == "mask":
            array = np.ascontiguousarray(np.asarray(value).astype(bool).view(np.uint8))
        else:
            array = _floats(name, value)
        if array.shape == (1, *shape):
            array = array[0]
        if array.shape != shape:
            raise ShapeError(f"match: {name} of shape {array.shape}, want {shape}")
        keep.append(array)
        setattr(out, field, array.ctypes.data)
    return out, keep


def _floats(name: str, value: DescLike) -> Array:
    array = value.numpy() if isinstance(value, GPUTensor) else np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"match: {name} of element type {array.dtype}, want float32")
    return np.ascontiguousarray(array, np.float32)


def places_struct(
    xy_1: npt.ArrayLike, xy_2: npt.ArrayLike, covariance: npt.ArrayLike | None = None
) -> tuple[S.Places, list[Array]]:
    """The C struct of matched places, and the arrays whose memory it points at."""
    one, two = (np.ascontiguousarray(np.asarray(xy, np.float64)) for xy in (xy_1, xy_2))
    if one.ndim != 2 or one.shape[1] != 2 or one.shape != two.shape:
        raise ShapeError(f"matched places of shapes {one.shape} and {two.shape}, want two of (N, 2)")
    keep: list[Array] = [one, two]
    out = S.struct(S.Places, count=len(one), pixel1=one.ctypes.data, pixel2=two.ctypes.data)
    if covariance is not None:
        third = np.ascontiguousarray(np.asarray(covariance, np.float32))
        if third.shape != (len(one), 2, 2):
            raise ShapeError(f"covariance of shape {third.shape}, want {(len(one), 2, 2)}")
        keep.append(third)
        out.covariance = third.ctypes.data
    return out, keep
