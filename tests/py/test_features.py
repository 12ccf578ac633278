# SPDX-License-Identifier: Apache-2.0
"""Encoder features as objects, outputs on demand, tensors handed to others."""

from __future__ import annotations

import pickle
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from conftest import assert_same, noise

import mast3r_runtime as m3r
from mast3r_runtime import errors
from mast3r_runtime.backends._cpu import CPUEngine


def test_decoding_features_is_inference(engine: CPUEngine, rng: np.random.Generator) -> None:
    a, b = noise(rng, 64, 96), noise(rng, 100, 60)
    want = engine.infer_gpu(a, b)
    one, two = engine.encode(a), engine.encode(b)
    got = engine.decode(one, two)
    assert_same(want, got)
    assert (got.transform_1, got.transform_2) == (want.transform_1, want.transform_2)
    assert one.shape == (4 * 6, 64) and one.numpy().dtype == np.float32
    assert_same(engine.infer_gpu(b, a), engine.decode(two, one))  # any order, and again
    both = engine.encode_batch([a, b])
    np.testing.assert_array_equal(both[1].numpy(), two.numpy())
    assert engine.encode_batch([]) == []


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_features_travel(
    micro: Path, engine: CPUEngine, rng: np.random.Generator, tmp_path: Path, suffix: str
) -> None:
    """Saved by one engine, decoded by another; the transform travels too."""
    a, b = noise(rng, 80, 120), noise(rng, 64, 96)
    path = tmp_path / f"a{suffix}"
    engine.encode(a).save(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    loaded = m3r.Features.load(path)
    with CPUEngine("auto", 96, "fp32", 2) as other:
        other.load(micro)
        got = other.decode(loaded, pickle.loads(pickle.dumps(engine.encode(b))))
    assert_same(engine.infer_gpu(a, b), got)
    assert got.transform_1.original_width == 120


def test_feature_files_that_cannot_be(engine: CPUEngine, rng: np.random.Generator, tmp_path: Path) -> None:
    good = tmp_path / "good.safetensors"
    engine.encode(noise(rng, 64, 96)).save(good)
    for name, data in {
        "cut.safetensors": good.read_bytes()[:-40],
        "empty.safetensors": b"",
        "noise.npz": b"PK\3\4 no archive",
        "huge.safetensors": b"\xff" * 64,
    }.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(errors.WeightsError, match=name):
            m3r.Features.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        m3r.Features.load(tmp_path / "none.npz")
    with pytest.raises(ValueError, match="safetensors"):
        m3r.Features.load(good).save(tmp_path / "features.txt")


def test_features_that_do_not_fit(engine: CPUEngine, rng: np.random.Generator) -> None:
    features = engine.encode(noise(rng, 64, 96))
    wrong = m3r.Features(m3r.GPUTensor.from_numpy(np.zeros((24, 32), np.float32)), features.transform)
    with pytest.raises(errors.ShapeError, match="features"):
        engine.decode(features, wrong)
    with pytest.raises(errors.ShapeError, match="ndarray"):
        engine.decode(features, np.zeros((24, 64)))
    with CPUEngine("auto", 96) as empty, pytest.raises(errors.NotLoadedError):
        empty.decode(features, features)
    with CPUEngine("auto", 96) as empty, pytest.raises(errors.NotLoadedError):
        empty.encode(noise(rng, 64, 96))


def test_only_what_is_asked_for(engine: CPUEngine, rng: np.random.Generator) -> None:
    a, b = noise(rng, 64, 96), noise(rng, 64, 96)
    whole = engine.infer_gpu(a, b)
    points = engine.infer_gpu(a, b, only=("pts3d", "conf"))
    assert_same(whole, points, ["pts3d_1", "pts3d_2", "conf_1", "conf_2"])
    assert points.has("pts3d") and not points.has("desc")
    left_out = points.desc_1
    assert not left_out.is_valid and left_out.shape == (0, 0, 0) and left_out.nbytes == 0
    with pytest.raises(errors.ShapeError, match="left out"):
        left_out.numpy()
    with pytest.raises(errors.ShapeError, match="left out"):
        left_out.copy_to(np.empty((0, 0, 0), np.float32))
    with pytest.raises(errors.ShapeError, match="only"):
        engine.match(points)
    arrays = points.numpy()
    assert (arrays.height, arrays.width) == (64, 96) and not arrays.has("desc") and arrays.desc_1.size == 0
    with pytest.raises(errors.ShapeError, match="only"):
        engine.match(arrays)

    described = engine.infer_gpu(a, b, only="desc")
    assert_same(whole, described, ["desc_1", "desc_2"])
    matches = engine.match(described, confidence_threshold=0.0)
    np.testing.assert_array_equal(
        matches.idx_1, engine.match(whole, confidence_threshold=0.0, min_weight=0.0).idx_1
    )
    assert np.isnan(matches.pts3d_1).all()

    assert not engine.infer_batch_pipelined([a, b], only=["conf"])[0].has("pts3d")
    assert not engine.infer_symmetric(a, b, only=["conf"]).view_12.desc.is_valid
    decoded = engine.decode(engine.encode(a), engine.encode(b), only={"desc_conf"})
    assert_same(whole, decoded, ["desc_conf_1", "desc_conf_2"])
    for bad in ("points", ["conf", "colour"], []):
        with pytest.raises(errors.ArgumentError, match="only"):
            engine.infer_gpu(a, b, only=bad)


def test_torch_takes_tensors(engine: CPUEngine, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch", reason="torch is not a dependency; tried where it is installed")
    result = engine.infer_gpu(noise(rng, 64, 96), noise(rng, 64, 96))
    shared = torch.from_dlpack(result.pts3d_1)
    assert shared.data_ptr() == result.pts3d_1.numpy().ctypes.data
    whole = result.to_torch()
    assert set(whole) >= {"pts3d_1", "desc_conf_2"} and whole["conf_1"].shape == (64, 96)


def test_dlpack(engine: CPUEngine, rng: np.random.Generator) -> None:
    tensor = engine.infer_gpu(noise(rng, 64, 96), noise(rng, 64, 96)).conf_1
    array = np.from_dlpack(tensor)
    assert array.ctypes.data == tensor.numpy().ctypes.data  # no copy
    assert tensor.__dlpack_device__() == (1, 0)


class FakeTensor:
    """As much of a torch tensor as to_torch asks for; torch itself is not a dependency."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.device = array, "none"

    def to(self, device: str) -> FakeTensor:
        self.device = device
        return self


def test_to_torch_hands_over_the_memory(
    engine: CPUEngine, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which arrays go to torch.from_numpy under which names, with torch played by a stand-in."""
    stand_in = types.ModuleType("torch")
    stand_in.from_numpy = FakeTensor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    a, b = noise(rng, 64, 96), noise(rng, 64, 96)
    result = engine.infer_gpu(a, b)
    got = result.to_torch("mps")
    assert set(got) == {f"{n}_{v}" for n in ("pts3d", "conf", "desc", "desc_conf") for v in (1, 2)}
    assert got["conf_2"].array is result.conf_2.numpy() and got["conf_2"].device == "mps"
    assert set(engine.match(result).to_torch()) >= {"idx_1", "pts3d_2", "confidence"}
    both = engine.infer_symmetric(a, b, only=["pts3d"])
    assert set(both.to_torch()) == {"pts3d_11", "pts3d_21", "pts3d_22", "pts3d_12"}
