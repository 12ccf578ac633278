# SPDX-License-Identifier: Apache-2.0
"""The verbs for a pair of pictures: ``demo``, ``infer``, ``match``, ``pose``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .common import engine_options, file_options, folder_options, held_folder, note, open_engine, say
from .scene import demo_scene

__all__ = ["add"]


def add(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    demo = verb("demo", _demo, "Run the model in the wheel on pairs whose truth is known.")
    engine_options(demo, model=False)
    demo.set_defaults(resolution=256)  # what the small model was trained at
    demo.add_argument("-o", "--out", type=Path, default=Path("out"), help="folder (default: out)")
    demo.add_argument("--json", action="store_true", help="print the scores as JSON")
    folder_options(demo)

    infer = verb("infer", _infer, "Reconstruct a pair; write npz, PLY, GLB and pictures.")
    _pair_options(infer)
    infer.add_argument("-o", "--out", type=Path, required=True, help="folder for the files")
    infer.add_argument(
        "--keep",
        type=float,
        help="share of the points, most confident first, in the point clouds",
    )
    infer.add_argument("--epipolar", action="store_true", help="draw epipolar lines in matches.png")
    folder_options(infer)
    infer.add_argument("--onnx", type=Path, metavar="MODEL.onnx", help="an export, for ONNX Runtime")

    match = verb("match", _match, "Match a pair; draw the matches.")
    _pair_options(match)
    match.add_argument("-o", "--out", type=Path, required=True, help="picture to write (.png)")
    match.add_argument("--epipolar", action="store_true", help="draw epipolar lines too")
    file_options(match)

    pose = verb("pose", _pose, "How two cameras stand to each other; exit code 3 where there is no pose.")
    _pair_options(pose)
    pose.add_argument("--intrinsics", metavar="FX,FY,CX,CY", help="camera 1, in original pixels")
    pose.add_argument("--intrinsics-2", metavar="FX,FY,CX,CY", help="camera 2 (default: camera 1)")
    pose.add_argument("--focal", type=float, metavar="PX", help="focal length to start from (default: EXIF)")
    pose.add_argument("--estimator", default="auto", help="auto, poselib, pycolmap, geometry (default: auto)")
    pose.add_argument("-o", "--out", type=Path, help="picture of the matches to write (.png)")
    pose.add_argument("--epipolar", action="store_true", help="draw epipolar lines in it")
    file_options(pose)


def _pair_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image_1", type=Path)
    parser.add_argument("image_2", type=Path)
    engine_options(parser)
    parser.add_argument("--top-k", type=int, default=0, help="keep the best so many matches (default: all)")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def _demo(arguments: argparse.Namespace) -> int:
    from .._output import drawing, export
    from . import demo

    scores: dict[str, Any] = {}
    available = list(demo.pairs())
    with held_folder(arguments, "demo", "demo") as out:
        names = [f"{pair.name}/{file}" for pair in available for file in demo.FILES]
        out.claim([*names, "overview.png", "scene.html"])
        with open_engine(arguments) as engine:
            note(arguments, f"{engine.name()}: a small demonstration model, not the published MASt3R")
            sheets = _demo_pairs(arguments, engine, available, out.stage, scores)
            page = demo_scene(engine, arguments, scores, out)
        export.write_png(out.stage / "overview.png", drawing.contact_sheet([sheets], width=2000))
        out.finish()
    overview = arguments.out / "overview.png"
    pages = f"{overview} and {arguments.out / 'scene.html'}" if page else overview
    say(arguments, scores, f"pictures and point clouds are in {arguments.out}; look at {pages}")
    return 0


def _demo_pairs(
    arguments: argparse.Namespace, engine: Any, available: list[Any], folder: Path, scores: dict[str, Any]
) -> list[Any]:
    """Run the pairs into folders of their names; their sheets."""
    from tqdm.auto import tqdm

    from . import demo

    if not any(pair.name == "motorcycle" for pair in available):
        text = "it comes with scikit-image (pip install 'mast3r-runtime[demo]')"
        note(arguments, f"motorcycle: left out, {text}")
    sheets = []
    for pair in tqdm(available, disable=None, leave=False, file=sys.stderr):
        score, timing, sheet = demo.run_pair(engine, pair, folder / pair.name)
        scores[pair.name] = {**vars(score), "timing": dict(timing)}
        with tqdm.external_write_mode(sys.stdout):  # keeps the bar out of the line
            note(arguments, f"{pair.title}: {score.text()}; {timing['total_ms']:.0f} ms")
        sheets.append(("", sheet))
    return sheets


def _run_pair(arguments: argparse.Namespace) -> tuple[Any, Any, Any, Any, str]:
    from .._pictures.reading import read_image

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
    from .._output import export
    from .._output.html import write_html
    from .._store.store import hashes
    from ..errors import ArgumentError
    from . import explain

    keep = export.KEEP if arguments.keep is None else arguments.keep
    if not 0 < keep <= 1:
        raise ArgumentError(f"--keep {keep}: want a share above 0 and up to 1")
    files = [*export.RESULT_FILES, "view.html"]
    with held_folder(arguments, export.SECTION, "infer") as out:
        out.claim(files, _pictures(arguments))
        image_1, image_2, result, matches, name = _run_pair(arguments)
        line = explain.line(result, matches, _focals(arguments))
        drawn = explain.drawn(image_1, image_2, matches, arguments.epipolar, line)
        export.write_files(out.stage, result, matches, image_1, image_2, drawn, keep)
        title = f"{arguments.image_1.name}, {arguments.image_2.name}"
        write_html(out.stage / "view.html", result, (image_1, image_2), matches, title=title)
        out.finish(made_from=hashes(_pictures(arguments)))
    values = {**_summary(result, matches, name), "line": line}
    text = f"{name}: {len(matches)} matches, {values['total_ms']:.0f} ms; {line}; wrote {', '.join(files)}"
    say(arguments, {**values, "files": files}, f"{text} in {arguments.out}")
    return 0


def _match(arguments: argparse.Namespace) -> int:
    from .._files.single import single
    from .._output import export
    from . import explain

    single(arguments.out, (".png",), _pictures(arguments), arguments.overwrite)
    image_1, image_2, result, matches, name = _run_pair(arguments)
    line = explain.line(result, matches, _focals(arguments))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    export.write_png(arguments.out, explain.drawn(image_1, image_2, matches, arguments.epipolar, line))
    values = {**_summary(result, matches, name), "line": line}
    text = f"{name}: {len(matches)} matches, {values['total_ms']:.0f} ms; {line}; wrote {arguments.out}"
    say(arguments, values, text)
    return 0


def _pose(arguments: argparse.Namespace) -> int:
    from .._files.single import single
    from .._output import export
    from . import explain

    given = [_matrix(text) for text in (arguments.intrinsics, arguments.intrinsics_2)]
    if arguments.out is not None:
        single(arguments.out, (".png",), _pictures(arguments), arguments.overwrite)
    _need_pinholes(arguments)
    image_1, image_2, result, matches, name = _run_pair(arguments)
    focals = [arguments.focal or focal for focal in _focals(arguments)]
    found = result.cameras(
        matches, *given, focal_1=focals[0], focal_2=focals[1], estimator=arguments.estimator
    )
    text = explain.pose_text(found)
    if arguments.out is not None:
        line = f"{explain.sentence(matches)}; {text.splitlines()[0]}"
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        export.write_png(arguments.out, explain.drawn(image_1, image_2, matches, arguments.epipolar, line))
    values = {**_summary(result, matches, name), **_pose_values(found)}
    say(arguments, values, f"{name}: {explain.sentence(matches)}\n{text}")
    return 0 if found.pose is not None else 3


def _pictures(arguments: argparse.Namespace) -> list[Path]:
    return [arguments.image_1, arguments.image_2]


def _focals(arguments: argparse.Namespace) -> list[float | None]:
    from .._results.geometry import exif_focal

    return [exif_focal(path) for path in (arguments.image_1, arguments.image_2)]


def _need_pinholes(arguments: argparse.Namespace) -> None:
    """Refuse panoramas and fisheyes whose cameras are not given."""
    from .._pictures.header import need_pinhole, read

    if arguments.intrinsics is None:
        need_pinhole([read(path.name, path) for path in (arguments.image_1, arguments.image_2)])


def _matrix(text: str | None) -> list[list[float]] | None:
    from ..errors import ArgumentError

    if text is None:
        return None
    try:
        fx, fy, cx, cy = (float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentError(f"intrinsics {text!r}, want FX,FY,CX,CY in pixels") from None
    return [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]


def _pose_values(found: Any) -> dict[str, Any]:
    return {
        "pose": None if found.pose is None else found.pose.tolist(),
        "reason": found.reason,
        "turn_only": found.turn_only,
        "intrinsics_1": found.intrinsics_1.tolist(),
        "intrinsics_2": found.intrinsics_2.tolist(),
        "intrinsics_source": found.intrinsics_source,
        "focal_sigma": list(found.focal_sigma),
        "covariance": found.covariance.tolist(),
        "inliers": len(found.inliers),
        "rms": found.rms,
        "scale": found.scale,
        "scale_source": found.scale_source,
        "estimator": found.estimator,
        "warnings": list(found.warnings),
    }


def _summary(result: Any, matches: Any, name: str) -> dict[str, Any]:
    return {
        "engine": name,
        "height_1": result.height,
        "width_1": result.width,
        "matches": len(matches),
        "overlap": matches.overlap.verdict if matches.overlap else None,
        **{key: round(value, 3) for key, value in {**result.timing, **matches.timing}.items()},
    }
