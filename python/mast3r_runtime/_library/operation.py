# SPDX-License-Identifier: Apache-2.0
"""An operation of eager tensors: the call made most often, its arguments laid out once and used again."""

from __future__ import annotations

from . import calls
from . import structs as S

__all__ = ["Call", "take"]

_OPERANDS, _RESULTS = 16, 4  # room that is kept; who needs more has it made for one call


class Call:
    """The argument of ``mast3r_tensor_apply`` for one operation, and the memory that it points to."""

    __slots__ = ("_apply", "_argument", "_attributes", "_idle", "_numbers", "_results", "numbers", "operands")

    def __init__(self, operation: str, operands: int, results: int, idle: list[Call]) -> None:
        self._apply = calls.library().mast3r_tensor_apply
        self.operands = (S.Handle * operands)()
        self.numbers = (S.Double * operands)()
        self._results = (S.Handle * results)()
        self._argument = S.struct(
            S.TensorCall,
            operation=operation.encode(),
            operands=S.address(self.operands),
            results=S.address(self._results),
            capacity=results,
        )
        self._attributes: bytes | None = None
        self._numbers = False
        self._idle = idle

    def run(self, context: int, count: int, attributes: bytes | None, numbers: bool) -> list[int]:
        """Make the call and return the handles of its results. It must not be used again."""
        argument = self._argument
        argument.context = context
        argument.count = count
        if attributes != self._attributes:  # a program has the same again and again
            argument.attributes = self._attributes = attributes
        if numbers != self._numbers:
            argument.numbers = S.address(self.numbers) if numbers else None
            self._numbers = numbers
        status = self._apply(argument)
        if status:
            calls.check("mast3r_tensor_apply", status)
        made: list[int] = self._results[: argument.produced]
        self._idle.append(self)
        return made


# Calls that nobody is making, by their operation. One is taken out for as long as it is made: by
# several threads at once, and by a signal handler in the middle of another.
_idle: dict[str, list[Call]] = {}


def take(operation: str, operands: int, results: int) -> Call:
    """Return a call to fill in: an operand is a handle, 0 if it is left out or a number."""
    if operands > _OPERANDS or results > _RESULTS:
        return Call(operation, operands, results, [])
    try:
        return _idle[operation].pop()
    except KeyError:
        idle = _idle[operation] = []
    except IndexError:
        idle = _idle[operation]
    return Call(operation, _OPERANDS, _RESULTS, idle)
