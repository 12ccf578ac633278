# SPDX-License-Identifier: Apache-2.0
"""Every public function, each argument in turn hostile: it works, or raises a Mast3rError.

The functions are found by ``__all__`` and by ``dir``; one whose arguments the table below does
not know fails the test, so that none is left out.
"""

# ruff: noqa: E501
from __future__ import annotations

import inspect
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import noise
from PIL import Image

import mast3r_runtime as m3r
import mast3r_runtime.tensor as mt
from mast3r_runtime import collection, errors, export, retrieval
from mast3r_runtime._output import drawing
from mast3r_runtime.backends import _cpu, _mps
from mast3r_runtime.backends._cpu import CPUEngine

MODULES = (m3r, collection, drawing, export, retrieval, _cpu, _mps)

# Not called: they do what they do to the whole process or the network, or are types of values.
NOT_CALLED = {
    "download",  # tests/py/test_fetch_hostile.py
    "limit", "CancelToken",  # tests/py/test_limits.py
    "main",
    "check_metal",  # no arguments, and long on a GPU
    "Runtime.benchmark",  # takes a time that its argument says
}  # fmt: skip


class Nasty:
    """An object of no use, with a length."""

    def __len__(self) -> int:
        return 3

    def __repr__(self) -> str:
        return "nasty"


HOSTILE: tuple[Any, ...] = (
    None, -1, 2**31, -(2**70), 1.5, float("nan"), float("inf"), 1j, "", "a\0b", "\udce9", "x" * 5000, b"\xff" * 9,
    [], [[]], {"a": 1}, (1,), object(), Nasty(), np.zeros(3), np.zeros((0, 3)), np.array("x"),
    np.array([object()], dtype=object), int, iter(()), Path("/nonexistent/none"), "/nonexistent/none",
)  # fmt: skip


