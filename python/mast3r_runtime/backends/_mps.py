# SPDX-License-Identifier: Apache-2.0
"""The Metal engine, and what it says about the device.

Importable everywhere; ``is_available()`` tells whether Metal can run the model here. Where
it cannot, :class:`MPSEngine` runs on the CPU backend and says so in ``name()`` and
``get_context_info()``. ``MAST3R_BACKEND=metal`` makes that an error instead, and
``MAST3R_BACKEND=cpu`` forces the CPU.
"""

from __future__ import annotations

from .._engine.older import (
    DeviceFacts,
    GPUInferenceResult,
    GPUTensor,
    MatchResult,
    MPSEngine,
    RetrievalResult,
    SymmetricResult,
)

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

_facts = DeviceFacts("auto", needed="metal")

get_name = _facts.get_name
get_device_name = _facts.get_device_name
get_recommended_working_set_size = _facts.get_recommended_working_set_size
get_max_buffer_length = _facts.get_max_buffer_length
get_context_info = _facts.get_context_info
synchronize = _facts.synchronize
clear_buffer_pool = _facts.clear_buffer_pool
is_available = _facts.is_available
