# SPDX-License-Identifier: Apache-2.0
"""The results of the calls: frozen dataclasses of tensors and arrays.

Every result owns its memory. A later call never changes an earlier result, and a result
outlives ``close()``. All of them pickle and deep-copy.
"""

from __future__ import annotations

from ._results.results import (
    GPUInferenceResult,
    InferenceResult,
    MatchResult,
    Overlap,
    SymmetricResult,
    Transform,
    ViewResult,
    confidence_mask,
)

__all__ = [
    "GPUInferenceResult",
    "InferenceResult",
    "MatchResult",
    "Overlap",
    "SymmetricResult",
    "Transform",
    "ViewResult",
    "confidence_mask",
]
