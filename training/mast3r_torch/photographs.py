# SPDX-License-Identifier: Apache-2.0
"""Photographs with truth: raw matches of a model, and the same after MAGSAC, beside SIFT and MAGSAC.

The pairs are those of `make match-bench` (benchmarks/pairs_sets.py), which measures the whole wheel with
refined matches; here the network alone is asked, so that two models can be compared. "Raw" are the matches
of every eighth pixel of view 1, walked from nearest neighbour to nearest neighbour until two pixels
choose each other, with `desc_conf` of 1.001 or more. Errors are in pixels of the pictures as given.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import metrics
from .evaluation import Backend, fit
from .model import View

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
LONG_SIDE, STEP, SURE = 512, 8, 1.001
LEVELS = {"zoom": r"x\d", "rotation": r"\d+$", "tilt": r"\d+$", "change": r"[a-z]+ [\d.]+$"}


def pairs_module() -> Any:
    """benchmarks/pairs.py, which needs OpenCV and the wheel."""
    if str(BENCHMARKS) not in sys.path:
        sys.path.insert(0, str(BENCHMARKS))
    import pairs

    return pairs


def box(folder: Path) -> Iterator[Any]:
    """The truth is the plane of the box's front, on which SIFT's matches agree."""
    p = pairs_module()
    import cv2
    from pairs_sets import Pair, read

    one, two = read(folder / "box.png"), read(folder / "box_in_scene.png")
    m = p.sift(one, two)
    h, _ = cv2.findHomography(m[:, :2], m[:, 2:], cv2.USAC_MAGSAC, 1.5, maxIters=20000, confidence=0.9999)
    yield Pair("box", "box in scene", one, two, h)


def aloe(folder: Path) -> Iterator[Any]:
    """A stereo pair through a long lens; the principal point is not published, the middle is taken."""
    pairs_module()
    import cv2
    from pairs_sets import Pair, read

    disparity = cv2.imread(str(folder / "aloeGT.png"), cv2.IMREAD_GRAYSCALE).astype(float)
    disparity[disparity == 0] = np.nan
    left, right = read(folder / "aloeL.jpg"), read(folder / "aloeR.jpg")
    height, width = disparity.shape

    def locate(xy: np.ndarray) -> np.ndarray:
        x = np.clip(np.rint(xy).astype(int), 0, [width - 1, height - 1])
        out = xy.copy()
        out[:, 0] -= disparity[x[:, 1], x[:, 0]]
        out[out[:, 0] < 0] = np.nan
        return out

    k1 = np.array([[3740.0, 0, width / 2], [0, 3740, height / 2], [0, 0, 1]])
    k2 = k1 + np.array([[0, 0, 270.0], [0, 0, 0], [0, 0, 0]])
    yield Pair(
        "stereo", "aloe", left, right, locate=locate, cameras=(k1, k2, np.eye(3), np.array([-1.0, 0, 0]))
    )


SECTIONS = {  # of evaluate.py: the sets of benchmarks/pairs_sets.py and our own
    "graf": ("graf",), "box": ("box",), "rotation": ("rotation",), "zoom": ("zoom",), "tilt": ("tilt",),
    "change": ("change",), "cameras": ("motorcycle", "aloe", "chess"),
}  # fmt: skip


def all_pairs(folder: Path, section: str) -> Iterator[Any]:
    """The pairs of a section that the pictures in `folder`, or in the installed packages, make."""
    pairs_module()
    from pairs_sets import SETS, Sources

    sources = Sources(folder)
    sources.folders.insert(0, folder)
    own = {"box": (box, "box_in_scene.png"), "aloe": (aloe, "aloeGT.png")}
    for name in SECTIONS[section]:
        if name not in own:
            yield from SETS[name](sources)
        elif (folder / own[name][1]).is_file():
            yield from own[name][0](folder)
        else:
            print(f"photographs: {name}: left out, no {own[name][1]}", file=sys.stderr)


def to_network(image: np.ndarray) -> tuple[torch.Tensor, np.ndarray]:
    """The picture at network size, and what takes network pixels to its own: xy * scale + offset [2,2]."""
    from PIL import Image

    height, width = image.shape[:2]
    w, h = fit(width, height, LONG_SIDE)
    pixels = np.array(Image.fromarray(image).resize((w, h), Image.LANCZOS), np.float32)
    scale = np.array([width / w, height / h])
    tensor = torch.from_numpy(pixels / 127.5 - 1).permute(2, 0, 1).contiguous()
    return tensor, np.stack([scale, 0.5 * scale - 0.5])


def walk(desc1: torch.Tensor, desc2: torch.Tensor, rounds: int = 4) -> torch.Tensor:
    """Pixel pairs [N,2] (linear indices) that choose each other, from a grid of view 1."""
    h, w = desc1.shape[:2]
    flat1, flat2 = desc1.flatten(0, 1), desc2.flatten(0, 1)
    start = metrics.grid(h, w, STEP)
    here, done = start[:, 1] * w + start[:, 0], []
    for _ in range(rounds):
        there = metrics.nearest(flat1[here], flat2)
        back = metrics.nearest(flat2[there], flat1)
        fixed = back == here
        done.append(torch.stack([here[fixed], there[fixed]], 1))
        here = back[~fixed].unique()
        if not len(here):
            break
    return torch.cat(done)


def raw_matches(view1: View, view2: View, map1: np.ndarray, map2: np.ndarray) -> np.ndarray:
    """Matches [N,4] in pixels of the pictures."""
    both = walk(view1.desc, view2.desc).unique(dim=0)
    sure = (view1.desc_conf.flatten()[both[:, 0]] >= SURE) & (view2.desc_conf.flatten()[both[:, 1]] >= SURE)
    both = both[sure].numpy()
    w1, w2 = view1.desc.shape[1], view2.desc.shape[1]
    one = np.stack([both[:, 0] % w1, both[:, 0] // w1], 1) * map1[0] + map1[1]
    two = np.stack([both[:, 1] % w2, both[:, 1] // w2], 1) * map2[0] + map2[1]
    return np.c_[one, two]


def focal_length(points: np.ndarray) -> float:
    """Of a pointmap [H,W,3] in its pixels, principal point in the middle, by Weiszfeld's algorithm."""
    h, w = points.shape[:2]
    y, x = np.mgrid[:h, :w]
    p = np.stack([x - (w - 1) / 2, y - (h - 1) / 2], -1).reshape(-1, 2)
    q = points.reshape(-1, 3).astype(float)
    ok = q[:, 2] > 1e-6
    p, q = p[ok], q[ok, :2] / q[ok, 2:]
    pq, qq = (p * q).sum(1), (q * q).sum(1)
    f = pq.sum() / qq.sum()
    for _ in range(20):
        weight = 1 / np.maximum(np.linalg.norm(p - f * q, axis=1), 1e-8)
        f = (weight * pq).sum() / (weight * qq).sum()
    return float(f)


