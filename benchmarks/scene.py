# SPDX-License-Identifier: Apache-2.0
"""Scenes beside pycolmap fed by OpenCV's SIFT, on the same pictures, in one run: make scene-bench.

Rendered collections have exact cameras and depth, the real pair its calibration. The run fails
where a figure is outside the bounds that docs/scenes.md states. Each part's rows and bounds are
kept in OUT; with --resume those that are there are not measured again.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scene_views as views
from PIL import Image

import mast3r_runtime as m3r
from mast3r_runtime import scene as scenes
from mast3r_runtime._pictures import header
from mast3r_runtime._scene import budget, solver
from mast3r_runtime._scene.evidence import gather
from mast3r_runtime._scene.model import Lens, Model
from mast3r_runtime._scene.problem import Problem
from mast3r_runtime._scene.tracks import KeyPoints
from mast3r_runtime._store.store import Store

F64 = np.ndarray
FOCAL = views.room.FOCAL
Row = dict[str, Any]
checks: list[tuple[bool, str]] = []  # bounds of the part that runs: whether each holds, and what it is


@dataclass
class Truth:
    """World-from-camera poses by name; in metres."""

    poses: dict[str, F64]
    focal: float
    folder: Path


def rendered(folder: Path) -> tuple[Truth, Truth]:
    """The room of 16 views and the second room of 6."""
    out = []
    for place, cameras in (("room", views.room_views()), ("second", views.second_views())):
        poses = {}
        for name, (turn, centre) in zip(views.render(place, cameras, folder), cameras):
            poses[name] = np.eye(4)
            poses[name][:3, :3], poses[name][:3, 3] = turn, centre
        out.append(Truth(poses, FOCAL, folder))
    return out[0], out[1]


# ---- how good is it ------------------------------------------------------------------------


def similarity(source: F64, target: F64) -> tuple[float, F64, F64]:
    a, b = source - source.mean(0), target - target.mean(0)
    u, s, vt = np.linalg.svd(b.T @ a)
    e = np.diag([1, 1, np.sign(np.linalg.det(u @ vt))])
    turn = u @ e @ vt
    scale = float((s * np.diag(e)).sum() / (a**2).sum())
    return scale, turn, target.mean(0) - scale * turn @ source.mean(0)


def angle(a: F64) -> float:
    return float(np.degrees(np.arccos(np.clip((np.trace(a) - 1) / 2, -1, 1))))


def between(a: F64, b: F64) -> float:
    cosine = a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-12)
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


def rate(poses: dict[str, F64], focals: list[float], truth: Truth) -> dict[str, Any]:
    """Placed, position error (mm, after the best similarity), focal error, pair AUC over ALL pairs."""
    own = {n: p for n, p in poses.items() if n in truth.poses}
    errors = []
    names = sorted(truth.poses)
    for i, a in enumerate(names):
        for b in names[:i]:
            if a not in own or b not in own:
                errors.append(180.0)
                continue
            mine = np.linalg.inv(own[a]) @ own[b]
            true = np.linalg.inv(truth.poses[a]) @ truth.poses[b]
            errors.append(max(angle(mine[:3, :3].T @ true[:3, :3]), between(mine[:3, 3], true[:3, 3])))
    auc = {t: float(np.mean(np.maximum(0, 1 - np.array(errors) / t))) for t in (1, 5, 10)}
    row: dict[str, Any] = {"placed": len(own), "of": len(names), **{f"auc{t}": v for t, v in auc.items()}}
    if len(own) >= 3:
        est, tru = (np.array([p[n][:3, 3] for n in sorted(own)]) for p in (own, truth.poses))
        scale, turn, shift = similarity(est, tru)
        left = scale * est @ turn.T + shift - tru
        row["ate_mm"] = 1000 * float(np.sqrt((left**2).sum(1).mean()))
        row["scale"] = scale
    if focals:
        row["focal_error"] = float(np.median(focals)) / truth.focal - 1
    return row


def dense_error(engine: Any, scene: scenes.Scene, truth: Truth, row: Row, store: Path) -> None:
    """Put the errors of dense depth into a row: medians over the kept pixels, relative to truth.

    ``dense_error`` is that of the scene after scaling to truth, ``network_error`` that of the
    network's own depth times the best factor for each picture, on the same pixels.
    """
    quads = views.quads_of("room")
    with_depth = [p for p in scene.placed if p.depth is not None and p.name in truth.poses]
    network = network_depth(engine, scene, store)
    errors, alone, kept = [], [], []
    for p in with_depth[:: max(1, len(with_depth) // 16)]:  # true depth is as slow as a picture
        assert p.depth is not None
        true = views.depth(quads, (truth.poses[p.name][:3, :3], truth.poses[p.name][:3, 3]))
        h, w = p.depth.depth.shape
        grid = np.stack(np.meshgrid(np.arange(w), np.arange(h)), -1)
        xy = np.rint(p.depth.transform.to_original(grid)).astype(int)
        there = true[np.clip(xy[..., 1], 0, true.shape[0] - 1), np.clip(xy[..., 0], 0, true.shape[1] - 1)]
        keep = p.depth.keep & np.isfinite(there)
        there, own = there[keep], network[p.name][keep]
        errors.append(np.median(np.abs(p.depth.depth[keep] * row["scale"] - there) / there))
        alone.append(np.median(np.abs(own * np.median(there / own) - there) / there))
        kept.append(p.depth.keep.mean())
    row["dense_error"], row["network_error"] = float(np.median(errors)), float(np.median(alone))
    row["dense_kept"] = float(np.mean(kept))


def network_depth(engine: Any, scene: scenes.Scene, store: Path) -> dict[str, F64]:
    """The network's depth of each picture, as the scene was made of it, from the store."""
    used = [header.read(p.name, p.path) for p in scene.pictures.values()]
    number = {p.name: i for i, p in enumerate(used)}
    pairs = [(number[p["first"]], number[p["second"]]) for p in scene.report["pairs"]]
    evidence = gather(engine, used, pairs, Store(store), stride=8)
    assert (evidence.encoded, evidence.decoded) == (0, 0)
    return {used[i].name: np.asarray(depth, np.float64) for i, depth in evidence.depth.items()}


