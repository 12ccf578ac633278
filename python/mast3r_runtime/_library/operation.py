# SPDX-License-Identifier: Apache-2.0
"""An operation of eager tensors: the call made most often, its arguments laid out once and used again."""

from __future__ import annotations

from typing import Any

from . import calls
from . import structs as S

__all__ = ["run"]

_OPERANDS, _RESULTS = 16, 4  # room that is kept; who needs more has it made for one call


class _Call:
    """The argument of ``mast3r_tensor_apply`` for one operation, and the memory that it points to."""

    __slots__ = ("apply", "argument", "operands", "results")

    def __init__(self, operation: str, operands: int, results: int) -> None:
        self.apply = calls.library().mast3r_tensor_apply
        self.operands = (S.Handle * operands)()
        self.results = (S.Handle * results)()
        self.argument = S.struct(
            S.TensorCall,
            operation=operation.encode(),
            operands=S.address(self.operands),
            results=S.address(self.results),
            capacity=results,
        )

    def make(self, context: int, attributes: bytes | None, operands: list[Any]) -> list[int]:
        argument, count = self.argument, len(operands)
        argument.context = context
        argument.attributes = attributes
        argument.count = count
        self.operands[:count] = operands
        calls.check("mast3r_tensor_apply", self.apply(argument))
        made: list[int] = self.results[: argument.produced]
        return made


# Calls that nobody is making, by their operation. One is taken out for as long as it is made: by
# several threads at once, and by a signal handler in the middle of another.
_idle: dict[str, list[_Call]] = {}


def run(
    context: int, operation: str, attributes: bytes | None, operands: list[int], results: int
) -> list[int]:
    """Run an operation on handles, 0 for an operand left out; return those of at most ``results`` tensors."""
    count = len(operands)
    if count > _OPERANDS or results > _RESULTS:
        return _Call(operation, count, results).make(context, attributes, operands)
    try:
        call = _idle[operation].pop()
    except (KeyError, IndexError):
        call = _Call(operation, _OPERANDS, _RESULTS)
    made = call.make(context, attributes, operands)
    _idle.setdefault(operation, []).append(call)  # not before the library was seen to know it
    return made
