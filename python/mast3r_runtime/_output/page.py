# SPDX-License-Identifier: Apache-2.0
"""The page as data, and the one HTML file that shows it.

The file holds everything: three.js, our script, a header of JSON, and the points. A point takes
10 bytes, in base64: three 16-bit places in its cloud's box (wrong by at most box / 131070: 0.08 mm
in 10 m), three bytes of colour, one for the number of its picture, or two above 256 pictures. Small
clouds have 32-bit places. A few points far from the others are a cloud of their own, with its own
box. Where the world is far from its origin, everything counts from another one, which is in the header.
Points lie by falling confidence, so that hiding the least confident is drawing fewer. The ends of
a match are 16-bit places in their pictures. A content security policy forbids every request: what
it shows needs no network.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from .._files.single import seal
from .._files.whole import replacing
from .._library.version import __version__
from .._pictures.arrays import U8
from ..errors import ArgumentError, ShapeError, checked, quoted
from . import drawing, far

__all__ = ["Camera", "Cloud", "Matches", "Page", "html", "write"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

SCHEMA = 1
LIMIT = 20_000_000  # points a page can have: browsers end a text at 512 MB
BLOCK = 36 << 20  # bytes of one block before base64, a multiple of 3
LINES = 500  # matches of a pair that are kept
FINE = 250_000  # points up to which places have 32 bits
AWAY = 4.0  # times the size of the middle 98 % beside it, where a point is far from the others
_WEB = Path(__file__).with_name("web")
_SCRIPTS = ("data.js", "world.js", "panel.js")


@checked
@dataclass(frozen=True)
class Cloud:
    """Coloured points ``[N, 3]`` in the world's frame (OpenCV axes).

    ``confidence [N]`` orders them, whatever ``quantity`` it is; ``picture [N]`` is the number of
    the picture each came from, in the page's list.
    """

    name: str
    points: npt.NDArray[np.floating]
    colours: U8
    confidence: npt.NDArray[Any]
    picture: npt.NDArray[np.integer]
    quantity: str = "confidence"

    def __post_init__(self) -> None:
        n = len(self.points)
        wanted = {"points": (n, 3), "colours": (n, 3), "confidence": (n,), "picture": (n,)}
        for name, shape in wanted.items():
            if getattr(self, name).shape != shape:
                raise ShapeError(
                    f"cloud {quoted(self.name)}: {name} of {getattr(self, name).shape}, want {shape}"
                )
        if n and not 0 <= int(self.picture.min()) <= int(self.picture.max()) < 65536:
            raise ShapeError(f"cloud {quoted(self.name)}: picture numbers outside 0..65535")


@dataclass(frozen=True)
class Camera:
    """A picture in the list. ``pose`` is world from camera ``[4, 4]``, None where it is not placed.

    ``intrinsics [3, 3]`` are those of a picture of ``size`` (width, height), whose pixel centres
    lie at whole numbers. ``image`` is what the thumbnail is made of.
    """

    name: str
    size: tuple[int, int]
    pose: npt.NDArray[np.floating] | None = None
    intrinsics: npt.NDArray[np.floating] | None = None
    status: str = "placed"
    reason: str = ""
    component: int = 0
    image: U8 | None = None


@dataclass(frozen=True)
class Matches:
    """Pixels ``[N, 4]`` (x, y of the first, x, y of the second) of two pictures of the list."""

    first: int
    second: int
    pixels: npt.NDArray[np.floating]


@dataclass(frozen=True)
class Page:
    """What a page shows. ``scale`` is one sentence on how far lengths can be trusted."""

    title: str
    clouds: Sequence[Cloud]
    cameras: Sequence[Camera]
    matches: Sequence[Matches] = field(default=())
    unit: str = "units"
    scale: str = ""


def thin(cloud: Cloud, count: int) -> Cloud:
    """At most ``count`` points: the most confident one of each cell of a grid, or just finite ones."""
    finite = far.finite(cloud.points, cloud.name) & np.isfinite(cloud.confidence)
    order = np.argsort(-cloud.confidence[finite], kind="stable")
    chosen = np.flatnonzero(finite)[order]
    if len(chosen) > count:
        points = np.asarray(cloud.points)[chosen]
        low, high = np.percentile(points, (1, 99), axis=0)
        inner = float(np.linalg.norm(high - low)) or 1.0
        # Surfaces: the number of cells falls with the square of their side. Two guesses, each
        # from the count that the one before gave, end near the count that is wanted.
        cell = inner / np.sqrt(count)
        first = np.arange(count)
        for _ in range(4):
            key = np.clip(np.floor((points - low) / cell), -(2.0**40), 2.0**40).astype(np.int64)
            flat = (key[:, 0] * 73856093) ^ (key[:, 1] * 19349663) ^ (key[:, 2] * 83492791)
            first = np.unique(flat, return_index=True)[1]
            if 0.9 * count <= len(first) <= count:
                break
            cell *= np.sqrt(len(first) / (0.95 * count))
        chosen = chosen[np.sort(first)[:count]]
    return _some(cloud, chosen, cloud.name)


def html(page: Page, *, max_points: int = 1_000_000, thumb: int = 160) -> Iterator[str]:
    """The page's text in pieces. See :func:`mast3r_runtime.viewer.write_html`."""
    if not 1 <= max_points <= LIMIT:
        raise ArgumentError(f"max_points {max_points}, want 1 to {LIMIT}")
    if not 16 <= thumb <= 1024:
        raise ArgumentError(f"thumb {thumb}, want 16 to 1024 pixels")
    page, start = centred(page)
    clouds = [part for cloud in page.clouds for part in _apart(thin(cloud, max_points))]
    clouds = [cloud for cloud in clouds if len(cloud.points)]
    boxes = [_box(cloud) for cloud in clouds]
    parts = {
        "TITLE": _escaped(page.title),
        "STYLE": (_WEB / "page.css").read_text("utf-8"),
        "THREE": _script((_WEB / "three.js").read_text("utf-8")),
        "SCRIPT": _script("\n".join((_WEB / name).read_text("utf-8") for name in _SCRIPTS)),
    }
    before, after = (_WEB / "page.html").read_text("utf-8").split("{{DATA}}")
    yield _filled(before, parts)
    header = json.dumps(_header(page, start, clouds, boxes, thumb), allow_nan=False).replace("<", "\\u003c")
    yield f'<script type="application/json" id="head">{header}</script>\n'
    for number, (cloud, (low, size)) in enumerate(zip(clouds, boxes)):
        kind, most = ("<u4", 2**32 - 1) if len(cloud.points) <= FINE else ("<u2", 65535)
        places = np.rint((cloud.points - low) / size * most).astype(kind)
        yield from _blocks(number, "xyz", places.tobytes())
        yield from _blocks(number, "rgb", np.ascontiguousarray(cloud.colours, np.uint8).tobytes())
        yield from _blocks(number, "picture", cloud.picture.astype(_number(cloud)).tobytes())
    yield _filled(after, parts)


