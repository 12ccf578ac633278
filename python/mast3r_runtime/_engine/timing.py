# SPDX-License-Identifier: Apache-2.0
"""Timing of an engine, for the runtime's and the command line's ``benchmark``."""

from __future__ import annotations

import time

import numpy as np

from .energy import meter
from .engine import Engine

__all__ = ["benchmark", "native_size"]


def native_size(engine: Engine, resolution: int | None = None) -> tuple[int, int]:
    """Height and width of a 4:3 picture at the model's own long side, or another."""
    info = engine.info()
    patch = max(int(info["patch"]), 1)
    width = max((resolution or int(info["resolution"])) // patch * patch, patch)
    return max(width * 3 // 4 // patch * patch, patch), width


def benchmark(
    engine: Engine, iterations: int, warmup: int, resolution: int | None = None
) -> dict[str, float]:
    """Time a random pair of the model's 4:3 size, results brought to the host.

    ``joules`` of a pair is there where the system counts the processor's energy.
    """
    if iterations < 1 or warmup < 0:
        raise ValueError(f"{iterations} iterations after {warmup}, want at least 1 after 0")
    height, width = native_size(engine, resolution)
    rng = np.random.default_rng(0)
    pair = [rng.integers(0, 256, (height, width, 3), np.uint8) for _ in range(2)]
    times = np.empty(iterations)
    energy = meter()
    for i in range(-warmup, iterations):
        if i == 0:
            energy = meter()
        start = time.perf_counter()
        engine.infer_gpu(pair[0], pair[1], preprocess=False).numpy()
        if i >= 0:
            times[i] = (time.perf_counter() - start) * 1e3
    joules = energy()
    p50, p95, p99 = np.percentile(times, (50, 95, 99))
    return {
        "mean_ms": float(times.mean()),
        "std_ms": float(times.std()),
        "min_ms": float(times.min()),
        "max_ms": float(times.max()),
        "p50_ms": float(p50),
        "p95_ms": float(p95),
        "p99_ms": float(p99),
        "fps": float(1e3 / times.mean()),
        "height": float(height),
        "width": float(width),
        **({} if joules is None else {"joules": joules / iterations}),
    }
