# SPDX-License-Identifier: Apache-2.0
"""The CPU engine: the same class and functions as :mod:`._mps` on the CPU backend."""

from __future__ import annotations

from .._engine.device import Context
from .._engine.engine import Engine, available
from .._library.memory import GPUTensor
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


class CPUEngine(Engine):
    """The engine on the CPU, whatever else the machine has."""

    _backend = "cpu"


_context = Context(CPUEngine._backend)

get_name = _context.get_name
get_device_name = _context.get_device_name
get_recommended_working_set_size = _context.get_recommended_working_set_size
get_max_buffer_length = _context.get_max_buffer_length
get_context_info = _context.get_context_info
synchronize = _context.synchronize
clear_buffer_pool = _context.clear_buffer_pool


def is_available() -> bool:
    """Whether the native library can be used here."""
    return available("cpu") == ""
