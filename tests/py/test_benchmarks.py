# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the benchmarks: work, turns, tables. Nothing here is timed."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from conftest import ROOT


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    names = ("common", "matching", "peers", "report", "scaling", "growth", "sizes")
    yield {n: importlib.import_module(n) for n in names}
    for n in names:
        sys.modules.pop(n, None)


@pytest.mark.parametrize(
    ("height", "width", "tera"), [(384, 512, 2.04), (336, 512, 1.76), (224, 224, 0.48), (512, 512, 2.81)]
)
def test_work_is_that_of_the_specification(
    bench: dict[str, ModuleType], height: int, width: int, tera: float
) -> None:
    got = bench["common"].pair_gflop("mast3r_vit_large", height, width) / 1e3
    assert got == pytest.approx(tera, rel=0.02)


def test_turns_alternate(bench: dict[str, ModuleType]) -> None:
    common, order = bench["common"], []

    class Peak:
        def ask(self) -> dict[str, float]:
            order.append("peak")
            return {"f32": 1.0}

    a = common.Contender("a", lambda: order.append("a"))
    b = common.Contender("b", lambda: order.append("b") or {"part": 0.5})
    peaks = common.take_turns("x", [a, b], 2, Peak(), pause=0)
    assert order == ["a", "b", "a", "b", "peak", "a", "b", "peak"] and len(peaks) == 2
    assert b.times["part"] == [0.5, 0.5] and len(a.times["total"]) == 2
    a.times["total"], b.times["total"] = [1.0, 4.0, 3.0], [2.0, 2.0, 6.0]
    row = b.row(a)
    assert row["ours_over_this"] == 0.5  # the median of 0.5, 2 and 0.5, and not of the medians
    assert row["total"]["median_s"] == 2 and row["total"]["p95_s"] == 6


