# SPDX-License-Identifier: Apache-2.0
"""``batch --store`` and ``store``: pairs kept in a store, by many workers, and care for the store."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import quoted, shown, without_secrets
from .common import held_folder, say

if TYPE_CHECKING:
    from .._pairs.driver import Progress
    from .._pairs.run import Report
    from .._pictures.find import Found
    from .._store.store import Store

__all__ = ["add", "batch_options", "batch_store", "shard", "store_of"]

LISTED = "listed"  # of the list of what was written: a store's pairs
FOREIGN = 10  # names of other files that are shown
TOO_MANY_FAILED = 6  # exit status: more pairs failed than --max-failed

_log = logging.getLogger("mast3r_runtime")


def add(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the verb ``store`` to the command line."""
    care = verb("store", _store, "Say what a store holds, or keep it in order.")
    care.add_argument("store", metavar="STORE", help="folder, or URL with the extra cluster")
    what = care.add_mutually_exclusive_group()
    what.add_argument("--size", action="store_true", help="files and bytes of each kind (the default)")
    what.add_argument("--check", action="store_true", help="read the store's files, remove what is damaged")
    what.add_argument(
        "--gc", metavar="RUN", nargs="+", help="remove what these runs do not need, other runs too"
    )
    what.add_argument("--list", choices=("failed", "runs"), help="pairs set aside, or what was asked for")
    care.add_argument("--dry-run", action="store_true", help="with --gc, --check: only say what would go")
    care.add_argument("--json", action="store_true", help="print JSON")


def shard(text: str) -> tuple[int, int]:
    """K/N as numbers, for argparse."""
    k, _, n = text.partition("/")
    if not (k.isdigit() and n.isdigit() and int(k) < int(n)):
        raise argparse.ArgumentTypeError(f"{text!r}, want K/N with K from 0 to N-1")
    return int(k), int(n)


def batch_options(batch: argparse.ArgumentParser) -> None:
    """Add to ``batch`` what it takes for a store."""
    many = batch.add_argument_group("with a store", "Resumable, by many workers, on many machines.")
    many.add_argument(
        "--store", nargs="?", const="", metavar="STORE",
        help="keep matches of pairs and features of pictures here (without a value: in the folder of -o)",
    )  # fmt: skip
    many.add_argument("--only", choices=("matches", "dense", "all"), default="matches", help="what to keep")
    many.add_argument(
        "--features", choices=("float16", "float32"), default="float16", help="how to keep features"
    )
    many.add_argument("--stride", type=int, default=0, help="network pixels between anchors (default: 8)")
    many.add_argument("--shard", type=shard, metavar="K/N", help="do part K of N, from 0: for job arrays")
    many.add_argument(
        "--stage", choices=("both", "encode", "pairs"), default="both", help="pictures, pairs (default: both)"
    )
    many.add_argument(
        "--workers", type=int, default=0, help="processes on this machine (default: what is fastest)"
    )
    many.add_argument(
        "--dask", metavar="WHERE", help="tcp://HOST:PORT, local[:N], or slurm:jobs.yaml (pbs:, lsf:, ...)"
    )
    many.add_argument("--tile", type=int, default=0, help="pictures on a side of a tile (default: 4, GPU: 8)")
    many.add_argument("--retries", type=int, default=3, help="of a pair that failed (default: 3)")
    many.add_argument("--retry-failed", action="store_true", help="try again what was set aside")
    many.add_argument("--max-failed", type=int, default=0, help="exit with 6 where more pairs failed")
    many.add_argument("--strict-bits", action="store_true", help="keep apart results of other processors")
    many.add_argument("--fsync", action="store_true", help="wait for the disk after each file")
    many.add_argument("--pack", action="store_true", help="one file for the pairs of a tile")
    many.add_argument("--status", action="store_true", help="say how far this run is; compute nothing")
    many.add_argument("--json-progress", action="store_true", help="one line of JSON a second")


