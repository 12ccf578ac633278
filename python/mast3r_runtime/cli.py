# SPDX-License-Identifier: Apache-2.0
"""The command line: ``mast3r VERB``. Only this module prints.

Exit status 0: done; 1: it failed, with one line on stderr; 2: the command was not understood.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ._checkpoints.specs import LICENSE, MODEL_SPECS
from ._commands import collection, profile
from ._version import __version__
from .errors import ArgumentError, Mast3rError

__all__ = ["benchmark_main", "download_main", "info_main", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status."""
    arguments = _parser().parse_args(argv)
    level = os.environ.get("MAST3R_RUNTIME_LOG", "warning").upper()
    logging.basicConfig(stream=sys.stderr, format="%(name)s: %(levelname)s: %(message)s")
    try:
        logging.getLogger("mast3r_runtime").setLevel(level)
    except ValueError:
        return _failed(f"MAST3R_RUNTIME_LOG={level!r}, want debug, info, warning or error")
    verb: Callable[[argparse.Namespace], int] = arguments.verb
    try:
        return verb(arguments)
    except (Mast3rError, OSError, ValueError) as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        return _failed("interrupted")


def info_main() -> int:
    """``mast3r-info``: an older name of ``mast3r info``."""
    return main(["info", *sys.argv[1:]])


def benchmark_main() -> int:
    """``mast3r-benchmark``: an older name of ``mast3r benchmark``."""
    return main(["benchmark", *sys.argv[1:]])


def download_main() -> int:
    """``mast3r-download``: an older name of ``mast3r download``."""
    return main(["download", *sys.argv[1:]])


def _failed(text: str) -> int:
    print(f"mast3r: {text}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mast3r", description="Two pictures in; points, confidences, descriptors and matches out."
    )
    parser.add_argument("--version", action="version", version=f"mast3r {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text)
        sub.set_defaults(verb=run)
        return sub

    demo = verb("demo", _demo, "Run the model in the wheel on pairs whose truth is known.")
    _engine_options(demo, model=False)
    demo.set_defaults(resolution=256)  # what the small model was trained at
    demo.add_argument("-o", "--out", type=Path, default=Path("out"), help="folder (default: out)")
    demo.add_argument("--json", action="store_true", help="print the scores as JSON")

    infer = verb("infer", _infer, "Reconstruct a pair; write npz, PLY, GLB and pictures.")
    _pair_options(infer)
    infer.add_argument("-o", "--out", type=Path, required=True, help="folder for the files")
    infer.add_argument(
        "--keep",
        type=float,
        help="share of the points, most confident first, in the point clouds",
    )

    match = verb("match", _match, "Match a pair; draw the matches.")
    _pair_options(match)
    match.add_argument("-o", "--out", type=Path, required=True, help="picture to write (.png)")

    info = verb("info", _info, "Say what runs here, on what device, with which model.")
    _engine_options(info)
    info.add_argument("--json", action="store_true", help="print JSON")

    check = verb("selfcheck", _selfcheck, "Compare with outputs of the published reference.")
    check.add_argument("--backend", choices=("auto", "metal", "cpu"), default="auto")
    check.add_argument("--json", action="store_true", help="print JSON")

    _files_verbs(verb)
    collection.add(verb)
    profile.add(verb)

    bench = verb("benchmark", _benchmark, "Time the network on a random pair.")
    _engine_options(bench)
    bench.add_argument("--iterations", type=int, default=20)
    bench.add_argument("--warmup", type=int, default=3)
    bench.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _files_verbs(verb: Callable[..., argparse.ArgumentParser]) -> None:
    from ._checkpoints.convert import DTYPES
    from ._checkpoints.download import SOURCES

    fetch = verb("download", _download, f"Fetch a published model. {LICENSE}")
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
    _cache_options(convert)


def _cache_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cache-dir", type=Path, help="default: MAST3R_CACHE_DIR, ~/.cache/mast3r_runtime")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _engine_options(parser: argparse.ArgumentParser, model: bool = True) -> None:
    if model:
        parser.add_argument("--variant", default="auto", help="a published model from the cache")
        parser.add_argument("--model", type=Path, help="safetensors file or folder (default: the wheel's)")
    parser.add_argument(
        "--resolution", type=int, default=0, help="long side in pixels (default: the model's own)"
    )
    parser.add_argument("--precision", choices=("auto", "fp32", "fp16", "bf16"), default="auto")
    parser.add_argument("--backend", choices=("auto", "metal", "cpu"), default="auto")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: every core)")


