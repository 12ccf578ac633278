# SPDX-License-Identifier: Apache-2.0
"""The verbs for folders of pictures and for ONNX: ``retrieve``, ``batch``, ``export``."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import quoted, shown
from . import many
from .common import engine_options, open_engine, say, say_left_out, say_memory

if TYPE_CHECKING:
    from .._pictures.find import Found

__all__ = ["add"]

_log = logging.getLogger("mast3r_runtime")


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
    find.add_argument("--store", metavar="STORE", help="keep features here; no matrix above 2000 pictures")
    find.add_argument(
        "--shard", type=many.shard, metavar="K/N", help="put features of part K of N into the store, no pairs"
    )
    find.add_argument(
        "--drop", choices=("NO", "UNSURE"), help="run the pairs found, into the store, and leave these out"
    )
    find.add_argument("-o", "--out", type=Path, help="folder for pairs.txt, pairs.json, similarity.png")
    find.add_argument("--json", action="store_true", help="print JSON")

    batch = verb("batch", _batch, "Run a folder as a sequence; every picture is encoded once.")
    batch.add_argument("folder", metavar="DIR", type=Path)
    engine_options(batch)
    batch.add_argument("--graph", default="swin-1-noncyclic", help="pairs (default: neighbours by name)")
    batch.add_argument("--pairs", type=Path, help="pairs.txt of retrieve, in place of --graph")
    batch.add_argument("--top-k", type=int, default=0, help="keep the best so many matches (default: all)")
    batch.add_argument("--exact", action="store_true", help="search every pixel: slower, more matches")
    batch.add_argument(
        "--drop", choices=("NO", "UNSURE"), help="write no pair of this verdict, or of a surer no"
    )
    batch.add_argument("-o", "--out", type=Path, help="folder for one npz a pair; with --store for pairs.txt")
    batch.add_argument("--json", action="store_true", help="print JSON")
    many.batch_options(batch)

    onnx = verb("export", _export, "Write the network for one pair as an ONNX model.")
    onnx.add_argument("target", metavar="MODEL.onnx", type=Path)
    engine_options(onnx)
    for name in ("height", "width", "height2", "width2"):
        onnx.add_argument(f"--{name}", type=int, default=0, help="at the network (default: its own at 4:3)")
    onnx.add_argument("--half", action="store_true", help="weights as float16")
    onnx.add_argument("--half-compute", action="store_true", help="products in float16 too, for a GPU")
    onnx.add_argument("--opset", type=int, choices=(20, 23), default=20, help="23 has one for attention")
    onnx.add_argument("--json", action="store_true", help="print JSON")


def _bar(total: int, unit: str) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=total, unit=unit, disable=None, leave=False, file=sys.stderr)


def _retrieve(arguments: argparse.Namespace) -> int:
    from .._pairs import heads, retrieve, verdicts
    from .._store.store import Store
    from ..errors import ArgumentError, ImageError

    if arguments.drop is not None and arguments.store is None:
        raise ArgumentError("retrieve: --drop needs --store, where the pairs that it runs are kept")
    listed = _listed(arguments)
    paths, names = list(listed.values()), list(listed)
    with open_engine(arguments) as engine:
        say_memory(engine)
        head = heads.need_retrieval(engine.path, arguments.retrieval)
        engine.load_retrieval(head)
        codebook = arguments.codebook or heads.find_beside(engine.path, "codebook")
        bad: dict[str, str] = {}  # beside what the listing left out

        def left_out(i: int, error: ImageError) -> None:
            bad[names[i]] = str(error)

        with _bar(len(paths), "picture") as bar:
            found = retrieve.retrieve(
                engine,
                [str(path) for path in paths],
                None if arguments.no_codebook else codebook,
                arguments.graph,
                nfeat=arguments.nfeat,
                tick=bar.update,
                on_error=left_out,
                store=arguments.store,
                shard=arguments.shard,
            )
        dropped = 0
        if arguments.drop is not None and arguments.shard is None:
            store, own = Store(arguments.store), [paths[i] for i in found.kept]
            with _bar(len(found.pairs), "pair") as bar:
                said = verdicts.verdicts(
                    engine, store, own, found.pairs, bar.update,
                    lambda error: bad.update({Path(error.file or "").name: str(error)}),
                )  # fmt: skip
            stays = [
                k for k, verdict in enumerate(said)
                if verdict is not None and not verdicts.drops(arguments.drop, verdict)
            ]  # fmt: skip
            dropped = len(said) - len(stays)
            found = found.only(stays)
    if arguments.shard is not None:
        k, n = arguments.shard
        where = quoted(arguments.store)
        text = f"shard {k}/{n}: {len(found.kept)} pictures in {where}, {found.encoded} encoded now"
        say(arguments, {"pictures": len(found.kept), "encoded": found.encoded}, text)
        return 1 if bad else 0
    files = found.write(arguments.out, names) if arguments.out else []
    kept = [names[i] for i in found.kept]
    scored = zip(found.pairs, found.pair_scores.tolist(), strict=True)
    rows = [(kept[p.first], kept[p.second], score) for p, score in scored]
    lines = [f"{a} {b} {score:.4f}" for a, b, score in rows]
    where = f"; wrote {', '.join(f.name for f in files)} in {arguments.out}" if files else ""
    gone = f", {dropped} dropped by verdict" if arguments.drop else ""
    lines.append(
        f"{len(rows)} pairs of {len(kept)} pictures by {found.method}{gone}{where}{_left_out_text(bad)}"
    )
    values = {
        "method": found.method,
        "retrieval": str(head),
        "codebook": str(codebook) if found.method == "ASMK" else None,
        "images": kept,
        "encoded": found.encoded,
        "left_out": {**listed.left_out, **bad},
        "dropped": dropped,
        "pairs": [{"first": a, "second": b, "score": round(score, 6)} for a, b, score in rows],
        "files": [str(f) for f in files],
    }
    say(arguments, values, "\n".join(lines))
    return 1 if bad else 0


def _listed(arguments: argparse.Namespace) -> Found:
    """The pictures of the folder, at least two; says which files are left out."""
    from .._pictures.find import find

    found = find(arguments.folder, out=arguments.out)
    found.need(2, f"folder {quoted(arguments.folder)}")
    say_left_out(found.left_out)
    return found


def _batch_pairs(arguments: argparse.Namespace, names: Mapping[str, Path]) -> list[tuple[int, int]]:
    from .._engine.index import scene_pairs
    from .._pairs.folder import read_pairs
    from ..errors import ArgumentError

    if arguments.pairs is not None:
        return read_pairs(arguments.pairs, names)
    pairs = [(first, second) for first, second in scene_pairs(len(names), arguments.graph)]
    if not pairs:
        raise ArgumentError(f"--graph {arguments.graph}: no pairs of {len(names)} pictures")
    return pairs


def _store_pairs(
    arguments: argparse.Namespace, store: str, listed: Mapping[str, Path]
) -> list[tuple[int, int]]:
    """The pairs of ``batch --store``: also those that retrieval finds, from features in the store."""
    from .._pairs import heads, retrieve

    if arguments.pairs is not None or not arguments.graph.startswith("retrieval"):
        return _batch_pairs(arguments, listed)
    with open_engine(arguments) as engine:
        engine.load_retrieval(heads.need_retrieval(engine.path, None))
        codebook = heads.find_beside(engine.path, "codebook")
        images = [str(path) for path in listed.values()]
        found = retrieve.retrieve(
            engine, images, codebook, arguments.graph, store=store, on_error=lambda i, error: None
        )
    return [(found.kept[i], found.kept[j]) for i, j in found.pairs]


class _Manifest:
    """``pairs.json`` of a batch: what made the folder, what is in it, what was left out.

    It is there from the start, so that a run that was ended can be gone on with, and one of
    other settings does not put its files among these.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], names: list[str]) -> None:
        self.path = folder / "pairs.json"
        self.settings = settings
        self.names = names
        self.bad: dict[str, str] = {}
        self.dropped: dict[str, str] = {}  # files that are not written, and why

    def start(self) -> None:
        """Claim the folder, or go on in it."""
        from ..errors import ArgumentError

        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            before, self.dropped = content["settings"], dict(content.get("dropped", {}))
        except FileNotFoundError:
            before = None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArgumentError(
                f"{self.path}: not from this command ({error}); choose another folder"
            ) from error
        if before is not None and before != self.settings:
            differ = [k for k in self.settings if before.get(k) != self.settings[k]]
            raise ArgumentError(
                f"{self.path.parent}: of a run with another {', '.join(differ)}; choose another folder"
            )
        self.write([], done=False)

    def write(self, pairs: list[dict[str, Any]], done: bool) -> None:
        """Write the list."""
        from .._files.whole import replacing

        content = {
            "settings": self.settings, "complete": done, "images": self.names,
            "pairs": pairs, "left_out": self.bad, "dropped": self.dropped,
        }  # fmt: skip
        with replacing(self.path) as temporary:
            temporary.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _file_names(names: list[str], pairs: list[tuple[int, int]]) -> list[str]:
    """A name for each pair that does not depend on the others: FIRST__SECOND.npz."""
    from .._files.whole import short_name

    files: list[str] = []
    taken: set[str] = set()
    for i, j in pairs:
        stem = f"{names[i]}__{names[j]}"
        file = short_name(stem, ".npz")
        if file in taken:  # names that hold __ themselves, or a pair given twice
            file = short_name(f"{stem}__{i}_{j}_{len(files)}", ".npz")
        taken.add(file)
        files.append(file)
    return files


