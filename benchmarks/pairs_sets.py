# SPDX-License-Identifier: Apache-2.0
"""Pairs of pictures with truth, for `make match-bench`. What is missing is left out, loudly.

Pictures come from the package, from scikit-image, and from Debian's opencv-doc (or any folder with the
same files, --doc). Warped pairs are two renderings of one photograph; the room is rendered by this
repository with exact cameras. All pixels have their centre at whole numbers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

A = np.ndarray[Any, Any]


@dataclass
class Pair:
    """Two pictures, and what is known of them."""

    set: str
    name: str
    one: A
    two: A
    homography: A | None = None  # pixels of 1 to pixels of 2, of the whole picture
    locate: Callable[[A], A] | None = None  # the same where it is no homography; NaN: unknown
    cameras: tuple[A, A, A, A] | None = None  # K1, K2, and x2 = R x1 + t
    overlap: bool = True
    only_verdict: bool = False  # made to try the verdict, nothing else

    @property
    def truth(self) -> Callable[[A], A] | None:
        h = self.homography
        return self.locate if h is None else lambda xy: through(h, xy)

    @property
    def fundamental(self) -> A | None:
        if self.cameras is None:
            return None
        k1, k2, r, t = self.cameras
        cross = np.array([[0, -t[2], t[1]], [t[2], 0, -t[0]], [-t[1], t[0], 0]])
        return np.linalg.inv(k2).T @ cross @ r @ np.linalg.inv(k1)


def through(h: A, xy: A) -> A:
    p = np.c_[xy, np.ones(len(xy))] @ h.T
    return p[:, :2] / p[:, 2:]


def read(path: Path) -> A:
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise FileNotFoundError(path)
    return np.ascontiguousarray(image[:, :, ::-1])


def move(x: float, y: float) -> A:
    return np.array([[1, 0, x], [0, 1, y], [0, 0, 1.0]])


def turn(degrees: float) -> A:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])


def shot(source: A, to_source: A, width: int, height: int) -> A:
    """What a camera sees whose pixel p lies at ``to_source p`` of the photograph, finely sampled."""
    corner = np.array([[0, 0], [width - 1, 0], [0, height - 1], [width - 1, height - 1.0]])
    step = max(
        np.linalg.norm(through(to_source, corner + e) - through(to_source, corner), axis=1).max()
        for e in np.eye(2)
    )
    n = int(np.clip(np.ceil(step - 0.05), 1, 6))
    finer = np.array([[1 / n, 0, 0.5 / n - 0.5], [0, 1 / n, 0.5 / n - 0.5], [0, 0, 1]])
    flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    big = cv2.warpPerspective(source, to_source @ finer, (width * n, height * n), flags=flags)
    return big if n == 1 else cv2.resize(big, (width, height), interpolation=cv2.INTER_AREA)


def warped(
    kind: str,
    name: str,
    source: A,
    m1: A,
    m2: A,
    width: int,
    height: int,
    after: Callable[[A], A] | None = None,
) -> Pair:
    one, two = shot(source, m1, width, height), shot(source, m2, width, height)
    return Pair(kind, name, one, two if after is None else after(two), np.linalg.inv(m2) @ m1)


class Sources:
    """Where the photographs are."""

    def __init__(self, doc: Path | None) -> None:
        import mast3r_runtime

        folders = [Path(mast3r_runtime.__file__).parent / "pictures", doc]
        try:
            import skimage

            folders.append(Path(skimage.__file__).parent / "data")
        except ImportError:
            print("match-bench: no scikit-image: left out motorcycle, chelsea", file=sys.stderr)
        if doc is None or not doc.is_dir():
            print("match-bench: no opencv-doc (apt-get install opencv-doc, or --doc)", file=sys.stderr)
        self.folders = [f for f in folders if f is not None and f.is_dir()]

    def find(self, name: str) -> Path | None:
        return next((f / name for f in self.folders if (f / name).is_file()), None)

    def photographs(self, *names: str) -> Iterator[tuple[str, A]]:
        for name in names:
            path = self.find(name)
            if path is None:
                print(f"match-bench: no {name}", file=sys.stderr)
            else:
                yield Path(name).stem, read(path)


PHOTOGRAPHS = ("coffee.png", "aloeL.jpg", "graf1.png", "building.jpg", "home.jpg")


def rotation(s: Sources) -> Iterator[Pair]:
    for name, source in s.photographs("coffee.png", "aloeL.jpg"):
        h, w = source.shape[:2]
        disc = 0.95 * min(w, h)
        step = max(1.0, 0.8 * disc / 820)
        width, height = int(0.8 * disc / step), int(0.6 * disc / step)
        middle = move(w / 2 - 0.5, h / 2 - 0.5)
        base = np.diag([step, step, 1]) @ move(-(width - 1) / 2, -(height - 1) / 2)
        for angle in range(0, 181, 30):
            aside = move(0.015 * disc, -0.01 * disc) @ turn(angle)
            yield warped(
                "rotation", f"{name} {angle}", source, middle @ base, middle @ aside @ base, width, height
            )


def zoom(s: Sources) -> Iterator[Pair]:
    for name, source in s.photographs("aloeL.jpg", "graf1.png"):
        h, w = source.shape[:2]
        step = 2.0
        width, height = int(w / step), int(h / step)
        middle, base = move(w / 2 - 0.5, h / 2 - 0.5), move(-(width - 1) / 2, -(height - 1) / 2)
        for factor in (1.5, 2, 3, 4):
            aside = move(0.02 * w, 0.015 * h) @ turn(6) @ np.diag([step / factor, step / factor, 1])
            one = middle @ np.diag([step, step, 1]) @ base
            yield warped("zoom", f"{name} x{factor}", source, one, middle @ aside @ base, width, height)


def tilt(s: Sources) -> Iterator[Pair]:
    """The photograph on a wall, the second camera going round its middle."""
    for name, source in s.photographs(*PHOTOGRAPHS):
        h, w = source.shape[:2]
        if max(h, w) > 1000:
            source = cv2.resize(
                source, None, fx=800 / max(h, w), fy=800 / max(h, w), interpolation=cv2.INTER_AREA
            )
            h, w = source.shape[:2]
        k = np.array([[1.2 * w, 0, w / 2 - 0.5], [0, 1.2 * w, h / 2 - 0.5], [0, 0, 1]])
        for angle in (20, 40, 55, 65):
            c, si = np.cos(np.radians(angle)), np.sin(np.radians(angle))
            r = np.array([[c, 0, -si], [0, 1, 0], [si, 0, c]])
            t = np.array([0, 0, 1.2 * w]) - r @ np.array([0, 0, 1.2 * w])
            m = k @ (r + np.outer(t, [0, 0, 1 / (1.2 * w)])) @ np.linalg.inv(k)
            yield warped("tilt", f"{name} {angle}", source, np.eye(3), np.linalg.inv(m), w, h)


def change(s: Sources) -> Iterator[Pair]:
    """A slight turn, enlargement and tilt, and a change of the second picture's light or quality."""
    made = np.random.default_rng(3)

    def jpeg(q: int) -> Callable[[A], A]:
        return lambda im: cv2.imdecode(cv2.imencode(".jpg", im, [cv2.IMWRITE_JPEG_QUALITY, q])[1], 1)

    changes: dict[str, Callable[[A], A]] = {
        "gain 0.3": lambda im: (im * 0.3).astype(np.uint8),
        "gamma 2.5": lambda im: (255 * (im / 255.0) ** 2.5).astype(np.uint8),
        "blur 2": lambda im: cv2.GaussianBlur(im, (0, 0), 2),
        "noise 25": lambda im: np.clip(im + made.normal(0, 25, im.shape), 0, 255).astype(np.uint8),
        "jpeg 10": jpeg(10),
    }
    for name, source in s.photographs("coffee.png", "home.jpg", "building.jpg"):
        h, w = source.shape[:2]
        middle = move(w / 2 - 0.5, h / 2 - 0.5)
        bend = np.eye(3)
        bend[2, 0] = 0.12 / w
        m2 = middle @ turn(9) @ np.diag([1 / 1.12, 1 / 1.12, 1]) @ bend @ np.linalg.inv(middle)
        for what, after in changes.items():
            yield warped("change", f"{name} {what}", source, np.eye(3), m2, w, h, after)


