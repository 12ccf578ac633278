# SPDX-License-Identifier: Apache-2.0
"""OpenCV's SIFT in the place of a network's matches, for cameras that a network of many views gives.

Key points of two pictures match where each is the other's nearest and clearly nearer than the
second. Depth is what the network of many views says, in the unit of its cameras.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._pictures.header import Photo
from .._pictures.reading import pixels_of
from .._store.store import Arrays, Store, key_of
from ..errors import DependencyError
from .evidence import Evidence, PairMatches
from .parts import Picture

__all__ = ["gather", "opencv"]

F32 = npt.NDArray[np.float32]

WAY = 1  # another number where a change gives other matches
KIND = "sift"
POINTS = 8192  # of a picture, the strongest
CONTRAST = 0.02
RATIO = 0.8  # of the distances to the nearest and the second
LONGEST = 3200  # pixels: larger pictures are matched smaller
EXACT = 2.0  # pixels by which COLMAP's tolerances are counted, as for the network's matches
INSTALL = "pip install 'mast3r-runtime[sift]'"


def opencv() -> Any:
    """The package; DependencyError with the command that installs it."""
    try:
        import cv2
    except ImportError as error:
        raise DependencyError(f"matches by SIFT need OpenCV: {INSTALL}") from error
    return cv2


def gather(
    photos: Sequence[Photo],
    pairs: Sequence[tuple[int, int]],
    store: Store,
    start: Mapping[str, Picture],
    tick: Callable[[], None] = lambda: None,
) -> Evidence:
    """Match every pair, taking from the store what is there. ``start`` has the depth, by name."""
    points = _Points(photos)
    evidence = Evidence()
    for i, j in pairs:
        with evidence.watched(photos, i, j) as both:
            if both:
                key = key_of(KIND, WAY, opencv().__version__, photos[i].sha256, photos[j].sha256)
                found = store.read_arrays(KIND, key)
                if found is None:
                    found = _match(points.of(i), points.of(j))
                    store.write_arrays(KIND, key, found)
                evidence.pairs.append(PairMatches(i, j, found["xy_1"], found["xy_2"]))
        tick()
    evidence.forget_lost()
    for i, photo in enumerate(photos):
        evidence.pixel[i] = EXACT * max(1.0, max(photo.width, photo.height) / LONGEST)
        depth = start[photo.name].depth if photo.name in start else None
        if depth is not None:
            evidence.transforms[i] = depth.transform
            evidence.depth[i], evidence.confidence[i] = depth.depth, depth.confidence
    evidence.encoded = len(points.found)
    return evidence


class _Points:
    """Key points ``[n, 2]`` in original pixels and descriptors of pictures, found when asked for."""

    def __init__(self, photos: Sequence[Photo]) -> None:
        self.photos = photos
        self.found: dict[int, tuple[F32, F32]] = {}

    def of(self, i: int) -> tuple[F32, F32]:
        if i not in self.found:
            self.found[i] = _detect(pixels_of(self.photos[i].path, self.photos[i].sha256))
        return self.found[i]


def _detect(image: npt.NDArray[np.uint8]) -> tuple[F32, F32]:
    cv2 = opencv()
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    factor = max(1.0, max(height, width) / LONGEST)
    if factor > 1:
        size = (round(width / factor), round(height / factor))
        grey = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
    # Without the precise upscale every point is a quarter of a pixel off.
    sift = cv2.SIFT_create(POINTS, contrastThreshold=CONTRAST, enable_precise_upscale=True)
    keys, descriptors = sift.detectAndCompute(grey, None)
    if descriptors is None:
        return np.zeros((0, 2), np.float32), np.zeros((0, 128), np.float32)
    scale = np.array([width / grey.shape[1], height / grey.shape[0]])
    xy = (np.array([k.pt for k in keys]) + 0.5) * scale - 0.5
    # Points with two directions are there twice: once is enough for a camera.
    _, first = np.unique(xy, axis=0, return_index=True)
    return xy[first].astype(np.float32), np.sqrt(descriptors[first] / 512).astype(np.float32)


def _match(one: tuple[F32, F32], two: tuple[F32, F32]) -> Arrays:
    none = np.zeros((0, 2), np.float32)
    if min(len(one[0]), len(two[0])) < 2:
        return {"xy_1": none, "xy_2": none}
    cv2 = opencv()
    matcher = cv2.BFMatcher(cv2.NORM_L2)
    back = [m.trainIdx for m in matcher.match(two[1], one[1])]
    good = [
        (m.queryIdx, m.trainIdx)
        for m, n in matcher.knnMatch(one[1], two[1], k=2)
        if m.distance < RATIO * n.distance and back[m.trainIdx] == m.queryIdx
    ]
    chosen = np.array(good, np.intp).reshape(-1, 2)
    return {"xy_1": one[0][chosen[:, 0]], "xy_2": two[0][chosen[:, 1]]}
