# SPDX-License-Identifier: Apache-2.0
"""The memory that an engine or a context of tensors keeps for reuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import checked
from . import calls
from . import structs as S

__all__ = ["Pool", "PoolStats"]


@dataclass(frozen=True)
class PoolStats:
    """The books of a pool; the names are those of Go, C and C++.

    ``pooled_…`` is kept for reuse, ``in_use_…`` handed out; bytes count whole buffers, and
    ``overhead_bytes`` is what those in use have more than was asked for. ``allocations``,
    ``reuses``, ``evictions`` and ``peak_bytes`` start again at ``cleanup()``.
    """

    per_size: int
    limit_bytes: int
    pooled_buffers: int
    pooled_bytes: int
    in_use_buffers: int
    in_use_bytes: int
    allocations: int
    reuses: int
    evictions: int
    peak_bytes: int
    overhead_bytes: int

    @property
    def reuse_rate(self) -> float:
        """reuses / (reuses + allocations), 0 before the first request."""
        requests = self.reuses + self.allocations
        return self.reuses / requests if requests else 0.0


@checked
class Pool:
    """Statistics, limits and memory pressure of one pool."""

    def __init__(self, prefix: str, handle: Callable[[], int]) -> None:
        self._prefix = prefix
        self._handle = handle

    def stats(self) -> PoolStats:
        """Read the books."""
        out = S.struct(S.Pool)
        calls.call(f"{self._prefix}_info", self._handle(), out)
        return PoolStats(**{name: getattr(out, name) for name in PoolStats.__dataclass_fields__})

    def configure(self, *, per_size: int | None = None, limit_bytes: int | None = None) -> None:
        """Change how many free buffers of one size are kept (0: the usual number), and the limit
        of bytes in use and kept together (0: none). None leaves a setting as it is."""
        now = self.stats()
        calls.call(
            f"{self._prefix}_configure",
            self._handle(),
            calls.int32("per_size", now.per_size if per_size is None else per_size),
            calls.uint64("limit_bytes", now.limit_bytes if limit_bytes is None else limit_bytes),
        )

    def memory_pressure(self, critical: bool = False) -> int:
        """Give half of the kept memory back, or all when the need is critical; return the buffers."""
        freed = S.UInt64()
        calls.call(f"{self._prefix}_pressure", self._handle(), int(critical), freed)
        return int(freed.value)
