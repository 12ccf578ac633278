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


EXACT = {"subsample": 1, "min_weight": 0.0, "refine": False}


def test_a_whole_result(engine: CPUEngine, rng: np.random.Generator) -> None:
    pictures = [rng.integers(0, 256, size, np.uint8) for size in ((64, 96, 3), (120, 90, 3))]
    result = engine.infer_gpu(*pictures)
    found = match(engine, result, **EXACT)
    bare = match(engine, result.desc_1, result.desc_2)
    assert set(zip(found.idx_1, found.idx_2)) == set(zip(bare.idx_1, bare.idx_2))
    np.testing.assert_array_equal(found.pts3d_1, result.pts3d_1.numpy().reshape(-1, 3)[found.idx_1])
    np.testing.assert_array_equal(found.original_2, found.transform_2.to_original(found.pts2d_2))
    np.testing.assert_array_equal(match(engine, result.numpy(), **EXACT).idx_1, found.idx_1)
    with pytest.raises(ValueError, match="bare descriptors"):
        bare.original_1  # noqa: B018


def test_five_arguments_keep_their_meaning(engine: CPUEngine, planted: Maps) -> None:
    """Two maps: every pixel, the 512 best by similarity alone, whole pixels."""
    desc, shuffled, order = planted
    found = engine.match(desc, shuffled)
    assert len(found) == 512 and found.seeds == 600
    np.testing.assert_array_equal(order[found.idx_2], found.idx_1)
    np.testing.assert_array_equal(found.pts2d_2, np.stack([found.idx_2 % 24, found.idx_2 // 24], 1))
    same = engine.match(desc, shuffled, 512, True, 0.5)
    np.testing.assert_array_equal(same.idx_1, found.idx_1)
    assert not found.refined.any() and found.refined.shape == (512,)
    assert found.covariance.shape == (512, 2, 2) and np.isnan(found.covariance[:, 0, 0]).all()


def test_a_result_is_matched_between_pixels(engine: CPUEngine, rng: np.random.Generator) -> None:
    pictures = [rng.integers(0, 256, size, np.uint8) for size in ((64, 96, 3), (120, 90, 3))]
    result = engine.infer_gpu(*pictures)
    found = match(engine, result, min_weight=0.0, refine=False, confidence_threshold=-1)
    assert len(found) > 50
    whole_2 = np.stack([found.idx_2 % result.transform_2.width, found.idx_2 // result.transform_2.width], 1)
    off = found.pts2d_2 - whole_2
    assert (np.abs(off) <= 0.5).all() and (off != 0).any(axis=1).mean() > 0.5
    sx, sy = result.transform_2.scale
    np.testing.assert_allclose(found.covariance[:, 0, 0], 0.25 * sx**2, rtol=1e-6)
    np.testing.assert_allclose(found.covariance[:, 1, 1], 0.25 * sy**2, rtol=1e-6)
    assert found.seeds == 64 * 96  # at this size every pixel
    few = engine.match(result, top_k=20, min_weight=0.0, refine=False, confidence_threshold=-1)
    assert len(few) == 20 and (np.diff(few.confidence) <= 0).all()
    assert set(few.idx_1.tolist()) <= set(found.idx_1.tolist())
    halves = (few.pts2d_1 >= (48, 32)).sum(axis=0)
    assert (halves >= 5).all() and (halves <= 15).all()  # all over picture 1


def _textured(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """A smooth random picture: noise at three scales, enlarged by PIL."""
    from PIL import Image

    total = np.zeros((height, width))
    for cell in (4, 9, 25):
        small = rng.normal(size=(height // cell + 2, width // cell + 2)).astype(np.float32)
        total += np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))
    total = (total - total.min()) / np.ptp(total)
    return np.repeat((255 * total).astype(np.uint8)[:, :, None], 3, axis=2)


def test_refine(engine: CPUEngine, rng: np.random.Generator) -> None:
    """A crop moved by whole pixels: the truth is known to the last digit."""
    big = _textured(rng, 300, 340)
    one, two = big[10:290, 10:310], np.ascontiguousarray(big[17:297, 5:305])  # two(x, y) = one(x - 5, y + 7)
    ys, xs = np.mgrid[30:250:12, 30:270:12]
    xy_1 = np.stack([xs.ravel(), ys.ravel()], 1).astype(float)
    truth = xy_1 + (5, -7)
    start = truth + rng.uniform(-1, 1, truth.shape)
    moved = engine.refine(one, two, xy_1, start, reach=3)
    assert moved.refined.mean() > 0.95
    error = np.linalg.norm(moved.xy_2 - truth, axis=1)
    assert np.median(error[moved.refined]) < 0.01 and error[moved.refined].max() < 0.1
    np.testing.assert_array_equal(moved.xy_2[~moved.refined], start[~moved.refined])
    assert (np.linalg.eigvalsh(moved.covariance) > 0).all()
    assert (moved.correlation[moved.refined] > 0.99).all()
    none = engine.refine(one, two, xy_1[:5], start[:5], reach=3)
    assert not none.refined.any() and none.covariance.shape == (5, 2, 2)
    np.testing.assert_array_equal(none.xy_2, start[:5])
    empty = engine.refine(one, two, np.zeros((0, 2)), np.zeros((0, 2)), reach=3)
    assert empty.xy_2.shape == (0, 2) and empty.refined.dtype == np.bool_
    for wrong in ({"xy_1": xy_1[:3]}, {"reach": 0}, {"reach": np.nan}, {"xy_1": xy_1 * np.nan}):
        with pytest.raises(errors.ShapeError):
            engine.refine(one, two, **{"xy_1": xy_1, "xy_2": start, "reach": 3, **wrong})


def test_pictures_of_a_result(engine: CPUEngine, rng: np.random.Generator) -> None:
    pictures = [rng.integers(0, 256, size, np.uint8) for size in ((64, 96, 3), (120, 90, 3))]
    result = engine.infer_gpu(*pictures)
    assert result.images is not None and result.numpy().images is not None
    for kept, given in zip(result.images, pictures, strict=True):
        np.testing.assert_array_equal(kept, given)
    bare = engine.decode(engine.encode(pictures[0]), engine.encode(pictures[1]))
    assert bare.images is None
    with pytest.raises(errors.ArgumentError, match="pass images="):
        engine.match(bare, refine=True)
    with pytest.raises(errors.ShapeError, match="picture 2"):
        engine.match(bare, images=(pictures[0], pictures[0]), min_weight=0, confidence_threshold=-1)
    with pytest.raises(errors.ArgumentError, match="whole result"):
        engine.match(result.desc_1, result.desc_2, refine=True)


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
