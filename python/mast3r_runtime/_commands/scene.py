# SPDX-License-Identifier: Apache-2.0
"""The verbs for scenes: ``reconstruct``, ``localize``, ``view``."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._checkpoints.download import status
from ..errors import shown
from .common import (
    engine_options,
    file_options,
    folder_options,
    held_folder,
    look,
    memory_of,
    not_placed,
    note,
    open_engine,
    say,
    say_left_out,
    size_of,
)
from .progress import Steps
from .views import image_options
from .views import show as show_views

if TYPE_CHECKING:
    from .._engine.engine import Engine
    from .._files.folder import OutFolder
    from .._pictures.find import Found
    from .._scene.scene import Scene

__all__ = ["NOT_LOCATED", "NOT_STRICT", "add", "demo_scene"]

_DEMO_FORMATS = ("report", "npz", "colmap", "transforms", "ply", "glb", "images")
NOT_LOCATED = 3  # exit status: the picture does not fit the scene
NOT_STRICT = 4  # exit status: --strict, and a picture is not placed


def add(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    make = verb("reconstruct", _reconstruct, "Place the cameras of pictures and build a scene.")
    make.add_argument("pictures", nargs="+", type=Path, help="folders and files")
    make.add_argument("-o", "--out", type=Path, required=True, help="folder for the scene")
    make.add_argument("-r", "--recursive", action="store_true", help="folders within folders too")
    engine_options(make)
    make.add_argument(
        "--matcher",
        default="auto",
        help="with a --model of many views, the MASt3R model (file or variant) whose matches refine its "
        "cameras, or sift, or none: keep them (default: mast3r_vit_large if it is there, else the wheel's)",
    )
    _graph_options(make)
    _camera_options(make)
    make.add_argument(
        "--mapper", choices=("auto", "global", "incremental"), default="auto", help="default: try, compare"
    )
    make.add_argument(
        "--scale-from", default="network", help="network, none, A,B=METRES (two cameras), or a file of poses"
    )
    make.add_argument("--up", choices=("auto", "none"), default="auto", help="auto: level the world")
    make.add_argument("--masks", type=Path, help="folder of masks of the same names, not black: use")
    make.add_argument("--dense", choices=("all", "none"), default="all")
    make.add_argument("--dense-conf", type=float, default=1.5, help="least confidence (default: 1.5)")
    make.add_argument("--max-dense", type=float, default=5e6, help="points of dense.ply (default: 5e6)")
    make.add_argument("--covariance", action="store_true", help="how exactly the cameras are known")
    make.add_argument("--seed", type=int, default=0)
    make.add_argument("--store", help="what was computed: folder or URL (default: .cache in the scene)")
    make.add_argument(
        "--features", choices=("auto", "float16", "float32"), default="auto",
        help="how the store keeps features (default: float16 where a batch left such, else float32)",
    )  # fmt: skip
    make.add_argument("--keep-database", action="store_true", help="keep COLMAP's database.db")
    image_options(make)
    make.add_argument("--strict", action="store_true", help="exit with 4 where a picture is not placed")
    make.add_argument("--html", action=argparse.BooleanOptionalAction, default=True, help="write scene.html")
    make.add_argument("--open", action="store_true", help="open scene.html in the browser")
    make.add_argument("--json", action="store_true", help="print the report as JSON")
    folder_options(make)

    find = verb("localize", _localize, "Find where a new picture of a scene was taken.")
    find.add_argument("scene", type=Path)
    find.add_argument("picture", type=Path)
    find.add_argument("--intrinsics", help="FX,FY,CX,CY in original pixels, cameras.txt or transforms.json")
    engine_options(find)
    find.add_argument("--json", action="store_true", help="print JSON")

    show = verb("view", _view, "Write a scene or a file of points as one HTML page.")
    show.add_argument("source", type=Path, help="folder of reconstruct, result.npz of infer, .ply or .glb")
    show.add_argument("-o", "--out", type=Path, help="page to write (default: beside the source)")
    show.add_argument("--open", action="store_true", help="open it in the browser")
    show.add_argument("--max-points", type=float, default=1e6, help="points to keep (default: 1e6)")
    show.add_argument("--thumb", type=int, default=160, help="long side of the thumbnails (default: 160)")
    show.add_argument("--live", action="store_true", help="serve it by viser in place of writing a page")
    show.add_argument("--port", type=int, default=8080, help="of --live (default: 8080)")
    show.add_argument("--json", action="store_true", help="print JSON")
    file_options(show)
    folder_options(show)


def _graph_options(make: argparse.ArgumentParser) -> None:
    make.add_argument(
        "--graph", default="auto", help="auto, complete, swin-W, logwin-W, oneref-R, retrieval-N-K"
    )
    make.add_argument("--pairs", type=Path, help="pairs.txt of retrieve, in place of --graph")
    make.add_argument("--stride", type=int, default=0, help="network pixels between anchors (default: 8)")
    make.add_argument("--min-inliers", type=int, default=30, help="of a pair that counts (default: 30)")


def _camera_options(make: argparse.ArgumentParser) -> None:
    from .._scene.cameras import FOCAL_SOURCES, MODELS, SHARING

    make.add_argument("--camera", choices=SHARING, default="auto", help="which pictures share a camera")
    make.add_argument("--camera-model", choices=tuple(MODELS))
    make.add_argument(
        "--intrinsics", help="FX,FY,CX,CY in original pixels, or a file of COLMAP or nerfstudio"
    )
    make.add_argument("--refine-intrinsics", action="store_true", help="start from --intrinsics, then refine")
    make.add_argument(
        "--poses", type=Path, help="known poses: a file or folder of COLMAP, or transforms.json"
    )
    make.add_argument("--fix-poses", action="store_true", help="keep --poses as they are")
    make.add_argument(
        "--focal-from", choices=FOCAL_SOURCES, default="auto", help="where the first guess is from"
    )


def _options(arguments: argparse.Namespace, found: Mapping[str, Path]) -> dict[str, Any]:
    """The command line as the options of :func:`mast3r_runtime.scene.reconstruct`."""
    from .._pictures import masks
    from .._pictures.header import read
    from .._pictures.names import Names
    from .._scene import given

    names = Names(found)
    sizes = {}
    if arguments.intrinsics:
        headers = [read(name, path) for name, path in found.items()]
        sizes = {h.name: (h.width, h.height) for h in headers if not h.problem}
    return {
        "graph": arguments.graph,
        "pairs": _pairs(arguments.pairs, found) if arguments.pairs else None,
        "camera": arguments.camera,
        "camera_model": arguments.camera_model,
        "focal_from": arguments.focal_from,
        "intrinsics": given.intrinsics(arguments.intrinsics, sizes, names) if arguments.intrinsics else None,
        "refine_intrinsics": arguments.refine_intrinsics,
        "poses": given.poses(arguments.poses, names) if arguments.poses else None,
        "fix_poses": arguments.fix_poses,
        "mapper": arguments.mapper,
        "stride": arguments.stride,
        "min_inliers": arguments.min_inliers,
        "scale": given.scale(arguments.scale_from, names),
        "up": arguments.up,
        "masks": masks.find(arguments.masks, dict(found)) if arguments.masks else None,
        "dense": arguments.dense == "all",
        "dense_conf": arguments.dense_conf,
        "features": arguments.features,
        "covariance": arguments.covariance,
        "seed": arguments.seed,
        "threads": arguments.threads or -1,
    }


def _pairs(path: Path, found: Mapping[str, Path]) -> list[tuple[str, str]]:
    from .._pairs.folder import read_pairs

    names = list(found)
    return [(names[i], names[j]) for i, j in read_pairs(path, found, others=True)]


def _reconstruct(arguments: argparse.Namespace) -> int:
    from .._pictures.find import find
    from .._scene import files
    from .._scene.album import plan

    found = find(arguments.pictures, arguments.recursive, arguments.out)
    options = _options(arguments, found)
    formats = [name for name in files.FORMATS if name != "html" or arguments.html]
    with held_folder(arguments, files.SECTION, "reconstruct") as out:
        album = plan(found, out)
        out.claim([*files.targets(list(found), formats), *album.targets()])
        options["database"] = None
        if arguments.keep_database:
            out.claim(["database.db"])
            options["database"] = out.stage / "database.db"
        scene = _solved(arguments, out, found, options)
        if "network" in scene.report:  # cameras of a network of many views, as they are
            return show_views(arguments, scene, out, album)
        files.write_into(
            scene, out, formats, int(arguments.max_dense), copy_images=arguments.copy_images,
            keep_gps=arguments.keep_gps, album=album,
        )  # fmt: skip
    say_left_out(found.left_out)
    for line in _warnings(scene):
        print(f"mast3r: {line}", file=sys.stderr)
    _say_scene(arguments, scene)
    if arguments.open and arguments.html:
        look(arguments, arguments.out / "scene.html")
    return NOT_STRICT if arguments.strict and len(scene.placed) < len(scene.pictures) else 0


def _say_size(engine: Engine, found: Found, options: dict[str, Any], step: str, total: int) -> None:
    """Say once how large the run is, before its first pair."""
    if step != "pairs":
        return
    from .._pairs.rule import stride_for
    from .._scene.budget import estimate

    count = len(found)
    need = memory_of(engine)
    most = need["total"] + estimate(engine, count, total, options["stride"] or stride_for(count)).bytes
    free = f"; {need['limit']} leaves {size_of(need['free'])}" if need["limit"] else ""
    text = f"{count} pictures, {total} pairs, about {size_of(most)} of memory at the most{free}"
    print(f"mast3r: {text}", file=sys.stderr, flush=True)


def _solved(arguments: argparse.Namespace, out: OutFolder, found: Found, options: dict[str, Any]) -> Scene:
    from .._scene.files import write_failure
    from .._scene.reconstruct import reconstruct
    from ..errors import SceneError

    with ExitStack() as stack:
        engine = stack.enter_context(open_engine(arguments))
        matcher = _matcher(arguments, engine, stack)
        if matcher is None and not engine.info()["desc_dim"]:
            return reconstruct(engine, found, **options)
        pairs_by = engine if matcher is None or isinstance(matcher, str) else matcher
        bars = stack.enter_context(
            Steps(lambda step, total: _say_size(pairs_by, found, options, step, total))
        )
        store = arguments.store or out.path / ".cache"
        try:
            return reconstruct(engine, found, store=store, progress=bars, matcher=matcher, **options)
        except SceneError as error:
            if error.report is not None:
                print(f"mast3r: the report is {write_failure(out, error.report)}", file=sys.stderr)
            raise


def _matcher(arguments: argparse.Namespace, engine: Engine, stack: ExitStack) -> Engine | str | None:
    """What refines, by its matches, the cameras of a network that has none."""
    if engine.info()["desc_dim"] or arguments.matcher == "none":
        return None
    if arguments.matcher == "sift":
        return "sift"
    wanted: Path | None = Path(arguments.matcher)
    if arguments.matcher == "auto":
        ready = {model.variant for model in status() if model.ready}
        wanted = Path("mast3r_vit_large") if "mast3r_vit_large" in ready else None  # the wheel's
    own = {**vars(arguments), "variant": "auto", "model": wanted}
    return stack.enter_context(open_engine(argparse.Namespace(**own)))


def _warnings(scene: Any) -> list[str]:
    out = not_placed(scene)
    if len(scene.components) > 1:
        named = [", ".join(map(shown, c.names[:6])) for c in scene.components]
        parts = "; ".join(f"{k}: {names}" for k, names in enumerate(named))
        out.append(
            f"{len(scene.components)} components that share no pictures, each in a world of its own: {parts}"
        )
    for k, component in enumerate(scene.components):
        if component.unstable:
            out.append(f"component {k} is unstable: {component.unstable}")
    out += [shown(note) for note in scene.report.get("notes", [])]
    empty = [p for p in scene.placed if p.depth is not None and not p.depth.keep.any()]
    if empty and len(empty) == len([p for p in scene.placed if p.depth is not None]):
        most = max(float(p.depth.confidence.max()) for p in empty)
        out.append(
            f"no dense point was kept: the network's confidence is {most:.2f} at most, or no neighbour "
            "agrees; a lower --dense-conf keeps more, and what it keeps is less exact"
        )
    return out


def _say_scene(arguments: argparse.Namespace, scene: Any) -> None:
    report = scene.report
    main = scene.components[0]
    lengths = len(main.model.seen) / max(len(main.model.points), 1)
    number = len(report.get("cameras", ()))  # none in a scene of before
    how = {0: "", 1: " of one camera"}.get(number, f" of {number} cameras")
    text = (
        f"{len(scene.placed)} of {len(scene.pictures)} pictures{how} placed by the mapper {main.mapper}; "
        f"{len(main.model.points)} points, {lengths:.1f} pictures each; {report['seconds']['total']:.0f} s "
        f"({report['encoded']} encoded, {report['decoded']} decoded). {scene.scale.sentence()}\n"
        f"Look at {arguments.out / 'scene.html' if arguments.html else arguments.out / 'scene.glb'}; "
        f"COLMAP's model is in {arguments.out / 'sparse' / '0'}, nerfstudio's "
        f"in {arguments.out / 'transforms.json'}"
    )
    say(arguments, report, text)


def demo_scene(engine: Engine, arguments: argparse.Namespace, scores: dict[str, Any], out: OutFolder) -> bool:
    """The demo's last part: a scene of rendered views, and how far it is from the truth; whether it is."""
    from .._files.folder import OutFolder
    from .._output.html import write_html
    from .._scene import files, known
    from .._scene.reconstruct import reconstruct
    from ..errors import DependencyError

    folder = arguments.out / "scene"
    with OutFolder(folder, files.SECTION, "demo", wait=arguments.wait) as place:
        place.claim(files.targets([path.name for path in known.paths()], _DEMO_FORMATS))
        try:
            scene = reconstruct(engine, known.paths())
        except DependencyError as error:
            note(arguments, f"Scene: left out, {error}")
            return False
        rated = known.rate(scene)
        scores["scene"] = {**vars(rated), "seconds": scene.report["seconds"]}
        files.write_into(scene, place, _DEMO_FORMATS)
    write_html(out.stage / "scene.html", scene, title="The demo's room")
    note(arguments, f"Scene (rendered views): {rated.text()}; {scene.report['seconds']['total']:.0f} s")
    return True


