# SPDX-License-Identifier: Apache-2.0
"""Where the retrieval head and the codebook of a model are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .._checkpoints import places
from .._checkpoints.specs import MODEL_SPECS
from ..errors import ModelNotFoundError, checked

__all__ = ["find_beside", "need_retrieval"]


@checked
def find_beside(model: str | os.PathLike[str] | None, role: str) -> Path | None:
    """The ``retrieval`` head or ``codebook`` beside a model, or in the cache of official files."""
    official = [file.name for spec in MODEL_SPECS.values() for file in spec.files if file.role == role]
    folders = []
    if model is not None:
        folders.append(Path(model) if Path(model).is_dir() else Path(model).parent)
    names = [f"{role}.safetensors", *(Path(name).name for name in official)]
    candidates = [folder / name for folder in folders for name in names]
    if model is None or Path(model) not in map(places.bundled_model, places.BUNDLED):
        candidates += [places.checkpoint_dir() / name for name in official]
    return next((place for place in candidates if place.is_file()), None)


def need_retrieval(model: Any, given: Path | None) -> Path:
    """The retrieval head to use, or an error that says where to get one."""
    found = given or find_beside(model, "retrieval")
    if found is None:
        raise ModelNotFoundError(
            "retrieve: no retrieval head for this model. It needs --retrieval FILE "
            "(retrieval.safetensors or ..._retrieval_trainingfree.pth), and takes --codebook FILE if there "
            "is one; `mast3r download mast3r_vit_large` fetches both. Without one it compares one vector "
            "per picture. DUNE models have no published head"
        )
    return found
