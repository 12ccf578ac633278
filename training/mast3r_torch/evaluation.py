# SPDX-License-Identifier: Apache-2.0
"""Evaluation sets and what is measured on them.

A backend is a function (img1, img2) -> (View, View) on images [3,H,W] in
-1..1, without a batch dimension; see training/evaluate.py for the choices.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from . import metrics
from .model import View
from .photometry import develop
from .scenes import CameraMix, Random, Textures, render, sample

Backend = Callable[[Tensor, Tensor], tuple[View, View]]

SEED = 20_261_127  # of the held-out scenes and textures; training seeds are below 2^16
SETS = {  # name -> cameras; "near" has the baselines of the first prototype's test set
    "near": CameraMix(stereo=0.0, orbit=0.0, forward=0.0, turn=0.0, reach=0.4),
    "stereo": CameraMix(stereo=1.0),
    "wide": CameraMix(stereo=0.0, orbit=0.5, forward=0.1, turn=0.1, reach=1.0),
}


class Pair(NamedTuple):
    img1: Tensor  # [3,H,W]
    img2: Tensor
    points: Tensor  # [2,H,W,3]
    match: Tensor  # [H,W,2] view 1 to view 2, -1 where it is not seen


def synthetic(
    name: str, pairs: int, size: tuple[int, int], photos: list[Tensor], device: str = "cpu", spp: int = 4
) -> list[Pair]:
    """Held-out scenes: own seed, own textures, own photographs. `size` is (width, height).

    Another device draws other scenes: published figures are those of the CPU.
    """
    width, height = size
    rng = Random(SEED, device)
    textures = Textures(rng, 96, 256, photos)
    out = []
    while len(out) < pairs:
        scenes = sample(rng, 8, height, width, textures.count, len(textures.heights), SETS[name])
        drawn = render(*scenes, textures, height, width, spp)
        images = ((develop(rng, drawn.image) + 1) * 127.5).round() / 127.5 - 1  # bytes, as from a file
        for i in range(8):
            # A pair with next to no common surface has nothing to measure.
            if (drawn.match[i, 0, ..., 0] >= 0).float().mean() > 0.1:
                out.append(Pair(images[i, 0], images[i, 1], drawn.points[i], drawn.match[i, 0]))
    return out[:pairs]


def mean_rows(rows: list[dict[str, float]]) -> dict[str, float]:
    """Column means; a missing measurement (NaN) of one pair does not spoil the rest."""
    out = {}
    for key in rows[0]:
        known = [r[key] for r in rows if r[key] == r[key]]
        out[key] = sum(known) / len(known) if known else float("nan")
    return out


def measure_synthetic(backend: Backend, pairs: list[Pair], count: int = 500) -> dict[str, float]:
    rng, rows = Random(SEED, pairs[0].img1.device), []
    for p in pairs:
        view1, view2 = backend(p.img1, p.img2)
        y, x = torch.nonzero(p.match[..., 0] >= 0, as_tuple=True)
        pick = rng.integers(len(x), count)
        start = torch.stack([x[pick], y[pick]], -1)
        m = metrics.match(view1.desc, view2.desc, start)
        row = metrics.match_figures(m, p.match[start[:, 1], start[:, 0]])
        row |= metrics.geometry_figures(view1.pts3d, view2.pts3d, p.points)
        row["conf"] = view1.conf.median().item()
        seen = p.match[..., 0] >= 0
        row["desc_conf_seen"] = view1.desc_conf[seen].median().item()
        row["desc_conf_unseen"] = view1.desc_conf[~seen].median().item() if (~seen).any() else float("nan")
        rows.append(row)
    return mean_rows(rows)


def load_image(path: str | Path, size: tuple[int, int] | None = None, device: str = "cpu") -> Tensor:
    """A picture as [3,H,W] in -1..1, resized with Lanczos to (width, height)."""
    image = Image.open(path).convert("RGB")
    if size:
        image = image.resize(size, Image.LANCZOS)
    pixels = torch.from_numpy(np.array(image, np.float32)).permute(2, 0, 1)
    return (pixels / 127.5 - 1).contiguous().to(device)


def fit(width: int, height: int, long_side: int, multiple: int = 16) -> tuple[int, int]:
    """Size with the given long side and nearly the same shape, sides multiples of 16."""
    scale = long_side / max(width, height)
    return tuple(max(multiple, round(s * scale / multiple) * multiple) for s in (width, height))


def visible(disparity: np.ndarray) -> np.ndarray:
    """Left pixels of a rectified pair that the right view sees: known, inside, not covered.

    A pixel is covered when another of its row lands within a pixel of the
    same place with a disparity larger by more than one.
    """
    height, width = disparity.shape
    known = np.isfinite(disparity) & (disparity > 0)
    target = np.arange(width)[None] - np.where(known, disparity, 0)
    known &= target >= 0
    nearest = np.full((height, width + 2), -np.inf)
    rows, cols = np.nonzero(known)
    slot = np.round(target[rows, cols]).astype(int)
    for shift in (-1, 0, 1):
        np.maximum.at(nearest, (rows, slot + shift + 1), disparity[rows, cols])
    out = np.zeros_like(known)
    out[rows, cols] = disparity[rows, cols] > nearest[rows, slot + 1] - 1
    return out


def measure_stereo(
    backend: Backend,
    left: Path,
    right: Path,
    disparity: np.ndarray,
    size: tuple[int, int],
    stride: int,
    device: str,
) -> dict[str, float]:
    """A rectified pair with true disparity in pixels of the left picture."""
    width, height = size
    scale = width / disparity.shape[1]
    view1, view2 = backend(load_image(left, size, device), load_image(right, size, device))
    start = metrics.grid(height, width, stride)
    src_x = ((start[:, 0] + 0.5) * disparity.shape[1] / width).long().numpy()
    src_y = ((start[:, 1] + 0.5) * disparity.shape[0] / height).long().numpy()
    ok = torch.from_numpy(visible(disparity)[src_y, src_x])
    start, d = (
        start[ok].to(device),
        torch.from_numpy(disparity[src_y, src_x].astype(np.float32))[ok].to(device) * scale,
    )
    truth = torch.stack([start[:, 0] - d, start[:, 1].float()], -1)
    row = metrics.match_figures(metrics.match(view1.desc, view2.desc, start), truth)
    z = view1.pts3d[start[:, 1], start[:, 0], 2]
    row["inverse_depth"] = metrics.correlation(1 / z.clamp_min(1e-3), d)
    return row


def motorcycle(
    backend: Backend, folder: Path, size: tuple[int, int], device: str = "cpu"
) -> dict[str, float]:
    disparity = np.load(folder / "motorcycle_disp.npz")["arr_0"]
    left, right = (folder / f"motorcycle_{side}.png" for side in ("left", "right"))
    return measure_stereo(backend, left, right, disparity, size, 7, device)


def aloe(backend: Backend, folder: Path, size: tuple[int, int], device: str = "cpu") -> dict[str, float]:
    disparity = np.array(Image.open(folder / "aloeGT.png").convert("L"), np.float64)
    return measure_stereo(backend, folder / "aloeL.jpg", folder / "aloeR.jpg", disparity, size, 7, device)


def graf(backend: Backend, folder: Path, size: tuple[int, int], device: str = "cpu") -> dict[str, float]:
    """A painted wall from two sides; the truth is a homography between the full-size pictures."""
    import re

    text = re.search(r"<data>(.*?)</data>", (folder / "H1to3p.xml").read_text(), re.S)
    h = np.array(text[1].split(), np.float64).reshape(3, 3)
    full = Image.open(folder / "graf1.png").size
    width, height = size
    view1, view2 = backend(*(load_image(folder / f"graf{i}.png", size, device) for i in (1, 3)))
    start = metrics.grid(height, width, 4)
    scale = np.array([full[0] / width, full[1] / height])
    p = np.concatenate([(start.numpy() + 0.5) * scale - 0.5, np.ones((len(start), 1))], 1) @ h.T
    truth = torch.from_numpy((p[:, :2] / p[:, 2:] + 0.5) / scale - 0.5)
    limit = torch.tensor([width - 1, height - 1])
    inside = ((truth >= 0) & (truth <= limit)).all(-1)
    m = metrics.match(view1.desc, view2.desc, start[inside].to(device))
    return metrics.match_figures(m, truth[inside].to(device))


def warped(
    path: Path, size: tuple[int, int], angle: float, tilt: float, zoom: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Two looks at a photograph: as it is, and through a homography. Also where pixels of the first go."""
    first = Image.open(path).convert("RGB").resize(size, Image.LANCZOS)
    w, h = size
    c, s = np.cos(angle), np.sin(angle)
    centre = np.array([[1, 0, w / 2], [0, 1, h / 2], [0, 0, 1.0]])
    turn = np.array([[zoom * c, -zoom * s, 0], [zoom * s, zoom * c, 0], [tilt, 0, 1.0]])
    forth = centre @ turn @ np.linalg.inv(centre)
    back = np.linalg.inv(forth)
    second = first.transform(
        size, Image.PERSPECTIVE, (back / back[2, 2]).flatten()[:8].tolist(), Image.BICUBIC
    )
    y, x = np.mgrid[:h, :w]
    p = np.stack([x + 0.5, y + 0.5, np.ones_like(x)], -1) @ forth.T
    there = torch.from_numpy(p[..., :2] / p[..., 2:] - 0.5).float()
    inside = ((there >= 0) & (there <= torch.tensor([w - 1, h - 1]))).all(-1, keepdim=True)
    images = (torch.from_numpy(np.array(i, np.float32)).permute(2, 0, 1) / 127.5 - 1 for i in (first, second))
    return *images, torch.where(inside, there, -1.0)


