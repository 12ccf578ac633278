# SPDX-License-Identifier: Apache-2.0
"""mast3r_runtime.tensor: arrays in and out, operators, training, memory, errors."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import mast3r_runtime as m3r
import mast3r_runtime.backends._cpu
import mast3r_runtime.tensor as mt
from mast3r_runtime import errors
from mast3r_runtime._eager import operations as _operations
from mast3r_runtime._library import calls, operation, structs


@pytest.fixture
def context() -> Iterator[mt.Context]:
    with mt.Context("cpu", threads=2) as opened:
        yield opened


def test_functions_are_those_of_the_library() -> None:
    assert set(_operations.__all__) == {signature.split("(")[0] for signature in mt.operations()}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 3), (1, 2, 3, 4)])
def test_there_and_back(
    context: mt.Context, rng: np.random.Generator, dtype: type, shape: tuple[int, ...]
) -> None:
    array = (100 * rng.standard_normal(shape)).astype(dtype)
    x = mt.tensor(array)
    assert (x.shape, x.dtype, x.ndim, x.size) == (shape, np.dtype(dtype), len(shape), array.size)
    np.testing.assert_array_equal(x.numpy(), array)
    np.testing.assert_array_equal(np.asarray(x), array)
    np.testing.assert_array_equal(mt.copy(x).numpy(), array)


def test_any_array(context: mt.Context, rng: np.random.Generator) -> None:
    """Strides, byte orders, other types, lists."""
    base = rng.standard_normal((6, 8)).astype(np.float32)
    read_only = base.copy()
    read_only.flags.writeable = False
    for array in (base[::2, ::-1], base.T, base.astype(">f4"), np.asfortranarray(base), read_only):
        np.testing.assert_array_equal(mt.tensor(array).numpy(), array)
    assert mt.tensor(base.astype(np.float64)).dtype == np.float32
    assert mt.tensor([[1, 2], [3, 4]]).dtype == np.int32
    assert mt.tensor([1, 2], np.float16).dtype == np.float16
    np.testing.assert_array_equal(context.zeros((2, 3), np.float16).numpy(), np.zeros((2, 3)))
    for bad in (np.array([2**31]), np.array(["a"]), np.array([1j]), np.array([True])):
        with pytest.raises(errors.ArgumentError):
            mt.tensor(bad)


def test_operators(context: mt.Context, rng: np.random.Generator) -> None:
    a, b = rng.random((2, 3, 4)).astype(np.float32) + 0.5
    row = b[0]
    x, y = mt.tensor(a), mt.tensor(b)
    pairs = [
        (x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (x**y, a**b), (x @ y.T, a @ b.T),
        (x + 2, a + 2), (2 - x, 2 - a), (3 * x, 3 * a), (1 / x, 1 / a), (x**2, a**2), (2**x, 2**a),
        (x + row, a + row), (row - x, row - a), (a @ y.T, a @ b.T), (-x, -a), (abs(-x), a), (x.T, a.T),
    ]  # fmt: skip
    for number, (got, want) in enumerate(pairs):
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-6, err_msg=str(number))
    x += y
    x *= 2
    x -= row
    x /= y
    np.testing.assert_allclose(x.numpy(), ((a + b) * 2 - row) / b, rtol=2e-6)
    assert mt.sum(y).item() == pytest.approx(float(b.sum()), rel=1e-6)
    half = mt.tensor(a.astype(np.float16))
    assert (half + 1).dtype == np.float16
    with pytest.raises(errors.ArgumentError, match="f16.*f32"):
        half + y


def test_functions(context: mt.Context, rng: np.random.Generator) -> None:
    a = rng.standard_normal((3, 4)).astype(np.float32)
    x = mt.tensor(a)
    np.testing.assert_allclose(mt.max(x, [1]).numpy(), a.max(1))
    np.testing.assert_array_equal(mt.argmax(x, axis=0).numpy(), a.argmax(0))
    np.testing.assert_allclose(mt.einsum("ij,kj->ik", x, a).numpy(), np.einsum("ij,kj->ik", a, a), rtol=1e-5)
    np.testing.assert_array_equal(mt.concat([x, a], axis=0).numpy(), np.concatenate([a, a]))
    left, right = mt.split(x, axis=1, sizes=[1, 3])
    np.testing.assert_array_equal(right.numpy(), a[:, 1:])
    np.testing.assert_array_equal(left.numpy(), a[:, :1])
    values, index = mt.topk(x, k=2)
    np.testing.assert_array_equal(values.numpy(), -np.sort(-a, 1)[:, :2])
    np.testing.assert_array_equal(index.numpy(), np.argsort(-a, 1)[:, :2])
    np.testing.assert_array_equal(mt.permute(x, np.array([1, 0])).numpy(), a.T)
    maps = mt.tensor(rng.standard_normal((1, 2, 5, 5)))
    assert mt.conv2d(maps, np.ones((3, 2, 3, 3), np.float32), padding=1).shape == (1, 3, 5, 5)
    dropped, mask = mt.dropout(x, p=0.5, seed=3)
    np.testing.assert_array_equal(dropped.numpy(), a * mask.numpy())
    assert len(mt.chunk(mt.tensor(np.zeros(100)), axis=0, n=100)) == 100
    assert len(mt.split(mt.tensor(np.zeros(9)), axis=0, sizes=[1] * 9)) == 9
    with pytest.raises(errors.ShapeError, match="chunks"):
        mt.chunk(x, axis=0, n=2**40)


def test_xor(context: mt.Context) -> None:
    """Two layers learn the exclusive or; nothing is left behind."""
    x = mt.tensor(np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32))
    y = mt.tensor(np.array([[0], [1], [1], [0]], np.float32))
    rng = np.random.default_rng(2)
    shapes = [(8, 2), (8,), (1, 8), (1,)]
    weights = [mt.tensor(rng.uniform(-1, 1, s).astype(np.float32)) for s in shapes]
    moments = [(context.zeros(s), context.zeros(s)) for s in shapes]
    gradients = [context.zeros(s) for s in shapes]
    w1, b1, w2, b2 = weights
    g1, c1, g2, c2 = gradients
    live = context.stats().live_tensors
    for step in range(1, 301):
        h = mt.linear(x, w1, b1, activation="tanh")
        p = mt.linear(h, w2, b2, activation="sigmoid")
        g = mt.mse_grad(p, y, scale=0.5)
        gh = mt.linear_backward(g, p, h, w2, g2, c2, activation="sigmoid")
        mt.linear_backward(gh, h, x, w1, g1, c1, activation="tanh")
        for w, gw, (m, v) in zip(weights, gradients, moments):
            mt.adam_step(w, gw, m, v, lr=0.05, step=step)
            mt.zero_(gw)
    np.testing.assert_allclose(p.numpy(), y.numpy(), atol=0.1)
    del h, p, g, gh
    gc.collect()
    stats = context.stats()
    assert stats.live_tensors == live
    assert stats.programs < 20 and stats.cache_hits > 2000 and stats.backend == "cpu"


def test_digits_confusion(context: mt.Context) -> None:
    scores = mt.tensor(np.array([[1, 3, 2], [5, 1, 0], [0, 0, 9]], np.float32))
    matrix = context.zeros((3, 3), np.int32)
    mt.update_confusion_matrix(scores, mt.tensor([1, 2, 2]), matrix)
    np.testing.assert_array_equal(matrix.numpy(), [[0, 0, 0], [0, 1, 0], [1, 0, 1]])
    assert mt.cast(matrix, to="f32").dtype == np.float32


def test_memory() -> None:
    def counts() -> tuple[int, int]:
        out = structs.struct(structs.Stats)
        calls.call("mast3r_live", ctypes.byref(out))
        return int(out.tensors), int(out.engines)

    gc.collect()
    before = counts()
    with mt.Context("cpu") as context:
        for _ in range(300):
            x = mt.tensor(np.ones((16, 16), np.float32))
            ((x @ x) + 1).numpy()
        x.release()
        x.release()
        assert not x.is_valid and "released" in repr(x)
        with pytest.raises(errors.ClosedError):
            x.numpy()
        with pytest.raises(errors.ClosedError):
            mt.exp(x)
        assert context.stats().live_tensors < 5
        with mt.tensor([1.0]) as one:
            kept = one + 1
        assert not one.is_valid
        context.commit()
        context.sync()
        context.cleanup()
        assert context.stats().pool_buffers == 0
    assert kept.item() == 2
    for use in (context.stats, context.sync, lambda: context.tensor([1.0])):
        with pytest.raises(errors.ClosedError):
            use()
    with pytest.raises(errors.ClosedError):
        kept + 1
    context.close()
    del x, kept, use
    gc.collect()
    assert counts() == before


def test_contexts(rng: np.random.Generator) -> None:
    with mt.Context("cpu") as outer:
        x = mt.tensor([1.0])
        with mt.Context("cpu", batch_size=3, cache_size=2, pool_per_size=4) as inner:
            y = mt.tensor([1.0])
            assert y.context is inner and x.context is outer
            assert (x + np.array([1.0], np.float32)).context is outer
            with pytest.raises(errors.ArgumentError, match="another context"):
                x + y
            for _ in range(4):
                mt.exp(y), mt.sin(y), mt.cos(y)
            assert inner.stats().programs == 2
        assert mt.tensor([1.0]).context is outer
    assert mt.tensor([2.0]).item() == 2  # the context of all who opened none
    assert mt.tensor([2.0]).context is mt.tensor([3.0]).context
    for bad in ({"backend": "tpu"}, {"batch_size": -1}, {"pool_per_size": -1}, {"threads": 2**40}):
        with pytest.raises(errors.ArgumentError):
            mt.Context(**bad)


def test_errors(context: mt.Context) -> None:
    x, y = mt.tensor(np.ones((2, 3))), mt.tensor(np.ones((4, 5)))
    with pytest.raises(errors.ShapeError, match=r"\[2,3\].*\[4,5\]"):
        x @ y
    with pytest.raises(errors.ShapeError, match=r"\[2,3\].*\[4,5\]"):
        x + y
    with pytest.raises(errors.ArgumentError, match="swish"):
        mt.linear(x, x, activation="swish")
    with pytest.raises(errors.ArgumentError, match="sinh"):
        mt.apply("sinh", (x,), {})
    with pytest.raises(errors.ArgumentError, match="axes"):
        mt.apply("softmax", (x,), {"axes": 1})
    with pytest.raises(errors.ArgumentError, match="finite"):
        mt.mul_scalar(x, float("nan"))
    with pytest.raises(errors.ArgumentError, match="whole"):
        mt.reshape(x, [1.5, 2])  # type: ignore[list-item]
    with pytest.raises(errors.ArgumentError, match="2\\^53"):
        context.zeros((2**70,))
    with pytest.raises(errors.ShapeError):
        context.zeros((2**40, 2**40))
    with pytest.raises(errors.ShapeError, match="9 dimensions"):
        mt.reshape(x, [1] * 8 + [6])
    with pytest.raises(errors.ArgumentError, match="index 7"):
        mt.embedding(x, mt.tensor([7]))
    with pytest.raises(errors.ArgumentError, match="mast3r_tensor_copy"):
        pointer = ctypes.c_void_p()
        calls.call("mast3r_tensor_data", x._handle, ctypes.byref(pointer))
    with pytest.raises(errors.ShapeError, match="one element"):
        x.item()


def test_pool_settings_and_books() -> None:
    """The names are those of Go, C and C++; limits hold at opening and later."""
    with mt.Context("cpu", threads=1, pool_per_size=4, pool_limit_bytes=1 << 20) as context:
        stats = context.pool.stats()
        assert (stats.per_size, stats.limit_bytes, stats.allocations) == (4, 1 << 20, 0)
        for x in [context.zeros((25,)) for _ in range(6)]:
            assert context.pool.stats().overhead_bytes >= 28  # 100 bytes in a buffer of 128
            x.release()
        stats = context.pool.stats()
        assert (stats.allocations, stats.evictions, stats.pooled_buffers) == (6, 2, 4)
        assert stats.pooled_bytes == 4 * 128 and stats.peak_bytes == 6 * 128
        assert stats.in_use_buffers == stats.in_use_bytes == stats.overhead_bytes == 0
        context.zeros((25,)).release()
        assert context.pool.stats().reuse_rate == 1 / 7
        assert context.pool.memory_pressure() == 2
        context.pool.configure(per_size=1)
        assert context.pool.stats().pooled_buffers == 1
        assert context.pool.stats().limit_bytes == 1 << 20
        assert context.pool.memory_pressure(critical=True) == 1
        context.cleanup()
        stats = context.pool.stats()
        assert stats.allocations == stats.reuses == stats.evictions == stats.peak_bytes == 0
        for bad in (-1, 2**31, 0.5):
            with pytest.raises(errors.ArgumentError):
                context.pool.configure(per_size=bad)  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="batches of 21"):
        mt.Context("cpu", batch_size=21, pool_per_size=20)


def test_kernel_of_two_sizes(context: mt.Context, rng: np.random.Generator) -> None:
    x = rng.random((1, 1, 4, 5)).astype(np.float32)
    columns = mt.im2col(x, kernel=(2, 3))
    assert columns.shape == (1, 6, 9)
    np.testing.assert_array_equal(columns.numpy()[0, :, 4], x[0, 0, 1:3, 1:4].ravel())
    with pytest.raises(errors.ArgumentError, match="kernel"):
        mt.im2col(x, kernel=(2, 3, 4))


def test_affine_of_tensors(context: mt.Context, rng: np.random.Generator) -> None:
    x, scale, shift = rng.random((3, 2, 4)).astype(np.float32)
    before = context.stats().operations
    np.testing.assert_allclose(mt.mul_add(x, scale, shift).numpy(), x * scale + shift, rtol=1e-6)
    assert context.stats().operations == before + 1
    with pytest.raises(errors.ArgumentError, match="not a tensor"):
        mt.affine(x, mt.tensor(scale), 0.0)  # type: ignore[arg-type]
    y = mt.tensor(x)
    mt.copy_(y, scale)
    np.testing.assert_array_equal(y.numpy(), scale)


def test_pool_of_an_engine() -> None:
    """The same books for an engine's memory."""
    with m3r.backends._cpu.CPUEngine("mast3r_tiny") as engine:
        engine.load()
        picture = np.zeros((48, 64, 3), np.uint8)
        result = engine.infer_gpu(picture, picture)
        stats = engine.pool.stats()
        assert stats.peak_bytes >= stats.in_use_bytes > result.pts3d_1.numpy().nbytes
        assert stats.allocations > 0 and stats.per_size > 0
        engine.pool.configure(per_size=3)
        assert engine.pool.stats().per_size == 3
        engine.pool.memory_pressure(critical=True)
        assert engine.pool.stats().pooled_bytes == 0


