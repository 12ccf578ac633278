# SPDX-License-Identifier: Apache-2.0
"""Facts about a device: the functions of :mod:`mast3r_runtime.backends`, written once for both modules."""

from __future__ import annotations

from typing import Any

from .._library import calls
from .._library.device import available, backend_wanted, create, info_of
from .engine import open_engines

__all__ = ["DeviceFacts"]


class DeviceFacts:
    """Answers from an engine without a model, opened for the question and closed after it.

    ``backend`` is whom to ask, ``needed`` the backend without which :meth:`is_available` is False.
    """

    def __init__(self, backend: str, needed: str) -> None:
        self._backend = backend
        self._needed = needed

    def is_available(self) -> bool:
        """Whether the backend of this module can run the model here; for Metal: macOS 15, an Apple GPU."""
        return available(self._needed) == ""

    def _info(self) -> dict[str, Any]:
        handle = create(backend_wanted(self._backend))
        try:
            return info_of(handle)
        finally:
            calls.release("mast3r_engine_close", handle)

    def get_name(self) -> str:
        """The backend that an engine would run on: ``metal``, ``cuda`` or ``cpu``."""
        return str(self._info()["backend"])

    def get_device_name(self) -> str:
        """The device, as its maker names it."""
        return str(self._info()["device"])

    def get_recommended_working_set_size(self) -> int:
        """Bytes that the device can hold without slowing down."""
        return int(self._info()["working_set"])

    def get_max_buffer_length(self) -> int:
        """Bytes of the largest single buffer."""
        return int(self._info()["max_buffer"])

    def get_context_info(self) -> dict[str, Any]:
        """All of the above in one dictionary; the pools are those of the engines that are open."""
        info = self._info()
        pools = [engine.info() for engine in open_engines()]
        pools = [pool for pool in pools if pool["backend"] == info["backend"]]
        return {
            "device_name": info["device"],
            "recommended_working_set_size": info["working_set"],
            "max_buffer_length": info["max_buffer"],
            "buffer_pool_count": sum(pool["pool_buffers"] for pool in pools),
            "buffer_pool_bytes": sum(pool["pool_bytes"] for pool in pools),
            "backend": info["backend"],
            "unified_memory": bool(info["unified_memory"]),
            "os_version": info["os"],
            "threads": info["threads"],
            "fallback_reason": info["fallback_reason"],
        }

    def clear_buffer_pool(self) -> None:
        """Give the memory that open engines keep for reuse back to the system."""
        for engine in open_engines():
            engine.trim()

    def synchronize(self) -> None:
        """Wait for the work of every open engine, other threads' included."""
        calls.check_fork()
        for engine in open_engines():
            calls.call("mast3r_engine_synchronize", engine._live())
