# SPDX-License-Identifier: Apache-2.0
"""limit(timeout=, cancel=) ends whatever waits, and leaves the engine usable."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import child_environment, noise, unix_only
from file_server import Served, serving

import mast3r_runtime as m3r
from mast3r_runtime import errors
from mast3r_runtime._checkpoints.fetch import fetch
from mast3r_runtime.backends._cpu import CPUEngine


def calls(
    engine: CPUEngine, micro: Path, tmp: Path, rng: np.random.Generator
) -> dict[str, Callable[[], object]]:
    a, b = noise(rng, 48, 64), noise(rng, 48, 64)
    features = engine.encode(a)
    result = engine.infer_gpu(a, b).numpy()
    return {
        "load": lambda: engine.load(micro),
        "warmup": lambda: engine.warmup(1),
        "infer": lambda: engine.infer_gpu(a, b),
        "symmetric": lambda: engine.infer_symmetric(a, b),
        "sequence": lambda: engine.infer_batch_pipelined([a, b, a]),
        "encode": lambda: engine.encode(a),
        "decode": lambda: engine.decode(features, features),
        "match": lambda: engine.match(result),
        "export": lambda: engine.export_onnx(tmp / "m.onnx"),
        "retrieval": lambda: engine.load_retrieval(tmp),
        "index": lambda: engine.open_index(tmp),
        "convert": lambda: m3r.convert(micro, tmp / "out.safetensors", progress=False),
        "cost": lambda: m3r.estimate_cost(model=micro),
        "profile": lambda: m3r.profile(engine, a, b, 1),
    }


def test_limits_hold_for_every_call(micro: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    with CPUEngine("auto", 64, "fp32", 2) as engine:
        engine.load(micro)
        token = m3r.CancelToken()
        token.cancel()
        for name, call in calls(engine, micro, tmp_path, rng).items():
            with pytest.raises(errors.TimeLimitError), m3r.limit(timeout=0):
                call()
                pytest.fail(f"{name}: not ended")
            with pytest.raises(errors.CancelledError), m3r.limit(cancel=token):
                call()
                pytest.fail(f"{name}: not cancelled")
        with m3r.limit(timeout=1000, cancel=m3r.CancelToken()):
            engine.infer_gpu(noise(rng, 48, 64), noise(rng, 48, 64))
        assert not list(tmp_path.iterdir())


def test_during_the_work(micro: Path, rng: np.random.Generator) -> None:
    with CPUEngine("auto", 2048, "fp32", 2) as engine:
        engine.load(micro)
        a = noise(rng, 1536, 2048)
        with pytest.raises(errors.TimeLimitError), m3r.limit(timeout=0.2):
            engine.infer_gpu(a, a)
        token = m3r.CancelToken()
        timer = threading.Timer(0.2, token.cancel)
        timer.start()
        with pytest.raises(errors.CancelledError), m3r.limit(cancel=token):
            engine.infer_gpu(a, a)
        timer.join()
        engine.infer_gpu(a, a, resolution=64)


def test_blocks_nest() -> None:
    with m3r.limit(timeout=0), m3r.limit(timeout=100), pytest.raises(errors.TimeLimitError):
        m3r.estimate_cost(variant="mast3r_vit_large")
    seen: list[Exception] = []

    def other() -> None:
        try:
            m3r.estimate_cost(variant="mast3r_vit_large")
        except Exception as error:
            seen.append(error)

    with m3r.limit(timeout=0):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert not seen, "another thread was bound"


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1", True, 1j])
def test_times_that_are_none(timeout: object) -> None:
    with pytest.raises(errors.ArgumentError, match="timeout"), m3r.limit(timeout=timeout):  # type: ignore[arg-type]
        pass
    with pytest.raises(errors.ArgumentError, match="cancel"), m3r.limit(cancel=1):  # type: ignore[arg-type]
        pass


def test_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    held = {"/f": Served(bytes(1 << 20), gate=threading.Event())}
    with serving(held) as server, pytest.raises(errors.TimeLimitError), m3r.limit(timeout=0.3):
        fetch([server.url + "/f"], tmp_path / "f")
    assert not (tmp_path / "f").exists()
    token = m3r.CancelToken()
    stalled = {"/g": Served(bytes(1 << 20), faults=["stall:200000"] * 9)}
    with serving(stalled) as server:
        watch = threading.Thread(target=lambda: server.stalled.wait() and token.cancel(), daemon=True)
        watch.start()
        with pytest.raises(errors.CancelledError), m3r.limit(cancel=token):
            fetch([server.url + "/g"], tmp_path / "g")
        watch.join()
    assert not (tmp_path / "g").exists()


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np, mast3r_runtime as m3r
path, what = sys.argv[1:3]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
engine = m3r.Engine("auto", 2048, "fp32", 2, "cpu")
def interrupt():
    time.sleep(0.5)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
sent = []
class Slow:  # a picture that does not come
    name = "slow.png"
    def read(self, count=-1):
        time.sleep(100)
if what == "infer":
    engine.load(path)
    picture = np.zeros((1536, 2048, 3), np.uint8)
threading.Thread(target=interrupt).start()
try:
    if what == "infer":
        while True:
            engine.infer_gpu(picture, picture)
    elif what == "picture":
        engine.infer_gpu(Slow(), Slow())
    else:
        engine.load(path)
except KeyboardInterrupt:
    print("interrupted")
engine.close()
"""


@unix_only
@pytest.mark.parametrize("what", ["infer", "picture"])
def test_ctrl_c(what: str, micro: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(micro), what], env=child_environment(), capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == "interrupted\n", done.stderr
