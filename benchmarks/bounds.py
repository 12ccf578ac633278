#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One machine with 1 to 16 threads against the bounds that this project sets itself.

Each part is a process of its own, bound to as many processors as it has threads: a pair of the
large model and one of the model in the wheel beside PyTorch and ONNX Runtime, the exact match,
and independent small pairs, one after the other with all threads and side by side with one
each. What is done is in the JSON file after each part, so that a run cut short is not lost.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import scaling
from common import (
    TINY,
    Contender,
    in_child,
    machine,
    make_weights,
    num,
    pair_gflop,
    pictures,
    table,
    take_turns,
)

SMALL = (256, 192)
SPREAD = 16  # independent pairs of a turn


def match(size: list[int], threads: int, rounds: int) -> dict[str, Any]:
    """The exact match of two maps; for a child process."""
    import matching

    from mast3r_runtime.backends._cpu import CPUEngine

    bound = scaling.bind(threads)
    width, height = size
    with CPUEngine("auto", resolution=max(size), num_threads=threads) as engine:
        turn = [
            Contender(
                kind, lambda d=d: engine.match(*d, top_k=None, subsample=1, confidence_threshold=-1) and None
            )
            for kind, d in (
                ("smooth", matching.maps(height, width, 16)),
                ("noise", matching.noise(height, width)),
            )
        ]
        take_turns(f"exact match, {threads} threads", turn, rounds, pause=0.1)
    return {"rows": [c.row(turn[0]) for c in turn], "bound": bound}


def spread(size: list[int], precision: str, threads: int, rounds: int) -> dict[str, Any]:
    """Small pairs by one engine with all threads, and by an engine a thread; for a child process."""
    from mast3r_runtime.backends._cpu import CPUEngine

    bound = scaling.bind(threads)
    images = pictures(size[1], size[0])

    def engines(count: int, each: int) -> list[CPUEngine]:
        made = [
            CPUEngine("auto", resolution=max(size), precision=precision, num_threads=each)
            for _ in range(count)
        ]
        for engine in made:
            engine.load(TINY / "unified.safetensors")
        return made

    (whole,), single = engines(1, threads), engines(threads, 1)
    with ThreadPoolExecutor(threads) as pool:

        def each(engine: CPUEngine, share: range) -> None:
            for _ in share:
                engine.infer_gpu(*images, preprocess=False)

        def together() -> None:
            each(whole, range(SPREAD))

        def apart() -> None:
            shares = [range(i, SPREAD, threads) for i in range(threads)]
            list(pool.map(each, single, shares))

        def batch() -> None:
            whole.infer_batch([images] * SPREAD, preprocess=False)

        turn = [
            Contender("one engine", together),
            Contender("one engine, infer_batch", batch),
            Contender("an engine for each thread", apart),
        ]
        take_turns(f"{SPREAD} small pairs, {threads} threads", turn, rounds, pause=0.1)
    return {"rows": [c.row(turn[0]) for c in turn], "bound": bound}


def seconds(part: dict[str, Any], *names: str, precision: str) -> float | None:
    """The least of the medians of those whose names begin and end so."""
    found = [
        r["total"]["median_s"]
        for r in part["rows"]
        if r["name"].startswith(names) and r["name"].endswith(precision)
    ]
    return min(found, default=None)


def ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a / b


