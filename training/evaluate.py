# SPDX-License-Identifier: Apache-2.0
"""Measures a model: synthetic held-out scenes, real pairs with truth, pairs without overlap.

    python evaluate.py MODEL.safetensors --pictures FOLDER [--backend runtime] [--json OUT]

`--backend torch` is the PyTorch network; `--backend runtime` the installed
mast3r_runtime wheel (or the source tree's package) on its CPU backend, which
is what users get. FOLDER holds the pictures that training/README.md lists;
what is missing there is left out with a line that says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from mast3r_torch import evaluation, photographs, weights
from mast3r_torch.evaluation import Backend
from mast3r_torch.model import View
from mast3r_torch.scenes import load_photos

# What a model is asked to reach; the shipped one misses some: (section, figure, at least or at most, value).
THRESHOLDS = (
    ("synthetic near 256x192", "mutual", ">=", 0.90),
    ("synthetic near 256x192", "mutual_share", ">=", 0.60),
    ("synthetic near 256x192", "points1", "<=", 0.06),
    ("synthetic near 256x192", "points2", "<=", 0.06),
    ("motorcycle 256x176", "mutual", ">=", 0.93),
    ("motorcycle 512x352", "mutual", ">=", 0.93),
    ("motorcycle 256x176", "inverse_depth", ">=", 0.85),
    ("motorcycle 512x352", "inverse_depth", ">=", 0.98),
    ("512: zoom x2", "raw_p3", ">=", 0.95),
    ("512: zoom x3", "raw_p3", ">=", 0.90),
    ("512: zoom x4", "raw_p3", ">=", 0.80),
    ("512: rotation 90", "raw_p3", ">=", 0.95),
    ("512: rotation 180", "raw_p3", ">=", 0.93),
    ("512: box", "raw_right", ">=", 300),
    ("512: stereo", "depth_error", "<=", 0.035),
    ("512: focal", "median", "<=", 0.06),
    ("512: focal", "p90", "<=", 0.15),
)

TURNS = ((45, 1.0), (90, 0.9), (180, 1.0), (6, 2.0), (6, 3.0))  # degrees and enlargement of a photograph


def torch_backend(model: Path, threads: int) -> Backend:
    if threads:
        torch.set_num_threads(threads)
    net, _ = weights.load(model)

    def run(img1: Tensor, img2: Tensor) -> tuple[View, View]:
        with torch.inference_mode():
            view1, view2 = net(img1[None], img2[None])
        return tuple(View(*(t[0].clone() for t in v)) for v in (view1, view2))

    return run


def sections(
    args: argparse.Namespace,
) -> list[tuple[str, Path | None, Callable[[Backend], dict]]]:
    """(name, a file that it needs, measurement) in the order of the table."""
    held = load_photos(args.held_out) if args.held_out else []
    out: list = []
    for name in evaluation.SETS:
        size = (256, 192)

        def synthetic(run: Backend, name: str = name, size: tuple[int, int] = size) -> dict[str, float]:
            return evaluation.measure_synthetic(run, evaluation.synthetic(name, args.pairs, size, held))

        out.append((f"synthetic {name} {size[0]}x{size[1]}", None, synthetic))
    for degrees, zoom in TURNS if args.held_out else ():
        for path in (args.held_out / "coffee.png", args.held_out / "chelsea.png"):

            def turned(run: Backend, path: Path = path, look: tuple[float, float] = (degrees, zoom)) -> dict:
                return evaluation.turned(run, path, (256, 192), *look)

            out.append((f"{path.stem} turned {degrees} times {zoom:g}", path, turned))
    p: Path = args.pictures
    if p:
        out += [
            (
                "motorcycle 256x176",
                p / "motorcycle_disp.npz",
                lambda run: evaluation.motorcycle(run, p, (256, 176)),
            ),
            (
                "motorcycle 512x352",
                p / "motorcycle_disp.npz",
                lambda run: evaluation.motorcycle(run, p, (512, 352)),
            ),
            ("aloe 256x224", p / "aloeGT.png", lambda run: evaluation.aloe(run, p, (256, 224))),
            ("aloe 512x448", p / "aloeGT.png", lambda run: evaluation.aloe(run, p, (512, 448))),
            ("graf 256x208", p / "H1to3p.xml", lambda run: evaluation.graf(run, p, (256, 208))),
            ("graf 512x416", p / "H1to3p.xml", lambda run: evaluation.graf(run, p, (512, 416))),
            ("box 256", p / "box.png", lambda run: evaluation.box(run, p, 256)),
            ("box 512", p / "box.png", lambda run: evaluation.box(run, p, 512)),
            ("no overlap 256x176", p / "china.jpg", lambda run: evaluation.no_overlap(run, p, (256, 176))),
            (
                "identity 256x176",
                p / "motorcycle_left.png",
                lambda run: evaluation.identity(run, p / "motorcycle_left.png", (256, 176)),
            ),
        ]
        for section in photographs.SECTIONS:

            def measured(run: Backend, section: str = section) -> dict:
                return photographs.measure(run, p, section, args.sift)

            out.append((f"512: {section}", None, measured))
    return out


def print_table(results: dict[str, dict[str, float]]) -> None:
    for name, row in results.items():
        print(f"{name}")
        print("   " + "  ".join(f"{k} {v:.4g}" for k, v in row.items()))
    print("\nthresholds")
    for name, figure, sense, value in THRESHOLDS:
        if name not in results:
            print(f"   {name:24} {figure:14} not measured")
            continue
        got = results[name].get(figure, float("nan"))
        met = got >= value if sense == ">=" else got <= value
        print(f"   {name:24} {figure:14} {got:.3f} {sense} {value:.2f}  {'reached' if met else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--backend", choices=("torch", "runtime"), default="torch")
    parser.add_argument("--precision", choices=("fp32", "fp16"), default="fp32", help="of the runtime")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument(
        "--held-out", type=Path, help="pictures for the synthetic textures, none of them trained on"
    )
    parser.add_argument("--pairs", type=int, default=48, help="of each synthetic set")
    parser.add_argument("--sift", action="store_true", help="SIFT and MAGSAC beside the model on photographs")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--only", help="sections whose name contains this")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    wanted = [section for section in sections(args) if not args.only or args.only in section[0]]
    if any(name.startswith("512: ") for name, _, _ in wanted):
        photographs.pairs_module()  # what it lacks is said now, not after the synthetic sets
    if args.backend == "torch":
        run = torch_backend(args.model, args.threads)
    else:
        from mast3r_torch.runtime_backend import runtime_backend

        run = runtime_backend(args.model, args.precision, args.threads)
    results: dict[str, dict[str, float]] = {}
    for name, needs, measure in wanted:
        if needs and not needs.exists():
            print(f"{name}: left out, no {needs}", file=sys.stderr)
            continue
        begin = time.monotonic()
        row = measure(run)
        nested = any(isinstance(v, dict) for v in row.values())
        results |= {f"512: {k}": v for k, v in row.items()} if nested else {name: row}
        print(f"{name}: {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)
    print_table(results)
    if args.json:
        known = {
            k: {f: round(x, 4) for f, x in v.items() if x == x} for k, v in results.items()
        }  # JSON has no NaN
        args.json.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
