# SPDX-License-Identifier: Apache-2.0
"""Every call of capi/mast3r.h with hostile arguments, in a process of its own: python hostile_c.py MODEL.

Run by test_hostile_c.py. Each argument in turn is hostile while the others are right, or all of
them are. What C cannot check is kept: a pointer that is not NULL points to as much memory as its
count says. The last line is JSON: how many calls, and which statuses each call gave.
"""

from __future__ import annotations

import ctypes as C
import itertools
import json
import math
import sys
from typing import Any

from mast3r_runtime._library import calls, header
from mast3r_runtime._library import structs as S

STATUSES = {value for name, value in vars(header).items() if name.startswith("E_")} | {0, 1}
NUMBERS: dict[Any, tuple[Any, ...]] = {
    C.c_int32: (0, -1, 1, 2**31 - 1, -(2**31)),
    C.c_uint64: (0, 1, 2**64 - 1, 2**63),
    C.c_size_t: (0, 1),  # counts, of what the pointer before points to
    C.c_double: (0.0, -1.0, math.nan, math.inf, -math.inf, 1e308),
}
TEXTS = (None, b"", b"\xff\xfe", b"x" * 5000, b"/nonexistent/none", b"{", b'{"a": 1e999}', b"null")
ENDS = ("_close", "_free", "_release", "take_index")
DATA = 1 << 16  # bytes behind a bare pointer


def fill(struct: Any, how: str) -> Any:
    """A struct with hostile numbers, its pointers NULL, its size right."""
    for name, kind in struct._fields_:
        if name == "size":
            continue
        if how == "minus" and kind in (C.c_int32, C.c_int64, C.c_float, C.c_double):
            setattr(struct, name, -1)
        elif how == "huge" and kind is C.c_int32:
            setattr(struct, name, 2**31 - 1)
        elif how == "huge" and kind in (C.c_uint64, C.c_size_t, C.c_int64) and name != "count":
            setattr(struct, name, 2**63 - 1)
        elif how in ("minus", "huge") and kind in (C.c_float, C.c_double):
            setattr(struct, name, math.nan if how == "huge" else -math.inf)
    return struct


def pointers(kind: Any) -> list[Any]:
    """NULL, and structs of the type: of wrong sizes, zero, with hostile numbers."""
    target = kind._type_
    if target is S.Handle:
        return [None, C.pointer(S.Handle(0)), C.pointer(S.Handle(2**64 - 1))]
    if issubclass(target, C.Structure):
        out: list[Any] = [None]
        for size in (0, 1, C.sizeof(target) - 1, C.sizeof(target) + 1, 2**32 - 1):
            out.append(C.pointer(target(size=size)))
        for how in ("zero", "minus", "huge"):
            out.append(C.pointer(fill(target(size=C.sizeof(target)), how)))
        return out
    memory = C.create_string_buffer(DATA)
    return [None, C.cast(memory, kind)]


