#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the eager tensors beside NumPy, in one run and in turns.

Prints and writes the shortest, mean and longest time of each operation, its rate, the share
of the peak measured in the same run, and the median over rounds of NumPy's time to ours.
The peaks are NumPy's: a product of 2048 x 2048 for arithmetic, a copy of 64 MiB for memory.

The turns are of the whole table, with a pause before ours: after a product OpenBLAS keeps its
threads spinning for a tenth of a second, and whatever runs meanwhile shares the cores with them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

# Products m x k x n beside the square ones: sizes that no vector divides, small and large; a
# vector with a matrix, and the other way round; few rows; and short and long sums.
SHAPES = [
    (257, 257, 257), (1000, 1000, 1000), (1023, 1023, 1023), (1536, 1536, 1536), (2048, 2048, 2048),
    (1, 1024, 1024), (1024, 1024, 1), (8, 1024, 1024), (64, 1024, 1024), (4096, 64, 4096), (64, 4096, 64),
]  # fmt: skip

# NumPy's library has gone to sleep after so many seconds.
SETTLE = 0.15


@dataclass
class Row:
    """An operation: ours, NumPy's if it has one, and the work of one run."""

    group: str
    name: str
    ours: Callable[[], object]
    numpy: Callable[[], object] | None
    work: float  # operations or bytes
    unit: str  # GFLOP/s, GB/s, or "" when only the time counts
    times: dict[str, list[float]] = field(default_factory=lambda: {"ours": [], "numpy": []})
    repeat: int = 1  # runs of one measurement, for what is too short for the clock

    def calibrate(self) -> None:
        """Compile, warm up, and let a measurement take half a millisecond or more."""
        self.ours()
        start = time.perf_counter()
        self.ours()
        self.repeat = max(1, int(5e-4 / max(time.perf_counter() - start, 1e-7)))

    def measure(self, who: str) -> None:
        run = getattr(self, who)
        if run is None:
            return
        if self.repeat > 1:
            run()  # what is short also shows where its operands were before
        start = time.perf_counter()
        for _ in range(self.repeat):
            run()
        self.times[who].append((time.perf_counter() - start) / self.repeat)

    def result(self, peaks: dict[str, float]) -> dict[str, Any]:
        out: dict[str, Any] = {"group": self.group, "name": self.name, "unit": self.unit}
        for who, times in self.times.items():
            if times:
                out[who] = {"min": min(times), "avg": statistics.fmean(times), "max": max(times)}
        if self.unit:
            out["rate"] = self.work / out["ours"]["min"] / 1e9
            out["share"] = out["rate"] / peaks[self.unit]
        if self.times["numpy"]:
            out["numpy_over_ours"] = statistics.median(
                n / o for n, o in zip(self.times["numpy"], self.times["ours"])
            )
        return out


