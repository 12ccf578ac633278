# SPDX-License-Identifier: Apache-2.0
"""Pairs in a store: keys, tiles and shards, what is computed and what is found, what failures do."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import noise
from PIL import Image

from mast3r_runtime import cli
from mast3r_runtime._pairs import driver, plan, record, task, worker
from mast3r_runtime._pairs.local import WorkerDied, workers_for
from mast3r_runtime._pairs.rule import Rule, stride_for
from mast3r_runtime._scene import known
from mast3r_runtime._store import care, places
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.distributed import Progress, SetupError, run_pairs
from mast3r_runtime.errors import ArgumentError, ImageError, StoreError
from mast3r_runtime.store import Store, file_hash

COUNT = 6
PAIRS = [(i, j) for i in range(COUNT) for j in range(i)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = np.random.default_rng(8)
    out = tmp_path_factory.mktemp("many")
    for i in range(COUNT):
        Image.fromarray(noise(made, 48, 64)).save(out / f"{i:02d}.png")
    return out


@pytest.fixture(scope="module")
def paths(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


@pytest.fixture
def options(micro: Path) -> dict[str, Any]:
    return {"model": micro, "resolution": 64, "backend": "cpu", "precision": "fp32", "threads": 1}


@pytest.fixture(scope="module")
def whole(paths: list[Path], micro: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all pairs."""
    store = tmp_path_factory.mktemp("whole") / "store"
    run_pairs(paths, PAIRS, store=store, model=micro, resolution=64, backend="cpu", precision="fp32")
    return store


def files(store: Path) -> dict[str, bytes]:
    return {p.relative_to(store).as_posix(): p.read_bytes() for p in store.rglob("*") if p.is_file()}


class Counting(Executor):
    """Runs jobs at once, as a cluster would: by their pickled bytes."""

    _max_workers = 2

    def __init__(self, change: Callable[[Any, Any], Any] | None = None) -> None:
        self.jobs: list[Any] = []
        self.change = change

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        data = pickle.dumps((fn, args))
        self.jobs.append((fn, args[0], len(data)))
        future: Future[Any] = Future()
        try:
            if self.change is not None:
                self.change(fn, args[0])
            future.set_result(pickle.loads(pickle.dumps(fn(*args, **kwargs))))
        except Exception as error:
            future.set_exception(error)
        return future


# ---- arithmetic ----------------------------------------------------------


@pytest.mark.parametrize("pairs", [[(0.5, 1)], np.full((1, 2), np.nan), [(0, 2)], [(-1, 1)], [("0", "1")]])
def test_pairs_that_are_none(pairs: Any) -> None:
    with pytest.raises(ArgumentError, match="pairs"):
        plan.normal(pairs, 2)
    assert plan.normal([], 2).shape == (0, 2)
    assert plan.normal([(1, 0), (0, 1), (1, 1)], 2).tolist() == [[0, 1]]


def test_tiles_hold_every_pair_once_and_few_pictures() -> None:
    pairs = plan.normal([(i, j) for i in range(37) for j in range(37) if (i * j) % 3], 37)
    assert (pairs[:, 0] < pairs[:, 1]).all() and len(np.unique(pairs, axis=0)) == len(pairs)
    cut = plan.tiles(pairs, 4)
    assert sorted(np.concatenate(cut).tolist()) == list(range(len(pairs)))
    assert all(len(t) <= 16 and len(np.unique(pairs[t])) <= 8 for t in cut)
    assert plan.tiles(plan.normal([], 5), 4) == []
    with pytest.raises(ArgumentError, match="below 3"):
        plan.normal([(0, 3)], 3)


@pytest.mark.parametrize("count, shards", [(10, 3), (1, 4), (0, 2), (97, 97), (5, 1)])
def test_shards_are_all_and_no_overlap(count: int, shards: int) -> None:
    parts = [list(plan.share(count, (k, shards))) for k in range(shards)]
    assert sum(parts, []) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    with pytest.raises(ArgumentError):
        plan.share(count, (shards, shards))


