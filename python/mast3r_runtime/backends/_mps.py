# SPDX-License-Identifier: Apache-2.0
"""The Metal engine, and what it says about the device.

Importable everywhere; ``is_available()`` tells whether Metal can run the model here. Where
it cannot, :class:`MPSEngine` runs on the CPU backend and says so in ``name()`` and
``get_context_info()``. ``MAST3R_BACKEND=metal`` makes that an error instead, and
``MAST3R_BACKEND=cpu`` forces the CPU.
"""

from __future__ import annotations

from .._engine.device import Context
from .._engine.engine import Engine, available
from .._library.memory import GPUTensor
from ..results import GPUInferenceResult, MatchResult, SymmetricResult
from ..retrieval import RetrievalResult

__all__ = [
    "GPUInferenceResult",
    "GPUTensor",
    "MPSEngine",
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


class MPSEngine(Engine):
    """The engine on Metal, or on the CPU where there is no Metal."""

    _backend = "auto"


_context = Context(MPSEngine._backend)

get_name = _context.get_name
get_device_name = _context.get_device_name
get_recommended_working_set_size = _context.get_recommended_working_set_size
get_max_buffer_length = _context.get_max_buffer_length
get_context_info = _context.get_context_info
synchronize = _context.synchronize
clear_buffer_pool = _context.clear_buffer_pool


def is_available() -> bool:
    """True only where Metal can run the model: macOS 15 or later on an Apple GPU."""
    return available("metal") == ""
