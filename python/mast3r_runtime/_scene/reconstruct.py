# SPDX-License-Identifier: Apache-2.0
"""N pictures to one scene: the way of the data, step by step."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._engine.engine import Engine
from .._engine.index import scene_pairs
from .._library.version import __version__
from .._pairs.heads import find_beside, need_retrieval
from .._pairs.retrieve import default_graph, retrieve
from .._pairs.rule import stride_for
from .._pictures.arrays import U8
from .._pictures.find import Found, find
from .._pictures.header import Photo, read, why
from .._pictures.masks import Mask
from .._pictures.reading import pixels_of
from .._store.store import Store
from ..errors import ArgumentError, ImageError, SceneError, checked, quoted, shown
from . import cameras as lenses
from . import dense, gauge, memo, sift, solver, start, uncertainty
from .budget import estimate
from .dense import DepthMap
from .evidence import Evidence, gather
from .model import F64, Model
from .options import ImagePath, Options, fitted, unused
from .parts import TWIN, Component, Picture
from .problem import Problem, pycolmap
from .scene import Scene
from .tracks import hidden_shares, key_points

__all__ = ["Options", "reconstruct"]

COMPLETE_UP_TO = 40  # pictures
MANY_WRONG, SHARE_WRONG = 5, 0.15  # contradicted pairs, from which on it is said


@checked
def reconstruct(
    engine: Engine,
    images: ImagePath | Sequence[ImagePath] | Mapping[str, ImagePath],
    *,
    store: str | os.PathLike[str] | Store | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    limit: int | None = None,
    database: str | os.PathLike[str] | None = None,
    matcher: Engine | str | None = None,
    **options: Any,
) -> Scene:
    """Place the cameras of pictures and build the scene. Needs the extra ``scene``.

    Parameters
    ----------
    engine : Engine
        With a model loaded. A network of many views, which has no descriptors, gives the cameras
        to start from, or takes those of ``poses`` and ``intrinsics``; ``matcher`` then gives the
        matches by which they are refined. Without a matcher the scene is that of
        :meth:`.Engine.infer_views`.
    images : a path, paths, or a mapping of names to paths
        Files or folders; in a mapping files alone. Arrays have no name and no header; write them
        to files first. A file that cannot be read is "unreadable", with the reason, and the rest goes on.
    store : folder or Store, optional
        Where features and matches are kept, so that a second run computes nothing twice and a
        stopped one goes on. A temporary folder when left out.
    progress : callable, optional
        Called with the step ("pairs", "verify"), how much is done, and how much there is.
    limit : int, optional
        Bytes of memory that may be used; the default is what the machine has free.
    database : path, optional
        Where to keep COLMAP's database of key points, matches and verified pairs.
    matcher : Engine or "sift", optional
        Beside an ``engine`` of many views: with a MASt3R model loaded, or SIFT, which needs the
        extra ``sift``.
    **options
        The fields of :class:`Options`.

    Returns
    -------
    Scene

    Raises
    ------
    DependencyError
        pycolmap is not installed, or OpenCV, for ``matcher="sift"``.
    SceneError
        Fewer than two readable pictures, or no pair that holds. Its ``report`` has the reasons.
    ArgumentError
        An option out of its range, or more memory needed than there is.
    """
    chosen = Options(**options)
    found = _found(images)
    started = time.monotonic()
    info = engine.info()
    many = info["ready"] and not info["desc_dim"]
    if matcher is not None and info["ready"]:
        start.check(matcher, many)
    if not many or matcher is not None:
        pycolmap()  # before the work, in case it is missing
    looked: Scene | None = None
    headers = [read(name, path) for name, path in found.items()]
    chosen = fitted(chosen, headers)
    if many:
        if matcher is None and (idle := [*unused(chosen), *["database"] * (database is not None)]):
            raise ArgumentError(f"{', '.join(idle)}: of no use without a matcher: the scene is the network's")
        if chosen.scale != "network":
            raise ArgumentError("scale: lengths are those of the network's cameras, where the scene starts")
        looked = start.look(engine, headers, chosen.poses, chosen.intrinsics)
        if matcher is None:
            return start.finished(looked, chosen.masks or {}, found.left_out)
        chosen = replace(chosen, **start.cameras(looked, chosen.intrinsics, chosen.refine_intrinsics))
        engine = engine if isinstance(matcher, str) else matcher
    with ExitStack() as stack:
        if store is None:
            store = stack.enter_context(tempfile.TemporaryDirectory(prefix="mast3r-store-"))
        keep = store if isinstance(store, Store) else Store(store)
        run = _Run(engine, chosen, keep, progress or (lambda *_: None), limit, started)
        run.database = None if database is None else Path(database)
        if looked is not None and matcher == "sift":
            run.sift_on = looked.pictures
        run.found = found
        return run.run(headers)


def _found(images: ImagePath | Sequence[ImagePath] | Mapping[str, ImagePath]) -> Found:
    if isinstance(images, Found):
        return images
    if isinstance(images, Mapping):
        return Found({str(name): Path(path) for name, path in images.items()})
    return find(images)


class _Lost(Exception):
    """A picture that matched can no longer be read: the scene is solved again without it."""

    def __init__(self, picture: int, reason: str) -> None:
        self.picture, self.reason = picture, reason
        super().__init__(reason)


class _Run:
    """One reconstruction; ``timing`` fills up on the way."""

    def __init__(
        self,
        engine: Engine,
        options: Options,
        store: Store,
        progress: Callable[[str, int, int], None],
        limit: int | None,
        started: float,
    ) -> None:
        self.engine, self.options, self.store = engine, options, store
        self.progress, self.limit = progress, limit
        self.database: Path | None = None
        # The pictures of a network of many views, where SIFT matches them.
        self.sift_on: Mapping[str, Picture] | None = None
        self.timing: dict[str, float] = {}
        self.cameras: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.found = Found({})
        self.lost: dict[int, str] = {}  # pictures that cannot be read any more, by their number in used
        self.started = self.at = started

    def run(self, headers: Sequence[Photo]) -> Scene:
        self.lap("headers")
        used, twins = _distinct(headers)
        if len(used) < 2:
            raise self.failed(headers, twins, f"{len(used)} readable pictures that differ, want at least 2")
        count = len(used)
        self.stride = stride = self.options.stride or stride_for(count)
        pairs = self.graph(used)
        if not pairs:
            raise self.failed(headers, twins, f"graph {self.options.graph!r}: no pairs")
        estimate(self.engine, count, len(pairs), stride).check(self.limit, self.options.graph)
        step = _Ticks(self.progress, "pairs", len(pairs))
        if self.sift_on is not None:
            evidence = sift.gather(used, pairs, self.store, self.sift_on, step)
        else:
            evidence = gather(
                self.engine, used, pairs, self.store, stride=stride, features=self.options.features, tick=step
            )
        evidence.lost |= self.lost
        self.lap("network")
        while True:
            try:
                return self.solved(headers, used, twins, evidence)
            except _Lost as lost:
                evidence.lost[lost.picture] = lost.reason
                evidence.forget_lost()

    def solved(
        self, headers: Sequence[Photo], used: Sequence[Photo], twins: Mapping[str, str], evidence: Evidence
    ) -> Scene:
        gone = {used[i].name: reason for i, reason in evidence.lost.items()}
        gone |= {n: f"the same file as {first}: {gone[first]}" for n, first in twins.items() if first in gone}
        headers = [replace(h, problem=gone.get(h.name, h.problem)) for h in headers]
        problem = self.problem(used, evidence)
        tick = _Ticks(self.progress, "verify", len(evidence.pairs))
        answer = memo.solve(
            self.store, problem, self.options.mapper, self.options.covariance, tick, self.lap, self.database
        )
        self.notes = answer.solved.notes
        self.lap("solve")
        hidden = hidden_shares(evidence.pairs, self.masks(used))
        reasons = _reasons(problem, answer.verified, answer.solved, hidden)
        if not answer.solved.models:
            raise self.failed(headers, twins, "no pair of pictures holds", used, reasons)
        return self.scene(headers, used, twins, evidence, answer, reasons)

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.timing[name] = round(now - self.at, 3)
        self.at = now

    def graph(self, used: Sequence[Photo]) -> list[tuple[int, int]]:
        """Pairs i < j, each once."""
        options, count = self.options, len(used)
        if options.pairs is not None:
            number = {photo.name: i for i, photo in enumerate(used)}  # unreadable ones are in none
            known = [(number[a], number[b]) for a, b in options.pairs if a in number and b in number]
        else:
            known = [(a, b) for a, b in self.scene_pairs(used)]
        return sorted({(min(p), max(p)) for p in known if p[0] != p[1] and max(p) < count})

    def scene_pairs(self, used: Sequence[Photo]) -> list[tuple[int, int]]:
        graph, count = self.options.graph, len(used)
        head = find_beside(self.engine.path, "retrieval")
        if graph == "auto":
            graph = "complete" if count <= COMPLETE_UP_TO else "logwin-5"
            if count > COMPLETE_UP_TO and head is not None:
                graph = default_graph(count)
        if not graph.startswith("retrieval"):
            return [(p.first, p.second) for p in scene_pairs(count, graph)]
        self.engine.load_retrieval(need_retrieval(self.engine.path, None))
        codebook = find_beside(self.engine.path, "codebook")
        paths: list[Any] = [str(photo.path) for photo in used]
        found = retrieve(self.engine, paths, codebook, graph, store=self.store, on_error=self.lose)
        return [(found.kept[p.first], found.kept[p.second]) for p in found.pairs]

    def lose(self, picture: int, error: ImageError) -> None:
        self.lost[picture] = why(error)

    def problem(self, used: Sequence[Photo], evidence: Evidence) -> Problem:
        options = self.options
        given = {i: lens for i, p in enumerate(used) if (lens := (options.intrinsics or {}).get(p.name))}
        planned = lenses.plan(
            used, evidence.focals, options.camera, options.camera_model, given, options.focal_from,
            options.refine_intrinsics,
        )  # fmt: skip
        held = {planned.of[i] for i in given}
        self.cameras = [
            {
                "pictures": [p.name for p, of in zip(used, planned.of) if of == c],
                "size": [lens.width, lens.height],
                "turned": [used[i].name for i in sorted(planned.turned) if planned.of[i] == c],
                "first_focal": round(lens.focal, 3),
                "focal_from": "given" if c in held else "exif" if c in planned.known else "points",
                "kept": c in planned.fixed,
            }
            for c, lens in enumerate(planned.lenses)
        ]  # fmt: skip
        masks = self.masks(used)
        pixel = [evidence.pixel.get(i, 1.0) for i in range(len(used))]
        return Problem(
            [p.name for p in used], key_points(len(used), evidence.pairs, masks), planned.lenses, planned.of,
            planned.fixed, planned.known, pixel, options.seed, options.threads, options.min_inliers,
            self.given_poses(used), options.fix_poses, planned.turned, planned.open, planned.others,
        )  # fmt: skip

    def masks(self, used: Sequence[Photo]) -> dict[int, Mask]:
        """By number: where to look."""
        masks = self.options.masks or {}
        return {i: np.asarray(masks[p.name], bool) for i, p in enumerate(used) if p.name in masks}

    def given_poses(self, used: Sequence[Photo]) -> dict[int, F64]:
        """Camera from world, by number."""
        poses = self.options.poses or {}
        return {i: np.asarray(np.linalg.inv(poses[p.name])) for i, p in enumerate(used) if p.name in poses}

    def scene(
        self,
        headers: Sequence[Photo],
        used: Sequence[Photo],
        twins: Mapping[str, str],
        evidence: Evidence,
        answer: memo.Answer,
        reasons: Mapping[int, str],
    ) -> Scene:
        solved = answer.solved
        ratios = [gauge.depth_ratios(m, evidence.depth, evidence.transforms) for m in solved.models]
        scale = self.scale(used, ratios[0], solved)
        models, scales, weak = [], [], []
        for k, model in enumerate(solved.models):
            own = scale if k == 0 else self.component_scale(ratios[k], scale)
            given = bool(self.options.poses)
            models.append(model if given else gauge.place(model, own.value, self.options.up == "auto"))
            scales.append(own.value)
            weak.append(solved.unstable.get(k) or ("" if given else gauge.misfit(ratios[k])))
        placed: dict[int, Picture] = {}
        coloured = []
        for k, model in enumerate(models):
            model, pictures = self.pictures(k, model, used, evidence, weak[k])
            coloured.append(model)
            placed.update(pictures)
        for i, matrix in answer.covariance.items():
            k = placed[i].component
            before, after = (m[k].poses[m[k].row(i)] for m in (solved.models, models))
            placed[i] = replace(placed[i], covariance=uncertainty.moved(matrix, before, after, scales[k]))
        self.lap("dense")
        names = {i: p.name for i, p in enumerate(used)}
        result = _all_pictures(headers, used, twins, placed, reasons)
        order = {name: n for n, name in enumerate(result)}
        components = tuple(
            Component(
                tuple(names[int(i)] for i in model.pictures), model.mapper, weak[k],
                _renumbered(model, [order[p.name] for p in used]),
            )
            for k, model in enumerate(coloured)
        )  # fmt: skip
        report = self.report(result, evidence, answer.verified, names, scale, components)
        return Scene(result, components, scale, report)

    def scale(self, used: Sequence[Photo], ratios: gauge.Ratios, solved: solver.Solved) -> gauge.Scale:
        wanted, model = self.options.scale, solved.models[0]
        if self.options.poses:
            return gauge.Scale(1.0, "poses", 0.0, len(model.pictures))
        if wanted == "none":
            return gauge.Scale(1.0, "none", 0.0, 0)
        if wanted == "network":
            return gauge.network_scale(ratios)
        if isinstance(wanted, str):
            raise ArgumentError(f"scale {wanted!r}, want network, none, or two names and a distance")
        if isinstance(wanted, Mapping):
            places = {i: np.asarray(wanted[p.name]) for i, p in enumerate(used) if p.name in wanted}
            return gauge.scale_of_places(model, places)
        first, second, metres = wanted
        number = {p.name: i for i, p in enumerate(used)}
        inside = {int(i) for i in model.pictures}
        for name in (first, second):
            if number.get(name) not in inside:
                raise SceneError(f"scale: {quoted(name)} is not placed in the largest component")
        centres = model.centres()
        gap = centres[model.row(number[first])] - centres[model.row(number[second])]
        length = float(np.linalg.norm(gap))
        if not (metres > 0 and length > 0):
            raise ArgumentError(f"scale: {metres} m between {first} and {second}, want above 0")
        return gauge.Scale(metres / length, "known", 0.0, 2)

    @staticmethod
    def component_scale(ratios: gauge.Ratios, first: gauge.Scale) -> gauge.Scale:
        """Further components share nothing with the first: only the network knows their size."""
        if first.source in ("none", "poses"):
            return gauge.Scale(1.0, first.source, 0.0, 0)
        return gauge.network_scale(ratios)

    def pictures(
        self, number: int, model: Model, used: Sequence[Photo], evidence: Evidence, weak: str
    ) -> tuple[Model, dict[int, Picture]]:
        """The pictures of a component with their dense depth, and its points with their colours."""
        ratios = gauge.depth_ratios(model, evidence.depth, evidence.transforms)
        colours = np.zeros((len(model.points), 3))
        maps: dict[int, DepthMap] = {}
        masks = self.masks(used)
        errors = model.errors()
        for i in (int(p) for p in model.pictures):
            try:
                image = pixels_of(used[i].path, used[i].sha256)
            except ImageError as error:
                raise _Lost(i, why(error)) from error
            own = model.seen_by == i
            np.add.at(colours, model.seen[own], _colours(image, model.seen_at[own]))
            if self.options.dense and i in ratios:
                t = evidence.transforms[i]
                bent = dense.bend(evidence.depth[i], *ratios[i])
                confidence = evidence.confidence[i]
                good = (confidence >= self.options.dense_conf) & (bent > 0) & np.isfinite(bent)
                if i in masks:
                    good &= dense.at_network(masks[i], t)
                maps[i] = DepthMap(bent, confidence, good, dense.small(image, t), t)
        around = dense.neighbours(model)
        agreed = {i: maps[i].keep & dense.agreement(model, maps, i, around[i]) for i in maps}
        out = {}
        for k, i in enumerate(int(p) for p in model.pictures):
            depth = replace(maps[i], keep=agreed[i]) if i in maps else None
            own = model.seen_by == i
            out[i] = Picture(
                used[i].name, used[i].path, used[i].width, used[i].height, "unstable" if weak else "placed",
                weak, number, np.linalg.inv(model.poses[k]), model.lenses[k], None, int(own.sum()),
                float(np.median(errors[own])), depth,
            )  # fmt: skip
        shades = np.rint(colours / np.maximum(model.track_lengths(), 1)[:, None]).astype(np.uint8)
        return replace(model, colours=shades), out

    def report(
        self,
        pictures: Mapping[str, Picture],
        evidence: Evidence,
        verified: solver.Verified,
        names: Mapping[int, str],
        scale: gauge.Scale,
        components: Sequence[Component],
    ) -> dict[str, Any]:
        self.timing["total"] = round(time.monotonic() - self.started, 3)
        info = self.engine.info()
        kept = {n: float(p.depth.keep.mean()) for n, p in pictures.items() if p.depth is not None}
        return {
            "schema": 1,
            "made_by": f"mast3r-runtime {__version__}",
            "engine": {k: info[k] for k in ("name", "variant", "resolution", "precision")},
            "matches": "network" if self.sift_on is None else "sift",
            "pictures": {name: _row(p, kept.get(name)) for name, p in pictures.items()},
            "left_out": dict(self.found.left_out),
            "pairs": [
                {
                    "first": names[i],
                    "second": names[j],
                    "matches": verified.matches[i, j],
                    "inliers": n,
                    "contradicted": (i, j) in verified.contradicted,
                }
                for (i, j), n in verified.inliers.items()
            ],
            "components": [
                {
                    "pictures": c.names,
                    "mapper": c.mapper,
                    "points": len(c.model.points),
                    "unstable": c.unstable,
                }
                for c in components
            ],
            "cameras": self.cameras,
            "notes": [*self.notes, *_look_alikes(verified, self.options.min_inliers)],
            "scale": vars(scale),
            "stride": self.stride,
            "encoded": evidence.encoded,
            "decoded": evidence.decoded,
            "seconds": dict(self.timing),
        }

    def failed(
        self,
        headers: Sequence[Photo],
        twins: Mapping[str, str],
        text: str,
        used: Sequence[Photo] = (),
        reasons: Mapping[int, str] | None = None,
    ) -> SceneError:
        """The error with a report that names every picture."""
        result = _all_pictures(headers, used, twins, {}, reasons or {})
        known = [f"{shown(p.name)}: {p.reason}" for p in list(result.values())[:10] if p.reason]
        known_text = f" ({'; '.join(known)})" if known else ""
        error = SceneError(f"reconstruct: {text}{known_text}{self.found.why()}")
        rows = {name: _row(p, None) for name, p in result.items()}
        error.report = {
            "schema": 1, "error": text, "pictures": rows, "components": [],
            "left_out": dict(self.found.left_out),
        }  # fmt: skip
        return error


def _look_alikes(verified: solver.Verified, least: int) -> list[str]:
    """That many strong pairs contradict the others: places that look alike may have been taken for one."""
    strong = verified.enough(least)
    wrong = len(verified.contradicted & set(strong))
    if wrong < MANY_WRONG or wrong < SHARE_WRONG * len(strong):
        return []
    return [
        f"{wrong} of {len(strong)} pairs with enough matches contradict the others and were left out: places "
        "that look alike may have been taken for one another, and the scene may be wrong; look at it"
    ]


class _Ticks:
    """Counts calls and passes the count on."""

    def __init__(self, progress: Callable[[str, int, int], None], step: str, total: int) -> None:
        self.progress, self.step, self.total, self.done = progress, step, total, 0
        progress(step, 0, total)

    def __call__(self) -> None:
        self.done += 1
        self.progress(self.step, self.done, self.total)


def _distinct(headers: Sequence[Photo]) -> tuple[list[Photo], dict[str, str]]:
    """The readable pictures without copies, and for each copy the name of the first."""
    first: dict[str, str] = {}
    used, twins = [], {}
    for photo in headers:
        if photo.problem:
            continue
        if photo.sha256 in first:
            twins[photo.name] = first[photo.sha256]
            continue
        first[photo.sha256] = photo.name
        used.append(photo)
    return used, twins


def _reasons(
    problem: Problem, verified: solver.Verified, solved: solver.Solved, hidden: Mapping[int, float]
) -> dict[int, str]:
    """Why each picture that is in no component is in none. ``hidden`` are shares of matches under a mask."""
    placed = {int(i) for m in solved.models for i in m.pictures}
    passed = {i for pair in verified.passed(problem.least) for i in pair}
    out = {}
    for i in range(len(problem.names)):
        if i in placed:
            continue
        best = verified.best(i)
        with_whom = f"; best {best[0]} with {problem.names[best[1]]}" if best else ""
        if problem.poses and i not in problem.poses:
            out[i] = "no pose was given for it"
        elif i in solved.reasons:
            out[i] = solved.reasons[i]
        elif best is None:
            out[i] = "nothing in it matches another picture"
        elif i not in passed:
            out[i] = f"no pair with {problem.least} inliers{with_whom}"
        else:
            out[i] = f"matched, but the solver found no place for it{with_whom}"
        if hidden.get(i):
            out[i] += f"; {hidden[i]:.0%} of its matches are masked"
    return out


def _all_pictures(
    headers: Sequence[Photo],
    used: Sequence[Photo],
    twins: Mapping[str, str],
    placed: Mapping[int, Picture],
    reasons: Mapping[int, str],
) -> dict[str, Picture]:
    number = {p.name: i for i, p in enumerate(used)}
    out: dict[str, Picture] = {}
    for photo in headers:
        common = (photo.name, photo.path, photo.width, photo.height)
        i = number.get(twins.get(photo.name, photo.name), -1)
        if photo.problem:
            out[photo.name] = Picture(*common, "unreadable", photo.problem)
        elif i in placed and photo.name in twins:
            note = f"{TWIN}{twins[photo.name]}"
            out[photo.name] = replace(placed[i], name=photo.name, path=photo.path, reason=note, depth=None)
        elif i in placed:
            out[photo.name] = placed[i]
        else:
            out[photo.name] = Picture(*common, "unmatched", reasons.get(i, ""))
    return out


def _renumbered(model: Model, number: Sequence[int]) -> Model:
    """The same model with the numbers of all pictures, unreadable ones included."""
    table = np.array(number)
    return replace(model, pictures=table[model.pictures], seen_by=table[model.seen_by])


def _row(p: Picture, kept: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {"status": p.status, "reason": p.reason, "component": p.component}
    if p.pose is not None:
        assert p.lens is not None
        row["observations"] = p.observations
        row |= {"reprojection": round(p.reprojection, 4), "focal": round(p.lens.focal, 3)}
    if kept is not None:
        row["dense_kept"] = round(kept, 4)
    return row


def _colours(image: U8, xy: F64) -> F64:
    x = np.clip(np.rint(xy[:, 0]), 0, image.shape[1] - 1).astype(np.intp)
    y = np.clip(np.rint(xy[:, 1]), 0, image.shape[0] - 1).astype(np.intp)
    return image[y, x].astype(np.float64)
