# SPDX-License-Identifier: Apache-2.0
"""Folders of pictures: which pairs to run, and running all of them with each picture encoded once."""

from __future__ import annotations

from ._pairs.folder import list_images, read_pairs
from ._pairs.heads import find_beside
from ._pairs.retrieve import Retrieved, default_graph, infer_pairs, retrieve, similarity_picture

__all__ = [
    "Retrieved",
    "default_graph",
    "find_beside",
    "infer_pairs",
    "list_images",
    "read_pairs",
    "retrieve",
    "similarity_picture",
]