def centred(page: Page) -> tuple[Page, F64]:
    """The page with its origin moved to its middle where it lies far from it, and where that was."""
    start = next((far.origin(c.points) for c in page.clouds if len(c.points)), np.zeros(3))
    if not start.any():
        return page, start
    clouds = [replace(c, points=np.asarray(c.points, np.float64) - start) for c in page.clouds]
    cameras = []
    for camera in page.cameras:
        pose = None if camera.pose is None else np.array(camera.pose, np.float64)
        if pose is not None:
            pose[:3, 3] -= start
        cameras.append(replace(camera, pose=pose))
    return replace(page, clouds=clouds, cameras=cameras), start


def _apart(cloud: Cloud) -> list[Cloud]:
    """The cloud, and behind it the points that lie far from the others, whose box would be all of it."""
    if not len(cloud.points):
        return [cloud]
    low, high = np.percentile(cloud.points, (1, 99), axis=0)
    margin = AWAY * float((high - low).max())
    near = ((cloud.points >= low - margin) & (cloud.points <= high + margin)).all(1)
    if near.all() or not near.any():
        return [cloud]
    return [_some(cloud, near, cloud.name), _some(cloud, ~near, f"{cloud.name}, far away")]


def _some(cloud: Cloud, chosen: npt.NDArray[Any], name: str) -> Cloud:
    points, colours = cloud.points[chosen], cloud.colours[chosen]
    return Cloud(name, points, colours, cloud.confidence[chosen], cloud.picture[chosen], cloud.quantity)


def write(path: Path, page: Page, *, max_points: int = 1_000_000, thumb: int = 160) -> Path:
    """Write the page beside its name and rename it."""
    pieces = html(page, max_points=max_points, thumb=thumb)
    with replacing(path) as temporary:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
        seal(temporary)
    return path


def _filled(text: str, parts: dict[str, str]) -> str:
    """Replace the marks in one pass: what is put in is not searched for marks."""
    out: list[str] = []
    for piece in text.split("{{"):
        name, _, rest = piece.partition("}}")
        out.append(parts[name] + rest if out and name in parts else ("{{" if out else "") + piece)
    return "".join(out)


def _escaped(text: str) -> str:
    """Text for HTML; of a folder's name that is no text, the bytes as escapes."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _script(text: str) -> str:
    """A script's text; inside strings and regular expressions ``<\\/`` is the same as ``</``."""
    return text.replace("</script", "<\\/script")


