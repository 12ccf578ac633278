# SPDX-License-Identifier: Apache-2.0
"""The tensor operations, in modules by what they do."""

from __future__ import annotations

from . import elementwise, layers, shapes
from .elementwise import *  # noqa: F403
from .layers import *  # noqa: F403
from .shapes import *  # noqa: F403

__all__ = [*elementwise.__all__, *layers.__all__, *shapes.__all__]
