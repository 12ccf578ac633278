# SPDX-License-Identifier: Apache-2.0
"""The executor of small graphs from Python. What it computes is tested in Go, device by device."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mast3r_runtime.tensor as mt
from mast3r_runtime import errors


def layer() -> mt.Graph:
    """gelu(x w + r), and its softmax."""
    graph = mt.Graph()
    graph.add("h", "MatMul", "x", "w").add("s", "Add", "h", "r").add("y", "Gelu", "s")
    return graph.add("p", "Softmax", "y").output("y", "p")


@pytest.fixture
def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: rng.normal(size=(4, 4)).astype(np.float32) for name in "xwr"}


@pytest.mark.parametrize("optimize", [True, False])
def test_graph_runs(inputs: dict[str, np.ndarray], optimize: bool) -> None:
    with mt.Executor(threads=2) as executor:
        out = executor.run(layer(), inputs, optimize=optimize)
        h = inputs["x"].astype(float) @ inputs["w"] + inputs["r"]
        y = h * 0.5 * (1 + np.vectorize(math.erf)(h / math.sqrt(2)))
        p = np.exp(y) / np.exp(y).sum(-1, keepdims=True)
        assert list(out) == ["y", "p"]
        np.testing.assert_allclose(out["y"], y, atol=1e-5)
        np.testing.assert_allclose(out["p"], p, atol=1e-5)
        assert executor.stats().cpu == (2 if optimize else 4), "operations: fused into one, and the softmax"


def test_reasons_and_thresholds(inputs: dict[str, np.ndarray]) -> None:
    """What is meant for the GPU and runs on the CPU is counted with its reason."""
    with mt.Executor() as executor:
        assert executor.stats().thresholds["MatMul"] == 500
        executor.run(layer(), inputs)
        assert not executor.stats().fallbacks, "32 elements are below every threshold"
        executor.set_thresholds({"FusedLinearAddGelu": 47})
        executor.run(layer(), inputs)
        stats = executor.stats()
        assert dict(stats.thresholds) == {"FusedLinearAddGelu": 47}
        if stats.gpu == 0:
            (reason,) = stats.fallbacks
            assert stats.fallbacks[reason] == 1 and "metal" in reason.lower()
        executor.calibrate()
        with pytest.raises(errors.ArgumentError, match="Sinh"):
            executor.set_thresholds({"Sinh": 3})
        with pytest.raises(errors.ArgumentError, match="-1"):
            executor.set_thresholds({"MatMul": -1})
        assert dict(executor.stats().thresholds)["FusedLinearAddGelu"], "a refused table changes nothing"


def test_errors_name_the_node(inputs: dict[str, np.ndarray]) -> None:
    with mt.Executor() as executor:
        for graph, match in (
            (mt.Graph().add("a", "Sinh", "x").output("a"), "Sinh"),
            (mt.Graph().add("a", "MatMul", "x").output("a"), "1 operands, want 2"),
            (mt.Graph().add("a", "Gelu", "b").add("b", "Gelu", "a").output("a"), "depends on itself"),
            (mt.Graph().add("a", "Gelu", "x"), "no output"),
            (mt.Graph().add("a", "Gelu", "x").output("b"), "no node"),
            (mt.Graph().add("a", "Gelu", "x").add("a", "Gelu", "x").output("a"), "two nodes"),
            (mt.Graph().add("a", "Gelu", "nowhere").output("a"), "nowhere"),
        ):
            with pytest.raises(errors.ArgumentError, match=match):
                executor.run(graph, inputs)
        with pytest.raises(errors.ShapeError, match="node .y"):
            product = mt.Graph().add("y", "MatMul", "x", "w").output("y")
            executor.run(product, {"x": np.ones((2, 3)), "w": np.ones((2, 3))})
        with pytest.raises(errors.ArgumentError, match="dimensions"):
            executor.run(layer(), {**inputs, "x": np.ones((1,) * 9)})
    with pytest.raises(errors.ClosedError):
        executor.run(layer(), inputs)
    executor.close()


def test_sizes_at_the_edge() -> None:
    """No elements, no dimensions, and more outputs than usual."""
    graph = mt.Graph()
    for i in range(40):
        graph.add(f"y{i}", "Add", "x", "x").output(f"y{i}")
    with mt.Executor() as executor:
        out = executor.run(graph, {"x": np.arange(3)})
        assert len(out) == 40 and out["y39"].tolist() == [0, 2, 4]
        empty = executor.run(mt.Graph().add("y", "Add", "x", "x").output("y"), {"x": np.ones((0, 3))})
        assert empty["y"].shape == (0, 3)
