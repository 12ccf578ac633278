# SPDX-License-Identifier: Apache-2.0
"""Device memory handed to other libraries by the DLPack protocol, without a copy."""

from __future__ import annotations

import ctypes as C
from typing import Any

__all__ = ["CUDA", "HOST", "capsule"]

HOST, CUDA = 1, 2  # DLDeviceType
_FLOAT = 2  # DLDataTypeCode
_NAME = b"dltensor"


class _Tensor(C.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", C.c_void_p),
        ("device_type", C.c_int32),
        ("device_id", C.c_int32),
        ("ndim", C.c_int32),
        ("code", C.c_uint8),
        ("bits", C.c_uint8),
        ("lanes", C.c_uint16),
        ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)),
        ("byte_offset", C.c_uint64),
    )


_Deleter = C.CFUNCTYPE(None, C.c_void_p)


class _Managed(C.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", _Tensor), ("context", C.c_void_p), ("deleter", _Deleter))


_exported: dict[int, tuple[Any, ...]] = {}  # what a consumer still reads, by the address of its _Managed


# Not a function of Python: a Ctrl-C that comes while a consumer lets go would be lost in it.
_deleter = _Deleter(_exported.pop)


_is_valid = C.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = C.c_int, (C.c_void_p, C.c_char_p)
_pointer = C.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = C.c_void_p, (C.c_void_p, C.c_char_p)
_new = C.pythonapi.PyCapsule_New
_Destructor = C.PYFUNCTYPE(None, C.c_void_p)
_new.restype, _new.argtypes = C.py_object, (C.c_void_p, C.c_char_p, _Destructor)


def _destroy(capsule: int) -> None:
    # A consumer renames the capsule; one with its first name was never consumed.
    if _is_valid(capsule, _NAME):
        _exported.pop(_pointer(capsule, _NAME), None)


_destructor = _Destructor(_destroy)


def capsule(owner: object, address: int, device: tuple[int, int], shape: tuple[int, ...]) -> object:
    """Return a capsule over packed float32 values at ``address``.

    ``owner`` lives as long as somebody reads them.
    """
    dims = (C.c_int64 * len(shape))(*shape)
    managed = _Managed(
        _Tensor(address, *device, len(shape), _FLOAT, 32, 1, dims, None, 0),
        None,
        _deleter,
    )
    at = C.addressof(managed)
    _exported[at] = (owner, managed, dims)
    return _new(at, _NAME, _destructor)