def rows(context: Any, sizes: str) -> list[Row]:
    """The table: every operation leaves its result on the device and waits for it."""
    import numpy as np

    import mast3r_runtime.tensor as mt

    rng = np.random.default_rng(0)
    table: list[Row] = []
    small = sizes == "small"

    def array(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    def synced(run: Callable[[], object]) -> Callable[[], object]:
        def call() -> None:
            run()
            context.sync()

        return call

    for n in (64, 128, 256) if small else (64, 128, 256, 512, 1024):
        a, b = array(n, n), array(n, n)
        x, y = mt.tensor(a), mt.tensor(b)
        table.append(
            Row(
                "matmul",
                f"{n} x {n}",
                synced(lambda x=x, y=y: x @ y),
                lambda a=a, b=b: a @ b,
                2.0 * n**3,
                "GFLOP/s",
            )
        )

    def product(name: str, ours: Callable[[], object], numpy: Callable[[], object], *mkn: int) -> None:
        table.append(Row("product", name, synced(ours), numpy, 2.0 * math.prod(mkn), "GFLOP/s"))

    shapes = [(65, 65, 65), (1, 64, 64)] if small else SHAPES
    for m, k, n in shapes:
        a, b = array(m, k), array(k, n)
        x, y = mt.tensor(a), mt.tensor(b)
        product(f"{m} x {k} x {n}", lambda x=x, y=y: x @ y, lambda a=a, b=b: a @ b, m, k, n)
    n = 64 if small else 1024
    a, b = array(n, n), array(n, n)
    x, y = mt.tensor(a), mt.tensor(b)
    product(f"{n}, second transposed", lambda: mt.matmul_transposed(x, y), lambda: a @ b.T, n, n, n)
    half = [v.astype(np.float16) for v in (a, b)]
    h, g = (mt.tensor(v) for v in half)
    # NumPy has no such product of its own worth comparing with
    wide = lambda: (half[0].astype(np.float32) @ half[1].astype(np.float32)).astype(np.float16)  # noqa: E731
    product(f"{n}, float16", lambda: h @ g, wide, n, n, n)

    maps: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None, int]] = {
        "add": (mt.add, np.add, 2),
        "mul": (mt.mul, np.multiply, 2),
        "exp": (mt.exp, np.exp, 1),
        "tanh": (mt.tanh, np.tanh, 1),
        "relu": (mt.relu, lambda v: np.maximum(v, 0), 1),
        "sigmoid": (mt.sigmoid, lambda v: 1 / (1 + np.exp(-v)), 1),
        "gelu": (mt.gelu, None, 1),  # NumPy has no error function
        "sum": (mt.sum, np.sum, 1),
    }
    for name, (ours, theirs, operands) in maps.items():
        for n in (1_000, 100_000) if small else (1_000, 10_000, 100_000, 1_000_000):
            arrays = [array(n) for _ in range(operands)]
            tensors = [mt.tensor(v) for v in arrays]
            moved = 4.0 * n * (operands + (name != "sum"))
            table.append(
                Row(
                    "element by element" if name != "sum" else "reduction",
                    f"{name} {n:.0e}".replace("e+0", "e"),
                    synced(lambda f=ours, t=tensors: f(*t)),
                    (lambda f=theirs, v=arrays: f(*v)) if theirs else None,
                    moved,
                    "GB/s",
                )
            )

    for kib in (1, 64) if small else (1, 64, 1024, 4096):
        v = array(kib * 256)
        t = mt.tensor(v)
        size = f"{kib} KiB"
        table.append(Row("host to device", size, lambda v=v: mt.tensor(v), v.copy, v.nbytes, "GB/s"))
        table.append(Row("device to host", size, t.numpy, v.copy, v.nbytes, "GB/s"))

    for kib, count in ((1, 100), (1024, 10), (10240, 1)):

        def allocate(shape: tuple[int, ...] = (kib * 256,), count: int = count) -> None:
            for t in [context.zeros(shape) for _ in range(count)]:
                t.release()

        table.append(Row("zeros and release", f"{kib} KiB x {count}", allocate, None, 0, ""))

    one = mt.tensor(np.ones(1, np.float32))
    table.append(Row("overhead", "one operation of one number", lambda: mt.relu(one), None, 0, ""))

    def batches() -> None:
        for _ in range(100):
            mt.relu(one)
            context.commit()
        context.sync()

    table.append(Row("overhead", "100 batches of one operation", batches, None, 0, ""))
    return table


