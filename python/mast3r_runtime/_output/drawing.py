# SPDX-License-Identifier: Apache-2.0
"""Pictures of results: depth, confidence, matches, point clouds, contact sheets.

Pillow and numpy only. Every function returns a PIL picture and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from ..errors import ArgumentError, ShapeError, checked

__all__ = ["colourise", "confidence_map", "contact_sheet", "depth_map", "matches", "point_cloud"]

Picture = Image.Image
U8 = npt.NDArray[np.uint8]

# Ten evenly spaced colours of matplotlib's maps of these names (CC0), dark to light; the
# values between are interpolated.
_MAPS = {
    "viridis": "440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725",
    "turbo": "30123b 4662d7 36aaf9 1ae4b6 72fe5e c8ef34 faba39 f66b19 ca2a04 7a0403",
}
_GOOD, _BAD = (66, 214, 120), (235, 64, 52)
_PAPER, _INK, _FAINT = (250, 250, 250), (32, 32, 32), (110, 110, 110)
_MOST_PIXELS = 1 << 28


def _palette(name: str) -> U8:
    """256 colours of a map."""
    stops = np.array([[int(c[i : i + 2], 16) for i in (0, 2, 4)] for c in _MAPS[name].split()], float)
    at = np.linspace(0, len(stops) - 1, 256)
    rows = [np.interp(at, np.arange(len(stops)), stops[:, k]) for k in range(3)]
    return np.asarray(np.rint(np.stack(rows, 1)), np.uint8)


@checked
def colourise(values: npt.ArrayLike, low: float, high: float, palette: str = "viridis") -> Picture:
    """A map of numbers as colours; ``low`` and ``high`` take the ends, NaN is grey."""
    array = np.asarray(values, float)
    if array.ndim != 2:
        raise ShapeError(f"colourise: values of shape {array.shape}, want (H, W)")
    scaled = (array - low) / (high - low if high > low else 1.0)
    known = np.isfinite(scaled)
    index = np.rint(np.clip(np.where(known, scaled, 0), 0, 1) * 255).astype(np.uint8)
    pixels = _palette(palette)[index]
    pixels[~known] = 128
    return Image.fromarray(pixels)


@checked
def depth_map(depth: npt.ArrayLike, unit: str = "") -> Picture:
    """Depth, near in warm colours, with a scale.

    The colours are even in inverse depth: a two-view network measures disparity, so equal
    steps of colour are equal steps of what it can tell apart.
    """
    array = np.asarray(depth, float)
    with np.errstate(divide="ignore"):
        inverse = np.where(array > 0, 1 / array, np.nan)
    low, high = _range(inverse)
    ends = [f"{1 / v:.3g}{unit}" if v > 0 else "far" for v in (low, high)]
    return _with_scale(colourise(inverse, low, high, "turbo"), "turbo", ends, "depth")


@checked
def confidence_map(confidence: npt.ArrayLike) -> Picture:
    """Confidence, even in the network's own x: it gives 1 + exp(x)."""
    array = np.log(np.maximum(np.asarray(confidence, float) - 1, 1e-12))
    low, high = _range(array)
    ends = [f"{1 + np.exp(v):.5g}" for v in (low, high)]
    return _with_scale(colourise(array, low, high, "viridis"), "viridis", ends, "confidence")


