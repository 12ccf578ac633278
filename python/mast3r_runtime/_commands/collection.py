# SPDX-License-Identifier: Apache-2.0
"""The verbs for folders of pictures and for ONNX: ``retrieve``, ``batch``, ``export``."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import quoted, shown
from . import many
from .common import (
    engine_options,
    file_options,
    folder_options,
    held_folder,
    open_engine,
    say,
    say_left_out,
    say_memory,
)  # fmt: skip

if TYPE_CHECKING:
    from .._files.folder import OutFolder
    from .._pairs.retrieve import Retrieved
    from .._pictures.find import Found

__all__ = ["add"]

PAIRS = "pairs.json"
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
    folder_options(find)

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
    folder_options(batch)
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
    file_options(onnx)


def _bar(total: int, unit: str) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=total, unit=unit, disable=None, leave=False, file=sys.stderr)


def _retrieve(arguments: argparse.Namespace) -> int:
    from .._pairs import heads, retrieve, verdicts
    from .._store.store import Store, hashes
    from ..errors import ArgumentError, ImageError

    if arguments.drop is not None and arguments.store is None:
        raise ArgumentError("retrieve: --drop needs --store, where the pairs that it runs are kept")
    listed = _listed(arguments)
    paths, names = list(listed.values()), list(listed)
    with ExitStack() as stack:
        out = None
        if arguments.out is not None and arguments.shard is None:
            out = stack.enter_context(held_folder(arguments, retrieve.SECTION, "retrieve"))
            out.claim(retrieve.FILES)
        engine = stack.enter_context(open_engine(arguments))
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
        files = retrieve.write_into(found, out, names, hashes(paths)) if out is not None else []
    if arguments.shard is not None:
        k, n = arguments.shard
        where = quoted(arguments.store)
        text = f"shard {k}/{n}: {len(found.kept)} pictures in {where}, {found.encoded} encoded now"
        say(arguments, {"pictures": len(found.kept), "encoded": found.encoded}, text)
        return 1 if bad else 0
    models = {"retrieval": str(head), "codebook": str(codebook) if found.method == "ASMK" else None}
    left = {"left_out": {**listed.left_out, **bad}, "dropped": dropped}
    _say_retrieved(arguments, found, names, files, {**models, **left}, _left_out_text(bad))
    return 1 if bad else 0


def _say_retrieved(
    arguments: argparse.Namespace,
    found: Retrieved,
    names: list[str],
    files: list[Path],
    more: dict[str, Any],
    left_out: str,
) -> None:
    kept = [names[i] for i in found.kept]
    scored = zip(found.pairs, found.pair_scores.tolist(), strict=True)
    rows = [(kept[p.first], kept[p.second], score) for p, score in scored]
    lines = [f"{a} {b} {score:.4f}" for a, b, score in rows]
    where = f"; wrote {', '.join(f.name for f in files)} in {arguments.out}" if files else ""
    gone = f", {more['dropped']} dropped by verdict" if arguments.drop else ""
    lines.append(f"{len(rows)} pairs of {len(kept)} pictures by {found.method}{gone}{where}{left_out}")
    values = {
        "method": found.method,
        "images": kept,
        "encoded": found.encoded,
        **more,
        "pairs": [{"first": a, "second": b, "score": round(score, 6)} for a, b, score in rows],
        "files": [str(f) for f in files],
    }
    say(arguments, values, "\n".join(lines))


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
    other settings does not put its files among these. ``sums`` are SHA-256 of the pictures by name:
    pairs of a picture that was changed are made again.
    """

    def __init__(
        self, out: OutFolder, settings: dict[str, Any], names: list[str], sums: dict[str, str]
    ) -> None:
        self.out = out
        self.settings = settings
        self.names = names
        self.sums = sums
        self.changed: set[str] = set()  # pictures that are not those of before
        self.bad: dict[str, str] = {}
        self.dropped: dict[str, str] = {}  # files that are not written, and why

    def start(self) -> None:
        """Claim the folder, or go on in it."""
        from ..errors import ArgumentError

        path = self.out.given / PAIRS
        try:
            content = json.loads((self.out.path / PAIRS).read_text(encoding="utf-8"))
            before, sums = content["settings"], dict(content["sha256"])
            self.dropped = dict(content.get("dropped", {}))
        except FileNotFoundError:
            before, sums = self.settings, self.sums
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArgumentError(f"{path}: not from this command ({error}); choose another folder") from error
        if before != self.settings:
            differ = [k for k in self.settings if before.get(k) != self.settings[k]]
            raise ArgumentError(
                f"{path.parent}: of a run with another {', '.join(differ)}; choose another folder"
            )
        self.changed = {name for name in self.names if sums.get(name) != self.sums.get(name)}
        self.write([], done=False)

    def write(self, pairs: list[dict[str, Any]], done: bool) -> None:
        """Write the list."""
        from .._files.whole import replacing

        content = {
            "settings": self.settings, "complete": done, "images": self.names, "sha256": self.sums,
            "pairs": pairs, "left_out": self.bad, "dropped": self.dropped,
        }  # fmt: skip
        with replacing(self.out.stage / PAIRS) as temporary:
            temporary.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        self.out.commit()


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
    from .._files import zips
    from .._files.plain import opened

    try:
        with opened(path) as file:
            return len(zips.arrays(file, ("match_confidence",))["match_confidence"])
    except Exception:  # hostile bytes end in any of a dozen errors of zip and numpy
        return None


