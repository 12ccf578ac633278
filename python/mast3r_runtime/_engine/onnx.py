# SPDX-License-Identifier: Apache-2.0
"""An exported network run by ONNX Runtime, with this package's preprocessing and results."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from .._pictures.arrays import U8
from .._results.results import InferenceResult, Transform
from ..errors import ArgumentError, DependencyError, DeviceError, ModelNotFoundError, WeightsError
from .pillow import prepare

__all__ = ["OnnxNetwork"]

_OUTPUTS = {"points": "pts3d", "conf": "conf", "desc": "desc", "desc_conf": "desc_conf"}
_PROVIDERS = {
    "auto": ("CUDAExecutionProvider", "CPUExecutionProvider"),
    "cuda": ("CUDAExecutionProvider",),
    "cpu": ("CPUExecutionProvider",),
}


class OnnxNetwork:
    """A file that ``Engine.export_onnx`` wrote; its sizes are fixed.

    Parameters
    ----------
    path : Path
        The model; its weights lie beside it.
    backend : {"auto", "cuda", "cpu"}
        Where ONNX Runtime computes; ``auto`` takes a GPU where the installed one can.
    threads : int
        Of the CPU; 0: every core.
    """

    def __init__(self, path: Path, backend: str = "auto", threads: int = 0) -> None:
        try:
            import onnxruntime as ort  # type: ignore[import-untyped, unused-ignore]
        except ImportError as error:
            missing = "ONNX Runtime is not installed: pip install 'mast3r-runtime[onnx]'"
            raise DependencyError(missing) from error
        if backend not in _PROVIDERS:
            want = ", ".join(_PROVIDERS)
            raise ArgumentError(f"backend={backend!r} with an ONNX model, want one of {want}")
        there = ort.get_available_providers()
        providers = [name for name in _PROVIDERS[backend] if name in there]
        if not providers:
            raise DeviceError(f"this ONNX Runtime has no {_PROVIDERS[backend][0]}, only {', '.join(there)}")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        if not path.is_file():
            raise ModelNotFoundError(f"{path}: no such file")
        try:
            self._session = ort.InferenceSession(str(path), options, providers=providers)
        except Exception as error:  # ONNX Runtime's own types, which are not exported
            raise WeightsError(f"{path}: {error}") from error
        self.name = f"{path.name} on ONNX Runtime {ort.__version__} ({self._session.get_providers()[0]})"
        inputs = {i.name: tuple(i.shape) for i in self._session.get_inputs()}
        names = {o.name for o in self._session.get_outputs()}
        wanted = {f"{name}{view}" for name in _OUTPUTS for view in (1, 2)}
        if set(inputs) != {"image1", "image2"} or not wanted <= names:
            raise WeightsError(f"{path}: inputs {sorted(inputs)}: not a network that `mast3r export` wrote")
        self._sizes = [inputs[f"image{view}"][1:3] for view in (1, 2)]
        self._patch = int(self._session.get_modelmeta().custom_metadata_map.get("patch_size", 16))

    def _picture(self, view: int, image: U8) -> tuple[U8, Transform]:
        height, width = self._sizes[view]
        pixels, window = prepare(image, max(height, width), self._patch)
        if pixels.shape[:2] != (height, width):
            got = "{} x {}".format(*pixels.shape[:2])
            raise ArgumentError(
                f"picture {view + 1} becomes {got} (height x width), the model takes {height} x {width}: "
                "export it for this size, or crop the picture"
            )
        return pixels, window

    def infer(self, image_1: U8, image_2: U8) -> InferenceResult:
        """Reconstruct a pair, as ``Engine.infer_gpu(...).numpy()`` does."""
        start = time.perf_counter()
        left, way_1 = self._picture(0, image_1)
        right, way_2 = self._picture(1, image_2)
        prepared = time.perf_counter()
        names = [o.name for o in self._session.get_outputs()]
        values = self._session.run(names, {"image1": left[None], "image2": right[None]})
        end = time.perf_counter()
        arrays: dict[str, Any] = {n: np.ascontiguousarray(v[0]) for n, v in zip(names, values, strict=True)}
        fields = {f"{to}_{i}": arrays[f"{name}{i}"] for name, to in _OUTPUTS.items() for i in (1, 2)}
        timing = {
            "preprocess_ms": 1e3 * (prepared - start),
            "inference_ms": 1e3 * (end - prepared),
            "total_ms": 1e3 * (end - start),
        }
        return InferenceResult(**fields, transform_1=way_1, transform_2=way_2, timing=timing)