def _matches_in(path: Path) -> int | None:
    """How many matches a pair's file holds; None where there is no such file."""
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            return int(archive["match_confidence"].shape[0])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _batch(arguments: argparse.Namespace) -> int:
    from .._output import export
    from .._pairs import retrieve
    from .._pairs.verdicts import drops
    from ..errors import ArgumentError, ImageError

    listed = _listed(arguments)
    paths, names = list(listed.values()), list(listed)
    store = many.store_of(arguments)
    if store is not None:
        return many.batch_store(arguments, store, paths, _store_pairs(arguments, store, listed))
    pairs = _batch_pairs(arguments, listed)
    if arguments.out is None:
        raise ArgumentError("batch: want -o FOLDER, --store STORE, or both")
    files = _file_names(names, pairs)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with open_engine(arguments) as engine, _bar(len(pairs), "pair") as bar:
        say_memory(engine)
        info = engine.info()
        settings = {
            "folder": str(arguments.folder), "model": str(engine.path), "variant": info["variant"],
            "precision": info["precision"], "resolution": info["resolution"], "top_k": arguments.top_k,
            "exact": arguments.exact, "drop": arguments.drop,
        }  # fmt: skip
        manifest = _Manifest(arguments.out, settings, names)
        manifest.start()
        found = {file: _matches_in(arguments.out / file) for file in files}
        todo = [k for k, file in enumerate(files) if found[file] is None and file not in manifest.dropped]
        bar.update(len(files) - len(todo))

        def left_out(i: int, error: ImageError) -> None:
            manifest.bad[names[i]] = str(error)
            _log.warning("%s: left out: %s", shown(names[i]), error)

        images = [str(path) for path in paths]
        by_pair: dict[tuple[int, int], list[str]] = {}
        for k in todo:
            by_pair.setdefault(pairs[k], []).append(files[k])
        try:
            for i, j, result in retrieve.infer_pairs(engine, images, list(by_pair), on_error=left_out):
                arrays = result.numpy()
                matches = engine.match(
                    arrays, top_k=arguments.top_k, confidence_threshold=0.0,
                    subsample=1 if arguments.exact else "auto",
                )  # fmt: skip
                for file in by_pair[i, j]:
                    if matches.overlap is not None and drops(arguments.drop, matches.overlap.verdict):
                        manifest.dropped[file] = matches.overlap.reason
                        bar.update()
                        continue
                    export.write_npz(arguments.out / file, arrays, matches)
                    found[file] = len(matches)
                    bar.update()
        finally:
            rows = list(zip(pairs, files, strict=True))
            done = [
                {"first": names[i], "second": names[j], "matches": found[file], "file": file}
                for (i, j), file in rows
                if found[file] is not None
            ]
            manifest.write(done, done=len(done) + len(manifest.dropped) == len(pairs))
        name = engine.name()
    encoded = len({i for pair in by_pair for i in pair}) - len(manifest.bad)
    values = {
        "engine": name, "encoded": encoded, "kept": len(files) - len(todo), "pairs": done,
        "left_out": manifest.bad, "dropped": manifest.dropped,
    }  # fmt: skip
    used = len({i for pair in pairs for i in pair})
    text = (
        f"{name}: {len(done)} pairs of {used} pictures, each encoded once; "
        f"one npz each in {arguments.out}, listed in pairs.json"
    )
    if len(todo) < len(files):
        text += f"; {len(files) - len(todo)} were there already"
    if manifest.dropped:
        text += f"; {len(manifest.dropped)} dropped by verdict"
    text += _left_out_text(manifest.bad)
    say(arguments, values, text)
    return 1 if manifest.bad else 0


def _left_out_text(bad: dict[str, str]) -> str:
    return "".join(f"\nleft out: {shown(name)}: {shown(why)}" for name, why in bad.items())


def _export(arguments: argparse.Namespace) -> int:
    with open_engine(arguments) as engine:
        files = engine.export_onnx(
            arguments.target,
            arguments.height,
            arguments.width,
            arguments.height2,
            arguments.width2,
            half=arguments.half,
            half_compute=arguments.half_compute,
            opset=arguments.opset,
        )
    sizes = {str(file): file.stat().st_size for file in files}
    say(arguments, sizes, "\n".join(f"{file}: {size / 2**20:.1f} MiB" for file, size in sizes.items()))
    return 0
