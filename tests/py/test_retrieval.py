# SPDX-License-Identifier: Apache-2.0
"""Retrieval: features against their definition, the index against a plain one, pair lists."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from conftest import noise, write_tensors

import mast3r_runtime as m3r
from mast3r_runtime import errors
from mast3r_runtime.backends._cpu import CPUEngine

NFEAT = 6


@pytest.fixture(scope="module")
def retriever(micro: Path, head: Path) -> CPUEngine:
    engine = CPUEngine("auto", 64, "fp32", 2)
    engine.load(micro)
    engine.load_retrieval(head)
    return engine


@pytest.fixture(scope="module")
def pictures(retriever: CPUEngine) -> list[m3r.RetrievalResult]:
    rng = np.random.default_rng(11)
    images = [noise(rng, 64, 96), noise(rng, 64, 96), noise(rng, 96, 96), noise(rng, 48, 96)]
    return retriever.encode_retrieval_batch([*images, images[0]])


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    kinds = {"F32": np.float32, "F64": np.float64}
    out = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        start, end = (8 + size + at for at in entry["data_offsets"])
        out[name] = np.frombuffer(data[start:end], kinds[entry["dtype"]]).reshape(entry["shape"])
    return out


def test_features_are_whitened_tokens(retriever: CPUEngine, head: Path, rng: np.random.Generator) -> None:
    """z = (x - m) p in float64, attention its length, as the specification has them."""
    image = noise(rng, 64, 96)
    got = retriever.encode_retrieval(image)
    white = read_tensors(head)
    tokens = retriever.encode(image).numpy().astype(np.float64)
    want = (tokens - white["prewhiten.m"]) @ white["prewhiten.p"]
    np.testing.assert_allclose(got.features, want, atol=1e-5)
    np.testing.assert_allclose(got.attention, np.linalg.norm(want, axis=1), rtol=1e-5)
    summed = (np.linalg.norm(want, axis=1)[:, None] * want).sum(0)
    np.testing.assert_allclose(got.global_feature, summed / np.linalg.norm(summed), atol=1e-5)
    assert got.attention_normalized.sum() == pytest.approx(1, abs=1e-5)
    assert got.timing["total_ms"] > 0


def test_both_styles_of_script_run(pictures: list[m3r.RetrievalResult]) -> None:
    result = pictures[0]
    assert isinstance(result.features, np.ndarray) and result.features.dtype == np.float32
    assert type(result.features.numpy()) is np.ndarray
    np.testing.assert_array_equal(result.features.numpy(), result.features)
    np.testing.assert_array_equal(result.attention.numpy(), result.attention)
    np.testing.assert_array_equal(result.attention_normalized.numpy(), result.attention_normalized)
    np.testing.assert_array_equal(np.asarray(result), result.numpy())
    assert result.shape == result.features.shape == (len(result), 64) and result.dtype == np.float32
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(again.features, result.features)
    top, order = result.top(NFEAT)
    assert top.shape == (NFEAT, 64) and (np.diff(result.attention[order]) <= 0).all()


def test_squares_are_cut_unless_asked(pictures: list[m3r.RetrievalResult], retriever: CPUEngine) -> None:
    assert len(pictures[2]) == 4 * 3  # 96 x 96 brought to 64 and cut to 4:3, in patches of 16
    square = np.zeros((96, 96, 3), np.uint8)
    assert len(retriever.encode_retrieval(square, square_ok=True)) == 16
    assert len(retriever.encode_retrieval(square, resolution=128)) == 8 * 6


def test_batch_is_one_by_one(retriever: CPUEngine, pictures: list[m3r.RetrievalResult]) -> None:
    np.testing.assert_array_equal(pictures[0].features, pictures[4].features)
    assert retriever.encode_retrieval_batch([]) == []


def asmk(results: list[m3r.RetrievalResult], words: np.ndarray) -> np.ndarray:
    """The scores by loops over their definition (binary ASMK, one word in the index, five to look up)."""

    def codes(result: m3r.RetrievalResult, assignments: int) -> dict[int, np.ndarray]:
        sums: dict[int, np.ndarray] = {}
        for x in result.top(NFEAT)[0].astype(np.float64):
            for w in np.argsort(((words - x) ** 2).sum(1))[:assignments]:
                sums[w] = sums.get(w, 0) + x - words[w]
        return {w: r > 0 for w, r in sums.items()}

    queries, stored = [codes(r, 5) for r in results], [codes(r, 1) for r in results]
    scores = np.zeros((len(results), len(results)))
    for i, query in enumerate(queries):
        for j, image in enumerate(stored):
            for w in query.keys() & image.keys():
                s = 1 - 2 * np.count_nonzero(query[w] != image[w]) / words.shape[1]
                scores[i, j] += s**3 if s >= 0 else 0
            scores[i, j] /= np.sqrt(len(image)) * np.sqrt(len(query))
    return scores


def test_index_against_plain_loops(
    retriever: CPUEngine, pictures: list[m3r.RetrievalResult], codebook: Path
) -> None:
    words = read_tensors(codebook)["centroids"].astype(np.float64)
    with retriever.open_index(codebook, NFEAT) as index:
        index.add(pictures[:2])
        index.add(pictures[2])
        index.add(pictures[3:])
        assert len(index) == 5
        scores = index.score(pictures)
        assert index.score([]).shape == (0, 5)
    np.testing.assert_allclose(scores, asmk(pictures, words), atol=1e-6)
    assert (scores.argmax(1)[:4] == [0, 1, 2, 3]).all()  # each picture finds itself


def test_similarity_of_global_vectors(pictures: list[m3r.RetrievalResult]) -> None:
    matrix = m3r.similarity(pictures)
    np.testing.assert_allclose(np.diag(matrix), 1, atol=1e-5)
    assert matrix[0, 4] == pytest.approx(1, abs=1e-5) and (matrix <= 1 + 1e-5).all()
    assert m3r.similarity([]).shape == (0, 0)


def test_standalone(micro: Path, head: Path, rng: np.random.Generator) -> None:
    image = noise(rng, 64, 96)
    with CPUEngine("auto", 96, "fp32", 2) as engine:
        assert not engine.is_retrieval_ready() and not engine.is_retrieval_standalone()
        with pytest.raises(errors.NotLoadedError, match="load_retrieval|LoadRetrieval"):
            engine.encode_retrieval(image)
        with pytest.raises(errors.NotLoadedError):
            engine.load_retrieval(head)
        engine.load_retrieval_standalone(micro, head)
        assert engine.is_retrieval_ready() and engine.is_retrieval_standalone() and not engine.is_ready()
        alone = engine.encode_retrieval(image)
        with pytest.raises(errors.NotLoadedError):
            engine.infer_gpu(image, image)
        engine.load(micro)
        engine.load_retrieval(head.parent)  # a folder
        assert engine.is_retrieval_ready() and not engine.is_retrieval_standalone()
        np.testing.assert_array_equal(engine.encode_retrieval(image).features, alone.features)
    assert not engine.is_retrieval_ready()
    np.testing.assert_array_equal(alone.features, alone.numpy())  # after close


def test_files_that_do_not_fit(retriever: CPUEngine, tmp_path: Path, micro: Path) -> None:
    other = write_tensors(
        tmp_path / "other.safetensors", {"prewhiten.m": np.zeros((1, 32)), "prewhiten.p": np.eye(32)}
    )
    with pytest.raises(errors.WeightsError, match="other"):
        retriever.load_retrieval(other)
    with pytest.raises(errors.WeightsError, match="prewhiten"):
        retriever.load_retrieval(micro)
    with pytest.raises(errors.ModelNotFoundError):
        retriever.load_retrieval(tmp_path / "none.safetensors")
    with pytest.raises(errors.WeightsError, match="centroids"):
        retriever.open_index(micro)
    with pytest.raises(errors.ModelNotFoundError):
        retriever.open_index(tmp_path / "none.safetensors")
    for nfeat in (0, -2, float("nan")):
        with pytest.raises(errors.ArgumentError, match="nfeat"):
            retriever.open_index(micro, nfeat)
    assert retriever.is_retrieval_ready()  # the head that was there still is


def test_index_errors(
    retriever: CPUEngine, pictures: list[m3r.RetrievalResult], codebook: Path, tmp_path: Path
) -> None:
    narrow = write_tensors(tmp_path / "narrow.safetensors", {"centroids": np.ones((5, 32), np.float32)})
    with retriever.open_index(narrow) as index, pytest.raises(errors.ShapeError, match="64"):
        index.add(pictures[0])
    with pytest.raises(errors.ClosedError):
        index.score(pictures[0])
    index.close()


def test_index_ends_with_its_engine(
    micro: Path, head: Path, codebook: Path, pictures: list[m3r.RetrievalResult]
) -> None:
    with CPUEngine("auto", 96, "fp32", 2) as engine:
        index = engine.open_index(codebook, NFEAT)  # needs no model
        index.add(pictures[:2])
    with pytest.raises(errors.ClosedError):
        index.score(pictures[0])
    index.close()


def test_scene_pairs() -> None:
    assert m3r.scene_pairs(4, "complete") == [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]
    assert m3r.scene_pairs(4, "swin-1-noncyclic") == [(0, 1), (1, 2), (2, 3)]
    assert m3r.scene_pairs(3, "oneref-1", symmetrize=True) == [(1, 0), (1, 2), (0, 1), (2, 1)]
    assert m3r.scene_pairs(5, "complete", prefilter="seq1") == [(1, 0), (2, 1), (3, 2), (4, 3)]
    assert m3r.scene_pairs(0, "complete") == []
    near = np.array([[1, 0.9, 0.1], [0.9, 1, 0.2], [0.1, 0.2, 1]])
    pairs = m3r.scene_pairs(3, "retrieval-1-2", near)
    assert (0, 1) in [tuple(sorted(p)) for p in pairs] and all(a != b for a, b in pairs)
    assert pairs[0].first == pairs[0][0] and pairs[0].second == pairs[0][1]
    for bad in (dict(graph="star"), dict(graph="retrieval-1-2"), dict(graph="swin", prefilter="half")):
        with pytest.raises(errors.ArgumentError):
            m3r.scene_pairs(3, **bad)
    with pytest.raises(errors.ShapeError, match="similarity"):
        m3r.scene_pairs(3, "retrieval-1-2", np.eye(2))
    with pytest.raises(errors.ArgumentError):
        m3r.scene_pairs(-1, "complete")