def depth_error(points: np.ndarray, truth: np.ndarray, map1: np.ndarray) -> float:
    """Median relative error of depth after one scale; truth in the picture's pixels, NaN where unknown."""
    h, w = points.shape[:2]
    y, x = np.mgrid[:h, :w]
    at = np.rint(np.stack([x.ravel(), y.ravel()], 1) * map1[0] + map1[1]).astype(int)
    at = np.clip(at, 0, [truth.shape[1] - 1, truth.shape[0] - 1])
    t, z = truth[at[:, 1], at[:, 0]], points[..., 2].ravel().astype(float)
    ok = np.isfinite(t) & (z > 0)
    t, z = t[ok], z[ok]
    return float(np.median(np.abs(z / np.median(z / t) - t) / t))


def motorcycle_depth(pair: Any) -> np.ndarray:
    """Metres [H,W] from the true disparity, focal length, baseline and principal points."""
    height, width = pair.one.shape[:2]
    y, x = np.mgrid[:height, :width]
    xy = np.stack([x.ravel(), y.ravel()], 1).astype(float)
    disparity = (xy - pair.truth(xy))[:, 0].reshape(height, width)
    return 994.978 * 0.193001 / (disparity + 31.086)


def measure_pair(run: Backend, pair: Any, classic: bool) -> dict[str, float]:
    """Raw precision and cover, the same after MAGSAC, the focal length; SIFT's figures with `classic`."""
    p = pairs_module()
    (img1, map1), (img2, map2) = to_network(pair.one), to_network(pair.two)
    view1, view2 = run(img1, img2)
    cells, planar = p.common_cells(pair), pair.homography is not None
    raw = raw_matches(view1, view2, map1, map2)
    lists = {"raw": raw, "magsac": raw[p.magsac(raw, planar)]}
    if classic:
        lists["sift"] = p.sift(pair.one, pair.two)
        lists["sift_magsac"] = lists["sift"][p.magsac(lists["sift"], planar)]
    row: dict[str, float] = {}
    for name, m in lists.items():
        got = p.judge(pair, m, cells, None)  # raw matches have no covariances
        row |= {f"{name}_{key}": float(got[key]) for key in ("n", "p1", "p3", "cover") if key in got}
        row[f"{name}_median"] = float(got.get("median", np.nan))
        row[f"{name}_goal"] = min(float(got["goal"]), 180.0)  # pixels of corners or degrees of pose
    if pair.cameras is not None:
        ratio = focal_length(view1.pts3d.numpy()) * map1[0, 0] / pair.cameras[0][0, 0]
        row["focal_off"] = float(np.expm1(abs(np.log(ratio))))
    if pair.name == "motorcycle":
        row["depth_error"] = depth_error(view1.pts3d.numpy(), motorcycle_depth(pair), map1)
    return row


def group_of(pair: Any) -> str:
    """The set, with its level of difficulty where it has one."""
    found = re.search(LEVELS[pair.set], pair.name) if pair.set in LEVELS else None
    return f"{pair.set} {found[0]}" if found else pair.set


def measure(run: Backend, folder: Path, section: str, classic: bool) -> dict[str, dict[str, float]]:
    """Means over the pairs of each group; "focal" holds the median and the 90th percentile of all."""
    rows: dict[str, list[dict[str, float]]] = {}
    for pair in all_pairs(folder, section):
        row = measure_pair(run, pair, classic)
        rows.setdefault(group_of(pair), []).append(row)
        right = f"{row['raw_p3']:.3f} of {row['raw_n']:.0f}"
        print(f"photographs: {pair.name}: {right}", file=sys.stderr, flush=True)
    off = [r["focal_off"] for group in rows.values() for r in group if "focal_off" in r]
    out = {}
    for name, group in rows.items():
        known = {
            k: [r[k] for r in group if r.get(k, np.nan) == r.get(k, np.nan)] for k in set().union(*group)
        }
        out[name] = {k: float(np.mean(v)) for k, v in sorted(known.items()) if v}
        out[name]["raw_right"] = float(np.mean([r["raw_n"] * r["raw_p3"] for r in group]))
        out[name]["pairs"] = float(len(group))
    if off:
        out["focal"] = {
            "median": float(np.median(off)), "p90": float(np.percentile(off, 90)), "pairs": float(len(off))
        }  # fmt: skip
    return out
