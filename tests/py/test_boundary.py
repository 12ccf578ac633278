# SPDX-License-Identifier: Apache-2.0
"""The C boundary with what no caller should pass: NULL, nothing, and handles that are none."""

from __future__ import annotations

import ctypes as C

import pytest

from mast3r_runtime import errors
from mast3r_runtime._library import calls, header, structs

CALLS = sorted(header.SIGNATURES)
HANDLES = (1, 0xDEADBEEF, 2**64 - 1, 1 << 32)


def status(name: str, *arguments: object) -> int:
    return int(getattr(calls.library(), name)(*arguments))


def nothing(kind: type) -> object:
    return None if issubclass(kind, (C._Pointer, C.c_char_p, C.c_void_p)) else kind(0)


@pytest.mark.parametrize("name", CALLS)
def test_null_and_zero(name: str) -> None:
    """Every pointer NULL and every number 0: a status and a text, never a crash."""
    if name in ("mast3r_log_level",):  # one number, of which 0 is a good one
        return
    got = status(name, *map(nothing, header.SIGNATURES[name]))
    assert got in calls._ERRORS, name
    assert calls.library().mast3r_last_error(), name


@pytest.mark.parametrize("name", [n for n in CALLS if header.SIGNATURES[n][0] is structs.Handle])
def test_handles_that_are_none(name: str) -> None:
    """With room for every answer, a made-up handle is the only thing wrong."""
    kinds = header.SIGNATURES[name]
    for handle in HANDLES:
        keep: list[object] = []
        arguments: list[object] = [structs.Handle(handle)]
        for kind in kinds[1:]:
            if issubclass(kind, C._Pointer):
                target = kind._type_
                value = structs.struct(target) if issubclass(target, structs._Sized) else target()
                keep.append(value)
                arguments.append(C.byref(value))
            elif issubclass(kind, C.c_char_p):
                arguments.append(b"x")
            elif issubclass(kind, C.c_void_p):
                keep.append(C.create_string_buffer(64))
                arguments.append(C.cast(keep[-1], C.c_void_p))
            else:
                arguments.append(kind(1))
        # Some arguments are looked at before the handle: those errors are as good.
        assert status(name, *arguments) in calls._ERRORS, name


@pytest.mark.parametrize("name", CALLS)
def test_structs_of_another_size(name: str) -> None:
    """A struct whose size field is wrong is refused, whatever else is there."""
    kinds = header.SIGNATURES[name]
    pointers = [i for i, kind in enumerate(kinds) if issubclass(kind, C._Pointer)]
    for wrong in pointers:
        if not issubclass(kinds[wrong]._type_, structs._Sized):
            continue
        arguments = [nothing(kind) for kind in kinds]
        value = kinds[wrong]._type_(size=3)
        arguments[wrong] = C.byref(value)
        assert status(name, *arguments) in calls._ERRORS, name


def test_sizes_beyond_reason() -> None:
    """Counts and lengths that would overflow are refused before anything is allocated."""
    with pytest.raises(errors.ArgumentError):
        out = structs.Handle()
        calls.call("mast3r_scene_pairs", 2**31 - 1, b"complete", None, C.byref(out))
    engine = structs.Handle()
    config = structs.struct(structs.Config, threads=1, backend=b"cpu")
    calls.call("mast3r_engine_create", C.byref(config), C.byref(engine))
    try:
        image = structs.struct(structs.Image, height=2**30, width=2**30, pixels=1)
        job = structs.Handle()
        for call in ("mast3r_submit_encode", "mast3r_submit_retrieval", "mast3r_submit_sequence"):
            for count in (1, 2**40):
                with pytest.raises(errors.Mast3rError):
                    calls.call(call, engine, C.byref(image), count, None, C.byref(job))
        for size in (2**63, 2**41):
            with pytest.raises(errors.ArgumentError, match="bytes"):
                calls.call("mast3r_buffer_acquire", engine, size, C.byref(job))
        features = structs.struct(structs.Features, tokens=1, count=2**60)
        with pytest.raises(errors.ShapeError, match="numbers"):
            calls.call(
                "mast3r_submit_decode", engine, C.byref(features), C.byref(features), None, C.byref(job)
            )
    finally:
        calls.call("mast3r_engine_close", engine)
