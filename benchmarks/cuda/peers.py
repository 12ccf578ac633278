# SPDX-License-Identifier: Apache-2.0
"""PyTorch beside ``go run ./benchmarks/cuda``: the network of training/ on the same GPU, with random weights.

    python benchmarks/cuda/peers.py eager graph compiled

Prints a line of JSON for each way to run it. Times are synchronised calls, median of 30.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "training")]

from common import VARIANTS  # noqa: E402
from mast3r_torch.model import Dims, Mast3r, init_weights  # noqa: E402


def median(run: Callable[[], Any], rounds: int) -> tuple[float, float]:
    times = []
    for _ in range(rounds + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    times = sorted(times[3:])
    return times[len(times) // 2], times[0]


def graphed(run: Callable[[], Any]) -> Callable[[], Any]:
    """The same in a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ways", nargs="+", choices=("eager", "graph", "compiled"))
    parser.add_argument("--variant", default="mast3r_vit_large")
    parser.add_argument("--size", type=int, nargs=2, default=(384, 512))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    net = Mast3r(Dims(**VARIANTS[options.variant])).eval()
    init_weights(net)
    net = net.to(device)
    for p in net.parameters():
        p.requires_grad_(False)
    images = [torch.rand(options.batch, 3, *options.size, device=device) * 2 - 1 for _ in range(2)]

    def pair(call: Callable[..., Any] = net) -> Any:
        with torch.autocast(device, torch.bfloat16):
            return call(*images)

    for way in options.ways:
        start = time.perf_counter()
        run: Callable[[], Any] = pair
        with torch.inference_mode() if way != "compiled" else torch.no_grad():
            if way == "compiled":
                call = torch.compile(net, dynamic=False)
                run = lambda: pair(call)  # noqa: E731, B023
            run()
            if way != "eager":
                run = graphed(run)
            compiled = time.perf_counter() - start
            middle, least = median(run, options.rounds)
        row = {
            "what": f"PyTorch {torch.__version__} bf16 autocast, {way}",
            "batch": options.batch,
            "compile_s": round(compiled, 1),
            "median_ms": round(middle, 2),
            "min_ms": round(least, 2),
            "device": torch.cuda.get_device_name(),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
