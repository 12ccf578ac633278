#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Depth Anything 3 beside PyTorch, in one run: the same random weights, pictures and threads.

First PyTorch's definition is compared with the golden data in the repository, then ours with
PyTorch at full size; then both take turns, with a pause in which the threads of the one before go
to sleep. How PyTorch's threads wait, OMP_WAIT_POLICY, is the caller's choice: `make views-bench` runs
with the default and with PASSIVE. Memory is the peak of a process that looks at eight views, beside what
`estimate_memory` says. The table goes to build/views-bench/.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import ROOT, high_water_mb, machine

GOLDEN = ROOT / "internal" / "model" / "da3" / "testdata"
BOUND = 0.75  # ours over PyTorch's time
# What a user asks for beside what the published code does, which computes the rays in every call;
# and the same work on both sides.
RATIOS = (("ours", "PyTorch with rays"), ("ours", "PyTorch"), ("ours with rays", "PyTorch with rays"))
PAUSE = 0.5  # seconds between turns


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("--size", choices=("small", "base"), default="base")
    p.add_argument("--width", type=int, default=504)
    p.add_argument("--height", type=int, default=378)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--memory-views", type=int, default=8)
    p.add_argument(
        "--write-selfcheck", action="store_true", help="make what `mast3r selfcheck` compares with"
    )
    p.add_argument("--only-memory", type=Path, help=argparse.SUPPRESS)
    p.add_argument("--out", type=Path, default=ROOT / "build" / "views-bench")
    return p.parse_args()


def relative(got: Any, want: Any) -> float:
    import numpy as np

    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


def golden() -> dict[str, float]:
    """PyTorch's definition against what the published code gave: the worst error of each output."""
    import torch
    from da3_torch import Da3
    from safetensors.torch import load_file

    net = Da3("tiny").eval()
    missing, surplus = net.load_state_dict(
        {k.removeprefix("model."): v for k, v in load_file(GOLDEN / "tiny.safetensors").items()}, strict=False
    )
    if surplus or any("output_conv2_aux" not in name for name in missing):  # the norm that is there once
        raise SystemExit(f"the golden file and PyTorch's definition differ: {missing}, {surplus}")
    cases, worst = load_file(GOLDEN / "views.safetensors"), {}
    for case in ("n2", "n3s"):
        out = net(cases[f"{case}.image"], rays=True)
        for name in ("depth", "depth_conf", "ray", "ray_conf", "pose"):
            error = relative(out[name], cases[f"{case}.{name}"])
            worst[name] = max(worst.get(name, 0.0), error)
    if max(worst.values()) > 1e-5:
        raise SystemExit(f"PyTorch's definition is not the published network: {worst}")
    torch.manual_seed(0)
    return worst


def weights(net: Any, folder: Path) -> Path:
    """The network as a file like the published one."""
    from safetensors.torch import save_model
    from torch import nn

    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = net

    path = folder / "model.safetensors"
    save_model(Wrapper(), str(path))
    return path


def images(n: int, height: int, width: int) -> Any:
    import numpy as np

    y, x = np.mgrid[:height, :width]
    shades = [
        [
            127 + 60 * np.sin((x + 9 * i) * (c + 2) / 23) + 50 * np.cos((y - 5 * i) / (17 + c))
            for c in range(3)
        ]
        for i in range(n)
    ]
    return [np.clip(np.stack(s, -1), 0, 255).astype(np.uint8) for s in shades]


def network_input(pictures: Any) -> Any:
    import numpy as np
    import torch

    mean, std = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
    return torch.from_numpy((np.stack(pictures).astype(np.float32) / 255 - mean) / std)


def memory(args: argparse.Namespace) -> None:
    """In a process of its own: views at once, with our engine; prints the peak, and the estimate."""
    import mast3r_runtime as m3r

    with m3r.Engine("auto", 0, "fp32", args.threads, "cpu") as engine:
        engine.load(args.only_memory)
        engine.infer_views(images(args.memory_views, args.height, args.width), preprocess=False)
    planned = m3r.estimate_memory(
        args.only_memory, size=(args.height, args.width), pictures=args.memory_views, precision="fp32",
        num_threads=args.threads,
    )  # fmt: skip
    print(json.dumps({"peak": int(high_water_mb() * 2**20), "estimate": planned["total"]}))