# ---- ours and SIFT -------------------------------------------------------------------------


def ours(engine: Any, paths: list[Path], store: Path, **options: Any) -> tuple[scenes.Scene | None, float]:
    started = time.perf_counter()
    try:
        scene = scenes.reconstruct(engine, {p.name: p for p in paths}, store=store, **options)
    except m3r.errors.SceneError:
        return None, time.perf_counter() - started
    return scene, time.perf_counter() - started


def placed(scene: scenes.Scene | None) -> tuple[dict[str, F64], list[float]]:
    """Poses of the largest component, and its focal lengths."""
    mine = [p for p in scene.placed if p.component == 0] if scene else []
    return {p.name: p.pose for p in mine if p.pose is not None}, [p.lens.focal for p in mine if p.lens]


def sift(paths: list[Path], pairs: list[tuple[int, int]], threads: int) -> tuple[Model | None, float]:
    """OpenCV's SIFT, mutual nearest neighbours with ratio 0.8, then the same pycolmap."""
    import cv2

    started = time.perf_counter()
    cv2.setNumThreads(threads)
    found = []
    for path in paths:
        grey = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2GRAY)
        found.append(cv2.SIFT_create(8192, contrastThreshold=0.02).detectAndCompute(grey, None))
    matcher, matches = cv2.BFMatcher(cv2.NORM_L2), {}
    for i, j in pairs:
        if min(len(found[i][0]), len(found[j][0])) < 2:
            continue
        forward = matcher.knnMatch(found[i][1], found[j][1], k=2)
        back = {m.queryIdx: m.trainIdx for m in matcher.match(found[j][1], found[i][1])}
        good = [(m.queryIdx, m.trainIdx) for m, n in forward if m.distance < 0.8 * n.distance]
        mutual = [(a, b) for a, b in good if back.get(b) == a]
        if mutual:
            matches[i, j] = np.array(mutual, np.uint32)
    xy = [np.array([k.pt for k in keys]).reshape(-1, 2) for keys, _ in found]
    width, height = Image.open(paths[0]).size
    # COLMAP's own first guess of a focal length
    lens = Lens(
        "SIMPLE_PINHOLE", width, height, (1.2 * max(width, height), (width - 1) / 2, (height - 1) / 2)
    )
    problem = Problem(
        [p.name for p in paths], KeyPoints(xy, matches), (lens,), (0,) * len(paths), frozenset(), {},
        (2.0,) * len(paths), 0, threads,
    )  # fmt: skip
    solved = solver.solve(problem, solver.verify(problem))
    return (solved.models[0] if solved.models else None), time.perf_counter() - started


def row_of_sift(model: Model | None, paths: list[Path], truth: Truth) -> dict[str, Any]:
    poses, focals = {}, []
    for k, i in enumerate(model.pictures if model else ()):
        poses[paths[int(i)].name] = np.linalg.inv(model.poses[k])
        focals.append(model.lenses[k].focal)
    return rate(poses, focals, truth)


