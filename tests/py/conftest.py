# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the micro model with synthetic weights, an engine over it, small pictures."""

from __future__ import annotations

import gc
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mast3r_runtime._commands import synthetic
from mast3r_runtime.backends._cpu import CPUEngine

ROOT = Path(__file__).resolve().parents[2]
FIELDS = [f"{name}_{view}" for view in (1, 2) for name in ("pts3d", "conf", "desc", "desc_conf")]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=20, help="how often test_distributed.py kills a worker")


@pytest.fixture(scope="session")
def micro(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A MASt3R-shaped model of 1.5 M synthetic weights."""
    path = tmp_path_factory.mktemp("micro") / "unified.safetensors"
    synthetic.write(path)
    return path


@pytest.fixture(scope="session")
def engine(micro: Path) -> Iterator[CPUEngine]:
    """The micro model at 96 pixels."""
    with CPUEngine("auto", resolution=96, precision="fp32", num_threads=2) as opened:
        opened.load(micro)
        yield opened


@pytest.fixture(scope="session", autouse=True)
def scenes_fit_their_pictures() -> Iterator[None]:
    """Every scene that any test writes: its cameras are those of the pictures beside them."""
    from scene_checks import check_fit

    from mast3r_runtime._scene import files

    true = files.write_into

    def watched(scene: Any, out: Any, *arguments: Any, **named: Any) -> list[Path]:
        written = true(scene, out, *arguments, **named)
        check_fit(out.path)
        return written

    files.write_into = watched
    yield
    files.write_into = true


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def write_tensors(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """Write arrays as safetensors."""
    header, at = {}, 0
    for name, array in arrays.items():
        kind = {"float32": "F32", "float64": "F64"}[array.dtype.name]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": (at, at + array.nbytes)}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.fixture(scope="session")
def head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A retrieval head for the micro model: whitening by made-up numbers, in float64."""
    made = np.random.default_rng(3)
    arrays = {"prewhiten.m": made.normal(size=(1, 64)), "prewhiten.p": made.normal(size=(64, 64)) / 8}
    return write_tensors(tmp_path_factory.mktemp("head") / "retrieval.safetensors", arrays)


@pytest.fixture(scope="session")
def codebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty visual words for that head."""
    words = np.random.default_rng(4).normal(size=(50, 64)).astype(np.float32)
    return write_tensors(tmp_path_factory.mktemp("codebook") / "codebook.safetensors", {"centroids": words})


def noise(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    return rng.integers(0, 256, (height, width, 3), np.uint8)


def assert_same(a: object, b: object, fields: list[str] = FIELDS) -> None:
    """Every map of two results is equal bit for bit."""
    for field in fields:
        np.testing.assert_array_equal(np.asarray(getattr(a, field)), np.asarray(getattr(b, field)), field)


# What Windows has not, or has differently: fork, FIFOs, file modes, limits.
unix_only = pytest.mark.skipif(os.name != "posix", reason="this system is not Unix")


def child_environment() -> dict[str, str]:
    """The environment for a Python process that imports what this one imports."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


# Options of subprocess.Popen for a process that interrupt() can reach: on Windows, a console of its own.
CONSOLE = {"creationflags": 0x08000000} if os.name == "nt" else {}

CTRL_C_ON_WINDOWS = """
import ctypes, sys
kernel = ctypes.WinDLL("kernel32", use_last_error=True)
kernel.FreeConsole()
done = kernel.AttachConsole(int(sys.argv[1]))
done = done and kernel.SetConsoleCtrlHandler(None, 1) and kernel.GenerateConsoleCtrlEvent(0, 0)
sys.exit(0 if done else f"no Ctrl-C sent: error {ctypes.get_last_error()}")
"""


def interrupt(process: subprocess.Popen[str]) -> None:
    """Press Ctrl-C in a process that was started with CONSOLE."""
    if os.name == "posix":
        process.send_signal(signal.SIGINT)
    else:
        subprocess.run([sys.executable, "-c", CTRL_C_ON_WINDOWS, str(process.pid)], check=True, timeout=60)


def code_run_by_the_end_of(held: list[Any]) -> list[str]:
    """The Python functions that run when the objects go that nothing but a list holds."""
    ran: list[str] = []
    gc.disable()
    sys.setprofile(
        lambda frame, event, argument: ran.append(frame.f_code.co_name) if event == "call" else None
    )
    try:
        held.clear()
    finally:
        sys.setprofile(None)
        gc.enable()
    return ran
