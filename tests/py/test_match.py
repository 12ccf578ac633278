# SPDX-License-Identifier: Apache-2.0
"""Matching by the Python interface: planted truth, ties, masks, options (T18, T19)."""

from __future__ import annotations

import numpy as np
import pytest

from mast3r_runtime import errors
from mast3r_runtime.backends._cpu import CPUEngine

Maps = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture
def planted(rng: np.random.Generator) -> Maps:
    """A 20 x 30 map of unit descriptors, the same shuffled as 25 x 24, and the order."""
    desc = rng.standard_normal((20, 30, 24)).astype(np.float32)
    desc /= np.linalg.norm(desc, axis=2, keepdims=True)
    order = rng.permutation(600)
    return desc, desc.reshape(600, 24)[order].reshape(25, 24, 24), order


def match(engine: CPUEngine, *args: object, **options: object):
    return engine.match(*args, **{"top_k": None, "confidence_threshold": 0.0, **options})


def test_planted_permutation(engine: CPUEngine, planted: Maps) -> None:
    desc, shuffled, order = planted
    for first, second in ((desc, shuffled), (desc[None], shuffled[None])):
        found = match(engine, first, second)
        assert len(found) == found.num_matches == 600
        np.testing.assert_array_equal(order[found.idx_2], found.idx_1)
    np.testing.assert_array_equal(found.pts2d_1, np.stack([found.idx_1 % 30, found.idx_1 // 30], 1))
    np.testing.assert_array_equal(found.pts2d_2, np.stack([found.idx_2 % 24, found.idx_2 // 24], 1))
    assert np.isnan(found.pts3d_1).all() and np.isnan(found.pts3d_2).all()
    assert found.timing["match_ms"] >= 0


def test_order_and_top_k(engine: CPUEngine, planted: Maps, rng: np.random.Generator) -> None:
    desc, shuffled, _ = planted
    weight = rng.uniform(1, 9, (20, 30)).astype(np.float32)
    every = match(engine, desc, shuffled, conf_1=weight, conf_2=weight.reshape(25, 24), weighted=True)
    want = np.sqrt(weight.reshape(-1)[every.idx_1] * weight.reshape(-1)[every.idx_2])
    np.testing.assert_allclose(every.confidence, want, rtol=1e-5)  # the similarity is 1
    falling = np.diff(every.confidence)
    assert (falling <= 0).all()
    ties = falling == 0
    assert (np.diff(every.idx_1)[ties] > 0).all()
    best = match(
        engine, desc, shuffled, conf_1=weight, conf_2=weight.reshape(25, 24), weighted=True, top_k=64
    )
    np.testing.assert_array_equal(best.idx_1, every.idx_1[:64])
    assert len(match(engine, desc, shuffled, top_k=0)) == 600


def test_ties_go_to_the_lowest_index(engine: CPUEngine) -> None:
    """All descriptors equal: everyone chooses pixel 0, and only pixel 0 is chosen back."""
    same = np.zeros((4, 5, 24), np.float32)
    same[..., 0] = 1
    found = match(engine, same, same)
    assert found.idx_1.tolist() == found.idx_2.tolist() == [0]
    one_way = match(engine, same, same, reciprocal=False)
    assert sorted(one_way.idx_1.tolist()) == list(range(20)) and not one_way.idx_2.any()


def test_masks(engine: CPUEngine, planted: Maps) -> None:
    desc, shuffled, order = planted
    mask_1, mask_2 = np.zeros((20, 30), bool), np.ones((25, 24), bool)
    mask_1[5:12, 3:20] = True
    mask_2[:10] = False
    found = match(engine, desc, shuffled, mask_1=mask_1, mask_2=mask_2)
    assert mask_1.reshape(-1)[found.idx_1].all() and mask_2.reshape(-1)[found.idx_2].all()
    right = order[found.idx_2] == found.idx_1
    both = mask_1.reshape(-1)[order] & mask_2.reshape(-1)
    assert right.sum() == both.sum()
    with pytest.raises(ValueError, match="mask_1 of shape"):
        match(engine, desc, shuffled, mask_1=mask_2)


def test_border(engine: CPUEngine, planted: Maps) -> None:
    desc, shuffled, _ = planted
    found = match(engine, desc, shuffled, border=3)
    assert 0 < len(found) < 600
    for points, (height, width) in ((found.pts2d_1, (20, 30)), (found.pts2d_2, (25, 24))):
        assert (points >= 3).all() and (points < (width - 3, height - 3)).all()


def test_thresholds(engine: CPUEngine, planted: Maps, rng: np.random.Generator) -> None:
    desc, shuffled, order = planted
    noisy = (shuffled + 0.1 * rng.standard_normal(shuffled.shape)).astype(np.float32)
    every = match(engine, desc, noisy)
    middle = float(np.median(every.confidence))
    some = match(engine, desc, noisy, confidence_threshold=middle)
    assert 0 < len(some) < len(every) and (some.confidence >= middle).all()
    weight = rng.uniform(0.1, 9, (20, 30)).astype(np.float32)
    heavy = match(engine, desc, shuffled, conf_1=weight, conf_2=np.full((25, 24), 9), min_weight=3.0)
    np.testing.assert_array_equal(np.sort(heavy.idx_1), np.flatnonzero(weight.reshape(-1) >= 3))
    with pytest.raises(ValueError, match="eight|onf"):
        match(engine, desc, shuffled, weighted=True)


def test_points_come_along(engine: CPUEngine, planted: Maps, rng: np.random.Generator) -> None:
    desc, shuffled, _ = planted
    points = rng.standard_normal((20, 30, 3)).astype(np.float32)
    found = match(engine, desc, shuffled, pts3d_1=points)
    np.testing.assert_array_equal(found.pts3d_1, points.reshape(-1, 3)[found.idx_1])
    assert np.isnan(found.pts3d_2).all()


def test_subsample(engine: CPUEngine, planted: Maps) -> None:
    """On planted truth every start converges at once: the result is a subset of the full one."""
    desc, shuffled, order = planted
    few = match(engine, desc, shuffled, subsample=4)
    assert 0 < len(few) < 600
    np.testing.assert_array_equal(order[few.idx_2], few.idx_1)


def test_a_whole_result(engine: CPUEngine, rng: np.random.Generator) -> None:
    pictures = [rng.integers(0, 256, size, np.uint8) for size in ((64, 96, 3), (120, 90, 3))]
    result = engine.infer_gpu(*pictures)
    found = match(engine, result)
    bare = match(engine, result.desc_1, result.desc_2)
    assert set(zip(found.idx_1, found.idx_2)) == set(zip(bare.idx_1, bare.idx_2))
    np.testing.assert_array_equal(found.pts3d_1, result.pts3d_1.numpy().reshape(-1, 3)[found.idx_1])
    np.testing.assert_array_equal(found.original_2, found.transform_2.to_original(found.pts2d_2))
    np.testing.assert_array_equal(match(engine, result.numpy()).idx_1, found.idx_1)
    with pytest.raises(ValueError, match="bare descriptors"):
        bare.original_1  # noqa: B018


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (np.ones((4, 24)), np.ones((4, 5, 24)), "desc_1 of shape"),
        (np.ones((2, 4, 5, 24)), np.ones((4, 5, 24)), "desc_1 of shape"),
        (np.ones((4, 5, 24)), np.ones((4, 5, 16)), "16"),
        (np.ones((4, 5, 24)), np.array([["a"]]), "element type"),
        (np.ones((4, 5, 24)), None, "one descriptor map"),
    ],
)
def test_wrong_maps(engine: CPUEngine, first: object, second: object, words: str) -> None:
    with pytest.raises(errors.ShapeError, match=words):
        match(engine, first, second)


@pytest.mark.parametrize(
    "option",
    [{"top_k": -1}, {"border": -2}, {"subsample": 2**31}, {"top_k": 2.5}, {"confidence_threshold": np.nan}],
)
def test_wrong_options(engine: CPUEngine, option: dict[str, int]) -> None:
    same = np.ones((4, 5, 24), np.float32)
    with pytest.raises(ValueError, match=next(iter(option)).replace("_", ".")):
        match(engine, same, same, **option)