def test_command_buffers() -> None:
    """What is run between begin and commit is handed over together and waited for alone."""
    with mt.Context("cpu") as context:
        x = mt.tensor(np.full((2, 3), 3, np.float32))
        with context.begin() as commands:
            with pytest.raises(errors.ArgumentError, match="open"):
                context.begin()
            with pytest.raises(errors.ArgumentError, match="not committed"):
                commands.wait()
            y = x + x
        commands.wait()
        commands.wait()
        with pytest.raises(errors.ArgumentError, match="before"):
            commands.commit()
        assert y.numpy().tolist() == [[6.0] * 3] * 2
        forgotten = context.begin()
        del forgotten  # commits, so that the next can begin
        context.begin().commit()
    with pytest.raises(errors.ClosedError):
        context.begin()


def test_empty_is_memory_of_the_pool() -> None:
    with mt.Context("cpu") as context:
        before = context.pool.stats()
        x = context.empty((4, 5))
        assert context.pool.stats().in_use_buffers == before.in_use_buffers + 1
        mt.copy_(x, np.full((4, 5), 7, np.float32))
        assert (x.numpy() == 7).all()
        x.release()
        assert context.empty((4, 5), np.float32).shape == (4, 5)
        assert context.pool.stats().reuses == before.reuses + 1
        with pytest.raises(errors.ArgumentError, match="int64"):
            context.empty((2,), np.int64)


