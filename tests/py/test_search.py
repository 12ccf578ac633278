# SPDX-License-Identifier: Apache-2.0
"""Retrieval of large collections: pairs without the matrix of scores, features kept in a store."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import noise
from PIL import Image

from mast3r_runtime import cli, collection
from mast3r_runtime._pairs import parts, retrieve
from mast3r_runtime._pairs.graph import retrieval_pairs
from mast3r_runtime._store import care
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.errors import ArgumentError, ModelNotFoundError, WeightsError
from mast3r_runtime.retrieval import Index, scene_pairs
from mast3r_runtime.store import Store


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    made = np.random.default_rng(9)
    folder = tmp_path_factory.mktemp("looks")
    for i in range(9):
        Image.fromarray(noise(made, 48, 64)).save(folder / f"{i}.png")
    return [str(p) for p in sorted(folder.iterdir())]


@pytest.fixture(scope="module")
def finder(micro: Path, head: Path) -> CPUEngine:
    with CPUEngine("auto", 64, "fp32", 1) as engine:
        engine.load(micro)
        engine.load_retrieval(head)
        yield engine


@pytest.mark.parametrize("graph", ["retrieval-3-4", "retrieval-0-2", "retrieval-5-0", "retrieval-99-99"])
@pytest.mark.parametrize("count", [1, 2, 7, 33, 70])
def test_rows_give_the_pairs_of_the_matrix(count: int, graph: str) -> None:
    """Also with many equal scores, with a negative diagonal, and with an anchor chosen twice."""
    for seed in range(5):
        made = np.random.default_rng(seed)
        scores = made.integers(0, 4, (count, count)).astype(np.float32) / [1, 7][seed % 2]
        if seed == 4:
            np.fill_diagonal(scores, -1)
        asked: list[int] = []

        def rows(numbers: list[int], scores: np.ndarray = scores, asked: list[int] = asked) -> np.ndarray:
            asked.append(len(numbers))
            return scores[list(numbers)]

        anchor = count // 2
        pairs, found = retrieval_pairs(count, graph, rows, anchor=anchor)
        assert pairs == [tuple(p) for p in scene_pairs(count, graph, scores, anchor=anchor)]
        assert max(asked) <= 32 and sum(asked) <= count + 99
        assert all(s in (scores[i, j], scores[j, i]) for (i, j), s in zip(pairs, found))
    with pytest.raises(ArgumentError, match="retrieval-NA-K"):
        retrieval_pairs(count, "complete", lambda n: np.zeros((1, 1), np.float32))


@pytest.mark.parametrize("words", [True, False])
def test_a_large_collection_has_the_same_pairs(
    finder: CPUEngine, paths: list[str], codebook: Path, tmp_path: Path, words: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    book = codebook if words else None
    graph = "retrieval-2-3"
    small = collection.retrieve(finder, paths, book, graph, nfeat=6)
    for k in (1, 0):  # two shards, in any order, fill the store
        part = collection.retrieve(finder, paths, book, graph, nfeat=6, store=tmp_path, shard=(k, 2))
        assert part.pairs == [] and part.encoded == len(part.kept) == [4, 5][k]
    assert len(list(Store(tmp_path).keys("retrieval"))) == len(paths)
    stored = collection.retrieve(finder, paths, book, graph, nfeat=6, store=tmp_path)
    monkeypatch.setattr(retrieve, "MATRIX_UP_TO", 3)
    large = collection.retrieve(finder, paths, book, graph, nfeat=6, store=tmp_path)
    assert stored.encoded == large.encoded == 0 and small.encoded == len(paths)
    assert small.pairs == stored.pairs == large.pairs and large.kept == small.kept
    assert large.scores is None and large.features == [] and stored.scores is not None
    np.testing.assert_array_equal(stored.scores, small.scores)
    files = large.write(tmp_path / "out", [Path(p).name for p in paths])
    assert [f.name for f in files] == ["pairs.txt", "pairs.json"]
    lines = (tmp_path / "out" / "pairs.txt").read_text().splitlines()
    assert len(lines) == len(large.pairs)


def test_an_index_is_built_once(
    finder: CPUEngine, paths: list[str], codebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts are in the store: shards build them, a later call merges them, a torn one is made again."""
    monkeypatch.setattr(retrieve, "MATRIX_UP_TO", 3)
    monkeypatch.setattr(retrieve, "PART", 2)
    monkeypatch.setattr(parts, "PART", 2)
    added: list[int] = []
    add = Index.add
    monkeypatch.setattr(Index, "add", lambda index, picture: (added.append(1), add(index, picture))[1])

    def find(images: list[str], **options: object) -> tuple[list[tuple[int, int]], int]:
        added.clear()
        found = collection.retrieve(
            finder, images, codebook, "retrieval-2-3", nfeat=6, store=tmp_path, **options
        )
        return found.pairs, len(added)

    store = Store(tmp_path)
    whole = retrieve.retrieve(finder, paths, codebook, "retrieval-2-3", nfeat=6)
    assert [find(paths, shard=(k, 2))[1] for k in (1, 0)] == [5, 4]  # nine pictures: five blocks
    assert len(list(store.keys("index", ".safetensors"))) == 5
    assert find(paths, shard=(0, 2))[1] == 0 and find(paths) == (whole.pairs, 0)
    # One picture more is one block more; and the last block, which it makes longer.
    fresh = tmp_path / "more.png"
    Image.fromarray(noise(np.random.default_rng(10), 48, 64)).save(fresh)
    assert find([*paths, str(fresh)])[1] == 2 and find([*paths, str(fresh)])[1] == 0
    # A picture that cannot be read is left out of its block, which is not kept.
    fresh.write_bytes(b"no picture")
    bad: list[int] = []
    left_out = {"on_error": lambda i, error: bad.append(i)}
    assert find([*paths, str(fresh)], **left_out) == (whole.pairs, 1) and bad == [9]
    assert find([*paths, str(fresh)], **left_out) == (whole.pairs, 1)
    for kind in (lambda data: data[:-1], lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: b""):
        name = sorted(store.keys("index", ".safetensors"))[0]
        path = store.path("index", name, ".safetensors")
        path.chmod(0o600)
        path.write_bytes(kind(path.read_bytes()))
        assert find(paths)[0] == whole.pairs
    assert find(paths) == (whole.pairs, 0)
    assert care.check(store).damaged == () and "index" in care.sizes(store)


