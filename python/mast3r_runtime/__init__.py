# SPDX-License-Identifier: Apache-2.0
"""Two pictures in, points, confidences, descriptors and matches out.

    import mast3r_runtime as m3r

    with m3r.Engine("auto") as engine:
        engine.load()                                  # the small model in the wheel
        result = engine.infer_gpu("left.jpg", "right.jpg")
        matches = engine.match(result)
    print(result.pts3d_1.numpy().shape, len(matches))

Importing this package loads no native code; the first engine does.
"""

from __future__ import annotations

from . import errors
from ._convert import convert
from ._download import FileStatus, ModelStatus, download, status
from ._engine import Engine
from ._features import Features
from ._models import get_checkpoint_paths, get_checkpoint_urls, get_total_checkpoint_size_mb
from ._reports import check_metal, estimate_cost, profile
from ._specs import MODEL_SPECS, CheckpointFile, ModelSpec
from ._tensor import GPUTensor
from ._version import __version__
from .config import (
    PRESET_DESKTOP_PRECISION,
    PRESET_DRONE_FAST,
    PRESET_DRONE_QUALITY,
    BackendType,
    MASt3RRuntimeConfig,
    MatchingConfig,
    ModelConfig,
    ModelVariant,
    Precision,
    RuntimeConfig,
)
from .errors import Mast3rError
from .images import read_image
from .results import (
    GPUInferenceResult,
    InferenceResult,
    MatchResult,
    SymmetricResult,
    Transform,
    ViewResult,
    confidence_mask,
)
from .retrieval import Index, Pair, RetrievalResult, scene_pairs, similarity
from .runtime import (
    Runtime,
    get_available_backends,
    get_backend_info,
    get_best_backend,
    get_runtime,
)

__all__ = [
    "BackendType",
    "CheckpointFile",
    "Engine",
    "Features",
    "FileStatus",
    "GPUInferenceResult",
    "GPUTensor",
    "Index",
    "InferenceResult",
    "MASt3RRuntimeConfig",
    "MODEL_SPECS",
    "Mast3rError",
    "MatchResult",
    "MatchingConfig",
    "ModelConfig",
    "ModelSpec",
    "ModelStatus",
    "ModelVariant",
    "PRESET_DESKTOP_PRECISION",
    "PRESET_DRONE_FAST",
    "PRESET_DRONE_QUALITY",
    "Pair",
    "Precision",
    "RetrievalResult",
    "Runtime",
    "RuntimeConfig",
    "SymmetricResult",
    "Transform",
    "ViewResult",
    "__version__",
    "check_metal",
    "confidence_mask",
    "convert",
    "download",
    "errors",
    "estimate_cost",
    "get_available_backends",
    "get_backend_info",
    "get_best_backend",
    "get_checkpoint_paths",
    "get_checkpoint_urls",
    "get_runtime",
    "get_total_checkpoint_size_mb",
    "profile",
    "read_image",
    "scene_pairs",
    "similarity",
    "status",
]

import logging as _logging

_logging.getLogger("mast3r_runtime").addHandler(_logging.NullHandler())
