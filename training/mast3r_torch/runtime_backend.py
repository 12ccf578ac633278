# SPDX-License-Identifier: Apache-2.0
"""The installed mast3r_runtime as an evaluation backend: what users get."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .evaluation import Backend
from .model import View


def to_bytes(image: Tensor) -> np.ndarray:
    """An image [3,H,W] in -1..1 as [H,W,3] bytes; evaluation images are whole bytes."""
    return ((image + 1) * 127.5).round().clamp(0, 255).permute(1, 2, 0).to(torch.uint8).cpu().numpy()


def runtime_backend(model: Path, precision: str, threads: int) -> Backend:
    from mast3r_runtime.backends._cpu import CPUEngine

    engine = CPUEngine("auto", precision=precision, num_threads=threads or 2)
    engine.load(model)

    def run(img1: Tensor, img2: Tensor) -> tuple[View, View]:
        # The pictures have network size: nothing is to be resized or cut.
        result = engine.infer_gpu(to_bytes(img1), to_bytes(img2), preprocess=False).numpy()

        def view(i: int) -> View:
            names = ("pts3d", "conf", "desc", "desc_conf")
            arrays = (np.asarray(getattr(result, f"{name}_{i}"), np.float32) for name in names)
            return View(*(torch.from_numpy(a.copy()) for a in arrays))

        return view(1), view(2)

    return run
