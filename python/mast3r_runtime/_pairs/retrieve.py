# SPDX-License-Identifier: Apache-2.0
"""Which pairs of a collection to run, and running them with each picture encoded once."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from .._engine.index import Index, Pair, RetrievalResult, scene_pairs
from .._files.folder import OutFolder
from .._files.whole import replacing
from .._output import drawing, export
from .._pictures.reading import ImageLike, about, read_image
from .._store.store import Store
from ..errors import ArgumentError, ImageError, checked
from . import graph as graphs
from .looks import Looks
from .parts import PART, Parts, blocks
from .plan import share

if TYPE_CHECKING:
    from .._engine.engine import Engine
    from .._engine.features import Features
    from .._library.options import Only
    from .._results.results import GPUInferenceResult

__all__ = [
    "FILES",
    "SECTION",
    "Retrieved",
    "default_graph",
    "infer_pairs",
    "retrieve",
    "similarity_picture",
    "write_into",
]

SECTION = "retrieval"  # of the list of what was written
FILES = ("pairs.txt", "pairs.json", "similarity.png")
MATRIX_UP_TO = 2000  # pictures, above which with a store no matrix of scores is made
F32 = npt.NDArray[np.float32]

OnError = Callable[[int, ImageError], None]


@checked
def default_graph(n: int) -> str:
    """A retrieval graph for n pictures, with the anchors and neighbours of the reference's demo."""
    return f"retrieval-{min(20, n)}-{min(10, max(n - 1, 1))}"


def finite(value: float) -> float | None:
    """The number, or None if JSON cannot express it."""
    return value if np.isfinite(value) else None


@checked
@dataclass(frozen=True, slots=True, eq=False)
class Retrieved:
    """What :func:`retrieve` found. ``scores[i, j]`` is the similarity of pictures i and j.

    ``kept`` are the numbers of the pictures that could be read; scores and pairs count these.
    ``pair_scores`` are those of ``pairs``. Of a large collection ``scores`` is None and ``features``
    is empty. ``encoded`` counts the pictures that were not found in a store.
    """

    scores: F32 | None
    pairs: list[Pair]
    method: str
    features: list[RetrievalResult]
    kept: list[int]
    encoded: int = 0
    pair_scores: F32 = field(default_factory=lambda: np.zeros(0, np.float32))

    def only(self, numbers: Sequence[int]) -> Retrieved:
        """The same with some of the pairs."""
        pairs = [self.pairs[k] for k in numbers]
        return replace(self, pairs=pairs, pair_scores=self.pair_scores[list(numbers)])

    def write(self, folder: Path, names: Sequence[str]) -> list[Path]:
        """Write ``pairs.txt``, ``pairs.json`` and ``similarity.png``; ``names`` are those of all pictures.

        Nothing in the folder is replaced or removed that an earlier retrieval did not write there.
        """
        with OutFolder(folder, SECTION, "retrieve") as out:
            out.claim(FILES)
            return write_into(self, out, names)


def write_into(
    found: Retrieved, out: OutFolder, names: Sequence[str], made_from: Mapping[str, str] | None = None
) -> list[Path]:
    """Write the files into a folder that is held; ``made_from`` are hashes of pictures by path."""
    folder = out.stage
    names = [names[i] for i in found.kept]
    scored = zip(found.pairs, found.pair_scores.tolist(), strict=True)
    rows = [(names[p.first], names[p.second], round(score, 6)) for p, score in scored]
    gap = "\t" if any(" " in name for name in names) else " "
    text = "".join(f"{a}{gap}{b}{gap}{score:.6f}\n" for a, b, score in rows)
    listed = [{"first": a, "second": b, "score": finite(score)} for a, b, score in rows]
    files = [folder / "pairs.txt", folder / "pairs.json"]
    with replacing(files[0]) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
    with replacing(files[1]) as temporary:
        content = {"method": found.method, "images": list(names), "pairs": listed}
        temporary.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if found.scores is not None:
        files.append(folder / "similarity.png")
        export.write_png(files[2], similarity_picture(found.scores, names))
    out.finish(made_from=made_from)
    return [out.given / file.name for file in files]


