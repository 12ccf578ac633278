# SPDX-License-Identifier: Apache-2.0
"""Folders of pictures: which pairs are worth it, and all pairs with every picture encoded once."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from . import drawing, export
from ._checkpoints import places
from ._checkpoints.specs import MODEL_SPECS
from ._engine.engine import Engine
from ._engine.features import Features
from ._files import replacing
from ._library.options import Only
from .errors import ArgumentError, ImageNotFoundError, ModelNotFoundError
from .images import ImageLike, read_image
from .results import GPUInferenceResult
from .retrieval import Pair, RetrievalResult, scene_pairs, similarity

__all__ = [
    "Retrieved",
    "default_graph",
    "find_beside",
    "infer_pairs",
    "list_images",
    "retrieve",
    "similarity_picture",
]

F32 = npt.NDArray[np.float32]

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".ppm"}


def list_images(folder: str | os.PathLike[str]) -> list[Path]:
    """The pictures of a folder by name."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ImageNotFoundError(f"folder {str(folder)!r}: no such folder")
    paths = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and not p.name.startswith("."))
    if len(paths) < 2:
        raise ImageNotFoundError(
            f"folder {str(folder)!r}: {len(paths)} pictures ({', '.join(sorted(SUFFIXES))}), want at least 2"
        )
    return paths


def find_beside(model: str | os.PathLike[str] | None, role: str) -> Path | None:
    """The ``retrieval`` head or ``codebook`` that lies with a model, or in the cache of official files."""
    official = [file.name for spec in MODEL_SPECS.values() for file in spec.files if file.role == role]
    folders = []
    if model is not None:
        folders.append(Path(model) if Path(model).is_dir() else Path(model).parent)
    names = [f"{role}.safetensors", *(Path(name).name for name in official)]
    candidates = [folder / name for folder in folders for name in names]
    if model is None or Path(model) != places.bundled_model():
        candidates += [places.checkpoint_dir() / name for name in official]
    return next((place for place in candidates if place.is_file()), None)


def default_graph(n: int) -> str:
    """Anchors and neighbours for n pictures, as the reference's demonstration takes them."""
    return f"retrieval-{min(20, n)}-{min(10, max(n - 1, 1))}"


@dataclass(frozen=True, slots=True, eq=False)
class Retrieved:
    """What :func:`retrieve` found. ``scores[i, j]`` says how alike pictures i and j are."""

    scores: F32
    pairs: list[Pair]
    method: str
    features: list[RetrievalResult]

    def write(self, folder: Path, names: Sequence[str]) -> list[Path]:
        """Write ``pairs.txt``, ``pairs.json`` and ``similarity.png``."""
        folder.mkdir(parents=True, exist_ok=True)
        rows = [(names[p.first], names[p.second], round(float(self.scores[p]), 6)) for p in self.pairs]
        text = "".join(f"{a} {b} {score:.6f}\n" for a, b, score in rows)
        listed = [{"first": a, "second": b, "score": score} for a, b, score in rows]
        files = [folder / "pairs.txt", folder / "pairs.json", folder / "similarity.png"]
        with replacing(files[0]) as temporary:
            temporary.write_text(text, encoding="utf-8")
        with replacing(files[1]) as temporary:
            content = {"method": self.method, "images": list(names), "pairs": listed}
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        export.write_png(files[2], similarity_picture(self.scores, names))
        return files


