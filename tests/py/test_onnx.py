# SPDX-License-Identifier: Apache-2.0
"""The exported network in ONNX Runtime against the engine it came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, noise

import mast3r_runtime
from mast3r_runtime import errors
from mast3r_runtime._engine.onnx import OnnxNetwork
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.cli import main

ort = pytest.importorskip(
    "onnxruntime", reason="onnxruntime is not installed: pip install 'mast3r-runtime[test]'"
)

NAMES = {"points": "pts3d", "conf": "conf", "desc": "desc", "desc_conf": "desc_conf"}


def run(model: Path, *images: np.ndarray) -> dict[str, np.ndarray]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 2
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    feeds = {f"image{i}": image[None] for i, image in enumerate(images, 1)}
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, feeds)))


def worst(engine: CPUEngine, model: Path, *images: np.ndarray) -> float:
    """The largest relative error (L2) of any output."""
    got = run(model, *images)
    want = engine.infer_gpu(*images, preprocess=False)
    errors_ = []
    for onnx, ours in NAMES.items():
        for view in (1, 2):
            a, b = got[f"{onnx}{view}"][0], getattr(want, f"{ours}_{view}").numpy()
            assert a.shape == b.shape
            errors_.append(float(np.linalg.norm(a - b) / np.linalg.norm(b)))
    return max(errors_)


@pytest.mark.parametrize(("half", "limit"), [(False, 2e-5), (True, 2e-2)])
def test_micro(engine: CPUEngine, rng: np.random.Generator, tmp_path: Path, half: bool, limit: float) -> None:
    """Unequal views, in float32 and with weights rounded to float16."""
    model = tmp_path / "micro.onnx"
    files = engine.export_onnx(model, height=64, width=96, height2=48, width2=80, half=half)
    assert files == [model, tmp_path / "micro.onnx.data"] and all(f.stat().st_size > 1000 for f in files)
    got = worst(engine, model, noise(rng, 64, 96), noise(rng, 48, 80))
    assert got < limit
    if half:  # the weights are f16 and really half the size; and the rounding is seen
        whole = engine.export_onnx(tmp_path / "whole.onnx", 64, 96, 48, 80)[1]
        assert files[1].stat().st_size < 0.6 * whole.stat().st_size and got > 1e-6


@pytest.mark.parametrize(("half", "limit"), [(False, 2e-5), (True, 2e-2)])
def test_reference_outputs(engine: CPUEngine, tmp_path: Path, half: bool, limit: float) -> None:
    """The published reference's own outputs, without this engine between."""
    folder = Path(mast3r_runtime.__file__).parent / "selfcheck"
    images = [mast3r_runtime.read_image(folder / f"view_{i}.png") for i in (1, 2)]
    model = tmp_path / "micro.onnx"
    engine.export_onnx(model, *images[0].shape[:2], *images[1].shape[:2], half=half)
    got = run(model, *images)
    with np.load(folder / "landscape.npz") as golden:
        for onnx, ours in NAMES.items():
            for view in (1, 2):
                want = golden[f"{ours}_{view}"]
                error = np.linalg.norm(got[f"{onnx}{view}"][0, ::3, ::3] - want) / np.linalg.norm(want)
                assert error < limit, (onnx, view)


def test_model_of_the_wheel(tmp_path: Path, rng: np.random.Generator) -> None:
    with CPUEngine("auto", 128, "fp32", 2) as engine:
        engine.load()
        model = engine.export_onnx(tmp_path / "tiny.onnx")[0]  # its own size at 4:3
        assert worst(engine, model, noise(rng, 96, 128), noise(rng, 96, 128)) < 1e-4


def test_dune(tmp_path: Path, rng: np.random.Generator) -> None:
    """A small DUNE: patches of 14, registers, interpolated positions."""
    model = ROOT.parent / "shared" / "golden" / "dune_micro"
    if not (model / "encoder.safetensors").exists():
        pytest.skip(f"no {model}: the DUNE model is part of the reference data")
    with CPUEngine("auto", 0, "fp32", 2) as engine:
        engine.load(model)
        path = engine.export_onnx(tmp_path / "dune.onnx", height=56, width=84)[0]
        assert worst(engine, path, noise(rng, 56, 84), noise(rng, 56, 84)) < 2e-5