@checked
def retrieve(
    engine: Engine,
    images: Sequence[ImageLike],
    codebook: str | os.PathLike[str] | None = None,
    graph: str | None = None,
    *,
    nfeat: float = 300,
    tick: Callable[[], None] = lambda: None,
    on_error: OnError | None = None,
    store: str | os.PathLike[str] | Store | None = None,
    shard: tuple[int, int] | None = None,
) -> Retrieved:
    """Score pictures against each other and choose the pairs to reconstruct.

    Parameters
    ----------
    engine : Engine
        With a retrieval head loaded.
    images : sequence of pictures
        They are read one after the other and need not fit into memory together.
    codebook : path, optional
        If given, scores are ASMK scores; otherwise cosines of one vector per picture.
    graph : str, optional
        See :func:`scene_pairs`; :func:`default_graph` by default.
    nfeat : float
        How many features of each picture the index uses.
    tick : callable
        Called after each picture.
    on_error : callable, optional
        Called with the number and the ImageError of a picture that cannot be used, which is
        then left out. Without it, the error is raised.
    store : folder, URL or Store, optional
        Where features of picture files are kept. Above 2000 pictures with a store there is no
        matrix of scores and no list of features: memory is the index and a few rows.
    shard : (k, n), optional
        Put the features of the k-th of n parts into the store, and find no pairs: for job arrays.
        A call without it then takes the index of all parts together. Above 2000 pictures the index
        itself is kept in parts too: nothing is built twice.
    """
    if shard is not None and store is None:
        raise ArgumentError("retrieve: a shard needs a store")
    size, patch = _size(engine)
    # The reference cuts squares to 4:3 here; at sizes where that cannot be, they stay square.
    square_ok = (size * 3 // 4) % patch != 0
    looks = None if store is None else Looks(engine, _opened(store), nfeat, square_ok)
    features: list[RetrievalResult] = []
    kept: list[int] = []

    def look(i: int) -> RetrievalResult:
        if looks is not None and isinstance(images[i], (str, os.PathLike)):
            return looks.of(images[i])  # type: ignore[arg-type]
        with about(images[i]):
            return engine.encode_retrieval(read_image(images[i]), square_ok=square_ok)

    def readable(numbers: Sequence[int]) -> Iterator[RetrievalResult]:
        for i in numbers:
            try:
                found = look(i)
            except ImageError as error:
                if on_error is None:
                    raise
                on_error(i, error)
            else:
                kept.append(i)
                yield found
            tick()

    large = looks is not None and len(images) > MATRIX_UP_TO
    parts = Parts(looks.store, looks, codebook) if looks and large and codebook is not None else None

    def block(own: Sequence[int], into: Index, here: bool = False) -> None:
        """Put a block of pictures into the index from the store; else one by one, and into the store.

        With ``here`` a block that is in the store stays there.
        """
        assert parts is not None
        paths = [images[i] for i in own]
        key = None
        if all(isinstance(path, (str, os.PathLike)) for path in paths):
            key = parts.key(paths)  # type: ignore[arg-type]
        if parts.has(key) if here else parts.merge(into, key):
            kept.extend(own)
            for _ in own:
                tick()
            return
        first = len(into)
        for result in readable(own):
            into.add(result)
        if key is not None and len(into) - first == len(own):  # else it would lack pictures
            parts.write(into, first, key)

    numbers = share(len(images), shard)
    if parts is not None and shard is not None:  # whole blocks
        whole = share(-(-len(images) // PART), shard)
        numbers = range(whole.start * PART, min(whole.stop * PART, len(images)))
    method = "cosine of global vectors" if codebook is None else "ASMK"
    if shard is not None:  # its features are in the store now; who has all of them finds the pairs
        if parts is not None and codebook is not None:
            with engine.open_index(codebook, nfeat) as index:
                for own in blocks(numbers):
                    block(own, index, here=True)
        else:
            for _ in readable(numbers):
                pass
        return Retrieved(np.zeros((0, 0), np.float32), [], method, [], kept, looks.encoded if looks else 0)
    with ExitStack() as stack:
        if codebook is None:
            vectors = []
            for result in readable(numbers):
                vectors.append(result.global_feature.numpy())
                features += [] if large else [result]
            table = np.stack(vectors) if vectors else np.zeros((0, 1), np.float32)

            def rows(wanted: Sequence[int]) -> F32:
                return np.asarray(table[list(wanted)] @ table.T, np.float32)
        else:
            index = stack.enter_context(engine.open_index(codebook, nfeat))
            for own in blocks(numbers):
                if parts is not None:
                    block(own, index)
                    continue
                for result in readable(own):
                    index.add(result)
                    features += [] if large else [result]

            def rows(wanted: Sequence[int]) -> F32:
                return index.score([look(kept[n]) if large else features[n] for n in wanted])

        count = len(kept)
        chosen = graph or default_graph(count)
        if large and graphs.wanted(chosen):
            listed, scored = graphs.retrieval_pairs(count, chosen, rows)
            pairs = [Pair(*pair) for pair in listed]
            return Retrieved(None, pairs, method, [], kept, looks.encoded if looks else 0, scored)
        scores = rows(range(count)) if count else np.zeros((0, 0), np.float32)
    pairs = scene_pairs(count, chosen, scores)
    by_pair = np.array([scores[p] for p in pairs], np.float32)
    return Retrieved(scores, pairs, method, features, kept, looks.encoded if looks else count, by_pair)


def _opened(store: str | os.PathLike[str] | Store) -> Store:
    return store if isinstance(store, Store) else Store(store)


def _size(engine: Engine) -> tuple[int, int]:
    info = engine.info()
    return int(info["resolution"]), max(int(info["patch"]), 1)


@checked
def infer_pairs(
    engine: Engine,
    images: Sequence[ImageLike],
    pairs: Sequence[tuple[int, int]],
    *,
    only: Only = None,
    square_ok: bool = True,
    resolution: int | None = None,
    on_error: OnError | None = None,
) -> Iterator[tuple[int, int, GPUInferenceResult]]:
    """Run pairs of a collection: every picture is read and encoded once.

    The features of a picture are dropped after its last pair, so a sequence of any length keeps only
    two at a time. With ``on_error``, a picture that cannot be used is reported to it, once, and its
    pairs are left out; without it, the ImageError is raised.
    """
    for pair in pairs:
        if not all(0 <= i < len(images) for i in pair):
            raise ArgumentError(f"pair {tuple(pair)}: want numbers below {len(images)}")
    left = Counter(i for pair in pairs for i in pair)
    kept: dict[int, Features] = {}
    bad: set[int] = set()

    def encode(i: int) -> bool:
        if i in kept or i in bad:
            return i in kept
        try:
            with about(images[i]):
                kept[i] = engine.encode(read_image(images[i]), square_ok=square_ok, resolution=resolution)
        except ImageError as error:
            if on_error is None:
                raise
            bad.add(i)
            on_error(i, error)
        return i in kept

    for first, second in pairs:
        result = None
        if all([encode(first), encode(second)]):  # both are tried: each that is bad is told
            result = engine.decode(kept[first], kept[second], only=only)
        for i in (first, second):
            left[i] -= 1
            if not left[i]:
                kept.pop(i, None)
        if result is not None:
            yield first, second, result


@checked
def similarity_picture(scores: npt.ArrayLike, names: Sequence[str]) -> Image.Image:
    """The matrix as colours, bright for similar, with the names beside it."""
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
