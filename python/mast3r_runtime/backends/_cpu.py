# SPDX-License-Identifier: Apache-2.0
"""The CPU engine: the same class and functions as :mod:`._mps` on the CPU backend."""

from __future__ import annotations

from .._arguments import checked
from .._engine.engine import Engine
from .._engine.facts import DeviceFacts
from .._library.memory import GPUTensor
from ..errors import ArgumentError
from ..results import GPUInferenceResult, MatchResult, SymmetricResult
from ..retrieval import RetrievalResult

__all__ = [
    "CPUEngine",
    "GPUInferenceResult",
    "GPUTensor",
    "MatchResult",
    "RetrievalResult",
    "SymmetricResult",
    "clear_buffer_pool",
    "get_context_info",
    "get_device_name",
    "get_max_buffer_length",
    "get_name",
    "get_recommended_working_set_size",
    "is_available",
    "synchronize",
]


@checked
class CPUEngine(Engine):
    """``Engine(..., backend="cpu")``, whatever else the machine has."""

    def __init__(
        self,
        variant: str = "mast3r_vit_large",
        resolution: int = 512,
        precision: str = "fp16",
        num_threads: int = 4,
        backend: str = "cpu",
    ) -> None:
        if backend != "cpu":
            raise ArgumentError(f"CPUEngine: backend={backend!r}, want cpu; Engine takes any")
        super().__init__(variant, resolution, precision, num_threads, backend)


_facts = DeviceFacts("cpu", needed="cpu")

get_name = _facts.get_name
get_device_name = _facts.get_device_name
get_recommended_working_set_size = _facts.get_recommended_working_set_size
get_max_buffer_length = _facts.get_max_buffer_length
get_context_info = _facts.get_context_info
synchronize = _facts.synchronize
clear_buffer_pool = _facts.clear_buffer_pool
is_available = _facts.is_available
