# SPDX-License-Identifier: Apache-2.0
"""What all measurements share: models, pictures, work, turns, memory, the machine."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TINY = ROOT / "python" / "mast3r_runtime" / "models" / "mast3r_tiny"
sys.path.insert(0, str(ROOT / "training"))

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


def pictures(height: int, width: int, count: int = 2) -> list[Any]:
    """Views of one smooth pattern, shifted: 8-bit arrays [height, width, 3]."""
    import numpy as np

    y, x = np.mgrid[0:height, 0:width]
    base = np.stack([np.sin(x / 7), np.cos(y / 5), np.sin((x + y) / 11)], axis=-1)
    return [np.uint8(127 + 90 * np.roll(base, 6 * s, axis=1)) for s in range(count)]


def make_weights(variant: str, folder: Path) -> Path:
    """The network's initial weights in a file, unless they are there; speed does not depend on them."""
    path = folder / f"{variant}.safetensors"
    if not path.exists():
        import torch
        from mast3r_torch.model import Dims, Mast3r, init_weights
        from mast3r_torch.weights import dims_metadata, save

        torch.manual_seed(0)
        dims = Dims(**VARIANTS[variant])
        net = Mast3r(dims).eval()
        init_weights(net)
        part = path.with_suffix(".part")
        save(net.state_dict(), part, dims_metadata(dims) | {"variant": variant}, torch.float32)
        part.rename(path)
    return path


def encoder_gflop(variant: str, height: int, width: int) -> float:
    """Multiply-adds times two of the products of the encoder for one picture."""
    d = VARIANTS[variant]
    n, e = height * width // 256, d["enc_dim"]
    return (d["enc_depth"] * (24 * n * e * e + 4 * n * n * e) + 2 * n * 768 * e) / 1e9


