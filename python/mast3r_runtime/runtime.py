# SPDX-License-Identifier: Apache-2.0
"""The runtime: an engine behind a configuration, with numpy results."""

from __future__ import annotations

from ._engine.runtime import (
    Runtime,
    _again,
    get_available_backends,
    get_backend_info,
    get_best_backend,
    get_runtime,
)

__all__ = [
    "Runtime",
    "_again",  # runtimes pickled by 0.1.0 name it here
    "get_available_backends",
    "get_backend_info",
    "get_best_backend",
    "get_runtime",
]
