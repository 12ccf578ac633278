# SPDX-License-Identifier: Apache-2.0
"""Small graphs on a CPU and a GPU: each operation goes where it runs sooner."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._library import calls, header
from .._library import structs as S
from .._library.memory import Array, GPUTensor
from .._library.owned import Owned
from ..errors import ArgumentError, ClosedError, checked

__all__ = ["Executor", "ExecutorStats", "Graph"]


@checked
class Graph:
    """Named operations; an operand that names no operation is an input.

    ``MatMul`` a, b; ``Add`` a, b; ``Gelu`` x (by erf); ``GeluTanh`` x; ``Softmax`` x, along the last
    dimension; ``LayerNorm`` x, gamma, beta; ``Attention`` q, k, v [B,H,N,d];
    ``FusedLinearAdd`` x, w, r; ``FusedLinearGelu`` x, w; ``FusedLinearAddGelu`` x, w, r.
    """

    def __init__(self) -> None:
        self._nodes: list[dict[str, object]] = []
        self._outputs: list[str] = []

    def add(self, name: str, op: str, *operands: str, eps: float = 0.0, scale: float = 0.0) -> Graph:
        """Add an operation, ``eps`` for LayerNorm and ``scale`` for Attention; returns the graph."""
        for what, value in (("eps", eps), ("scale", scale)):
            if not np.isfinite(value):
                raise ArgumentError(f"{what}={value}, want a finite number")
        self._nodes.append(
            {"name": name, "op": op, "operands": list(operands), "eps": float(eps), "scale": float(scale)}
        )
        return self

    def output(self, *names: str) -> Graph:
        """Name the operations whose values are wanted; returns the graph."""
        self._outputs.extend(names)
        return self

    def _json(self, optimize: bool) -> bytes:
        form = {"nodes": self._nodes, "outputs": self._outputs, "optimize": bool(optimize)}
        return json.dumps(form).encode()


@dataclass(frozen=True)
class ExecutorStats:
    """Where operations ran since the executor was made, and why not on the GPU."""

    cpu: int
    gpu: int
    fallbacks: Mapping[str, int]
    thresholds: Mapping[str, int]


@checked
class Executor:
    """Runs graphs on a CPU and, where there is one, a GPU of a Mac.

    An operation whose operands have more elements than its threshold goes to the GPU; one without
    a threshold stays on the CPU. ``threads`` of the CPU, 0 for all. Without a GPU everything
    runs on the CPU, and ``stats().fallbacks`` says why.
    """

    def __init__(self, threads: int = 0) -> None:
        handle = S.Handle()
        calls.set_log_level()
        calls.call("mast3r_executor_open", calls.int32("threads", threads), handle)
        self._handle = int(handle.value)
        self._owned = Owned("mast3r_executor_close", self._handle)

    def run(
        self, graph: Graph, inputs: Mapping[str, npt.ArrayLike], *, optimize: bool = True
    ) -> dict[str, Array]:
        """Run the graph and return its outputs by name, float32.

        ``optimize`` joins products with an addition or a GELU that only they feed. A missing input,
        an unknown operation, a cycle are an ArgumentError, sizes that do not fit a ShapeError; both
        name the operation.
        """
        # asarray with an order keeps a number without dimensions, ascontiguousarray does not
        arrays = {name: np.asarray(value, np.float32, order="C") for name, value in inputs.items()}
        structs = (S.Input * len(arrays))(*(_input(name, array) for name, array in arrays.items()))
        names = list(dict.fromkeys(graph._outputs))
        results = (S.Handle * len(names))()
        produced = S.Size()
        calls.call(
            "mast3r_executor_run",
            self._open(), graph._json(optimize), structs, len(structs), results, len(results), produced,
        )  # fmt: skip
        return {name: GPUTensor(int(handle)).numpy() for name, handle in zip(names, results, strict=True)}

    def stats(self) -> ExecutorStats:
        """Count where operations ran."""
        text = calls.text_of(lambda *out: calls.call("mast3r_executor_info", self._open(), *out))
        return ExecutorStats(**json.loads(text))

    def set_thresholds(self, thresholds: Mapping[str, int]) -> None:
        """Replace the thresholds, in elements of the operands; what is left out stays on the CPU."""
        calls.call("mast3r_executor_configure", self._open(), json.dumps(dict(thresholds)).encode())

    def calibrate(self) -> None:
        """Measure products on both devices and set their thresholds; without a GPU nothing changes."""
        calls.call("mast3r_executor_calibrate", self._open())

    def close(self) -> None:
        """Free the devices; closing again does nothing."""
        self._owned._close()

    def _open(self) -> int:
        if not self._owned._alive:
            raise ClosedError("the executor is closed")
        return self._handle

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _input(name: str, array: Array) -> S.Input:
    """An array as the library takes it; the caller keeps it alive."""
    if array.ndim > header.MAX_DIMS:
        raise ArgumentError(f"input {name!r} has {array.ndim} dimensions, want at most {header.MAX_DIMS}")
    out = S.struct(S.Input, ndim=array.ndim, name=calls.text("name", name), data=array.ctypes.data)
    out.shape[: array.ndim] = array.shape
    return out
