# SPDX-License-Identifier: Apache-2.0
"""A pair of pictures through the engine, with the micro model's synthetic weights."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path

import numpy as np
import pytest
from conftest import FIELDS, assert_same, code_run_by_the_end_of, noise

import mast3r_runtime.tensor as mt
from mast3r_runtime import Engine, errors
from mast3r_runtime._library.calls import call
from mast3r_runtime._library.structs import Stats, struct
from mast3r_runtime.backends import _cpu, _mps
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.backends._mps import MPSEngine


def open_engine(micro: Path, resolution: int = 96, threads: int = 2) -> CPUEngine:
    engine = CPUEngine("auto", resolution, "fp32", threads)
    engine.load(micro)
    return engine


def live() -> tuple[int, int, int, int]:
    import ctypes

    stats = struct(Stats)
    call("mast3r_live", ctypes.byref(stats))
    return stats.engines, stats.jobs, stats.tensors, stats.indexes


def test_shapes_and_types(engine: CPUEngine, rng: np.random.Generator) -> None:
    result = engine.infer_gpu(noise(rng, 64, 96), noise(rng, 64, 96))
    for view in (1, 2):
        for name, shape in (("pts3d", (3,)), ("conf", ()), ("desc", (24,)), ("desc_conf", ())):
            tensor = getattr(result, f"{name}_{view}")
            assert tensor.shape == (64, 96, *shape)
            assert tensor.dtype == np.float32 and tensor.is_valid
            assert tensor.nbytes == 4 * tensor.numel == 4 * np.prod(tensor.shape)
            array = tensor.numpy()
            assert array is tensor.numpy() and array.shape == tensor.shape
            assert np.isfinite(array).all()
    assert result.conf_1.numpy().min() >= 1  # 1 + exp(x)
    np.testing.assert_allclose(np.linalg.norm(result.desc_1.numpy(), axis=2), 1, atol=1e-5)
    want = {"preprocess_ms", "encoder_ms", "decoder_ms", "heads_ms", "copy_ms", "inference_ms", "total_ms"}
    assert set(result.timing) == want and result.timing["total_ms"] > 0


def test_tensor_ways_out(engine: CPUEngine, rng: np.random.Generator) -> None:
    tensor = engine.infer_gpu(noise(rng, 64, 96), noise(rng, 64, 96)).pts3d_1
    out = np.empty(tensor.shape, np.float32)
    tensor.copy_to(out)
    np.testing.assert_array_equal(out, tensor.numpy())
    np.testing.assert_array_equal(np.asarray(tensor), out)
    np.testing.assert_array_equal(np.from_dlpack(tensor), out)
    assert np.asarray(tensor, np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(tensor), tensor.numpy())
    tensor.copy_to(out)  # also once the array exists
    for bad in (np.empty((1, 2), np.float32), np.empty(tensor.shape), np.asfortranarray(out)):
        with pytest.raises(errors.ShapeError, match="copy_to"):
            tensor.copy_to(bad)


def test_portrait(micro: Path, rng: np.random.Generator) -> None:
    """T3: 480 x 640 portrait stays portrait: 384 x 512 of the network."""
    with open_engine(micro, 512) as engine:
        result = engine.infer_gpu(noise(rng, 640, 480), noise(rng, 640, 480))
    assert result.conf_1.shape == result.conf_2.shape == (512, 384)
    np.testing.assert_allclose(
        result.transform_1.to_original([[0, 0], [383, 511]]), [[0.125, 0.125], [478.875, 638.875]]
    )


@pytest.mark.parametrize(
    ("first", "second", "shape_1", "shape_2"),
    [
        ((480, 640), (768, 1024), (144, 192), (144, 192)),
        ((480, 640), (640, 480), (144, 192), (192, 144)),
        ((60, 90), (200, 200), (128, 192), (192, 192)),
    ],
)
def test_views_of_different_size(
    micro: Path, rng: np.random.Generator, first: tuple[int, int], second: tuple[int, int],
    shape_1: tuple[int, int], shape_2: tuple[int, int],
) -> None:  # fmt: skip
    """T4: each view has its own shape, and matches come back in each picture's own pixels."""
    with open_engine(micro, 192) as engine:
        result = engine.infer_gpu(noise(rng, *first), noise(rng, *second))
        matches = engine.match(result, top_k=None, confidence_threshold=0.0)
    assert result.conf_1.shape == shape_1 and result.conf_2.shape == shape_2
    assert len(matches) > 0
    for points, (height, width) in ((matches.original_1, first), (matches.original_2, second)):
        assert (points > -0.5).all() and (points < (width - 0.5, height - 0.5)).all()


