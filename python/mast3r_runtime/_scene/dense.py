# SPDX-License-Identifier: Apache-2.0
"""Dense depth: the network's, bent onto the solved points.

The network's depth of a picture is right in shape and wrong by a factor that varies slowly over
it. At the solved points the factor is known. Its logarithm is spread over the picture by a
Gaussian, falling back to the picture's median where there are no points, and added to log depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._pictures.arrays import U8
from .._pictures.masks import Mask
from .._results.results import Transform
from .model import F64, Lens, Model

__all__ = ["DepthMap", "RayMap", "agreement", "at_network", "bend", "small"]

F32 = npt.NDArray[np.float32]

SIGMA = 12.0  # network pixels over which a point's factor is spread
AGREE = 0.03  # relative depth within which a neighbour confirms a point
NEIGHBOURS = 2


@dataclass(frozen=True)
class DepthMap:
    """Dense depth of a placed picture at network size, ``[H, W]`` each.

    ``depth`` is z in the camera's frame, in the scene's units; ``keep`` says where confidence is
    high enough and a neighbouring picture confirms it; ``rgb [H, W, 3]`` are the picture's colours.
    """

    depth: F32
    confidence: F32
    keep: npt.NDArray[np.bool_]
    rgb: U8
    transform: Transform

    def camera_points(self, lens: Lens) -> F64:
        """Points ``[H, W, 3]`` in the camera's frame."""
        height, width = self.depth.shape
        grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1).reshape(-1, 2)
        rays = lens.rays(self.transform.to_original(grid))
        return np.asarray((rays * self.depth.reshape(-1, 1)).reshape(height, width, 3))


@dataclass(frozen=True)
class RayMap:
    """Rays of a picture as a network of many views sees them, 8 x 8 for each patch of 14 x 14 pixels.

    ``directions`` and ``centres`` ``[h, w, 3]`` and their ``confidence [h, w]``, at least 1, in the
    frame of the camera to which the window's others refer, in the network's unit. A point is
    centre + depth * direction.
    """

    directions: F32
    centres: F32
    confidence: F32


def bend(depth: F32, xy: F64, ratio: F64) -> F32:
    """Network depth times the field of factors through the points.

    Parameters
    ----------
    depth : float32 [H, W]
    xy : float64 [m, 2]
        Network pixels of solved points.
    ratio : float64 [m]
        log(solved depth / network depth) there.
    """
    height, width = depth.shape
    if not len(ratio):
        return depth
    middle = float(np.median(ratio))
    good = np.abs(ratio - middle) < 1
    x = np.clip(np.rint(xy[good, 0]), 0, width - 1).astype(np.intp)
    y = np.clip(np.rint(xy[good, 1]), 0, height - 1).astype(np.intp)
    value, weight = np.zeros((height, width)), np.zeros((height, width))
    np.add.at(value, (y, x), ratio[good])
    np.add.at(weight, (y, x), 1.0)
    # A Gaussian over both axes is two products with matrices of it.
    rows, columns = _gaussian(height), _gaussian(width)
    value, weight = rows @ value @ columns, rows @ weight @ columns
    few = 1e-3  # points' worth of weight that the median has everywhere
    return np.asarray(depth * np.exp((value + few * middle) / (weight + few)), np.float32)


def _gaussian(n: int) -> F64:
    at = np.arange(n)
    return np.exp(-((at[:, None] - at[None, :]) ** 2) / (2 * SIGMA**2))


def neighbours(model: Model) -> dict[int, list[int]]:
    """For each picture of a component those with which it shares most points."""
    sharing = np.zeros((len(model.points), len(model.pictures)), np.float32)
    row = {int(i): k for k, i in enumerate(model.pictures)}
    sharing[model.seen, [row[int(i)] for i in model.seen_by]] = 1
    common = sharing.T @ sharing
    np.fill_diagonal(common, 0)
    out = {}
    for k, i in enumerate(int(p) for p in model.pictures):
        order = np.argsort(-common[k], kind="stable")[:NEIGHBOURS]
        out[i] = [int(model.pictures[o]) for o in order if common[k, o] > 0]
    return out


def agreement(
    model: Model, maps: Mapping[int, DepthMap], picture: int, others: list[int]
) -> npt.NDArray[np.bool_]:
    """Where at least one of ``others`` has the same depth for a picture's points within 3 %."""
    own = maps[picture]
    k = model.row(picture)
    to_world = np.linalg.inv(model.poses[k])
    points = own.camera_points(model.lenses[k]).reshape(-1, 3) @ to_world[:3, :3].T + to_world[:3, 3]
    agrees = np.zeros(len(points), bool)
    for other in others:
        if other not in maps:
            continue
        m, theirs = model.row(other), maps[other]
        local = points @ model.poses[m, :3, :3].T + model.poses[m, :3, 3]
        with np.errstate(invalid="ignore"):
            xy = theirs.transform.to_network(model.lenses[m].pixels(local))
            height, width = theirs.depth.shape
            inside = (local[:, 2] > 0) & ((xy > -0.5) & (xy < (width - 0.5, height - 0.5))).all(1)
        x, y = (np.rint(xy[inside, c]).astype(np.intp) for c in (0, 1))
        z = local[inside, 2]
        agrees[inside] |= np.abs(theirs.depth[y, x] - z) < AGREE * z
    return agrees.reshape(own.depth.shape)


def at_network(mask: Mask, t: Transform) -> Mask:
    """A mask of the picture at network size: of each network pixel, what the mask says at its middle."""
    grid = np.stack(np.meshgrid(np.arange(t.width), np.arange(t.height)), -1).reshape(-1, 2)
    x, y = np.rint(t.to_original(grid)).astype(np.intp).T
    x, y = np.clip(x, 0, mask.shape[1] - 1), np.clip(y, 0, mask.shape[0] - 1)
    return np.asarray(mask[y, x].reshape(t.height, t.width))


def small(image: U8, t: Transform) -> U8:
    """The picture at network size, as the network cut it."""
    from PIL import Image

    resized = Image.fromarray(image).resize((t.resized_width, t.resized_height), Image.Resampling.LANCZOS)
    return np.asarray(resized.crop((t.crop_x, t.crop_y, t.crop_x + t.width, t.crop_y + t.height)))
