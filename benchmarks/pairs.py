#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Matches, poses and verdicts of the model in the wheel beside OpenCV's SIFT and MAGSAC, in one run.

    python benchmarks/pairs.py [--sets graf,chess] [--doc FOLDER] [--out build/match-bench] [--quick]

Each method's matches go through OpenCV's MAGSAC (a homography for warped pictures, else a fundamental
matrix, 1.5 pixels); ours are those that were refined. Pose and corners come from the same estimator for
all, this project's own; so what differs is the matches, and that ours have covariances. "Cover" is the share
of the cells of a 16 x 16 grid, over what both pictures show, that hold a right match (3 pixels).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pairs_intervals
from pairs_sets import SETS, A, Pair, Sources, through

from mast3r_runtime import geometry
from mast3r_runtime._checkpoints.places import BUNDLED
from mast3r_runtime.backends._cpu import CPUEngine

ROOT = Path(__file__).resolve().parents[1]
DOC = Path("/usr/share/doc/opencv-doc/examples/data")
Row = dict[str, Any]


def sift(one: A, two: A) -> A:
    """Mutual nearest neighbours that pass the ratio test, [N, 4]."""
    detector = cv2.SIFT_create(enable_precise_upscale=True)
    (k1, d1), (k2, d2) = (
        detector.detectAndCompute(cv2.cvtColor(i, cv2.COLOR_RGB2GRAY), None) for i in (one, two)
    )
    if d1 is None or d2 is None or min(len(d1), len(d2)) < 2:
        return np.zeros((0, 4))
    matcher = cv2.BFMatcher(cv2.NORM_L2)
    back = {m.queryIdx: m.trainIdx for m in matcher.match(d2, d1)}
    rows = [
        (*k1[m.queryIdx].pt, *k2[m.trainIdx].pt)
        for m, n in matcher.knnMatch(d1, d2, 2)
        if m.distance < 0.75 * n.distance and back[m.trainIdx] == m.queryIdx
    ]
    return np.unique(np.array(rows, float).reshape(-1, 4), axis=0)


def magsac(m: A, planar: bool) -> A:
    """Which of the matches [N, 4] are inliers."""
    none = np.zeros(len(m), bool)
    if len(m) < 8:
        return none
    a, b = np.ascontiguousarray(m[:, :2]), np.ascontiguousarray(m[:, 2:])
    try:
        if planar:
            mask = cv2.findHomography(a, b, cv2.USAC_MAGSAC, 1.5, maxIters=10000, confidence=0.9999)[1]
        else:
            mask = cv2.findFundamentalMat(a, b, cv2.USAC_MAGSAC, 1.5, 0.9999, 10000)[1]
    except cv2.error:
        return none
    return none if mask is None else mask.ravel().astype(bool)


