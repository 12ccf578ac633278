# SPDX-License-Identifier: Apache-2.0
"""The processor's energy, from a folder that looks like Linux's powercap."""

from __future__ import annotations

from pathlib import Path

import pytest

from mast3r_runtime._engine import timing
from mast3r_runtime._engine.energy import meter
from mast3r_runtime.backends._cpu import CPUEngine


def counter(root: Path, name: str, microjoules: int, most: int = 10**9) -> None:
    folder = root / name
    folder.mkdir(exist_ok=True)
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    (folder / "max_energy_range_uj").write_text(f"{most}\n")


def test_packages_add_up_and_wrap(tmp_path: Path) -> None:
    counter(tmp_path, "intel-rapl:0", 5_000_000)
    counter(tmp_path, "intel-rapl:1", 999_000_000)
    counter(tmp_path, "intel-rapl:0:0", 7)  # a part of the first, which has it already
    joules = meter(tmp_path)
    assert joules() == 0
    counter(tmp_path, "intel-rapl:0", 7_500_000)
    counter(tmp_path, "intel-rapl:1", 1_000_000)  # started again at zero after 1000 J
    counter(tmp_path, "intel-rapl:0:0", 10**8)
    assert joules() == pytest.approx(2.5 + 2.0)


def test_unknown_is_none(tmp_path: Path) -> None:
    assert meter(tmp_path)() is None and meter(tmp_path / "nowhere")() is None
    counter(tmp_path, "intel-rapl:0", 5)
    joules = meter(tmp_path)
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("?")
    assert joules() is None


def test_benchmark_says_it_where_it_is_known(engine: CPUEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "meter", lambda: lambda: None)
    assert "joules" not in timing.benchmark(engine, 2, 0, 64)
    monkeypatch.setattr(timing, "meter", lambda: lambda: 12.0)
    assert timing.benchmark(engine, 2, 0, 64)["joules"] == 6