@pytest.mark.parametrize("side", [512, 500])
def test_squares(micro: Path, rng: np.random.Generator, side: int) -> None:
    """T5: a square stays square unless asked, and the transform shows which."""
    with open_engine(micro, 128) as engine:
        pair = noise(rng, side, side), noise(rng, side, side)
        square, cut = engine.infer_gpu(*pair), engine.infer_gpu(*pair, square_ok=False)
    assert square.conf_1.shape == (128, 128) and cut.conf_1.shape == (96, 128)
    assert (square.transform_1.crop_y, square.transform_1.height) == (0, 128)
    assert (cut.transform_1.crop_y, cut.transform_1.height) == (16, 96)


@pytest.mark.parametrize("size", [(389, 517), (15, 15), (16, 16), (17, 17), (1, 1), (7, 11)])
def test_odd_sizes(micro: Path, rng: np.random.Generator, size: tuple[int, int]) -> None:
    """T6: sides become multiples of the patch; small pictures are enlarged, as upstream."""
    with open_engine(micro, 64) as engine:
        result = engine.infer_gpu(noise(rng, *size), noise(rng, *size))
    height, width = result.conf_1.shape
    assert height % 16 == width % 16 == 0 and min(height, width) >= 16 and max(height, width) == 64
    t = result.transform_1
    assert (t.original_height, t.original_width, t.height, t.width) == (*size, height, width)
    assert t.crop_x >= 0 and t.crop_x + t.width <= t.resized_width
    assert t.crop_y >= 0 and t.crop_y + t.height <= t.resized_height


@pytest.mark.parametrize("size", [(100, 4000), (4000, 100)])
def test_panorama(micro: Path, rng: np.random.Generator, size: tuple[int, int]) -> None:
    """T7: too long for one patch across; an error that names the limit."""
    with open_engine(micro, 512) as engine, pytest.raises(ValueError, match="patch of 16.*at most") as caught:
        engine.infer_gpu(noise(rng, *size), noise(rng, 100, 100))
    assert isinstance(caught.value, errors.ImageError)


def test_large_photograph(engine: CPUEngine, rng: np.random.Generator) -> None:
    """T8: 8 megapixels are brought down to the network's size."""
    wide = np.tile(noise(rng, 64, 64), (38, 51, 1))[:2448, :3264]
    result = engine.infer_gpu(wide, wide)
    assert result.conf_1.shape == (64, 96)
    assert (result.transform_1.original_width, result.transform_1.resized_height) == (3264, 72)


def test_layouts_give_the_same_numbers(engine: CPUEngine, rng: np.random.Generator) -> None:
    """T9, through the engine."""
    a, b = noise(rng, 64, 96), noise(rng, 64, 96)
    want = engine.infer_gpu(a, b)
    flipped = np.ascontiguousarray(a[:, ::-1])[:, ::-1]
    assert_same(want, engine.infer_gpu(flipped, np.asfortranarray(b)))
    assert_same(want, engine.infer_gpu(np.pad(a, ((0, 0), (4, 9), (0, 0)))[:, 4:-9], b))


def test_same_picture_twice(engine: CPUEngine, rng: np.random.Generator) -> None:
    """T11: nothing divides by the zero motion."""
    a = noise(rng, 64, 96)
    result = engine.infer_gpu(a, a)
    assert all(np.isfinite(np.asarray(getattr(result, field))).all() for field in FIELDS)


@pytest.mark.parametrize("colours", [(0, 0), (255, 255), (0, 255), (128, 37)])
def test_flat_pictures(engine: CPUEngine, colours: tuple[int, int]) -> None:
    """T13: black, white, one colour: finite numbers."""
    pair = [np.full((64, 96, 3), c, np.uint8) for c in colours]
    result = engine.infer_gpu(*pair)
    assert all(np.isfinite(np.asarray(getattr(result, field))).all() for field in FIELDS)


def test_unreadable_values(engine: CPUEngine) -> None:
    picture = np.full((64, 96, 3), np.nan, np.float32)
    with pytest.raises(ValueError, match="finite"):
        engine.infer_gpu(picture, picture)


def test_empty_inputs(engine: CPUEngine, rng: np.random.Generator) -> None:
    """T14: nothing in, an error or nothing out; never an index error."""
    a = noise(rng, 64, 96)
    for bad in ([], [a]):
        with pytest.raises(ValueError, match="at least 2"):
            engine.infer_batch_pipelined(bad)
    with pytest.raises(ValueError, match="empty"):
        engine.infer_gpu(np.zeros((0, 96, 3), np.uint8), a)
    nothing = np.zeros((0, 5, 24), np.float32)
    for first, second in ((nothing, nothing), (nothing, np.ones((4, 5, 24), np.float32))):
        matches = engine.match(first, second, top_k=None, confidence_threshold=0.0)
        assert len(matches) == 0 and matches.pts2d_1.shape == (0, 2) and matches.pts3d_2.shape == (0, 3)
        assert matches.idx_1.dtype == np.int64 and matches.confidence.dtype == np.float32


