# SPDX-License-Identifier: Apache-2.0
"""This project at the sizes that people use: a pair, a pair both ways, a sequence of eight.

All sizes and kinds take turns in one run. Energy is that of the processor, where the system counts it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import Contender, Peak, encoder_gflop, pair_gflop, pictures, take_turns

from mast3r_runtime._engine.energy import meter
from mast3r_runtime.backends._cpu import CPUEngine

SIZES = ((224, 224), (512, 288), (512, 384), (512, 512))  # width, height
SEQUENCE = 8


def measure(
    path: Path, variant: str, threads: int, rounds: int, peak: Peak, sizes: Any = SIZES, pause: float = 0.3
) -> list[dict[str, Any]]:
    """A row for each size and kind: times, GFLOP/s, share of the peak of the same rounds, joules."""
    turn, about = [], []
    joules: dict[str, list[float]] = {}
    with CPUEngine("auto", resolution=max(w for w, _ in sizes), num_threads=threads) as engine:
        engine.load(path)
        for width, height in sizes:
            images = pictures(height, width, SEQUENCE)
            for kind, work, run in kinds(engine, images, variant):
                name = f"{width} x {height}, {kind}"
                turn.append(Contender(name, metered(run, joules.setdefault(name, []))))
                about.append({"width": width, "height": height, "kind": kind, "gflop": work})
        peaks = take_turns("sizes", turn, rounds, peak, pause)
    rows = []
    for c, row in zip(turn, about, strict=True):
        row |= c.row(turn[0])
        row["gflops"] = row["gflop"] / row["total"]["median_s"]
        shares = [row["gflop"] / t / p["f32"] for t, p in zip(c.times["total"], peaks, strict=True)]
        row["share_of_peak"] = statistics.median(shares)
        row["joules"] = statistics.median(joules[c.name]) if joules[c.name] else None
        rows.append(row)
    return rows


def kinds(
    engine: CPUEngine, images: list[Any], variant: str
) -> list[tuple[str, float, Callable[[], object]]]:
    """Name, work in GFLOP, and what is timed."""
    height, width = images[0].shape[:2]
    encoder, pair = encoder_gflop(variant, height, width), pair_gflop(variant, height, width)
    rest = pair - 2 * encoder
    return [
        ("pair", pair, lambda: engine.infer_gpu(*images[:2], preprocess=False).numpy()),
        (
            "pair both ways",
            2 * encoder + 2 * rest,
            lambda: engine.infer_symmetric(*images[:2], preprocess=False),
        ),
        (
            f"sequence of {SEQUENCE}",
            SEQUENCE * encoder + (SEQUENCE - 1) * rest,
            lambda: engine.infer_batch_pipelined(images, preprocess=False),
        ),
    ]


def metered(run: Callable[[], object], joules: list[float]) -> Callable[[], None]:
    """The same work, with its energy written down where it is known."""

    def measured() -> None:
        energy = meter()
        run()
        used = energy()
        if used is not None:
            joules.append(used)

    return measured
