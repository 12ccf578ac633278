#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What has to be measured in a fresh process: peak memory, first calls, import."""

from __future__ import annotations

import json
import sys
import time

START = time.perf_counter()


def pair(contender: str, path: str, size: list[int], threads: int, count: int) -> dict[str, float]:
    """Load a model and run pairs."""
    return _measure(contender, path, size, threads, count, "pair", 2)


def sequence(
    contender: str, path: str, size: list[int], threads: int, count: int, images: int
) -> dict[str, float]:
    """Load a model and run sequences."""
    return _measure(contender, path, size, threads, count, "sequence", images)


def _measure(
    contender: str, path: str, size: list[int], threads: int, count: int, call: str, images: int
) -> dict[str, float]:
    from pathlib import Path

    import common
    import peers

    views = common.pictures(size[1], size[0], images)
    base = common.high_water_mb()
    load = time.perf_counter()
    peer = peers.make(contender, Path(path), views, threads)
    loaded = time.perf_counter()
    run = getattr(peer, call)
    first = common.timed(run)
    # The first call is among them when there is no other: some take a minute.
    times, used = [], time.process_time()
    for _ in range(count - 1):
        times.append(common.timed(run))
    processor = (time.process_time() - used) / max(1, count - 1)
    return {
        "load_s": loaded - load,
        "first_s": first,
        "best_s": min(times or [first]),
        "processor_s": processor,
        "peak_mb": common.high_water_mb(),
        "before_mb": base,
    }


def imports() -> dict[str, float]:
    """The time of importing the package, with and without NumPy's share."""
    start = time.perf_counter()
    import numpy  # noqa: F401

    numpy_s = time.perf_counter() - start
    import mast3r_runtime  # noqa: F401

    return {"numpy_s": numpy_s, "total_s": time.perf_counter() - start}


def first_result(path: str, size: list[int], threads: int) -> dict[str, float]:
    """From the start of the interpreter's work to the first result of a pair."""
    import numpy as np
    from common import high_water_mb

    from mast3r_runtime.backends._cpu import CPUEngine

    imported = time.perf_counter()
    width, height = size
    grey = np.full((height, width, 3), 128, np.uint8)
    with CPUEngine("auto", resolution=max(size), num_threads=threads) as engine:
        engine.load(path)
        loaded = time.perf_counter()
        engine.infer_gpu(grey, grey, preprocess=False)
        first = time.perf_counter()
        engine.infer_gpu(grey, grey, preprocess=False)
    return {
        "import_s": imported - START,
        "load_s": loaded - imported,
        "first_call_s": first - loaded,
        "second_call_s": time.perf_counter() - first,
        "total_s": first - START,
        "peak_mb": high_water_mb(),
    }


def scaling(names: list[str], path: str, size: list[int], threads: int, rounds: int) -> dict[str, object]:
    """Contenders with some number of threads."""
    from pathlib import Path

    import scaling as module

    return module.at(names, Path(path), size, threads, rounds)


def match(size: list[int], threads: int, rounds: int) -> dict[str, object]:
    """The exact match with some number of threads."""
    import bounds

    return bounds.match(size, threads, rounds)


def spread(size: list[int], precision: str, threads: int, rounds: int) -> dict[str, object]:
    """Independent small pairs, together and apart."""
    import bounds

    return bounds.spread(size, precision, threads, rounds)


TASKS = {f.__name__: f for f in (pair, sequence, imports, first_result, scaling, match, spread)}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