def store_of(arguments: argparse.Namespace) -> str | None:
    """The store that the options name, None without."""
    if arguments.store == "" and arguments.out is not None:
        return str(arguments.out)
    return None if arguments.store is None else str(arguments.store)


@contextmanager
def _client(arguments: argparse.Namespace) -> Iterator[Any]:
    """Who works: Dask where it is asked for, else processes of this machine."""
    from .._pairs.dask import connect
    from .._pairs.local import Workers, workers_for

    count = arguments.workers or workers_for(arguments.model, arguments.variant, arguments.backend)
    if arguments.dask is not None:
        with connect(arguments.dask, count) as client:
            yield client
        return
    with Workers(count) as workers:
        try:
            yield workers
        except BaseException:
            workers.kill()
            raise


def batch_store(
    arguments: argparse.Namespace, store: str, listed: Found, pairs: list[tuple[int, int]]
) -> int:
    """``batch --store``."""
    from .._pairs.driver import Interrupted
    from .._pairs.run import run_pairs
    from ..errors import StoreError

    paths = list(listed.values())
    if arguments.status:
        return _say_status(arguments, store, paths, pairs)
    writes = arguments.out is not None and str(arguments.out) != store
    if writes:
        with held_folder(arguments, LISTED, "batch") as out:  # before the work; workers may share it
            out.claim(["pairs.txt"])
    said = _Progress(arguments.json_progress)
    try:
        with _client(arguments) as client, said:
            report = run_pairs(
                paths, pairs, store=store, model=arguments.model, client=client, variant=arguments.variant,
                backend=arguments.backend, precision=arguments.precision, resolution=arguments.resolution,
                threads=arguments.threads, stride=arguments.stride, features=arguments.features,
                only=arguments.only, shard=arguments.shard, stage=arguments.stage, tile=arguments.tile,
                retries=arguments.retries, retry_failed=arguments.retry_failed,
                strict_bits=arguments.strict_bits, fsync=arguments.fsync, pack=arguments.pack,
                progress=said.tell,
            )  # fmt: skip
    except StoreError as error:
        raise StoreError(f"{error}; {said.missing()}") from error
    except KeyboardInterrupt as error:
        how = "" if isinstance(error, Interrupted) else " at once"
        raise KeyboardInterrupt(f"interrupted{how}; {said.missing()}; the same command goes on") from error
    names = [path.name for path in paths]
    if writes:
        _write_pairs(arguments.out, names, report, arguments.drop)
    _say_report(arguments, store, report, listed)
    return TOO_MANY_FAILED if len(report.failed) > arguments.max_failed else 0


