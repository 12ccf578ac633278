# SPDX-License-Identifier: Apache-2.0
"""Does this installation compute what it should? The checks behind ``mast3r selfcheck``.

The network with synthetic weights (see :mod:`.synthetic`) on a small pair, against outputs
of the published PyTorch reference for exactly those weights and pictures; then matching,
preprocessing and the promises that need no reference.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._checkpoints import places
from .._engine import reports
from .._engine.engine import Engine
from .._library.device import available
from .._pictures.arrays import U8
from .._pictures.reading import read_image
from .._results.results import InferenceResult
from ..errors import Mast3rError
from . import synthetic

__all__ = ["Check", "metal_possible", "run", "run_cuda", "run_metal"]

_DATA = Path(__file__).parents[1] / "selfcheck"
# Relative L2 error. float32: twenty times what the reference itself is away from float64, at
# most 2.5e-5 on these tensors. Half precision: as for a converted checkpoint.
_LIMITS = {"fp32": 2.5e-5, "fp16": 3e-2, "bf16": 1e-1}
# On a GPU: the limits of the comparison that every engine makes before it uses one.
_METAL_LIMITS = {"fp32": 2e-3, "fp16": 3e-2, "bf16": 4e-2}
# On an NVIDIA GPU every precision is looked at.
_CUDA_LIMITS = {"fp32": 2.5e-5, "tf32": 2e-3, "fp16": 3e-2, "bf16": 4e-2}
_UNKNOWN = {"build": "", "sdk": "unknown", "family": 0}
_FIELDS = tuple(f"{name}_{view}" for view in (1, 2) for name in ("pts3d", "conf", "desc", "desc_conf"))


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


def run(backend: str = "auto") -> Iterator[Check]:
    """Yield the checks one by one; an error of ours is a failed check, not an exception.

    What needs no GPU runs here, on the CPU. What uses the GPU runs in a process of its own:
    Apple's frameworks end a process when they dislike something, and that is worth telling.
    """
    if backend.startswith("cuda") or (backend == "auto" and not available("cuda")):
        name = "cuda" if backend == "auto" else backend
        yield from _process("cuda", ["--only-cuda", "--backend", name])
    elif backend != "cpu":
        yield from _child(backend == "metal")
    yield from _steps("cpu", "", _LIMITS)


def run_metal(required: bool) -> Iterator[Check]:
    """What uses the GPU. Not ``required``: a machine without one is in order."""
    try:
        report = reports.check_metal()
    except Mast3rError as error:
        yield Check("metal", False, str(error))
        return
    yield from _metal(report)
    if report["metal"]:
        yield from _steps("metal", "metal ", _METAL_LIMITS)
    elif required:
        yield Check("metal", False, report["reason"])


def run_cuda(backend: str) -> Iterator[Check]:
    """What uses an NVIDIA GPU: every precision against the reference, then what every backend must do."""
    pair = [read_image(_DATA / f"view_{i}.png") for i in (1, 2)]
    try:
        with tempfile.TemporaryDirectory(prefix="mast3r-selfcheck-") as folder:
            model = Path(folder) / "unified.safetensors"
            synthetic.write(model)
            for precision in _CUDA_LIMITS:
                for check in _reference(backend, model, pair, _CUDA_LIMITS, precision):
                    yield replace(check, name=f"cuda {precision} {check.name}")
    except Mast3rError as error:
        yield Check("cuda", False, str(error))
        return
    yield from _steps(backend, "cuda ", _CUDA_LIMITS)


def metal_possible() -> bool:
    """Whether this system has Metal, or stands in for one that has."""
    return sys.platform == "darwin" or bool(os.environ.get("MAST3R_OBJC_SIM"))


def _child(required: bool) -> Iterator[Check]:
    if not metal_possible():
        if required:
            yield Check("metal", False, f"there is no Metal on {sys.platform}")
        return
    yield from _process("metal", ["--only-metal", "--backend", "metal" if required else "auto"])


def _process(name: str, arguments: list[str]) -> Iterator[Check]:
    """The checks of a process of its own, which the GPU's software may end."""
    command = [sys.executable, "-m", "mast3r_runtime", "selfcheck", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stderr.write(done.stderr)
    for line in done.stdout.splitlines():
        try:
            yield Check(**json.loads(line))
        except (ValueError, TypeError):
            continue  # a line of the GPU's software
    if done.returncode not in (0, 1):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[0]
        yield Check(f"{name} process", False, f"ended by {_how(done.returncode)}: {last}")


def _how(status: int) -> str:
    if status < 0:
        try:
            return signal.Signals(-status).name
        except ValueError:
            return f"signal {-status}"
    return f"exit status {status}"


def _steps(backend: str, prefix: str, limits: dict[str, float]) -> Iterator[Check]:
    pair = [read_image(_DATA / f"view_{i}.png") for i in (1, 2)]
    with tempfile.TemporaryDirectory(prefix="mast3r-selfcheck-") as folder:
        model = Path(folder) / "unified.safetensors"
        synthetic.write(model)
        steps: list[Callable[[], Iterator[Check]]] = [
            lambda: _reference(backend, model, pair, limits),
            lambda: _threads(backend, model, pair),
            lambda: _preprocessing(backend, model, pair),
            lambda: _views(backend, Path(folder) / "views.safetensors", pair, limits),
            lambda: _matching(backend),
            lambda: _bundled(backend, pair),
        ]
        for step in steps:
            try:
                for check in step():
                    yield replace(check, name=prefix + check.name)
            except Mast3rError as error:
                yield Check(prefix + type(error).__name__, False, str(error))


def _metal(report: dict[str, Any]) -> Iterator[Check]:
    """On a Mac: the methods that are sent, the GPU's operations, and a small network."""
    agreeing: dict[str, int] = {}  # operations, by precision: one line says it for all
    for check in report["checks"]:
        precision, _, operation = check["name"].partition(" ")
        if operation and operation != "network" and check["ok"]:
            agreeing[precision] = agreeing.get(precision, 0) + 1
        else:
            yield Check(f"metal {check['name']}", check["ok"], check["detail"])
    for precision, count in agreeing.items():
        yield Check(f"metal {precision} operations", True, f"{count} agree with the CPU")
    if report["metal"]:
        with Engine("auto", 0, "auto", 0) as engine:
            reason = engine.info()["fallback_reason"]
            where = "{device}, {os} {build}, SDK {sdk}, family {family}".format(**{**_UNKNOWN, **report})
            yield Check("metal is used", not reason, reason or where)


def _open(
    backend: str, model: Path | None, resolution: int = 96, threads: int = 0, precision: str = "auto"
) -> Engine:
    engine = Engine("auto", resolution, precision, threads, backend)
    try:
        engine.load(model)
    except BaseException:
        engine.close()
        raise
    return engine


def _infer(engine: Engine, pair: list[U8], preprocess: bool = False) -> InferenceResult:
    return engine.infer_gpu(pair[0], pair[1], preprocess=preprocess).numpy()


def _reference(
    backend: str, model: Path, pair: list[U8], limits: dict[str, float], precision: str = "auto"
) -> Iterator[Check]:
    """Every output against the reference's, at every third pixel."""
    with _open(backend, model, precision=precision) as engine, np.load(_DATA / "landscape.npz") as golden:
        limit = limits[engine.info()["precision"]]
        result = _infer(engine, pair)
        for field in _FIELDS:
            got, want = getattr(result, field)[::3, ::3], golden[field]
            if got.shape != want.shape:
                yield Check(f"reference {field}", False, f"shape {got.shape}, want {want.shape}")
                continue
            error = float(np.linalg.norm(got - want) / np.linalg.norm(want))
            yield Check(f"reference {field}", error <= limit, f"relative L2 {error:.1e} (limit {limit:.1e})")


def _views(backend: str, model: Path, pair: list[U8], limits: dict[str, float]) -> Iterator[Check]:
    """A network of many views on cuts of the same pictures, against outputs that
    ``benchmarks/views.py`` computed with its PyTorch definition of that network."""
    with np.load(_DATA / "views.npz", allow_pickle=False) as golden:
        want = {name: golden[name] for name in ("depth", "conf", "pose")}
        shapes = json.loads(str(golden["tensors"]))
    synthetic.write_views(model, {name: tuple(shape) for name, shape in shapes.items()})
    cuts = [np.ascontiguousarray(image[:56, :84]) for image in pair]
    with _open(backend, model) as engine:
        limit = limits[engine.info()["precision"]]
        pictures = list(engine.infer_views(cuts, preprocess=False).pictures.values())
    depths = [p.depth for p in pictures if p.depth is not None]
    got = {
        "depth": np.stack([d.depth[::3, ::3] for d in depths]),
        "conf": np.stack([d.confidence[::3, ::3] for d in depths]),
        "pose": np.stack([p.pose for p in pictures if p.pose is not None]),
    }
    for name, values in got.items():
        error = float(np.linalg.norm(values - want[name]) / np.linalg.norm(want[name]))
        yield Check(f"many views {name}", error <= limit, f"relative L2 {error:.1e} (limit {limit:.1e})")


def _threads(backend: str, model: Path, pair: list[U8]) -> Iterator[Check]:
    """The same numbers whatever the number of threads, and an earlier result stays as it was."""
    with _open(backend, model, threads=1) as one, _open(backend, model, threads=2) as two:
        first = _infer(one, pair)
        kept = {field: getattr(first, field).copy() for field in _FIELDS}
        other = _infer(two, pair)
        same = all(np.array_equal(kept[f], getattr(other, f)) for f in _FIELDS)
        yield Check("1 and 2 threads", same, "bit for bit" if same else "results differ")
        _infer(one, pair[::-1])
        same = all(np.array_equal(kept[f], getattr(first, f)) for f in _FIELDS)
        yield Check(
            "results stay", same, "a later call changed nothing" if same else "a later call changed it"
        )


def _preprocessing(backend: str, model: Path, pair: list[U8]) -> Iterator[Check]:
    """Pictures that have the network's size already go through unchanged."""
    with _open(backend, model, resolution=pair[0].shape[1]) as engine:
        raw, whole = _infer(engine, pair), _infer(engine, pair, preprocess=True)
    same = all(np.array_equal(getattr(raw, f), getattr(whole, f)) for f in _FIELDS)
    yield Check("preprocessing", same, "identity at the network's size" if same else "changed the picture")


def _matching(backend: str) -> Iterator[Check]:
    """A shuffled map: every pixel finds its own again."""
    rng = np.random.default_rng(1)
    desc = rng.standard_normal((24, 32, 24)).astype(np.float32)
    desc /= np.linalg.norm(desc, axis=2, keepdims=True)
    order = rng.permutation(24 * 32)
    shuffled = desc.reshape(-1, 24)[order].reshape(24, 32, 24)
    with Engine("auto", 0, "auto", 0, backend) as engine:
        matches = engine.match(desc, shuffled, top_k=None, confidence_threshold=0.0)
    found = np.full(order.size, -1)
    found[matches.idx_1] = matches.idx_2
    right = int((order[found] == np.arange(order.size)).sum()) if (found >= 0).all() else 0
    yield Check("matching", right == order.size, f"{right} of {order.size} planted matches found")


def _bundled(backend: str, pair: list[U8]) -> Iterator[Check]:
    """The model in the wheel loads and gives finite numbers."""
    with _open(backend, places.bundled_model()) as engine:
        result = _infer(engine, pair)
        finite = all(np.isfinite(getattr(result, f)).all() for f in _FIELDS)
        unit = float(np.abs(np.linalg.norm(result.desc_1, axis=2) - 1).max())
        yield Check(
            "model in the wheel",
            finite and unit < 1e-3,
            f"{engine.name()}: " + ("finite points, unit descriptors" if finite else "not finite"),
        )