def turned(
    backend: Backend, path: Path, size: tuple[int, int], degrees: float, zoom: float
) -> dict[str, float]:
    """A photograph and the same turned about its centre and enlarged; every seventh pixel is asked for."""
    img1, img2, truth = warped(path, size, np.radians(degrees), 0.0, zoom)
    view1, view2 = backend(img1, img2)
    y, x = torch.nonzero(truth[..., 0] >= 0, as_tuple=True)
    start = torch.stack([x, y], -1)[::7]
    return metrics.match_figures(
        metrics.match(view1.desc, view2.desc, start), truth[start[:, 1], start[:, 0]]
    )


def fit_homography(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Direct linear transform of points a [n,2] to b [n,2], n >= 4, in normalised coordinates."""

    def normaliser(p: np.ndarray) -> np.ndarray:
        centre, spread = p.mean(0), p.std() + 1e-9
        return np.array(
            [[1 / spread, 0, -centre[0] / spread], [0, 1 / spread, -centre[1] / spread], [0, 0, 1]]
        )

    ta, tb = normaliser(a), normaliser(b)
    an, bn = (np.c_[p, np.ones(len(p))] @ t.T for p, t in ((a, ta), (b, tb)))
    zero = np.zeros_like(an)
    rows = np.concatenate([np.c_[an, zero, -bn[:, :1] * an], np.c_[zero, an, -bn[:, 1:2] * an]])
    return np.linalg.inv(tb) @ np.linalg.svd(rows)[2][-1].reshape(3, 3) @ ta


def ransac_homography(a: np.ndarray, b: np.ndarray, rounds: int = 2000) -> np.ndarray:
    """Mask of the matches that the best homography explains within `metrics.CLOSE` pixels."""
    rng, best = np.random.default_rng(SEED), np.zeros(len(a), bool)
    if len(a) < 8:
        return best
    for _ in range(rounds):
        pick = rng.choice(len(a), 4, replace=False)
        p = np.c_[a, np.ones(len(a))] @ fit_homography(a[pick], b[pick]).T
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = np.linalg.norm(p[:, :2] / p[:, 2:] - b, axis=1) < metrics.CLOSE
        if inside.sum() > best.sum():
            best = inside
    return best


def reciprocal(backend: Backend, img1: Tensor, img2: Tensor) -> tuple[metrics.Matches, View, View]:
    """Matches of a grid of every fourth pixel."""
    view1, view2 = backend(img1, img2)
    start = metrics.grid(img1.shape[1], img1.shape[2], 4, img1.device)
    return metrics.match(view1.desc, view2.desc, start), view1, view2


def confidence_figures(m: metrics.Matches, view1: View) -> dict[str, float]:
    """What can be said of a pair without truth: how many ways back close, how sure the network is."""
    q = view1.desc_conf[m.start[:, 1], m.start[:, 0]]
    return {
        "strict_share": metrics.mean(m.strict),
        "mutual_share": metrics.mean(m.mutual),
        "sure_share": metrics.mean(m.strict & (q > 1.001)),  # the filter that applications use
        "desc_conf": q.median().item(),
        "conf": view1.conf.median().item(),
    }


def box(backend: Backend, folder: Path, long_side: int, device: str = "cpu") -> dict[str, float]:
    """Views of different sizes; the box is flat, so a homography judges the matches."""
    images = []
    for name in ("box.png", "box_in_scene.png"):
        path = folder / name
        images.append(load_image(path, fit(*Image.open(path).size, long_side), device))
    m, view1, _ = reciprocal(backend, *images)
    a, b = m.start[m.strict].cpu().numpy(), m.found[m.strict].cpu().numpy()
    inside = ransac_homography(a.astype(float), b.astype(float))
    return confidence_figures(m, view1) | {"strict": float(m.strict.sum()), "inliers": float(inside.sum())}


def no_overlap(
    backend: Backend, folder: Path, size: tuple[int, int], device: str = "cpu"
) -> dict[str, float]:
    images = (load_image(folder / name, size, device) for name in ("china.jpg", "flower.jpg"))
    m, view1, _ = reciprocal(backend, *images)
    return confidence_figures(m, view1)


def identity(backend: Backend, path: Path, size: tuple[int, int], device: str = "cpu") -> dict[str, float]:
    """A picture with itself: what the network reaches when there is nothing to find."""
    image = load_image(path, size, device)
    m, view1, _ = reciprocal(backend, image, image)
    figures = metrics.match_figures(m, m.start.float())
    return {"all": figures["all"], "mutual": figures["mutual"]} | confidence_figures(m, view1)
