# SPDX-License-Identifier: Apache-2.0
"""The same pair with several numbers of threads, each in a process of its own.

A process is bound to as many processors as it has threads, where the system can do that:
so every contender gets the same cores, and none is helped by one that is idle.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from common import Contender, Peak, in_child, machine, make_weights, num, pictures, table, take_turns


def counts(most: int) -> list[int]:
    """1, 2, 4, ... and most."""
    return sorted({min(1 << i, most) for i in range(most.bit_length() + 1)})


def measure(
    names: list[str], path: Path, size: tuple[int, int], threads: list[int], rounds: int
) -> dict[str, Any]:
    """Rows of all contenders for each number of threads."""
    return {
        str(n): in_child("scaling", names=names, path=path, size=size, threads=n, rounds=rounds)
        for n in threads
    }


def bind(threads: int) -> bool:
    """Bind this process to as many processors, where that can be done, and say whether it was."""
    if not hasattr(os, "sched_setaffinity") or threads > len(os.sched_getaffinity(0)):
        return False
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    return True


def at(names: list[str], path: Path, size: list[int], threads: int, rounds: int) -> dict[str, Any]:
    """Contenders taking turns with some number of threads; for a child process.

    With no rounds each runs once, and that counts: for numbers of threads that take long.
    """
    bound = bind(threads)
    import peers

    images = pictures(size[1], size[0])
    turn, infos = [], {}
    for name in names:
        start = time.perf_counter()
        peer = peers.make(name, path, images, threads)
        turn.append(Contender(peer.name, peer.pair))
        infos[peer.name] = getattr(peer, "products", "")
        print(f"{peer.name}: loaded in {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    peak = Peak(threads) if Peak.possible() else None  # bound as this process is
    peaks = take_turns(f"{threads} threads", turn, max(rounds, 1), peak, warm=rounds == 0, pause=0.1)
    if peak is not None:
        peak.close()
    base = {c.name: c for c in turn}
    first = next(iter(base.values()))
    return {"rows": [c.row(first) for c in turn], "bound": bound, "products": infos, "peaks": peaks}


def lines(r: dict[str, Any], what: str = "seconds a pair") -> list[str]:
    """A table: a row for each contender, a column for each number of threads."""
    names = list(dict.fromkeys(row["name"] for part in r.values() for row in part["rows"]))
    cell = {(row["name"], n): num(row["total"]["median_s"]) for n, part in r.items() for row in part["rows"]}
    return table(
        (what, *(f"{n} thread{'s' * (n != '1')}" for n in r)),
        ((name, *(cell.get((name, n), "") for n in r)) for name in names),
    )


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("--variant", default="mast3r_vit_large")
    p.add_argument("--weights", type=Path, required=True, help="folder for the made-up weights")
    p.add_argument("--contenders", default="ours,ours-bf16,torch,torch-bf16,onnx")
    p.add_argument("--threads", default=",".join(map(str, counts(os.cpu_count() or 1))))
    p.add_argument("--size", default="512x384")
    p.add_argument("--rounds", default="2", help="one for all, or one for each number of threads")
    p.add_argument("--out", type=Path, required=True, help="a JSON file")
    args = p.parse_args()
    width, height = map(int, args.size.split("x"))
    args.weights.mkdir(parents=True, exist_ok=True)
    path = make_weights(args.variant, args.weights)
    threads = [int(n) for n in args.threads.split(",")]
    rounds = [int(n) for n in args.rounds.split(",")]
    result: dict[str, Any] = {
        "machine": machine(),
        "variant": args.variant,
        "size": [width, height],
        "threads": {},
    }
    for n, some in zip(threads, rounds * len(threads) if len(rounds) == 1 else rounds, strict=False):
        result["threads"] |= measure(args.contenders.split(","), path, (width, height), [n], some)
        args.out.write_text(json.dumps(result, indent=1))  # the next may fail
        print("\n".join(lines(result["threads"])), flush=True)


if __name__ == "__main__":
    main()
