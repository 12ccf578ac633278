# SPDX-License-Identifier: Apache-2.0
"""The backend ``cuda`` on a GPU (MAST3R_CUDA=1), or on the plugin named in MAST3R_PJRT_CPU."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mast3r_runtime as m3r
from mast3r_runtime import errors

GPU = os.environ.get("MAST3R_CUDA") == "1"
pytestmark = pytest.mark.skipif(
    not GPU and not os.environ.get("MAST3R_PJRT_CPU"),
    reason="neither MAST3R_CUDA=1 nor MAST3R_PJRT_CPU: the backend cuda is not run",
)

PICTURES = Path(m3r.__file__).parent / "pictures"
PAIR = (PICTURES / "room_1.png", PICTURES / "room_2.png")
SIZE = 256 if GPU else 96


def engine(backend: str = "cuda", precision: str = "auto") -> m3r.Engine:
    e = m3r.Engine("auto", SIZE, precision, 0, backend)
    e.load()
    return e


@pytest.fixture(scope="module")
def gpu() -> Any:
    with engine() as e:
        yield e


def test_it_is_what_was_asked_for(gpu: m3r.Engine) -> None:
    info = gpu.info()
    assert (info["backend"], info["precision"]) == ("cuda", "bf16")
    assert "cuda" in m3r.get_available_backends()
    if GPU:
        assert "NVIDIA" in info["device"]


@pytest.mark.parametrize("precision, limit", [("fp32", 2.5e-5), ("bf16", 4e-2)])
def test_points_and_matches_are_the_cpus(precision: str, limit: float) -> None:
    with engine("cpu", "fp32") as cpu:
        want = cpu.infer_gpu(*PAIR)
        wanted = cpu.match(want, top_k=None, confidence_threshold=0.0)
        with engine("cuda", precision) as e:
            got = e.infer_gpu(*PAIR)
            for name in ("pts3d_1", "pts3d_2", "conf_1", "desc_1", "desc_2"):
                a, b = getattr(got, name).numpy(), getattr(want, name).numpy()
                error = float(np.linalg.norm(a - b) / np.linalg.norm(b))
                print(f"{precision} {name}: {error:.2g}")
                assert error <= limit, name
            matches = e.match(got, top_k=None, confidence_threshold=0.0)
    count, wanted_count = len(matches.idx_1), len(wanted.idx_1)
    print(f"{precision}: {count} matches, {wanted_count} on the CPU")
    allowed = 0.005 if precision == "fp32" else 0.1
    assert abs(count - wanted_count) <= max(allowed * wanted_count, 2)


def test_torch_takes_results_without_a_copy(gpu: m3r.Engine) -> None:
    torch = pytest.importorskip("torch")
    result = gpu.infer_gpu(*PAIR)
    points = result.pts3d_1
    device = points.__dlpack_device__()
    tensor = torch.from_dlpack(points)
    if GPU:
        assert device == (2, 0)
        assert tensor.is_cuda
    np.testing.assert_array_equal(tensor.cpu().numpy(), points.numpy())
    del result, points
    again = tensor.cpu().numpy()
    gpu.infer_gpu(*PAIR)
    np.testing.assert_array_equal(again, tensor.cpu().numpy())


def test_memory_is_flat(gpu: m3r.Engine) -> None:
    pictures = [m3r.read_image(p) for p in PAIR]
    gpu.infer_gpu(*pictures)
    before, start = gpu.info(), time.perf_counter()
    pairs = 1000 if GPU else 5
    for _ in range(pairs):
        gpu.infer_gpu(*pictures)
    after = gpu.info()
    seconds = time.perf_counter() - start
    print(f"{pairs} pairs in {seconds:.1f} s: {before['pool_bytes']} to {after['pool_bytes']} bytes")
    assert after["pool_bytes"] <= before["pool_bytes"] + (1 << 20)


def test_two_engines_in_two_threads(gpu: m3r.Engine) -> None:
    want = gpu.infer_gpu(*PAIR).numpy()
    wrong: list[str] = []
    with engine() as other:

        def work(e: m3r.Engine) -> None:
            for _ in range(20 if GPU else 2):
                got = e.infer_gpu(*PAIR).numpy()
                if not np.allclose(got.pts3d_1, want.pts3d_1, rtol=1e-2, atol=1e-3):
                    wrong.append("points differ")

        threads = [threading.Thread(target=work, args=(e,)) for e in (gpu, other)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


def test_errors_are_typed() -> None:
    with pytest.raises(m3r.Mast3rError):
        m3r.Engine(backend="cuda:63") if GPU else m3r.Engine(backend="metal")


def test_out_of_memory_is_its_own_error() -> None:
    import mast3r_runtime.tensor as mt

    with mt.Context("cuda"):
        column = mt.tensor(np.ones((1 << 22, 1), np.float32))
        row = mt.tensor(np.ones((1, 1 << 22), np.float32))
        with pytest.raises(errors.MemoryLimitError) as e:
            mt.sum(column + row).numpy()  # of 64 TB
        assert isinstance(e.value, MemoryError)
        assert (row + 1).numpy().max() == 2  # the context goes on


def test_a_batch_gives_what_pairs_give(gpu: m3r.Engine) -> None:
    pictures = [m3r.read_image(p)[:96, :96] for p in PAIR]
    pairs = [(pictures[i % 2], pictures[1 - i % 2]) for i in range(9)]  # eight at once, and one
    results = gpu.infer_batch(pairs, preprocess=False, only=["pts3d"])
    alone = [gpu.infer_gpu(*p, preprocess=False, only=["pts3d"]).pts3d_2.numpy() for p in pairs[:2]]
    for i, result in enumerate(results):
        error = float(np.linalg.norm(result.pts3d_2.numpy() - alone[i % 2]) / np.linalg.norm(alone[i % 2]))
        assert error <= 4e-2, i