def _given_lens(text: str, picture: Path) -> Any:
    """The camera of a picture from ``--intrinsics``."""
    from .._pictures.header import read
    from .._pictures.names import Names
    from .._scene import given
    from ..errors import ImageError

    header = read(picture.name, picture)
    if header.problem:
        raise ImageError(f"{picture}: {header.problem}")
    names = Names({picture.name: picture})
    return given.intrinsics(text, {picture.name: (header.width, header.height)}, names)[picture.name]


def _localize(arguments: argparse.Namespace) -> int:
    from .._scene.scene import Scene

    scene = Scene.load(arguments.scene)
    lens = _given_lens(arguments.intrinsics, arguments.picture) if arguments.intrinsics else None
    if not arguments.resolution:  # at another one no match begins at the scene's own key points
        arguments.resolution = int(scene.report.get("engine", {}).get("resolution", 0))
    with open_engine(arguments) as engine:
        found = scene.localize(engine, arguments.picture, lens)
    values = {
        "reason": found.reason,
        "pose": None if found.pose is None else found.pose.tolist(),
        "intrinsics": None if found.intrinsics is None else found.intrinsics.tolist(),
        "inliers": found.inliers,
        "matches": found.matches,
        "best": found.best,
        "component": found.component,
        "covariance": None if found.covariance is None else found.covariance.tolist(),
        "interval": found.interval,
        "focal_from": found.focal_from,
    }
    if found.pose is None:
        text = f"{found.reason}: {found.inliers} inliers of {found.matches} matches, best with {found.best}"
    else:
        # four digits; of coordinates of maps those behind the point as well
        place = " ".join(f"{v:.3f}" if abs(v) >= 1000 else f"{v:.4g}" for v in found.pose[:3, 3])
        text = (
            f"at {place} {scene.scale.unit} in component {found.component}: "
            f"{found.inliers} inliers of {found.matches} matches, best with {found.best}"
        )
    say(arguments, values, text)
    return 0 if found.pose is not None else NOT_LOCATED


