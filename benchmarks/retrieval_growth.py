#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ASMK index and the search of pairs over made-up collections of growing size.

CPU time and memory of building the index and of looking pictures up, without a matrix of scores;
table and JSON go to build/retrieval-growth/. Each picture has 32 features of 64 numbers, of which
most are those of the place that 20 pictures see; the codebook has 2048 words. Above
``--sample`` pictures, so many are looked up, and the time for all is that times the rest.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from mast3r_runtime._commands import synthetic
from mast3r_runtime._pairs.graph import BLOCK, retrieval_pairs
from mast3r_runtime._store import safetensors
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.retrieval import HostArray, RetrievalResult

ROOT = Path(__file__).resolve().parents[1]
WORDS, DIM, FEATURES, PLACE = 2048, 64, 32, 20


def picture(words: np.ndarray, number: int) -> RetrievalResult:
    """Features of a place that 20 pictures see, and some of its own."""
    shared, made = np.random.default_rng(number // PLACE), np.random.default_rng(1_000_000 + number)
    seen = words[shared.integers(0, len(words), FEATURES)] + shared.normal(0, 0.7, (FEATURES, DIM))
    own = words[made.integers(0, len(words), FEATURES)] + made.normal(0, 0.7, (FEATURES, DIM))
    both = np.where(made.random((FEATURES, 1)) < 0.7, seen, own)
    features = (both + made.normal(0, 0.3, (FEATURES, DIM))).astype(np.float32)
    attention = np.linalg.norm(features, axis=1).astype(np.float32)
    total = features.sum(0) / np.linalg.norm(features.sum(0))
    return RetrievalResult(*(np.ascontiguousarray(a).view(HostArray) for a in (features, attention, total)))


def resident() -> float:
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def measure(engine: CPUEngine, book: Path, words: np.ndarray, count: int, sample: int) -> dict:
    before = resident()
    with engine.open_index(book, FEATURES) as index:
        started = time.process_time()
        for number in range(count):
            index.add(picture(words, number))
        build = time.process_time() - started
        held = resident() - before
        started = time.process_time()
        peak = [0.0]
        if count <= sample:

            def rows(numbers):
                out = index.score([picture(words, n) for n in numbers])
                peak[0] = max(peak[0], resident())
                return out

            pairs, _ = retrieval_pairs(count, "retrieval-20-10", rows)
            asked, found = count + 20, len(pairs)
            right = sum(i // PLACE == j // PLACE for i, j in pairs)
        else:
            numbers = np.random.default_rng(5).choice(count, sample, replace=False)
            right = found = 0
            for at in range(0, sample, BLOCK):
                own = numbers[at : at + BLOCK]
                scores = index.score([picture(words, int(n)) for n in own])
                peak[0] = max(peak[0], resident())
                for n, row in zip(own, scores):
                    best = [j for j in np.argpartition(-row, 10)[:11] if j != n][:10]
                    found += len(best)
                    right += sum(int(j) // PLACE == int(n) // PLACE for j in best)
            asked = sample
        each = (time.process_time() - started) / asked
    return {
        "pictures": count,
        "build_s": round(build, 2),
        "index_mib": round(held, 1),
        "index_kib_a_picture": round(1024 * held / count, 2),
        "looked_up": asked,
        "ms_a_picture": round(1000 * each, 3),
        "all_s": round(each * (count + 20), 1),
        "search_mib": round(peak[0] - before - held, 1),
        "matrix_mib": round(4 * count * count / 2**20),
        "of_the_same_place": round(right / found, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 3000, 10_000, 30_000, 100_000])
    parser.add_argument("--sample", type=int, default=3000)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "retrieval-growth")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    words = np.random.default_rng(1).normal(size=(WORDS, DIM)).astype(np.float32)
    book = arguments.out / "codebook.safetensors"
    book.write_bytes(safetensors.pack({"centroids": words}))
    model = arguments.out / "micro.safetensors"
    synthetic.write(model)
    rows = []
    with CPUEngine("auto", 64, "fp32", 1) as engine:
        engine.load(model)
        for count in arguments.sizes:
            rows.append(measure(engine, book, words, count, arguments.sample))
            print(json.dumps(rows[-1]), flush=True)
    (arguments.out / "result.json").write_text(json.dumps(rows, indent=1) + "\n")
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(f"{row[n]:,}" for n in names) + " |" for row in rows]
    (arguments.out / "table.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
