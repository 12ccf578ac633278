# SPDX-License-Identifier: Apache-2.0
"""Reciprocal matching: this project beside brute force in PyTorch and FAISS.

The peers would need minutes for a whole pair of maps. They get a slice, whose time is
scaled up by the number of products, which is what it consists of; the table says so.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from common import Contender, take_turns

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


def measure(size: tuple[int, int], threads: int, rounds: int) -> dict[str, Any]:
    from mast3r_runtime.backends._cpu import CPUEngine

    width, height = size
    pixels = width * height
    a, b = maps(height, width)
    result: dict[str, Any] = {
        "width": width,
        "height": height,
        "dim": DIM,
        "gflop_full": 2 * DIM * pixels**2 / 1e9,
    }
    with CPUEngine(num_threads=threads) as engine:

        def ours(step: int) -> Callable[[], None]:
            def run() -> None:
                engine.match(a, b, top_k=None, subsample=step, confidence_threshold=-1)

            return run

        full, scale, notes = [Contender("mast3r-runtime, every pixel", ours(1))], [1.0], ["measured whole"]
        fast = [Contender("mast3r-runtime, every 8th pixel each way", ours(8))]
        if importlib.util.find_spec("torch"):
            import torch

            torch.set_num_threads(threads)
            block = min(BLOCK, pixels)
            full.append(Contender("PyTorch, brute force", torch_block(a, b)))
            scale.append((pixels / block) ** 2)
            notes.append(f"one block of {block} x {block}, times {scale[-1]:.0f}")
            fast.append(Contender("PyTorch, the same walk", torch_fast(a, b, 8)))
        if importlib.util.find_spec("faiss"):
            queries = min(1024, pixels)
            full.append(Contender("FAISS IndexFlatIP", faiss_slice(a, b, queries, threads)))
            scale.append(2 * pixels / queries)
            notes.append(f"{queries} queries of one direction, times {scale[-1]:.0f}")
        take_turns("matching, every pixel", full, rounds)
        take_turns("matching, sub-sampled", fast, 2 * rounds)
    for c, s in zip(full, scale, strict=True):
        c.times["total"] = [t * s for t in c.times["total"]]
        c.first *= s
    result["full"] = [c.row(full[0]) | {"measured": n} for c, n in zip(full, notes, strict=True)]
    result["fast"] = [c.row(fast[0]) | {"measured": "measured whole"} for c in fast]
    return result