def _live(arguments: argparse.Namespace, shown: Any) -> int:
    """Serve until Ctrl-C."""
    from .._output.live import serve

    server = serve(shown, arguments.port, int(arguments.max_points), arguments.thumb)
    address = f"http://{server.get_host()}:{server.get_port()}"
    say(arguments, {"address": address}, f"{address}, until Ctrl-C")
    if arguments.open:
        webbrowser.open(address)
    server.sleep_forever()
    return 0


def _view(arguments: argparse.Namespace) -> int:
    from .._files.folder import OutFolder
    from .._files.single import single
    from .._output.html import write_html
    from .._output.sources import points_page, result_page
    from .._scene.files import SECTION
    from .._scene.scene import Scene
    from ..errors import ArgumentError, quoted

    source: Path = arguments.source
    suffix = source.suffix.lower()
    beside = source.with_suffix(".html") if suffix else source
    if not source.is_dir() and suffix not in (".ply", ".glb", ".npz"):
        raise ArgumentError(f"view {quoted(source)}: want a folder of reconstruct, result.npz, .ply or .glb")
    own = source.is_dir() and arguments.out is None
    target: Path = source / "scene.html" if own else arguments.out or beside
    if not own and not arguments.live:
        single(target, (".html", ".htm"), [source], arguments.overwrite)
    shown: Any
    if source.is_dir():
        shown = Scene.load(source).page(source.resolve().name)
    elif suffix == ".npz":
        shown = result_page(source, source.resolve().parent.name)
    else:
        shown = points_page(source)
    if arguments.live:
        return _live(arguments, shown)
    options = {"max_points": int(arguments.max_points), "thumb": arguments.thumb}
    if own:  # a file of the scene: it goes where the scene's others are listed
        with OutFolder(source, SECTION, "view", wait=arguments.wait) as out:
            out.claim(["scene.html"])
            write_html(out.stage / "scene.html", shown, **options)
            out.finish(key=out.earlier().key, add=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_html(target, shown, **options)
    size = target.stat().st_size
    say(
        arguments,
        {"page": str(target), "bytes": size},
        f"{target}: {size / 2**20:.1f} MiB, works without a network",
    )
    if arguments.open:
        look(arguments, target)
    return 0
