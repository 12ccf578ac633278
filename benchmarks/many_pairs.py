#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many pairs of cropped pictures by a few workers, of which one is killed now and then.

Table, JSON and plot go to build/many-bench/: time, bytes, memory of the driver and of the
workers, pairs lost and pairs done twice. The pictures are crops of those in the wheel, the model
is the wheel's at a small size: it is the driver, the store and the losses that are shown.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
from PIL import Image

from mast3r_runtime.distributed import Progress, Workers, run_pairs
from mast3r_runtime.store import Store, sizes

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "python" / "mast3r_runtime" / "pictures"


def crops(folder: Path, count: int) -> list[Path]:
    """``count`` JPEGs that slide over the wheel's pictures, so that neighbours overlap."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = sorted([*PICTURES.glob("*.png"), *PICTURES.glob("scene/*.jpg")])
    each = -(-count // len(sources))
    out: list[Path] = []
    for number, source in enumerate(sources):
        with Image.open(source) as opened:
            picture = opened.convert("RGB")
        width, height = picture.width * 3 // 5, picture.height * 3 // 5
        for k in range(min(each, count - len(out))):
            at = k / max(each - 1, 1)
            x, y = round(at * (picture.width - width)), round(abs(np.sin(3 * at)) * (picture.height - height))
            path = folder / f"{number:02d}-{k:03d}.jpg"
            if not path.exists():
                picture.crop((x, y, x + width, y + height)).save(path, quality=92)
            out.append(path)
    return out


def neighbours(pictures: int, count: int) -> list[tuple[int, int]]:
    """The first ``count`` pairs, nearest in the list first."""
    pairs = ((i, i + d) for d in range(1, pictures) for i in range(pictures - d))
    return sorted(pair for pair, _ in zip(pairs, range(count), strict=False))


def memory(pid: int) -> float:
    """Resident MiB of a process; 0 where it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = [line.split()[1] for line in text.splitlines() if line.startswith("VmRSS:")]
    return int(found[0]) / 1024 if found else 0.0


class Watch(threading.Thread):
    """Kills a worker every so many seconds, and looks at memory every second."""

    def __init__(self, pids, every: float) -> None:
        super().__init__(daemon=True)
        self.pids, self.every = pids, every
        self.kills: list[float] = []
        self.samples: list[tuple[float, float, float]] = []  # seconds, driver, largest worker
        self.rows: list[tuple[float, int]] = []
        self.over = threading.Event()
        self.started = time.monotonic()

    def run(self) -> None:
        chosen = random.Random(1)
        while not self.over.wait(1):
            now = time.monotonic() - self.started
            pids = self.pids()
            largest = max((memory(pid) for pid in pids), default=0.0)
            self.samples.append((round(now, 1), memory(os.getpid()), largest))
            if pids and self.every and now // self.every > len(self.kills):
                victim = chosen.choice(sorted(pids))
                os.kill(victim, signal.SIGKILL)
                self.kills.append(round(now, 1))

    def tell(self, progress: Progress) -> None:
        if progress.stage == "pairs":
            self.rows.append((round(time.monotonic() - self.started, 1), progress.done))


def workers_of(arguments: argparse.Namespace):
    """A client, how to close it, and the processes of its workers."""
    if arguments.engine == "local":
        workers = Workers(arguments.workers)
        return workers, workers.shutdown, workers.pids
    from mast3r_runtime._pairs.dask import connect

    opened = connect(f"local:{arguments.workers}", arguments.workers)
    client = opened.__enter__()

    def close() -> None:
        opened.__exit__(None, None, None)

    def pids() -> list[int]:
        nannies = [n.process.pid for n in list(client.cluster.workers.values()) if n.process is not None]
        return [pid for pid in nannies if pid]

    return client, close, pids


