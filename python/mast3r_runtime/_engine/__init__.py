# SPDX-License-Identifier: Apache-2.0
"""The engine and what it is made of.

``engine`` is the class, ``features`` what it keeps of one picture, ``facts`` what it tells about
its device; ``reports`` and ``timing`` measure it, ``pillow`` prepares pictures in Python.
"""

from .engine import Engine, _rebuild

__all__ = ["Engine", "_rebuild"]  # engines pickled by 0.1.0 name these two here
