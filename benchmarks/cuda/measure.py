#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything that is promised of NVIDIA GPUs, measured by one command, beside its bound.

    make cuda-measure                                        builds, then runs what follows
    python benchmarks/cuda/measure.py --out OUT              on the machine with the GPU
    python benchmarks/cuda/measure.py --rehearse             small sizes, XLA's plugin for the CPU

Each step is a process with a time limit of its own, and its row is written when it ends, so that a
run that is cut short keeps what it has. OUT/measure.json has everything, OUT/measure.txt the table.
A step that cannot be run says why, and its bound counts as not shown.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILT = ROOT / "build" / "cuda-measure"
LARGE, SMALL = ("mast3r_vit_large", 512, 384), ("mast3r_micro", 64, 48)


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("--rehearse", action="store_true", help="on the plugin named in MAST3R_PJRT_CPU")
    p.add_argument("--only", help="names of steps, with commas")
    p.add_argument("--budget", type=float, default=560, help="seconds for everything (default: 560)")
    p.add_argument("--pairs", type=int, help="of the memory test (default: 1000; 5 in a rehearsal)")
    p.add_argument("--jax", type=Path, help="a program that prints JAX's times for the same network")
    p.add_argument("--out", type=Path, default=ROOT / "build" / "cuda-measure" / "out")
    p.add_argument("--step", help=argparse.SUPPRESS)
    p.add_argument("--arguments", default="{}", help=argparse.SUPPRESS)
    return p.parse_args()


# What is promised: a name, the bound, and where in the rows the value is.
def bounds(rows: dict[str, list[dict[str, Any]]]) -> list[tuple[str, float, float | None]]:
    def go(step: str, what: str, key: str) -> float | None:
        found = [r[key] for r in rows.get(step, []) if r.get("what") == what and key in r]
        return float(found[0]) if found else None

    def own(step: str, key: str) -> float | None:
        found = [r[key] for r in rows.get(step, []) if key in r]
        return float(found[0]) if found else None

    def total(step: str, key: str) -> float | None:
        found = [r[key] for r in rows.get(step, []) if key in r]
        return float(sum(found)) if found else None

    pair, batch = go("network", "pair", "median_ms"), go("network", "batch", "median_ms")
    torch = [
        r["median_ms"] for r in rows.get("torch", []) + rows.get("torch compiled", []) if "median_ms" in r
    ]
    matches = [r["device_ms"] for r in rows.get("matching", []) if "device_ms" in r]
    return [
        ("one pair, bf16, ms", 11, pair),
        ("one pair beside PyTorch's best, ratio", 1.0, pair / min(torch) if pair and torch else None),
        ("a pair of eight, bf16, ms", 5.5, batch / 8 if batch else None),
        ("encode two pictures, bf16, ms", 4.6, go("network", "encoder", "median_ms")),
        ("first pair of a new size, s", 45, go("cache: new", "pair", "compile_s")),
        ("the same from the cache, s", 3, go("cache: again", "pair", "compile_s")),
        ("exact match of two maps, ms", 15, max(matches) if matches else None),
        ("neighbours unlike the CPU's", 0, total("matching", "wrong")),
        ("resized bytes unlike the CPU's", 0, total("pictures", "wrong")),
        ("tests of operations and golden data failed", 0, own("golden", "failed")),
        ("demo's matches, fp32, share off the CPU's", 0.005, own("demo", "fp32")),
        ("demo's matches, tf32", 0.005, own("demo", "tf32")),
        ("demo's matches, bf16", 0.005, own("demo", "bf16")),
        ("growth of memory over the pairs, MB", 1, own("memory", "grown_mb")),
        ("two engines, two threads, torch beside: wrong", 0, own("threads", "wrong")),
        ("Ctrl-C until it is seen, s", 0.5, own("ctrl-c", "seconds")),
        ("self-check fails, exit status", 0, own("selfcheck", "status")),
        ("results left on the GPU, bytes on the host", 0, own("stays", "host_bytes")),
        ("without a GPU: seconds until the error", 1, own("no GPU", "seconds")),
    ]  # fmt: skip


