# SPDX-License-Identifier: Apache-2.0
"""Which pictures of a collection are worth pairing: features, an index, pair lists.

A retrieval head turns encoder features into local features, each with an attention value. An
:class:`Index` with a codebook compares pictures by the features that fall on the same visual
words (ASMK). Without a codebook :func:`similarity` compares one vector per picture.
:func:`scene_pairs` turns scores, or the order of the pictures alone, into pairs.
"""

from __future__ import annotations

from ._engine.index import HostArray, Index, Pair, RetrievalResult, scene_pairs, similarity

__all__ = [
    "HostArray",
    "Index",
    "Pair",
    "RetrievalResult",
    "scene_pairs",
    "similarity",
]
