# SPDX-License-Identifier: Apache-2.0
"""Handles go back when nothing refers to them, and no Ctrl-C of that moment is lost."""

from __future__ import annotations

import ast
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, code_run_by_the_end_of

import mast3r_runtime as m3r
import mast3r_runtime.tensor as mt
from mast3r_runtime import errors
from mast3r_runtime._library import calls
from mast3r_runtime._library import structs as S
from mast3r_runtime._library.owned import Owned

PACKAGE = ROOT / "python" / "mast3r_runtime"


def engine(micro: Path) -> m3r.Engine:
    made = m3r.Engine("auto", 64, "fp32", 2, backend="cpu")
    made.load(micro)
    return made


# What holds a handle of its own, and a call that says whether the library still knows it.
KINDS: dict[str, tuple[Callable[[Any], Any], str, Callable[[], tuple[Any, ...]]]] = {
    "Engine": (engine, "mast3r_engine_trim", tuple),
    "Index": (
        lambda retriever: retriever.open_index(retriever.codebook),
        "mast3r_index_length",
        lambda: (S.UInt64(),),
    ),
    "Context": (
        lambda _: mt.Context("cpu", threads=1),
        "mast3r_tensor_info",
        lambda: (S.struct(S.TensorStats),),
    ),
    "Tensor": (
        lambda context: context.tensor(np.ones(3, np.float32)),
        "mast3r_tensor_describe",
        lambda: (S.struct(S.TensorDesc),),
    ),
    "Commands": (lambda context: context.begin(), "mast3r_commands_commit", tuple),
    "Executor": (lambda _: mt.Executor(threads=1), "mast3r_executor_calibrate", tuple),
}


@pytest.mark.parametrize("kind", KINDS)
def test_handles_are_given_back_without_python_code(
    kind: str, micro: Path, head: Path, codebook: Path
) -> None:
    """Python code in a finalizer is where a Ctrl-C of that moment is printed and lost."""
    make, probe, arguments = KINDS[kind]
    below: Any = micro
    if kind == "Index":
        below = engine(micro)
        below.load_retrieval(head)
        below.codebook = codebook
    elif kind in ("Tensor", "Commands"):
        below = mt.Context("cpu", threads=1)
    held = [make(below)]
    handle = getattr(held[0], "_owned", held[0])._handle
    calls.call(probe, handle, *arguments()) if kind != "Commands" else None
    gc.collect()
    assert not code_run_by_the_end_of(held)
    with pytest.raises(errors.ClosedError):
        calls.call(probe, handle, *arguments())


def test_closed_once_and_by_whom() -> None:
    """close() gives back once, and what it could not do is left to the end of the object."""
    context = mt.Context("cpu", threads=1)
    owned = context._owned
    assert owned._alive
    context.close()
    context.close()
    assert not owned._alive

    executor = mt.Executor(threads=1)
    handle, owned = executor._handle, executor._owned

    def interrupted(name: str, number: int) -> int:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(calls, "call", interrupted)
        executor.close()
    assert not owned._alive
    calls.call("mast3r_executor_calibrate", handle)  # it was not given back yet
    del executor, owned
    with pytest.raises(errors.ClosedError):
        calls.call("mast3r_executor_calibrate", handle)


@pytest.mark.parametrize("taken", [True, False], ids=["read by numpy", "taken by nobody"])
def test_what_another_library_could_read_is_let_go_without_python_code(taken: bool) -> None:
    from test_dlpack import Owner, Tensor

    owner = Owner()
    alive = weakref.ref(owner)
    held: list[Any] = [np.from_dlpack(Tensor(owner)) if taken else owner.capsule()]
    del owner
    gc.collect()
    assert alive() is not None
    assert not code_run_by_the_end_of(held)
    assert alive() is None


def test_no_finalizer_is_python_code() -> None:
    """Who needs one holds an Owned: weakref.finalize, __del__ and weak containers all run Python code."""
    for path in PACKAGE.rglob("*.py"):
        if "_gopy" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node, "attr", getattr(node, "id", getattr(node, "name", "")))
            assert name not in ("finalize", "WeakSet", "WeakValueDictionary", "WeakKeyDictionary"), path
            assert not (isinstance(node, ast.FunctionDef) and name == "__del__"), path


def test_an_engine_that_is_forgotten_is_closed(micro: Path) -> None:
    made = engine(micro)
    reference, handle = weakref.ref(made), made._handle
    assert isinstance(made._owned, Owned)
    del made
    gc.collect()
    assert reference() is None
    with pytest.raises(errors.ClosedError):
        calls.call("mast3r_engine_trim", handle)
