#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times this project's CPU backend beside PyTorch, ONNX Runtime and FAISS, in one run.

Contenders take turns, round by round, on the same weights, pictures and threads; the
processor's limit is measured in the same rounds. Table, JSON and plots go to build/bench/.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import growth
import matching
import peers
import report
import scaling
import sizes
import small
import stages
from common import ROOT, TINY, VARIANTS, Peak, machine, make_weights

SECTIONS = ("network", "sizes", "memory", "threads", "matching", "small", "start", "growth")


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument(
        "--variant", choices=sorted(VARIANTS), help="default mast3r_vit_large; mast3r_tiny with --quick"
    )
    p.add_argument("--width", type=int)
    p.add_argument("--height", type=int)
    p.add_argument("--threads", type=int, default=min(os.cpu_count() or 1, 2))
    p.add_argument("--rounds", type=int)
    p.add_argument("--contenders", help=f"of {', '.join(peers.NAMES)}; the first is compared with the others")
    p.add_argument("--sections", default=",".join(SECTIONS), help=f"of {', '.join(SECTIONS)}")
    p.add_argument("--weights", type=Path, help="folder for the made-up weights, kept between runs")
    p.add_argument(
        "--quick",
        action="store_true",
        help="small sizes and few rounds: that everything works, within three minutes",
    )
    p.add_argument("--out", type=Path, default=ROOT / "build" / "bench")
    args = p.parse_args()
    full = {
        "variant": "mast3r_vit_large",
        "width": 512,
        "height": 384,
        "rounds": 4,
        "contenders": "ours,ours-fp16,ours-bf16,torch,torch-compiled,torch-bf16,onnx",
    }
    quick = {
        "variant": "mast3r_tiny",
        "width": 256,
        "height": 192,
        "rounds": 2,
        "contenders": "ours,torch,onnx",
    }
    defaults = quick if args.quick else full
    for name, value in defaults.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    if args.quick:
        # On a busy machine threads of OpenMP that spin for each other wait for seconds.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    args.sections = args.sections.split(",")
    if unknown := set(args.sections) - set(SECTIONS):
        p.error(f"sections {sorted(unknown)}, want some of {', '.join(SECTIONS)}")
    return args


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    names = peers.available(args.contenders.split(","))
    few = [n for n in names if n in ("ours", "torch")]
    plain = [n for n in names if not n.endswith("compiled")]  # compiling takes minutes
    path = make_weights(args.variant, folder)
    size, threads, quick = (args.width, args.height), args.threads, args.quick
    tiny = TINY / "unified.safetensors"
    peak = Peak(threads)
    steps = {
        "network": lambda: stages.measure(names, args.variant, path, size, threads, args.rounds, peak),
        "sizes": lambda: sizes.measure(
            path,
            args.variant,
            threads,
            max(args.rounds // 2, 1),
            peak,
            sizes.SIZES[:2] if quick else sizes.SIZES,
        ),
        "memory": lambda: stages.memory(plain, path, size, threads),
        "threads": lambda: {
            "variant": args.variant,
            "width": args.width,
            "height": args.height,
            "counts": scaling.measure(plain, path, size, scaling.counts(threads), args.rounds // 2),
        },
        "matching": lambda: matching.measure((128, 96) if quick else (512, 384), threads, 2 if quick else 3),
        "small": lambda: {
            "pair": small.tiny(plain, threads, 5 if quick else 20, peak),
            "calls": small.calls(200 if quick else 5000),
        },
        "start": lambda: (
            [small.starts(1 if quick else 5, threads, tiny, (256, 192))]
            + ([] if quick else [small.starts(1, threads, path, size)])
        ),
        "growth": lambda: {
            "sizes": growth.sizes(
                few, growth.WIDTHS[:2] if quick else growth.WIDTHS, threads, 2 if quick else 4
            ),
            "images": growth.numbers(few, growth.COUNTS[:2] if quick else growth.COUNTS, threads, 2),
        },
    }
    result: dict[str, Any] = {
        "machine": machine(),
        "thread_count": threads,
        "quick": quick,
        "load_average": os.getloadavg(),
    }
    for name in args.sections:
        start = time.perf_counter()
        result[name] = steps[name]()
        (args.out / "bench.json").write_text(json.dumps(result, indent=1))  # a later section may fail
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    peak.close()
    result["load_average_after"] = os.getloadavg()
    return result


def main() -> None:
    args = parse()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.weights or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        result = measure(args, folder)
    (args.out / "bench.json").write_text(json.dumps(result, indent=1))
    text = report.text(result)
    (args.out / "bench.md").write_text(text)
    report.plots(result, args.out)
    print(text)


if __name__ == "__main__":
    main()