def _blocks(cloud: int, part: str, data: bytes) -> Iterator[str]:
    for at in range(0, max(len(data), 1), BLOCK):
        text = base64.b64encode(data[at : at + BLOCK]).decode("ascii")
        yield f'<script type="text/plain" data-cloud="{cloud}" data-part="{part}">{text}</script>\n'


def _number(cloud: Cloud) -> str:
    """The type of the pictures' numbers."""
    return "<u1" if not len(cloud.picture) or int(cloud.picture.max()) < 256 else "<u2"


def _box(cloud: Cloud) -> tuple[F64, F64]:
    low = cloud.points.min(0).astype(np.float64)
    return low, np.maximum(cloud.points.max(0).astype(np.float64) - low, 1e-12)


def _header(
    page: Page, start: F64, clouds: Sequence[Cloud], boxes: Sequence[tuple[F64, F64]], thumb: int
) -> dict[str, object]:
    count = len(page.cameras)
    side = thumb if count <= 500 else min(thumb, 64) if count <= 5000 else 0
    return {
        "schema": SCHEMA,
        "made_by": f"mast3r-runtime {__version__}",
        "title": page.title,
        "unit": page.unit,
        "scale": page.scale,
        "origin": start.tolist(),
        "clouds": [_cloud_header(cloud, *box) for cloud, box in zip(clouds, boxes)],
        "pictures": [_camera_header(camera, side) for camera in page.cameras],
        "matches": [_match_header(m, page.cameras) for m in page.matches],
        "fallback": _still(clouds),
    }


def _cloud_header(cloud: Cloud, low: F64, size: F64) -> dict[str, object]:
    falling = np.quantile(cloud.confidence, np.linspace(0, 1, 101))
    return {
        "name": cloud.name,
        "count": len(cloud.points),
        "low": low.tolist(),
        "size": size.tolist(),
        "middle": np.percentile(cloud.points, (5, 95), axis=0).tolist(),
        "quantity": cloud.quantity,
        "place_bytes": 4 if len(cloud.points) <= FINE else 2,
        "picture_bytes": np.dtype(_number(cloud)).itemsize,
        "quantiles": [float(f"{v:.6g}") for v in falling],
    }


def _camera_header(camera: Camera, side: int) -> dict[str, object]:
    out: dict[str, object] = {
        "name": camera.name,
        "width": camera.size[0],
        "height": camera.size[1],
        "status": camera.status,
        "reason": camera.reason,
        "component": camera.component,
        "pose": None,
        "thumb": _thumbnail(camera.image, side) if camera.image is not None and side else None,
    }
    if camera.pose is not None and camera.intrinsics is not None:
        k = np.asarray(camera.intrinsics, np.float64)
        out["pose"] = [round(v, 9) for v in np.asarray(camera.pose, np.float64)[:3].ravel().tolist()]
        out["k"] = [k[0, 0], k[1, 1], k[0, 2], k[1, 2]]
    return out


def _match_header(matches: Matches, cameras: Sequence[Camera]) -> dict[str, object]:
    first, second = matches.first, matches.second
    if not 0 <= min(first, second) <= max(first, second) < len(cameras):
        raise ShapeError(f"matches of pictures {first} and {second}, the page has {len(cameras)}")
    pixels = np.asarray(matches.pixels, np.float64).reshape(-1, 4)
    pixels = pixels[np.isfinite(pixels).all(1)]
    step = max(-(-len(pixels) // LINES), 1)
    sizes = np.maximum([*cameras[first].size, *cameras[second].size], 1)
    places = np.clip((pixels[::step] + 0.5) / sizes, 0, 1) * 65535
    text = base64.b64encode(np.rint(places).astype("<u2").tobytes()).decode("ascii")
    return {"a": first, "b": second, "xy": text}


def _thumbnail(image: U8, side: int) -> str:
    picture = Image.fromarray(image)
    picture.thumbnail((side, side))
    return _jpeg(picture, 70)


def _jpeg(picture: Image.Image, quality: int) -> str:
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=quality)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode("ascii")


def _still(clouds: Sequence[Cloud]) -> str:
    """What a browser without WebGL 2 shows: the first cloud from the front and from above."""
    if not clouds:
        return ""
    cloud = clouds[0]
    step = max(len(cloud.points) // 100_000, 1)
    points, colours = cloud.points[::step], cloud.colours[::step]
    middle = np.median(points, axis=0)
    reach = float(np.percentile(np.linalg.norm(points - middle, axis=1), 90)) or 1.0
    front = points - middle + (0, 0, 2.5 * reach)
    above = (points - middle) @ np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]]) + (0, 0, 2.5 * reach)
    views = [drawing.point_cloud(xyz, colours, yaw=0, pitch=0) for xyz in (front, above)]
    return _jpeg(drawing.contact_sheet([[("from the front", views[0]), ("from above", views[1])]]), 80)
