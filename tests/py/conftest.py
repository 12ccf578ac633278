# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the micro model with synthetic weights, an engine over it, small pictures."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mast3r_runtime import _synthetic
from mast3r_runtime.backends._cpu import CPUEngine

ROOT = Path(__file__).resolve().parents[2]
FIELDS = [f"{name}_{view}" for view in (1, 2) for name in ("pts3d", "conf", "desc", "desc_conf")]


@pytest.fixture(scope="session")
def micro(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A MASt3R-shaped model of 1.5 M synthetic weights."""
    path = tmp_path_factory.mktemp("micro") / "unified.safetensors"
    _synthetic.write(path)
    return path


@pytest.fixture(scope="session")
def engine(micro: Path) -> Iterator[CPUEngine]:
    """The micro model at 96 pixels."""
    with CPUEngine("auto", resolution=96, precision="fp32", num_threads=2) as opened:
        opened.load(micro)
        yield opened


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def noise(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    return rng.integers(0, 256, (height, width, 3), np.uint8)


def assert_same(a: object, b: object, fields: list[str] = FIELDS) -> None:
    """Every map of two results is equal bit for bit."""
    for field in fields:
        np.testing.assert_array_equal(np.asarray(getattr(a, field)), np.asarray(getattr(b, field)), field)


def child_environment() -> dict[str, str]:
    """The environment for a Python process that imports what this one imports."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
