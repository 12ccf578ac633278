# SPDX-License-Identifier: Apache-2.0
"""Small work: the bundled model's pair, the cost of a call, import, first results."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import peers
from common import TINY, Contender, Peak, in_child, p95, pair_gflop, pictures, take_turns
from stages import rows


def tiny(names: list[str], threads: int, rounds: int, peak: Peak) -> dict[str, Any]:
    """The bundled model's pair at 256x192."""
    images = pictures(192, 256)
    all_of = [peers.make(n, TINY / "unified.safetensors", images, threads) for n in names]
    turn = [Contender(p.name, p.pair) for p in all_of]
    peaks = take_turns("small pair", turn, rounds, peak, pause=0.05)
    for p in all_of:
        p.close()
    return {"width": 256, "height": 192, "rows": rows(turn, pair_gflop("mast3r_tiny", 192, 256), peaks)}


def calls(repeats: int) -> dict[str, dict[str, float]]:
    """Microseconds of calls that have next to nothing to compute: Python to Go and back."""
    import numpy as np

    from mast3r_runtime._commands import synthetic
    from mast3r_runtime.backends._cpu import CPUEngine

    one, grey = np.ones((1, 1, 24), np.float32), np.full((32, 32, 3), 128, np.uint8)
    few = dict(enc_dim=32, enc_depth=1, enc_heads=1, dec_dim=32, dec_depth=4, dec_heads=1, mlp_ratio=1)
    with (
        tempfile.TemporaryDirectory() as folder,
        CPUEngine("auto", num_threads=1) as nothing,
        CPUEngine("auto", num_threads=1) as bundled,
    ):
        synthetic.write(Path(folder) / "unified.safetensors", replace(synthetic.MICRO, **few))
        nothing.load(folder)
        bundled.load(TINY)

        def seconds(engine: CPUEngine) -> float:
            return engine.infer_gpu(grey, grey, preprocess=False).timing["total_ms"] / 1e3

        taken = min(repeats, 300)
        results = [nothing.infer_gpu(grey, grey, preprocess=False) for _ in range(taken + 20)]
        return {
            "a question (is_retrieval_ready)": _micros(nothing.is_retrieval_ready, repeats),
            "a question about everything (is_ready)": _micros(nothing.is_ready, repeats),
            "a job: submit, wait, take (match of 1x1)": _micros(
                lambda: nothing.match(one, one, confidence_threshold=-1), repeats
            ),
            "around an inference: the call less the engine's own time": _micros(
                lambda: seconds(nothing), repeats, less_result=True
            ),
            "the same, of a network that fills the caches (the bundled one)": _micros(
                lambda: seconds(bundled), repeats // 10, less_result=True
            ),
            "a result to NumPy (8 arrays)": _micros(lambda: results.pop().numpy(), taken),
        }


def _micros(f: Callable[[], Any], repeats: int, less_result: bool = False) -> dict[str, float]:
    times = []
    for _ in range(20):
        f()
    for _ in range(repeats):
        start = time.perf_counter()
        own = f()
        took = time.perf_counter() - start
        times.append(1e6 * (took - own if less_result else took))
    return {"median_us": statistics.median(times), "p95_us": p95(times), "min_us": min(times)}


def starts(repeats: int, threads: int, path: Path, size: tuple[int, int]) -> dict[str, Any]:
    """Import and first result in fresh processes: no cache of packed weights, filling one, from it."""
    imports = [in_child("imports") for _ in range(repeats)]
    out: dict[str, Any] = {
        "import": _medians(imports),
        "model": path.parent.name if path.name.startswith("unified") else path.stem,
        "size": size,
    }
    kinds: dict[str, list[dict[str, float]]] = {"no cache": [], "cold cache": [], "warm cache": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            cache = {"MAST3R_PACK_CACHE": folder}
            for kind, env in (("no cache", {}), ("cold cache", cache), ("warm cache", cache)):
                kinds[kind].append(in_child("first_result", env, path=path, size=size, threads=threads))
    out["first_result"] = {kind: _medians(list_) for kind, list_ in kinds.items()}
    return out


def _medians(list_: list[dict[str, float]]) -> dict[str, float]:
    return {k: statistics.median(x[k] for x in list_) for k in list_[0]}