def graf(s: Sources) -> Iterator[Pair]:
    paths = [s.find(n) for n in ("graf1.png", "graf3.png", "H1to3p.xml")]
    if all(paths):
        text = paths[2].read_text()  # type: ignore[union-attr]
        h = np.array(re.findall(r"<data>(.*?)</data>", text, re.S)[0].split(), float).reshape(3, 3)
        one, two = read(paths[0]), read(paths[1])  # type: ignore[arg-type]
        yield Pair("graf", "graf 1-3", one, two, h)
        yield Pair("graf", "graf 3-1", two, one, np.linalg.inv(h))


def motorcycle(s: Sources) -> Iterator[Pair]:
    """The stereo pair as it is, and with its second camera rolled and panned."""
    paths = [s.find(n) for n in ("motorcycle_left.png", "motorcycle_right.png", "motorcycle_disp.npz")]
    if not all(paths):
        return
    disparity = np.load(paths[2])["arr_0"].astype(float)  # type: ignore[arg-type]
    disparity[~np.isfinite(disparity) | (disparity <= 0)] = np.nan
    left, right = read(paths[0]), read(paths[1])  # type: ignore[arg-type]
    height, width = disparity.shape
    k1 = np.array([[994.978, 0, 311.193], [0, 994.978, 254.877], [0, 0, 1]])
    k2 = k1 + np.array([[0, 0, 31.086], [0, 0, 0], [0, 0, 0]])
    t = np.array([-1.0, 0, 0])

    def locate(xy: A) -> A:
        x = np.clip(np.rint(xy).astype(int), 0, [width - 1, height - 1])
        out = xy.copy()
        out[:, 0] -= disparity[x[:, 1], x[:, 0]]
        out[out[:, 0] < 0] = np.nan
        return out

    yield Pair("stereo", "motorcycle", left, right, locate=locate, cameras=(k1, k2, np.eye(3), t))
    r = cv2.Rodrigues(np.radians([2.0, 3.0, 8.0]))[0]
    k3 = k2.copy()
    k3[:2, 2] = (width - 1) / 2, (height - 1) / 2
    m = k3 @ r @ np.linalg.inv(k2)

    def turned(xy: A) -> A:
        out = through(m, locate(xy))
        outside = (out < 0).any(1) | (out > (width - 1, height - 1)).any(1)
        out[outside] = np.nan
        return out

    two = shot(right, np.linalg.inv(m), width, height)
    yield Pair("turned stereo", "motorcycle turned", left, two, locate=turned, cameras=(k1, k3, r, r @ t))


