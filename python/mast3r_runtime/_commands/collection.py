# SPDX-License-Identifier: Apache-2.0
"""The verbs for folders of pictures and for ONNX: ``retrieve``, ``batch``, ``export``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .common import engine_options, open_engine, say

__all__ = ["add"]


def add(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    find = verb("retrieve", _retrieve, "Find which pictures of a folder are worth pairing.")
    find.add_argument("folder", metavar="DIR", type=Path)
    engine_options(find)
    find.add_argument("--retrieval", type=Path, help="retrieval head (default: the one beside the model)")
    find.add_argument(
        "--codebook", type=Path, help="visual words for ASMK (default: the one beside the model)"
    )
    find.add_argument("--no-codebook", action="store_true", help="compare one vector per picture")
    find.add_argument("--graph", help="complete, swin-W, logwin-W, oneref-R or retrieval-NA-K (the default)")
    find.add_argument(
        "--nfeat", type=float, default=300, help="features of a picture that count (default: 300)"
    )
    find.add_argument("-o", "--out", type=Path, help="folder for pairs.txt, pairs.json, similarity.png")
    find.add_argument("--json", action="store_true", help="print JSON")

    batch = verb("batch", _batch, "Run a folder as a sequence; every picture is encoded once.")
    batch.add_argument("folder", metavar="DIR", type=Path)
    engine_options(batch)
    batch.add_argument("--graph", default="swin-1-noncyclic", help="pairs (default: neighbours by name)")
    batch.add_argument("--pairs", type=Path, help="pairs.txt of retrieve, in place of --graph")
    batch.add_argument("--top-k", type=int, default=0, help="keep the best so many matches (default: all)")
    batch.add_argument("-o", "--out", type=Path, required=True, help="folder for one npz a pair")
    batch.add_argument("--json", action="store_true", help="print JSON")

    onnx = verb("export", _export, "Write the network for one pair as an ONNX model.")
    onnx.add_argument("target", metavar="MODEL.onnx", type=Path)
    engine_options(onnx)
    for name in ("height", "width", "height2", "width2"):
        onnx.add_argument(f"--{name}", type=int, default=0, help="at the network (default: its own at 4:3)")
    onnx.add_argument("--half", action="store_true", help="weights as float16")
    onnx.add_argument("--json", action="store_true", help="print JSON")


def _bar(total: int, unit: str) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=total, unit=unit, disable=None, leave=False, file=sys.stderr)


def _retrieve(arguments: argparse.Namespace) -> int:
    from .. import collection

    paths = collection.list_images(arguments.folder)
    names = [path.name for path in paths]
    with open_engine(arguments) as engine:
        head = collection.need_retrieval(engine.path, arguments.retrieval)
        engine.load_retrieval(head)
        codebook = arguments.codebook or collection.find_beside(engine.path, "codebook")
        with _bar(len(paths), "picture") as bar:
            found = collection.retrieve(
                engine,
                [str(path) for path in paths],
                None if arguments.no_codebook else codebook,
                arguments.graph,
                nfeat=arguments.nfeat,
                tick=bar.update,
            )
    files = found.write(arguments.out, names) if arguments.out else []
    rows = [(names[p.first], names[p.second], float(found.scores[p])) for p in found.pairs]
    lines = [f"{a} {b} {score:.4f}" for a, b, score in rows]
    where = f"; wrote {', '.join(f.name for f in files)} in {arguments.out}" if files else ""
    lines.append(f"{len(rows)} pairs of {len(paths)} pictures by {found.method}{where}")
    values = {
        "method": found.method,
        "retrieval": str(head),
        "codebook": str(codebook) if found.method == "ASMK" else None,
        "images": names,
        "pairs": [{"first": a, "second": b, "score": round(score, 6)} for a, b, score in rows],
        "files": [str(f) for f in files],
    }
    say(arguments, values, "\n".join(lines))
    return 0


def _batch_pairs(arguments: argparse.Namespace, names: list[str]) -> list[tuple[int, int]]:
    from ..errors import ArgumentError
    from ..retrieval import scene_pairs

    if arguments.pairs is None:
        return [(first, second) for first, second in scene_pairs(len(names), arguments.graph)]
    number = {name: i for i, name in enumerate(names)}
    pairs = []
    for k, line in enumerate(arguments.pairs.read_text(encoding="utf-8").splitlines(), 1):
        # the score is the last word; names may hold spaces, so cut where both halves are known
        words = line.split(" ")[:-1]
        halves = [(" ".join(words[:i]), " ".join(words[i:])) for i in range(1, len(words))]
        known = [(number[a], number[b]) for a, b in halves if a in number and b in number]
        if not known:
            raise ArgumentError(
                f"{arguments.pairs} line {k}: {line!r}, want two pictures of the folder and a score"
            )
        pairs.append(known[0])
    return pairs


def _batch(arguments: argparse.Namespace) -> int:
    from .. import collection, export

    paths = collection.list_images(arguments.folder)
    names = [path.name for path in paths]
    pairs = _batch_pairs(arguments, names)
    arguments.out.mkdir(parents=True, exist_ok=True)
    done = []
    with open_engine(arguments) as engine, _bar(len(pairs), "pair") as bar:
        images = [str(path) for path in paths]
        for k, (i, j, result) in enumerate(collection.infer_pairs(engine, images, pairs)):
            arrays = result.numpy()
            matches = engine.match(arrays, top_k=arguments.top_k, confidence_threshold=0.0)
            file = f"{k:04d}_{paths[i].stem}_{paths[j].stem}.npz"
            export.write_npz(arguments.out / file, arrays, matches)
            done.append({"first": names[i], "second": names[j], "matches": len(matches), "file": file})
            bar.update()
        name = engine.name()
    encoded = len({i for pair in pairs for i in pair})
    values = {"engine": name, "encoded": encoded, "pairs": done}
    text = (
        f"{name}: {len(done)} pairs of {encoded} pictures, each encoded once; one npz each in {arguments.out}"
    )
    say(arguments, values, text)
    return 0


def _export(arguments: argparse.Namespace) -> int:
    with open_engine(arguments) as engine:
        files = engine.export_onnx(
            arguments.target,
            arguments.height,
            arguments.width,
            arguments.height2,
            arguments.width2,
            half=arguments.half,
        )
    sizes = {str(file): file.stat().st_size for file in files}
    say(arguments, sizes, "\n".join(f"{file}: {size / 2**20:.1f} MiB" for file, size in sizes.items()))
    return 0