def _pair_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image_1", type=Path)
    parser.add_argument("image_2", type=Path)
    _engine_options(parser)
    parser.add_argument("--top-k", type=int, default=0, help="keep the best so many matches (default: all)")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def _engine(arguments: argparse.Namespace) -> Any:
    """Open the engine that the options ask for and load its model."""
    from .backends import _cpu, _mps
    from .errors import DeviceError

    if arguments.backend == "metal" and not _mps.is_available():
        raise DeviceError("backend metal: not available here")
    kind = _cpu.CPUEngine if arguments.backend == "cpu" else _mps.MPSEngine
    engine = kind(
        getattr(arguments, "variant", "auto"), arguments.resolution, arguments.precision, arguments.threads
    )
    engine.load(getattr(arguments, "model", None))
    return engine


def _say(arguments: argparse.Namespace, values: Any, text: str) -> None:
    print(json.dumps(values, indent=2) if arguments.json else text)


def _demo(arguments: argparse.Namespace) -> int:
    from tqdm.auto import tqdm

    from . import demo, drawing, export

    scores: dict[str, Any] = {}
    with _engine(arguments) as engine:
        available = list(demo.pairs())
        _note(arguments, f"{engine.name()}: a small demonstration model, not the published MASt3R")
        if not any(pair.name == "motorcycle" for pair in available):
            _note(
                arguments,
                "motorcycle: left out, it comes with scikit-image (pip install 'mast3r-runtime[demo]')",
            )
        sheets = []
        for pair in tqdm(available, disable=None, leave=False, file=sys.stderr):
            score, timing, sheet = demo.run_pair(engine, pair, arguments.out / pair.name)
            scores[pair.name] = {**vars(score), "timing": dict(timing)}
            with tqdm.external_write_mode(sys.stdout):  # keeps the bar out of the line
                _note(arguments, f"{pair.title}: {score.text()}; {timing['total_ms']:.0f} ms")
            sheets.append(("", sheet))
    overview = arguments.out / "overview.png"
    export.write_png(overview, drawing.contact_sheet([sheets], width=2000))
    _say(arguments, scores, f"pictures and point clouds are in {arguments.out}; look at {overview}")
    return 0


def _note(arguments: argparse.Namespace, text: str) -> None:
    """A line for people; kept out of the way of JSON."""
    print(text, file=sys.stderr if arguments.json else sys.stdout)


def _run_pair(arguments: argparse.Namespace) -> tuple[Any, Any, Any, Any, str]:
    from .images import read_image

    image_1, image_2 = read_image(arguments.image_1), read_image(arguments.image_2)
    with _engine(arguments) as engine:
        result = engine.infer_gpu(image_1, image_2).numpy()
        matches = engine.match(result, top_k=arguments.top_k, confidence_threshold=0.0)
        return image_1, image_2, result, matches, engine.name()


def _infer(arguments: argparse.Namespace) -> int:
    from . import demo, export

    keep = export.KEEP if arguments.keep is None else arguments.keep
    if not 0 < keep <= 1:
        raise ValueError(f"--keep {keep}: want a share above 0 and up to 1")
    arguments.out.mkdir(parents=True, exist_ok=True)  # before the work, in case it cannot be
    image_1, image_2, result, matches, name = _run_pair(arguments)
    demo.write_result(arguments.out, result, matches, image_1, image_2, keep=keep)
    values = _summary(result, matches, name)
    files = list(demo.RESULT_FILES)
    text = f"{name}: {len(matches)} matches, {values['total_ms']:.0f} ms; wrote {', '.join(files)}"
    _say(arguments, {**values, "files": files}, f"{text} in {arguments.out}")
    return 0


