# SPDX-License-Identifier: Apache-2.0
"""Draws the model card's pictures: what the model gets right, and what it does not.

    python figures.py MODEL.safetensors OUT --held-out FOLDER

FOLDER holds chelsea.png and coffee.png (CC0, in the scikit-image package).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from evaluate import torch_backend
from mast3r_torch import evaluation, metrics
from mast3r_torch.evaluation import Backend, Pair
from mast3r_torch.model import View
from mast3r_torch.scenes import load_photos

SIZE = (256, 192)
GAP = 4
RIGHT, WRONG = (60, 220, 90), (240, 60, 50)


def picture(img: Tensor) -> Image.Image:
    return Image.fromarray(((img + 1) * 127.5).round().byte().permute(1, 2, 0).numpy())


def coloured(values: Tensor, low: float, high: float) -> Image.Image:
    """A map from dark blue over green to yellow."""
    t = ((values - low) / max(high - low, 1e-6)).clamp(0, 1)
    rgb = torch.stack(
        [(1.6 * t - 0.5).clamp(0, 1), (0.05 + 0.95 * t**0.8), (0.45 + 0.5 * t - 1.1 * t**3).clamp(0, 1)], -1
    )
    return Image.fromarray((rgb * 255).byte().numpy())


def beside(parts: list[Image.Image]) -> Image.Image:
    out = Image.new("RGB", (sum(p.width + GAP for p in parts) - GAP, max(p.height for p in parts)), "white")
    x = 0
    for part in parts:
        out.paste(part, (x, 0))
        x += part.width + GAP
    return out


def below(parts: list[Image.Image]) -> Image.Image:
    out = Image.new("RGB", (max(p.width for p in parts), sum(p.height + GAP for p in parts) - GAP), "white")
    y = 0
    for part in parts:
        out.paste(part, (0, y))
        y += part.height + GAP
    return out


def match_lines(
    img1: Tensor, img2: Tensor, view1: View, view2: View, truth: Tensor, count: int = 60
) -> Image.Image:
    """Strictly mutual matches of a grid, coloured by `truth` [H,W,2]; without truth a match is wrong."""
    pair = beside([picture(img1), picture(img2)])
    m = metrics.match(view1.desc, view2.desc, metrics.grid(img1.shape[1], img1.shape[2], 8))
    start, found = m.start[m.strict], m.found[m.strict]
    if len(start) > count:
        keep = torch.linspace(0, len(start) - 1, count).long()
        start, found = start[keep], found[keep]
    draw = ImageDraw.Draw(pair)
    for a, b in zip(start.tolist(), found.tolist()):
        t = truth[a[1], a[0]]
        good = t[0] >= 0 and (t - torch.tensor(b)).norm() < metrics.CLOSE
        shift = img1.shape[2] + GAP
        draw.line([a[0], a[1], b[0] + shift, b[1]], fill=RIGHT if good else WRONG)
        for x, y in ((a[0], a[1]), (b[0] + shift, b[1])):
            draw.ellipse([x - 1.5, y - 1.5, x + 1.5, y + 1.5], fill=RIGHT if good else WRONG)
    return pair


def row(run: Backend, pair: Pair) -> Image.Image:
    """Matches, true and predicted depth of view 1 (each over its median), confidence."""
    view1, view2 = run(pair.img1, pair.img2)
    true, pred = pair.points[0, ..., 2], view1.pts3d[..., 2]
    maps = [coloured(1 / (z / z.median()).clamp_min(0.2), 0.3, 2.2) for z in (true, pred)]
    conf = coloured(view1.desc_conf.log(), -1.0, 4.0)
    return beside([match_lines(pair.img1, pair.img2, view1, view2, pair.match), *maps, conf])


def scores(run: Backend, pairs: list[Pair]) -> list[float]:
    out = []
    for p in pairs:
        figures = evaluation.measure_synthetic(run, [p], 200)
        out.append(figures["all"] - figures["points1"])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--held-out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    run = torch_backend(args.model, 0)
    photos = load_photos(args.held_out)
    good, bad = [], []
    for name in evaluation.SETS:
        pairs = evaluation.synthetic(name, 16, SIZE, photos)
        ranked = sorted(zip(scores(run, pairs), range(16)), reverse=True)
        # Not the very best: the upper quarter's last. The failures are the worst there are.
        good.append(row(run, pairs[ranked[3][1]]))
        bad.append(row(run, pairs[ranked[-1][1]]))
    below(good).quantize(255).save(args.out / "model-success.png", optimize=True)
    below(bad).quantize(255).save(args.out / "model-failure.png", optimize=True)

    coffee, chelsea = (args.held_out / f"{n}.png" for n in ("coffee", "chelsea"))
    looks = [
        evaluation.warped(coffee, SIZE, *look)
        for look in ((0.15, 0.0012, 1.1), (np.pi / 2, 0.0, 0.9), (0.1, 0.0, 3.0))
    ]
    stranger = evaluation.load_image(coffee, SIZE), evaluation.load_image(chelsea, SIZE)
    looks.append((*stranger, torch.full((SIZE[1], SIZE[0], 2), -1.0)))
    rows = []
    for img1, img2, truth in looks:
        view1, view2 = run(img1, img2)
        rows.append(
            beside([match_lines(img1, img2, view1, view2, truth), coloured(view1.desc_conf.log(), -1.0, 4.0)])
        )
    below(rows).quantize(255).save(args.out / "model-photographs.png", optimize=True)


if __name__ == "__main__":
    main()