class _Progress:
    """A bar for people, or a line of JSON a second for programs."""

    def __init__(self, lines: bool) -> None:
        self.lines = lines
        self.last: Progress | None = None
        self._bar: Any = None
        self._stage = ""
        self._said = 0.0

    def tell(self, progress: Progress) -> None:
        self.last = progress
        if self.lines:
            if progress.seconds - self._said >= 1 or progress.done >= progress.total:
                self._said = progress.seconds
                print(json.dumps({"event": "progress", **vars(progress)}), flush=True)
            if progress.stage != self._stage:
                self._stage, self._said = progress.stage, 0.0
            return
        from tqdm.auto import tqdm

        if progress.stage != self._stage:
            self.__exit__()
            self._stage = progress.stage
            self._bar = tqdm(
                total=progress.total, unit=progress.stage[:-1], disable=None, leave=False, file=sys.stderr
            )
        self._bar.set_postfix(workers=progress.workers, failed=progress.failed, refresh=False)
        self._bar.update(progress.done - self._bar.n)

    def missing(self) -> str:
        """How much is not done."""
        if self.last is None or self.last.stage != "pairs":
            return "no pair was begun"
        return f"{self.last.total - self.last.done} of {self.last.total} pairs are missing"

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _say_report(arguments: argparse.Namespace, store: str, report: Report, listed: Found) -> None:
    store = without_secrets(store, store)
    verdicts = {name: int((report.verdicts == n).sum()) for n, name in enumerate(("NO", "UNSURE", "YES"))}
    values = {
        "run": report.run, "store": store, "pairs": len(report.pairs), "done": report.done,
        "computed": report.computed, "encoded": report.encoded, "verdicts": verdicts,
        "failed": [vars(f) for f in report.failed], "seconds": round(report.seconds, 3),
        "left_out": dict(listed.left_out),
    }  # fmt: skip
    if arguments.json_progress:
        print(json.dumps({"event": "done", **values}), flush=True)
        return
    text = (
        f"{report.done} of {len(report.pairs)} pairs in {store}, {report.computed} computed now, "
        f"{report.encoded} pictures encoded, {report.seconds:.0f} s. Something in common: "
        f"{verdicts['YES']} yes, {verdicts['UNSURE']} unsure, {verdicts['NO']} no. Run {report.run}"
    )
    some = report.failed[:20]
    text += "".join(f"\nfailed: {shown(' '.join(f.pair))}: {f.error}: {shown(f.message)}" for f in some)
    if len(report.failed) > len(some):
        text += f"\nand {len(report.failed) - len(some)} more: mast3r store {store} --list failed"
    say(arguments, values, text)


def _write_pairs(folder: Path, names: list[str], report: Report, drop: str | None) -> None:
    """``pairs.txt`` of the pairs that are not dropped, with their number of matches."""
    from .._files.folder import OutFolder
    from .._files.whole import replacing
    from .._pairs.verdicts import drops
    from .._pairs.worker import VERDICTS

    gap = "\t" if any(" " in name for name in names) else " "
    rows = [
        f"{names[i]}{gap}{names[j]}{gap}{matches}\n"
        for (i, j), matches, verdict in zip(
            report.pairs.tolist(), report.matches.tolist(), report.verdicts.tolist(), strict=True
        )
        if verdict >= 0 and not drops(drop, VERDICTS[verdict])
    ]
    with OutFolder(folder, LISTED, "batch", wait=True) as out:
        with replacing(out.stage / "pairs.txt") as temporary:
            temporary.write_text("".join(rows), encoding="utf-8", errors="surrogateescape")
        out.finish()


def _say_status(
    arguments: argparse.Namespace, store: str, paths: list[Path], pairs: list[tuple[int, int]]
) -> int:
    from .._pairs import plan, record
    from .._store.store import Store
    from ..errors import ArgumentError

    opened = Store.existing(store)
    wanted = [os.path.abspath(path) for path in paths]
    chosen = plan.normal(pairs, len(paths))
    found = []
    for run in record.readable(opened).values():
        if (
            isinstance(run, record.Run)
            and [p.path for p in run.pictures] == wanted
            and run.pairs.tolist() == chosen.tolist()
        ):
            found.append(record.status(opened, run))
    if not found:
        raise ArgumentError(f"store {quoted(store)}: no run of these pictures and pairs was begun")
    lines = []
    for s in found:
        left = "" if s.seconds_left is None else f", {s.seconds_left / 60:.0f} minutes left"
        lines.append(
            f"run {s.run}: {s.done} of {s.pairs} pairs done, {s.left} left, {s.failed} failed; "
            f"{s.encoded} of {s.pictures} pictures encoded; {s.rate:.2f} pairs a second lately{left}"
        )
    say(arguments, [{**vars(s), "left": s.left} for s in found], "\n".join(lines))
    return 0