def _match(arguments: argparse.Namespace) -> int:
    from . import drawing, export

    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    image_1, image_2, result, matches, name = _run_pair(arguments)
    picture = drawing.matches(image_1, image_2, matches.original_1, matches.original_2)
    export.write_png(arguments.out, picture)
    values = _summary(result, matches, name)
    _say(
        arguments,
        values,
        f"{name}: {len(matches)} matches, {values['total_ms']:.0f} ms; wrote {arguments.out}",
    )
    return 0


def _summary(result: Any, matches: Any, name: str) -> dict[str, Any]:
    return {
        "engine": name,
        "height_1": result.height,
        "width_1": result.width,
        "matches": len(matches),
        **{key: round(value, 3) for key, value in {**result.timing, **matches.timing}.items()},
    }


def _info(arguments: argparse.Namespace) -> int:
    from ._library import calls

    with _engine(arguments) as engine:
        values: dict[str, Any] = engine.info()
    values = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "library": str(calls.library_path()),
        **values,
    }
    shown = {key: value for key, value in values.items() if value not in ("", {}, 0)}
    width = max(map(len, shown))
    _say(arguments, values, "\n".join(f"{key:{width}}  {value}" for key, value in shown.items()))
    return 0


def _selfcheck(arguments: argparse.Namespace) -> int:
    from ._commands import selfcheck

    checks = []
    for check in selfcheck.run(arguments.backend):
        checks.append(check)
        _note(arguments, f"{'ok  ' if check.ok else 'FAIL'}  {check.name:24}  {check.detail}")
    bad = sum(not check.ok for check in checks)
    _say(arguments, [vars(check) for check in checks], f"{len(checks) - bad} of {len(checks)} checks agree")
    return 1 if bad else 0


def _benchmark(arguments: argparse.Namespace) -> int:
    from ._engine import timing

    with _engine(arguments) as engine:
        values = timing.benchmark(engine, arguments.iterations, arguments.warmup)
        name = engine.name()
    text = (
        "{}: {width:.0f} x {height:.0f}: median {p50_ms:.1f} ms, mean {mean_ms:.1f}, p95 {p95_ms:.1f}, "
        "min {min_ms:.1f} ({fps:.2f} pairs/s)"
    )
    _say(arguments, {"engine": name, **values}, text.format(name, **values))
    return 0


def _download(arguments: argparse.Namespace) -> int:
    from ._checkpoints.download import download

    if arguments.list or arguments.variant is None:
        if arguments.variant is None and not arguments.list:
            raise ArgumentError(f"which model? want one of {', '.join(MODEL_SPECS)}, or all")
        return _status(arguments)
    variants = list(MODEL_SPECS) if arguments.variant == "all" else [arguments.variant]
    print(LICENSE, file=sys.stderr)
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
    _say(arguments, paths, "\n".join(f"{name}: {path}" for name, path in paths.items()))
    return 0


def _status(arguments: argparse.Namespace) -> int:
    import dataclasses

    from ._checkpoints.download import status

    models = status(arguments.cache_dir)
    lines = []
    for model in models:
        size = sum(file.size_mb for file in model.files)
        lines.append(f"{model.variant:20}  {model.path or f'not here, {size} MiB'}")
        for file in model.files:
            state = "here" if file.present else f"{file.bytes >> 20} MiB here" if file.bytes else "-"
            lines.append(f"  {file.role:10} {file.size_mb:5} MiB  {state:14}  {file.url}")
    values = [{**dataclasses.asdict(model), "ready": model.ready} for model in models]
    _say(arguments, json.loads(json.dumps(values, default=str)), "\n".join(lines))
    return 0


def _convert(arguments: argparse.Namespace) -> int:
    from ._checkpoints.convert import convert

    paths = convert(
        arguments.source,
        arguments.target,
        dtype=arguments.dtype,
        cache_dir=arguments.cache_dir,
        progress=not arguments.quiet,
    )
    sizes = {str(path): path.stat().st_size for path in paths}
    _say(arguments, sizes, "\n".join(f"{path}: {size >> 20} MiB" for path, size in sizes.items()))
    return 0