def test_keys_tell_apart_what_changes_numbers(engine: CPUEngine) -> None:
    rule = Rule.of(engine, 8, "float16")
    others = [
        Rule.of(engine, 16, "float16"),
        Rule.of(engine, 8, "float32"),
        Rule.of(engine, 8, "float16", True),
    ]
    assert len({r.pair_key("a", "b") for r in [rule, *others]}) == 4
    assert len({r.feature_key("a") for r in [rule, *others]}) == 3  # the stride does not change features
    assert rule.pair_key("a", "b") != rule.pair_key("b", "a")
    assert Rule.from_record(json.loads(json.dumps(rule.record()))) == rule
    with CPUEngine("auto", 96, "fp32", 1) as one_thread:
        one_thread.load(engine.path)
        assert Rule.of(one_thread, 8, "float16") == rule
    assert (stride_for(200), stride_for(201)) == (8, 16)
    for bad in ({"stride": 0}, {"features": "int8"}):
        with pytest.raises(ArgumentError):
            Rule("", 64, "fp32", **bad)  # type: ignore[arg-type]


# ---- what is computed ----------------------------------------------------


def test_nothing_twice(paths: list[Path], options: dict[str, Any], tmp_path: Path, whole: Path) -> None:
    store = tmp_path / "store"
    told: list[Progress] = []
    first = run_pairs(paths, PAIRS, store=store, progress=told.append, **options)
    assert (first.done, first.computed, first.encoded, first.failed) == (len(PAIRS), len(PAIRS), COUNT, ())
    assert told[-1].done == told[-1].total == len(PAIRS) and {p.stage for p in told} == {"pictures", "pairs"}
    assert (first.matches >= 0).all() and set(first.verdicts) <= {0, 1, 2}
    again = run_pairs(paths, [*PAIRS, *PAIRS], store=store, **options)
    assert (again.done, again.computed, again.encoded, again.run) == (len(PAIRS), 0, 0, first.run)
    np.testing.assert_array_equal(again.matches, first.matches)
    np.testing.assert_array_equal(again.verdicts, first.verdicts)
    assert files(store) == files(whole)  # the number of threads changes no byte
    shutil.copy(paths[0], tmp_path / "another name.png")
    moved = run_pairs([tmp_path / "another name.png", *paths[1:]], PAIRS, store=store, **options)
    assert (moved.computed, moved.encoded) == (0, 0)


def test_a_store_without_features_heals(
    paths: list[Path], options: dict[str, Any], tmp_path: Path, whole: Path
) -> None:
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    shutil.rmtree(store / "features")
    gone = sorted((store / "pairs").rglob("*.npz"))[:3]
    for path in gone:
        path.unlink()
    torn = sorted((store / "pairs").rglob("*.npz"))[0]
    torn.chmod(0o644)
    torn.write_bytes(torn.read_bytes()[:100])
    report = run_pairs(paths, PAIRS, store=store, stage="pairs", **options)
    assert report.computed == 4 and report.done == len(PAIRS)
    assert {k: v for k, v in files(store).items() if k.startswith("pairs/")} == {
        k: v for k, v in files(whole).items() if k.startswith("pairs/")
    }


def test_shards_in_any_order_make_the_whole(
    paths: list[Path], options: dict[str, Any], tmp_path: Path, whole: Path
) -> None:
    reports = [
        run_pairs(paths, PAIRS, store=tmp_path / "s", shard=(k, 3), tile=2, **options) for k in (2, 0, 1)
    ]
    assert sum(r.computed for r in reports) == len(PAIRS)
    rows = [tuple(p) for r in reports for p in r.pairs.tolist()]
    assert len(set(rows)) == len(rows) == len(PAIRS)
    assert files(tmp_path / "s") == files(whole)


def test_stages_alone(paths: list[Path], options: dict[str, Any], tmp_path: Path) -> None:
    first = run_pairs(paths, PAIRS, store=tmp_path, stage="encode", shard=(0, 2), **options)
    second = run_pairs(paths, PAIRS, store=tmp_path, stage="encode", shard=(1, 2), **options)
    assert (first.encoded, second.encoded, first.computed) == (3, 3, 0)
    third = run_pairs(paths, PAIRS, store=tmp_path, **options)
    assert (third.encoded, third.computed) == (0, len(PAIRS))


