# SPDX-License-Identifier: Apache-2.0
"""Renders the demo's scene: two pictures of a room whose geometry is known exactly.

    python tools/render_scene.py [DIRECTORY]

Every surface is a flat parallelogram, so the truth needs no depth map: it is the number of
the surface seen by the ray through each pixel centre, and the surfaces' plane equations in
camera 1's frame. Depth follows exactly: z = d / (n . ray) with ray = K^-1 (x, y, 1).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

PICTURES = Path(__file__).resolve().parents[1] / "python" / "mast3r_runtime" / "pictures"
WIDTH, HEIGHT, SAMPLES = 512, 384, 3
FOCAL = 430.0
LIGHT = np.array([-0.7, -1.45, 1.0])

F64 = npt.NDArray[np.float64]


@dataclass
class Quad:
    """corner + a * u + b * v with a, b in [0, 1]; ``texture`` picks its pattern."""

    corner: F64
    u: F64
    v: F64
    texture: int
    tint: tuple[float, float, float]

    def plane(self) -> F64:
        normal = np.cross(self.u, self.v)
        normal /= np.linalg.norm(normal)
        return np.append(normal, normal @ self.corner)


def box(
    centre: tuple[float, float, float],
    size: tuple[float, float, float],
    yaw: float,
    texture: int,
    tint: tuple[float, float, float],
) -> list[Quad]:
    """The five visible faces of a box standing upright (y points down)."""
    c, s = np.cos(yaw), np.sin(yaw)
    x, y, z = (np.array(a) * w for a, w in zip(([c, 0, s], [0, 1.0, 0], [-s, 0, c]), size))
    low = np.array(centre) - (x + y + z) / 2
    faces = [(low, x, y), (low + z, x, y), (low, z, y), (low + x, z, y), (low, x, z)]
    return [Quad(corner, u, v, texture + i, tint) for i, (corner, u, v) in enumerate(faces)]


def scene() -> list[Quad]:
    """A room 5 m wide, 3 m high and 6 m deep, with boxes and a poster on the back wall."""

    def quad(corner, u, v, texture, tint):  # type: ignore[no-untyped-def]
        return [Quad(np.array(corner, float), np.array(u, float), np.array(v, float), texture, tint)]

    quads = (
        quad([-2.5, 1.2, -0.5], [5, 0, 0], [0, 0, 6.5], 1, (0.72, 0.55, 0.40))  # floor
        + quad([-2.5, -1.8, -0.5], [5, 0, 0], [0, 0, 6.5], 2, (0.92, 0.92, 0.90))  # ceiling
        + quad([-2.5, -1.8, 5.2], [5, 0, 0], [0, 3, 0], 3, (0.80, 0.76, 0.66))  # back
        + quad([-2.2, -1.8, -0.5], [0, 0, 6.5], [0, 3, 0], 4, (0.62, 0.72, 0.78))  # left
        + quad([2.3, -1.8, -0.5], [0, 0, 6.5], [0, 3, 0], 5, (0.80, 0.62, 0.58))  # right
        + quad([-1.25, -1.15, 5.15], [2.1, 0, 0], [0, 1.4, 0], 0, (1.0, 1.0, 1.0))  # poster
    )
    quads += box((-0.95, 0.75, 3.1), (0.9, 0.9, 0.7), 0.45, 10, (0.85, 0.33, 0.25))
    quads += box((0.75, 0.55, 3.6), (0.8, 1.3, 0.8), -0.35, 20, (0.25, 0.45, 0.75))
    quads += box((0.15, 0.95, 2.2), (0.55, 0.5, 0.5), 0.8, 30, (0.35, 0.62, 0.30))
    quads += box((-0.95, 0.15, 3.1), (0.45, 0.3, 0.4), -0.2, 40, (0.90, 0.74, 0.28))
    quads += box((1.45, 0.85, 3.0), (0.5, 0.7, 0.6), 0.25, 50, (0.62, 0.40, 0.66))
    return quads


def camera_2() -> tuple[F64, F64]:
    """R, t with X1 = R X2 + t: half a metre to the right and a turn to the left."""
    yaw, pitch = np.deg2rad(-9.0), np.deg2rad(2.0)
    cy, sy, cp, sp = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch)
    turn = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    tilt = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    return turn @ tilt, np.array([0.5, -0.06, 0.12])


def intrinsics() -> F64:
    """Pixel centres at whole numbers, so the middle of the picture is at (W - 1) / 2."""
    return np.array([[FOCAL, 0, (WIDTH - 1) / 2], [0, FOCAL, (HEIGHT - 1) / 2], [0, 0, 1]])


def hits(quads: list[Quad], origin: F64, rays: F64) -> tuple[F64, npt.NDArray[np.intp]]:
    """The nearest surface along each ray [N, 3]: distance in ray lengths, and its number."""
    best = np.full(len(rays), np.inf)
    which = np.full(len(rays), -1)
    for number, q in enumerate(quads):
        normal, d = q.plane()[:3], q.plane()[3]
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (d - origin @ normal) / (rays @ normal)
        near = np.flatnonzero((t > 1e-6) & (t < best))
        t, along = t[near], rays[near]
        a = ((origin - q.corner) @ q.u + t * (along @ q.u)) / (q.u @ q.u)
        b = ((origin - q.corner) @ q.v + t * (along @ q.v)) / (q.v @ q.v)
        inside = (a >= 0) & (a <= 1) & (b >= 0) & (b <= 1)
        best[near[inside]], which[near[inside]] = t[inside], number
    return best, which


def noise(a: F64, b: F64, seed: int) -> F64:
    """Value noise: a hash at whole coordinates, smoothly interpolated."""

    def value(i: F64, j: F64) -> F64:
        h = (i.astype(np.int64) * 374761393 + j.astype(np.int64) * 668265263 + seed * 974711) & 0xFFFFFFFF
        h = ((h ^ (h >> 13)) * 1274126177) & 0xFFFFFFFF
        return ((h ^ (h >> 16)) & 0xFFFF) / 65535.0

    i, j = np.floor(a), np.floor(b)
    x, y = a - i, b - j
    x, y = x * x * (3 - 2 * x), y * y * (3 - 2 * y)
    low = value(i, j) * (1 - x) + value(i + 1, j) * x
    high = value(i, j + 1) * (1 - x) + value(i + 1, j + 1) * x
    return low * (1 - y) + high * y


def colour(q: Quad, a: F64, b: F64, poster: F64) -> F64:
    """The surface's colour at metres (a, b): planks, blotches and stripes, or the poster."""
    if q.texture == 0:
        x = np.clip(a / np.linalg.norm(q.u) * poster.shape[1], 0, poster.shape[1] - 1).astype(int)
        y = np.clip(b / np.linalg.norm(q.v) * poster.shape[0], 0, poster.shape[0] - 1).astype(int)
        return poster[y, x]
    seed = q.texture
    grain = sum(
        noise(a * f, b * f, seed + k) * w for k, (f, w) in enumerate(((3, 0.4), (9, 0.35), (27, 0.25)))
    )
    shade = 0.55 + 0.75 * np.asarray(grain)
    if seed == 1:  # floor boards
        shade *= np.where(
            np.mod(a, 0.35) < 0.012, 0.45, 0.8 + 0.4 * noise(np.floor(a / 0.35), np.zeros_like(b), 7)
        )
    elif seed >= 10 and seed % 10 == 0:  # labelled front: bands
        shade *= np.where(np.mod(b * 5.5 + noise(a * 4, b * 4, seed), 1.0) < 0.3, 0.6, 1.1)
    elif seed in (3, 4, 5):  # wallpaper with dots
        spot = noise(a * 6, b * 6, seed + 50)
        shade *= np.where(spot > 0.68, 0.62, 1.05)
    blotch = noise(a * 2, b * 2, seed + 90)[:, None]
    tint = np.array(q.tint) * (1 - 0.35 * blotch) + np.array(q.tint)[::-1] * 0.35 * blotch
    return np.clip(tint * shade[:, None], 0, 1)


