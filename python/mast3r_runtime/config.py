# SPDX-License-Identifier: Apache-2.0
"""Configuration of :func:`mast3r_runtime.get_runtime`.

Frozen dataclasses that check themselves: a value out of range is a ValueError that names
it and the range, and an unknown name is a TypeError, as for any Python constructor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from . import _models

__all__ = [
    "BackendType",
    "MASt3RRuntimeConfig",
    "MatchingConfig",
    "ModelConfig",
    "ModelVariant",
    "Precision",
    "RuntimeConfig",
]


class _Text(str, Enum):
    """An enumeration whose members are their texts."""

    def __str__(self) -> str:
        return str(self.value)

    __hash__ = str.__hash__  # a member finds what its text is the key of


class ModelVariant(_Text):
    MAST3R_TINY = "mast3r_tiny"
    MAST3R_VIT_LARGE = "mast3r_vit_large"
    DUNE_VIT_SMALL_336 = "dune_vit_small_336"
    DUNE_VIT_SMALL_448 = "dune_vit_small_448"
    DUNE_VIT_BASE_336 = "dune_vit_base_336"
    DUNE_VIT_BASE_448 = "dune_vit_base_448"

    @classmethod
    def _missing_(cls, value: object) -> ModelVariant | None:
        name = _models.ALIASES.get(str(value))
        return cls(name) if name else None

    @property
    def patch(self) -> int:
        """Side of a patch in pixels."""
        return 14 if self.value.startswith("dune") else 16


class BackendType(_Text):
    AUTO = "auto"
    METAL = "metal"
    CPU = "cpu"


class Precision(_Text):
    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # NaN fails as well
        raise ValueError(f"{name}={value}, want {low} to {high}")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Which model. ``resolution`` None is the model's native long side."""

    variant: ModelVariant = ModelVariant.DUNE_VIT_SMALL_336
    resolution: int | None = None
    precision: Precision = Precision.FP16

    def __post_init__(self) -> None:
        object.__setattr__(self, "variant", ModelVariant(self.variant))
        object.__setattr__(self, "precision", Precision(self.precision))
        if self.resolution is not None:
            _between("resolution", self.resolution, 224, 560)
            patch = self.variant.patch
            if self.resolution % patch:
                raise ValueError(f"resolution={self.resolution}, want a multiple of the patch, {patch}")


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Where it runs. ``num_threads`` 0 is every core."""

    backend: BackendType = BackendType.AUTO
    num_threads: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "backend", BackendType(self.backend))
        _between("num_threads", self.num_threads, 0, 16)


@dataclass(frozen=True, slots=True)
class MatchingConfig:
    """How pairs are matched."""

    top_k: int = 512
    reciprocal: bool = True
    confidence_threshold: float = 0.5

    def __post_init__(self) -> None:
        _between("top_k", self.top_k, 64, 2048)
        _between("confidence_threshold", self.confidence_threshold, 0, 1)


@dataclass(frozen=True, slots=True)
class MASt3RRuntimeConfig:
    """Everything :func:`mast3r_runtime.get_runtime` needs. ``cache_dir`` None: the default."""

    model: ModelConfig = field(default_factory=ModelConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    matching: MatchingConfig = field(default_factory=MatchingConfig)
    cache_dir: Path | None = None

    def __post_init__(self) -> None:
        if self.cache_dir is not None:
            object.__setattr__(self, "cache_dir", Path(self.cache_dir))