def fused(rounds: int, small: bool, context: Any) -> list[dict[str, Any]]:
    """Fused operations beside the same in several, in turns."""
    import numpy as np

    import mast3r_runtime.tensor as mt

    rng = np.random.default_rng(1)
    m, k, n = (64, 128, 128) if small else (512, 768, 768)
    x, w, b, r = (
        mt.tensor(rng.standard_normal(s).astype(np.float32)) for s in ((m, k), (n, k), (n,), (m, n))
    )
    gamma, beta = mt.tensor(np.ones(k, np.float32)), mt.tensor(np.zeros(k, np.float32))
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "linear + gelu": (
            lambda: mt.linear(x, w, b, activation="gelu"),
            lambda: mt.gelu(mt.add_bias(mt.linear(x, w), b)),
        ),
        "linear + add": (lambda: mt.linear_add(x, w, b, r), lambda: mt.add(mt.linear(x, w, b), r)),
        "layer_norm + linear": (
            lambda: mt.layer_norm_linear(x, gamma, beta, w, b),
            lambda: mt.linear(mt.layer_norm(x, gamma, beta), w, b),
        ),
        "add + relu": (lambda: mt.add_relu(r, r), lambda: mt.relu(mt.add(r, r))),
        "affine": (lambda: mt.affine(r, 2, 1), lambda: mt.add_scalar(mt.mul_scalar(r, 2), 1)),
    }
    out = []
    for name, calls in pairs.items():
        times: list[list[float]] = [[], []]
        for turn in range(rounds + 1):
            for i in (0, 1) if turn % 2 else (1, 0):
                start = time.perf_counter()
                calls[i]()
                context.sync()
                times[i].append(time.perf_counter() - start)
        one, several = (t[1:] for t in times)  # the first compiles
        ratio = statistics.median(s / o for o, s in zip(one, several))
        out.append({"name": name, "fused": min(one), "unfused": min(several), "unfused_over_fused": ratio})
    return out


class Peaks:
    """What the machine can do, measured in the rounds with everything else."""

    def __init__(self, small: bool) -> None:
        import numpy as np

        n, floats = (512, 1 << 20) if small else (2048, 16 << 20)
        a = np.ones((n, n), np.float32)
        source, target = np.ones(floats, np.float32), np.empty(floats, np.float32)
        self.runs: dict[str, tuple[float, Callable[[], object]]] = {
            "GFLOP/s": (2.0 * n**3, lambda: a @ a),
            "GB/s": (2.0 * source.nbytes, lambda: np.copyto(target, source)),
        }
        self.best = dict.fromkeys(self.runs, 0.0)

    def round(self) -> None:
        for unit, (work, run) in self.runs.items():
            start = time.perf_counter()
            run()
            self.best[unit] = max(self.best[unit], work / (time.perf_counter() - start) / 1e9)


def go_benchmarks() -> dict[str, float]:
    """Nanoseconds by name, where there is Go: without Python's part of each call."""
    command = ["go", "test", "./gomps/tensor", "-run", "^$", "-bench", ".", "-benchtime", "50x"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    found = re.findall(r"^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op", done.stdout, re.M)
    return {name: float(ns) for name, ns in found}


def machine(threads: int) -> dict[str, Any]:
    import numpy as np

    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), name)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    built = getattr(np.__config__, "CONFIG", {}).get("Build Dependencies", {})
    blas = built.get("blas", {}).get("name", "unknown")
    return {
        "processor": name, "system": platform.platform(), "cpus": os.cpu_count(), "threads": threads,
        "commit": commit, "numpy": np.__version__, "blas": blas, "load": os.getloadavg()[0],
    }  # fmt: skip


