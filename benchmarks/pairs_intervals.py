# SPDX-License-Identifier: Apache-2.0
"""How often the truth is in the 95 % intervals: many rendered pairs, noise drawn anew for each.

Most of a match's error is the picture's own pattern, interpolated alike however often noise is drawn: in the
pair of rooms that the package carries, 62 % of the variance is common to all draws. So draws of one pair tell
little more than one of them, and what counts is how many pairs there are: all neighbours (narrow), and
all views that are four apart (wide), of two rooms. Truth is exact. The last figures of a row are standard
errors, by the spread over pairs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scene_views as views
from PIL import Image

from mast3r_runtime import geometry

NOISE = 4.0  # grey levels, of 255
GAPS = {"narrow": 1, "wide": 4}


def run(engine: Any, folder: Path, repeats: int, lines: Path) -> None:
    """Adds the rows that ``lines`` has not, one for every draw: errors in degrees, whether they are in
    the intervals, how many matches."""
    done = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    have = {(row["scene"], *row["pair"]) for row in done}
    with open(lines, "a") as file:
        for place, cameras in (("room", views.room_views()), ("second room", views.cameras(14, 5))):
            pictures = folder / place.replace(" ", "-")
            names = views.render(place.split()[0], cameras, pictures)
            for kind, gap in GAPS.items():
                for first in range(len(cameras) - gap):
                    pair = (first, first + gap)
                    if (place, *pair) in have:
                        continue
                    clean = [np.asarray(Image.open(pictures / names[i])) for i in pair]
                    found = draws(engine, clean, [cameras[i] for i in pair], repeats)
                    known = {"scene": place, "kind": kind, "pair": list(pair)}
                    file.write("".join(json.dumps(known | row) + "\n" for row in found))
                    file.flush()


def draws(engine: Any, clean: list[Any], cameras: list[Any], repeats: int) -> list[dict[str, Any]]:
    k = views.room.intrinsics()
    (r1, c1), (r2, c2) = cameras
    turn, shift = r1.T @ r2, r1.T @ (c2 - c1)  # X1 = turn X2 + shift
    result = engine.infer_gpu(*clean)
    found = engine.match(result, top_k=None, refine=False)
    pixel = max(found.transform_2.scale)
    out = []
    for seed in range(repeats):
        made = np.random.default_rng(seed)
        noisy = [np.clip(np.rint(p + made.normal(0, NOISE, p.shape)), 0, 255).astype(np.uint8) for p in clean]
        moved = engine.refine(*noisy, found.original_1, found.original_2, reach=2 * pixel)
        use = moved.refined
        one, two = found.original_1[use], moved.xy_2[use]
        share = geometry.dependence(one)
        pose = geometry.relative_pose(
            one, two, k, k, covariance=moved.covariance[use], dependence=share, estimator="geometry"
        )
        if pose.pose is None:
            continue
        c = (np.trace(pose.pose[:3, :3].T @ turn) - 1) / 2
        d = pose.pose[:3, 3] @ shift / np.linalg.norm(shift)
        ratios = z(pose, turn, shift)
        out.append(
            {
                "turn": float(np.degrees(np.arccos(np.clip(c, -1, 1)))),
                "direction": float(np.degrees(np.arccos(np.clip(d, -1, 1)))),
                "inside_turn": float((np.abs(ratios[:3]) < 1.96).mean()),
                "inside_direction": float((np.abs(ratios[3:]) < 1.96).mean()),
                "matches": int(use.sum()),
                "dependence": share,
                "z": ratios,
            }
        )
    return out


def z(pose: Any, turn: Any, shift: Any) -> list[float]:
    """Errors of the turn about three axes and of the direction along its two, over their deviations."""
    w = log(turn @ pose.pose[:3, :3].T)
    d = shift / np.linalg.norm(shift) - pose.pose[:3, 3]
    deviations = np.sqrt(np.diag(pose.covariance))
    values, vectors = np.linalg.eigh(pose.covariance[3:, 3:])
    return [*(w / deviations[:3]).tolist(), *((vectors.T @ d)[1:] / np.sqrt(values[1:])).tolist()]


def log(rotation: Any) -> Any:
    """The vector of a small rotation."""
    off = rotation - rotation.T
    return np.array([off[2, 1], off[0, 2], off[1, 0]]) / 2


def table(found: list[dict[str, Any]]) -> str:
    """One row a scene and kind, one of all."""
    lines = [
        "| scene | pairs x draws | matches | independent | truth in interval: turn | direction |",
        "|---|---|---|---|---|---|",
    ]
    kinds = list(dict.fromkeys((r["scene"], r["kind"]) for r in found))
    for scene, kind in [*kinds, ("all", "")]:
        own = [r for r in found if (r["scene"], r["kind"]) == (scene, kind) or scene == "all"]
        pairs = len({(r["scene"], *r["pair"]) for r in own})
        count = np.median([r["matches"] for r in own])
        lines.append(
            f"| {scene} {kind} | {pairs} x {len(own) // pairs} | {count:.0f} | "
            f"{np.median([r['matches'] / r['dependence'] for r in own]):.0f} | "
            f"{share(own, 'inside_turn')} | {share(own, 'inside_direction')} |"
        )
    return "\n".join(lines)


def share(rows: list[dict[str, Any]], key: str) -> str:
    """The mean, and its standard error from the means of the pairs."""
    pairs: dict[tuple[Any, ...], list[float]] = {}
    for r in rows:
        pairs.setdefault((r["scene"], *r["pair"]), []).append(r[key])
    means = [np.mean(v) for v in pairs.values()]
    return f"{np.mean(means):.3f} +- {np.std(means) / np.sqrt(max(1, len(means) - 1)):.3f}"