class Machine:
    """Handles of every kind, made anew when a call has ended them."""

    def __init__(self, lib: C.CDLL, model: bytes) -> None:
        self.lib, self.model = lib, model
        self.live: dict[str, S.Handle] = {}
        self.dead = S.Handle()
        self.make()
        stale = S.Handle()
        config = S.TensorConfig(size=C.sizeof(S.TensorConfig), backend=b"cpu")
        assert lib.mast3r_tensor_open(C.byref(config), C.byref(stale)) == 0
        assert lib.mast3r_tensor_close(stale) == 0
        self.dead = stale

    def make(self) -> None:
        lib = self.lib
        config = S.Config(size=C.sizeof(S.Config), backend=b"cpu", threads=1)
        engine, job, context, tensor, buffer, executor = (S.Handle() for _ in range(6))
        assert lib.mast3r_engine_create(C.byref(config), C.byref(engine)) == 0
        assert lib.mast3r_submit_load(engine, self.model, C.byref(job)) == 0
        assert lib.mast3r_job_wait(job, -1) == 0 and lib.mast3r_job_free(job) == 0
        cost = S.CostOptions(size=C.sizeof(S.CostOptions), model=self.model)
        assert lib.mast3r_submit_cost(C.byref(cost), C.byref(job)) == 0 and lib.mast3r_job_wait(job, -1) == 0
        settings = S.TensorConfig(size=C.sizeof(S.TensorConfig), backend=b"cpu")
        assert lib.mast3r_tensor_open(C.byref(settings), C.byref(context)) == 0
        shape, data = (C.c_int64 * 2)(2, 3), (C.c_float * 6)()
        made = lib.mast3r_tensor_from_host(context, header.F32, 2, shape, data, 24, C.byref(tensor))
        assert made == 0
        assert lib.mast3r_buffer_acquire(engine, 64, C.byref(buffer)) == 0
        assert lib.mast3r_executor_open(1, C.byref(executor)) == 0
        self.live = dict(
            engine=engine, job=job, context=context, tensor=tensor, buffer=buffer, executor=executor
        )

    def handles(self) -> list[S.Handle]:
        return [S.Handle(0), S.Handle(2**64 - 1), self.dead, *self.live.values()]


def arguments(machine: Machine, name: str, kinds: list[Any]) -> list[list[Any]]:
    """For each argument its values; a count is at most 1 where the pointer before it is not NULL."""
    ends = any(end in name for end in ENDS)
    out: list[list[Any]] = []
    for i, kind in enumerate(kinds):
        if kind is S.Handle:
            out.append(machine.handles()[:3] if ends else machine.handles())
        elif kind is C.c_char_p:
            buffer = i + 1 < len(kinds) and kinds[i + 1] is C.c_size_t
            out.append([None, C.create_string_buffer(DATA)] if buffer else list(TEXTS))
        elif kind is C.c_void_p:
            out.append([None, C.cast(C.create_string_buffer(DATA), C.c_void_p)])
        elif kind in NUMBERS:
            out.append(list(NUMBERS[kind]))
        else:
            out.append(pointers(kind))
    return out


def main() -> None:
    lib = calls.library()
    machine = Machine(lib, sys.argv[1].encode())
    seen: dict[str, set[int]] = {}
    count = 0
    for name, kinds in sorted(header.SIGNATURES.items()):
        print(name, file=sys.stderr, flush=True)
        statuses = seen.setdefault(name, set())
        values = arguments(machine, name, kinds)
        shape = name in ("mast3r_tensor_from_host", "mast3r_tensor_empty")
        rounds = itertools.product(*values) if math.prod(map(len, values)) <= 600 else one_by_one(values)
        for given in rounds:
            if name == "mast3r_focal" and given[0] is not None and abs(given[1] * given[2]) > 1000:
                continue  # more than the memory behind the pointer
            if shape and given[3] is not None and not given[2] <= 64:
                continue
            status = getattr(lib, name)(*given)
            count += 1
            statuses.add(status)
            assert status in STATUSES and status != header.E_INTERNAL, (name, status, given)
            if status > 1:
                assert lib.mast3r_last_error(), (name, status, "no text")
            if name.startswith("mast3r_submit") and status == 0:
                job = given[-1].contents
                lib.mast3r_job_wait(job, 20)
                assert lib.mast3r_job_free(job) == 0
        if name == "mast3r_log_level":
            lib.mast3r_log_level(8)
    live = S.Stats(size=C.sizeof(S.Stats))
    assert lib.mast3r_live(C.byref(live)) == 0
    print(json.dumps({"calls": count, "statuses": {name: sorted(found) for name, found in seen.items()}}))


def one_by_one(values: list[list[Any]]) -> Any:
    """Each value of each argument, the others at their first, their middle and their last."""
    for rest in (0, 0.5, 1):
        base = [v[int(rest * (len(v) - 1))] for v in values]
        for i, options in enumerate(values):
            for value in options:
                yield [*base[:i], value, *base[i + 1 :]]


if __name__ == "__main__":
    main()
