# SPDX-License-Identifier: Apache-2.0
"""Reciprocal matching: this project beside brute force in PyTorch and FAISS.

The peers would need minutes for a whole pair of maps. They get a slice, whose time is
scaled up by the number of products, which is what it consists of; the table says so.
How long ours takes depends on the descriptors, hence three kinds of them: the bundled
model's of its two pictures, made-up smooth maps, and noise.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from common import TINY, Contender, take_turns

DIM = 24
BLOCK = 8192  # of the reference algorithm


def maps(height: int, width: int, cell: int = 4, noise: float = 0.1) -> tuple[Any, Any]:
    """Two maps of unit descriptors that vary smoothly, the second shifted by three pixels."""
    import numpy as np

    r = np.random.default_rng(7)
    shift = 3
    grid = r.normal(size=(height // cell + 3, (width + shift) // cell + 3, DIM)).astype(np.float32)
    y, x = np.mgrid[0:height, 0 : width + shift].astype(np.float32) / cell
    i, j = y.astype(int), x.astype(int)
    u, v = (x - j)[..., None], (y - i)[..., None]
    smooth = (1 - v) * ((1 - u) * grid[i, j] + u * grid[i, j + 1]) + v * (
        (1 - u) * grid[i + 1, j] + u * grid[i + 1, j + 1]
    )

    def view(s: int) -> Any:
        d = smooth[:, s : s + width] + noise * r.normal(size=(height, width, DIM)).astype(np.float32)
        return np.ascontiguousarray(d / np.linalg.norm(d, axis=-1, keepdims=True), dtype=np.float32)

    return view(0), view(shift)


def torch_block(a: Any, b: Any) -> Callable[[], None]:
    """One block of brute force: products, and the best of each row and of each column."""
    import torch

    x, y = (torch.from_numpy(m.reshape(-1, DIM)[:BLOCK]) for m in (a, b))

    def run() -> None:
        with torch.inference_mode():
            d = x @ y.T
            d.max(1), d.max(0)

    return run


def torch_fast(a: Any, b: Any, step: int) -> Callable[[], None]:
    """The walk from a grid of seeds: nearest there, nearest back, until it does not move."""
    import torch

    h, w = a.shape[:2]
    x, y = (torch.from_numpy(m.reshape(-1, DIM)) for m in (a, b))
    grid = torch.arange(h * w).reshape(h, w)[step // 2 :: step, step // 2 :: step].reshape(-1)

    def nearest(q: Any, points: Any) -> Any:
        best = torch.full((len(q),), -2.0)
        at = torch.zeros(len(q), dtype=torch.int64)
        for start in range(0, len(points), BLOCK):
            value, index = (q @ points[start : start + BLOCK].T).max(1)
            better = value > best
            best[better], at[better] = value[better], index[better] + start
        return at

    def run() -> None:
        with torch.inference_mode():
            seeds = grid
            for _ in range(10):
                there = nearest(x[seeds], y)
                back = nearest(y[there], x)
                seeds = back[back != seeds]
                if not len(seeds):
                    break

    return run


def faiss_slice(a: Any, b: Any, queries: int, threads: int) -> Callable[[], None]:
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatIP(DIM)
    index.add(b.reshape(-1, DIM))
    q = a.reshape(-1, DIM)[:queries]

    def run() -> None:
        index.search(q, 1)

    return run


def learned(engine: Any, longest: int) -> tuple[Any, Any]:
    """The bundled model's descriptors of the bundled pair of pictures."""
    import numpy as np

    engine.load(TINY / "unified.safetensors")
    views = (TINY.parents[1] / "pictures" / f"room_{i}.png" for i in (1, 2))
    r = engine.infer_gpu(*views, resolution=longest, only=("desc",))
    return np.array(r.desc_1, np.float32), np.array(r.desc_2, np.float32)


def noise(height: int, width: int) -> tuple[Any, Any]:
    """Two maps of unit descriptors that have nothing to do with each other."""
    import numpy as np

    d = np.random.default_rng(8).normal(size=(2, height, width, DIM)).astype(np.float32)
    a, b = d / np.linalg.norm(d, axis=-1, keepdims=True)
    return a, b


def measure(size: tuple[int, int], threads: int, rounds: int) -> dict[str, Any]:
    from mast3r_runtime.backends._cpu import CPUEngine

    width, height = size
    pixels = width * height
    result: dict[str, Any] = {
        "width": width,
        "height": height,
        "dim": DIM,
        "gflop_full": 2 * DIM * pixels**2 / 1e9,
    }
    with CPUEngine("auto", resolution=max(size), num_threads=threads) as engine:
        kinds = {
            "pictures": learned(engine, max(size)),
            "smooth": maps(height, width),
            "noise": noise(height, width),
        }

        def ours(kind: str, step: int) -> Contender:
            def run() -> None:
                engine.match(*kinds[kind], top_k=None, subsample=step, confidence_threshold=-1)

            what = "every pixel" if step == 1 else f"every {step}th pixel each way"
            return Contender(f"mast3r-runtime, {what}, {kind}", run)

        full = [(ours(kind, 1), 1.0, "measured whole") for kind in kinds]
        fast = [[ours(kind, 8)] for kind in kinds]
        a, b = kinds["pictures"]
        if importlib.util.find_spec("torch"):
            import torch

            torch.set_num_threads(threads)
            block = min(BLOCK, pixels)
            scale = (pixels / block) ** 2
            note = f"one block of {block} x {block}, times {scale:.0f}"
            full.append((Contender("PyTorch, brute force", torch_block(a, b)), scale, note))
            for turn, (kind, pair) in zip(fast, kinds.items(), strict=True):
                turn.append(Contender(f"PyTorch, the same walk, {kind}", torch_fast(*pair, 8)))
        if importlib.util.find_spec("faiss"):
            queries = min(1024, pixels)
            scale = 2 * pixels / queries
            note = f"{queries} queries of one direction, times {scale:.0f}"
            full.append((Contender("FAISS IndexFlatIP", faiss_slice(a, b, queries, threads)), scale, note))
        take_turns("matching, every pixel", [c for c, _, _ in full], rounds)
        take_turns("matching, sub-sampled", [c for turn in fast for c in turn], rounds)
    for c, scale, _ in full:
        c.times["total"] = [t * scale for t in c.times["total"]]
        c.first *= scale
    result["full"] = [c.row(full[0][0]) | {"measured": note} for c, _, note in full]
    result["fast"] = [c.row(turn[0]) | {"measured": "measured whole"} for turn in fast for c in turn]
    return result
