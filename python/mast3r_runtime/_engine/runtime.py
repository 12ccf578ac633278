# SPDX-License-Identifier: Apache-2.0
"""The runtime: an engine behind a configuration, with numpy results."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from .._checkpoints import places
from .._library.device import BACKENDS, available
from .._library.options import DescLike
from .._pictures.reading import ImageLike, read_image
from .._results.results import InferenceResult, MatchResult
from ..errors import ArgumentError, DeviceError, NotLoadedError, checked
from .config import MASt3RRuntimeConfig
from .engine import Engine
from .facts import DeviceFacts
from .timing import benchmark

__all__ = [
    "Runtime",
    "get_available_backends",
    "get_backend_info",
    "get_best_backend",
    "get_runtime",
]


@checked
class Runtime:
    """What :func:`get_runtime` returns. Pickles as its configuration and its engine."""

    def __init__(self, config: MASt3RRuntimeConfig) -> None:
        self.config = config
        model, runtime = config.model, config.runtime
        self._engine = Engine(
            str(model.variant),
            model.resolution or 0,
            str(model.precision),
            runtime.num_threads,
            str(runtime.backend),
        )

    @property
    def name(self) -> str:
        return self._engine.name()

    @property
    def is_ready(self) -> bool:
        return self._engine.is_ready()

    @property
    def engine(self) -> Engine:
        """The engine underneath, for sequences and symmetric pairs."""
        return self._engine

    def load(self, path: str | os.PathLike[str] | None = None) -> None:
        """Load the model: ``path``, else the wheel's or the cache's file of the variant."""
        config = self.config
        if path is None:
            folders = config.directories()
            path = places.find(config.model.variant, folders["cache_dir"], folders["checkpoint_dir"])
        self._engine.load(path)

    def warmup(self, num_iterations: int = 3) -> None:
        self._engine.warmup(num_iterations)

    def infer(self, img1: ImageLike, img2: ImageLike) -> InferenceResult:
        """Run a pair at the model's resolution and bring everything to numpy."""
        return self._infer(img1, img2, None)

    def infer_tracking(self, img1: ImageLike, img2: ImageLike) -> InferenceResult:
        """Run a pair at ``tracking_resolution``: less to see, sooner done."""
        return self._infer(img1, img2, self._dual("tracking_resolution"))

    def infer_keyframe(self, img1: ImageLike, img2: ImageLike) -> InferenceResult:
        """Run a pair at ``keyframe_resolution``."""
        return self._infer(img1, img2, self._dual("keyframe_resolution"))

    def _dual(self, name: str) -> int:
        if not self.config.runtime.use_dual_resolution:
            raise ArgumentError(f"{name} with use_dual_resolution=False, want True, or infer()")
        return int(getattr(self.config.runtime, name))

    def _infer(self, img1: ImageLike, img2: ImageLike, resolution: int | None) -> InferenceResult:
        if self.config.runtime.use_gpu_preprocessing:
            return self._engine.infer_gpu(img1, img2, resolution=resolution).numpy()
        from .pillow import prepare

        info = self._engine.info()
        if not info["ready"]:
            raise NotLoadedError("runtime: no model is loaded, call load() first")
        size, patch = resolution or int(info["resolution"]), int(info["patch"])
        (left, way_1), (right, way_2) = (prepare(read_image(img), size, patch) for img in (img1, img2))
        result = self._engine.infer_gpu(left, right, preprocess=False).numpy()
        return dataclasses.replace(result, transform_1=way_1, transform_2=way_2)

    def match(
        self,
        desc_1: DescLike,
        desc_2: DescLike,
        conf_1: DescLike | None = None,
        conf_2: DescLike | None = None,
        pts3d_1: DescLike | None = None,
        pts3d_2: DescLike | None = None,
    ) -> MatchResult:
        """Match two descriptor maps by the configuration's ``matching``.

        Confidence maps, where both are given, weight each match's confidence.
        """
        rule = self.config.matching
        return self._engine.match(
            desc_1,
            desc_2,
            rule.top_k,
            rule.reciprocal,
            rule.confidence_threshold,
            conf_1=conf_1,
            conf_2=conf_2,
            pts3d_1=pts3d_1,
            pts3d_2=pts3d_2,
            border=rule.border,
            weighted=conf_1 is not None and conf_2 is not None,
        )

    def infer_and_match(self, img1: ImageLike, img2: ImageLike) -> tuple[InferenceResult, MatchResult]:
        """Run a pair and match it; the matches know the way back to original pixels."""
        result = self.infer(img1, img2)
        rule = self.config.matching
        matches = self._engine.match(
            result, None, rule.top_k, rule.reciprocal, rule.confidence_threshold, border=rule.border
        )
        return result, matches

    def export(
        self,
        name: str,
        result: InferenceResult,
        matches: MatchResult,
        img1: ImageLike,
        img2: ImageLike,
    ) -> Path:
        """Write a pair's npz, point clouds and pictures to a folder in ``export_dir``.

        Parameters
        ----------
        name : str
            Name of the new folder.
        result, matches
            What :meth:`infer_and_match` returned for the two pictures.
        img1, img2
            The pictures, which give the points their colours.

        Returns
        -------
        Path
            The folder.
        """
        from .._output import export

        if name in ("", ".", "..") or Path(name).name != name:
            raise ArgumentError(f"name {name!r}, want the name of a folder")
        folder = self.config.directories()["export_dir"] / name
        export.write_result(folder, result, matches, read_image(img1), read_image(img2))
        return folder

    def benchmark(
        self, num_iterations: int = 100, warmup_iterations: int = 10, resolution: int | None = None
    ) -> dict[str, float]:
        """Time pairs of the model's 4:3 size: mean, std, min, max, percentiles in ms, and fps."""
        return benchmark(self._engine, num_iterations, warmup_iterations, resolution)

    def release(self) -> None:
        """Free the engine. Results taken before stay valid."""
        self._engine.close()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (self.config, self._engine))


def _again(config: MASt3RRuntimeConfig, engine: Engine) -> Runtime:
    """Make a pickled runtime again; its engine keeps what went wrong for the first call."""
    runtime = Runtime.__new__(Runtime)
    runtime.config, runtime._engine = config, engine
    return runtime


@checked
def get_runtime(config: MASt3RRuntimeConfig | None = None) -> Runtime:
    """Return a runtime for ``config``; call ``load()`` before the first pair."""
    return Runtime(config or MASt3RRuntimeConfig())


@checked
def get_available_backends() -> list[str]:
    """The backends that can run here, best first."""
    return [name for name in BACKENDS if name != "auto" and not available(name)]


@checked
def get_best_backend() -> str:
    """The backend that ``auto`` takes."""
    backends = get_available_backends()
    if not backends:
        raise DeviceError("no backend: the native library cannot be used here")
    return backends[0]


@checked
def get_backend_info() -> dict[str, Any]:
    """What runs here, and on what device."""
    facts = DeviceFacts("auto", needed="metal")
    return {"available": get_available_backends(), "context": facts.get_context_info()}