def chess(s: Sources) -> Iterator[Pair]:
    """A stereo head before a chessboard; pictures undistorted by a calibration of all pairs."""
    board = np.zeros((54, 3), np.float32)
    board[:, :2] = np.mgrid[0:9, 0:6].T.reshape(-1, 2)
    found = []
    for n in range(1, 15):
        paths = [s.find(f"{side}{n:02}.jpg") for side in ("left", "right")]
        if not all(paths):
            continue
        grey = [cv2.imread(str(p), cv2.IMREAD_GRAYSCALE) for p in paths]
        corners = []
        for g in grey:
            ok, c = cv2.findChessboardCorners(g, (9, 6))
            if ok:
                stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_COUNT, 50, 1e-4)
                corners.append(cv2.cornerSubPix(g, c, (5, 5), (-1, -1), stop))
        if len(corners) == 2:
            found.append((n, grey, corners))
    if len(found) < 5:
        return
    boards, k, d = [board] * len(found), [], []
    for side in range(2):
        _, ki, di, _, _ = cv2.calibrateCamera(boards, [c[side] for _, _, c in found], (640, 480), None, None)
        k.append(ki)
        d.append(di)
    places = [[c[side] for _, _, c in found] for side in range(2)]
    _, _, _, _, _, r, t, _, _ = cv2.stereoCalibrate(
        boards, *places, k[0], d[0], k[1], d[1], (640, 480), flags=cv2.CALIB_FIX_INTRINSIC
    )
    for n, grey, _ in found:
        one, two = (
            cv2.cvtColor(cv2.undistort(g, ki, di), cv2.COLOR_GRAY2RGB) for g, ki, di in zip(grey, k, d)
        )
        yield Pair("chess", f"chess {n:02}", one, two, cameras=(k[0], k[1], r, t.ravel() / np.linalg.norm(t)))


def room(_: Sources, folder: Path) -> Iterator[Pair]:
    """Rendered views of a room, exact cameras: neighbours (narrow) and every fifth (wide)."""
    import scene_views

    render_scene = scene_views.room

    cameras = scene_views.room_views()
    files = scene_views.render("room", cameras, folder)
    k = np.array([[render_scene.FOCAL, 0, (render_scene.WIDTH - 1) / 2],
                  [0, render_scene.FOCAL, (render_scene.HEIGHT - 1) / 2], [0, 0, 1]])  # fmt: skip
    for gap, kind in ((1, "room, narrow"), (4, "room, wide")):
        for i in range(0, len(cameras) - gap):
            (r1, c1), (r2, c2) = cameras[i], cameras[i + gap]
            r, t = r2.T @ r1, r2.T @ (c1 - c2)
            pictures = [read(folder / Path(files[j]).name) for j in (i, i + gap)]
            yield Pair(kind, f"room {i}-{i + gap}", *pictures, cameras=(k, k, r, t))


