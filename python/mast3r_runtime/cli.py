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

from ._version import __version__
from .errors import Mast3rError

__all__ = ["main"]


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

    bench = verb("benchmark", _benchmark, "Time the network on a random pair.")
    _engine_options(bench)
    bench.add_argument("--iterations", type=int, default=20)
    bench.add_argument("--warmup", type=int, default=3)
    bench.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _engine_options(parser: argparse.ArgumentParser, model: bool = True) -> None:
    if model:
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
    engine = kind("auto", arguments.resolution, arguments.precision, arguments.threads)
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
    from . import _native

    with _engine(arguments) as engine:
        values: dict[str, Any] = engine.info()
    values = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "library": str(_native.library_path()),
        **values,
    }
    shown = {key: value for key, value in values.items() if value not in ("", {}, 0)}
    width = max(map(len, shown))
    _say(arguments, values, "\n".join(f"{key:{width}}  {value}" for key, value in shown.items()))
    return 0


def _selfcheck(arguments: argparse.Namespace) -> int:
    from . import _selfcheck

    checks = []
    for check in _selfcheck.run(arguments.backend):
        checks.append(check)
        _note(arguments, f"{'ok  ' if check.ok else 'FAIL'}  {check.name:24}  {check.detail}")
    bad = sum(not check.ok for check in checks)
    _say(arguments, [vars(check) for check in checks], f"{len(checks) - bad} of {len(checks)} checks agree")
    return 1 if bad else 0


def _benchmark(arguments: argparse.Namespace) -> int:
    from . import _timing

    with _engine(arguments) as engine:
        values = _timing.benchmark(engine, arguments.iterations, arguments.warmup)
        name = engine.name()
    text = (
        "{}: {width:.0f} x {height:.0f}: median {p50_ms:.1f} ms, mean {mean_ms:.1f}, p95 {p95_ms:.1f}, "
        "min {min_ms:.1f} ({fps:.2f} pairs/s)"
    )
    _say(arguments, {"engine": name, **values}, text.format(name, **values))
    return 0
