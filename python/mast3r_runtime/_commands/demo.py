# SPDX-License-Identifier: Apache-2.0
"""The demo: pairs whose truth is known, the model in the wheel, and its error on each.

Three pairs. The motorcycle is a real stereo pair with measured disparity, read from an
installed scikit-image (extra ``demo``) because it is not ours to ship. The room is rendered
(see ``tools/render_scene.py`` in the repository) and its truth is exact. The coffee cup is
a photograph beside a homography of itself.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from .._engine.engine import Engine
from .._files.whole import replacing
from .._output import drawing, export
from .._output.export import Picture, write_files
from .._pictures.arrays import U8
from .._pictures.reading import read_image
from .._results.results import InferenceResult, MatchResult
from . import explain

__all__ = ["Pair", "Score", "pairs", "run_pair", "score"]

F64 = npt.NDArray[np.float64]
_PICTURES = Path(__file__).parents[1] / "pictures"
FILES = (*export.RESULT_FILES, "certainty.png", "sheet.png", "score.json")  # of a pair
NEAR_PX = 3.0  # a match this near to the truth, in network pixels, counts as right


@dataclass(frozen=True)
class Pair:
    """Two pictures and what is known about them.

    ``locate`` takes pixels of picture 1 (x, y) to the true ones of picture 2, NaN where nothing
    is known or the point is hidden. ``depth`` is the truth for picture 1: z, or what is
    proportional to it, NaN where unknown.
    """

    name: str
    title: str
    truth: str
    image_1: U8
    image_2: U8
    locate: Callable[[F64], F64]
    depth: F64 | None = None


@dataclass(frozen=True)
class Score:
    """How well matches and depth agree with a pair's truth; None where nothing can be said."""

    matches: int
    known: int  # matches whose truth is known
    near: float | None  # share of those within NEAR_PX
    median_px: float | None
    same_pixel: float | None  # the same share for the guess "nothing moved"
    depth_correlation: float | None  # of 1/z with the true 1/z: blind to scale and shift

    def text(self) -> str:
        line = f"{self.matches} matches"
        if self.near is not None:
            line += (
                f"; of {self.known} with known truth {self.near:.1%} within {NEAR_PX:g} px "
                f"(median {self.median_px:.2f} px), where guessing the same pixel gives {self.same_pixel:.1%}"
            )
        if self.depth_correlation is not None:
            line += f"; inverse-depth correlation {self.depth_correlation:.3f}"
        return line


def pairs() -> Iterator[Pair]:
    """The pairs that can be shown here; the motorcycle only with scikit-image installed."""
    stereo = motorcycle()
    if stereo is not None:
        yield stereo
    yield room()
    yield coffee()


def motorcycle() -> Pair | None:
    """Middlebury 2014 "Motorcycle" as scikit-image carries it, or None without it."""
    spec = importlib.util.find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        return None
    data = Path(spec.submodule_search_locations[0]) / "data"
    names = ("motorcycle_left.png", "motorcycle_right.png", "motorcycle_disp.npz")
    left, right, truth = (data / name for name in names)
    if not all(path.is_file() for path in (left, right, truth)):
        return None
    with np.load(truth) as archive:
        disparity = np.asarray(archive["arr_0"], np.float64)
    disparity[~np.isfinite(disparity) | (disparity <= 0)] = np.nan

    def locate(xy: F64) -> F64:
        out = xy.copy()
        out[:, 0] -= _lookup(disparity, xy)
        return out

    # metres: z = f * baseline / (disparity + doffs), the data set's own numbers
    depth = 994.978 * 0.193001 / (disparity + 31.086)
    return Pair(
        "motorcycle",
        "Motorcycle (real stereo pair)",
        "measured disparity",
        read_image(left),
        read_image(right),
        locate,
        depth,
    )


def room() -> Pair:
    """The rendered room: surface numbers per pixel and exact planes."""
    with np.load(_PICTURES / "room_truth.npz") as archive:
        t = {name: np.asarray(archive[name]) for name in archive.files}
    k, rotation, origin = t["intrinsics"], t["rotation"], t["translation"]

    def points(xy: F64) -> F64:
        rays = np.concatenate([xy, np.ones((len(xy), 1))], 1) @ np.linalg.inv(k).T
        plane = t["planes"][_lookup(t["surface_1"], xy)]
        return np.asarray(rays * (plane[:, 3] / (rays * plane[:, :3]).sum(1))[:, None])

    def locate(xy: F64) -> F64:
        camera_2 = (points(xy) - origin) @ rotation  # X2 = R^T (X1 - t)
        flat = camera_2 @ k.T
        out = flat[:, :2] / flat[:, 2:]
        height, width = t["surface_2"].shape
        inside = (camera_2[:, 2] > 0) & ((out > -0.5) & (out < (width - 0.5, height - 0.5))).all(1)
        seen = np.zeros(len(xy), bool)
        seen[inside] = _lookup(t["surface_2"], out[inside]) == _lookup(t["surface_1"], xy[inside])
        out[~seen] = np.nan
        return np.asarray(out)

    image_1, image_2 = (read_image(_PICTURES / f"room_{i}.png") for i in (1, 2))
    height, width = image_1.shape[:2]
    grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1).reshape(-1, 2)
    depth = points(grid.astype(np.float64))[:, 2].reshape(height, width)
    return Pair("room", "Room (rendered)", "exact geometry", image_1, image_2, locate, depth)


