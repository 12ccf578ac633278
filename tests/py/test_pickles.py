# SPDX-License-Identifier: Apache-2.0
"""Pickles of earlier versions load: data/pickles_0_1_0.pickle is from 0.1.0, before its modules moved."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import mast3r_runtime as m3r
import mast3r_runtime.tensor as mt
from mast3r_runtime import errors
from mast3r_runtime._checkpoints import places
from mast3r_runtime.backends import _cpu, _mps

OLD = Path(__file__).parent / "data" / "pickles_0_1_0.pickle"


def test_pickles_of_0_1_0_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(places.bundled_model().parent)  # the engines name their model without a folder
    values = pickle.loads(OLD.read_bytes())
    kinds = {
        "Engine": m3r.Engine, "MPSEngine": _mps.MPSEngine, "CPUEngine": _cpu.CPUEngine,
        "GPUTensor": m3r.GPUTensor, "Features": m3r.Features, "Encoded": m3r.Features,
        "Transform": m3r.Transform, "config": m3r.MASt3RRuntimeConfig, "Runtime": m3r.Runtime,
        "spec": m3r.ModelSpec, "ModelStatus": m3r.ModelStatus, "stats": mt.Stats,
        "error": errors.ShapeError, "pair": m3r.Pair, "GPUInferenceResult": m3r.GPUInferenceResult,
        "InferenceResult": m3r.InferenceResult, "MatchResult": m3r.MatchResult,
    }  # fmt: skip
    assert {name: type(value) for name, value in values.items()} == kinds
    for name in ("Engine", "MPSEngine", "CPUEngine"):
        with values[name] as engine:
            assert engine.is_ready()
            assert repr(engine).startswith(f"{name}('auto', resolution=256, precision='fp32', num_threads=2")
    assert np.array_equal(values["GPUTensor"].numpy(), np.arange(6, dtype=np.float32).reshape(2, 3))
    assert values["Features"].numpy().shape == (4, 5)
    values["Runtime"].release()


def test_every_kind_pickles_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was loaded can be pickled anew, under the names of today."""
    monkeypatch.chdir(places.bundled_model().parent)
    values = pickle.loads(OLD.read_bytes())
    again = pickle.loads(pickle.dumps(values))
    assert {name: type(value) for name, value in again.items()} == {n: type(v) for n, v in values.items()}