def test_raw_pictures(engine: CPUEngine, rng: np.random.Generator) -> None:
    """Pictures at network size are taken as they are, and only those."""
    a, b = noise(rng, 64, 96), noise(rng, 48, 80)
    result = engine.infer_gpu(a, b, preprocess=False)
    assert result.conf_1.shape == (64, 96) and result.conf_2.shape == (48, 80)
    with pytest.raises(errors.ImageError, match="65"):
        engine.infer_gpu(noise(rng, 65, 96), b, preprocess=False)
    assert_same(engine.infer_gpu(a, a), engine.infer_gpu(a, a, preprocess=False))


def test_batch_equals_single(engine: CPUEngine, rng: np.random.Generator) -> None:
    """T20: a sequence gives the numbers of its pairs."""
    images = [noise(rng, 64, 96), noise(rng, 64, 96), noise(rng, 96, 64), noise(rng, 64, 96)]
    results = engine.infer_batch_pipelined(images)
    assert len(results) == 3
    for i, result in enumerate(results):
        assert_same(result, engine.infer_gpu(images[i], images[i + 1]))


def test_thread_counts_agree(micro: Path, rng: np.random.Generator) -> None:
    """T20: bit for bit with 1, 2 and 8 threads."""
    a, b = noise(rng, 64, 96), noise(rng, 64, 96)
    results = []
    for threads in (1, 2, 8):
        with open_engine(micro, threads=threads) as engine:
            results.append(engine.infer_gpu(a, b).numpy())
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])


def test_symmetric(engine: CPUEngine, rng: np.random.Generator) -> None:
    """The first direction is the pair's; swapping the pictures swaps the directions."""
    a, b = noise(rng, 64, 96), noise(rng, 64, 96)
    both, swapped = engine.infer_symmetric(a, b), engine.infer_symmetric(b, a)
    pair = engine.infer_gpu(a, b)
    for view, number in ((both.view_11, 1), (both.view_21, 2)):
        for name in ("pts3d", "conf", "desc", "desc_conf"):
            np.testing.assert_array_equal(getattr(view, name), getattr(pair, f"{name}_{number}"))
    for one, other in ((both.view_11, swapped.view_22), (both.view_12, swapped.view_21)):
        np.testing.assert_array_equal(one.pts3d, other.pts3d)


def test_results_stay(micro: Path, rng: np.random.Generator) -> None:
    """T34: a later call and close() change no earlier result."""
    engine = open_engine(micro)
    a, b = noise(rng, 64, 96), noise(rng, 64, 96)
    first = engine.infer_gpu(a, b)
    late = engine.infer_gpu(a, b)  # looked at only after close()
    kept = {field: getattr(first, field).numpy().copy() for field in FIELDS}
    second = engine.infer_gpu(b, a)
    assert not np.array_equal(kept["pts3d_1"], second.pts3d_1.numpy())
    engine.close()
    engine.close()
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(first, field).numpy(), kept[field])
        np.testing.assert_array_equal(getattr(late, field).numpy(), kept[field])
    with pytest.raises(errors.ClosedError):
        engine.infer_gpu(a, b)
    assert not engine.is_ready()


def test_arrays_outlive_everything(micro: Path, rng: np.random.Generator) -> None:
    with open_engine(micro) as engine:
        view = engine.infer_gpu(noise(rng, 64, 96), noise(rng, 64, 96)).pts3d_1.numpy()[10:20, 5]
    kept = view.copy()
    del engine
    gc.collect()
    with open_engine(micro) as engine:
        engine.infer_gpu(noise(rng, 64, 96), noise(rng, 64, 96))
    np.testing.assert_array_equal(view, kept)


def resident_megabytes() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


