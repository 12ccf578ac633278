# SPDX-License-Identifier: Apache-2.0
"""Contexts and tensors of ``mast3r_runtime.tensor``; the operations are in ``operations``."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from .._library import calls, header, operation
from .._library import structs as S
from .._library.device import backend_wanted
from .._library.memory import Array
from .._library.owned import Owned
from .._library.pool import Pool, PoolStats
from ..errors import ArgumentError, ClosedError, ShapeError, checked

__all__ = [
    "Commands",
    "Context",
    "Pool",
    "PoolStats",
    "Stats",
    "Tensor",
    "TensorLike",
    "apply",
    "operations",
    "tensor",
]

_CODES: dict[np.dtype[Any], int] = {
    np.dtype(np.float32): header.F32,
    np.dtype(np.float16): header.F16,
    np.dtype(np.int32): header.I32,
}
_WHOLE = 2**53  # up to here float64 has every whole number
_DTYPES: dict[int, np.dtype[Any]] = {code: dtype for dtype, code in _CODES.items()}


@dataclass(frozen=True)
class Stats:
    """What a context has done."""

    backend: str
    device: str
    fallback_reason: str
    operations: int
    cache_hits: int
    cache_misses: int
    programs: int
    commits: int
    pending: int
    live_tensors: int
    pool_buffers: int
    pool_bytes: int


@checked
class Context:
    """A device, its compiled operations and its memory.

    ``backend`` is "auto" (what MAST3R_BACKEND says, else Metal where there is one, else the CPU),
    "metal" or "cpu"; ``batch_size`` operations are collected before the device gets them;
    ``cache_size`` compiled ones are kept. The pool keeps ``pool_per_size`` free buffers of one size,
    at least ``batch_size`` (0: 100, or 50 where that is enough), and ``pool_limit_bytes`` in all
    (0: the device's own limit). In a ``with`` block it is the context of new tensors, and
    closed at the end; without any, new tensors live in one that is opened at the first need.
    """

    def __init__(
        self,
        backend: str = "auto",
        *,
        threads: int = 0,
        batch_size: int = 0,
        cache_size: int = 0,
        pool_per_size: int = 0,
        pool_limit_bytes: int = 0,
    ) -> None:
        config = S.struct(
            S.TensorConfig,
            threads=calls.int32("threads", threads),
            batch_size=calls.int32("batch_size", batch_size),
            cache_size=calls.int32("cache_size", cache_size),
            backend=calls.text("backend", backend_wanted(backend)),
            pool_per_size=calls.int32("pool_per_size", pool_per_size),
            pool_limit_bytes=calls.uint64("pool_limit_bytes", pool_limit_bytes),
        )
        handle = S.Handle()
        calls.set_log_level()
        calls.call("mast3r_tensor_open", config, handle)
        self._owned = Owned("mast3r_tensor_close", int(handle.value))
        self._tokens: list[Token[Context | None]] = []

    def tensor(self, values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Tensor:
        """Copy an array to the device.

        float32, float16 and int32 keep their type; float64 becomes float32, other integers become
        int32 if they fit.
        """
        array = _narrow(_as_array(values, dtype))
        shape = (S.Int64 * array.ndim)(*array.shape)
        data = array.ctypes.data if array.size else None
        handle = S.Handle()
        calls.call(
            "mast3r_tensor_from_host",
            self._open(), _CODES[array.dtype], array.ndim, shape, data, array.nbytes, handle,
        )  # fmt: skip
        return _tensor(self, int(handle.value))

    def zeros(self, shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> Tensor:
        """Make a tensor of zeros."""
        handle = S.Handle()
        calls.call("mast3r_tensor_from_host", self._open(), *_room_of(shape, dtype), None, 0, handle)
        return _tensor(self, int(handle.value))

    def empty(self, shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> Tensor:
        """Make a tensor of the pool's memory as it is; its values are unspecified until written."""
        handle = S.Handle()
        calls.call("mast3r_tensor_empty", self._open(), *_room_of(shape, dtype), handle)
        return _tensor(self, int(handle.value))

    def begin(self) -> Commands:
        """Start a command buffer: what is run from now on belongs to it until its commit.

        A context has one at a time; a second is an ArgumentError.
        """
        handle = S.Handle()
        calls.call("mast3r_commands_begin", self._open(), handle)
        return Commands(int(handle.value))

    def commit(self) -> None:
        """Hand the collected operations to the device, without waiting."""
        calls.call("mast3r_tensor_commit", self._open())

    def sync(self) -> None:
        """Hand the collected operations to the device and wait for it."""
        calls.call("mast3r_tensor_sync", self._open())

    def cleanup(self) -> None:
        """Sync, forget compiled operations, give pooled memory back, reset the counters."""
        calls.call("mast3r_tensor_cleanup", self._open())

    @property
    def pool(self) -> Pool:
        """The memory of the context's tensors: ``stats``, ``configure``, ``memory_pressure``."""
        return Pool("mast3r_tensor_pool", self._open)

    def stats(self) -> Stats:
        """Count what has happened."""
        out = S.struct(S.TensorStats)
        calls.call("mast3r_tensor_info", self._open(), out)
        values: dict[str, Any] = {name: getattr(out, name) for name in Stats.__dataclass_fields__}
        texts: dict[str, Any] = {k: v.decode() for k, v in values.items() if isinstance(v, bytes)}
        return Stats(**{**values, **texts})

    def close(self) -> None:
        """Free the device; closing again does nothing. Tensors can still be read."""
        self._owned._close()

    def _open(self) -> int:
        handle = self._owned._handle
        if not handle:
            raise ClosedError("the context is closed")
        return handle

    def __enter__(self) -> Context:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._tokens.pop())
        if not self._tokens:
            self.close()

    def __repr__(self) -> str:
        return f"Context({'open' if self._owned._alive else 'closed'})"