def need(what: str, good: bool, got: object) -> None:
    """Write down a bound and whether it holds."""
    print(f"  {'ok  ' if good else 'FAIL'} {what}: {got}", flush=True)
    checks.append((bool(good), f"{what}: {got}"))


# ---- the parts -----------------------------------------------------------------------------


def the_room(engine: Any, room: Truth, out: Path, threads: int, graph: str) -> list[Row]:
    """16 views by all pairs, a window of 3, or neighbours alone; ours and SIFT."""
    paths = [room.folder / n for n in sorted(room.poses)]
    bounds = {"complete": (5, 0.93, 75), "swin-3": (5, 0.91, 25), "swin-1": (15, None, None)}
    most, auc, longest = bounds[graph]
    store = out / "store" / graph
    shutil.rmtree(store, ignore_errors=True)
    worked = time.process_time()
    scene, seconds = ours(engine, paths, store, graph=graph, threads=threads)
    worked = time.process_time() - worked
    assert scene is not None
    row: Row = {"set": "room", "graph": graph, "by": "ours", **rate(*placed(scene), room)}
    row |= {"seconds": seconds, "cpu_seconds": worked, "steps": scene.report["seconds"]}
    dense_error(engine, scene, room, row, store)
    print(f"  {json.dumps(row)}", flush=True)
    if longest:
        need(f"{graph}: all in <= {longest} s on two idle cores", seconds <= longest, f"{seconds:.1f} s")
    need(f"{graph}: placed", row["placed"] == 16, f"{row['placed']} of 16")
    need(f"{graph}: position error <= {most} mm", row["ate_mm"] <= most, f"{row['ate_mm']:.2f} mm")
    need(f"{graph}: focal within 0.5 %", abs(row["focal_error"]) <= 5e-3, f"{row['focal_error']:+.3%}")
    if auc:
        need(f"{graph}: pair AUC@5 >= {auc}", row["auc5"] >= auc, f"{row['auc5']:.3f}")
        need(f"{graph}: dense error <= 3 %", row["dense_error"] <= 0.03, f"{row['dense_error']:.2%}")
    worked = time.process_time()
    again, _ = ours(engine, paths, store, graph=graph, threads=threads)
    worked = time.process_time() - worked
    assert again is not None
    work = (again.report["encoded"], again.report["decoded"])
    good = work == (0, 0) and worked < 5
    need(f"{graph}: a second run infers nothing, in less than 5 s", good, f"{work}, {worked:.1f} s")
    pairs = sorted({(min(p), max(p)) for p in m3r.scene_pairs(16, graph)})
    model, seconds = sift(paths, pairs, threads)
    other = {"set": "room", "graph": graph, "by": "SIFT", **row_of_sift(model, paths, room)}
    other["seconds"] = seconds
    print(f"  {json.dumps(other)}", flush=True)
    return [row, other]


def strangers(engine: Any, room: Truth, second: Truth, out: Path, threads: int) -> list[Row]:
    """Two rooms in one folder; then a room with noise and one picture of elsewhere."""
    store = out / "store" / "strangers"
    shutil.rmtree(store, ignore_errors=True)
    names = sorted(room.poses)[5:11]
    both = [room.folder / n for n in names] + [second.folder / n for n in sorted(second.poses)]
    scene, seconds = ours(engine, both, store, graph="complete", threads=threads)
    assert scene is not None
    groups = [sorted(c.names) for c in scene.components]
    want = [sorted(names), sorted(second.poses)]
    need("two rooms: two components, none mixed", sorted(groups) == sorted(want), [len(g) for g in groups])
    half = Truth({n: room.poses[n] for n in names}, FOCAL, room.folder)
    mine = {p.name: p.pose for p in scene.placed if p.name in half.poses and p.pose is not None}
    rows = [
        {"set": "two rooms", "graph": "complete", "by": "ours", **rate(mine, [], half), "seconds": seconds}
    ]
    noise = out / "noise.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (384, 512, 3), np.uint8)).save(noise)
    flat = out / "flat.png"
    Image.fromarray(np.full((384, 512, 3), 127, np.uint8)).save(flat)
    extra = [noise, flat, second.folder / sorted(second.poses)[0]]
    scene, _ = ours(
        engine, [room.folder / n for n in names] + extra, store, graph="complete", threads=threads
    )
    assert scene is not None
    lost = {p.name: p.reason for p in scene.pictures.values() if p.pose is None}
    need(
        "strangers: none placed, each with a reason",
        set(lost) == {p.name for p in extra} and all(lost.values()),
        lost,
    )
    need("strangers: the others placed", len(scene.placed) == 6, len(scene.placed))
    return rows