def test_refusals(engine: CPUEngine, tmp_path: Path) -> None:
    with pytest.raises(errors.ShapeError, match="65"):
        engine.export_onnx(tmp_path / "a.onnx", height=65, width=96)
    with pytest.raises(OSError):
        engine.export_onnx(tmp_path / "missing" / "a.onnx", height=64, width=96)
    for arguments in (dict(height=-16, width=96), dict(height=64, width=2**40)):
        with pytest.raises(errors.ArgumentError):
            engine.export_onnx(tmp_path / "a.onnx", **arguments)
    with CPUEngine("auto", 96) as empty, pytest.raises(errors.NotLoadedError):
        empty.export_onnx(tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("half_compute", "limit"), [(False, 2e-5), (True, 2e-2)])
def test_attention_as_an_operator(
    engine: CPUEngine, rng: np.random.Generator, tmp_path: Path, half_compute: bool, limit: float
) -> None:
    """Opset 23, in float32 and with products of float16, views of unequal sizes."""
    model = tmp_path / "attention.onnx"
    engine.export_onnx(model, 64, 96, 48, 80, half_compute=half_compute, opset=23)
    assert b"q_num_heads" in model.read_bytes()
    got = worst(engine, model, noise(rng, 64, 96), noise(rng, 48, 80))
    assert got < limit
    assert half_compute == (got > 1e-5)


def test_products_in_half_precision(engine: CPUEngine, rng: np.random.Generator, tmp_path: Path) -> None:
    """The same with opset 20: the weights are half the size, and softmax stays float32."""
    model = tmp_path / "half.onnx"
    files = engine.export_onnx(model, 64, 96, half_compute=True)
    whole = engine.export_onnx(tmp_path / "whole.onnx", 64, 96)[1]
    assert files[1].stat().st_size < 0.6 * whole.stat().st_size
    assert 1e-5 < worst(engine, model, noise(rng, 64, 96), noise(rng, 64, 96)) < 2e-2


def test_options_out_of_range(engine: CPUEngine, tmp_path: Path) -> None:
    with pytest.raises(errors.ArgumentError, match="opset"):
        engine.export_onnx(tmp_path / "x.onnx", 64, 96, opset=21)


def test_infer_by_onnx_runtime(tmp_path: Path) -> None:
    """``mast3r infer --onnx`` gives the engine's files, and wants pictures of the model's size."""
    pair = [str(Path(mast3r_runtime.__file__).parent / "pictures" / f"room_{i}.png") for i in (1, 2)]
    with CPUEngine("auto", 128, "fp32", 2) as engine:
        engine.load()
        result = engine.infer_gpu(*pair)
        want = result.numpy()
        matches = engine.match(result, top_k=None, confidence_threshold=0.0)
        model = engine.export_onnx(tmp_path / "tiny.onnx", *want.conf_1.shape, opset=23)[0]
        wrong = engine.export_onnx(tmp_path / "wrong.onnx", 128, 64)[0]
    out = tmp_path / "out"
    assert main(["infer", *pair, "--onnx", str(model), "--backend", "cpu", "-o", str(out)]) == 0
    with np.load(out / "result.npz") as got:
        error = np.linalg.norm(got["pts3d_1"] - want.pts3d_1) / np.linalg.norm(want.pts3d_1)
        assert error < 1e-4
        assert abs(len(got["match_idx_1"]) - len(matches)) <= 0.005 * len(matches) + 1
    with pytest.raises(errors.ArgumentError, match="takes 128 x 64"):
        OnnxNetwork(wrong).infer(*(mast3r_runtime.read_image(p) for p in pair))
    with pytest.raises(errors.ModelNotFoundError, match="no such file"):
        OnnxNetwork(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(errors.WeightsError):
        OnnxNetwork(tmp_path / "text.onnx")
    with pytest.raises(errors.ArgumentError, match="metal"):
        OnnxNetwork(model, "metal")