@checked
class Commands:
    """A command buffer: operations that are handed to the device together and waited for alone.

    Made by :meth:`Context.begin`. In a ``with`` block it is committed at the end.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._owned = Owned("mast3r_commands_release", handle)

    def commit(self) -> None:
        """End the buffer and hand it to the device, without waiting. A second commit is an error."""
        calls.call("mast3r_commands_commit", self._handle)

    def wait(self) -> None:
        """Wait until the device is done with these operations, and with none that came later.

        A DeviceError says what failed. Waiting again gives the same answer; before the commit it
        is an ArgumentError.
        """
        calls.call("mast3r_commands_wait", self._handle)

    def __enter__(self) -> Commands:
        return self

    def __exit__(self, *exc: object) -> None:
        self.commit()


_current: ContextVar[Context | None] = ContextVar("mast3r_runtime.tensor.context", default=None)
_default: Context | None = None
_lock = threading.Lock()


def _context() -> Context:
    """Return the context of the ``with`` block, or the one for all who opened none."""
    global _default
    context = _current.get()
    if context is not None:
        return context
    with _lock:
        if _default is None:
            _default = Context()
        return _default


@checked
def tensor(values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Tensor:
    """Copy an array to the device of the current context; see :meth:`Context.tensor`."""
    return _context().tensor(values, dtype)


def _as_array(values: npt.ArrayLike, dtype: npt.DTypeLike | None) -> Array:
    """An array of the type asked for; a number that has none there is an error."""
    array = np.asarray(values)
    if dtype is None or array.dtype.kind != "f" or np.dtype(dtype).kind == "f":
        return np.asarray(values, dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if array.size and not (low <= float(array.min()) and float(array.max()) <= high):  # NaN too
        raise ArgumentError(f"tensor of {np.dtype(dtype)}: {array.min()} to {array.max()} does not fit")
    return array.astype(dtype)


def _narrow(array: Array) -> Array:
    """Bring an array to a type that tensors have, or say why not."""
    if array.dtype.newbyteorder("=") not in _CODES:
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        elif array.dtype.kind in "iu":
            if array.size and not -(2**31) <= int(array.min()) <= int(array.max()) < 2**31:
                raise ArgumentError(
                    f"tensor of {array.dtype}: {array.min()} to {array.max()} does not fit int32"
                )
            array = array.astype(np.int32)
        else:
            raise ArgumentError(f"tensor of {array.dtype}, want floats or integers")
    # ascontiguousarray would make a vector of a single number
    return array.astype(array.dtype.newbyteorder("="), order="C", copy=False)


def _room_of(shape: Sequence[int], dtype: npt.DTypeLike) -> tuple[int, int, Any]:
    """Element type, number of dimensions and dimensions, as the library takes them."""
    code = _CODES.get(np.dtype(dtype))
    if code is None:
        raise ArgumentError(f"a tensor of {np.dtype(dtype)}, want float32, float16 or int32")
    return code, len(shape), (S.Int64 * len(shape))(*(_whole("shape", d) for d in shape))


def _whole(name: str, value: Any) -> int:
    """Check an integer, of Python or numpy, that the library's 64 bits and JSON can carry."""
    if type(value) is int and abs(value) <= _WHOLE:
        return value
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        raise ArgumentError(f"{name}={value!r}, want whole numbers") from None
    if abs(number) > _WHOLE:
        raise ArgumentError(f"{name}={number}, want at most 2^53")
    return number


