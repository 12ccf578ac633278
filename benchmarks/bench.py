#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times this project's CPU backend beside PyTorch and ONNX Runtime, in one run.

Contenders take turns, round by round, on the same weights, pictures and threads. What is
printed, as a table and as JSON, are medians, 95th percentiles, GFLOP/s, and the ratio to
each peer as the median over rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "training"))

# Sizes of the models that can be made here: trunk (dim, depth, heads) of encoder and
# decoder, widths of the head.
VARIANTS = {
    "mast3r_vit_large": dict(
        enc_dim=1024, enc_depth=24, enc_heads=16, dec_dim=768, dec_depth=12, dec_heads=12,
        dpt_feature_dim=256, dpt_last_dim=128, dpt_layer_dims=(96, 192, 384, 768), local_hidden=7168,
    ),
    "mast3r_tiny": dict(
        enc_dim=192, enc_depth=6, enc_heads=3, dec_dim=192, dec_depth=6, dec_heads=3,
        dpt_feature_dim=64, dpt_last_dim=32, dpt_layer_dims=(24, 48, 96, 192), local_hidden=256,
    ),
}  # fmt: skip


@dataclass
class Contender:
    """One way to run the network: stages by name, each a call that takes no argument."""

    name: str
    run: Callable[[], dict[str, float]]  # seconds by stage, "pair" always among them
    times: dict[str, list[float]] = field(default_factory=dict)
    first: float = 0.0

    def round(self) -> None:
        for stage, seconds in self.run().items():
            self.times.setdefault(stage, []).append(seconds)


def pictures(height: int, width: int):
    import numpy as np

    y, x = np.mgrid[0:height, 0:width]
    base = np.stack([np.sin(x / 7), np.cos(y / 5), np.sin((x + y) / 11)], axis=-1)
    return [np.uint8(127 + 90 * np.roll(base, s, axis=1)) for s in (0, 6)]


def make_weights(variant: str, folder: Path):
    """The network in PyTorch with its initial weights, and the same in a file."""
    import torch
    from mast3r_torch.model import Dims, Mast3r, init_weights
    from mast3r_torch.weights import dims_metadata, save

    torch.manual_seed(0)
    dims = Dims(**VARIANTS[variant])
    net = Mast3r(dims).eval()
    init_weights(net)
    path = folder / "unified.safetensors"
    if not path.exists():
        save(net.state_dict(), path, dims_metadata(dims) | {"variant": variant}, torch.float32)
    return net, path


def ours(path: Path, images, threads: int, precision: str) -> Contender:
    from mast3r_runtime.backends._cpu import CPUEngine

    engine = CPUEngine("auto", resolution=max(images[0].shape[:2]), precision=precision, num_threads=threads)
    engine.load(path)

    def run() -> dict[str, float]:
        start = time.perf_counter()
        result = engine.infer_gpu(*images, preprocess=False)
        took = time.perf_counter() - start
        t = result.timing
        return {"pair": took, "encoder": t["encoder_ms"] / 1e3, "decoder": t["decoder_ms"] / 1e3, "heads": t["heads_ms"] / 1e3}

    return Contender(f"mast3r-runtime {precision}", run)


def torch_peer(net, images, threads: int, dtype: str) -> Contender:
    import torch
    from mast3r_torch.model import activate

    torch.set_num_threads(threads)
    x = [torch.from_numpy(i).permute(2, 0, 1)[None].float().div(255).sub(0.5).div(0.5) for i in images]
    cast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16")

    def run() -> dict[str, float]:
        with torch.inference_mode(), cast:
            marks = [time.perf_counter()]
            f = net.encode(torch.cat(x))
            marks.append(time.perf_counter())
            h, w = net.grid(x[0])
            tokens1, tokens2 = net.decode(f[:1], f[1:], (h, w), (h, w))
            marks.append(time.perf_counter())
            activate(net.downstream_head1(tokens1, h, w))
            activate(net.downstream_head2(tokens2, h, w))
            marks.append(time.perf_counter())
        encoder, decoder, heads = (b - a for a, b in zip(marks, marks[1:]))
        return {"pair": marks[-1] - marks[0], "encoder": encoder, "decoder": decoder, "heads": heads}

    return Contender(f"PyTorch {torch.__version__} {dtype}", run)


def onnx_peer(path: Path, images, threads: int) -> Contender:
    from mast3r_runtime.backends._cpu import CPUEngine
    import onnxruntime as ort

    model = path.parent / "model.onnx"
    if not model.exists():
        with CPUEngine("auto", resolution=max(images[0].shape[:2]), num_threads=threads) as engine:
            engine.load(path)
            engine.export_onnx(model, height=images[0].shape[0], width=images[0].shape[1])
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    feeds = {"image1": images[0][None], "image2": images[1][None]}

    def run() -> dict[str, float]:
        start = time.perf_counter()
        session.run(None, feeds)
        return {"pair": time.perf_counter() - start}

    return Contender(f"ONNX Runtime {ort.__version__}", run)


