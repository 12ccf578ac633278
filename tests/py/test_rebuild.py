# SPDX-License-Identifier: Apache-2.0
"""What was pickled is made again whole, or says why at its first call; pools never hang."""

from __future__ import annotations

import copy
import dataclasses
import multiprocessing
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import assert_same, child_environment, noise

import mast3r_runtime as m3r
import mast3r_runtime.tensor as mt
from mast3r_runtime import errors, geometry
from mast3r_runtime.backends._cpu import CPUEngine


def test_everything_that_was_set_is_kept(
    micro: Path, head: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    shutil.copy(micro, tmp_path / "u.safetensors")
    shutil.copy(head, tmp_path / "h.safetensors")
    monkeypatch.chdir(tmp_path)
    picture = noise(rng, 64, 96)
    with CPUEngine("auto", 96, "fp32", 2) as engine:
        engine.load("u.safetensors")
        for standalone in (False, True):
            if standalone:
                engine.load_retrieval_standalone("u.safetensors", "h.safetensors")
            else:
                engine.load_retrieval("h.safetensors")
            data = pickle.dumps(engine)
            monkeypatch.chdir("/")
            with pickle.loads(data) as again, copy.deepcopy(engine) as copied:
                for other in (again, copied):
                    assert other.is_retrieval_ready() and other.is_retrieval_standalone() == standalone
                    assert_same(other.infer_gpu(picture, picture), engine.infer_gpu(picture, picture))
                    want = engine.encode_retrieval(picture).features
                    np.testing.assert_array_equal(other.encode_retrieval(picture).features, want)
            monkeypatch.chdir(tmp_path)
    with pickle.loads(pickle.dumps(engine)) as closed, pytest.raises(errors.ClosedError):
        closed.infer_gpu(picture, picture)


def make_broken(micro: Path, folder: Path, how: str) -> bytes:
    """A pickled engine whose rebuilding fails in one of the ways there are."""
    path = folder / f"{how}.safetensors"
    shutil.copy(micro, path)
    with CPUEngine("auto", 64, "fp32", 2) as engine:
        engine.load(path)
        if how == "config":
            engine._config = ("auto", 64, "fp32", 2, "abacus")
        data = pickle.dumps(engine)
    if how == "gone":
        path.unlink()
    elif how == "damaged":
        path.write_bytes(b"<html>")
    return data


WAYS = {"gone": errors.ModelNotFoundError, "damaged": errors.WeightsError, "config": errors.ArgumentError}


@pytest.mark.parametrize("how", WAYS)
def test_a_broken_engine_says_so_at_its_first_call(how: str, micro: Path, tmp_path: Path) -> None:
    engine = pickle.loads(make_broken(micro, tmp_path, how))
    for call in (engine.info, engine.load, engine.warmup, lambda: engine.infer_gpu("a.png", "b.png")):
        with pytest.raises(WAYS[how]):
            call()
    assert repr(engine)
    again = pickle.loads(pickle.dumps(engine))
    with pytest.raises(WAYS[how]):
        again.info()
    engine.close()
    engine.close()


WORKER = """
import multiprocessing, pickle, sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

def ask(engine):
    return engine.info()["variant"]

if __name__ == "__main__":
    method, kind, path = sys.argv[1:4]
    engine = pickle.loads(Path(path).read_bytes())
    context = multiprocessing.get_context(method)
    try:
        if kind == "pool":
            with context.Pool(1) as pool:
                pool.apply_async(ask, (engine,)).get(60)
        else:
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                pool.submit(ask, engine).result(60)
    except Exception as error:
        print(type(error).__name__)
    else:
        print("no error")
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.parametrize("kind", ["pool", "executor"])
def test_pools_see_the_error(method: str, kind: str, micro: Path, tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    for how in ("gone", "config"):
        (tmp_path / "engine.pickle").write_bytes(make_broken(micro, tmp_path, how))
        done = subprocess.run(
            [sys.executable, "worker.py", method, kind, "engine.pickle"],
            cwd=tmp_path, env=child_environment(), capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        want = {WAYS[how].__name__, "ForkError"} if method == "fork" else {WAYS[how].__name__}
        assert done.stdout.strip() in want, done.stderr


def test_truth_and_equality(engine: CPUEngine, rng: np.random.Generator) -> None:
    a = noise(rng, 64, 96)
    one, two = engine.infer_gpu(a, a), engine.infer_gpu(a, a)
    host = one.numpy()
    matches = engine.match(host)
    for value, other in ((one, two), (host, two.numpy()), (matches, engine.match(host))):
        assert (value == value) is True and (value == other) is False and hash(value)  # noqa: PLR0124
    with pytest.raises(ValueError, match="truth of a tensor"):
        bool(one.conf_1)
    with mt.Context("cpu"):
        assert not mt.tensor([0.0]) and mt.tensor([2.0])
        with pytest.raises(ValueError, match="truth of a tensor"):
            bool(mt.tensor([0.0, 1.0]))
        with pytest.raises(TypeError, match=r"tensor.numpy\(\)"):
            pickle.dumps(mt.tensor([1.0]))


def test_results_that_hold_arrays_compare_by_identity() -> None:
    """Every public one: the dataclass's own ``==`` would ask an array for its truth."""
    checked = 0
    for module in (m3r, geometry):
        for name in module.__all__:
            kind = getattr(module, name)
            if not dataclasses.is_dataclass(kind):
                continue
            types = " ".join(str(field.type) for field in dataclasses.fields(kind))
            if re.search(r"F32|F64|NDArray|GPUTensor|ndarray|Bools", types):
                checked += 1
                assert kind.__eq__ is object.__eq__, name
    assert checked >= 5
