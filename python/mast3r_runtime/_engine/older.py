# SPDX-License-Identifier: Apache-2.0
"""The engines under the names of older scripts, and what those scripts import beside them."""

from __future__ import annotations

from .._library.memory import GPUTensor
from .._results.results import GPUInferenceResult, MatchResult, SymmetricResult
from ..errors import ArgumentError, checked
from .engine import Engine
from .facts import DeviceFacts
from .index import RetrievalResult

__all__ = [
    "CPUEngine",
    "DeviceFacts",
    "GPUInferenceResult",
    "GPUTensor",
    "MPSEngine",
    "MatchResult",
    "RetrievalResult",
    "SymmetricResult",
]


@checked
class MPSEngine(Engine):
    """:class:`mast3r_runtime.Engine` under the name of older scripts."""


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
