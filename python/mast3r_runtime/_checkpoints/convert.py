# SPDX-License-Identifier: Apache-2.0
"""Conversion of model files to safetensors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._files.single import not_an_input
from .._library import calls
from ..errors import ArgumentError, ModelNotFoundError, checked, quoted
from . import places
from .specs import MODEL_SPECS

__all__ = ["DTYPES", "convert", "targets"]

DTYPES = ("fp32", "fp16", "bf16", "keep")

ROLES = ("unified", "encoder", "decoder", "retrieval", "codebook")  # names of files in a folder

Progress = bool | Callable[[int, int], None]


@checked
def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    dtype: str = "fp16",
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Progress = True,
) -> list[Path]:
    """Write a model as safetensors that load without a copy.

    PyTorch is not needed, and no code in the file is run: of a pickle, names, shapes and
    numbers are read, and anything else is refused. The conversion streams, in some tens of
    megabytes of memory. Retrieval's whitening and codebook keep their precision.

    Parameters
    ----------
    source : str or path
        A ``.pth``, ``.safetensors`` or ``.pkl`` file, a folder with a model, or the name of a
        variant whose official files are in the cache.
    target : path, optional
        A file, or a folder, where files get the names that ``load`` looks for. When left
        out: the name of a source file with the suffix ``.safetensors``, a source folder
        itself, or the variant's place in the cache.
    dtype : {"fp32", "fp16", "bf16", "keep"}
        What the weights are rounded to.
    cache_dir : path, optional
        The cache that a variant's name refers to.
    progress : bool or callable
        A bar on stderr if that is a terminal; or ``progress(done, total)`` in bytes.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    WeightsError
        A file that is no model, or holds what is refused, or a number ``dtype`` cannot hold.
    ModelNotFoundError, FileError
        No such file; a file that cannot be written.
    """
    if dtype not in DTYPES:
        raise ArgumentError(f"dtype {dtype!r}, want one of {', '.join(DTYPES)}")
    sources, out = _places(source, target, cache_dir)
    for path in _candidates(out):
        not_an_input(path, sources)
    written = []
    for path in sources:
        written += _one(path, out, dtype, progress)
    return written


def targets(
    source: str | os.PathLike[str], target: str | os.PathLike[str] | None, cache_dir: Any
) -> tuple[list[Path], list[Path]]:
    """The files that are read, and those that may be written."""
    sources, out = _places(source, target, cache_dir)
    return sources, _candidates(out)


def _candidates(out: Path) -> list[Path]:
    if out.suffix == ".safetensors" and not out.is_dir():
        return [out]
    return [out / f"{role}.safetensors" for role in ROLES]


def _places(
    source: str | os.PathLike[str], target: str | os.PathLike[str] | None, cache_dir: Any
) -> tuple[list[Path], Path]:
    path = Path(source)
    if target is None and (path.suffix == ".safetensors" or any(path.glob("*.safetensors"))):
        raise ArgumentError(f"{path} is or holds safetensors, which would be overwritten: name a target")
    if path.is_dir():
        return [path], Path(target or path)
    if path.exists():
        return [path], Path(target or path.with_suffix(".safetensors"))
    try:
        name = places.resolve(source)
    except ArgumentError:
        name = ""
    if name not in MODEL_SPECS:
        raise ModelNotFoundError(
            f"model {quoted(path)}: no such file or folder, and no variant of that name; variants are "
            f"{', '.join(MODEL_SPECS)}"
        )
    files = [path for path in places.get_checkpoint_paths(name, cache_dir).values() if path.is_file()]
    if not files:
        folder = places.get_checkpoint_paths(name, cache_dir).popitem()[1].parent
        raise ModelNotFoundError(f"no official files of {name} in {folder}; `mast3r download {name}` first")
    cache = Path(cache_dir) if cache_dir is not None else places.cache_dir()
    return files, Path(target or cache / "safetensors" / name)


def _one(source: Path, target: Path, dtype: str, progress: Progress) -> list[Path]:
    """Convert one file or folder in the native library."""
    arguments = (
        calls.text("source", source),
        calls.text("target", target),
        calls.text("dtype", dtype),
    )
    bar: Any = None
    if progress is True:
        from tqdm.auto import tqdm

        bar = tqdm(desc=source.name, unit="B", unit_scale=True, disable=None)
    with calls.Job("mast3r_submit_convert", *arguments) as job:

        def tick() -> None:
            done, total = job.progress()
            if bar is not None and total:
                bar.total = total
                bar.update(done - bar.n)
            elif callable(progress):
                progress(done, total)

        try:
            job.wait(tick)
            tick()
        finally:
            if bar is not None:
                bar.close()
        # A name that is no UTF-8 does not survive JSON; the target is known here.
        return [
            target if target.suffix == ".safetensors" and not target.is_dir() else target / Path(f).name
            for f in job.files()
        ]