def write_selfcheck() -> int:
    """PyTorch's outputs for the small network of the self-check."""
    import numpy as np
    import torch
    from da3_torch import Da3
    from PIL import Image

    from mast3r_runtime._commands import synthetic

    folder = ROOT / "python" / "mast3r_runtime" / "selfcheck"
    golden()  # the definition is the published network
    net = Da3("tiny").eval()
    names = {f"model.{name}": tuple(p.shape) for name, p in net.named_parameters()}
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.copy_(torch.from_numpy(synthetic.tensor(f"model.{name}", tuple(p.shape), synthetic.loud)))
    pair = [np.asarray(Image.open(folder / f"view_{i}.png").convert("RGB"))[:56, :84] for i in (1, 2)]
    out = net(network_input(pair))
    poses = [world_from_camera(p) for p in out["pose"].double().numpy()]
    np.savez(
        folder / "views.npz",
        depth=out["depth"].numpy()[:, ::3, ::3],
        conf=out["depth_conf"].numpy()[:, ::3, ::3],
        pose=np.stack([np.linalg.inv(poses[0]) @ p for p in poses]),
        tensors=json.dumps(names),
    )
    return 0


def world_from_camera(numbers: Any) -> Any:
    """The pose of nine numbers; the quaternion is of any length."""
    import numpy as np

    x, y, z, w = numbers[3:7] / np.linalg.norm(numbers[3:7])
    out = np.eye(4)
    out[:3, 3] = numbers[:3]
    out[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return out


def main() -> int:
    args = parse()
    if args.only_memory:
        memory(args)
        return 0
    if args.write_selfcheck:
        return write_selfcheck()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch
    from da3_torch import Da3, randomize

    import mast3r_runtime as m3r

    torch.set_num_threads(args.threads)
    report: dict[str, Any] = {
        "machine": machine(),
        "golden": golden(),
        "size": args.size,
        "threads": args.threads,
        "wait_policy": os.environ.get("OMP_WAIT_POLICY", "the library's default"),
    }
    with tempfile.TemporaryDirectory() as folder:
        net = Da3(args.size).eval()
        randomize(net)
        path = weights(net, Path(folder))
        report["parameters"] = sum(p.numel() for p in net.parameters())
        report["file_bytes"] = path.stat().st_size
        pair = images(2, args.height, args.width)
        x = network_input(pair)
        with m3r.Engine("auto", 0, "fp32", args.threads, "cpu") as engine:
            engine.load(path)
            scene = engine.infer_views(pair, preprocess=False)
            want = net(x)
            report["depth_error"] = max(
                relative(p.depth.depth, d)
                for p, d in zip(scene.pictures.values(), want["depth"], strict=True)
            )
            turns = {
                "ours": lambda: engine.infer_views(pair, preprocess=False),
                "ours with rays": lambda: engine.infer_views(pair, preprocess=False, rays=True),
                "PyTorch": lambda: net(x),
                "PyTorch with rays": lambda: net(x, rays=True),
            }
            turns["ours with rays"]()
            times: dict[str, list[float]] = {name: [] for name in turns}
            order = list(turns.items())
            for k in range(args.rounds):
                for name, run in order[k % len(order) :] + order[: k % len(order)]:
                    time.sleep(PAUSE)
                    start = time.perf_counter()
                    run()
                    times[name].append(time.perf_counter() - start)
        report |= {
            "seconds": {k: min(v) for k, v in times.items()},
            "ratios": {
                f"{a} / {b}": [x / y for x, y in zip(times[a], times[b], strict=True)] for a, b in RATIOS
            },
        }
        report["memory_views"] = args.memory_views
        if args.memory_views:
            command = [sys.executable, __file__, "--only-memory", path, "--memory-views", args.memory_views]
            command += ["--width", args.width, "--height", args.height, "--threads", args.threads]
            done = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
            report["memory"] = json.loads(done.stdout)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "views.json").write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))
    return 0


def table(r: dict[str, Any]) -> str:
    worst = max(r["golden"].values())
    rows = [
        f"| PyTorch's definition against the golden data | {worst:.1e} |",
        f"| parameters, bytes of the file | {r['parameters']:,}, {r['file_bytes']:,} |",
        f"| depth, ours against PyTorch | {r['depth_error']:.1e} |",
        *(f"| a pair: {name}, s (best) | {s:.2f} |" for name, s in r["seconds"].items()),
        *(
            f"| {name}, median (least to most; wanted at most {BOUND}) | "
            f"{statistics.median(x):.2f} ({min(x):.2f} to {max(x):.2f}) |"
            for name, x in r["ratios"].items()
        ),
    ]
    if memory := r.get("memory"):
        rows.append(
            f"| {r['memory_views']} views, peak of the process; estimate | "
            f"{memory['peak'] / 2**30:.2f}, {memory['estimate'] / 2**30:.2f} GiB |"
        )
    head = f"| {r['size']}, {r['threads']} threads, OMP_WAIT_POLICY {r['wait_policy']} | |"
    return "\n".join([head, "|---|---|", *rows])


if __name__ == "__main__":
    sys.exit(main())