def coffee() -> Pair:
    """A photograph and a homography of it: turned, enlarged, and tilted."""
    first = Image.open(_PICTURES / "coffee.png").convert("RGB")
    width, height = first.size
    a, scale = np.deg2rad(10.0), 1.22
    centre = np.array([[1, 0, -width / 2], [0, 1, -height / 2], [0, 0, 1]])
    turn = np.array(
        [
            [scale * np.cos(a), -scale * np.sin(a), 14],
            [scale * np.sin(a), scale * np.cos(a), -6],
            [2.0e-4, -1.5e-4, 1],
        ]
    )
    homography = np.linalg.inv(centre) @ turn @ centre  # in pixel-edge coordinates: centre = i + 0.5
    back = np.linalg.inv(homography)
    second = first.transform(
        first.size,
        Image.Transform.PERSPECTIVE,
        tuple((back / back[2, 2]).ravel()[:8]),
        Image.Resampling.BICUBIC,
    )

    def locate(xy: F64) -> F64:
        flat = np.concatenate([xy + 0.5, np.ones((len(xy), 1))], 1) @ homography.T
        out = flat[:, :2] / flat[:, 2:] - 0.5
        out[((out < 0) | (out > (width - 1, height - 1))).any(1)] = np.nan
        return np.asarray(out)

    return Pair(
        "coffee",
        "Coffee (photograph and its homography)",
        "known homography",
        np.asarray(first),
        np.asarray(second),
        locate,
    )


def _lookup(table: npt.NDArray[Any], xy: F64) -> npt.NDArray[Any]:
    """Values at the nearest pixels; points outside take the border's."""
    x = np.clip(np.rint(xy[:, 0]), 0, table.shape[1] - 1).astype(np.intp)
    y = np.clip(np.rint(xy[:, 1]), 0, table.shape[0] - 1).astype(np.intp)
    return np.asarray(table[y, x])


def errors_px(pair: Pair, matches: MatchResult) -> F64:
    """Distance of each match from the truth, in network pixels of picture 2; NaN unknown."""
    return np.asarray(np.linalg.norm(_truth_px(pair, matches) - matches.pts2d_2, axis=1))


def _truth_px(pair: Pair, matches: MatchResult) -> F64:
    """Where the pixels of picture 1 truly are, in network pixels of picture 2."""
    assert matches.transform_2 is not None
    return matches.transform_2.to_network(pair.locate(matches.original_1))


def score(pair: Pair, result: InferenceResult, matches: MatchResult) -> Score:
    """Compare with the truth."""
    true = _truth_px(pair, matches)
    error = np.linalg.norm(true - matches.pts2d_2, axis=1)
    still = np.linalg.norm(true - matches.pts2d_1, axis=1)
    known = np.isfinite(error)
    depth = _depth_correlation(pair, result)
    if not known.any():
        return Score(len(matches), 0, None, None, None, depth)
    return Score(
        len(matches),
        int(known.sum()),
        float((error[known] < NEAR_PX).mean()),
        float(np.median(error[known])),
        float((still[known] < NEAR_PX).mean()),
        depth,
    )


def _depth_correlation(pair: Pair, result: InferenceResult) -> float | None:
    if pair.depth is None:
        return None
    height, width = result.conf_1.shape
    grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1).reshape(-1, 2)
    true = _lookup(pair.depth, result.transform_1.to_original(grid))
    z = result.pts3d_1[:, :, 2].reshape(-1).astype(np.float64)
    use = np.isfinite(true) & np.isfinite(z) & (true > 0) & (z > 0)
    if use.sum() < 3:
        return None
    return float(np.corrcoef(1 / z[use], 1 / true[use])[0, 1])


def run_pair(engine: Engine, pair: Pair, directory: Path) -> tuple[Score, Mapping[str, float], Picture]:
    """Run a pair, write its pictures and point clouds into ``directory``, a folder of ours.

    Returns the score, the timing and the contact sheet.
    """
    result = engine.infer_gpu(pair.image_1, pair.image_2).numpy()
    matches = engine.match(result, top_k=None, confidence_threshold=0.0)
    rated = score(pair, result, matches)
    directory.mkdir(parents=True, exist_ok=True)
    error = errors_px(pair, matches)
    known = np.isfinite(error)
    lines = drawing.matches(
        pair.image_1,
        pair.image_2,
        matches.original_1[known],
        matches.original_2[known],
        error[known] < NEAR_PX,
        caption=f"green: within {NEAR_PX:g} network pixels of the truth ({pair.truth}); red: not",
    )
    drawn = write_files(directory, result, matches, pair.image_1, pair.image_2, lines)
    maps = [("depth of picture 1", drawn["depth"]), ("confidence of picture 1", drawn["confidence"])]
    if pair.depth is not None:
        maps.insert(1, ("true depth of picture 1", drawing.depth_map(pair.depth)))
    points = export.coloured_points(result, pair.image_1, pair.image_2)
    side = ("points of both pictures, from the left", "and from the right")
    line = explain.line(result, matches)
    sure = explain.drawn(pair.image_1, pair.image_2, matches, True, line)
    export.write_png(directory / "certainty.png", sure)
    rows = [
        [("picture 1", Image.fromarray(pair.image_1)), ("picture 2", Image.fromarray(pair.image_2))],
        [(f"{len(matches)} matches, a few of them drawn", lines)],
        [("the same by how sure they are, with epipolar lines", sure)],
        maps,
        [(side[0], drawn["cloud"]), (side[1], drawing.point_cloud(*points, yaw=-18.0))],
    ]
    sheet = drawing.contact_sheet(rows, pair.title, [rated.text()])
    export.write_png(directory / "sheet.png", sheet)
    with replacing(directory / "score.json") as temporary:
        temporary.write_text(json.dumps(vars(rated), indent=2) + "\n")
    return rated, result.timing, sheet
