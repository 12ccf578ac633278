# SPDX-License-Identifier: Apache-2.0
"""Profiles and costs from Python and from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import noise

import mast3r_runtime as m3r
from mast3r_runtime import cli, errors
from mast3r_runtime.backends._cpu import CPUEngine


def test_profile(engine: CPUEngine, rng: np.random.Generator) -> None:
    pair = noise(rng, 64, 96), noise(rng, 96, 64)
    report = m3r.profile(engine, *pair, iterations=2, preprocess=False)
    names = [stage["name"] for stage in report["stages"]]
    assert names == ["encoder", "encoder2", "decoder", "head1", "head2"]
    assert report["measured"] and report["ops_measured"] and report["backend"] == "cpu"
    stages = sum(stage["ms"] for stage in report["stages"])
    assert stages > 0 and abs(stages - report["device_ms"]) < 0.5 * report["device_ms"] + 5
    assert {"attention", "linear", "layer_norm"} <= {op["name"] for op in report["ops"]}
    with pytest.raises(errors.ArgumentError, match="iterations=0"):
        m3r.profile(engine, *pair, iterations=0)
    with pytest.raises(errors.ImageError):
        m3r.profile(engine, pair[0][:50], pair[1], preprocess=False)


def test_cost(micro: Path) -> None:
    cost = m3r.estimate_cost(micro, size=(64, 96), precision="fp32")
    assert [graph["name"] for graph in cost["graphs"]] == ["encoder", "decoder", "head1", "head2"]
    assert sum(graph["flops"] for graph in cost["graphs"]) == cost["total"]["flops"] > 1e8
    large = m3r.estimate_cost(variant="mast3r_vit_large", size=(384, 512))
    assert abs(large["total"]["flops"] / 1e9 - 2037) < 20  # the published count
    slow = m3r.estimate_cost(variant="mast3r_vit_large", size=(384, 512), tflops=2.6, gb_per_s=68)
    assert slow["total"]["predicted_ms"] > 2 * large["total"]["predicted_ms"]
    for variant, given in (("mast3r_small", {}), ("mast3r_tiny", {"variant": "mast3r_tiny"})):  # the wheel's
        assert m3r.estimate_cost(**given)["variant"] == variant
    for bad in ({"variant": "nothing"}, {"variant": "mast3r_vit_large", "precision": "int8"}):
        with pytest.raises(errors.ArgumentError):
            m3r.estimate_cost(**bad)
    with pytest.raises(errors.ShapeError):
        m3r.estimate_cost(micro, size=(64, 90))
    with pytest.raises(errors.ModelNotFoundError):
        m3r.estimate_cost(micro.parent / "nowhere")


def test_commands(micro: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["profile", "--model", str(micro), "--size", "96x64", "--iterations", "2"]
    assert cli.main([*options, "--backend", "cpu"]) == 0
    text = capsys.readouterr().out
    assert "96 x 64, median of 2" in text and "attention" in text and "shares" not in text
    assert cli.main([*options, "--static", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["width_1"] == 96 and values["tflops"] == 7.5
    assert cli.main(["profile", "--static", "--variant", "dune_vit_small_336", "--tflops", "2"]) == 0
    text = capsys.readouterr().out
    assert "dune_vit_small_336 in fp16: 336 x 252" in text and "decoder" in text
    assert cli.main(["profile", "--iterations", "0"]) == 1
    with pytest.raises(SystemExit):
        cli.main(["profile", "--size", "512"])


def test_wait(micro: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It says who it is and goes on at Enter."""
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    options = ["--model", str(micro), "--size", "96x64", "--iterations", "1", "--backend", "cpu", "--json"]
    assert cli.main(["profile", "--wait", *options]) == 0
    printed = capsys.readouterr()
    assert "press Enter" in printed.err and json.loads(printed.out)["iterations"] == 1


def test_check_metal_without_metal() -> None:
    """On this machine there is a reason, and nothing to check; on a Mac everything agrees."""
    report = m3r.check_metal()
    assert report["metal"] or report["reason"]
    assert all(check["ok"] for check in report["checks"])
