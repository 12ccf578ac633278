# SPDX-License-Identifier: Apache-2.0
"""Device memory handed to other libraries by the DLPack protocol, without a copy."""

from __future__ import annotations

import ctypes as C
from typing import Any

import numpy as np

__all__ = ["HOST", "capsule"]

HOST = 1  # DLDeviceType
_NAME = b"dltensor"


class _Tensor(C.Structure):
    """The begin of DLTensor, with which a DLManagedTensor begins."""

    _fields_ = (("data", C.c_void_p), ("device_type", C.c_int32), ("device_id", C.c_int32))


class _Values:
    """Packed float32 values at an address that numpy does not read, and their owner."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, owner: object, address: int, shape: tuple[int, ...]) -> None:
        self._owner = owner
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": shape,
            "typestr": np.dtype(np.float32).str,
            "data": (address, False),
        }


_pointer = C.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = C.c_void_p, (C.py_object, C.c_char_p)


def capsule(owner: object, address: int, device: tuple[int, int], shape: tuple[int, ...]) -> object:
    """Return a capsule over packed float32 values at ``address``.

    ``owner`` lives as long as somebody reads them, or could. The capsule is one of numpy's, whose
    destructor and deleter are no Python code, in which a Ctrl-C would be lost; only the device in it
    is another.
    """
    made = np.asarray(_Values(owner, address, shape)).__dlpack__()
    tensor = _Tensor.from_address(_pointer(made, _NAME))
    tensor.device_type, tensor.device_id = device
    return made
