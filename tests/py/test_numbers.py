# SPDX-License-Identifier: Apache-2.0
"""Numbers that are none, or do not fit, are said: at the load, at the call, in what is written."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from conftest import noise
from PIL import Image

from mast3r_runtime import cli, convert, errors
from mast3r_runtime._commands.common import _plain
from mast3r_runtime.backends._cpu import CPUEngine


def with_value(model: Path, target: Path, name: str, value: float) -> Path:
    """The model with the first number of a tensor replaced."""
    raw = bytearray(model.read_bytes())
    (size,) = struct.unpack("<Q", raw[:8])
    entry = json.loads(raw[8 : 8 + size])[name]
    assert entry["dtype"] == "F32"
    at = 8 + size + entry["data_offsets"][0]
    raw[at : at + 4] = struct.pack("<f", value)
    target.write_bytes(raw)
    return target


WEIGHTS = ("enc_blocks.0.mlp.fc1.weight", "enc_blocks.0.norm1.bias", "downstream_head1.dpt.head.4.weight")


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
def test_a_checkpoint_is_finite_or_an_error(
    precision: str, value: float, micro: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    picture = noise(rng, 48, 64)
    for name in WEIGHTS:
        path = with_value(micro, tmp_path / "m.safetensors", name, value)
        try:
            engine = CPUEngine("auto", 64, precision, 2)
        except errors.DeviceError:
            pytest.skip(f"{precision} is not to be had here")
        with engine:
            engine.load(path)
            try:
                result = engine.infer_gpu(picture, picture).numpy()
            except (errors.WeightsError, errors.DeviceError) as error:
                assert "finite" in str(error) or "fit" in str(error) or "not supported" in str(error)
                if isinstance(error, errors.WeightsError):
                    assert name in str(error)
                continue
            assert value == 1e30
            for field in ("pts3d_1", "conf_1", "desc_1", "desc_conf_2"):
                assert np.isfinite(getattr(result, field)).all(), (name, field)


def test_nothing_is_written_from_what_is_none(
    micro: Path, tmp_path: Path, rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    path = with_value(micro, tmp_path / "m.safetensors", WEIGHTS[0], float("nan"))
    for name in ("a.png", "b.png"):
        Image.fromarray(noise(rng, 48, 64)).save(tmp_path / name)
    pair = [str(tmp_path / "a.png"), str(tmp_path / "b.png"), "--model", str(path), "--resolution", "64"]
    assert cli.main(["match", *pair, "-o", str(tmp_path / "x.png")]) == 1
    assert cli.main(["infer", *pair, "-o", str(tmp_path / "out")]) == 1
    assert "finite" in capsys.readouterr().err
    assert not (tmp_path / "x.png").exists() and not (tmp_path / "out").exists()
    with pytest.raises(errors.WeightsError, match=r"fc1.*finite"):
        convert(path, tmp_path / "c.safetensors", progress=False)
    with CPUEngine("auto", 64, "fp32", 2) as engine:
        large = with_value(micro, tmp_path / "large.safetensors", WEIGHTS[0], 1e6)
        engine.load(large)
        with pytest.raises(errors.Mast3rError, match="does not fit"):
            engine.export_onnx(tmp_path / "m.onnx", half=True)
    assert not list(tmp_path.glob("*.onnx*"))


def test_json_has_no_nan() -> None:
    values = {"a": [1.0, float("nan"), float("inf")], "b": {"c": (float("-inf"), 2, "x", None, True)}}
    text = json.dumps(_plain(values), allow_nan=False)
    assert json.loads(text) == {"a": [1.0, None, None], "b": {"c": [None, 2, "x", None, True]}}