def pair_gflop(variant: str, height: int, width: int) -> float:
    """Multiply-adds times two of the products of one pair, from the sizes.

    The 3x3 convolutions count in full, also where they are computed with fewer operations.
    """
    d = VARIANTS[variant]
    n = height * width // 256
    e, c, hidden = d["enc_dim"], d["dec_dim"], d["local_hidden"]
    block = 2 * n * c * c * (4 + 4 + 8) + 8 * n * n * c
    decoder = 2 * (d["dec_depth"] * block + 2 * n * e * c)
    local = 2 * 2 * n * ((e + c) * hidden + hidden * 6400)
    f, last, layers = d["dpt_feature_dim"], d["dpt_last_dim"], d["dpt_layer_dims"]
    act = n * (
        e * layers[0]
        + 16 * layers[0] ** 2
        + c * layers[1]
        + 4 * layers[1] ** 2
        + c * layers[2]
        + c * layers[3]
    )
    act += n / 4 * 9 * layers[3] ** 2
    rn = 9 * f * n * (16 * layers[0] + 4 * layers[1] + layers[2] + layers[3] / 4)
    rcu = 2 * 9 * f * f
    refine = n * (rcu / 4 + 2 * rcu * (1 + 4 + 16) + f * f * (1 / 4 + 1 + 4 + 16))
    head = n * (64 * 9 * f * (f // 2) + 256 * (9 * (f // 2) * last + 4 * last))
    rest = (decoder + local + 2 * 2 * (act + rn + refine + head)) / 1e9
    return 2 * encoder_gflop(variant, height, width) + rest


class Peak:
    """The processor's limit, measured whenever it is asked; see benchmarks/peak."""

    BINARY = ROOT / "build" / "bench" / "peak"

    def __init__(self, threads: int) -> None:
        if self._buildable():
            self.BINARY.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                ["go", "build", "-o", str(self.BINARY), "./benchmarks/peak"],
                cwd=ROOT,
                check=True,
                env=os.environ | {"CGO_ENABLED": "0"},
            )
        self._process = subprocess.Popen(
            [str(self.BINARY), "-threads", str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @classmethod
    def possible(cls) -> bool:
        """Whether it can be built here, or was brought along."""
        return cls._buildable() or cls.BINARY.exists()

    @staticmethod
    def _buildable() -> bool:
        return shutil.which("go") is not None and (ROOT / "go.mod").exists()

    def ask(self) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Contender:
    """One way to do something."""

    name: str
    run: Callable[[], dict[str, float] | None]  # may return seconds of its stages
    times: dict[str, list[float]] = field(default_factory=dict)
    first: float = 0.0

    def round(self) -> None:
        start, used = time.perf_counter(), time.process_time()
        stages = self.run() or {}
        stages["total"] = time.perf_counter() - start
        stages["processor"] = time.process_time() - used
        for stage, seconds in stages.items():
            self.times.setdefault(stage, []).append(seconds)

    def row(self, base: Contender) -> dict[str, Any]:
        """The figures of this one and the median over rounds of base's time over this one's."""
        row: dict[str, Any] = {"name": self.name, "first_s": self.first}
        for stage, t in self.times.items():
            row[stage] = {"median_s": statistics.median(t), "p95_s": p95(t), "min_s": min(t), "all_s": t}
        pairs = zip(base.times["total"], self.times["total"], strict=True)
        row["ours_over_this"] = statistics.median(a / b for a, b in pairs)
        return row


def take_turns(
    what: str,
    contenders: Sequence[Contender],
    rounds: int,
    peak: Peak | None = None,
    pause: float = 0.3,
    warm: bool = False,
) -> list[dict[str, Any]]:
    """Let the contenders run one after the other, round by round; returns the peaks in between.

    Each runs once before the first round, unless they are warm.
    """
    for c in () if warm else contenders:
        start = time.perf_counter()
        c.run()
        c.first = time.perf_counter() - start
    peaks = []
    for r in range(rounds):
        for c in contenders:
            time.sleep(pause)  # let the threads of the one before go to sleep
            c.round()
            print(
                f"{what}, round {r + 1}: {c.name}: {c.times['total'][-1]:.3f} s", file=sys.stderr, flush=True
            )
        if peak is not None:
            time.sleep(pause)
            peaks.append(peak.ask())
    return peaks


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Lines of a Markdown table."""
    head = list(head)
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(map(str, r)) + " |" for r in rows),
    ]


def num(v: float) -> str:
    """Three significant digits."""
    return f"{v:.0f}" if v >= 100 else f"{v:.3g}"


def p95(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, round(0.95 * (len(values) - 1)))]


def timed(f: Callable[[], object]) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def high_water_mb() -> float:
    """Peak resident memory of this process.

    getrusage would do, but on Linux its figure survives exec and so includes the parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return (
            next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
            / 1024
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def in_child(task: str, env: dict[str, str] | None = None, **arguments: Any) -> dict[str, Any]:
    """What a function of child.py returns in a process of its own."""
    command = [sys.executable, str(HERE / "child.py"), task, json.dumps(arguments, default=str)]
    out = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | (env or {})
    ).stdout
    return json.loads(out.strip().splitlines()[-1])


def _hypervisor() -> str:
    """Its maker, as lscpu says."""
    try:
        out = subprocess.run(["lscpu", "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout
        rows = json.loads(out)["lscpu"]
    except (OSError, subprocess.CalledProcessError, ValueError, KeyError):
        return "unknown"
    flat = [*rows, *(c for r in rows for c in r.get("children", ()))]
    return next((r["data"] for r in flat if r["field"].startswith("Hypervisor")), "unknown")


# What of a processor's flags says how fast products can be.
_SETS = re.compile(r"(?i)avx2|fma|avx512(f|_bf16|_fp16|_vnni)|avx_vnni|amx_\w+|asimd\w*|bf16|i8mm|sve2?")


def machine() -> dict[str, str]:
    """The processor, what it can do and what it runs on."""
    facts = {"model name": platform.processor(), "flags": "", "Features": ""}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in facts and value:
                facts[key.strip()] = value.strip()
    except OSError:
        pass
    sets = {f for f in f"{facts['flags']} {facts['Features']}".split() if _SETS.fullmatch(f)}
    return {
        "cpu": facts["model name"],
        "instruction_sets": " ".join(sorted(sets)),
        "hypervisor": _hypervisor() if "hypervisor" in facts["flags"].split() else "",
        "cores": str(os.cpu_count()),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
