# SPDX-License-Identifier: Apache-2.0
"""Our own check of what a mapper made: it is never believed on its word.

A mapper may call a picture placed that no point holds, or whose focal length has run away. A
picture counts as placed only with enough observations in tracks of enough pictures, spread over
its area, and a focal length that a camera can have.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .model import F64, Model

__all__ = ["LEAST", "faults", "overlap_angles", "weakness"]

LEAST = 30  # observations of a placed picture
SPREAD = 0.05  # share of the picture's area that they reach
FOCAL_RANGE = (0.3, 5.0)  # focal length over long side
FOCAL_FACTOR = 2.0  # how far a focal length may move from its first guess
CELLS = 16  # the area is counted in so many cells a side
LEAST_ANGLE = 1.0  # degrees between rays: below it there is no depth
MOST_ERROR = 2.0  # median reprojection error in network pixels


def faults(
    model: Model, first_focal: Mapping[int, float], network_pixel: Mapping[int, float]
) -> dict[int, str]:
    """The pictures of a model that do not hold, each with its reason.

    Parameters
    ----------
    first_focal : by picture, the first guess of its focal length in pixels
    network_pixel : by picture, original pixels per network pixel
    """
    least_track = 2 if len(model.pictures) == 2 else 3
    good = model.track_lengths()[model.seen] >= least_track
    errors = model.errors()
    found: dict[int, str] = {}
    for k, i in enumerate(int(p) for p in model.pictures):
        lens, own = model.lenses[k], good & (model.seen_by == i)
        own &= errors < 4 * MOST_ERROR * network_pixel[i]
        count = int(own.sum())
        ratio = lens.focal / max(lens.width, lens.height)
        moved = lens.focal / first_focal[i]
        if count < LEAST:
            found[i] = f"{count} observations in tracks of {least_track} pictures, want {LEAST}"
        elif (area := _area(model.seen_at[own], lens.width, lens.height)) < SPREAD:
            found[i] = f"its observations reach {area:.1%} of the picture, want {SPREAD:.0%}"
        elif not FOCAL_RANGE[0] < ratio < FOCAL_RANGE[1]:
            found[i] = f"focal length of {ratio:.3g} long sides, want {FOCAL_RANGE[0]} to {FOCAL_RANGE[1]}"
        elif not 1 / FOCAL_FACTOR < moved < FOCAL_FACTOR:
            found[i] = f"focal length moved to {moved:.2f} times its first guess"
    return found


def _area(xy: F64, width: int, height: int) -> float:
    """Share of the picture's cells that hold an observation."""
    x = np.clip((xy[:, 0] + 0.5) / width * CELLS, 0, CELLS - 1).astype(int)
    y = np.clip((xy[:, 1] + 0.5) / height * CELLS, 0, CELLS - 1).astype(int)
    return len(np.unique(y * CELLS + x)) / CELLS**2


def weakness(model: Model, network_pixel: Mapping[int, float]) -> str:
    """Why a whole component is unstable; empty where it is not."""
    if not len(model.seen):
        return "no points"
    pixel = np.array([network_pixel[int(i)] for i in model.seen_by])
    error = float(np.median(model.errors() / pixel))
    if not error < MOST_ERROR:
        return f"median reprojection error of {error:.2f} network pixels, want below {MOST_ERROR:g}"
    angle = float(np.median(overlap_angles(model)))
    if angle < LEAST_ANGLE:
        return f"no parallax: the median angle between rays is {angle:.2f} degrees, want {LEAST_ANGLE:g}"
    return ""


def overlap_angles(model: Model) -> F64:
    """For each point the widest angle in degrees between its first ray and another."""
    row = {int(i): k for k, i in enumerate(model.pictures)}
    centres = model.centres()[[row[int(i)] for i in model.seen_by]]
    rays = model.points[model.seen] - centres
    rays /= np.maximum(np.linalg.norm(rays, axis=1, keepdims=True), 1e-300)
    order = np.argsort(model.seen, kind="stable")
    first = np.full(len(model.points), -1)
    first[model.seen[order][::-1]] = order[::-1]
    cosine = np.clip((rays * rays[first[model.seen]]).sum(1), -1, 1)
    least = np.ones(len(model.points))
    np.minimum.at(least, model.seen, cosine)
    return np.asarray(np.degrees(np.arccos(least)))