def steps(args: argparse.Namespace) -> list[tuple[str, float, list[str]]]:
    """Name, seconds at most, command: what matters most comes first."""
    variant, width, height = SMALL if args.rehearse else LARGE
    go = [str(BUILT / "cuda"), "-variant", variant, "-width", str(width), "-height", str(height)]
    go += ["-n", "2" if args.rehearse else "50"]
    cache = ["-what", "pair", "-cache", str(args.out / "cache")]
    if args.rehearse:
        quick = "xla_backend_optimization_level=0,xla_llvm_disable_expensive_passes=true"
        go += ["-plugin", os.environ["MAST3R_PJRT_CPU"], "-flags", quick]
    python = [sys.executable, str(Path(__file__).resolve()), "--step"]

    def own(step: str, **arguments: Any) -> list[str]:
        extra = ["--rehearse"] if args.rehearse else []
        return [*python, step, "--arguments", json.dumps(arguments), *extra]

    peers = [sys.executable, str(HERE / "peers.py")]
    out = [
        ("network", 120.0, [*go, "-what", "encoder,pair,batch"]),
        ("cache: new", 60, [*go, *cache]),
        ("cache: again", 30, [*go, *cache]),
        ("matching", 60, [*go, "-what", "match"]),
        ("pictures", 60, [*go, "-what", "resize"]),
        ("demo", 120, own("demo")),
        ("stays", 60, own("stays")),
        ("memory", 60, own("memory", pairs=args.pairs or (5 if args.rehearse else 1000))),
        ("threads", 60, own("threads")),
        ("ctrl-c", 60, own("ctrl-c")),
        ("no GPU", 20, own("no GPU")),
        ("selfcheck", 120, own("selfcheck")),
        ("golden", 180, own("golden")),
        ("torch", 60, [*peers, "eager", "graph"]),
        ("torch compiled", 180, [*peers, "compiled"]),
    ]
    if args.jax:
        out.append(("jax", 120, [sys.executable, str(args.jax)]))
    chosen = args.only.split(",") if args.only else [name for name, *_ in out]
    unknown = set(chosen) - {name for name, *_ in out}
    if unknown:
        raise SystemExit(f"no step {', '.join(sorted(unknown))}")
    slow = 5 if args.rehearse else 1
    return [(name, slow * seconds, command) for name, seconds, command in out if name in chosen]


def run(command: list[str], seconds: float, rehearse: bool, name: str) -> list[dict[str, Any]]:
    """The lines of JSON that a step prints; why not, where there are none."""
    if rehearse and name in ("torch", "torch compiled", "matching", "no GPU", "jax"):
        return [{"skipped": "needs a GPU"}]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]),
    }
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
        cwd=ROOT,
    )
    try:
        text, errors = process.communicate(timeout=seconds)
        note = f"exit status {process.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, errors = process.communicate()
        note = f"stopped after {seconds:.0f} s"
    rows = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            row = {"text": line} if name == "jax" else None
        if isinstance(row, dict):
            rows.append(row)
    wall = {"wall_s": round(time.monotonic() - began, 1)}
    if process.returncode != 0:
        return [*rows, {"failed_step": note, "error": errors[-2000:], **wall}]
    return [*rows, wall]


def table(rows: dict[str, list[dict[str, Any]]], rehearse: bool) -> str:
    lines = ["| | bound | measured | |", "|---|---|---|---|"]
    for what, bound, value in bounds(rows):
        if value is None:
            lines.append(f"| {what} | {bound:g} | not shown | |")
            continue
        verdict = "a rehearsal" if rehearse else "ok" if value <= bound else "**missed**"
        lines.append(f"| {what} | {bound:g} | {value:.3g} | {verdict} |")
    for name, step in rows.items():
        for row in step:
            if "failed_step" in row:
                lines.append(f"\n{name}: {row['failed_step']}: {row['error'].strip().splitlines()[-1:]}")
    return "\n".join(lines) + "\n"


# The steps that are Python: each prints one line of JSON.


def engine(rehearse: bool, precision: str = "bf16", backend: str = "cuda") -> Any:
    import mast3r_runtime as m3r

    e = m3r.Engine("auto", 96 if rehearse else 512, precision, 0, backend)
    e.load()
    return e


def pair() -> tuple[Path, Path]:
    import mast3r_runtime as m3r

    folder = Path(m3r.__file__).parent / "pictures"
    return folder / "room_1.png", folder / "room_2.png"


def demo(rehearse: bool) -> dict[str, Any]:
    def count(backend: str, precision: str) -> int:
        with engine(rehearse, precision, backend) as e:
            found = e.match(e.infer_gpu(*pair()), top_k=None, confidence_threshold=0.0)
            return len(found.idx_1)

    want = count("cpu", "fp32")
    got = {p: count("cuda", p) for p in ("fp32", "tf32", "bf16")}
    return {"matches": want, **{p: abs(n - want) / want for p, n in got.items()}}


def stays(rehearse: bool) -> dict[str, Any]:
    """From pictures to matches, the descriptors never on the host."""
    with engine(rehearse) as e:
        result = e.infer_gpu(*pair())
        before = e.pool.stats().in_use_bytes
        began = time.perf_counter()
        found = e.match(result)
        seconds = time.perf_counter() - began
        return {
            "host_bytes": before, "after_match_bytes": e.pool.stats().in_use_bytes,
            "descriptor_bytes": result.desc_1.nbytes + result.desc_2.nbytes,
            "match_s": seconds, "matches": len(found.idx_1),
        }  # fmt: skip