def cells_of(shape: tuple[int, ...], xy: A) -> A:
    x = np.clip(xy[:, 0] * 16 // shape[1], 0, 15)
    return (x + 16 * np.clip(xy[:, 1] * 16 // shape[0], 0, 15)).astype(int)


def common_cells(pair: Pair) -> A:
    """Cells of picture 1 of which more than half is known to be in picture 2."""
    if pair.truth is None:
        return np.ones(256, bool)
    h, w = pair.one.shape[:2]
    xy = np.stack(np.meshgrid(np.linspace(0, w - 1, 96), np.linspace(0, h - 1, 96)), -1).reshape(-1, 2)
    q = pair.truth(xy)
    seen = (q >= 0).all(1) & (q <= (pair.two.shape[1] - 1, pair.two.shape[0] - 1)).all(1)
    cell = cells_of(pair.one.shape, xy)
    return np.bincount(cell, seen, 256) > 0.5 * np.bincount(cell, minlength=256)


def angles(truth: tuple[A, A, A, A], pose: A) -> tuple[float, float]:
    """Degrees of turn and of direction that a pose, camera 2 to camera 1, is off."""
    r, t = truth[2], truth[3]
    right = -r.T @ t
    c = (np.trace(pose[:3, :3] @ r) - 1) / 2
    d = pose[:3, 3] @ right / (np.linalg.norm(pose[:3, 3]) * np.linalg.norm(right) + 1e-12)
    return float(np.degrees(np.arccos(np.clip(c, -1, 1)))), float(np.degrees(np.arccos(np.clip(d, -1, 1))))


def corner_error(pair: Pair, m: A) -> float:
    if len(m) < 4:
        return math.inf
    h = cv2.findHomography(m[:, :2], m[:, 2:], 0)[0]
    if h is None:
        return math.inf
    height, width = pair.one.shape[:2]
    c = np.array([[0, 0], [width - 1, 0], [0, height - 1], [width - 1, height - 1.0]])
    e = float(np.linalg.norm(through(h, c) - through(pair.homography, c), axis=1).mean())
    return e if math.isfinite(e) else math.inf


def judge(pair: Pair, m: A, cells: A, covariance: A | None) -> Row:
    """The figures of one list of matches, whose covariances [N, 2, 2] may be known."""
    row: Row = {"n": len(m), "p1": 0.0, "p3": 0.0, "cover": 0.0}
    if len(m):
        if pair.truth is not None:
            error = np.linalg.norm(pair.truth(m[:, :2]) - m[:, 2:], axis=1)
        else:
            f = pair.fundamental
            a, b = np.c_[m[:, :2], np.ones(len(m))], np.c_[m[:, 2:], np.ones(len(m))]
            l2, l1 = a @ f.T, b @ f
            e = np.abs((b * l2).sum(1))
            error = e * (1 / np.hypot(l2[:, 0], l2[:, 1]) + 1 / np.hypot(l1[:, 0], l1[:, 1])) / 2
        known = np.isfinite(error)
        if known.any():
            row |= {f"p{t}": float((error[known] <= t).mean()) for t in (1, 3)}
            row["median"] = float(np.median(error[known]))
        hit = np.bincount(cells_of(pair.one.shape, m[known & (error <= 3)][:, :2]), minlength=256)
        row["cover"] = float(((hit > 0) & cells).sum() / max(1, cells.sum()))
    if pair.homography is not None:
        row["goal"] = corner_error(pair, m)
    elif pair.cameras is not None:
        k1, k2, _, _ = pair.cameras
        found = geometry.relative_pose(
            m[:, :2], m[:, 2:], k1, k2, covariance=covariance, estimator="geometry"
        )
        row["goal"] = (
            180.0 if found.pose is None or found.turn_only else max(angles(pair.cameras, found.pose))
        )
    return row


def measure(engine: CPUEngine, pair: Pair, classic: bool) -> Row:
    planar = pair.homography is not None
    row: Row = {"set": pair.set, "name": pair.name, "overlap": pair.overlap, "methods": {}}
    begin = time.perf_counter()
    result = engine.infer_gpu(pair.one, pair.two)
    infer = time.perf_counter() - begin
    matches = engine.match(result, top_k=None, refine=not pair.only_verdict)
    row["seconds"] = {"infer": infer, "match": time.perf_counter() - begin - infer}
    overlap = matches.overlap
    row["verdict"] = [overlap.verdict, overlap.score, overlap.matched, overlap.consistent]
    if not pair.overlap or pair.only_verdict:
        return row
    cells = common_cells(pair)
    lists: dict[str, tuple[A, A | None]] = {}
    for name, found in (("refined", matches), ("default", engine.match(result))):
        m = np.c_[found.original_1, found.original_2][found.refined]
        lists[name] = m, found.covariance[found.refined]
    if classic:
        begin = time.perf_counter()
        lists["SIFT"] = sift(pair.one, pair.two), None
        row["seconds"]["SIFT"] = time.perf_counter() - begin
    for name, (m, covariance) in lists.items():
        inliers = magsac(m, planar)
        row["methods"][name] = judge(
            pair, m[inliers], cells, None if covariance is None else covariance[inliers]
        )
    if pair.cameras is not None:
        row["pose"] = pose_row(engine, result, matches, pair)
    return row


def pose_row(engine: CPUEngine, result: Any, matches: Any, pair: Pair) -> Row:
    """Pose with the right camera matrices and with none, and whether the truth is in the intervals."""
    k1, k2, _, _ = pair.cameras
    known = engine.relative_pose(result, matches, intrinsics_1=k1, intrinsics_2=k2)
    free = engine.relative_pose(result, matches)
    row: Row = {}
    for name, found in (("known", known), ("free", free)):
        if found.pose is None:
            row[name] = None
            continue
        turn, direction = angles(pair.cameras, found.pose)
        row[name] = {"turn": turn, "direction": direction, "turn95": found.turn_interval,
                     "direction95": found.direction_interval, "angle": found.angle}  # fmt: skip
    row["focal"] = float(free.intrinsics_1[0, 0] / k1[0, 0])
    row["focal_sigma"] = free.focal_sigma[0]
    return row


def auc(errors: list[float], limit: float) -> float:
    """Area under the share of errors below x, x from 0 to limit."""
    e = np.sort(np.array(errors, float))
    below = e[e <= limit]
    x, y = np.r_[0, below, limit], np.r_[0, np.arange(1, len(below) + 1), len(below)] / max(1, len(e))
    return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / limit)


def tables(rows: list[Row]) -> str:
    groups: dict[str, list[Row]] = defaultdict(list)
    for r in rows:
        groups[r["set"]].append(r)
    out = ["| set | pairs | method | matches | 1 px | 3 px | cover | median px | AUC |", "|" + "---|" * 9]
    for name, group in groups.items():
        for method in ("refined", "default", "SIFT"):
            got = [r["methods"][method] for r in group if method in r["methods"]]
            if not got:
                continue
            goals = [g["goal"] for g in got]
            kind = "corners 3 px" if name in ("graf", "rotation", "zoom", "tilt", "change") else "pose 5°"
            limit = 3 if kind.startswith("corners") else 5
            mean = {k: float(np.mean([g.get(k, 0.0) for g in got])) for k in ("p1", "p3", "cover")}
            middle = float(np.median([g.get("median", math.inf) for g in got]))
            count = np.median([g["n"] for g in got])
            out.append(
                f"| {name} | {len(got)} | {method} | {count:.0f} | {mean['p1']:.3f} | "
                f"{mean['p3']:.3f} | {mean['cover']:.3f} | {middle:.2f} | {auc(goals, limit):.3f} {kind} |"
            )
    verdicts = [(r["overlap"], r["verdict"][0]) for r in rows]
    good, bad = [v for o, v in verdicts if o], [v for o, v in verdicts if not o]
    out += ["", "| pairs | YES | UNSURE | NO |", "|---|---|---|---|"]
    for label, got in (("overlap", good), ("no overlap", bad)):
        out.append(
            f"| {label}: {len(got)} | {got.count('YES')} | {got.count('UNSURE')} | {got.count('NO')} |"
        )
    out += ["", *held_out(rows)]
    out += [
        "",
        "| set | pairs | turn, direction: K known | K not known | focal off | truth in intervals |",
        "|" + "---|" * 6,
    ]
    for name, group in groups.items():
        got = [r["pose"] for r in group if r.get("pose") and r["pose"]["known"] and r["pose"]["free"]]
        if not got:
            continue
        middle = {
            kind: ", ".join(f"{np.median([p[kind][w] for p in got]):.3f}°" for w in ("turn", "direction"))
            for kind in ("known", "free")
        }
        inside = [
            float(np.mean([p["known"][w] <= p["known"][w + "95"] for p in got]))
            for w in ("turn", "direction")
        ]
        focal = float(np.median([abs(math.log(p["focal"])) for p in got]))
        out.append(
            f"| {name} | {len(got)} | {middle['known']} | {middle['free']} | {100 * focal:.1f} % | "
            f"{inside[0]:.2f}, {inside[1]:.2f} |"
        )
    return "\n".join(out) + "\n"


def edges(rows: list[Row]) -> tuple[float, float]:
    """The narrowest band of UNSURE scores outside of which at most 1 % are YES and 2 % NO by mistake."""
    good = np.sort([r["verdict"][1] for r in rows if r["overlap"]])
    bad = np.sort([r["verdict"][1] for r in rows if not r["overlap"]])[::-1]
    above = float(bad[int(0.01 * len(bad))]) * 1.001  # that many lie above it
    below = float(good[int(0.02 * len(good))])
    return min(below, above), max(below, above)


def held_out(rows: list[Row]) -> list[str]:
    """The edges that are built in, and edges chosen on the pairs of one kind, tried on those of the other.

    Old ones are those that the built-in edges were set on.
    """
    old, new = ([r for r in rows if (r["set"] == "fresh") is fresh] for fresh in (False, True))
    out = ["| edges of UNSURE | tried on | false yes | false no | UNSURE |", "|---|---|---|---|---|"]
    for name, chosen, tried in (
        ("as built in", [], old), ("as built in", [], new), ("from the old pairs", old, new),
        ("from the fresh pairs", new, old),
    ):  # fmt: skip
        if name != "as built in" and len({r["overlap"] for r in chosen}) < 2:
            continue
        low, high = edges(chosen) if chosen else (0.7, 1.2)
        good = [r["verdict"][1] for r in tried if r["overlap"]]
        bad = [r["verdict"][1] for r in tried if not r["overlap"]]
        if not (good and bad):
            continue
        yes, no = sum(s >= high for s in bad), sum(s < low for s in good)
        unsure = sum(low <= s < high for s in good + bad)
        which = "fresh" if tried is new else "old"
        out.append(
            f"| {name}: {low:.2f} to {high:.2f} | {which}: {len(good)} + {len(bad)} pairs | "
            f"{yes / len(bad):.1%} | {no / len(good):.1%} | {unsure / len(tried):.1%} |"
        )
    return out


def plot(rows: list[Row], path: Path) -> None:
    """Precision and cover of every set, ours beside SIFT's."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(r["set"] for r in rows if r["methods"].get("SIFT")))
    if not names:
        return
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    at = np.arange(len(names))
    for axis, key, title in zip(axes, ("p3", "cover"), ("right within 3 px", "cells with a right match")):
        for shift, method, colour in ((-0.2, "refined", "#1f6f8b"), (0.2, "SIFT", "#c9703c")):
            values = [
                np.mean([r["methods"][method][key] for r in rows if r["set"] == n and method in r["methods"]])
                for n in names
            ]
            label = f"{BUNDLED[0]}, refined" if method == "refined" else "SIFT + MAGSAC"
            axis.barh(at + shift, values, 0.38, label=label, color=colour)
        axis.set_yticks(at, names)
        axis.set_xlim(0, 1)
        axis.set_title(title)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].invert_yaxis()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=120)


def read_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(engine: CPUEngine, arguments: argparse.Namespace, lines: Path) -> None:
    """Adds the rows that ``lines`` has not."""
    sources = Sources(arguments.doc)
    have = {(row["set"], row["name"]) for row in read_rows(lines)}
    with open(lines, "a") as file:
        for name in arguments.sets.split(","):
            extra = (arguments.out / "views",) if name == "room" else ()
            for i, pair in enumerate(SETS[name](sources, *extra)):
                if arguments.quick and i:
                    break
                if (pair.set, pair.name) in have:
                    continue
                file.write(json.dumps(measure(engine, pair, classic=True)) + "\n")
                file.flush()
                print(f"{pair.set}: {pair.name}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", default=",".join(SETS), help="of " + ", ".join(SETS))
    parser.add_argument("--doc", type=Path, default=DOC, help="folder of opencv-doc's example pictures")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "match-bench")
    parser.add_argument("--quick", action="store_true", help="a pair of each set, to see that it works")
    parser.add_argument("--intervals", type=int, default=2, help="draws of noise for them; 0: none")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was cut off")
    parser.add_argument("--tables", action="store_true", help="the tables of a run that is there")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    lines, drawn = arguments.out / "rows.jsonl", arguments.out / "intervals.jsonl"
    if not (arguments.tables or arguments.resume):
        lines.unlink(missing_ok=True)
        drawn.unlink(missing_ok=True)
    if not arguments.tables:
        cv2.setNumThreads(os.cpu_count() or 1)
        with CPUEngine("auto", resolution=512, num_threads=0) as engine:
            engine.load()
            run(engine, arguments, lines)
            if arguments.intervals:
                pairs_intervals.run(engine, arguments.out / "views", arguments.intervals, drawn)
    rows = read_rows(lines)
    text = tables(rows)
    if drawn.exists():
        text += "\n" + pairs_intervals.table(read_rows(drawn)) + "\n"
    (arguments.out / "tables.txt").write_text(text)
    plot(rows, arguments.out / "match-bench.png")
    print(text)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