def mappers(engine: Any, room: Truth, out: Path, threads: int, seeds: int) -> list[Row]:
    """Both mappers, many seeds: no accepted picture is weak; the chain is solved by each."""
    paths = [room.folder / n for n in sorted(room.poses)]
    store, worst, wild, count = out / "store" / "swin-1", 10**9, 0.0, 0
    for mapper in ("incremental", "global"):
        for seed in range(seeds):
            chosen = paths if seed == 0 else paths[seed % 6 : seed % 6 + 8]
            scene, _ = ours(
                engine,
                chosen,
                store,
                graph="swin-1-noncyclic",
                mapper=mapper,
                seed=seed,
                dense=False,
                threads=threads,
            )
            if seed == 0:
                number = 0 if scene is None else len(scene.placed)
                need(f"chain by the {mapper} mapper", number == 16, f"{number} of 16")
            for p in scene.placed if scene else ():
                if p.status == "placed":
                    assert p.lens is not None
                    worst, count = min(worst, p.observations), count + 1
                    wild = max(wild, abs(np.log(p.lens.focal / FOCAL)))
    need(f"least observations of {count} accepted pictures >= 30", worst >= 30, worst)
    need(
        "focal lengths inside 0.3 to 5 long sides",
        FOCAL / np.exp(wild) > 0.3 * 512 and np.exp(wild) * FOCAL < 5 * 512,
        f"at most {np.exp(wild):.3f} x",
    )
    return []


def repeated(engine: Any, room: Truth, out: Path) -> list[Row]:
    """One seed and one solver thread: the same bytes."""
    paths, store = [room.folder / n for n in sorted(room.poses)[4:10]], out / "store" / "bits"
    files = []
    for k in range(2):
        scene, _ = ours(engine, paths, store, graph="complete", threads=1)
        assert scene is not None
        folder = out / f"bits-{k}"
        scene.write(folder, ["npz"])
        files.append((folder / "scene.npz").read_bytes())
    need("one seed, one thread: scene.npz byte for byte", files[0] == files[1], len(files[0]))
    return []


def real(engine: Any, out: Path, threads: int) -> list[Row]:
    """The motorcycle pair of scikit-image: a real stereo pair, rectified, calibrated."""
    import importlib.util

    spec = importlib.util.find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        print("  real pair left out: no scikit-image")
        return []
    data = Path(spec.submodule_search_locations[0]) / "data"
    paths = [data / f"motorcycle_{side}.png" for side in ("left", "right")]
    poses = {p.name: np.eye(4) for p in paths}
    poses[paths[1].name][0, 3] = 0.193001
    truth = Truth(poses, 994.978, data)
    rows = []
    for graph, engine_row in (("pair", True), ("pair", False)):
        if engine_row:
            scene, seconds = ours(engine, paths, out / "store" / "real", threads=threads)
            row = rate(*placed(scene), truth)
        else:
            model, seconds = sift(paths, [(0, 1)], threads)
            row = row_of_sift(model, paths, truth)
        rows.append(
            {
                "set": "motorcycle (real)",
                "graph": graph,
                "by": "ours" if engine_row else "SIFT",
                **row,
                "seconds": seconds,
            }
        )
    need("real pair: placed", rows[0]["placed"] == 2, f"{rows[0]['placed']} of 2")
    return rows


def large(engine: Any, out: Path, count: int, graph: str, threads: int) -> list[Row]:
    """A video's walk through the room: time by step, memory beside its estimate."""
    cameras, folder = views.walk(count), out / f"walk-{count}"
    poses = {}
    for name, (turn, centre) in zip(views.render("room", cameras, folder, samples=1), cameras):
        poses[name] = np.eye(4)
        poses[name][:3, :3], poses[name][:3, 3] = turn, centre
    truth = Truth(poses, FOCAL, folder)
    paths = [folder / n for n in sorted(poses)]
    pairs = len(m3r.scene_pairs(count, graph))
    said = budget.estimate(engine, count, pairs, 8).bytes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    worked = time.process_time()
    store = out / "store" / f"walk-{count}"
    scene, seconds = ours(engine, paths, store, graph=graph, threads=threads)
    wrote = time.monotonic()
    if scene is not None:
        scene.write(out / f"walk-{count}-scene")
    wrote = time.monotonic() - wrote
    worked = time.process_time() - worked
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    row = {"set": f"walk of {count}", "graph": graph, "by": "ours", **rate(*placed(scene), truth)}
    row |= {"seconds": seconds, "cpu_seconds": worked, "pairs": pairs}
    row |= {"memory": used, "memory_estimated": said}
    if scene is not None:
        row["steps"] = {**scene.report["seconds"], "write": round(wrote, 3)}
    print(f"  {json.dumps(row)}", flush=True)
    need(f"walk of {count}: placed", row["placed"] >= 0.98 * count, f"{row['placed']} of {count}")
    need(f"walk of {count}: position error <= 10 mm", row.get("ate_mm", 1e9) <= 10, row.get("ate_mm"))
    need("memory within the estimate", used <= said, f"{used / 2**20:.0f} of {said / 2**20:.0f} MiB")
    if scene is not None:
        dense_error(engine, scene, truth, row, store)
    return [row]