def bounds(result: dict[str, Any]) -> Iterator[tuple[str, float | None, str, float]]:
    """What is wanted: its name, the figure, how it compares, the bound."""
    ours = "mast3r-runtime"
    for n, part in result.get("large", {}).items():
        fp32, bf16 = (seconds(part, ours, precision=p) for p in ("fp32", "bf16"))
        peer = seconds(part, "PyTorch", precision="bf16")
        best = seconds(part, "PyTorch", "ONNX", precision="fp32")
        yield f"large, {n} threads: bf16 / PyTorch bf16", ratio(bf16, peer), "<=", 0.5
        yield f"large, {n} threads: bf16 / fp32", ratio(bf16, fp32), "<=", 0.45
        yield f"large, {n} threads: fp32 / the faster of the others", ratio(fp32, best), "<=", 0.75
        for row in part["rows"]:
            if row["name"] == f"{ours} fp32":
                busy = row["processor"]["median_s"] / row["total"]["median_s"] / int(n)
                yield f"large, {n} threads: busy share of the time, fp32", busy, ">=", 0.9
                if part.get("peaks"):
                    work = pair_gflop(result["variant"], result["size"][1], result["size"][0])
                    peak = statistics.median(p["f32"] for p in part["peaks"])
                    share = work / row["total"]["median_s"] / peak
                    yield f"large, {n} threads: share of the multiply-add peak, fp32", share, ">=", 0.85
    small = result.get("small", {})
    if "2" in small and "16" in small:
        for p in ("fp32", "bf16"):
            gain = ratio(*(seconds(small[n], ours, precision=p) for n in ("2", "16")))
            yield f"small, {p}: 16 threads against 2", gain, ">=", 2.5
    for n, part in result.get("match", {}).items():
        if n == "16":
            yield "exact match, 16 threads, s", max(r["total"]["median_s"] for r in part["rows"]), "<=", 0.35


def text(result: dict[str, Any]) -> str:
    lines = ["# Threads", "", json.dumps(result["machine"]), ""]
    titles = {
        "large": "seconds a pair",
        "small": "seconds a pair",
        "match": "seconds a match",
        "spread": f"seconds for {SPREAD} pairs",
    }
    for name, what in titles.items():
        if result.get(name):
            lines += [f"## {name}", "", *scaling.lines(result[name], what), ""]
    rows = (
        (
            what,
            "not measured" if v is None else num(v),
            f"{how} {bound}",
            "" if v is None else "yes" if (v <= bound) == (how == "<=") else "NO",
        )
        for what, v, how, bound in bounds(result)
    )
    return "\n".join([*lines, "## Bounds", "", *table(("", "figure", "wanted", "holds"), rows)]) + "\n"


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("--variant", default="mast3r_vit_large")
    p.add_argument("--weights", type=Path, required=True, help="folder for the made-up weights")
    p.add_argument("--threads", default="16,8,4,2", help="in this order")
    p.add_argument("--size", default="512x384", help="of the large pair and of the maps")
    p.add_argument("--contenders", default="ours,ours-bf16,torch,torch-bf16,onnx")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--parts", default="small,match,spread,large", help="in this order")
    p.add_argument("--seconds", type=float, default=570, help="no part begins after so long")
    p.add_argument("--out", type=Path, required=True, help="a folder")
    args = p.parse_args()
    start = time.perf_counter()
    args.out.mkdir(parents=True, exist_ok=True)
    size, names = [int(v) for v in args.size.split("x")], args.contenders.split(",")
    counts = [n for n in map(int, args.threads.split(",")) if n <= len(os.sched_getaffinity(0))]
    result: dict[str, Any] = {"machine": machine(), "size": size, "variant": args.variant}
    for part in args.parts.split(","):
        for n in counts:
            if time.perf_counter() - start > args.seconds:
                print(f"{part} with {n} threads is left out: no time", file=sys.stderr, flush=True)
                continue
            if part in ("match", "spread"):
                more = {"precision": "bf16"} if part == "spread" else {}
                task = in_child(
                    part, size=size if part == "match" else SMALL, threads=n, rounds=args.rounds, **more
                )
            else:
                args.weights.mkdir(parents=True, exist_ok=True)
                large = part == "large"
                path = make_weights(args.variant, args.weights) if large else TINY / "unified.safetensors"
                at = (size[0], size[1]) if large else SMALL
                task = scaling.measure(names, path, at, [n], args.rounds)[str(n)]
            result.setdefault(part, {})[str(n)] = task
            (args.out / "bounds.json").write_text(json.dumps(result, indent=1))  # the next may fail
            (args.out / "table.md").write_text(text(result))
    print(text(result))


if __name__ == "__main__":
    main()