@checked
class Tensor(Owned):
    """An array on the device of its context.

    ``+ - * / @ **`` and their in-place forms work with tensors, arrays and numbers, shapes
    broadcast as in numpy. ``numpy()`` copies to the host and waits for the device. The memory goes
    back with ``release()``, at the end of a ``with`` block, or when Python forgets the tensor.
    """

    __slots__ = ("__weakref__", "_context", "_kind")
    __array_ufunc__ = None  # array + tensor is ours to compute

    _release = "mast3r_tensor_release"
    _context: Context
    _kind: tuple[tuple[int, ...], np.dtype[Any]] | None  # when somebody asks

    def __init__(self) -> None:
        raise ArgumentError("tensors are made by tensor(), by contexts and by operations")

    def _described(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and element type, from the library on the first call."""
        if self._kind is None:
            desc = S.struct(S.TensorDesc)
            calls.call("mast3r_tensor_describe", self._live(), desc)
            self._kind = tuple(desc.shape[: desc.ndim]), _DTYPES[desc.dtype]
        return self._kind

    @property
    def context(self) -> Context:
        return self._context

    @property
    def shape(self) -> tuple[int, ...]:
        return self._described()[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._described()[1]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_valid(self) -> bool:
        """Whether the tensor still has its memory."""
        return self._alive

    @property
    def T(self) -> Tensor:  # noqa: N802
        """The tensor with its last two dimensions exchanged."""
        return one("transpose", self)

    def numpy(self) -> Array:
        """Copy the values to the host."""
        out = np.empty(*self._described())
        calls.call("mast3r_tensor_copy", self._live(), out.ctypes.data, out.nbytes)
        return out

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ArgumentError(f"truth of a tensor of shape {self.shape}, want one element")
        return bool(self.item())

    def __reduce__(self) -> NoReturn:
        raise TypeError("a tensor stays on its device and does not pickle; pickle tensor.numpy()")

    def item(self) -> float:
        """Return the value of a tensor that has one."""
        if self.size != 1:
            raise ShapeError(f"item() of a tensor of shape {self.shape}, want one element")
        return float(self.numpy().reshape(-1)[0])

    def release(self) -> None:
        """Give the memory back once the device is done with it; again does nothing."""
        if self._handle:
            self._described()  # what is still known afterwards
            self._close()

    def _live(self) -> int:
        if not self._handle:
            raise ClosedError("the tensor was released")
        return self._handle

    def __enter__(self) -> Tensor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("Tensor: the values are on a device and need a copy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        state = "" if self.is_valid else ", released"
        return f"Tensor(shape={self.shape}, dtype={self.dtype}{state})"

    def __add__(self, other: Operand) -> Tensor:
        return one("add", self, other)

    def __radd__(self, other: Operand) -> Tensor:
        return one("add", other, self)

    def __sub__(self, other: Operand) -> Tensor:
        return one("sub", self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return one("sub", other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return one("mul", self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return one("mul", other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        return one("div", self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return one("div", other, self)

    def __pow__(self, other: Operand) -> Tensor:
        return one("pow", self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return one("pow", other, self)

    def __matmul__(self, other: TensorLike) -> Tensor:
        return one("matmul", self, other)

    def __rmatmul__(self, other: TensorLike) -> Tensor:
        return one("matmul", other, self)

    def __neg__(self) -> Tensor:
        return one("neg", self)

    def __abs__(self) -> Tensor:
        return one("abs", self)

    def _in_place(self, name: str, other: Operand) -> Tensor:
        _run(name, (self, other))
        return self

    def __iadd__(self, other: Operand) -> Tensor:  # noqa: PYI034
        return self._in_place("add_", other)

    def __isub__(self, other: Operand) -> Tensor:  # noqa: PYI034
        return self._in_place("sub_", other)

    def __imul__(self, other: Operand) -> Tensor:  # noqa: PYI034
        return self._in_place("mul_", other)

    def __itruediv__(self, other: Operand) -> Tensor:  # noqa: PYI034
        return self._in_place("div_", other)


TensorLike: TypeAlias = Tensor | Array
Operand: TypeAlias = Tensor | Array | float


def _tensor(context: Context, handle: int) -> Tensor:
    made = Tensor.__new__(Tensor)
    made._handle = handle  # as Owned has it
    made.__del__ = partial(getattr(calls._library, made._release), handle)
    made._context = context
    made._kind = None
    return made


def one(name: str, *operands: Operand | None) -> Tensor:
    """Run an operation without attributes, whose result is one tensor."""
    return _run(name, operands)[0]


@checked
def apply(
    name: str, operands: Sequence[TensorLike | float | None], attributes: Mapping[str, object]
) -> list[Tensor]:
    """Run an operation by its name.

    Arrays are copied to the device of the tensors among them; a number takes their type.
    """
    return run(name, operands, attributes)


def run(name: str, operands: Sequence[Operand | None], attributes: Mapping[str, object]) -> list[Tensor]:
    """:func:`apply` without its guard: for operands that are a tuple for sure."""
    room = _room(attributes) if "n" in attributes or "sizes" in attributes else 4
    text = ""
    for key, value in attributes.items():
        number = type(value) is float and math.isfinite(value) or type(value) is int and abs(value) <= _WHOLE
        text += f', "{key}": {repr(value) if number else _json(key, value)}'
    return _run(name, operands, f"{{{text[2:]}}}".encode() if text else None, room)


def _run(
    name: str, operands: Sequence[Operand | None], attributes: bytes | None = None, room: int = 4
) -> list[Tensor]:
    call = operation.take(name, len(operands), room)
    handles, count, context = call.operands, 0, None
    numbers = left_out = False
    for x in operands:
        if isinstance(x, Tensor):
            handles[count] = x._handle or x._live()
            context = x._context
        elif isinstance(x, (int, float)):
            handles[count], call.numbers[count], numbers = 0, _double(x), True
        elif x is None:
            handles[count], left_out = 0, True
        else:
            break
        count += 1
    # Some are arrays, or numbers that would be taken for what is left out.
    if context is None or count < len(operands) or numbers and left_out:
        for x in operands:
            context = x._context if isinstance(x, Tensor) else context
        context = context or _context()
        given = [x if x is None or isinstance(x, Tensor) else context.tensor(x) for x in operands]
        handles[: len(operands)] = [0 if x is None else x._live() for x in given]
        count, numbers = len(operands), False
    made = call.run(context._owned._handle or context._open(), count, attributes, numbers)
    tensors = []
    for handle in made:
        tensors.append(_tensor(context, handle))
    return tensors


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        raise ArgumentError("a whole number beyond float64 beside a tensor") from None


def _room(attributes: Mapping[str, object]) -> int:
    """How many results there may be: three of a gradient, or the parts of a tensor."""
    parts, sizes = attributes.get("n"), attributes.get("sizes")
    if isinstance(parts, int) and 4 < parts < 2**20:
        return parts
    return max(4, len(sizes)) if isinstance(sizes, Sequence) else 4


def _json(name: str, value: object) -> str:
    """Write an attribute as JSON."""
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            raise ArgumentError(f"{name}={value}, want a finite number")
        return repr(float(value))
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Tensor):
        raise ArgumentError(f"{name} is a number here, not a tensor")
    # A tuple and a list answer quickly.
    if isinstance(value, (tuple, list, Sequence)) or isinstance(value, np.ndarray) and value.ndim:
        return repr([_whole(name, v) for v in value])
    return repr(_whole(name, value))


@checked
def operations() -> list[str]:
    """Return the signatures of all operations."""
    text = calls.text_of(lambda *out: calls.call("mast3r_tensor_operations", *out))
    return [str(signature) for signature in json.loads(text)]