def plot(path: Path, watch: Watch, total: int, title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(9, 6.5), sharex=True, height_ratios=(3, 2))
    minutes = np.array([t for t, _ in watch.rows]) / 60
    top.plot(minutes, [done for _, done in watch.rows], color="#1f77b4", lw=2, label="pairs done")
    top.axhline(total, color="#999999", lw=1, ls="--", label=f"{total:,} wanted")
    for n, at in enumerate(watch.kills):
        label = "a worker killed" if n == 0 else None
        top.axvline(at / 60, color="#d62728", lw=1, alpha=0.7, label=label)
        bottom.axvline(at / 60, color="#d62728", lw=1, alpha=0.7)
    top.set_ylabel("pairs")
    top.legend(loc="lower right")
    top.set_title(title, fontsize=11)
    at = np.array([s[0] for s in watch.samples]) / 60
    bottom.plot(at, [s[1] for s in watch.samples], color="#2ca02c", label="driver")
    bottom.plot(at, [s[2] for s in watch.samples], color="#9467bd", label="largest worker")
    bottom.set_ylabel("resident MiB")
    bottom.set_xlabel("minutes")
    bottom.set_ylim(bottom=0)
    bottom.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-every", type=float, default=120, help="seconds; 0: never")
    parser.add_argument("--resolution", type=int, default=96)
    parser.add_argument("--model", type=Path, help="default: the wheel's")
    parser.add_argument("--engine", choices=("dask", "local"), default="dask")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "many-bench")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    paths = crops(arguments.out / "pictures", arguments.pictures)
    pairs = neighbours(len(paths), arguments.pairs)
    where = arguments.out / "store"
    if where.exists():
        sys.exit(f"{where}: remove it first; a run with it would find everything done")
    client, close, pids = workers_of(arguments)
    watch = Watch(pids, arguments.kill_every)
    watch.start()
    cpu = os.times()
    report = run_pairs(
        paths, pairs, store=where, client=client, model=arguments.model, backend="cpu",
        precision="fp32", resolution=arguments.resolution, progress=watch.tell,
    )  # fmt: skip
    watch.over.set()
    watch.join()
    used = os.times()
    close()
    store = Store(where)
    keys = list(store.keys("pairs"))
    again = time.monotonic()
    second = run_pairs(
        paths, pairs, store=where, model=arguments.model, backend="cpu", precision="fp32",
        resolution=arguments.resolution,
    )  # fmt: skip
    driver, worker = (max(s[k] for s in watch.samples) for k in (1, 2))
    spent = used.user + used.system - cpu.user - cpu.system
    values = {
        "engine": arguments.engine,
        "pictures": len(paths),
        "pairs": len(pairs),
        "workers": arguments.workers,
        "resolution": arguments.resolution,
        "kills": len(watch.kills),
        "seconds": round(report.seconds, 1),
        "pairs_a_second": round(len(pairs) / report.seconds, 2),
        "files": len(keys),
        "lost": len(pairs) - len(keys),
        "computed_as_reported": report.computed,
        "found_of_killed_workers": len(pairs) - report.computed,
        "failed": len(report.failed),
        "leftovers": len(list(where.rglob(".part-*"))),
        "driver_mib": round(driver),
        "worker_mib": round(worker),
        "driver_cpu_ms_a_pair": round(1000 * spent / len(pairs), 2),
        "bytes": {kind: total for kind, (_, total) in sizes(store).items()},
        "second_run": {
            "seconds": round(time.monotonic() - again, 1),
            "computed": second.computed,
            "encoded": second.encoded,
        },
        "load": [round(v, 1) for v in os.getloadavg()],
    }
    (arguments.out / "result.json").write_text(json.dumps(values, indent=1) + "\n")
    (arguments.out / "samples.json").write_text(json.dumps([watch.samples, watch.rows, watch.kills]))
    title = (
        f"{len(paths)} pictures, {len(pairs):,} pairs, {arguments.workers} {arguments.engine} workers, "
        f"one killed every {arguments.kill_every:.0f} s: {len(keys):,} pairs in the store"
    )
    plot(arguments.out / "distributed.png", watch, len(pairs), title)
    print(json.dumps(values, indent=1))


if __name__ == "__main__":
    main()
