# SPDX-License-Identifier: Apache-2.0
"""What a call needs is said beforehand, and what does not fit is refused before it is begun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mast3r_runtime as m3r
from mast3r_runtime.errors import (
    ArgumentError,
    MemoryLimitError,
    ModelNotFoundError,
    ShapeError,
    UnsupportedError,
)


def test_parts_add_up() -> None:
    pair = m3r.estimate_memory(size=(48, 64))
    parts = ("weights", "activations", "buffers", "results", "runtime")
    assert pair["total"] == sum(pair[part] for part in parts)
    assert all(pair[part] > 0 for part in parts)
    assert pair["variant"] == "mast3r_small"
    for variant in ("mast3r_small", "mast3r_tiny"):
        named = m3r.estimate_memory(variant=variant, size=(48, 64))
        assert named["variant"] == variant and named["weights"] <= pair["weights"]
    more = m3r.estimate_memory(size=(48, 64), pictures=101)
    assert more["results"] == 100 * pair["results"]
    both = m3r.estimate_memory(size=(48, 64), symmetric=True)
    assert both["results"] == 2 * pair["results"]
    conf = m3r.estimate_memory(size=(48, 64), only=("conf",))
    assert pair["results"] == 29 * conf["results"]  # 3 + 1 + 24 + 1 numbers a pixel
    one = m3r.estimate_memory(size=(48, 64), num_threads=3)
    batch = m3r.estimate_memory(size=(48, 64), num_threads=3, batch=7)
    assert batch["results"] == 7 * pair["results"]
    assert batch["activations"] == 4 * one["activations"]  # three side by side, and the last alone
    assert batch["buffers"] == 3 * pair["buffers"]
    few = m3r.estimate_memory(size=(48, 64), num_threads=3, batch=2)
    assert few["activations"] == one["activations"]
    assert few["results"] == 2 * pair["results"]
    half = m3r.estimate_memory(variant="mast3r_vit_large", precision="fp16")
    full = m3r.estimate_memory(variant="mast3r_vit_large", precision="fp32")
    assert half["weights"] < 0.6 * full["weights"]


def test_refusals(tmp_path: Path) -> None:
    for wrong in (
        {"pictures": 1},
        {"batch": -1},
        {"batch": 2, "pictures": 3},
        {"batch": 2, "symmetric": True},
        {"only": ("depth",)},
        {"only": ()},
        {"backend": "tpu"},
        {"precision": "int4"},
        {"variant": "none"},
    ):
        with pytest.raises(ArgumentError):
            m3r.estimate_memory(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ShapeError):
        m3r.estimate_memory(size=(47, 64))
    with pytest.raises(UnsupportedError, match="descriptors"):
        m3r.estimate_memory(variant="da3_base", only=("desc",))
    with pytest.raises(UnsupportedError, match="many views"):
        m3r.estimate_memory(variant="da3_base", batch=2)
    with pytest.raises(ModelNotFoundError):
        m3r.estimate_memory(tmp_path / "none.safetensors")


def test_what_does_not_fit_is_refused() -> None:
    picture = np.zeros((48, 64, 3), np.uint8)
    with m3r.Engine("auto", 64, "fp32", 2, "cpu") as engine:
        engine.load()
        with pytest.raises(MemoryLimitError, match=r"sequence of \d+ pictures.* needs .* leaves") as caught:
            engine.infer_batch_pipelined([picture] * 400_000)
        assert isinstance(caught.value, MemoryError)
        engine.infer_gpu(picture, picture)


CHILD = """
import resource, sys, numpy as np, mast3r_runtime as m3r
picture = np.zeros((48, 64, 3), np.uint8)
with m3r.Engine("auto", 4096, "fp32", 2, "cpu") as engine:
    engine.load()
    engine.infer_gpu(picture, picture, preprocess=False)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        engine.infer_gpu(picture, picture)
    except m3r.errors.MemoryLimitError as error:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak, error)
    engine.infer_gpu(picture, picture, preprocess=False)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what is left is only known to Linux")
def test_the_limit_of_the_address_space() -> None:
    """ulimit -v counts, nothing is allocated before the error, and the engine goes on."""
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    grown, _, text = done.stdout.partition(" ")
    assert "address space" in text, done.stdout
    assert int(grown) < 32 << 10, f"{grown} KB were used before the refusal"
