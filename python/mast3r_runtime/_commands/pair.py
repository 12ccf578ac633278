# SPDX-License-Identifier: Apache-2.0
"""The verbs for a pair of pictures: ``demo``, ``infer``, ``match``, ``pose``."""

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
    match.add_argument("--epipolar", action="store_true", help="draw epipolar lines too")

    pose = verb("pose", _pose, "How two cameras stand to each other; exit code 3 where there is no pose.")
    _pair_options(pose)
    pose.add_argument("--intrinsics", metavar="FX,FY,CX,CY", help="camera 1, in original pixels")
    pose.add_argument("--intrinsics-2", metavar="FX,FY,CX,CY", help="camera 2 (default: camera 1)")
    pose.add_argument("--focal", type=float, metavar="PX", help="focal length to start from (default: EXIF)")
    pose.add_argument("--estimator", default="auto", help="auto, poselib, pycolmap, geometry (default: auto)")
    pose.add_argument("-o", "--out", type=Path, help="picture of the matches to write (.png)")
    pose.add_argument("--epipolar", action="store_true", help="draw epipolar lines in it")


def _pair_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image_1", type=Path)
    parser.add_argument("image_2", type=Path)
    engine_options(parser)
    parser.add_argument("--top-k", type=int, default=0, help="keep the best so many matches (default: all)")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def _demo(arguments: argparse.Namespace) -> int:
    from tqdm.auto import tqdm

    from .._output import drawing, export
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
    from .._output import export
    from .._output.html import write_html
    from ..errors import ArgumentError

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
    from .._output import export
    from .._output.files import check_target

    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    check_target(arguments.out, (".png",))  # before the work
    image_1, image_2, result, matches, name = _run_pair(arguments)
    export.write_png(arguments.out, _drawn(image_1, image_2, matches, arguments.epipolar, _sentence(matches)))
    values = _summary(result, matches, name)
    say(
        arguments,
        values,
        f"{name}: {len(matches)} matches, {values['total_ms']:.0f} ms; {_sentence(matches)}; "
        f"wrote {arguments.out}",
    )
    return 0


def _sentence(matches: Any) -> str:
    """What the matches say, in a line."""
    overlap = matches.overlap
    refined = int(matches.refined.sum())
    return f"overlap {overlap.verdict}, {int(matches.consistent.sum())} consistent, {refined} refined"


def _drawn(image_1: Any, image_2: Any, matches: Any, epipolar: bool, caption: str) -> Any:
    """The matches, sure ones bright: a standard deviation of a tenth of a network pixel is sure."""
    import numpy as np

    from .._output import drawing

    pixel = max(matches.transform_2.scale)
    off = np.sqrt(np.maximum(matches.covariance[:, 0, 0], matches.covariance[:, 1, 1])) / pixel
    return drawing.matches(
        image_1,
        image_2,
        matches.original_1,
        matches.original_2,
        certainty=np.where(matches.refined, 1 - np.clip((off - 0.1) / 0.4, 0, 1), 0.0),
        fundamental=matches.overlap.fundamental if epipolar else None,
        caption=caption,
    )


def _pose(arguments: argparse.Namespace) -> int:
    from .._output import export
    from .._output.files import check_target
    from ..geometry import exif_focal

    given = [_matrix(text) for text in (arguments.intrinsics, arguments.intrinsics_2)]
    if arguments.out is not None:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        check_target(arguments.out, (".png",))
    image_1, image_2, result, matches, name = _run_pair(arguments)
    focals = [arguments.focal or exif_focal(path) for path in (arguments.image_1, arguments.image_2)]
    found = result.cameras(
        matches, *given, focal_1=focals[0], focal_2=focals[1], estimator=arguments.estimator
    )
    text = _pose_text(found)
    if arguments.out is not None:
        line = f"{_sentence(matches)}; {text.splitlines()[0]}"
        export.write_png(arguments.out, _drawn(image_1, image_2, matches, arguments.epipolar, line))
    values = {**_summary(result, matches, name), **_pose_values(found)}
    say(arguments, values, f"{name}: {_sentence(matches)}\n{text}")
    return 0 if found.pose is not None else 3


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


def _pose_text(found: Any) -> str:
    import numpy as np

    if found.pose is None:
        return f"no pose: {found.reason}"
    turn = np.degrees(np.arccos(np.clip((np.trace(found.pose[:3, :3]) - 1) / 2, -1, 1)))
    x, y, z = found.pose[:3, 3]
    lines = [f"camera 2 is turned by {turn:.2f} +- {found.turn_interval:.2f} degrees"]
    if not found.turn_only:
        lines[0] += f" and lies at ({x:.3f}, {y:.3f}, {z:.3f}) +- {found.direction_interval:.2f} degrees"
        if found.scale is not None:
            lines[0] += f" times {found.scale:.3g} m (a guess)"
    focal = found.intrinsics_1[0, 0]
    spread = f" +- {1.96 * 100 * found.focal_sigma[0]:.1f} %" if found.focal_sigma[0] else ""
    lines.append(
        f"focal length {focal:.1f} px{spread} ({found.intrinsics_source}); {len(found.inliers)} inliers, "
    )
    lines[-1] += f"{found.rms:.2f} px from the epipolar lines; by {found.estimator}"
    lines += [f"note: {text}" for text in found.warnings]
    return "\n".join(lines)


def _summary(result: Any, matches: Any, name: str) -> dict[str, Any]:
    return {
        "engine": name,
        "height_1": result.height,
        "width_1": result.width,
        "matches": len(matches),
        "overlap": matches.overlap.verdict if matches.overlap else None,
        **{key: round(value, 3) for key, value in {**result.timing, **matches.timing}.items()},
    }