def test_memory_is_given_back_without_python_code(engine: CPUEngine, rng: np.random.Generator) -> None:
    """Python code in a finalizer is where a Ctrl-C of that moment is printed and lost."""
    gc.collect()
    before, held = live(), [engine.infer_gpu(noise(rng, 32, 48), noise(rng, 32, 48)).numpy()]
    assert live() != before
    assert not code_run_by_the_end_of(held)
    assert live() == before


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_stays_flat(micro: Path, rng: np.random.Generator) -> None:
    """T24: 1000 calls and 20 engines leave memory and handles where they were."""
    a, b = noise(rng, 32, 48), noise(rng, 32, 48)
    gc.collect()
    before = live()
    with open_engine(micro, 48) as engine:
        for _ in range(50):
            engine.match(engine.infer_gpu(a, b), confidence_threshold=0.0)
        warm = resident_megabytes()
        for _ in range(1000):
            engine.match(engine.infer_gpu(a, b), confidence_threshold=0.0)
        assert resident_megabytes() - warm < 24
    for _ in range(20):
        open_engine(micro, 48).close()
    assert resident_megabytes() - warm < 48
    gc.collect()
    assert live() == before


def test_results_pickle_and_copy(engine: CPUEngine, rng: np.random.Generator) -> None:
    result = engine.infer_gpu(noise(rng, 64, 96), noise(rng, 64, 96))
    matches = engine.match(result, confidence_threshold=0.0)
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert_same(result, again)
        assert again.transform_1 == result.transform_1 and again.timing == result.timing
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(matches)).idx_2, matches.idx_2)
    assert_same(result, result.numpy())


@pytest.mark.parametrize(
    ("resolution", "size", "kept"),
    [(223, (160, 208), 0.89), (224, (224, 224), 0.74), (225, (160, 224), 0.94)],
)
def test_224_is_a_square_of_the_middle(
    engine: CPUEngine, resolution: int, size: tuple[int, int], kept: float
) -> None:
    """What guide.md says of 640 x 480: 224 loses a quarter of the picture, its neighbours none."""
    picture = np.zeros((480, 640, 3), np.uint8)
    result = engine.infer_gpu(picture, picture, resolution=resolution)
    assert result.conf_1.shape == size
    t = result.transform_1
    share = size[0] * size[1] / (t.resized_width * t.resized_height)
    assert kept < share < kept + 0.02


def test_transform_goes_both_ways(engine: CPUEngine, rng: np.random.Generator) -> None:
    t = engine.infer_gpu(noise(rng, 117, 203), noise(rng, 64, 96)).transform_1
    points = rng.uniform(-3, 300, (50, 2))
    np.testing.assert_allclose(t.to_network(t.to_original(points)), points, atol=1e-9)
    np.testing.assert_allclose(t.to_original(t.to_network(points)), points, atol=1e-9)
    # the corner of the resized picture is the corner of the original one
    np.testing.assert_allclose(t.to_original([-0.5 - t.crop_x, -0.5 - t.crop_y]), [-0.5, -0.5])
    with pytest.raises(ValueError, match="want"):
        t.to_original([1.0, 2.0, 3.0])


def test_calls_that_need_a_model(rng: np.random.Generator) -> None:
    a = noise(rng, 64, 96)
    with CPUEngine("auto") as engine:
        assert not engine.is_ready()
        with pytest.raises(errors.NotLoadedError, match="load"):
            engine.infer_gpu(a, a)
        with pytest.raises(errors.NotLoadedError):
            engine.warmup()
    with CPUEngine("auto") as engine, pytest.raises(FileNotFoundError, match="nowhere"):
        engine.load("nowhere.safetensors")


def test_settings_that_cannot_be(micro: Path) -> None:
    for bad in (
        {"num_threads": -1}, {"num_threads": 1.5}, {"precision": "fp8"}, {"precision": "fp32\0"},
        {"resolution": -5}, {"resolution": 2**32 + 64},
    ):  # fmt: skip
        ((name, value),) = bad.items()
        with pytest.raises(errors.ArgumentError) as caught:
            CPUEngine("auto", **bad)
        assert str(value).strip("\0") in str(caught.value), name
    with CPUEngine("auto") as engine:
        with pytest.raises(ValueError, match="NUL"):
            engine.load(f"{micro}\0.safetensors")
        with pytest.raises(ValueError, match="num_iterations=-1"):
            engine.warmup(-1)
    with (
        CPUEngine("mast3r_vit_large") as engine,
        pytest.raises(ValueError, match="mast3r_vit_large.*mast3r_micro"),
    ):
        engine.load(micro)


def test_model_files_that_cannot_be(micro: Path, tmp_path: Path) -> None:
    whole = micro.read_bytes()
    cases = {
        "cut.safetensors": whole[:-1000],
        "head.safetensors": whole[:5],
        "empty.safetensors": b"",
        "lfs.safetensors": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    }
    with CPUEngine("auto") as engine:
        for name, data in cases.items():
            (tmp_path / name).write_bytes(data)
            with pytest.raises(errors.WeightsError, match=name):
                engine.load(tmp_path / name)
        (tmp_path / "model.pth").write_bytes(b"PK")
        with pytest.raises(errors.WeightsError, match="model.pth"):
            engine.load(tmp_path / "model.pth")
        assert not engine.is_ready()
        engine.load(micro.parent)  # a folder with unified.safetensors; the engine still works
        assert engine.is_ready() and engine.name().startswith("mast3r_micro on cpu")