@pytest.fixture
def good(
    micro: Path, head: Path, codebook: Path, tmp_path: Path, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """A value that is right for each name of an argument."""
    picture = tmp_path / "in" / "a.png"
    picture.parent.mkdir()
    Image.fromarray(noise(rng, 48, 64)).save(picture)
    Image.fromarray(noise(rng, 48, 64)).save(picture.with_name("b.png"))
    with CPUEngine("auto", 64, "fp32", 2) as engine:
        engine.load(micro)
        engine.load_retrieval(head)
        result = engine.infer_gpu(picture, picture)
        host = result.numpy()
        found = [engine.encode_retrieval(picture), engine.encode_retrieval(picture.with_name("b.png"))]
        pixels = m3r.read_image(picture)
        features = engine.encode(picture)
        config = m3r.MASt3RRuntimeConfig(model=m3r.ModelConfig("mast3r_tiny", resolution=224))
        yield {
            "engine": engine, "config": config, "result": host, "features_1": features, "features_2": features,
            "matches": engine.match(host, top_k=9), "matches_1": None, "pictures": found, "results": found,
            **dict.fromkeys(("img", "img1", "img2", "image", "image_1", "image_2", "source", "picture_1"), picture),
            **dict.fromkeys(("pixels", "image1", "image2"), pixels), "images": [picture, picture],
            "desc_1": host.desc_1, "desc_2": host.desc_2, "path": tmp_path / "new.npz", "folder": picture.parent,
            "model": micro, "model_path": micro, "retrieval_path": head, "codebook": codebook, "n": 4,
            "graph": "complete", "variant": "mast3r_vit_large", "pairs": [(0, 1)], "names": ["a", "b"],
            "scores": np.eye(2), "similarity": np.eye(4), "count": 2, "out": np.empty(result.conf_1.shape, np.float32),
            "array": np.zeros((2, 3), np.float32), "values": np.zeros((4, 5)), "low": 0.0, "high": 1.0,
            "depth": np.ones((4, 5)), "confidence": np.ones((4, 5)), "conf": np.ones((4, 5)), "points": np.eye(3),
            "colours": np.zeros((3, 3), np.uint8), "points_1": np.zeros((2, 2)), "points_2": np.zeros((2, 2)),
            "picture": Image.new("RGB", (9, 9)), "directory": tmp_path / "dir", "role": "retrieval", "given": None,
            "rows": [[("a", Image.new("RGB", (9, 9)))]], "cells": [[("a", Image.new("RGB", (9, 9)))]], "name": "a",
            "view": 1, "intrinsics": np.eye(3), "k": np.eye(3), "xy": np.zeros((2, 2)), "arrays": {}, "handle": 0,
            "target": tmp_path / "out.safetensors", "text": "x", "data": {}, "values_1": None, "transform": host.transform_1,
            "wanted": "points", "what": "conf", "kind": "conf", "title": "x", "sheets": [[("", Image.new("RGB", (9, 9)))]],
            "keep": 0.5, "percentile": 50.0, "threshold": 0.5, "field": "conf", "output": "conf", "points2d": np.zeros((2, 2)), "xy_1": np.zeros((2, 2)), "xy_2": np.zeros((2, 2)), "reach": 2,
        }  # fmt: skip


def callables() -> dict[str, Callable[..., Any]]:
    """Public functions by name, methods as CLASS.METHOD."""
    found: dict[str, Callable[..., Any]] = {}
    for module in MODULES:
        for name in getattr(module, "__all__", [n for n in dir(module) if not n.startswith("_")]):
            value = getattr(module, name)
            if (
                isinstance(value, types.ModuleType)
                or isinstance(value, type)
                and issubclass(value, Exception)
            ):
                continue
            if isinstance(value, type) and "mast3r" not in value.__module__:
                continue
            if isinstance(value, type):
                for method in dir(value):
                    member = inspect.getattr_static(value, method)
                    if not method.startswith("_") and isinstance(member, (types.FunctionType, classmethod)):
                        found[f"{name}.{method}"] = getattr(value, method)
                if "mast3r" in value.__module__ and value.__init__ is not object.__init__:
                    found[f"{name}.__init__"] = value
            elif callable(value) and "mast3r" in getattr(value, "__module__", ""):
                found[name] = value
    return found


def owner(name: str, good: dict[str, Any]) -> tuple[Any, ...]:
    """The object that a method is called on."""
    kind, _, method = name.partition(".")
    if not method or method == "__init__":
        return ()
    objects: dict[str, Any] = {
        "Engine": good["engine"], "CPUEngine": good["engine"], "MPSEngine": good["engine"],
        "RetrievalMethods": good["engine"], "Features": good["features_1"], "InferenceResult": good["result"],
        "MatchResult": good["matches"], "Transform": good["result"].transform_1, "RetrievalResult": good["results"][0],
        "MASt3RRuntimeConfig": good["config"],
        "Retrieved": collection.Retrieved(np.ones((2, 2), np.float32), [], "global", good["results"][:2], [0, 1]),
    }  # fmt: skip
    if kind == "GPUTensor":
        return (m3r.GPUTensor.from_numpy(np.zeros((2, 3), np.float32)),)
    if kind in ("GPUInferenceResult", "SymmetricResult", "ViewResult"):
        engine = good["engine"]
        pair = (good["img"], good["img"])
        symmetric = engine.infer_symmetric(*pair)
        views = [getattr(symmetric, f) for f in dir(symmetric) if f.startswith("view")]
        return (
            {"GPUInferenceResult": engine.infer_gpu(*pair), "SymmetricResult": symmetric}.get(kind, views[0]),
        )
    if kind == "Index":
        return (good["engine"].open_index(good["codebook"]),)
    if kind == "Runtime":
        runtime = m3r.get_runtime(good["config"])
        runtime.load(good["model"])
        return (runtime,)
    return (objects[kind],)


def briefly(wrong: list[str]) -> list[str]:
    """Two of each function."""
    seen: dict[str, int] = {}
    out = []
    for line in wrong:
        key = line.partition("(")[0]
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= 2:
            out.append(line)
    return out


ENDS = ("close", "release", "trim")


def test_every_argument_of_every_function(
    good: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAST3R_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MAST3R_OFFLINE", "1")
    wrong: list[str] = []
    kept: dict[str, tuple[Any, ...]] = {}
    took: dict[str, float] = {}
    count = called = 0
    for name, function in sorted(callables().items()):
        if name in NOT_CALLED or name.endswith(".to_torch") or name.rpartition(".")[2] in ENDS:
            continue
        kind, _, method = name.partition(".")
        bound = inspect.ismethod(function) or not method or method == "__init__"
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except ValueError:
            continue
        if not bound:
            parameters = parameters[1:]
        parameters = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        required = {p.name for p in parameters if p.default is p.empty}
        if method == "__init__" and kind not in ("Engine", "CPUEngine", "MPSEngine", "Runtime"):
            continue  # what a result or a setting holds is checked where it is used, or by test_config.py
        if missing := required - set(good):
            wrong.append(f"{name}: the table has no {missing}")
            continue
        called += 1
        begin = time.monotonic()
        for p in parameters:
            if "tick" in p.name or "progress" in p.name or p.name == "on_error" or p.name == "num_threads":
                continue  # callables of the caller, whose errors are his; threads are tried below
            worked = 0
            for value in HOSTILE:
                took[name] = time.monotonic() - begin
                if worked == 2 or took[name] > 5:
                    break  # it takes anything, as a switch does; or enough of one function
                arguments = {n: good[n] for n in required} | {p.name: value}
                count += 1
                try:
                    self = () if bound else kept.get(kind) or kept.setdefault(kind, owner(name, good))
                    with m3r.limit(timeout=1):  # some arguments ask for more work than anybody waits for
                        got = function(*self, **arguments)
                        if isinstance(got, types.GeneratorType):
                            list(got)
                    if hasattr(got, "close") and method != "__init__" and not isinstance(got, Image.Image):
                        got.close()
                    worked += 1
                except (errors.Mast3rError, NotImplementedError):
                    pass
                except Exception as error:
                    wrong.append(f"{name}({p.name}={value!r:.40}): {type(error).__name__}: {error!s:.80}")
    slow = {n: round(t, 1) for n, t in sorted(took.items(), key=lambda item: -item[1])[:8]}
    print(f"{count} calls of {called} functions; the slowest took {slow} s")
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(briefly(wrong))
    assert called > 70


def test_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The eager tensors' functions with the same values in each place."""
    wrong = []
    with mt.Context("cpu"):
        x = mt.tensor(np.ones((2, 3), np.float32))
        for name in sorted(mt.__all__):
            function = getattr(mt, name)
            if not isinstance(function, types.FunctionType):
                continue
            parameters = [
                p for p in inspect.signature(function).parameters.values()
                if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
            ]  # fmt: skip
            for p in parameters:
                for value in HOSTILE:
                    arguments = {q.name: x for q in parameters if q.default is q.empty} | {p.name: value}
                    try:
                        function(**arguments)
                    except errors.Mast3rError:
                        pass
                    except Exception as error:
                        wrong.append(f"{name}({p.name}={value!r:.40}): {type(error).__name__}: {error!s:.80}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(briefly(wrong))


def test_the_callers_errors_pass(good: dict[str, Any]) -> None:
    """An exception of the caller's own function is his, whatever its type."""

    class Mine:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            raise LookupError("mine")

    with pytest.raises(LookupError, match="^'?mine"):
        good["engine"].match(Mine(), good["desc_2"])
    with pytest.raises(ValueError, match="^mine$") as caught:
        m3r.convert(
            good["model"], good["target"], progress=lambda *_: (_ for _ in ()).throw(ValueError("mine"))
        )
    assert not isinstance(caught.value, errors.Mast3rError)