def render(quads: list[Quad], rotation: F64, origin: F64, poster: F64) -> npt.NDArray[np.uint8]:
    """Average SAMPLES x SAMPLES rays a pixel; one lamp with hard shadows, and ambient light."""
    step = (np.arange(SAMPLES) + 0.5) / SAMPLES - 0.5
    total = np.zeros((HEIGHT * WIDTH, 3))
    for dy in step:
        for dx in step:
            rays = pixel_rays(dx, dy) @ rotation.T
            distance, which = hits(quads, origin, rays)
            points = origin + rays * distance[:, None]
            to_light = LIGHT - points
            blocked, _ = hits(quads, LIGHT, points - LIGHT)
            lit = blocked > 1 - 1e-4
            out = np.zeros_like(points)
            for number, q in enumerate(quads):
                seen = which == number
                local = points[seen] - q.corner
                a, b = local @ q.u / np.linalg.norm(q.u), local @ q.v / np.linalg.norm(q.v)
                cosine = np.abs(to_light[seen] @ q.plane()[:3]) / np.linalg.norm(to_light[seen], axis=1)
                light = 0.45 + 0.68 * cosine * lit[seen]
                out[seen] = colour(q, a, b, poster) * light[:, None]
            total += np.clip(out, 0, 1)
    mean = (total / SAMPLES**2).reshape(HEIGHT, WIDTH, 3)
    return np.rint(255 * mean ** (1 / 1.6)).astype(np.uint8)


def pixel_rays(dx: float = 0.0, dy: float = 0.0) -> F64:
    """Rays (z = 1) through the pixel centres, moved by (dx, dy) pixels."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    k = intrinsics()
    return np.stack([(x + dx - k[0, 2]) / FOCAL, (y + dy - k[1, 2]) / FOCAL, np.ones_like(x)], -1).reshape(
        -1, 3
    )


def truth() -> dict[str, npt.NDArray[np.generic]]:
    """Surface numbers of both pictures, plane equations (n, d) in camera 1's frame, cameras."""
    quads, (rotation, origin) = scene(), camera_2()
    ids = [
        hits(quads, o, pixel_rays() @ r.T)[1].reshape(HEIGHT, WIDTH).astype(np.uint8)
        for r, o in ((np.eye(3), np.zeros(3)), (rotation, origin))
    ]
    return {
        "surface_1": ids[0],
        "surface_2": ids[1],
        "planes": np.stack([q.plane() for q in quads]),
        "intrinsics": intrinsics(),
        "rotation": rotation,
        "translation": origin,
    }


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    poster = np.asarray(Image.open(PICTURES / "coffee.png").convert("RGB")) / 255.0
    quads, (rotation, origin) = scene(), camera_2()
    for name, r, o in (("room_1", np.eye(3), np.zeros(3)), ("room_2", rotation, origin)):
        Image.fromarray(render(quads, r, o, poster)).save(directory / f"{name}.png", optimize=True)
    np.savez_compressed(directory / "room_truth.npz", **truth())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