def _store(arguments: argparse.Namespace) -> int:
    from .._store.store import Store
    from ..errors import ArgumentError

    if arguments.dry_run and not (arguments.check or arguments.gc):
        raise ArgumentError("store: --dry-run goes with --gc or --check; nothing else removes files")
    store = Store.existing(arguments.store)
    if arguments.check:
        return _check(arguments, store)
    if arguments.gc:
        return _gc(arguments, store)
    if arguments.list == "failed":
        return _list_failed(arguments, store)
    if arguments.list == "runs":
        return _list_runs(arguments, store)
    from .._store import care

    _say_sizes(arguments, care.sizes(store), "", care.foreign(store))
    return 0


def _check(arguments: argparse.Namespace, store: Store) -> int:
    from .._store import care

    done = care.check(store, arguments.dry_run)
    how = "and would go" if arguments.dry_run else "and removed"
    counts = f"{len(done.damaged)} damaged {how}, {len(done.leftovers)} half-written"
    lines = [f"{done.files} files read, {counts}"]
    lines += [f"damaged: {name}" for name in done.damaged]
    lines += [f"half-written: {name}" for name in done.leftovers]
    lines += [f"cannot be read, left as it is: {name}" for name in done.unreadable]
    say(arguments, vars(done), "\n".join([*lines, *_foreign(done.foreign)]))
    return 1 if done.unreadable else 0


def _gc(arguments: argparse.Namespace, store: Store) -> int:
    from .._pairs import record
    from .._store import care

    kept = [record.read_run(store, key) for key in arguments.gc]
    wanted: set[str] = set().union(*map(record.needed, kept))
    gone = care.collect(store, wanted, arguments.dry_run)
    others = sorted(set(record.runs(store)) - {run.key for run in kept})
    for key in others if not arguments.dry_run else ():
        store.remove("runs", key, ".json")
    names = [*(entry.name for entry in gone.files), *(f"run {key}" for key in others)]
    how, shown = ("would go", names) if arguments.dry_run else ("removed", [])
    _say_sizes(arguments, gone.sizes(), how, care.foreign(store), shown)
    return 0


def _list_failed(arguments: argparse.Namespace, store: Store) -> int:
    from .._store import care

    rows = list(care.failures(store))
    lines = [f"{' '.join(r['pair'])}: {r['error']}: {r['message']} ({r['attempts']} tries)" for r in rows]
    say(arguments, rows, "\n".join(lines) or "nothing was set aside")
    return 0


def _list_runs(arguments: argparse.Namespace, store: Store) -> int:
    from .._pairs import record

    values: list[dict[str, Any]] = []
    lines = []
    for key, run in record.readable(store).items():
        if not isinstance(run, record.Run):
            values.append({"run": key, "error": str(run)})
            lines.append(f"{key}: damaged: {run}")
            continue
        s = record.status(store, run)
        values.append({**vars(s), "left": s.left})
        lines.append(f"{s.run}: {s.pictures} pictures, {s.done} of {s.pairs} pairs, {s.failed} failed")
    say(arguments, values, "\n".join(lines) or "no runs")
    return 0


def _foreign(names: Sequence[str]) -> list[str]:
    """What is said of files that are not the store's."""
    if not names:
        return []
    shown = ", ".join(map(quoted, names[:FOREIGN]))
    more = f" and {len(names) - FOREIGN} more" if len(names) > FOREIGN else ""
    return [f"{len(names)} files here are not the store's and stay as they are: {shown}{more}"]


def _say_sizes(
    arguments: argparse.Namespace,
    sizes: dict[str, tuple[int, int]],
    how: str,
    foreign: Sequence[str],
    names: Sequence[str] = (),
) -> None:
    values: dict[str, Any] = {kind: {"files": n, "bytes": total} for kind, (n, total) in sizes.items()}
    lines = [
        f"{kind:12} {files:9,} files {total / 2**20:12,.1f} MiB {how}"
        for kind, (files, total) in sizes.items()
    ]
    if names:
        values["names"] = list(names)
    if foreign:
        values["foreign"] = list(foreign)
    say(arguments, values, "\n".join([*(lines or ["nothing"]), *names, *_foreign(foreign)]))
