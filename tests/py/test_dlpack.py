# SPDX-License-Identifier: Apache-2.0
"""Values handed to other libraries: by the host, and by addresses as of a GPU."""

from __future__ import annotations

import ctypes as C
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import mast3r_runtime as m3r
from mast3r_runtime._library import dlpack


class Owner:
    """Memory as a GPU's would be, but on the host, where numpy can look at it."""

    def __init__(self) -> None:
        self.values = np.arange(24, dtype=np.float32)

    def capsule(self) -> object:
        return dlpack.capsule(self, self.values.ctypes.data, (dlpack.HOST, 0), (2, 3, 4))


class Tensor:
    def __init__(self, owner: Owner) -> None:
        self.owner = owner

    def __dlpack__(self, **_: Any) -> object:
        return self.owner.capsule()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (dlpack.HOST, 0)


def test_a_capsule_keeps_its_owner_as_long_as_somebody_reads() -> None:
    owner = Owner()
    alive = weakref.ref(owner)
    array = np.from_dlpack(Tensor(owner))
    assert array.shape == (2, 3, 4)
    assert array.dtype == np.float32
    assert array.ctypes.data == owner.values.ctypes.data
    del owner
    gc.collect()
    assert alive() is not None
    assert array[1, 2, 3] == 23
    del array
    gc.collect()
    assert alive() is None


def test_a_capsule_that_nobody_takes_frees_its_owner() -> None:
    owner = Owner()
    alive = weakref.ref(owner)
    capsule = owner.capsule()
    del owner
    gc.collect()
    assert alive() is not None
    del capsule
    gc.collect()
    assert alive() is None


def test_a_capsule_names_its_device() -> None:
    class Header(C.Structure):  # DLTensor
        _fields_ = (
            ("data", C.c_void_p), ("device", C.c_int32 * 2), ("ndim", C.c_int32), ("code", C.c_uint8),
            ("bits", C.c_uint8), ("lanes", C.c_uint16), ("shape", C.POINTER(C.c_int64)),
        )  # fmt: skip

    capsule = dlpack.capsule(None, 1 << 40, (2, 1), (2, 3))  # an address that the host has not
    pointer = C.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = C.c_void_p, (C.py_object, C.c_char_p)
    header = Header.from_address(pointer(capsule, b"dltensor"))
    assert (header.data, list(header.device)) == (1 << 40, [2, 1])
    assert (header.code, header.bits, header.lanes) == (2, 32, 1)  # float32
    assert header.shape[: header.ndim] == [2, 3]


def test_a_result_on_the_host_is_handed_over_without_a_copy() -> None:
    with m3r.Engine("auto", 0, "auto", 0, "cpu") as engine:
        engine.load()
        picture = np.zeros((64, 96, 3), np.uint8)
        result = engine.infer_gpu(picture, picture, preprocess=False)
        points = result.pts3d_1
        assert points.__dlpack_device__() == (dlpack.HOST, 0)
        array = np.from_dlpack(points)
        assert array.ctypes.data == points.numpy().ctypes.data
        kept = array.copy()
    np.testing.assert_array_equal(array, kept)


def test_backends() -> None:
    assert "cpu" in m3r.get_available_backends()
    with pytest.raises(m3r.Mast3rError):
        m3r.Engine(backend="cuda:99")
    with pytest.raises(m3r.Mast3rError, match="cuda"):
        m3r.Engine(backend="cuda:x")
    with pytest.raises(m3r.Mast3rError, match="tf32"):
        m3r.Engine(precision="tf32", backend="cpu")
