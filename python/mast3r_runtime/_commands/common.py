# SPDX-License-Identifier: Apache-2.0
"""What the verbs share: options, the engine they open, and how they print."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._checkpoints import places
from .._library.device import BACKENDS, known
from ..errors import shown

if TYPE_CHECKING:
    from .._engine.engine import Engine
    from .._files.folder import OutFolder
    from .._scene.scene import Scene

__all__ = [
    "backend_option", "engine_options", "file_options", "folder_options", "held_folder", "look", "memory_of",
    "not_placed", "note", "open_engine", "say", "say_left_out", "say_memory", "size_of",
]  # fmt: skip


def _backend(text: str) -> str:
    if not known(text):
        raise argparse.ArgumentTypeError(f"{text!r}, want one of {', '.join(BACKENDS)}, cuda:N")
    return text


def backend_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--backend``, which :class:`mast3r_runtime.Engine` explains."""
    parser.add_argument(
        "--backend",
        type=_backend,
        default="auto",
        metavar="{" + ",".join(BACKENDS) + ",cuda:N}",
        help="where to compute (default: auto)",
    )


def engine_options(parser: argparse.ArgumentParser, model: bool = True) -> None:
    """Add the options that choose a model and a device."""
    if model:
        parser.add_argument("--variant", default="auto", help="a published model from the cache")
        parser.add_argument("--model", type=Path, help="file or folder, or a variant (default: the wheel's)")
    parser.add_argument(
        "--resolution", type=int, default=0, help="long side in pixels (default: the model's own)"
    )
    parser.add_argument("--precision", choices=("auto", "fp32", "tf32", "fp16", "bf16"), default="auto")
    backend_option(parser)
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: every core)")


def folder_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a verb that fills a folder."""
    parser.add_argument(
        "--wait", action="store_true", help="wait for another run that writes into the folder"
    )


def file_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a verb that writes a file under a name of the user's."""
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a file that mast3r did not write; never an input"
    )


def held_folder(arguments: argparse.Namespace, section: str, verb: str) -> OutFolder:
    """The folder of ``-o``, for the files of one product. See :class:`.OutFolder`."""
    from .._files.folder import OutFolder

    return OutFolder(arguments.out, section, verb, wait=arguments.wait)


def open_engine(arguments: argparse.Namespace) -> Engine:
    """Open the engine that the options ask for and load its model."""
    from .._engine.engine import Engine

    variant, model = getattr(arguments, "variant", "auto"), getattr(arguments, "model", None)
    if model is not None and not model.exists():
        places.model_path(model)  # or what is wrong with it, before the engine is made
        variant, model = str(model), None
    engine = Engine(variant, arguments.resolution, arguments.precision, arguments.threads, arguments.backend)
    engine.load(model)
    return engine


def memory_of(engine: Engine) -> dict[str, Any]:
    """What a pair needs, as ``estimate_memory`` says it."""
    from .._engine.reports import estimate_memory
    from .._engine.timing import native_size

    info = engine.info()
    return estimate_memory(
        engine.path,
        size=native_size(engine),
        backend=str(info["backend"]),
        precision=str(info["precision"]),
        num_threads=int(info["threads"]),
    )


def say_memory(engine: Engine) -> None:
    """Say before a long run what a pair needs; where it does not fit, the run's first pair says so."""
    need = memory_of(engine)
    left = f"; {need['limit']} leaves {size_of(need['free'])}" if need["limit"] else ""
    size = f"{need['width_1']} x {need['height_1']}"
    print(f"mast3r: a pair of {size} needs about {size_of(need['total'])} of memory{left}", file=sys.stderr)


def size_of(count: int) -> str:
    """Bytes for people."""
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def say(arguments: argparse.Namespace, values: Any, text: str) -> None:
    """Print the result: ``values`` as JSON where that is wanted, else ``text``."""
    print(
        json.dumps(_plain(values), indent=2, allow_nan=False) if arguments.json else shown(text, lines=True)
    )


def _plain(value: Any) -> Any:
    """Values with null for the numbers that JSON has none for."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def say_left_out(left_out: Mapping[str, str]) -> None:
    """One line of what is a picture or a video and was left out, and what to do."""
    from .._pictures.find import sentence

    if left_out:
        print(f"mast3r: {sentence(left_out)}", file=sys.stderr)


def not_placed(scene: Scene) -> list[str]:
    """A line of the pictures that have no pose, and why; none where all have one."""
    lost = [p for p in scene.pictures.values() if p.pose is None]
    if not lost:
        return []
    why = ", ".join(f"{shown(p.name)} ({p.status}: {shown(p.reason)})" for p in lost[:20])
    more = f" and {len(lost) - 20} more, see report.json" if len(lost) > 20 else ""
    return [f"{len(scene.placed)} of {len(scene.pictures)} pictures placed; not placed: {why}{more}"]


def note(arguments: argparse.Namespace, text: str) -> None:
    """A line for people; kept out of the way of JSON."""
    print(shown(text, lines=True), file=sys.stderr if arguments.json else sys.stdout)


def look(arguments: argparse.Namespace, page: Path) -> None:
    """Open a page in the browser, or say where it is where there is no display."""
    display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not display or not webbrowser.open(page.resolve().as_uri()):
        note(arguments, f"open {page} in a browser")