def _batch(arguments: argparse.Namespace) -> int:
    from ..errors import ArgumentError

    listed = _listed(arguments)
    paths = list(listed.values())
    store = many.store_of(arguments)
    if store is not None:
        return many.batch_store(arguments, store, listed, _store_pairs(arguments, store, listed))
    pairs = _batch_pairs(arguments, listed)
    if arguments.out is None:
        raise ArgumentError("batch: want -o FOLDER, --store STORE, or both")
    with held_folder(arguments, "batch", "batch") as out:
        values, text = _into_folder(arguments, out, paths, pairs)
    bad = values["left_out"]  # among those that were listed as pictures
    say(arguments, {**values, "left_out": {**listed.left_out, **bad}}, text)
    return 1 if bad else 0


def _into_folder(
    arguments: argparse.Namespace, out: OutFolder, paths: list[Path], pairs: list[tuple[int, int]]
) -> tuple[dict[str, Any], str]:
    """One file a pair; what is there of an earlier run of the same pictures stays."""
    from .._store.store import hashes

    names = [path.name for path in paths]
    files = _file_names(names, pairs)
    out.claim([*files, PAIRS])
    by_path = hashes(paths)
    sums = {path.name: by_path.get(os.path.abspath(path), "") for path in paths}
    lists = hashes([arguments.pairs] if arguments.pairs is not None else [])
    with open_engine(arguments) as engine, _bar(len(pairs), "pair") as bar:
        say_memory(engine)
        manifest = _Manifest(out, _settings(arguments, engine), names, sums)
        manifest.start()
        found: dict[str, int | None] = dict.fromkeys(files)
        for file, pair in zip(files, pairs, strict=True):
            if out.ours(file) and manifest.changed.isdisjoint(names[i] for i in pair):
                found[file] = _matches_in(out.path / file)
        todo = [k for k, file in enumerate(files) if found[file] is None and file not in manifest.dropped]
        for file in files:
            if found[file] is not None:
                out.keep(file)
        bar.update(len(files) - len(todo))
        by_pair: dict[tuple[int, int], list[str]] = {}
        for k in todo:
            by_pair.setdefault(pairs[k], []).append(files[k])
        try:
            _run_pairs(arguments, engine, manifest, paths, by_pair, found, bar)
        finally:
            done = [
                {"first": names[i], "second": names[j], "matches": found[file], "file": file}
                for (i, j), file in zip(pairs, files, strict=True)
                if found[file] is not None
            ]
            manifest.write(done, done=len(done) + len(manifest.dropped) == len(pairs))
        out.finish(made_from={**by_path, **lists})
        name = engine.name()
    kept, used = len(files) - len(todo), len({i for pair in pairs for i in pair})
    values = {
        "engine": name, "encoded": len({i for pair in by_pair for i in pair}) - len(manifest.bad),
        "kept": kept, "pairs": done, "left_out": manifest.bad, "dropped": manifest.dropped,
    }  # fmt: skip
    text = (
        f"{name}: {len(done)} pairs of {used} pictures, each encoded once; "
        f"one npz each in {arguments.out}, listed in pairs.json"
    )
    text += f"; {kept} were there already" if kept else ""
    text += f"; {len(manifest.dropped)} dropped by verdict" if manifest.dropped else ""
    return values, text + _left_out_text(manifest.bad)


def _settings(arguments: argparse.Namespace, engine: Any) -> dict[str, Any]:
    info = engine.info()
    return {
        "folder": str(arguments.folder), "model": str(engine.path), "variant": info["variant"],
        "precision": info["precision"], "resolution": info["resolution"], "top_k": arguments.top_k,
        "exact": arguments.exact, "drop": arguments.drop,
    }  # fmt: skip


def _run_pairs(
    arguments: argparse.Namespace,
    engine: Any,
    manifest: _Manifest,
    paths: list[Path],
    by_pair: dict[tuple[int, int], list[str]],
    found: dict[str, int | None],
    bar: Any,
) -> None:
    """Run the pairs and write their files; how many matches each has goes into ``found``."""
    from .._output import export
    from .._pairs import retrieve
    from .._pairs.verdicts import drops
    from ..errors import ImageError

    def left_out(i: int, error: ImageError) -> None:
        manifest.bad[manifest.names[i]] = str(error)
        _log.warning("%s: left out: %s", manifest.names[i], error)

    images = [str(path) for path in paths]
    for i, j, result in retrieve.infer_pairs(engine, images, list(by_pair), on_error=left_out):
        arrays = result.numpy()
        matches = engine.match(
            arrays, top_k=arguments.top_k, confidence_threshold=0.0,
            subsample=1 if arguments.exact else "auto",
        )  # fmt: skip
        for file in by_pair[i, j]:
            if matches.overlap is not None and drops(arguments.drop, matches.overlap.verdict):
                manifest.dropped[file] = matches.overlap.reason
            else:
                export.write_npz(manifest.out.stage / file, arrays, matches)
                manifest.out.commit()
                found[file] = len(matches)
            bar.update()


def _left_out_text(bad: dict[str, str]) -> str:
    return "".join(f"\nleft out: {shown(name)}: {shown(why)}" for name, why in bad.items())


def _export(arguments: argparse.Namespace) -> int:
    from .._files.single import MARK, ours, single
    from ..errors import FileError

    model: Path = arguments.target
    single(model, (), [arguments.model] if arguments.model is not None else [], arguments.overwrite)
    data = model.with_name(f"{model.name}.data")
    if data.exists() and not arguments.overwrite and not ours(model):
        raise FileError(
            f"{data}: there is a file without a model of {MARK}; choose another name, or --overwrite it"
        )
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
