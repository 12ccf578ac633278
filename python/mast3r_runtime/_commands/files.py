# SPDX-License-Identifier: Apache-2.0
"""The verbs for model files: ``download``, ``status``, ``convert``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from .._checkpoints import places
from .._checkpoints.specs import DA3_LICENSE, LICENSE, MODEL_SPECS
from ..errors import ArgumentError
from .common import file_options, say

__all__ = ["add"]


def add(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    from .._checkpoints.convert import DTYPES
    from .._checkpoints.download import SOURCES

    fetch = verb("download", _download, f"Fetch a published model. {LICENSE} {DA3_LICENSE}")
    fetch.add_argument("variant", nargs="?", help="a variant, or all")
    fetch.add_argument("--list", action="store_true", help="list the variants and what is there")
    fetch.add_argument("--force", action="store_true", help="fetch again what is there")
    fetch.add_argument("--source", choices=SOURCES, default="auto", help="official server, or the hub")
    fetch.add_argument("--no-retrieval", action="store_true", help="leave out retrieval's files")
    fetch.add_argument("--quiet", action="store_true", help="no bars")
    _cache_options(fetch)

    state = verb("status", _status, "Say which models are there and where.")
    _cache_options(state)

    convert = verb("convert", _convert, "Write a model as safetensors that load without a copy.")
    convert.add_argument("source", metavar="IN", help=".pth, .safetensors or .pkl file, folder, or variant")
    convert.add_argument("target", metavar="OUT", nargs="?", type=Path, help="file or folder")
    convert.add_argument("--dtype", choices=DTYPES, default="fp16", help="of the weights (default: fp16)")
    convert.add_argument("--quiet", action="store_true", help="no bar")
    file_options(convert)
    _cache_options(convert)


def _cache_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cache-dir", type=Path, help="default: MAST3R_CACHE_DIR, ~/.cache/mast3r_runtime")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _download(arguments: argparse.Namespace) -> int:
    from .._checkpoints.download import download

    if arguments.list or arguments.variant is None:
        if arguments.variant is None and not arguments.list:
            raise ArgumentError(f"which model? want one of {', '.join(MODEL_SPECS)}, or all")
        return _status(arguments)
    variants = list(MODEL_SPECS) if arguments.variant == "all" else [arguments.variant]
    for line in _conditions(variants):
        print(line, file=sys.stderr)
    paths = {}
    for variant in variants:
        path = download(
            variant,
            source=arguments.source,
            cache_dir=arguments.cache_dir,
            force=arguments.force,
            retrieval=not arguments.no_retrieval,
            progress=not arguments.quiet,
        )
        paths[variant] = str(path)
    say(arguments, paths, "\n".join(f"{name}: {path}" for name, path in paths.items()))
    return 0


def _conditions(variants: list[str]) -> list[str]:
    """How much is fetched, and what it may be used for."""
    specs = {places.resolve(v): MODEL_SPECS.get(places.resolve(v)) for v in variants}
    sizes = [f"{name} {sum(f.size_mb for f in spec.files):,} MiB" for name, spec in specs.items() if spec]
    return [", ".join(sizes), *dict.fromkeys(spec.license for spec in specs.values() if spec)]


def _status(arguments: argparse.Namespace) -> int:
    import dataclasses

    from .._checkpoints.download import status

    models = status(arguments.cache_dir)
    lines = []
    for model in models:
        size = sum(file.size_mb for file in model.files)
        lines.append(f"{model.variant:20}  {model.path or f'not here, {size} MiB'}")
        for file in model.files:
            state = "here" if file.present else f"{file.bytes >> 20} MiB here" if file.bytes else "-"
            if file.wrong:
                state = f"here, {file.bytes >> 20} of {file.size_mb} MiB: {file.wrong}"
            lines.append(f"  {file.role:10} {file.size_mb:5} MiB  {state:14}  {file.url}")
    values = [{**dataclasses.asdict(model), "ready": model.ready} for model in models]
    say(arguments, json.loads(json.dumps(values, default=str)), "\n".join(lines))
    return 0


def _convert(arguments: argparse.Namespace) -> int:
    from .._checkpoints.convert import convert, targets
    from .._files.single import single

    sources, candidates = targets(arguments.source, arguments.target, arguments.cache_dir)
    for candidate in candidates:
        single(candidate, (), sources, arguments.overwrite)
    paths = convert(
        arguments.source,
        arguments.target,
        dtype=arguments.dtype,
        cache_dir=arguments.cache_dir,
        progress=not arguments.quiet,
    )
    sizes = {str(path): path.stat().st_size for path in paths}
    say(arguments, sizes, "\n".join(f"{path}: {size >> 20} MiB" for path, size in sizes.items()))
    return 0