def test_a_forgotten_tensor_is_given_back_without_python_code(context: mt.Context) -> None:
    """Python code in a finalizer is where a Ctrl-C of that moment is printed and lost."""
    x = context.tensor(np.ones(3, np.float32))
    gc.collect()
    before, ran = context.stats().live_tensors, list[str]()
    gc.disable()
    sys.setprofile(
        lambda frame, event, argument: ran.append(frame.f_code.co_name) if event == "call" else None
    )
    try:
        del x
    finally:
        sys.setprofile(None)
        gc.enable()
    assert not ran
    assert context.stats().live_tensors == before - 1


def test_a_released_tensor_still_says_what_it_was(context: mt.Context) -> None:
    x = context.tensor(np.ones((3, 2), np.float16))
    y = x + x  # nobody has asked for its shape
    for tensor in (x, y):
        tensor.release()
        tensor.release()
        assert (tensor.shape, tensor.dtype, tensor.is_valid) == ((3, 2), np.dtype(np.float16), False)
        with pytest.raises(errors.ClosedError):
            tensor.numpy()


@pytest.mark.parametrize(
    "number",
    [2.0, 3, -0.0, True, 1e-45, 2e38, 1e300, 0.1, 1e-4, float("nan"), float("-inf"), np.float64(1.1)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_numbers_beside_tensors(number: float, dtype: type, shape: tuple[int, ...]) -> None:
    """A number takes the tensor's type, rounded as NumPy rounds it."""
    x = np.full(shape, 1.5, dtype)
    with np.errstate(over="ignore"):
        n = np.full(shape, number).astype(dtype)
        wanted = (x * n, n - x, x + n)
    t = mt.tensor(x)
    for got, want in zip((t * number, number - t, mt.add(t, number)), wanted):
        assert got.dtype == dtype
        assert got.shape == shape
        assert np.asarray(got).tobytes() == np.asarray(want).tobytes() or np.isnan(want).all()


def test_numbers_without_tensors(context: mt.Context) -> None:
    """Numbers alone, beside arrays, and where an operand is left out, are arrays of no dimension."""
    assert mt.add(1.5, 2.0).numpy() == 3.5  # type: ignore[arg-type]
    np.testing.assert_array_equal(mt.add(np.ones(2, np.float32), 2.0).numpy(), [3, 3])  # type: ignore[arg-type]
    x = context.tensor(np.ones((2, 2), np.float32))
    with pytest.raises(errors.ShapeError):
        mt.linear(x, 2.0, None)  # type: ignore[arg-type]
    for bad in (lambda: x * 10**400, lambda: 10**5000 - x, lambda: context.tensor([1, 2]) * 2):
        with pytest.raises(errors.ArgumentError):
            bad()
    x *= 2
    x -= 0.5
    np.testing.assert_array_equal(x.numpy(), np.full((2, 2), 1.5))


def test_attributes_of_any_kind(context: mt.Context) -> None:
    """Numbers of Python and NumPy, signs of zeros, sequences; each call has its own."""
    x = context.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    for axis in (1, np.int32(1), np.int64(-1), True):
        assert mt.argmax(x, axis).numpy().tolist() == [2, 2]
    for axes in ((0,), [0], np.array([0]), range(1)):
        assert mt.sum(x, axes).numpy().tolist() == [3, 5, 7]  # type: ignore[arg-type]
    for zero in (0.0, -0.0, np.float32(-0.0), 0):
        want = np.float32(-0.0) + np.float32(zero)
        got = mt.affine(context.tensor(np.full(1, -0.0, np.float32)), 1, zero).numpy()
        assert np.signbit(got[0]) == np.signbit(want)
    for value in (float("inf"), np.float32("nan")):
        with pytest.raises(errors.ArgumentError, match="finite"):
            mt.mul_scalar(x, value)  # type: ignore[arg-type]
    for wrong in (1.5, 2**53 + 1, x, "1", None):
        with pytest.raises(errors.ArgumentError):
            mt.softmax(x, wrong)  # type: ignore[arg-type]
    for shape in ((1.0, 6), (2**60, 1), "6"):
        with pytest.raises(errors.ArgumentError):
            mt.reshape(x, shape)  # type: ignore[arg-type]
    assert len(mt.chunk(x, 1, 3)) == 3
    # The same operation with attributes, without, and with others again.
    assert mt.apply("softmax", (x,), {"axis": 0})[0].numpy().sum() == pytest.approx(3)
    assert mt.apply("softmax", (x,), {})[0].numpy().sum() == pytest.approx(2)
    assert mt.apply("softmax", (x,), {"axis": 0})[0].numpy().sum() == pytest.approx(3)


def test_an_operation_is_two_calls(context: mt.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the library: one that runs it, one when its result is forgotten, a third of a microsecond each."""
    library, made = calls.library(), list[str]()

    class Counting:
        def __getattr__(self, name: str) -> Callable[..., object]:
            def call(*arguments: object) -> object:
                made.append(name)
                return getattr(library, name)(*arguments)

            return call

    x = context.tensor(np.ones((2, 3), np.float32))
    monkeypatch.setattr(calls, "_library", Counting())
    monkeypatch.setattr(operation, "_idle", {})
    for run in (
        lambda: x + x,
        lambda: x * 2.0,
        lambda: 1 - x,
        lambda: mt.softmax(x),
        lambda: mt.reshape(x, (3, 2)),
        lambda: x @ x.T,
    ):
        y = run()
        del y
        assert made.count("mast3r_tensor_apply") == len(made) - made.count("mast3r_tensor_release")
        assert made.count("mast3r_tensor_apply") == made.count("mast3r_tensor_release") <= 2
        made.clear()