def table(rows: list[Row]) -> str:
    head = "pictures | graph | by | placed | position error | focal error | pair AUC@1/5/10 | "
    lines = [f"| {head}dense error, network alone (kept) | time |", "|---" * 9 + "|"]
    for r in rows:
        ate = f"{r['ate_mm']:.1f} mm" if "ate_mm" in r else "-"
        focal = f"{r['focal_error']:+.2%}" if "focal_error" in r else "-"
        deep = "-"
        if "dense_error" in r:
            deep = f"{r['dense_error']:.1%}, {r['network_error']:.1%} ({r['dense_kept']:.0%})"
        auc = "/".join(f"{r[f'auc{t}']:.3f}" for t in (1, 5, 10))
        lines.append(
            f"| {r['set']} | {r['graph']} | {r['by']} | {r['placed']} of {r['of']} | {ate} | {focal} | "
            f"{auc} | {deep} | {r['seconds']:.0f} s |"
        )
    return "\n".join(lines)


def measured(name: str, part: Callable[[], list[Row]], out: Path, resume: bool) -> list[Row]:
    """The rows of a part, and its bounds in ``checks``; from its file where it was measured before."""
    print(name, flush=True)
    file = out / "parts" / f"{name}.json"
    if resume and file.exists():
        kept = json.loads(file.read_text())
    else:
        before = len(checks)
        rows = part()
        kept = {"rows": rows, "checks": checks[before:]}
        del checks[before:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(kept, indent=1) + "\n")
    checks.extend((good, what) for good, what in kept["checks"])
    return list(kept["rows"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/scene-bench"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--large", type=int, default=0, metavar="N", help="N pictures as well, as 200")
    parser.add_argument("--large-graph", default="logwin-5")
    parser.add_argument("--quick", action="store_true", help="small sets and few seeds: that it works")
    parser.add_argument("--parts", help="only these, as complete,swin-3,walk")
    parser.add_argument("--resume", action="store_true", help="do not measure again what is in OUT")
    arguments = parser.parse_args()
    out, threads = arguments.out, arguments.threads
    seeds = 3 if arguments.quick else arguments.seeds
    out.mkdir(parents=True, exist_ok=True)
    room, second = rendered(out / "views")
    rows: list[Row] = []
    with m3r.Engine("auto", resolution=256, precision="fp32", num_threads=threads) as engine:
        engine.load()
        parts: dict[str, Callable[[], list[Row]]] = {}
        if arguments.large:  # first: it measures the peak of the process
            parts["walk"] = lambda: large(engine, out, arguments.large, arguments.large_graph, threads)
        for graph in ("complete", "swin-3", "swin-1")[1 if arguments.quick else 0 :]:
            parts[graph] = partial(the_room, engine, room, out, threads, graph)
        parts["strangers"] = lambda: strangers(engine, room, second, out, threads)
        parts["mappers"] = lambda: mappers(engine, room, out, threads, seeds)
        parts["repeated"] = lambda: repeated(engine, room, out)
        parts["real"] = lambda: real(engine, out, threads)
        chosen = arguments.parts.split(",") if arguments.parts else list(parts)
        unknown = set(chosen) - set(parts)
        if unknown:
            parser.error(f"parts {', '.join(sorted(unknown))}, want some of {', '.join(parts)}")
        for name in chosen:
            rows += measured(name, parts[name], out, arguments.resume)
    text = table(rows)
    print(text)
    broken = [what for good, what in checks if not good]
    (out / "scene.json").write_text(json.dumps({"rows": rows, "checks": checks}, indent=1) + "\n")
    (out / "table.txt").write_text(text + "\n")
    print("\n".join([f"{len(broken)} of {len(checks)} bounds broken", *broken]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