def memory(rehearse: bool, pairs: int) -> dict[str, Any]:
    import mast3r_runtime as m3r

    pictures = [m3r.read_image(p) for p in pair()]
    with engine(rehearse) as e:
        e.infer_gpu(*pictures)
        before, began = e.info()["pool_bytes"], time.perf_counter()
        for _ in range(pairs):
            e.infer_gpu(*pictures)
        seconds = time.perf_counter() - began
        return {"pairs": pairs, "seconds": seconds, "grown_mb": (e.info()["pool_bytes"] - before) / 2**20}


def threads(rehearse: bool) -> dict[str, Any]:
    import threading

    import numpy as np

    try:
        import torch

        torch.zeros(1, device="cuda" if torch.cuda.is_available() else "cpu")
        beside = torch.__version__
    except ImportError:
        beside = "not installed"
    with engine(rehearse) as one, engine(rehearse) as two:
        want = one.infer_gpu(*pair()).pts3d_1.numpy()
        wrong = []

        def work(e: Any) -> None:
            for _ in range(2 if rehearse else 20):
                got = e.infer_gpu(*pair()).pts3d_1.numpy()
                wrong.append(not np.allclose(got, want, rtol=1e-2, atol=1e-3))

        both = [threading.Thread(target=work, args=(e,)) for e in (one, two)]
        for t in both:
            t.start()
        for t in both:
            t.join()
    return {"wrong": sum(wrong), "pairs": len(wrong), "torch": beside}


def interrupted(rehearse: bool) -> dict[str, Any]:
    import threading

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    with engine(rehearse) as e:
        e.infer_gpu(*pair())
        slowest = 0.0
        for k in range(3 if rehearse else 10):
            sent = []

            def strike(sent: list[float] = sent) -> None:
                sent.append(time.perf_counter())
                os.kill(os.getpid(), signal.SIGINT)

            timer = threading.Timer(0.1 + 0.013 * k, strike)
            timer.start()
            try:
                while True:
                    e.infer_gpu(*pair())
            except KeyboardInterrupt:
                slowest = max(slowest, time.perf_counter() - sent[0])
        again = e.infer_gpu(*pair()).pts3d_1.numpy()
        return {"seconds": slowest, "goes_on": bool(again.size)}


def without(rehearse: bool) -> dict[str, Any]:
    """A process that sees no GPU."""
    program = (
        "import time, mast3r_runtime as m3r\nbegan = time.perf_counter()\n"
        "try:\n    m3r.Engine(backend='cuda')\n"
        "except m3r.Mast3rError as e:\n    print(time.perf_counter() - began, e)"
    )
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    seconds, _, text = done.stdout.partition(" ")
    return {"seconds": float(seconds), "message": text.strip(), "stderr": done.stderr[-500:]}


def selfcheck(rehearse: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "mast3r_runtime", "selfcheck", "--backend", "cuda", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {"status": done.returncode, "output": done.stdout[-4000:], "stderr": done.stderr[-1000:]}


def golden(rehearse: bool) -> dict[str, Any]:
    """Operations and networks against golden data; the full size on a GPU."""
    env = os.environ if rehearse else {**os.environ, "MAST3R_CUDA": "1"}
    which = "TestSelfCheck|TestModel" if rehearse else "."
    command = [str(BUILT / "cudatest.test"), "-test.v", "-test.run", which]
    done = subprocess.run(
        command, env=env, cwd=ROOT / "tests" / "go" / "cudatest", capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    worst = [line.strip() for line in lines if "--- FAIL" in line]
    passed = sum("--- PASS" in line for line in lines)
    failed = len(worst) + (done.returncode != 0 and not worst)
    return {"failed": failed, "passed": passed, "failures": worst, "log": done.stdout[-12000:]}


STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    "demo": demo, "stays": stays, "memory": memory, "threads": threads, "ctrl-c": interrupted,
    "no GPU": without, "selfcheck": selfcheck, "golden": golden,
}  # fmt: skip


def main() -> int:
    args = parse()
    if args.step:
        print(json.dumps(STEPS[args.step](args.rehearse, **json.loads(args.arguments))))
        return 0
    if args.rehearse and not os.environ.get("MAST3R_PJRT_CPU"):
        raise SystemExit("--rehearse needs MAST3R_PJRT_CPU, XLA's plugin for the CPU")
    args.out.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[dict[str, Any]]] = {}
    end = time.monotonic() + args.budget
    for name, seconds, command in steps(args):
        left = end - time.monotonic()
        if left < 5:
            rows[name] = [{"skipped": "no time was left"}]
        else:
            rows[name] = run(command, min(seconds, left), args.rehearse, name)
        print(f"{name}: {json.dumps(rows[name][-1])[:300]}", file=sys.stderr, flush=True)
        (args.out / "measure.json").write_text(json.dumps(rows, indent=1) + "\n")
        (args.out / "measure.txt").write_text(table(rows, args.rehearse))
    print(table(rows, args.rehearse))
    return 0


if __name__ == "__main__":
    sys.exit(main())
