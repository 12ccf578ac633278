# SPDX-License-Identifier: Apache-2.0
"""Tensors that live in the library's memory until somebody looks at them."""

from __future__ import annotations

import ctypes as C
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentError, ShapeError, checked
from . import calls, dlpack, header
from . import structs as S
from .owned import Owned

__all__ = ["Array", "GPUTensor"]

Array = npt.NDArray[Any]

DType = np.dtype[Any]

FLOAT32: DType = np.dtype(np.float32)
INT64: DType = np.dtype(np.int64)
INT32: DType = np.dtype(np.int32)
FLOAT64: DType = np.dtype(np.float64)
_DTYPES: dict[int, DType] = {
    header.F32: FLOAT32,
    header.I64: INT64,
    header.I32: INT32,
    header.F64: FLOAT64,
}


def _describe(handle: int) -> S.TensorDesc:
    desc = S.struct(S.TensorDesc)
    calls.call("mast3r_tensor_describe", handle, desc)
    return desc


class _Memory(Owned):
    """Owns one tensor handle and shows its host memory to numpy without a copy.

    numpy keeps this object as the base of every view, so the memory is given back when the
    last array over it is gone, whatever became of the engine, the result and the tensor.
    """

    __slots__ = ("__array_interface__",)

    def __init__(self, handle: int) -> None:
        super().__init__("mast3r_tensor_release", handle)

    def array(self, pointer: int | None, shape: tuple[int, ...], dtype: DType) -> Array:
        if not pointer:  # no elements, no memory
            return np.empty(shape, dtype)
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": shape,
            "typestr": dtype.str,
            "data": (pointer, False),
        }
        return np.asarray(self)


@checked
class GPUTensor:
    """A tensor of a result.

    ``numpy()`` brings it to the host on the first call and returns the same array from then
    on; where the backend computes in host memory, nothing is copied at all. A tensor owns its
    memory: later calls and ``close()`` of the engine do not change it.
    """

    __slots__ = ("_array", "_dtype", "_lock", "_memory", "_shape")

    def __init__(self, handle: int) -> None:
        desc = _describe(handle)
        self._set(_Memory(handle), tuple(desc.shape[: desc.ndim]), _DTYPES[desc.dtype])

    def _set(
        self, memory: _Memory | None, shape: tuple[int, ...], dtype: DType, array: Array | None = None
    ) -> None:
        self._memory, self._shape, self._dtype, self._array = memory, shape, dtype, array
        self._lock = threading.Lock()

    @classmethod
    def _of(cls, handle: int, shape: tuple[int, ...], dtype: DType = FLOAT32) -> GPUTensor:
        """Return the tensor of a handle whose shape is known already.

        Handle 0 stands for an output that was left out: the tensor is empty and not valid.
        """
        tensor = cls.__new__(cls)
        if handle:
            tensor._set(_Memory(handle), shape, dtype)
        else:
            tensor._set(None, (0,) * len(shape), dtype)
        return tensor

    @staticmethod
    def _last_side(handle: int) -> int:
        """Return the size of a tensor's last dimension; 0 for handle 0."""
        if not handle:
            return 0
        desc = _describe(handle)
        return int(desc.shape[desc.ndim - 1])

    @staticmethod
    def _arrays(tensors: Sequence[GPUTensor]) -> list[Array]:
        """``numpy()`` of several in one call; an empty array for an output that was left out."""
        missing = [t for t in tensors if t._array is None and t._memory is not None]
        if missing:
            handles = (S.Handle * len(missing))(*(t._held()._handle for t in missing))
            pointers = (S.Pointer * len(missing))()
            calls.call("mast3r_tensors_data", handles, len(missing), pointers)
            for tensor, pointer in zip(missing, pointers, strict=True):
                tensor._bring(pointer)
        return [np.empty(t._shape, t._dtype) if t._array is None else t._array for t in tensors]

    def _bring(self, pointer: int | None) -> Array:
        with self._lock:
            if self._array is None:
                self._array = self._held().array(pointer, self._shape, self._dtype)
        return self._array

    @classmethod
    def from_numpy(cls, array: Array) -> GPUTensor:
        """Return a tensor over a host array, as unpickling does."""
        tensor = cls.__new__(cls)
        tensor._set(None, array.shape, array.dtype, array)
        return tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def dtype(self) -> DType:
        """The element type, as numpy names it."""
        return self._dtype

    @property
    def numel(self) -> int:
        return int(np.prod(self._shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.numel * self._dtype.itemsize

    @property
    def is_valid(self) -> bool:
        """Whether the memory can still be read."""
        if self._array is not None:
            return True
        if self._memory is None:
            return False
        return bool(_describe(self._memory._handle).valid)

    def numpy(self) -> Array:
        """The values as an array; the same one every time."""
        if self._array is not None:
            return self._array
        pointer = S.Pointer()
        calls.call("mast3r_tensor_data", self._held()._handle, pointer)
        return self._bring(pointer.value)

    def _held(self) -> _Memory:
        if self._memory is None:
            raise ShapeError("tensor: this output was left out by only=(...); it has no values")
        return self._memory

    def copy_to(self, out: Array) -> None:
        """Write the values into ``out`` (same shape and dtype, C-contiguous, writable)."""
        if self._array is None:
            self._held()
        if out.shape != self._shape or out.dtype != self._dtype:
            raise ShapeError(f"copy_to: out is {out.dtype} {out.shape}, want {self._dtype} {self._shape}")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise ShapeError("copy_to: out must be C-contiguous and writable")
        if self._array is not None:
            np.copyto(out, self._array)
            return
        calls.call("mast3r_tensor_copy", self._held()._handle, out.ctypes.data, out.nbytes)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"GPUTensor: {array.dtype} as {np.dtype(dtype)} needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    @property
    def _unread(self) -> bool:
        """Whether the numbers, of a result, have not been brought to the host."""
        return self._array is None and self._memory is not None

    def _where(self) -> tuple[int, int, int | None]:
        """Return DLPack's kind of device, its number, and the address there."""
        kind, device, address = C.c_int32(), C.c_int32(), S.Pointer()
        calls.call("mast3r_tensor_device", self._held()._handle, kind, device, address)
        return kind.value, device.value, address.value

    def __dlpack__(self, **kwargs: Any) -> Any:
        """Hand the values to torch, CuPy or JAX without a copy, in the memory where they are.

        The work that made them is done; a ``stream`` need not be waited for. ``dl_device=(1, 0)``
        asks for the host, ``copy=True`` for values of the consumer's own, which come through the host.
        """
        here = kwargs.get("dl_device") in (None, self.__dlpack_device__()) and not kwargs.get("copy")
        if here and self._memory is not None:
            kind, device, address = self._where()
            if kind != dlpack.HOST and address:
                return dlpack.capsule(self._memory, address, (kind, device), self._shape)
        kwargs.pop("stream", None)
        if kwargs.get("dl_device") is None:
            kwargs.pop("dl_device", None)
        return self.numpy().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        """``(2, n)`` for values on GPU n of NVIDIA's, ``(1, 0)`` for the host."""
        if self._memory is None:
            return (dlpack.HOST, 0)
        kind, device, _ = self._where()
        return (kind, device)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a tensor without dimensions")
        return self._shape[0]

    def __bool__(self) -> bool:
        if self.numel != 1:
            raise ArgumentError(f"truth of a tensor of shape {self._shape}, want one element")
        return bool(self.numpy().reshape(-1)[0])

    def __repr__(self) -> str:
        return f"GPUTensor(shape={self._shape}, dtype={self._dtype})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (GPUTensor.from_numpy, (self.numpy(),))
