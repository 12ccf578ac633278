# SPDX-License-Identifier: Apache-2.0
"""Every name of the documented interface is there and can be used.

The lists are the interface contract's, copied: a name that vanishes fails here.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest
from conftest import noise

import mast3r_runtime as m3r
from mast3r_runtime import errors
from mast3r_runtime._commands import main
from mast3r_runtime.backends import _cpu, _mps

MODULE_FUNCTIONS = {
    "is_available", "get_name", "get_device_name", "get_recommended_working_set_size",
    "get_max_buffer_length", "get_context_info", "synchronize", "clear_buffer_pool",
}  # fmt: skip
CONTEXT_KEYS = {
    "device_name", "recommended_working_set_size", "max_buffer_length", "buffer_pool_count",
    "buffer_pool_bytes", "backend", "unified_memory", "os_version", "threads",
}  # fmt: skip
ENGINE = {
    "load": ["path"],
    "is_ready": [],
    "name": [],
    "warmup": ["num_iterations"],
    "infer_gpu": ["img1", "img2", "preprocess"],
    "infer_batch_pipelined": ["images", "preprocess"],
    "match": ["desc_1", "desc_2", "top_k", "reciprocal", "confidence_threshold"],
    "load_retrieval": ["path"],
    "load_retrieval_standalone": ["model_path", "retrieval_path"],
    "is_retrieval_ready": [],
    "is_retrieval_standalone": [],
    "encode_retrieval": ["img"],
    "encode_retrieval_batch": ["images"],
    "infer_symmetric": ["img1", "img2"],
    "close": [],
}
RESULT = {
    "pts3d_1", "pts3d_2", "conf_1", "conf_2", "desc_1", "desc_2", "desc_conf_1", "desc_conf_2",
    "transform_1", "transform_2", "timing", "images",
}  # fmt: skip
TIMING = {
    "preprocess_ms", "inference_ms", "total_ms", "encoder_ms", "decoder_ms", "heads_ms", "copy_ms",
}  # fmt: skip
TENSOR = {
    "shape", "ndim", "numel", "nbytes", "is_valid", "numpy", "copy_to", "__array__", "__dlpack__", "dtype",
}  # fmt: skip
MATCHES = {
    "idx_1", "idx_2", "pts2d_1", "pts2d_2", "pts3d_1", "pts3d_2", "confidence", "timing",
}  # fmt: skip
ERRORS = {
    "Mast3rError": RuntimeError, "WeightsError": RuntimeError, "ImageError": ValueError,
    "ShapeError": ValueError, "DeviceError": RuntimeError, "NotLoadedError": RuntimeError,
    "ForkError": RuntimeError,
}  # fmt: skip
PACKAGE = {
    "get_runtime", "get_available_backends", "get_best_backend", "get_backend_info",
    "MASt3RRuntimeConfig", "ModelConfig", "RuntimeConfig", "MatchingConfig", "ModelVariant", "BackendType",
    "Precision", "PRESET_DRONE_FAST", "PRESET_DRONE_QUALITY", "PRESET_DESKTOP_PRECISION", "MODEL_SPECS",
    "get_checkpoint_paths", "get_checkpoint_urls", "get_total_checkpoint_size_mb", "InferenceResult",
    "MatchResult",
}  # fmt: skip
RUNTIME = {
    "name": None, "is_ready": None, "load": [], "warmup": ["num_iterations"], "infer": ["img1", "img2"],
    "match": ["desc_1", "desc_2", "conf_1", "conf_2", "pts3d_1", "pts3d_2"], "infer_and_match": [],
    "benchmark": ["num_iterations", "warmup_iterations", "resolution"], "release": [],
    "__enter__": [], "__exit__": [],
}  # fmt: skip
CONFIG = {
    "model": {"variant": "dune_vit_small_336", "resolution": None, "precision": "fp16"},
    "runtime": {
        "backend": "auto", "num_threads": 4, "use_dual_resolution": True, "tracking_resolution": 256,
        "keyframe_resolution": 336, "use_gpu_preprocessing": True,
    },
    "matching": {"top_k": 512, "reciprocal": True, "spatial_filter": True, "confidence_threshold": 0.5},
}  # fmt: skip
VARIANTS = {
    "mast3r_vit_large", "dune_vit_small_336", "dune_vit_small_448", "dune_vit_base_336", "dune_vit_base_448",
    "dune_vit_small_14", "dune_vit_base_14", "da3_small", "da3_base",
}  # fmt: skip
VERBS = {
    "info", "demo", "infer", "match", "batch", "retrieve", "benchmark", "download", "status", "convert",
    "selfcheck", "profile", "export",
}  # fmt: skip
OPTIONS = {
    "benchmark": {"--variant", "--resolution", "--iterations", "--warmup", "--backend", "--json"},
    "download": {"--list", "--force", "--source", "--cache-dir", "--quiet"},
    "convert": {"--dtype"},
    "profile": {"--wait"},
}
CPP = {
    "class MPSGraphContext", "static MPSGraphContext shared()", "static MPSGraphContext create(",
    "device_name()", "buffer_pool()", "class MPSGraphEngine", "class GPUTensor", "to_cpu()", "copy_to(",
    "class BufferPool", "class PooledBuffer", "struct RuntimeConfig", "struct ImageView",
}  # fmt: skip


def parameters(function: object) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize("module", [_mps, _cpu])
def test_engine_modules(module: object) -> None:
    for name in MODULE_FUNCTIONS:
        assert callable(getattr(module, name)), name
        getattr(module, name)()
    assert set(module.get_context_info()) >= CONTEXT_KEYS
    assert (module.get_name() == "cpu") or module is _mps


@pytest.mark.parametrize("kind", [m3r.Engine, _mps.MPSEngine, _cpu.CPUEngine])
def test_engine_signatures(kind: type[m3r.Engine]) -> None:
    made = inspect.signature(kind).parameters
    assert {name: p.default for name, p in made.items()} == {
        "variant": "mast3r_vit_large", "resolution": 512, "precision": "fp16", "num_threads": 4,
        "backend": "cpu" if kind is _cpu.CPUEngine else "auto",
    }  # fmt: skip
    for name, want in ENGINE.items():
        assert parameters(getattr(kind, name))[: len(want)] == want, name
    defaults = {n: p.default for n, p in inspect.signature(kind.match).parameters.items()}
    assert (defaults["top_k"], defaults["reciprocal"], defaults["confidence_threshold"]) == (512, True, 0.5)
    assert inspect.signature(kind.warmup).parameters["num_iterations"].default == 3


def test_a_script_of_the_documentation(micro: Path, head: Path, rng: np.random.Generator) -> None:
    """Each method once, in the order in which a script has them."""
    engine = _mps.MPSEngine(variant="auto", resolution=96, precision="fp32", num_threads=2)
    engine.load(str(micro))
    assert engine.is_ready() and "mast3r_micro" in engine.name()
    engine.warmup(num_iterations=1)
    img1, img2 = noise(rng, 64, 96), noise(rng, 64, 96)
    result = engine.infer_gpu(img1, img2)
    assert set(result.timing) == TIMING and all(isinstance(v, float) for v in result.timing.values())
    for name in RESULT - {"timing", "transform_1", "transform_2", "images"}:
        tensor = getattr(result, name)
        assert all(hasattr(tensor, attribute) for attribute in TENSOR)
        assert tensor.numpy() is tensor.numpy()
    assert len(engine.infer_batch_pipelined([img1, img2, img1])) == 2
    assert engine.infer_symmetric(img1, img2).view_12.pts3d.shape == (64, 96, 3)
    matches = engine.match(result.desc_1.numpy(), result.desc_2.numpy(), top_k=20, confidence_threshold=0.0)
    assert {f.name for f in dataclasses.fields(matches)} >= MATCHES and 0 < len(matches) <= 20
    assert matches.timing["match_ms"] >= 0 and np.isnan(matches.pts3d_1).all()
    lifted = engine.match(result.desc_1.numpy()[None], result.desc_2, top_k=None, confidence_threshold=0.0)
    assert len(lifted) >= len(matches)
    assert np.isfinite(engine.match(result).pts3d_1).all()
    engine.load_retrieval(str(head))
    assert engine.is_retrieval_ready() and not engine.is_retrieval_standalone()
    one, many = engine.encode_retrieval(img1), engine.encode_retrieval_batch([img1, img2])
    assert len(many) == 2 and one.features.numpy().shape == one.features.shape == (24, 64)
    assert one.attention.shape == one.attention_normalized.shape == (24,) and "total_ms" in one.timing
    engine.load_retrieval_standalone(str(micro), str(head))
    assert engine.is_retrieval_standalone()
    engine.close()
    assert result.pts3d_1.numpy().shape == (64, 96, 3)


def test_errors() -> None:
    for name, builtin in ERRORS.items():
        kind = getattr(errors, name)
        assert issubclass(kind, errors.Mast3rError) and issubclass(kind, builtin)


def test_package(micro: Path, rng: np.random.Generator, tmp_path: Path) -> None:
    assert all(hasattr(m3r, name) for name in PACKAGE) and set(m3r.__all__) >= PACKAGE
    assert {str(v) for v in m3r.ModelVariant} >= VARIANTS - {"dune_vit_small_14", "dune_vit_base_14"}
    for variant in VARIANTS:
        assert m3r.get_checkpoint_paths(variant) and m3r.get_checkpoint_urls(variant)
        assert m3r.get_total_checkpoint_size_mb(variant) > 100
        m3r.ModelConfig(variant=variant)
    assert set(m3r.MODEL_SPECS) == VARIANTS - {"dune_vit_small_14", "dune_vit_base_14"}
    assert "cpu" in m3r.get_available_backends() and m3r.get_best_backend() in m3r.get_available_backends()
    assert m3r.get_backend_info()
    config = m3r.MASt3RRuntimeConfig()
    for part, fields in CONFIG.items():
        for name, default in fields.items():
            value = getattr(getattr(config, part), name)
            assert (
                value if value is None or isinstance(value, (bool, int, float)) else str(value)
            ) == default
    for name in ("cache_dir", "checkpoint_dir", "export_dir", "from_yaml", "to_yaml", "ensure_dirs"):
        assert hasattr(config, name), name
    for preset in (m3r.PRESET_DRONE_FAST, m3r.PRESET_DRONE_QUALITY, m3r.PRESET_DESKTOP_PRECISION):
        preset.to_yaml(tmp_path / "c.yaml")
        assert m3r.MASt3RRuntimeConfig.from_yaml(tmp_path / "c.yaml") == preset


def test_runtime(micro: Path, rng: np.random.Generator) -> None:
    for name, want in RUNTIME.items():
        member = inspect.getattr_static(m3r.Runtime, name)
        if want is None:
            assert isinstance(member, property), name
        else:
            assert parameters(member)[: len(want)] == want, name
    config = m3r.MASt3RRuntimeConfig(
        model=m3r.ModelConfig(variant="mast3r_tiny", resolution=224, precision="fp32"),
        runtime=m3r.RuntimeConfig(backend="cpu", num_threads=2),
    )
    with m3r.get_runtime(config) as runtime:
        runtime.load()
        runtime.warmup(num_iterations=1)
        assert runtime.is_ready and runtime.name
        result = runtime.infer(noise(rng, 90, 120), noise(rng, 90, 120))
        assert (result.height, result.width) == result.conf_1.shape and result.desc_dim == 24
        matches = runtime.match(result.desc_1, result.desc_2)
        assert matches.num_matches == len(matches)
        again, _ = runtime.infer_and_match(noise(rng, 90, 120), noise(rng, 90, 120))
        assert {f.name for f in dataclasses.fields(again)} == RESULT
        times = runtime.benchmark(num_iterations=1, warmup_iterations=0, resolution=64)
        assert {f"{key}_ms" for key in ("mean", "std", "min", "max", "p50", "p95", "p99")} | {"fps"} <= set(
            times
        )
    for kind in (m3r.InferenceResult, m3r.MatchResult, m3r.GPUInferenceResult):
        assert "device" in inspect.signature(kind.to_torch).parameters


def test_commands() -> None:
    parser = main._parser()
    (verbs,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    assert set(verbs.choices) >= VERBS
    for verb, options in OPTIONS.items():
        assert {o for a in verbs.choices[verb]._actions for o in a.option_strings} >= options, verb
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    for name in ("mast3r", "mast3r-runtime", "mast3r-info", "mast3r-benchmark", "mast3r-download"):
        assert f"\n{name} = " in text
    assert importlib.util.find_spec("mast3r_runtime.__main__") is not None


def test_cpp_names() -> None:
    """Named as documented; the C tests run them."""
    header = (Path(__file__).parents[2] / "capi" / "mast3r.hpp").read_text()
    for name in CPP:
        assert name in header, name
