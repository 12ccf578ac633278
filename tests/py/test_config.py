# SPDX-License-Identifier: Apache-2.0
"""The configuration: checks, YAML both ways, and that every field does something."""

from __future__ import annotations

import dataclasses
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import assert_same, noise

import mast3r_runtime as m3r
from mast3r_runtime import (
    MASt3RRuntimeConfig,
    MatchingConfig,
    ModelConfig,
    ModelVariant,
    RuntimeConfig,
    errors,
)
from mast3r_runtime._engine import pillow

PRESETS = {name: getattr(m3r, name) for name in dir(m3r) if name.startswith("PRESET_")}


def test_defaults_are_the_documented_ones() -> None:
    config = MASt3RRuntimeConfig()
    assert config.to_dict() == {
        "model": {"variant": "dune_vit_small_336", "resolution": None, "precision": "fp16"},
        "runtime": {
            "backend": "auto",
            "num_threads": 4,
            "use_dual_resolution": True,
            "tracking_resolution": 256,
            "keyframe_resolution": 336,
            "use_gpu_preprocessing": True,
        },
        "matching": {
            "top_k": 512,
            "reciprocal": True,
            "spatial_filter": True,
            "confidence_threshold": 0.5,
        },
        "cache_dir": None,
        "checkpoint_dir": None,
        "export_dir": None,
    }


@pytest.mark.parametrize(
    ("kind", "field", "good", "bad"),
    [
        (ModelConfig, "variant", ["mast3r_vit_large", ModelVariant.MAST3R_TINY], ["vit", None, 3]),
        (ModelConfig, "resolution", [None, 224, 336, 560], [0, 223, 225, 574, 336.0, "336", True, -14]),
        (ModelConfig, "precision", ["fp32", "bf16"], ["fp64", None, ""]),
        (RuntimeConfig, "backend", ["cpu", "metal", "cuda"], ["opencl", None]),
        (RuntimeConfig, "num_threads", [0, 1, 1024], [-1, 1025, 2.0, "2", True]),
        (RuntimeConfig, "use_dual_resolution", [True, False], [1, "yes", None]),
        (RuntimeConfig, "tracking_resolution", [64, 336], [63, 337, 1025, 256.0, None]),
        (RuntimeConfig, "keyframe_resolution", [256, 1024], [63, 1025, None]),
        (RuntimeConfig, "use_gpu_preprocessing", [True, False], [0, "no"]),
        (MatchingConfig, "top_k", [64, 2048], [63, 2049, None, 64.0]),
        (MatchingConfig, "reciprocal", [True, False], [1, None]),
        (MatchingConfig, "spatial_filter", [True, False], [1, None]),
        (MatchingConfig, "confidence_threshold", [0, 0.25, 1], [-0.1, 1.1, float("nan"), "0.5", True, None]),
        (MASt3RRuntimeConfig, "cache_dir", [None, "/tmp/x", Path("y")], ["", 3, b"x"]),
        (MASt3RRuntimeConfig, "model", [ModelConfig()], [None, {}, RuntimeConfig()]),
    ],
)
def test_ranges(kind: type, field: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(kind(**{field: value}), field) == (
            Path(value) if isinstance(value, str) and "dir" in field else value
        )
    for value in bad:
        with pytest.raises(errors.ArgumentError, match=f"{field}={re.escape(repr(value))}.*want"):
            kind(**{field: value})


def test_fields_are_frozen_and_known() -> None:
    with pytest.raises(TypeError, match="top_q"):
        MatchingConfig(top_q=3)  # type: ignore[call-arg]
    with pytest.raises(dataclasses.FrozenInstanceError):
        MASt3RRuntimeConfig().model.variant = ModelVariant.MAST3R_TINY  # type: ignore[misc]
    assert ModelConfig("dune_vit_base_14").variant is ModelVariant.DUNE_VIT_BASE_448  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="resolution=238, want a multiple of the patch, 16"):
        ModelConfig(ModelVariant.MAST3R_TINY, 238)
    with pytest.raises(errors.ArgumentError, match="tracking_resolution=400, want at most keyframe"):
        RuntimeConfig(tracking_resolution=400)
    assert {ModelVariant.MAST3R_TINY: 1}["mast3r_tiny"] == 1  # type: ignore[index]


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name: str, tmp_path: Path) -> None:
    preset = PRESETS[name]
    path = tmp_path / "preset.yaml"
    preset.to_yaml(path)
    assert MASt3RRuntimeConfig.from_yaml(path) == preset
    assert pickle.loads(pickle.dumps(preset)) == preset
    assert set(PRESETS) == {"PRESET_DRONE_FAST", "PRESET_DRONE_QUALITY", "PRESET_DESKTOP_PRECISION"}


