# SPDX-License-Identifier: Apache-2.0
"""Reads Wavefront OBJ and MTL files: triangles, texture coordinates, materials."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Triple = tuple[int, int, int]


@dataclass
class Material:
    rgb: tuple[float, ...] = (0.8, 0.8, 0.8)
    specular: tuple[float, ...] = (0.0, 0.0, 0.0)
    gloss: float = 0.0
    opacity: float = 1.0
    texture: str | None = None  # path as in the file


@dataclass
class Obj:
    points: np.ndarray  # [V,3]
    uv: np.ndarray  # [U,2]
    triangles: np.ndarray  # [T,3] rows of points
    uv_triangles: np.ndarray  # [T,3] rows of uv, -1: none
    material: np.ndarray  # [T] index into materials
    materials: list[Material] = field(default_factory=list)


def _turn(a, b, c) -> float:
    """Positive where the way from a by b to c bends to the left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _outline(points: np.ndarray) -> list[tuple[float, float]]:
    """A polygon [N,3] seen along the longest axis of its normal, counter-clockwise."""
    after = np.roll(points, -1, 0)
    low, high = points - after, points + after
    normal = [(low[:, i] * high[:, j]).sum() for i, j in ((1, 2), (2, 0), (0, 1))]
    axis = int(np.abs(normal).argmax())
    i, j = ((1, 2), (2, 0), (0, 1))[axis]
    side = 1.0 if normal[axis] > 0 else -1.0
    return [(float(p[i]), side * float(p[j])) for p in points]


def _is_ear(flat: list, left: list[int], k: int) -> bool:
    """Whether corner k can be cut off: it is convex and no other corner is inside."""
    a, b, c = flat[left[k - 1]], flat[left[k]], flat[left[(k + 1) % len(left)]]
    if _turn(a, b, c) <= 0:
        return False
    others = (flat[t] for t in left)
    return not any(
        _turn(a, b, p) >= 0 and _turn(b, c, p) >= 0 and _turn(c, a, p) >= 0
        for p in others
        if p not in (a, b, c)
    )


def triangulate(points: np.ndarray) -> list[Triple]:
    """Triangles of a polygon [N,3]: a fan where it is convex, else ears are clipped."""
    count = len(points)
    fan = [(0, k, k + 1) for k in range(1, count - 1)]
    if count == 3:
        return fan
    flat = _outline(points)
    if all(_turn(flat[k - 1], flat[k], flat[(k + 1) % count]) >= 0 for k in range(count)):
        return fan
    left, out = list(range(count)), []
    while len(left) > 3:
        ear = next((k for k in range(len(left)) if _is_ear(flat, left, k)), None)
        if ear is None:  # it crosses itself: the flattest corner goes
            turns = [
                abs(_turn(flat[left[k - 1]], flat[left[k]], flat[left[(k + 1) % len(left)]]))
                for k in range(len(left))
            ]
            ear = int(np.argmin(turns))
        out.append((left[ear - 1], left[ear], left[(ear + 1) % len(left)]))
        left.pop(ear)
    return [*out, (left[0], left[1], left[2])]


def _floats(words: list[str]) -> tuple[float, ...] | None:
    try:
        return tuple(float(w) for w in words)
    except ValueError:
        return None


def read_materials(text: str) -> dict[str, Material]:
    out: dict[str, Material] = {}
    now = Material()
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        key, rest = words[0], words[1:]
        if key == "newmtl":
            now = out.setdefault(" ".join(rest), Material())
        elif key in ("Kd", "Ks"):
            colour = _floats(rest[:3])
            if colour:
                setattr(now, "rgb" if key == "Kd" else "specular", colour)
        elif key == "d":
            now.opacity = float(rest[-1])
        elif key == "Tr":
            now.opacity = 1 - float(rest[0])
        elif key == "Ns":
            now.gloss = float(rest[0])
        elif key == "map_Kd":
            now.texture = rest[-1] if rest[0].startswith("-") else " ".join(rest)
    return out


def _row(word: str, count: int) -> int:
    """An index of a file, from 1 or from the end, as one from 0; -1 where there is none."""
    index = int(word) if word else 0
    return index - 1 if index > 0 else (count + index if index < 0 else -1)


class _Reader:
    def __init__(self) -> None:
        self.points: list[list[float]] = []
        self.uv: list[list[float]] = []
        self.triangles: list[Triple] = []
        self.uv_triangles: list[Triple] = []
        self.material: list[int] = []
        self.names: list[str] = []
        self.libraries: list[str] = []
        self.now = 0

    def face(self, words: list[str]) -> None:
        corners = [(w + "/").split("/")[:2] for w in words]
        place = [_row(p, len(self.points)) for p, _ in corners]
        uv = [_row(t, len(self.uv)) for _, t in corners]
        for a, b, c in triangulate(np.array([self.points[i] for i in place])):
            self.triangles.append((place[a], place[b], place[c]))
            self.uv_triangles.append((uv[a], uv[b], uv[c]))
            self.material.append(self.now)

    def line(self, key: str, rest: str) -> None:
        if key == "v":
            self.points.append([float(w) for w in rest.split()[:3]])
        elif key == "vt":
            self.uv.append([float(w) for w in rest.split()[:2]])
        elif key == "f":
            self.face(rest.split())
        elif key == "usemtl":
            if rest not in self.names:
                self.names.append(rest)
            self.now = self.names.index(rest)
        elif key == "mtllib":
            self.libraries += [rest, *rest.split()]


def read_obj(read: Callable[[str], bytes | None], path: str) -> Obj:
    """`read` gives a file by its path, None: not there. The materials' textures get whole paths."""
    text = read(path)
    if text is None:
        raise FileNotFoundError(path)
    reader = _Reader()
    for line in text.decode("latin-1").replace("\\\n", " ").splitlines():
        key, _, rest = line.strip().partition(" ")
        reader.line(key, rest.strip())
    folder = posixpath.dirname(path)
    known: dict[str, Material] = {}
    for name in reader.libraries:
        library = read(posixpath.join(folder, name))
        known |= read_materials(library.decode("latin-1")) if library is not None else {}
    materials = [known.get(name, Material()) for name in reader.names or [""]]
    for material in materials:
        if material.texture and not material.texture.startswith(folder + "/"):
            material.texture = posixpath.join(folder, material.texture.replace("\\", "/"))

    def table(rows: list, kind: type, width: int) -> np.ndarray:
        return np.array(rows, kind).reshape(-1, width)

    return Obj(
        table(reader.points, float, 3), table(reader.uv, float, 2), table(reader.triangles, int, 3),
        table(reader.uv_triangles, int, 3), np.array(reader.material, int), materials,
    )  # fmt: skip
