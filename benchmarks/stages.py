# SPDX-License-Identifier: Apache-2.0
"""The network: a pair and its stages, a sequence of eight, retrieval, peak memory."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

import peers
from common import VARIANTS, Contender, Peak, encoder_gflop, in_child, pair_gflop, pictures, take_turns

SEQUENCE = 8


def measure(
    names: list[str], variant: str, path: Path, size: tuple[int, int], threads: int, rounds: int, peak: Peak
) -> dict[str, Any]:
    """Pair, sequence and retrieval with all contenders in memory."""
    width, height = size
    images = pictures(height, width, SEQUENCE)
    head = peers.write_head(path.with_name(f"{variant}_retrieval.safetensors"), VARIANTS[variant]["enc_dim"])
    all_of = working(names, path, images, threads)
    result: dict[str, Any] = {"variant": variant, "width": width, "height": height, "rounds": rounds}

    turn = [Contender(p.name, p.pair) for p in all_of]
    peaks = take_turns("pair", turn, rounds, peak)
    result["pair"] = rows(turn, pair_gflop(variant, height, width), peaks)
    result["pair_gflop"] = pair_gflop(variant, height, width)
    result["peak_gflops"] = {
        k: statistics.median(p[k] for p in peaks) for k in peaks[0] if k not in ("isa", "threads")
    }
    result["isa"] = peaks[0]["isa"]

    # Seven pairs a turn: few rounds, and no warming up after the pairs. Compiled networks
    # are left out here and below, as they would be compiled again for one picture.
    turn = [Contender(p.name, p.sequence) for p in all_of if not p.name.endswith("compiled")]
    take_turns(f"sequence of {SEQUENCE}", turn, max(1, rounds // 4), warm=True)
    result["sequence"] = [c.row(turn[0]) for c in turn]
    singles = {row["name"]: row["total"]["median_s"] for row in result["pair"]}
    for row in result["sequence"]:
        row["per_pair_s"] = row["total"]["median_s"] / (SEQUENCE - 1)
        row["of_a_single_pair"] = row["per_pair_s"] / singles[row["name"]]

    able = [p for p in all_of if hasattr(p, "retrieval") and not p.name.endswith("compiled")]
    for p in able:
        p.load_retrieval(head)
    turn = [Contender(p.name, p.retrieval) for p in able]
    peaks = take_turns("retrieval", turn, rounds, peak)
    result["retrieval"] = rows(turn, encoder_gflop(variant, height, width), peaks)
    for p in all_of:
        p.close()
    return result


def working(names: list[str], path: Path, images: list[Any], threads: int) -> list[Any]:
    """The contenders, without a compiled one that cannot be compiled here."""
    out = []
    for n in names:
        peer = peers.make(n, path, images, threads)
        if n.endswith("compiled"):
            try:
                peer.pair()
            except Exception as e:  # whatever a compiler may raise
                print(f"{n} is left out: {str(e).splitlines()[0]}", file=sys.stderr)
                continue
        out.append(peer)
    return out


def rows(turn: list[Contender], gflop: float, peaks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with GFLOP/s and their share of the peak of the same round.

    The share by processor time compares GFLOP per processor second on both sides: on a
    machine with other work it is the one to look at.
    """
    out = []
    for c in turn:
        row = c.row(turn[0])
        kind = "bf16" if "bf16" in c.name and "bf16" in peaks[0] else "f32"
        row["peak"] = kind
        row["gflops"] = gflop / row["total"]["median_s"]
        row["share_of_peak"] = statistics.median(
            gflop / t / p[kind] for t, p in zip(c.times["total"], peaks, strict=True)
        )
        row["share_by_processor_time"] = statistics.median(
            gflop / t / p[f"{kind}_cpu"] for t, p in zip(c.times["processor"], peaks, strict=True)
        )
        out.append(row)
    return out


def memory(names: list[str], path: Path, size: tuple[int, int], threads: int) -> dict[str, Any]:
    """Peak resident memory and first-call time, each contender in a process of its own."""
    return {n: in_child("pair", contender=n, path=path, size=size, threads=threads, count=1) for n in names}
