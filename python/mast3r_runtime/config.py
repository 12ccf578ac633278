# SPDX-License-Identifier: Apache-2.0
"""Configuration of :func:`mast3r_runtime.get_runtime`.

Frozen dataclasses that check their values. A value of the wrong type or out of range is an
ArgumentError that names the value and the range. An unknown name is a TypeError, as in any
Python constructor; in a YAML file it is an ArgumentError that lists the valid names.
"""

from __future__ import annotations

from ._engine.config import (
    PRESET_DESKTOP_PRECISION,
    PRESET_DRONE_FAST,
    PRESET_DRONE_QUALITY,
    BackendType,
    MASt3RRuntimeConfig,
    MatchingConfig,
    ModelConfig,
    ModelVariant,
    Precision,
    RuntimeConfig,
)

__all__ = [
    "BackendType",
    "MASt3RRuntimeConfig",
    "MatchingConfig",
    "ModelConfig",
    "ModelVariant",
    "PRESET_DESKTOP_PRECISION",
    "PRESET_DRONE_FAST",
    "PRESET_DRONE_QUALITY",
    "Precision",
    "RuntimeConfig",
]
