# SPDX-License-Identifier: Apache-2.0
"""Where model files are: in the wheel, in the cache, or where the user says."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import ModelNotFoundError

__all__ = ["BUNDLED", "VARIANTS", "bundled_model", "cache_dir", "find"]

BUNDLED = "mast3r_tiny"
VARIANTS = (
    "mast3r_tiny",
    "mast3r_vit_large",
    "dune_vit_small_336",
    "dune_vit_small_448",
    "dune_vit_base_336",
    "dune_vit_base_448",
)
ALIASES = {"dune_vit_small_14": "dune_vit_small_448", "dune_vit_base_14": "dune_vit_base_448"}


def bundled_model() -> Path:
    """The small demonstration model that ships in the wheel."""
    return Path(__file__).with_name("models") / BUNDLED / "unified.safetensors"


def cache_dir() -> Path:
    """MAST3R_CACHE_DIR (read when called), or ``~/.cache/mast3r_runtime``."""
    override = os.environ.get("MAST3R_CACHE_DIR")
    return Path(override) if override else Path.home() / ".cache" / "mast3r_runtime"


def find(variant: str, directory: Path | None = None) -> Path:
    """Return where the files of ``variant`` are, or say where they were looked for."""
    if variant in ("auto", BUNDLED):
        return bundled_model()
    name = ALIASES.get(variant, variant)
    if name not in VARIANTS:
        raise ValueError(f"variant {variant!r}, want one of auto, {', '.join((*VARIANTS, *ALIASES))}")
    where = (directory or cache_dir()) / name
    if not where.is_dir():
        raise ModelNotFoundError(
            f"no files of {name} in {where}; put its safetensors there, give load() a path, or "
            f"use variant={BUNDLED!r}, the small demonstration model in the wheel"
        )
    return where