def numpy_gemm() -> Callable[[], float]:
    """GFLOP/s of one product of the size that dominates the encoder."""
    import numpy as np

    a, b = np.ones((1536, 1024), np.float32), np.ones((1024, 4096), np.float32)

    def run() -> float:
        best = min(_timed(lambda: a @ b) for _ in range(3))
        return 2 * 1536 * 1024 * 4096 / best / 1e9

    return run


def _timed(f: Callable[[], object]) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def pair_gflop(variant: str, height: int, width: int) -> float:
    """Multiply-adds times two of the products of one pair, from the sizes."""
    d = VARIANTS[variant]
    n = height * width // 256
    e, c, hidden = d["enc_dim"], d["dec_dim"], d["local_hidden"]
    encoder = 2 * (d["enc_depth"] * (24 * n * e * e + 4 * n * n * e) + 2 * n * 768 * e)
    block = 2 * n * c * c * (4 + 4 + 8) + 8 * n * n * c
    decoder = 2 * (d["dec_depth"] * block + 2 * n * e * c)
    local = 2 * 2 * n * ((e + c) * hidden + hidden * 6400)
    f, last, layers = d["dpt_feature_dim"], d["dpt_last_dim"], d["dpt_layer_dims"]
    act = n * (e * layers[0] + 16 * layers[0] ** 2 + c * layers[1] + 4 * layers[1] ** 2 + c * layers[2] + c * layers[3])
    act += n / 4 * 9 * layers[3] ** 2
    rn = 9 * f * n * (16 * layers[0] + 4 * layers[1] + layers[2] + layers[3] / 4)
    rcu = 2 * 9 * f * f
    refine = n * (rcu / 4 + 2 * rcu * (1 + 4 + 16) + f * f * (1 / 4 + 1 + 4 + 16))
    head = n * (64 * 9 * f * (f // 2) + 256 * (9 * (f // 2) * last + 4 * last))
    return (encoder + decoder + local + 2 * 2 * (act + rn + refine + head)) / 1e9


def measure(contenders: list[Contender], rounds: int, gemm: Callable[[], float]) -> list[float]:
    for c in contenders:
        start = time.perf_counter()
        c.run()
        c.first = time.perf_counter() - start
    peaks = []
    for r in range(rounds):
        peaks.append(gemm())
        for c in contenders:
            time.sleep(0.3)  # let the threads of the one before go to sleep
            c.round()
            print(f"round {r + 1}: {c.name}: {c.times['pair'][-1]:.2f} s", file=sys.stderr, flush=True)
    return peaks


def p95(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, round(0.95 * (len(values) - 1)))]


def report(args, contenders: list[Contender], peaks: list[float]) -> dict:
    gflop = pair_gflop(args.variant, args.height, args.width)
    rows = []
    for c in contenders:
        row = {"name": c.name, "first_s": c.first, "gflops": gflop / statistics.median(c.times["pair"])}
        for stage, t in c.times.items():
            row[stage] = {"median_s": statistics.median(t), "p95_s": p95(t), "min_s": min(t), "all_s": t}
        base = contenders[0].times["pair"]
        row["ours_over_this"] = statistics.median(a / b for a, b in zip(base, c.times["pair"]))
        rows.append(row)
    return {
        "variant": args.variant, "height": args.height, "width": args.width, "threads": args.threads,
        "rounds": args.rounds, "gflop_per_pair": gflop, "numpy_gemm_gflops": statistics.median(peaks),
        "machine": machine(), "load_average": os.getloadavg(), "contenders": rows,
    }  # fmt: skip


def machine() -> dict[str, str]:
    cpu = platform.processor()
    try:
        text = Path("/proc/cpuinfo").read_text()
        cpu = next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {"cpu": cpu, "cores": str(os.cpu_count()), "system": platform.platform(), "python": platform.python_version()}


def table(result: dict) -> str:
    lines = [
        f"{result['variant']} {result['width']}x{result['height']}, {result['threads']} threads, {result['rounds']} rounds, "
        f"{result['gflop_per_pair']:.0f} GFLOP a pair, load {result['load_average'][0]:.1f}",
        f"NumPy's product in the same rounds: {result['numpy_gemm_gflops']:.0f} GFLOP/s",
        "",
        "| | pair, median s | p95 | encoder | decoder | heads | first call | GFLOP/s | ours / this |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in result["contenders"]:
        stages = [f"{r[s]['median_s']:.2f}" if s in r else "" for s in ("encoder", "decoder", "heads")]
        lines.append(
            f"| {r['name']} | {r['pair']['median_s']:.2f} | {r['pair']['p95_s']:.2f} | {' | '.join(stages)} "
            f"| {r['first_s']:.2f} | {r['gflops']:.0f} | {r['ours_over_this']:.2f} |"
        )
    return "\n".join(lines)


def plot(result: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = result["contenders"]
    fig, ax = plt.subplots(figsize=(8, 1.2 + 0.55 * len(rows)))
    names = [r["name"] for r in rows]
    ax.barh(names, [r["pair"]["median_s"] for r in rows], color=["#3b7dd8"] + ["#b0b0b0"] * (len(rows) - 1))
    for i, r in enumerate(rows):
        ax.plot(r["pair"]["all_s"], [i] * len(r["pair"]["all_s"]), "k|", markersize=9)
        ax.text(r["pair"]["median_s"], i, f"  {r['pair']['median_s']:.2f} s", va="center")
    ax.invert_yaxis()
    ax.set_xlabel("seconds a pair (bar: median, ticks: rounds)")
    ax.set_title(f"{result['variant']}, {result['width']}x{result['height']}, {result['threads']} threads, {result['machine']['cpu']}", fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.12)
    fig.tight_layout()
    fig.savefig(path, dpi=130)


def high_water_mb() -> float:
    """Peak resident memory of this process.

    getrusage would do, but on Linux its figure survives exec and so includes the parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def peak_memory(args, name: str) -> float:
    """Peak resident MB of one contender in a process of its own."""
    command = [sys.executable, __file__, "--only", name, "--rounds", "1", "--variant", args.variant, "--threads", str(args.threads),
               "--height", str(args.height), "--width", str(args.width), "--weights", str(args.weights)]  # fmt: skip
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(out.strip().splitlines()[-1])


def contender(name: str, args, images, net, path: Path) -> Contender:
    match name:
        case "ours" | "ours-fp16" | "ours-bf16":
            return ours(path, images, args.threads, {"ours": "fp32"}.get(name, name[5:]))
        case "torch" | "torch-bf16":
            return torch_peer(net, images, args.threads, "bf16" if name.endswith("bf16") else "fp32")
        case "onnx":
            return onnx_peer(path, images, args.threads)
    raise SystemExit(f"contender {name!r}, want ours, ours-fp16, ours-bf16, torch, torch-bf16 or onnx")


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--variant", choices=sorted(VARIANTS), default="mast3r_vit_large")
    p.add_argument("--width", type=int, default=512)
    p.add_argument("--height", type=int, default=384)
    p.add_argument("--threads", type=int, default=min(os.cpu_count() or 1, 2))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--contenders", default="ours,torch,onnx", help="comma-separated; the first is compared with the others")
    p.add_argument("--weights", type=Path, help="folder for the made-up weights, kept between runs")
    p.add_argument("--memory", action="store_true", help="also measure each contender's peak memory in a process of its own")
    p.add_argument("--out", type=Path, default=HERE.parent / "build" / "bench")
    p.add_argument("--only", help=argparse.SUPPRESS)
    return p.parse_args()


def main() -> None:
    args = parse()
    keep = tempfile.TemporaryDirectory() if args.weights is None else None
    if keep:
        args.weights = Path(keep.name)
    args.weights.mkdir(parents=True, exist_ok=True)
    images = pictures(args.height, args.width)
    if args.only:
        net, path = None, args.weights / "unified.safetensors"
        if args.only.startswith("torch"):
            from mast3r_torch.weights import load

            net = load(path)[0]
        contender(args.only, args, images, net, path).run()
        print(high_water_mb())
        return
    net, path = make_weights(args.variant, args.weights)
    contenders = [contender(n, args, images, net, path) for n in args.contenders.split(",")]
    result = report(args, contenders, measure(contenders, args.rounds, numpy_gemm()))
    text = table(result)
    if args.memory:
        result["peak_mb"] = {n: peak_memory(args, n) for n in args.contenders.split(",")}
        text += "\n\npeak memory, MB: " + ", ".join(f"{n} {mb:.0f}" for n, mb in result["peak_mb"].items())
    args.out.mkdir(parents=True, exist_ok=True)
    stem = args.out / f"{args.variant}_{args.width}x{args.height}"
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1))
    stem.with_suffix(".md").write_text(text + "\n")
    plot(result, stem.with_suffix(".png"))
    print(text)


if __name__ == "__main__":
    main()
