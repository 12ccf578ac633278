# SPDX-License-Identifier: Apache-2.0
"""The engine and what it is made of.

``engine`` is the class; ``features`` is what it keeps of one picture; ``device`` chooses the
backend and tells facts about it.
"""

from .engine import Engine, _rebuild

__all__ = ["Engine", "_rebuild"]  # engines pickled by 0.1.0 name these two here