def test_backend_choice(micro: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAST3R_BACKEND", "cpu")
    with MPSEngine("auto") as engine:
        assert engine.info()["backend"] == "cpu"
    monkeypatch.setenv("MAST3R_BACKEND", "abacus")
    with pytest.raises(ValueError, match="abacus"):
        MPSEngine("auto")
    with CPUEngine("auto") as engine:  # asked for by name: the variable has no say
        assert engine.info()["backend"] == "cpu"
    with pytest.raises(ValueError, match="abacus"):
        mt.Context()
    monkeypatch.setenv("MAST3R_BACKEND", "metal")
    with Engine("auto", backend="cpu") as engine, mt.Context("cpu") as context:
        assert engine.info()["backend"] == context.stats().backend == "cpu"
        assert "backend='cpu'" in repr(engine)


def test_tensors_obey_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAST3R_BACKEND", "metal")
    if not _mps.is_available():
        for make in (Engine, mt.Context):
            with pytest.raises(errors.DeviceError, match="Metal"):
                make()


def test_backends_that_are_none() -> None:
    with pytest.raises(errors.ArgumentError, match="abacus.*want one of auto"):
        Engine(backend="abacus")
    with pytest.raises(errors.ArgumentError, match="CPUEngine.*metal.*want cpu"):
        CPUEngine(backend="metal")


@pytest.mark.parametrize("kind", [Engine, CPUEngine])
def test_an_engine_pickles_with_its_backend(kind: type[Engine], micro: Path) -> None:
    with kind("auto", 96, "fp32", 2, backend="cpu") as engine:
        assert engine.path is None
        engine.load(micro)
        with pickle.loads(pickle.dumps(engine)) as again:
            assert type(again) is kind and repr(again) == repr(engine)
            assert again.path == engine.path == str(micro) and again.is_ready()


def test_module_functions(micro: Path, rng: np.random.Generator) -> None:
    for module in (_cpu, _mps):
        info = module.get_context_info()
        assert info["device_name"] == module.get_device_name() and info["backend"] == module.get_name()
        assert info["recommended_working_set_size"] == module.get_recommended_working_set_size()
        assert info["max_buffer_length"] == module.get_max_buffer_length()
        module.synchronize()
    assert _cpu.is_available() and _cpu.get_name() == "cpu"
    assert _mps.is_available() == (_mps.get_name() == "metal")
    if not _mps.is_available():
        assert _mps.get_context_info()["fallback_reason"]
    with open_engine(micro) as engine:
        a = noise(rng, 64, 96)
        engine.infer_gpu(a, a)
        gc.collect()
        kept = _cpu.get_context_info()["buffer_pool_bytes"]
        _cpu.clear_buffer_pool()
        assert _cpu.get_context_info()["buffer_pool_bytes"] == 0 < kept
        engine.infer_gpu(a, a)


def test_info(engine: CPUEngine) -> None:
    info = engine.info()
    assert (info["variant"], info["patch"], info["enc_dim"], info["dec_depth"]) == (
        "mast3r_micro",
        16,
        64,
        10,
    )
    assert info["metadata"]["weights"] == "synthetic" and info["threads"] == 2
    assert engine.name() == info["name"]


def test_batch_of_pairs_equals_pairs(engine: CPUEngine) -> None:
    images = [np.random.default_rng(i).integers(0, 256, (64, 96, 3), np.uint8) for i in range(4)]
    pairs = [(images[i % 4], images[(i + 1) % 4]) for i in range(9)]  # eight at once, and one
    results = engine.infer_batch(pairs, preprocess=False, only=["pts3d", "conf"])
    assert len(results) == 9
    for pair, result in zip(pairs, results, strict=True):
        alone = engine.infer_gpu(*pair, preprocess=False, only=["pts3d", "conf"])
        np.testing.assert_array_equal(result.pts3d_2.numpy(), alone.pts3d_2.numpy())
        np.testing.assert_array_equal(result.conf_1.numpy(), alone.conf_1.numpy())
    assert engine.infer_batch([]) == []
    with pytest.raises(errors.ShapeError, match="pair 1"):
        engine.infer_batch([pairs[0], (images[0],)])  # type: ignore[list-item]