def test_packed_pairs_are_the_same(
    paths: list[Path], options: dict[str, Any], tmp_path: Path, whole: Path
) -> None:
    report = run_pairs(paths, PAIRS, store=tmp_path, pack=True, tile=2, **options)
    assert report.computed == len(PAIRS) and not (tmp_path / "pairs").exists()
    packs = list((tmp_path / "packs").rglob("*.zip"))
    assert 0 < len(packs) < len(PAIRS)
    assert run_pairs(paths, PAIRS, store=tmp_path, **options).computed == 0
    loose, packed = Store(whole), Store(tmp_path)
    keys = list(loose.keys("pairs"))
    assert list(packed.keys("pairs")) == keys
    assert all(packed.read("pairs", key) == loose.read("pairs", key) for key in keys)
    assert care.check(packed).damaged == ()
    packs[0].chmod(0o644)
    data = bytearray(packs[0].read_bytes())
    data[len(data) // 2] ^= 1
    packs[0].write_bytes(data)
    assert care.check(Store(tmp_path)).damaged == (packs[0].relative_to(tmp_path).as_posix(),)
    packs[1].chmod(0o644)
    packs[1].write_bytes(packs[1].read_bytes()[:-30])  # without its comment it may be anybody's
    cut = care.check(Store(tmp_path))
    assert (cut.damaged, cut.foreign) == ((), (packs[1].relative_to(tmp_path).as_posix(),))
    healed = run_pairs(paths, PAIRS, store=tmp_path, **options)
    assert 0 < healed.computed < len(PAIRS) and healed.done == len(PAIRS)


def test_dense_and_all(paths: list[Path], options: dict[str, Any], tmp_path: Path, engine: CPUEngine) -> None:
    few = [(0, 1), (1, 2)]
    run_pairs(paths, few, store=tmp_path, **options)
    dense = run_pairs(paths, few, store=tmp_path, only="dense", **options)
    assert dense.computed == 2 and len(list(Store(tmp_path).keys("depth"))) == 4
    everything = run_pairs(paths, few, store=tmp_path, only="all", **options)
    assert everything.computed == 2
    key = next(Store(tmp_path).keys("results"))
    arrays = Store(tmp_path).read_arrays("results", key)
    assert arrays is not None and arrays["pts3d_1"].shape == (48, 64, 3) and "match_idx_1" in arrays
    assert run_pairs(paths, few, store=tmp_path, only="all", **options).computed == 0


def test_jobs_are_small(paths: list[Path], options: dict[str, Any], tmp_path: Path) -> None:
    executor = Counting()
    run_pairs(paths, PAIRS, store=tmp_path, client=executor, **options)
    assert {fn.__name__ for fn, _, _ in executor.jobs} == {"probe", "encode", "tile"}
    assert max(size for _, _, size in executor.jobs) < 100_000


# ---- half features -------------------------------------------------------


def test_half_features_within_the_tolerance_of_the_document(tmp_path: Path) -> None:
    """The bounds of docs/store.md."""
    pictures = [task.Picture(str(p), file_hash(p)) for p in known.paths()[2:4]]
    with CPUEngine("auto", 256, "fp32", 2) as engine:
        engine.load()
        workers = [
            worker.PairWorker(engine, Store(tmp_path), Rule.of(engine, 8, k)) for k in ("float32", "float16")
        ]
        full, half = (engine.decode(*(w.features(p) for p in pictures)).numpy() for w in workers)
        pairs = [w.pair(*pictures) for w in workers]
    for name in ("pts3d_1", "pts3d_2"):
        a, b = getattr(full, name), getattr(half, name)
        moved = np.linalg.norm(a - b, axis=-1) / np.linalg.norm(a, axis=-1)
        assert 0 < moved.max() < 2e-3
    assert np.linalg.norm(full.desc_1 - half.desc_1) < 3e-4 * np.linalg.norm(full.desc_1)
    a, b = ({tuple(np.rint(x).astype(int)): y for x, y in zip(p["xy_1"], p["xy_2"])} for p in pairs)
    both = a.keys() & b.keys()
    assert len(both) > 0.995 * len(a) > 500
    assert np.quantile([np.linalg.norm(a[k] - b[k]) for k in both], 0.95) < 0.01
    assert pairs[0]["verdict"] == pairs[1]["verdict"] == 2
    sizes = [p.stat().st_size for p in (tmp_path / "features").rglob("*.safetensors")]
    assert len(sizes) == 4 and max(sizes) > 1.9 * min(sizes)


# ---- failures ------------------------------------------------------------


def test_an_unreadable_picture_fails_its_pairs_once(
    paths: list[Path], options: dict[str, Any], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jpg"
    Image.fromarray(np.zeros((48, 64, 3), np.uint8)).save(bad)
    bad.write_bytes(bad.read_bytes()[:200])
    executor = Counting()
    mixed = [*paths[:4], bad, tmp_path / "missing.png"]
    report = run_pairs(mixed, PAIRS, store=tmp_path / "s", client=executor, **options)
    assert report.done == 6 and len(report.failed) == len(PAIRS) - 6
    assert {f.error for f in report.failed} == {"ImageError", "FileError"}
    set_aside = list(care.failures(Store(tmp_path / "s")))
    assert {tuple(r["pair"]) for r in set_aside} == {(paths[i].name, "bad.jpg") for i in range(4)}
    assert all(r["attempts"] == 1 and "bad.jpg" in r["message"] for r in set_aside)
    assert sum(fn is task.tile for fn, _, _ in executor.jobs) <= 3
    again = run_pairs(mixed, PAIRS, store=tmp_path / "s", **options)
    assert again.done == 6 and again.computed == 0 and len(again.failed) == len(report.failed)


def broken(monkeypatch: pytest.MonkeyPatch, error: Exception, times: int) -> list[str]:
    """Computing the pair of 01.png and 02.png fails some times."""
    compute, tried = worker.PairWorker._compute, []

    def fails(self: Any, one: Any, two: Any, *rest: Any) -> Any:
        if {Path(one.path).name, Path(two.path).name} == {"01.png", "02.png"} and len(tried) < times:
            tried.append(one.path)
            raise error
        return compute(self, one, two, *rest)

    monkeypatch.setattr(worker.PairWorker, "_compute", fails)
    return tried


def test_what_may_pass_is_tried_again(
    paths: list[Path], options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = broken(monkeypatch, OSError("the network file system is away"), 2)
    report = run_pairs(paths, PAIRS, store=tmp_path, **options)
    assert len(tried) == 2 and report.done == len(PAIRS) and not report.failed


def test_what_does_not_pass_is_set_aside(
    paths: list[Path], options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = broken(monkeypatch, MemoryError("no"), 99)
    report = run_pairs(paths, PAIRS, store=tmp_path, retries=2, **options)
    assert len(tried) == 3 and report.done == len(PAIRS) - 1
    assert [(f.pair, f.error, f.attempts) for f in report.failed] == [
        (("01.png", "02.png"), "MemoryError", 3)
    ]
    assert int((report.matches < 0).sum()) == 1
    second = run_pairs(paths, PAIRS, store=tmp_path, **options)
    assert len(tried) == 3 and len(second.failed) == 1  # it is set aside, not tried
    monkeypatch.undo()
    third = run_pairs(paths, PAIRS, store=tmp_path, retry_failed=True, **options)
    assert third.done == len(PAIRS) and not third.failed
    assert not list(care.failures(Store(tmp_path)))


def test_a_pair_that_kills_workers_is_found(
    paths: list[Path], options: dict[str, Any], tmp_path: Path
) -> None:
    deaths: list[int] = []

    def dies(fn: Any, job: Any) -> None:
        names = [{Path(job.pictures[i].path).name for i in (t.one, t.two)} for t in getattr(job, "items", ())]
        if {"01.png", "03.png"} in names:
            deaths.append(len(names))
            raise WorkerDied("killed")

    report = run_pairs(paths, PAIRS, store=tmp_path, client=Counting(dies), **options)
    assert report.done == len(PAIRS) - 1
    assert [(f.pair, f.error) for f in report.failed] == [(("01.png", "03.png"), "WorkerDied")]
    assert deaths[-1] == 1 and deaths.count(1) == driver.DEATHS and len(deaths) == 2 * driver.DEATHS


@pytest.mark.parametrize("error", [StoreError("store: no space left"), SetupError("node7: another model")])
def test_what_nobody_can_do_ends_the_run(
    error: Exception, paths: list[Path], options: dict[str, Any], tmp_path: Path
) -> None:
    def fails(fn: Any, job: Any) -> None:
        if fn is task.tile:
            raise error

    executor = Counting(fails)
    with pytest.raises(type(error), match=str(error)):
        run_pairs(paths, PAIRS, store=tmp_path, client=executor, **options)
    assert sum(fn is task.tile for fn, _, _ in executor.jobs) <= 3


def test_workers_that_differ_are_refused(paths: list[Path], options: dict[str, Any], tmp_path: Path) -> None:
    setup = task.Setup(str(tmp_path), str(options["model"]), backend="cpu", precision="fp32", resolution=64)
    found = task.probe(setup, 8, "float16", False, str(paths[0]))
    other = Rule(**{**found.rule.record(), "model": "f" * 32})
    pictures = tuple(task.Picture(str(p), file_hash(p)) for p in paths[:2])
    items = ((task.Item(0, 0, 1),),)
    with pytest.raises(SetupError, match="model '[0-9a-f]+', the run has 'ffff"):
        task.tile(task.TileJob(setup, other, pictures, items))
    with pytest.raises(SetupError, match="the run is of 0.0"):
        task.tile(task.TileJob(setup, Rule(**{**found.rule.record(), "version": "0.0"}), pictures, items))
    with pytest.raises(SetupError, match="same paths"):
        task.probe(setup, 8, "float16", False, str(tmp_path / "not there.png"))
    with pytest.raises(SetupError, match="no.safetensors"):
        run_pairs(paths, PAIRS, store=tmp_path, **{**options, "model": tmp_path / "no.safetensors"})


def test_a_full_store_stops_at_once(
    paths: list[Path], options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    import errno

    write = places.Folder._rename
    left = [9]

    def full(part: Path, target: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(part, target)

    monkeypatch.setattr(places.Folder, "_rename", staticmethod(full))
    with pytest.raises(StoreError, match="No space left"):
        run_pairs(paths, PAIRS, store=tmp_path, **options)
    monkeypatch.undo()
    assert not list(tmp_path.rglob(".part-*"))
    assert run_pairs(paths, PAIRS, store=tmp_path, **options).done == len(PAIRS)


def test_errors_of_pictures_are_final() -> None:
    assert task._failure(0, "k", ImageError("no")).final and not task._failure(0, "k", OSError("no")).final


# ---- records -------------------------------------------------------------


def test_status_and_gc(paths: list[Path], options: dict[str, Any], tmp_path: Path) -> None:
    small = run_pairs(paths[:3], [(0, 1), (1, 2)], store=tmp_path, **options)
    large = run_pairs(paths, PAIRS, store=tmp_path, shard=(0, 2), tile=2, **options)
    store = Store(tmp_path)
    got = record.status(store, record.read_run(store, large.run))
    assert (got.pairs, got.failed, got.left) == (len(PAIRS), 0, len(PAIRS) - got.done)
    assert large.done <= got.done < len(PAIRS) and got.pictures == COUNT
    wanted = record.needed(record.read_run(store, small.run[:6]))
    before = care.sizes(store)
    would = care.collect(store, wanted, dry=True)
    assert care.sizes(store) == before and care.collect(store, wanted) == would and would.files
    left = care.sizes(store)
    assert left["pairs"][0] == 2 and left["features"][0] == 3 and left["runs"] == before["runs"]
    assert run_pairs(paths[:3], [(0, 1), (1, 2)], store=tmp_path, **options).computed == 0
    with pytest.raises(ArgumentError, match="0 of that name"):
        record.read_run(store, "zzz")


# ---- the command line ----------------------------------------------------


def command(folder: Path, micro: Path, *more: object) -> list[str]:
    return [
        "batch", str(folder), "--model", str(micro), "--resolution", "64", "--backend", "cpu",
        "--precision", "fp32", "--graph", "complete", *map(str, more),
    ]  # fmt: skip


def test_batch_with_a_store(
    folder: Path, micro: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], whole: Path
) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    assert cli.main(command(folder, micro, "--store", store, "--status")) == 1
    assert "there is none" in capsys.readouterr().err
    make = command(folder, micro, "--store", store, "-o", out, "--json-progress", "--workers", 2)
    assert cli.main(make) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["event"] == "done" and lines[-1]["computed"] == len(PAIRS)
    assert {line["event"] for line in lines[:-1]} == {"progress"} and lines[-2]["done"] == len(PAIRS)
    assert files(store) == files(whole)
    assert len((out / "pairs.txt").read_text().splitlines()) == len(PAIRS)
    assert cli.main([*make, "--drop", "UNSURE"]) == 0
    assert len((out / "pairs.txt").read_text().splitlines()) == lines[-1]["verdicts"]["YES"]
    capsys.readouterr()
    assert cli.main(command(folder, micro, "-o", store, "--store", "--status", "--json")) == 0
    (state,) = json.loads(capsys.readouterr().out)
    assert (state["done"], state["left"], state["encoded"]) == (len(PAIRS), 0, COUNT)
    for option in ("--size", "--check"):
        assert cli.main(["store", str(store), option]) == 0
    assert cli.main(["store", str(store), "--list", "runs"]) == 0
    assert state["run"] in capsys.readouterr().out
    assert cli.main(["store", str(store), "--gc", state["run"]]) == 0
    assert capsys.readouterr().out.strip() == "nothing"
    assert cli.main(["store", str(tmp_path)]) == 1


def test_too_many_failures_are_status_6(
    folder: Path, micro: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = tmp_path / "pictures"
    shutil.copytree(folder, mixed)
    (mixed / "zz.png").write_bytes((mixed / "00.png").read_bytes()[:100])
    make = command(mixed, micro, "--store", tmp_path / "s", "--workers", 1, "--json")
    assert cli.main(make) == 6
    values = json.loads(capsys.readouterr().out)
    assert values["done"] == len(PAIRS) and len(values["failed"]) == COUNT
    assert cli.main([*make, "--max-failed", str(COUNT)]) == 0
    capsys.readouterr()
    assert cli.main(["store", str(tmp_path / "s"), "--list", "failed", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == COUNT


def test_options_that_cannot_be(folder: Path, micro: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("3/3", "1", "a/b", "-1/2"):
        with pytest.raises(SystemExit):
            cli.main(command(folder, micro, "--store", "s", f"--shard={text}"))
    assert cli.main(command(folder, micro)) == 1
    assert "want -o FOLDER, --store STORE" in capsys.readouterr().err


def test_plain_batch_matches_seeds_and_drops_by_verdict(
    folder: Path, micro: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every pixel is searched only where --exact asks for it; dropped pairs stay dropped on resumption."""
    counts = {}
    for name, more in (("seeds", []), ("exact", ["--exact"]), ("drop", ["--drop", "UNSURE"])):
        make = [*command(folder, micro, "-o", tmp_path / name, "--resolution", 128, "--json"), *more]
        assert cli.main(make) == 0
        values = json.loads(capsys.readouterr().out)
        counts[name] = sum(p["matches"] for p in values["pairs"])
        if name == "drop":
            assert values["dropped"] and len(values["pairs"]) + len(values["dropped"]) == len(PAIRS)
            assert len(list((tmp_path / name).glob("*.npz"))) == len(values["pairs"])
            assert cli.main(make) == 0
            again = json.loads(capsys.readouterr().out)
            assert again["dropped"] == values["dropped"] and again["encoded"] == 0
    assert counts["seeds"] < counts["exact"]


def test_default_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mast3r_runtime._pairs import local

    monkeypatch.setattr(local, "cores", lambda: 16)
    monkeypatch.setattr(local, "free_memory", lambda: 64 << 30)
    small, large = tmp_path / "small.safetensors", tmp_path / "large.safetensors"
    for path, size in ((small, 30 << 20), (large, 1300 << 20)):
        with open(path, "wb") as file:
            file.truncate(size)
    assert workers_for(small, backend="cpu") == 16 and workers_for(large, backend="cpu") == 4
    monkeypatch.setattr(local, "free_memory", lambda: 8 << 30)
    assert workers_for(large, backend="cpu") == 2