def _range(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The middle 98 %: a handful of stray pixels must not take all the colours."""
    known = values[np.isfinite(values)]
    if not known.size:
        return 0.0, 1.0
    low, high = np.percentile(known, (1, 99))
    return float(low), float(high)


def _with_scale(picture: Picture, palette: str, ends: Sequence[str], title: str) -> Picture:
    """A colour bar with its two end values below a picture, which is enlarged if it is small."""
    picture = _at_least(picture, 512)
    width, height = picture.size
    sheet = Image.new("RGB", (width, height + 26), _PAPER)
    sheet.paste(picture, (0, 0))
    draw, font = ImageDraw.Draw(sheet), _font(13)
    left, right = (draw.textlength(text, font) for text in ends)
    bar = max(int(width - left - right - 32), 1)
    strip = Image.fromarray(np.ascontiguousarray(_palette(palette)[None])).resize((bar, 10))
    sheet.paste(strip, (int(left) + 16, height + 8))
    draw.text((8, height + 5), ends[0], _INK, font)
    draw.text((width - right - 8, height + 5), ends[1], _INK, font)
    if bar > 4 * draw.textlength(title, font):
        middle = left + 16 + bar / 2
        draw.text(
            (middle, height + 13), title, (255, 255, 255), font, anchor="mm", stroke_width=2, stroke_fill=_INK
        )
    return sheet


def _at_least(picture: Picture, width: int) -> Picture:
    if picture.width >= width:
        return picture
    return picture.resize((width, round(picture.height * width / picture.width)), Image.Resampling.BICUBIC)


def _font(size: int) -> Any:
    return ImageFont.load_default(size)


# From unsure to sure, both plain against photographs and for eyes that mix red and green.
_SURENESS = (np.array([120.0, 20, 60]), np.array([255.0, 220, 60]))


@checked
def matches(
    image_1: U8,
    image_2: U8,
    xy_1: npt.ArrayLike,
    xy_2: npt.ArrayLike,
    good: npt.ArrayLike | None = None,
    limit: int = 160,
    caption: str = "",
    certainty: npt.ArrayLike | None = None,
    fundamental: npt.ArrayLike | None = None,
) -> Picture:
    """Two pictures side by side with lines between matching pixels.

    ``good`` marks what agrees with the truth: green, the others red. ``certainty`` (0 to 1, of
    each match) colours from dark red, unsure, to yellow, sure. Without either each line has the
    colour of its place in the first picture. At most ``limit`` lines are drawn, spread over the
    picture. ``fundamental`` [3, 3] draws the epipolar lines of a few matches in both pictures.
    """
    points_1, points_2 = np.asarray(xy_1, float), np.asarray(xy_2, float)
    if points_1.shape != points_2.shape or points_1.ndim != 2 or points_1.shape[1] != 2:
        raise ShapeError(f"matches: {points_1.shape} and {points_2.shape}, want two of (N, 2)")
    # Drawn twice as large and reduced: smooth lines. Large pictures are reduced first, so that
    # lines stay visible and the sheet stays small.
    gap, scale = 8, 2
    shrink = min(1.0, 800 / max(*image_1.shape[:2], *image_2.shape[:2]))
    (w1, h1), (w2, h2) = (
        (max(round(image.shape[1] * shrink), 1), max(round(image.shape[0] * shrink), 1))
        for image in (image_1, image_2)
    )
    points_1, points_2 = (points_1 + 0.5) * shrink - 0.5, (points_2 + 0.5) * shrink - 0.5
    sheet = Image.new("RGB", ((w1 + gap + w2) * scale, max(h1, h2) * scale), _PAPER)
    for image, left, size in ((image_1, 0, (w1, h1)), (image_2, w1 + gap, (w2, h2))):
        large = Image.fromarray(image).resize((size[0] * scale, size[1] * scale), Image.Resampling.BICUBIC)
        sheet.paste(large, (left * scale, 0))
    draw = ImageDraw.Draw(sheet)
    if not limit >= 0:
        raise ArgumentError(f"limit {limit} lines, want 0 or more")
    keep = _spread(points_1, limit) if limit else []
    if fundamental is not None:
        _epipolar(
            sheet, np.asarray(fundamental, float), points_1, points_2, ((w1, h1), (w2, h2)), shrink, scale
        )
    palette = _palette("turbo")
    sure = None if certainty is None else np.clip(np.asarray(certainty, float), 0, 1)
    for i in keep:
        if sure is not None:
            colour = tuple(int(v) for v in _SURENESS[0] + sure[i] * (_SURENESS[1] - _SURENESS[0]))
        elif good is None:
            colour = tuple(int(v) for v in palette[int(255 * np.clip(points_1[i, 0] / w1, 0, 1))])
        else:
            colour = _GOOD if np.asarray(good)[i] else _BAD
        (xa, ya), (xb, yb) = (points_1[i] + 0.5) * scale, (points_2[i] + (w1 + gap + 0.5, 0.5)) * scale
        draw.line((xa, ya, xb, yb), colour, scale)
        for x, y in ((xa, ya), (xb, yb)):
            draw.ellipse((x - 5, y - 5, x + 5, y + 5), colour, (255, 255, 255))
    sheet = sheet.resize((sheet.width // scale, sheet.height // scale), Image.Resampling.LANCZOS)
    return _captioned(sheet, caption) if caption else sheet


def _epipolar(
    sheet: Picture,
    fundamental: npt.NDArray[np.float64],
    points_1: npt.NDArray[np.float64],
    points_2: npt.NDArray[np.float64],
    sizes: tuple[tuple[int, int], tuple[int, int]],
    shrink: float,
    scale: int,
) -> None:
    """Draw the epipolar lines of some matches, in pictures that lie side by side."""
    back = np.array([[1 / shrink, 0, 0.5 / shrink - 0.5], [0, 1 / shrink, 0.5 / shrink - 0.5], [0, 0, 1]])
    small = back.T @ fundamental @ back  # of the reduced pictures' pixels
    draw = ImageDraw.Draw(sheet)
    for i in _spread(points_1, 10):
        ends = (
            (small.T @ [*points_2[i], 1], 0, sizes[0]),
            (small @ [*points_1[i], 1], sizes[0][0] + 8, sizes[1]),
        )
        for (a, b, c), left, (width, height) in ends:
            hits = []
            if abs(b) > 1e-12:
                hits += [(x, -(a * x + c) / b) for x in (-0.5, width - 0.5)]
            if abs(a) > 1e-12:
                hits += [(-(b * y + c) / a, y) for y in (-0.5, height - 0.5)]
            hits = [(x, y) for x, y in hits if -0.51 <= x <= width - 0.49 and -0.51 <= y <= height - 0.49]
            if len(hits) >= 2:
                low, high = min(hits), max(hits)
                line = [((x + 0.5 + left) * scale, (y + 0.5) * scale) for x, y in (low, high)]
                draw.line(line, (255, 255, 255), scale)


def _spread(points: npt.NDArray[np.float64], limit: int) -> list[int]:
    """Numbers of at most ``limit`` points: the first (most confident) of each grid cell."""
    if len(points) <= limit:
        return list(range(len(points)))
    low, high = points.min(0), points.max(0)
    extent = np.maximum(high - low, 1.0)
    cell = np.sqrt(extent[0] * extent[1] / limit)
    grid = np.floor((points - low) / cell).astype(np.int64)
    _, first = np.unique(grid[:, 1] << 32 | grid[:, 0], return_index=True)
    return [int(i) for i in np.sort(first)]


def _captioned(picture: Picture, text: str) -> Picture:
    """The picture above as many lines of text as it takes."""
    font, lines = _font(14), [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and font.getlength(longer) > picture.width - 16:
            lines.append(word)
        else:
            lines[-1] = longer
    sheet = Image.new("RGB", (picture.width, picture.height + 6 + 18 * len(lines)), _PAPER)
    sheet.paste(picture, (0, 0))
    for k, line in enumerate(lines):
        ImageDraw.Draw(sheet).text((8, picture.height + 4 + 18 * k), line, _INK, font)
    return sheet


@checked
def point_cloud(
    points: npt.ArrayLike,
    colours: npt.ArrayLike,
    yaw: float = 18.0,
    pitch: float = -8.0,
    size: tuple[int, int] = (640, 440),
) -> Picture:
    """Coloured points seen from beside the first camera: turned about their middle."""
    xyz, rgb = np.asarray(points, float).reshape(-1, 3), np.asarray(colours).reshape(-1, 3)
    width, height = size
    if min(width, height) < 1 or width * height > _MOST_PIXELS:
        raise ArgumentError(f"point_cloud: {width} x {height} pixels, want 1 to {_MOST_PIXELS}")
    canvas = np.full((height, width, 3), _PAPER, np.uint8)
    known = np.isfinite(xyz).all(1) & (xyz[:, 2] > 0)
    if not known.any():
        return Image.fromarray(canvas)
    xyz, rgb = xyz[known], rgb[known]
    middle = np.array([0.0, 0.0, np.median(xyz[:, 2])])
    if not np.isfinite(yaw) or not np.isfinite(pitch):
        raise ArgumentError(f"point_cloud: yaw={yaw}, pitch={pitch}, want finite degrees")
    a, b = np.deg2rad(yaw), np.deg2rad(pitch)
    turn = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    tilt = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    seen = (xyz - middle) @ (tilt @ turn).T + middle
    seen, rgb = seen[seen[:, 2] > 1e-6], rgb[seen[:, 2] > 1e-6]
    flat = seen[:, :2] / seen[:, 2:]
    low, high = np.percentile(flat, 2, axis=0), np.percentile(flat, 98, axis=0)
    focal = 0.92 * min(width / max(high[0] - low[0], 1e-9), height / max(high[1] - low[1], 1e-9))
    pixel = np.rint((flat - (low + high) / 2) * focal + (width / 2, height / 2)).astype(np.int64)
    order = np.argsort(-seen[:, 2], kind="stable")  # far first: the near ones paint over them
    pixel, rgb = pixel[order], rgb[order]
    spots = [(dx, dy) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    for dx, dy in spots if len(rgb) < width * height // 2 else spots[4:]:
        x, y = pixel[:, 0] + dx, pixel[:, 1] + dy
        inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
        canvas[y[inside], x[inside]] = rgb[inside]
    return Image.fromarray(canvas)


@checked
def contact_sheet(
    rows: Sequence[Sequence[tuple[str, Picture]]],
    title: str = "",
    notes: Sequence[str] = (),
    width: int = 1100,
) -> Picture:
    """Titled pictures in rows, each row as wide as the sheet, with lines of text below."""
    if not 0 < width <= 1 << 16:
        raise ArgumentError(f"contact_sheet: width={width}, want 1 to {1 << 16} pixels")
    pad, head = 12, 22
    placed: list[tuple[int, int, str, Picture]] = []
    y = 42 if title else pad
    for row in rows:
        share = (width - pad * (len(row) + 1)) // len(row)
        tallest = 0
        for column, (name, picture) in enumerate(row):
            size = (share, max(round(picture.height * share / picture.width), 1))
            tile = picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
            placed.append((pad + column * (share + pad), y, name, tile))
            tallest = max(tallest, tile.height + (head if name else 0))
        y += tallest + pad
    if width * y > _MOST_PIXELS:
        raise ArgumentError(f"contact_sheet: {width} x {y} pixels, want at most {_MOST_PIXELS}")
    sheet = Image.new("RGB", (width, y + 20 * len(notes) + (pad if notes else 0)), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((pad, 10), title, _INK, _font(22))
    for x, top, name, tile in placed:
        draw.text((x, top + 2), name, _FAINT, _font(14))
        sheet.paste(tile, (x, top + (head if name else 0)))
    for i, note in enumerate(notes):
        draw.text((pad, y + 20 * i), note, _INK, _font(15))
    return sheet