def test_an_index_is_written_and_merged(finder: CPUEngine, codebook: Path, tmp_path: Path) -> None:
    made = np.random.default_rng(11)
    looks = [finder.encode_retrieval(noise(made, 48, 64)) for _ in range(3)]
    with finder.open_index(codebook, 6) as whole, finder.open_index(codebook, 6) as again:
        whole.add(looks)
        whole.write(tmp_path / "all")
        whole.write(tmp_path / "last", first=2)
        again.merge(tmp_path / "all")
        again.merge(tmp_path / "last")
        want = whole.score(looks)
        np.testing.assert_array_equal(again.score(looks), np.concatenate([want, want[:, 2:]], axis=1))
        for first in (-1, 4, 2**31 - 1):
            with pytest.raises(ArgumentError, match="first"):
                whole.write(tmp_path / "none", first=first)
        with finder.open_index(codebook, 5) as other, pytest.raises(WeightsError, match="nfeat"):
            other.merge(tmp_path / "all")
        (tmp_path / "all").write_bytes((tmp_path / "all").read_bytes()[:-9])
        with pytest.raises(WeightsError):
            again.merge(tmp_path / "all")
        with pytest.raises(ModelNotFoundError):
            again.merge(tmp_path / "none")
        assert len(again) == 4


def test_commands_share_the_store(
    paths: list[str], micro: Path, head: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """retrieve fills the store; batch --graph retrieval finds its features there."""
    folder, store = Path(paths[0]).parent, tmp_path / "store"
    model = tmp_path / "model"
    model.mkdir()
    (model / "unified.safetensors").write_bytes(micro.read_bytes())
    (model / "retrieval.safetensors").write_bytes(head.read_bytes())
    common = [
        "--model",
        str(model),
        "--resolution",
        "64",
        "--backend",
        "cpu",
        "--precision",
        "fp32",
        "--json",
    ]
    find = ["retrieve", str(folder), *common, "--store", str(store), "--graph", "retrieval-2-2"]
    assert cli.main([*find, "--shard", "0/1"]) == 0
    assert json.loads(capsys.readouterr().out) == {"pictures": 9, "encoded": 9}
    assert cli.main([*find, "-o", str(tmp_path / "found")]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["encoded"] == 0 and values["pairs"]
    # Noise has little in common with noise: pairs go, and batch finds what was run for that.
    assert cli.main([*find, "--drop", "UNSURE"]) == 0
    dropped = json.loads(capsys.readouterr().out)
    assert dropped["dropped"] + len(dropped["pairs"]) == len(values["pairs"]) and dropped["dropped"] > 0
    run = ["batch", str(folder), *common, "--store", str(store), "--workers", "1", "--graph", "retrieval-2-2"]
    assert cli.main(run) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["computed"] == 0 and done["encoded"] == 0
    assert done["verdicts"]["YES"] == len(dropped["pairs"])
    assert cli.main([a for a in find if a not in ("--store", str(store))] + ["--drop", "NO"]) == 1
    assert "--store" in capsys.readouterr().err
    assert (
        done["pairs"] == done["done"] == len({frozenset((p["first"], p["second"])) for p in values["pairs"]})
    )
    assert cli.main(["retrieve", str(folder), *common, "--shard", "0/1"]) == 1
    assert "a shard needs a store" in capsys.readouterr().err
