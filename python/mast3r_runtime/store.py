# SPDX-License-Identifier: Apache-2.0
"""The store: results by the hash of what they were made of, shared by any number of processes.

See ``docs/store.md`` for what it holds, and :func:`mast3r_runtime.distributed.run_pairs` for what
fills it.
"""

from __future__ import annotations

from ._store.care import Checked, check, failures, foreign, sizes
from ._store.store import SCHEMA, Arrays, Store, file_hash, key_of

__all__ = [
    "SCHEMA",
    "Arrays",
    "Checked",
    "Store",
    "check",
    "failures",
    "file_hash",
    "foreign",
    "key_of",
    "sizes",
]