def test_sizes_that_people_use(
    bench: dict[str, ModuleType], micro: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T33: four sizes, a pair, both ways and a sequence, each with its figures, all in one run."""
    sizes = bench["sizes"]
    assert sizes.SIZES == ((224, 224), (512, 288), (512, 384), (512, 512))
    counter = iter(range(0, 10_000, 3))
    monkeypatch.setattr(sizes, "meter", lambda: lambda: float(next(counter) % 7))

    class Peak:
        asked = 0

        def ask(self) -> dict[str, float]:
            self.asked += 1
            return {"f32": 100.0}

    peak = Peak()
    rows = sizes.measure(micro, "mast3r_tiny", 2, 2, peak, ((64, 64), (96, 64)), pause=0)
    kinds = ("pair", "pair both ways", "sequence of 8")
    assert [(r["width"], r["height"], r["kind"]) for r in rows] == [
        (w, 64, kind) for w in (64, 96) for kind in kinds
    ]
    assert peak.asked == 2
    for r in rows:
        assert len(r["total"]["all_s"]) == 2 and 0 < r["total"]["median_s"] <= r["total"]["p95_s"]
        assert r["gflops"] == pytest.approx(r["gflop"] / r["total"]["median_s"])
        shares = [r["gflop"] / t / 100 for t in r["total"]["all_s"]]
        assert min(shares) <= r["share_of_peak"] <= max(shares) and 0 <= r["joules"] < 7
    one, both, several = (r["gflop"] for r in rows[:3])
    encoder = bench["common"].encoder_gflop("mast3r_tiny", 64, 64)
    assert both == pytest.approx(2 * one - 2 * encoder)
    assert several == pytest.approx(7 * one - 6 * encoder)
    told = "\n".join(bench["report"]._sizes(rows))
    assert "| 96 x 64, sequence of 8 |" in told and "TFLOP/s" in told
    monkeypatch.setattr(sizes, "meter", lambda: lambda: None)
    rows = sizes.measure(micro, "mast3r_tiny", 2, 1, peak, ((64, 64),), pause=0)
    assert {r["joules"] for r in rows} == {None} and "not counted here" in "\n".join(
        bench["report"]._sizes(rows)
    )


def test_counts_of_threads(bench: dict[str, ModuleType]) -> None:
    counts = bench["scaling"].counts
    assert [counts(n) for n in (1, 2, 3, 6, 16)] == [
        [1],
        [1, 2],
        [1, 2, 3],
        [1, 2, 4, 6],
        [1, 2, 4, 8, 16],
    ]


def test_kernels_of_onednn(bench: dict[str, ModuleType]) -> None:
    """Products that ran are named, what was created or only moves data is not."""
    verbose = """onednn_verbose,v1,info,cpu,isa:Intel AVX-512 with AMX
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx10_1_512_amx,undef,src:bf16::blocked:ab::f0,,,64x1024:1024x1024,0.1
onednn_verbose,v1,primitive,create:cache_miss,cpu,convolution,jit:avx2,forward_inference,0.1
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,0.1"""
    assert bench["peers"].kernels(verbose) == "matmul brg_matmul:avx10_1_512_amx"
    assert bench["peers"].kernels("") == "no product of oneDNN's"


def test_descriptors_correspond(bench: dict[str, ModuleType]) -> None:
    a, b = bench["matching"].maps(48, 64, noise=0.0)
    assert a.shape == b.shape == (48, 64, 24) and a.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(a, axis=-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(a[:, 3:], b[:, :-3])


def test_sizes_are_multiples_of_the_patch(bench: dict[str, ModuleType]) -> None:
    for w in bench["growth"].WIDTHS:
        width, height = bench["growth"].four_to_three(w)
        assert width % 16 == 0 and height % 16 == 0 and abs(height / width - 0.75) < 0.05


def test_tables(bench: dict[str, ModuleType]) -> None:
    """Every section that a run may have, from figures as they come out of JSON."""

    def stat(v: float) -> dict[str, object]:
        return {"median_s": v, "p95_s": v, "min_s": v, "all_s": [v, v]}

    row = {
        "name": "mast3r-runtime fp32",
        "first_s": 1.0,
        "total": stat(0.5),
        "processor": stat(0.75),
        "encoder": stat(0.25),
        "gflops": 321.0,
        "share_of_peak": 0.8,
        "share_by_processor_time": 0.9,
        "peak": "f32",
        "ours_over_this": 1.0,
        "per_pair_s": 0.4,
        "of_a_single_pair": 0.8,
        "measured": "whole",
    }
    peer = row | {"name": "PyTorch", "total": stat(2.0), "ours_over_this": 0.25}
    point = {
        "best_s": 1.0,
        "processor_s": 2.0,
        "peak_mb": 300.0,
        "before_mb": 100.0,
        "load_s": 0.1,
        "first_s": 3.0,
    }
    start = dict.fromkeys(
        ("import_s", "load_s", "first_call_s", "second_call_s", "total_s", "peak_mb"), 0.125
    )
    size = {"width": 512, "height": 384}
    result = {
        "machine": {
            "cpu": "a processor",
            "instruction_sets": "avx2",
            "hypervisor": "",
            "cores": "2",
            "system": "a system",
            "python": "3",
        },
        "thread_count": 2,
        "quick": True,
        "load_average": [0.5, 0, 0],
        "load_average_after": [0.25, 0, 0],
        "network": size
        | {
            "variant": "v",
            "rounds": 2,
            "pair": [row, peer],
            "sequence": [row, peer],
            "retrieval": [row],
            "pair_gflop": 2000.0,
            "peak_gflops": {"f32": 400.0, "f32_cpu": 200.0},
            "isa": "avx512",
        },
        "sizes": [row | {"joules": joules} for joules in (None, 12.5)],
        "memory": {"ours": point},
        "threads": size
        | {
            "variant": "v",
            "counts": {n: {"rows": [row, peer], "products": {"PyTorch": "tiles"}} for n in ("1", "2")},
        },
        "matching": size | {"dim": 24, "full": [row, peer], "fast": [row]},
        "small": {
            "pair": size | {"rows": [row]},
            "calls": {"a call": {"median_us": 1.5, "p95_us": 2.0, "min_us": 1.0}},
        },
        "start": [
            {
                "import": {"numpy_s": 0.1, "total_s": 0.2},
                "model": "m",
                "size": [512, 384],
                "first_result": {"no cache": start},
            }
        ],
        "growth": {
            "sizes": [point | size | {"contender": "ours"}],
            "images": [point | {"images": 2, "contender": "ours"}],
        },
    }
    text = bench["report"].text(json.loads(json.dumps(result)))
    assert set(bench["report"].SECTIONS) < set(result)
    for part in (
        "no figures to quote",
        "| PyTorch | 2 |",
        "80% of f32",
        "| PyTorch | 2 | 2 |",
        "| PyTorch | tiles |",
        "| 80% | 12.5 |",
        "| 0.25 |",
        "| 512x384 | ours | 1 | 2 | 200 |",
    ):
        assert part in text, part
    cells = 0
    for line in text.splitlines():  # every row has as many cells as its head
        assert not line.startswith("|") or cells in (0, line.count("|")), line
        cells = line.count("|") if line.startswith("|") else 0


def test_bounds_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure beyond its bound is said to be, and one that is missing is not taken for kept."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "cuda"))
    measure = importlib.import_module("measure")
    rows = {
        "network": [{"what": "pair", "median_ms": 7.5}, {"what": "batch", "median_ms": 48.0}],
        "torch": [{"median_ms": 39.5}, {"median_ms": 5.0}],
        "memory": [{"failed_step": "stopped after 60 s", "error": "no\nend"}],
    }
    values = {what: value for what, _, value in measure.bounds(rows)}
    assert values["one pair beside PyTorch's best, ratio"] == 1.5
    assert values["a pair of eight, bf16, ms"] == 6.0
    text = measure.table(rows, rehearse=False)
    assert "| one pair, bf16, ms | 11 | 7.5 | ok |" in text
    assert "| a pair of eight, bf16, ms | 5.5 | 6 | **missed** |" in text
    assert "| growth of memory over the pairs, MB | 1 | not shown | |" in text
    assert "memory: stopped after 60 s" in text
    sys.modules.pop("measure", None)
