# SPDX-License-Identifier: Apache-2.0
"""The verb ``views``: pictures to a scene by a network of many views, without a solver."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import shown
from .common import (
    engine_options,
    folder_options,
    held_folder,
    look,
    not_placed,
    open_engine,
    say,
    say_left_out,
)  # fmt: skip

if TYPE_CHECKING:
    from .._files.folder import OutFolder
    from .._pictures.header import Photo
    from .._scene.album import Album
    from .._scene.model import F64, Lens
    from .._scene.scene import Scene

__all__ = ["add", "image_options", "show"]

DEFAULT = "da3_base"
REFERENCES = ("saddle_balanced", "first", "middle", "saddle_sim_range")


def add(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    make = verb(
        "views", _views, "Depth, points and cameras of one to many pictures, by a network of many views."
    )
    make.add_argument("pictures", nargs="+", type=Path, help="folders and files")
    make.add_argument("-o", "--out", type=Path, required=True, help="folder for the scene")
    make.add_argument("-r", "--recursive", action="store_true", help="folders within folders too")
    engine_options(make)
    make.set_defaults(variant=DEFAULT)
    make.add_argument(
        "--reference", choices=REFERENCES, default=REFERENCES[0], help="which view others refer to"
    )
    make.add_argument("--poses", type=Path, help="known poses: transforms.json or COLMAP's images.txt")
    make.add_argument(
        "--intrinsics", help="with --poses: FX,FY,CX,CY in original pixels, cameras.txt or transforms.json"
    )
    make.add_argument("--rays", action="store_true", help="the network's rays too, in dense/")
    make.add_argument("--window", type=int, default=0, help="views at once (default: all, or as many as fit)")
    make.add_argument("--overlap", type=int, default=0, help="views that windows share (default: a third)")
    make.add_argument("--html", action=argparse.BooleanOptionalAction, default=True, help="write scene.html")
    make.add_argument("--open", action="store_true", help="open scene.html in the browser")
    make.add_argument("--json", action="store_true", help="print the report as JSON")
    image_options(make)
    folder_options(make)


def image_options(make: argparse.ArgumentParser) -> None:
    """Add what says how the pictures come into ``images/``."""
    make.add_argument("--copy-images", action="store_true", help="copy the pictures, not link them")
    make.add_argument(
        "--keep-gps", action="store_true", help="keep where the pictures were taken in the copies in images/"
    )


def _views(arguments: argparse.Namespace) -> int:
    from .._pictures.find import find
    from .._pictures.header import read
    from .._scene import files, start
    from .._scene.album import plan

    found = find(arguments.pictures, arguments.recursive, arguments.out)
    found.need(1, f"views: {', '.join(map(shown, arguments.pictures))}")
    if arguments.model is not None and arguments.variant == DEFAULT:
        arguments.variant = "auto"
    headers = [read(name, path) for name, path in found.items()]
    poses, lenses = _cameras(arguments, headers)
    with held_folder(arguments, files.SECTION, "views") as out:
        formats = [name for name in files.FORMATS if name != "html" or arguments.html]
        album = plan(found, out)
        out.claim([*files.targets(list(found), formats), *album.targets()])
        with open_engine(arguments) as engine:
            scene = start.look(
                engine, headers, poses, lenses, reference=arguments.reference, rays=arguments.rays,
                window=arguments.window, overlap=arguments.overlap,
            )  # fmt: skip
        report = {**scene.report, "left_out": dict(found.left_out)}
        return show(arguments, replace(scene, report=report), out, album)


def _cameras(
    arguments: argparse.Namespace, headers: list[Photo]
) -> tuple[dict[str, F64] | None, dict[str, Lens] | None]:
    """The known cameras by the names of the pictures."""
    from .._pictures.names import Names
    from .._scene import given
    from ..errors import ArgumentError

    if (arguments.poses is None) != (arguments.intrinsics is None):
        raise ArgumentError("--poses without --intrinsics or the other way round, want both or neither")
    if arguments.poses is None:
        return None, None
    sizes = {h.name: (h.width, h.height) for h in headers if not h.problem}
    names = Names({h.name: h.path for h in headers if not h.problem})
    return given.poses(arguments.poses, names), given.intrinsics(arguments.intrinsics, sizes, names)


def show(arguments: argparse.Namespace, scene: Scene, out: OutFolder, album: Album) -> int:
    """Write a scene that needed no solver, and say what it is."""
    from .._scene.files import FORMATS, write_into

    formats = [name for name in FORMATS if name != "html" or arguments.html]
    files = write_into(
        scene, out, formats, copy_images=arguments.copy_images, keep_gps=arguments.keep_gps, album=album
    )
    say_left_out(scene.report.get("left_out", {}))
    for line in [*not_placed(scene), *_warnings(scene.report["windows"])]:
        print(f"mast3r: {line}", file=sys.stderr)
    report = scene.report
    text = (
        f"{len(scene.placed)} of {len(scene.pictures)} pictures placed by {report['network']} in "
        f"{report['timing_ms']['total_ms'] / 1e3:.1f} s. {scene.scale.sentence()}\n"
        f"{len(files)} files in {arguments.out}; depth and confidence in "
        f"{arguments.out / 'dense'}, cameras in {arguments.out / 'transforms.json'}"
    )
    if arguments.html:
        text += f", and a page: {arguments.out / 'scene.html'}"
    say(arguments, dict(report), text)
    if arguments.open and arguments.html:
        look(arguments, arguments.out / "scene.html")
    return 0


def _warnings(windows: list[dict[str, float]]) -> list[str]:
    """Windows whose shared points lie far apart."""
    loose = 0.1
    return [
        f"views {w['first']:.0f} to {w['first'] + w['count'] - 1:.0f} fit badly on those before: shared "
        f"points are {w['residual']:.0%} of their distance apart"
        for w in windows
        if w["residual"] > loose
    ]