def report(result: dict[str, Any]) -> str:
    m, peaks = result["machine"], result["peaks"]
    lines = [
        f"{m['processor']}, {m['threads']} threads, load {m['load']:.1f}, commit {m['commit']}",
        f"tensors on {result['backend']}",
        f"NumPy {m['numpy']} ({m['blas']}); peaks {peaks['GFLOP/s']:.1f} GFLOP/s, {peaks['GB/s']:.1f} GB/s",
        "",
        f"{'':38}{'min':>10}{'avg':>10}{'max':>10}   {'rate':>14}{'peak':>7}{'numpy':>8}",
    ]
    for r in result["rows"]:
        t = "".join(f"{r['ours'][k] * 1e6:10.1f}" for k in ("min", "avg", "max"))
        rate = f"{r['rate']:6.1f} {r['unit']:7}{r['share']:7.0%}" if r["unit"] else " " * 21
        ratio = f"{r['numpy_over_ours']:7.2f}x" if "numpy_over_ours" in r else ""
        lines.append(f"{r['group'] + ', ' + r['name']:38}{t}   {rate}{ratio}")
    lines += ["", f"{'fused against unfused':38}{'fused':>10}{'unfused':>10}{'ratio':>10}"]
    for f in result["fused"]:
        one, several, ratio = f["fused"] * 1e6, f["unfused"] * 1e6, f["unfused_over_fused"]
        lines.append(f"{f['name']:38}{one:10.1f}{several:10.1f}{ratio:9.2f}x")
    if result["go"]:
        lines += ["", "from Go"] + [f"{k:38}{v / 1e3:10.1f}" for k, v in result["go"].items()]
    return "\n".join(lines + ["", "times in microseconds; numpy: NumPy's time to ours, the median of rounds"])


def plot(result: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 7), layout="constrained")
    products = [r for r in result["rows"] if r["group"] == "matmul"]
    sizes = [r["name"].split()[0] for r in products]
    flops = [2.0 * int(n) ** 3 / 1e9 for n in sizes]
    for who, style, label in (("ours", "o-", "mast3r_runtime.tensor"), ("numpy", "s--", "NumPy")):
        left.plot(sizes, [f / r[who]["min"] for f, r in zip(flops, products)], style, label=label)
    left.axhline(result["peaks"]["GFLOP/s"], color="grey", linewidth=0.8, label="measured peak")
    left.set(title="matrix products", xlabel="n x n", ylabel="GFLOP/s", ylim=(0, None))
    left.legend()
    others = [r for r in result["rows"] if "numpy_over_ours" in r and r["group"] != "matmul"]
    names = [r["name"] if "KiB" not in r["name"] else f"{r['group']}, {r['name']}" for r in others]
    right.barh(names, [r["numpy_over_ours"] for r in others], color="tab:blue")
    right.axvline(1, color="grey", linewidth=0.8)
    right.set(title="NumPy's time to ours", xscale="log")
    right.tick_params(axis="y", labelsize=6)
    right.invert_yaxis()
    m = result["machine"]
    figure.suptitle(f"{m['processor']}, {m['threads']} threads, {result['backend']}, commit {m['commit']}")
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="cpu", help="cpu, metal or auto (NumPy: the CPU)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for both sides")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--sizes", choices=["full", "small"], default="full", help="small: does it run?")
    parser.add_argument("--no-go", action="store_true", help="leave the benchmarks in Go out")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench")
    options = parser.parse_args()
    # Before NumPy is imported: its library reads them once.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)

    import mast3r_runtime.tensor as mt

    small = options.sizes == "small"
    with mt.Context(options.backend, threads=options.threads) as context:
        table = rows(context, options.sizes)
        for row in table:
            row.calibrate()
        peak = Peaks(small)
        for turn in range(options.rounds):
            for who in ("ours", "numpy") if turn % 2 == 0 else ("numpy", "ours"):
                if who == "ours":
                    time.sleep(SETTLE)
                else:
                    peak.round()  # which wakes NumPy's threads
                for row in table:
                    row.measure(who)
        time.sleep(SETTLE)
        peaks = peak.best
        stats = context.stats()
        result = {
            "machine": machine(options.threads),
            "backend": f"{stats.backend}, {stats.device}",
            "peaks": peaks,
            "rows": [row.result(peaks) for row in table],
            "fused": fused(options.rounds, small, context),
            "go": {} if options.no_go else go_benchmarks(),
        }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "ops.json").write_text(json.dumps(result, indent=1))
    text = report(result)
    (options.out / "ops.txt").write_text(text + "\n")
    print(text)
    plot(result, options.out / "ops.png")


if __name__ == "__main__":
    main()
