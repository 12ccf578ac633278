# SPDX-License-Identifier: Apache-2.0
"""The verbs for a pair of pictures: ``demo``, ``infer``, ``match``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .common import engine_options, note, open_engine, say
from .scene import demo_scene

__all__ = ["add"]


def add(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    demo = verb("demo", _demo, "Run the model in the wheel on pairs whose truth is known.")
    engine_options(demo, model=False)
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
    infer.add_argument("--onnx", type=Path, metavar="MODEL.onnx", help="an export, for ONNX Runtime")

    match = verb("match", _match, "Match a pair; draw the matches.")
    _pair_options(match)
    match.add_argument("-o", "--out", type=Path, required=True, help="picture to write (.png)")


def _pair_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image_1", type=Path)
    parser.add_argument("image_2", type=Path)
    engine_options(parser)
    parser.add_argument("--top-k", type=int, default=0, help="keep the best so many matches (default: all)")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def _demo(arguments: argparse.Namespace) -> int:
    from tqdm.auto import tqdm

    from .. import export
    from .._output import drawing
    from . import demo

    scores: dict[str, Any] = {}
    with open_engine(arguments) as engine:
        available = list(demo.pairs())
        note(arguments, f"{engine.name()}: a small demonstration model, not the published MASt3R")
        if not any(pair.name == "motorcycle" for pair in available):
            note(
                arguments,
                "motorcycle: left out, it comes with scikit-image (pip install 'mast3r-runtime[demo]')",
            )
        sheets = []
        for pair in tqdm(available, disable=None, leave=False, file=sys.stderr):
            score, timing, sheet = demo.run_pair(engine, pair, arguments.out / pair.name)
            scores[pair.name] = {**vars(score), "timing": dict(timing)}
            with tqdm.external_write_mode(sys.stdout):  # keeps the bar out of the line
                note(arguments, f"{pair.title}: {score.text()}; {timing['total_ms']:.0f} ms")
            sheets.append(("", sheet))
        page = demo_scene(engine, arguments, scores)
    overview = arguments.out / "overview.png"
    export.write_png(overview, drawing.contact_sheet([sheets], width=2000))
    pages = f"{overview} and {page}" if page else overview
    say(arguments, scores, f"pictures and point clouds are in {arguments.out}; look at {pages}")
    return 0


def _run_pair(arguments: argparse.Namespace) -> tuple[Any, Any, Any, Any, str]:
    from ..images import read_image

    image_1, image_2 = read_image(arguments.image_1), read_image(arguments.image_2)
    if getattr(arguments, "onnx", None):
        return image_1, image_2, *_run_onnx(arguments, image_1, image_2)
    with open_engine(arguments) as engine:
        result = engine.infer_gpu(image_1, image_2).numpy()
        matches = engine.match(result, top_k=arguments.top_k, confidence_threshold=0.0)
        return image_1, image_2, result, matches, engine.name()


def _run_onnx(arguments: argparse.Namespace, image_1: Any, image_2: Any) -> tuple[Any, Any, str]:
    """Only the matching is this project's then; it needs no model."""
    from .._engine.engine import Engine
    from .._engine.onnx import OnnxNetwork

    network = OnnxNetwork(arguments.onnx, arguments.backend, arguments.threads)
    result = network.infer(image_1, image_2)
    with Engine("auto", 0, "auto", arguments.threads, "cpu") as engine:
        matches = engine.match(result, top_k=arguments.top_k, confidence_threshold=0.0)
    return result, matches, network.name


def _infer(arguments: argparse.Namespace) -> int:
    from .. import export
    from ..errors import ArgumentError
    from ..viewer import write_html

    keep = export.KEEP if arguments.keep is None else arguments.keep
    if not 0 < keep <= 1:
        raise ArgumentError(f"--keep {keep}: want a share above 0 and up to 1")
    arguments.out.mkdir(parents=True, exist_ok=True)  # before the work, in case it cannot be
    image_1, image_2, result, matches, name = _run_pair(arguments)
    export.write_result(arguments.out, result, matches, image_1, image_2, keep=keep)
    title = f"{arguments.image_1.name}, {arguments.image_2.name}"
    write_html(arguments.out / "view.html", result, (image_1, image_2), matches, title=title)
    values = _summary(result, matches, name)
    files = [*export.RESULT_FILES, "view.html"]
    text = f"{name}: {len(matches)} matches, {values['total_ms']:.0f} ms; wrote {', '.join(files)}"
    say(arguments, {**values, "files": files}, f"{text} in {arguments.out}")
    return 0


def _match(arguments: argparse.Namespace) -> int:
    from .. import export
    from .._output import drawing
    from .._output.files import check_target

    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    check_target(arguments.out, (".png",))  # before the work
    image_1, image_2, result, matches, name = _run_pair(arguments)
    picture = drawing.matches(image_1, image_2, matches.original_1, matches.original_2)
    export.write_png(arguments.out, picture)
    values = _summary(result, matches, name)
    say(
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