def unrelated(s: Sources) -> Iterator[Pair]:
    """Different things, and the two sides of one photograph that have nothing in common."""
    more = ("fruits", "baboon", "board", "starry_night", "messi5", "squirrel_cls", "stuff")
    names = (*PHOTOGRAPHS, *(f"{n}.jpg" for n in more), "sudoku.png", "basketball1.png", "rubberwhale1.png")
    found = list(s.photographs(*names))
    order = [(i, j) for i in range(len(found)) for j in range(i)]
    np.random.default_rng(11).shuffle(order)
    for i, j in order[:70]:
        yield Pair("unrelated", f"{found[i][0]} / {found[j][0]}", found[i][1], found[j][1], overlap=False)
    for name, source in found:
        w = source.shape[1]
        if w >= 600:
            halves = source[:, : int(0.47 * w)], source[:, int(0.53 * w) :]
            yield Pair("halves", f"halves of {name}", *map(np.ascontiguousarray, halves), overlap=False)


# Photographs that no threshold was ever set on.
FRESH = (
    "astronaut.png", "camera.png", "coins.png", "rocket.jpg", "hubble_deep_field.jpg", "brick.png",
    "grass.png", "gravel.png", "page.png", "moon.png", "retina.jpg", "apple.jpg", "orange.jpg",
    "butterfly.jpg", "cards.png", "HappyFish.jpg", "blox.jpg", "licenseplate_motion.jpg",
    "Blender_Suzanne1.jpg", "aero1.jpg", "leuvenA.jpg", "box_in_scene.png", "rubberwhale2.png",
    "basketball2.png",
)  # fmt: skip
FRESH_REAL = (
    ("leuvenA.jpg", "leuvenB.jpg"), ("aloeL.jpg", "aloeR.jpg"), ("rubberwhale1.png", "rubberwhale2.png"),
    ("basketball1.png", "basketball2.png"), ("Blender_Suzanne1.jpg", "Blender_Suzanne2.jpg"),
    ("aero1.jpg", "aero3.jpg"),
)  # fmt: skip


def fresh(s: Sources) -> Iterator[Pair]:
    """For the verdict alone: two shots of each photograph, real pairs, different photographs, halves."""
    found = list(s.photographs(*FRESH))
    for number, (name, source) in enumerate(found):
        h, w = source.shape[:2]
        middle = move(w / 2 - 0.5, h / 2 - 0.5)
        sides = int(0.72 * w), int(0.72 * h)
        base = move(-(sides[0] - 1) / 2, -(sides[1] - 1) / 2)
        # Turn and enlargement by turns; the second camera looks aside, so that about half is common.
        for angle, zoomed, aside in ((12, 1.0, 0.13), (25 + number % 3 * 10, 1.3, 0.05)):
            shift = move(aside * w, 0.3 * aside * h) @ turn(angle) @ np.diag([1 / zoomed, 1 / zoomed, 1])
            pair = warped(
                "fresh", f"{name} {angle} x{zoomed}", source, middle @ base, middle @ shift @ base, *sides
            )
            pair.only_verdict = True
            yield pair
    for names in FRESH_REAL:
        both = [picture for _, picture in s.photographs(*names)]
        if len(both) == 2:
            yield Pair("fresh", " / ".join(names), *both, only_verdict=True)
    order = [(i, j) for i in range(len(found)) for j in range(i)]
    np.random.default_rng(5).shuffle(order)
    for i, j in order[:60]:
        names = f"{found[i][0]} / {found[j][0]}"
        yield Pair("fresh", names, found[i][1], found[j][1], overlap=False, only_verdict=True)
    for name, source in found:
        w = source.shape[1]
        if w >= 400:
            one, two = (
                np.ascontiguousarray(p) for p in (source[:, : int(0.47 * w)], source[:, int(0.53 * w) :])
            )
            yield Pair("fresh", f"halves of {name}", one, two, overlap=False, only_verdict=True)


SETS: dict[str, Callable[..., Iterator[Pair]]] = {
    "graf": graf, "motorcycle": motorcycle, "chess": chess, "rotation": rotation, "zoom": zoom, "tilt": tilt,
    "change": change, "room": room, "unrelated": unrelated, "fresh": fresh,
}  # fmt: skip
