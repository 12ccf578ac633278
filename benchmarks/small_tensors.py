#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small operations of eager tensors beside NumPy: microseconds of the calling thread, one thread each.

Ours and NumPy's run in turns, and the least of all turns counts: of processor time, so that what
else runs on the machine matters little. The first table is what a call from Python costs without
any work of the operation; the lines above it say how much of that is ctypes and the way into Go.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

from common import table

Run = Callable[[], object]


def per_call(run: Run, enough: float = 1.5e-3) -> float:
    """Microseconds of one call, of as many as take long enough for the clock."""
    run()  # what is measured also shows where its operands were before
    start = time.thread_time()
    run()
    once = time.thread_time() - start
    count = max(3, int(enough / max(once, 1e-6)))
    start = time.thread_time()
    for _ in range(count):
        run()
    return (time.thread_time() - start) / count * 1e6


def in_turns(table: dict[str, tuple[Run, Run | None]], turns: int) -> dict[str, tuple[float, float]]:
    """The least of each, ours and NumPy's (infinite where there is none)."""
    best = {name: [float("inf"), float("inf")] for name in table}
    for turn in range(turns):
        for name, pair in table.items():
            for i in (0, 1) if turn % 2 else (1, 0):
                run = pair[i]
                if run is not None:
                    best[name][i] = min(best[name][i], per_call(run))
    return {name: (ours, theirs) for name, (ours, theirs) in best.items()}


def operations(context: Any) -> dict[str, tuple[Run, Run | None]]:
    """Operations on eight numbers."""
    import numpy as np

    import mast3r_runtime.tensor as mt

    a, b = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    x, y, table = context.tensor(a), context.tensor(b), context.tensor(a.reshape(2, 4))
    return {
        "`x + y`": (lambda: x + y, lambda: a + b),
        "`x * 2.0`": (lambda: x * 2.0, lambda: a * 2.0),
        "relu": (lambda: mt.relu(x), lambda: np.maximum(a, 0)),
        "mul_scalar": (lambda: mt.mul_scalar(x, 2.0), lambda: a * 2.0),
        "softmax": (lambda: mt.softmax(table), None),
        "sum": (lambda: mt.sum(x), a.sum),
        "reshape": (lambda: mt.reshape(x, (2, 4)), lambda: a.reshape(2, 4)),
    }


def products(context: Any, sizes: list[tuple[int, int, int]]) -> dict[str, tuple[Run, Run | None]]:
    import numpy as np

    rng = np.random.default_rng(0)
    table: dict[str, tuple[Run, Run | None]] = {}
    for m, k, n in sizes:
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
        x, y = context.tensor(a), context.tensor(b)
        table[f"{m}x{k}x{n}"] = (lambda x=x, y=y: x @ y), (lambda a=a, b=b: a @ b)
    return table


def crossings(context: Any) -> dict[str, float]:
    """What no operation can do without: a call through ctypes, and one that goes on into Go."""
    from mast3r_runtime._library import calls

    library, handle = calls.library(), context._open()
    empty, inside, commit = (lambda: None), library.mast3r_in_forked_child, library.mast3r_tensor_commit
    cost = {name: min(per_call(run) for _ in range(20)) for name, run in (
        ("python", empty), ("ctypes", lambda: inside()), ("go", lambda: commit(handle)),
    )}  # fmt: skip
    return {name: cost[name] - cost["python"] for name in ("ctypes", "go")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=12)
    options = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # before NumPy is imported: its library reads them once

    import mast3r_runtime.tensor as mt

    square = [(n, n, n) for n in (64, 96, 128, 192, 256)]
    vectors = [shape for n in (256, 1024, 4096) for shape in ((1, n, n), (n, n, 1))]
    with mt.Context("cpu", threads=1) as context:
        cost = crossings(context)
        print(f"a call through ctypes {cost['ctypes']:.2f} us, one that enters Go {cost['go']:.2f} us\n")
        for title, calls in (
            ("eight numbers", operations(context)),
            ("product", products(context, [*square, *vectors, (8, 1024, 1024)])),
        ):
            rows = []
            for name, (ours, theirs) in in_turns(calls, options.turns).items():
                beside = (f"{theirs:.1f}", f"{theirs / ours:.2f}") if theirs < float("inf") else ("", "")
                rows.append((name, f"{ours:.1f}", *beside))
            print("\n".join(table((title, "ours, us", "NumPy, us", "NumPy's time / ours"), rows)), "\n")


if __name__ == "__main__":
    main()
