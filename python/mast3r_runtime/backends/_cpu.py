# SPDX-License-Identifier: Apache-2.0
"""The CPU engine: the same class and functions as :mod:`._mps` on the CPU backend."""

from __future__ import annotations

from .._engine.older import (
    CPUEngine,
    DeviceFacts,
    GPUInferenceResult,
    GPUTensor,
    MatchResult,
    RetrievalResult,
    SymmetricResult,
)

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

_facts = DeviceFacts("cpu", needed="cpu")

get_name = _facts.get_name
get_device_name = _facts.get_device_name
get_recommended_working_set_size = _facts.get_recommended_working_set_size
get_max_buffer_length = _facts.get_max_buffer_length
get_context_info = _facts.get_context_info
synchronize = _facts.synchronize
clear_buffer_pool = _facts.clear_buffer_pool
is_available = _facts.is_available