def test_yaml(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "model:\n  variant: dune_vit_small_14\nmatching:\n  top_k: 100\n  reciprocal: no\n"
        "cache_dir: ~/models\n"
    )
    config = MASt3RRuntimeConfig.from_yaml(path)
    assert config.model.variant is ModelVariant.DUNE_VIT_SMALL_448 and config.runtime == RuntimeConfig()
    assert config.matching == MatchingConfig(100, False) and config.cache_dir == Path.home() / "models"
    config.to_yaml(tmp_path / "again.yaml")
    assert MASt3RRuntimeConfig.from_yaml(tmp_path / "again.yaml") == config
    path.write_text("")
    assert MASt3RRuntimeConfig.from_yaml(path) == MASt3RRuntimeConfig()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modle: {}\n", "unknown key modle.*did you mean model"),
        ("model: {resolutoin: 3}\n", "unknown key model.resolutoin.*did you mean resolution"),
        ("model: {model: {}}\n", "unknown key model.model"),
        ("1: 2\n", "unknown key 1,"),
        ("matching: {top_k: 5}\n", "matching.top_k=5, want an integer from 64 to 2048"),
        ("matching: {top_k: '100'}\n", "matching.top_k='100'"),
        ("matching: 5\n", "matching: a int, want keys and values"),
        ("runtime:\n", "runtime: a NoneType"),
        ("- a\n", "configuration: a list"),
        ("a: [\n", "not valid YAML"),
        ("!!python/object/apply:os.system ['true']\n", "not valid YAML"),
        ("\xff\n", "not valid YAML"),
    ],
)
def test_bad_yaml(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(errors.ArgumentError, match=f"config.yaml: (?s:{words})"):
        MASt3RRuntimeConfig.from_yaml(path)


def test_files_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(errors.FileError, match="none.yaml"):
        MASt3RRuntimeConfig.from_yaml(tmp_path / "none.yaml")
    (tmp_path / "file").touch()
    with pytest.raises(errors.FileError, match="file"):
        MASt3RRuntimeConfig().to_yaml(tmp_path / "file" / "x.yaml")
    with pytest.raises(errors.FileError, match="export_dir"):
        MASt3RRuntimeConfig(cache_dir=tmp_path, export_dir=tmp_path / "file" / "x").ensure_dirs()


def test_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAST3R_CACHE_DIR", str(tmp_path / "a"))
    config = MASt3RRuntimeConfig()
    monkeypatch.setenv("MAST3R_CACHE_DIR", str(tmp_path / "b"))  # read when asked, not before
    config.ensure_dirs()
    assert {path.name for path in (tmp_path / "b").iterdir()} == {"checkpoints", "exports"}
    own = MASt3RRuntimeConfig(
        cache_dir=tmp_path / "c", checkpoint_dir=tmp_path / "d", export_dir=tmp_path / "e"
    )
    own.ensure_dirs()
    assert all((tmp_path / name).is_dir() for name in "bcde") and not (tmp_path / "a").exists()


# ---- what the fields do --------------------------------------------------

TINY = MASt3RRuntimeConfig(
    ModelConfig(ModelVariant.MAST3R_TINY, 256, m3r.Precision.FP32),
    RuntimeConfig(m3r.BackendType.CPU, 2, tracking_resolution=96, keyframe_resolution=128),
)


def changed(**fields: Any) -> MASt3RRuntimeConfig:
    runtime = {k: v for k, v in fields.items() if hasattr(TINY.runtime, k)}
    matching = {k: v for k, v in fields.items() if hasattr(TINY.matching, k)}
    rest = {k: v for k, v in fields.items() if k not in runtime and k not in matching}
    return dataclasses.replace(
        TINY,
        runtime=dataclasses.replace(TINY.runtime, **runtime),
        matching=dataclasses.replace(TINY.matching, **matching),
        **rest,
    )


@pytest.fixture(scope="module")
def pair() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [noise(rng, 150, 200), noise(rng, 190, 140)]


@pytest.fixture(scope="module")
def tiny() -> Iterator[m3r.Runtime]:
    with m3r.get_runtime(TINY) as runtime:
        runtime.load()
        yield runtime


def test_resolutions(tiny: m3r.Runtime, pair: list[np.ndarray]) -> None:
    assert tiny.infer(*pair).conf_1.shape == (192, 256)
    tracking, keyframe = tiny.infer_tracking(*pair), tiny.infer_keyframe(*pair)
    assert tracking.conf_1.shape == (64, 96) and keyframe.conf_2.shape == (128, 80)
    assert keyframe.transform_2.original_height == 190
    engine = m3r.Engine("mast3r_tiny", 128, "fp32", 2)
    with engine:
        engine.load()
        assert_same(engine.infer_gpu(*pair).numpy(), keyframe)
    with m3r.get_runtime(changed(use_dual_resolution=False)) as single:
        single.load()
        for call in (single.infer_tracking, single.infer_keyframe):
            with pytest.raises(errors.ArgumentError, match="use_dual_resolution=False"):
                call(*pair)


@pytest.mark.parametrize("resolution", [None, 96, 224])
def test_preprocessing_by_pillow_is_the_same(
    tiny: m3r.Runtime, pair: list[np.ndarray], resolution: int | None
) -> None:
    """Two implementations of one rule, to the last bit; 224 is the reference's special case."""
    with m3r.get_runtime(changed(use_gpu_preprocessing=False)) as other:
        with pytest.raises(errors.NotLoadedError):
            other.infer(*pair)
        other.load()
        want, got = tiny._infer(*pair, resolution), other._infer(*pair, resolution)
    assert_same(got, want)
    assert (got.transform_1, got.transform_2) == (want.transform_1, want.transform_2)


def test_pillow_refuses_what_leaves_nothing() -> None:
    with pytest.raises(errors.ImageError, match="100 x 4000.*patch of 16"):
        pillow.prepare(np.zeros((100, 4000, 3), np.uint8), 512, 16)
    pixels, window = pillow.prepare(np.zeros((389, 517, 3), np.uint8), 518, 14)
    assert pixels.shape == (window.height, window.width, 3) == (378, 518, 3)


def test_matching_fields(tiny: m3r.Runtime) -> None:
    rng = np.random.default_rng(5)
    maps = rng.standard_normal((2, 40, 50, 24)).astype(np.float32)
    maps /= np.linalg.norm(maps, axis=-1, keepdims=True)
    maps[1] = maps[0]  # each pixel matches itself
    counts = {}
    for name, fields in {
        "all": {"top_k": 2048, "spatial_filter": False, "confidence_threshold": 0.0},
        "inside": {"top_k": 2048, "confidence_threshold": 0.0},
        "few": {"top_k": 64},
        "none": {"confidence_threshold": 1.0},
    }.items():
        with m3r.get_runtime(changed(**fields)) as runtime:
            found = runtime.match(maps[0], maps[1] * np.float32(0.9))
            counts[name] = len(found)
            if name == "inside":
                assert found.pts2d_1.min() >= 3 and found.pts2d_1.max(axis=0).tolist() == [46, 36]
    assert counts == {"all": 2000, "inside": 34 * 44, "few": 64, "none": 0}
    one_way = {}
    for reciprocal in (True, False):
        config = changed(reciprocal=reciprocal, confidence_threshold=0.0, top_k=2048, spatial_filter=False)
        with m3r.get_runtime(config) as runtime:
            one_way[reciprocal] = len(runtime.match(maps[0], rng.standard_normal((40, 50, 24))))
    assert one_way[True] < one_way[False] == 2000


def test_where_models_come_from(tmp_path: Path, micro: Path) -> None:
    """cache_dir and checkpoint_dir are looked in; what is found there is what is loaded."""
    place = tmp_path / "cache" / "safetensors" / "mast3r_vit_large"
    config = changed(
        model=ModelConfig(ModelVariant.MAST3R_VIT_LARGE),
        cache_dir=tmp_path / "cache",
        checkpoint_dir=tmp_path / "c",
    )
    with m3r.get_runtime(config) as runtime:
        with pytest.raises(errors.ModelNotFoundError, match=re.escape(str(tmp_path / "c"))):
            runtime.load()
        place.mkdir(parents=True)
        (place / "unified.safetensors").write_bytes(micro.read_bytes())
        with pytest.raises(errors.Mast3rError, match="mast3r_micro"):
            runtime.load()  # found, and not what its folder says


def test_export(tiny: m3r.Runtime, pair: list[np.ndarray], tmp_path: Path) -> None:
    with m3r.get_runtime(changed(export_dir=tmp_path / "new")) as runtime:
        runtime.load()
        result, matches = runtime.infer_and_match(*pair)
        folder = runtime.export("first", result, matches, *pair)
        assert folder == tmp_path / "new" / "first"
        with np.load(folder / "result.npz") as archive:
            np.testing.assert_array_equal(archive["pts3d_1"], result.pts3d_1)
        for name in ("", "a/b", ".."):
            with pytest.raises(errors.ArgumentError, match="name of a folder"):
                runtime.export(name, result, matches, *pair)


def test_benchmark(tiny: m3r.Runtime) -> None:
    values = tiny.benchmark(3, 1, resolution=96)
    assert (
        values["width"] == 96 and values["min_ms"] <= values["p50_ms"] <= values["p99_ms"] <= values["max_ms"]
    )
    assert set(values) >= {"mean_ms", "std_ms", "p95_ms", "fps"}
    with pytest.raises(ValueError, match="0 iterations"):
        tiny.benchmark(0)


def test_backends() -> None:
    backends = m3r.get_available_backends()
    assert "cpu" in backends and m3r.get_best_backend() == backends[0]
    assert m3r.get_backend_info()["available"] == backends
    if "metal" not in backends:
        with pytest.raises(errors.DeviceError, match="Metal"):
            m3r.get_runtime(changed(backend=m3r.BackendType.METAL))