def retrieve(
    engine: Engine,
    images: Sequence[ImageLike],
    codebook: str | os.PathLike[str] | None = None,
    graph: str | None = None,
    *,
    nfeat: float = 300,
    tick: Callable[[], None] = lambda: None,
) -> Retrieved:
    """Score pictures against each other and choose the pairs to reconstruct.

    Parameters
    ----------
    engine : Engine
        With a retrieval head loaded.
    images : sequence of pictures
        Read one after the other: they need not fit into memory together.
    codebook : path, optional
        With one, ASMK scores; without, cosines of one vector per picture.
    graph : str, optional
        See :func:`scene_pairs`; :func:`default_graph` when left out.
    nfeat : float
        Of each picture so many features count in the index.
    tick : callable
        Called after each picture.
    """
    size, patch = _size(engine)
    # The reference cuts squares to 4:3 here; at sizes where that cannot be, they stay square.
    square_ok = (size * 3 // 4) % patch != 0
    features = []
    for image in images:
        features.append(engine.encode_retrieval(read_image(image), square_ok=square_ok))
        tick()
    if codebook is None:
        scores, method = similarity(features), "cosine of global vectors"
    else:
        with engine.open_index(codebook, nfeat) as index:
            index.add(features)
            scores, method = index.score(features), "ASMK"
    pairs = scene_pairs(len(features), graph or default_graph(len(features)), scores)
    return Retrieved(scores, pairs, method, features)


def _size(engine: Engine) -> tuple[int, int]:
    info = engine.info()
    return int(info["resolution"]), max(int(info["patch"]), 1)


def infer_pairs(
    engine: Engine,
    images: Sequence[ImageLike],
    pairs: Sequence[tuple[int, int]],
    *,
    only: Only = None,
    square_ok: bool = True,
    resolution: int | None = None,
) -> Iterator[tuple[int, int, GPUInferenceResult]]:
    """Run pairs of a collection: every picture is read and encoded once.

    A picture's features are dropped after its last pair, so that for a sequence two are kept
    at a time, however long it is.
    """
    for pair in pairs:
        if not all(0 <= i < len(images) for i in pair):
            raise ArgumentError(f"pair {tuple(pair)}: want numbers below {len(images)}")
    left = Counter(i for pair in pairs for i in pair)
    kept: dict[int, Features] = {}
    for first, second in pairs:
        for i in (first, second):
            if i not in kept:
                kept[i] = engine.encode(read_image(images[i]), square_ok=square_ok, resolution=resolution)
        result = engine.decode(kept[first], kept[second], only=only)
        for i in (first, second):
            left[i] -= 1
            if not left[i]:
                kept.pop(i, None)
        yield first, second, result


def similarity_picture(scores: npt.ArrayLike, names: Sequence[str]) -> Image.Image:
    """The matrix as colours, bright is alike, with the names beside it."""
    matrix = np.asarray(scores, float)
    n = len(matrix)
    cell = max(2, min(48, 960 // max(n, 1)))
    off = matrix[~np.eye(n, dtype=bool)]
    # The diagonal is each picture with itself and would take all the colours.
    low, high = (float(off.min()), float(off.max())) if off.size else (0.0, 1.0)
    picture = drawing.colourise(matrix, low, high).resize((n * cell, n * cell), Image.Resampling.NEAREST)
    margin = 200 if cell >= 12 else 8
    page = Image.new("RGB", (margin + picture.width + 8, picture.height + 36), (250, 250, 250))
    page.paste(picture, (margin, 8))
    draw = ImageDraw.Draw(page)
    if cell >= 12:
        for i, name in enumerate(names):
            draw.text((margin - 6, 8 + i * cell + cell // 2), name[-30:], fill=(32, 32, 32), anchor="rm")
    text = f"row: looked up, column: found; {low:.3g} (dark) to {high:.3g} (bright)"
    draw.text((margin, picture.height + 16), text, fill=(110, 110, 110))
    return page


def need_retrieval(model: Any, given: Path | None) -> Path:
    """The retrieval head to use, or an error that says where one comes from."""
    found = given or find_beside(model, "retrieval")
    if found is None:
        raise ModelNotFoundError(
            "retrieve: no retrieval head for this model. It needs --retrieval FILE "
            "(retrieval.safetensors or ..._retrieval_trainingfree.pth), and takes --codebook FILE if there "
            "is one; `mast3r download mast3r_vit_large` fetches both. Without one it compares one vector "
            "per picture. DUNE models have no published head"
        )
    return found
