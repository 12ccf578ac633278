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
from ._checkpoints.convert import convert
from ._checkpoints.download import FileStatus, ModelStatus, download, status
from ._checkpoints.places import get_checkpoint_paths, get_checkpoint_urls, get_total_checkpoint_size_mb
from ._checkpoints.specs import MODEL_SPECS, CheckpointFile, ModelSpec
from ._engine.config import (
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
from ._engine.engine import Engine
from ._engine.features import Features
from ._engine.index import Index, Pair, RetrievalResult, scene_pairs, similarity
from ._engine.reports import check_metal, estimate_cost, estimate_memory, profile
from ._engine.runtime import (
    Runtime,
    get_available_backends,
    get_backend_info,
    get_best_backend,
    get_runtime,
)
from ._engine.views import Taken as _Taken
from ._engine.views import assemblers as _assemblers
from ._library.limits import CancelToken, limit
from ._library.memory import GPUTensor
from ._library.version import __version__
from ._results.results import (
    GPUInferenceResult,
    InferenceResult,
    MatchResult,
    SymmetricResult,
    Transform,
    ViewResult,
    confidence_mask,
)
from .errors import Mast3rError
from .images import read_image

__all__ = [
    "BackendType",
    "CancelToken",
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
    "estimate_memory",
    "get_available_backends",
    "get_backend_info",
    "get_best_backend",
    "get_checkpoint_paths",
    "get_checkpoint_urls",
    "get_runtime",
    "get_total_checkpoint_size_mb",
    "limit",
    "profile",
    "read_image",
    "scene_pairs",
    "similarity",
    "status",
]

import importlib as _importlib
import logging as _logging
import sys as _sys
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from ._scene.scene import Scene as _Scene


def _scene_of(taken: _Taken) -> _Scene:
    from ._scene.views import scene_of

    return scene_of(taken)


_assemblers.append(_scene_of)
_logging.getLogger("mast3r_runtime").addHandler(_logging.NullHandler())


class _Moved(_ModuleType):
    """The former name of a module: pickles written by 0.1.0 look their classes up there."""

    def __init__(self, name: str, now: str) -> None:
        super().__init__(f"{__name__}.{name}", f"Moved to {now}.")
        self._now = f"{__name__}.{now}"

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_importlib.import_module(self._now), name)


for _name, _now in {
    "_download": "_checkpoints.download",
    "_features": "_engine.features",
    "_specs": "_checkpoints.specs",
    "_tensor": "_library.memory",
}.items():
    _sys.modules[f"{__name__}.{_name}"] = _Moved(_name, _now)
