# SPDX-License-Identifier: Apache-2.0
"""What the library reports as JSON: the check of the GPU, profiles, costs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .._checkpoints import places
from .._library import calls
from .._library import structs as S
from .._library.options import Only, image_array, infer_options, outputs
from .._pictures.reading import ImageLike, read_image
from ..errors import ArgumentError, checked
from .engine import Engine

__all__ = ["check_metal", "estimate_cost", "estimate_memory", "profile"]


def _report(job: calls.Job) -> dict[str, Any]:
    job.wait()
    text = calls.text_of(lambda *out: calls.call("mast3r_job_report", job._handle, *out))
    report: dict[str, Any] = json.loads(text)
    return report


@checked
def check_metal() -> dict[str, Any]:
    """Compare this machine's Metal with what the engine believes of it.

    Returns
    -------
    dict
        ``metal``, whether there is a GPU to check, else ``reason``; ``device`` and ``os``;
        ``checks``, a list of ``name``, ``ok`` and ``detail``: every Objective-C method that
        is sent, then operations and a small network against the CPU.
    """
    with calls.Job("mast3r_submit_selfcheck") as job:
        return _report(job)


def _in_the_wheel(
    model: str | os.PathLike[str] | None, variant: str | None
) -> tuple[str | os.PathLike[str] | None, str | None]:
    """A model in the wheel by its file; what else is asked for as it is."""
    name = "auto" if variant is None or str(variant) == "auto" else places.resolve(variant)
    if model is None and name in ("auto", *places.BUNDLED):
        return places.find(name), None
    if model is not None and not Path(model).exists():
        try:
            return _in_the_wheel(None, places.resolve(model))
        except ArgumentError:
            places.model_path(model)  # says that it is neither
    return model, None if name == "auto" else name


@checked
def estimate_cost(
    model: str | os.PathLike[str] | None = None,
    variant: str | None = None,
    size: tuple[int, int] | None = None,
    size_2: tuple[int, int] | None = None,
    precision: str = "fp16",
    tflops: float = 0.0,
    gb_per_s: float = 0.0,
) -> dict[str, Any]:
    """Count the work of one pair from the shapes. Nothing is run, no GPU is needed.

    Parameters
    ----------
    model, variant
        A model file or folder, or the name of a published model, whose weights need not be
        there. Neither: the model in the wheel.
    size, size_2
        Height and width at network size. None: the model's own at 4:3; the first's.
    precision : {"fp16", "fp32"}
        Of weights and activations.
    tflops, gb_per_s
        What the machine can do; 0: an M4 Pro.

    Returns
    -------
    dict
        ``graphs``, ``ops`` and ``total`` with dispatches, transposes, FLOPs, bytes and
        predicted milliseconds.
    """
    (height1, width1), (height2, width2) = size or (0, 0), size_2 or (0, 0)
    model, variant = _in_the_wheel(model, variant)
    options = S.struct(
        S.CostOptions,
        height1=calls.int32("height", height1),
        width1=calls.int32("width", width1),
        height2=calls.int32("height_2", height2),
        width2=calls.int32("width_2", width2),
        model=None if model is None else calls.text("model", model),
        variant=None if variant is None else calls.text("variant", variant),
        precision=calls.text("precision", precision),
        tflops=float(tflops),
        gb_per_s=float(gb_per_s),
    )
    with calls.Job("mast3r_submit_cost", options, keep=options) as job:
        return _report(job)


@checked
def estimate_memory(
    model: str | os.PathLike[str] | None = None,
    variant: str | None = None,
    size: tuple[int, int] | None = None,
    size_2: tuple[int, int] | None = None,
    pictures: int = 2,
    symmetric: bool = False,
    backend: str = "cpu",
    precision: str = "auto",
    num_threads: int = 0,
    only: Only = None,
    batch: int = 0,
) -> dict[str, Any]:
    """Say what a call needs at its peak, the loaded model included. Nothing is run or allocated.

    A call on the CPU that does not fit into what is left raises
    :class:`~mast3r_runtime.errors.MemoryLimitError` before anything is allocated for it.

    Parameters
    ----------
    model, variant
        A model file or folder, or the name of a published model, whose weights need not be
        there. Neither: the model in the wheel.
    size, size_2
        Height and width at network size. None: the model's own at 4:3; the first's.
    pictures
        Of one call: 2 is ``infer_gpu``, more are ``infer_batch_pipelined``, whose results are
        all in memory at its end.
    symmetric
        For ``infer_symmetric``.
    backend : {"cpu", "metal", "cuda"}
        On the CPU the peak of the process was measured between 77 % and 100 % of ``total``.
        On a GPU the figures are counted from the shapes and were not measured.
    precision, num_threads
        As for :class:`Engine`.
    only
        The outputs to compute, as for ``infer_gpu``. None: all.
    batch
        Pairs of one ``infer_batch``, whose results are all in memory at its end; small ones are
        computed side by side, one a thread. 0: another call.

    Returns
    -------
    dict
        In bytes: ``weights``; ``activations``, ``buffers`` and ``results``; ``runtime``, what a
        process with an engine has besides; their sum ``total``; ``free``, what this process
        may still use (0: not known), and ``limit``, what sets that: the machine, a control
        group, the address space. Also the sizes and names that were estimated.

    Raises
    ------
    ArgumentError, ShapeError, ModelNotFoundError, WeightsError
    """
    (height1, width1), (height2, width2) = size or (0, 0), size_2 or (0, 0)
    model, variant = _in_the_wheel(model, variant)
    options = S.struct(
        S.MemoryOptions,
        height1=calls.int32("height", height1),
        width1=calls.int32("width", width1),
        height2=calls.int32("height_2", height2),
        width2=calls.int32("width_2", width2),
        pictures=calls.int32("pictures", pictures, 2),
        symmetric=int(bool(symmetric)),
        threads=calls.int32("num_threads", num_threads, 0),
        only=outputs(only),
        batch=calls.int32("batch", batch, 0),
        model=None if model is None else calls.text("model", model),
        variant=None if variant is None else calls.text("variant", variant),
        backend=calls.text("backend", backend),
        precision=calls.text("precision", precision),
    )
    with calls.Job("mast3r_submit_memory", options, keep=options) as job:
        return _report(job)


@checked
def profile(
    engine: Engine,
    image_1: ImageLike,
    image_2: ImageLike,
    iterations: int = 5,
    wait: bool = False,
    preprocess: bool = True,
) -> dict[str, Any]:
    """Infer a pair several times and report where the time goes.

    ``wait`` submits each stage alone and waits for it, which gives each a time of its own on
    a GPU, whose clock counts command buffers only.

    Returns
    -------
    dict
        ``wall_ms``, ``device_ms``, ``stages`` and ``ops``; ``measured`` and ``ops_measured``
        say which of those times are measured and which are shares by cost.
    """
    handle = engine._live()
    pictures = [read_image(image_1), read_image(image_2)]
    structs = image_array(pictures)
    options = infer_options(preprocess, True, None, None)
    arguments = (structs[0], structs[1], options)
    count, keep = calls.int32("iterations", iterations, 1), (pictures, structs, options)
    with calls.Job("mast3r_submit_profile", handle, *arguments, count, int(bool(wait)), keep=keep) as job:
        return _report(job)
