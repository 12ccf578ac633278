# SPDX-License-Identifier: Apache-2.0
"""Collections of rendered views with exact cameras, for `make scene-bench` and the demo.

python benchmarks/scene_views.py DIRECTORY            renders all collections; what is there stays
python benchmarks/scene_views.py --demo DIRECTORY     the demo's views, as they lie in the package
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import render_scene as room

F64 = npt.NDArray[np.float64]
Camera = tuple[F64, F64]  # world from camera: rotation, centre

DEMO = 8  # views of the demo
QUALITY = 92  # of their JPEGs


def look(centre: F64, target: F64, roll: float) -> Camera:
    """A camera at ``centre`` that looks at ``target``; y points down."""
    z = (target - centre) / np.linalg.norm(target - centre)
    x = np.cross([0, 1.0, 0], z)
    x /= np.linalg.norm(x)
    c, s = np.cos(roll), np.sin(roll)
    return np.stack([x, np.cross(z, x), z], 1) @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]), centre


def cameras(count: int, seed: int = 0) -> list[Camera]:
    """An arc of 2.6 m through the room, by hand: uneven in depth, height, aim and roll."""
    made = np.random.default_rng(seed)
    out = []
    for i in range(count):
        a = i / max(count - 1, 1) - 0.5
        depth = -0.2 + 0.9 * np.cos(2.5 * a) + 0.15 * made.standard_normal()
        centre = np.array([2.6 * a, -0.15 + 0.25 * np.sin(7 * a), depth])
        aim = [-0.5 * a + 0.15 * made.standard_normal(), 0.2 + 0.1 * made.standard_normal(), 3.4]
        out.append(look(centre, np.array(aim), 0.05 * made.standard_normal()))
    return out


def walk(count: int) -> list[Camera]:
    """A video's walk: to and fro through the room, three times at other heights, without a jump."""
    out = []
    for s in np.linspace(0, 1, count):
        a = 2 * np.pi * 3 * s
        centre = np.array([1.3 * np.sin(a), -0.25 + 0.5 * s + 0.1 * np.sin(2.3 * a), 0.3 - 0.35 * np.cos(a)])
        aim = np.array([-0.55 * np.sin(a - 0.5), 0.25 + 0.15 * np.cos(1.7 * a), 3.4])
        out.append(look(centre, aim, 0.04 * np.sin(3.1 * a)))
    return out


def second_room() -> list[room.Quad]:
    """Other boxes, other textures, other paint, no poster."""
    tints = ((0.35, 0.5, 0.4), (0.7, 0.8, 0.95), (0.3, 0.35, 0.55), (0.75, 0.6, 0.35), (0.5, 0.3, 0.3))
    walls = zip(room.scene()[:5], tints)
    quads = [room.Quad(q.corner, q.u, q.v, 300 + 7 * k, tint) for k, (q, tint) in enumerate(walls)]
    quads += room.box((-0.3, 0.5, 2.6), (0.6, 1.4, 0.6), 0.9, 110, (0.15, 0.6, 0.6))
    quads += room.box((1.1, 0.8, 2.9), (1.0, 0.8, 0.5), 0.2, 120, (0.9, 0.5, 0.1))
    quads += room.box((-1.5, 0.2, 3.9), (0.7, 2.0, 0.7), -0.6, 130, (0.8, 0.2, 0.5))
    quads += room.box((0.5, -0.4, 4.3), (0.5, 0.5, 0.5), 0.4, 140, (0.2, 0.3, 0.8))
    return quads


def quads_of(place: str) -> list[room.Quad]:
    return second_room() if place == "second" else room.scene()


def depth(quads: list[room.Quad], camera: Camera) -> F64:
    """Exact depth z of every pixel."""
    turn, centre = camera
    distance, _ = room.hits(quads, centre, room.pixel_rays() @ turn.T)
    return distance.reshape(room.HEIGHT, room.WIDTH)


def _render(job: tuple[str, Camera, Path, int]) -> None:
    place, camera, path, samples = job
    if path.exists():
        return
    room.SAMPLES = samples
    poster = np.asarray(Image.open(room.PICTURES / "coffee.png").convert("RGB")) / 255.0
    part = path.with_name(f".part-{os.getpid()}-{path.name}")
    picture = Image.fromarray(room.render(quads_of(place), *camera, poster))
    picture.save(part, quality=QUALITY)
    part.replace(path)


def render(
    place: str, views: list[Camera], folder: Path, suffix: str = ".png", samples: int = 2
) -> list[str]:
    """Render views that are not there yet, by samples x samples rays a pixel; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    digits = max(2, len(str(len(views) - 1)))
    names = [f"{place}_{i:0{digits}d}{suffix}" for i in range(len(views))]
    jobs = [(place, view, folder / name, samples) for name, view in zip(names, views)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(_render, jobs)
    return names


def room_views() -> list[Camera]:
    return cameras(16)


def second_views() -> list[Camera]:
    return cameras(14, 5)[4:10]


def demo_views() -> list[Camera]:
    return cameras(16)[2:14:2] + cameras(16)[5:9:2]


def demo_truth() -> dict[str, F64]:
    """Cameras of the demo's views, and the surfaces that they see: corner, u and v of each."""
    views = demo_views()
    poses = np.tile(np.eye(4), (len(views), 1, 1))
    for pose, (turn, centre) in zip(poses, views):
        pose[:3, :3], pose[:3, 3] = turn, centre
    surfaces = np.array([[q.corner, q.u, q.v] for q in room.scene()])
    return {"world_from_camera": poses, "intrinsics": room.intrinsics(), "surfaces": surfaces}


if __name__ == "__main__":
    if sys.argv[1] == "--demo":
        target = Path(sys.argv[2])
        render("room", demo_views(), target, ".jpg")
        np.savez_compressed(target / "truth.npz", **demo_truth())
    else:
        render("room", room_views(), Path(sys.argv[1]))
        render("second", second_views(), Path(sys.argv[1]))
