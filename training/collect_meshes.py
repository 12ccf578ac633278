# SPDX-License-Identifier: Apache-2.0
"""Makes the pack of meshes for the training scenes: 129 models of real things, all CC0.

    apt-get download sweethome3d-furniture && dpkg -x sweethome3d-furniture_*.deb x
    python collect_meshes.py x/usr/share/sweethome3d/furniture/BlendSwap-CC-0.sh3f meshes.npz

Reads the library's catalogue, OBJ, MTL and picture files out of the archive.
The catalogue's sizes are the truth. Left out are models of more than 20,000
triangles, those of glass, and those that show somebody's mark. Beside the
pack goes a list of names, authors and where each licence is stated.
"""

from __future__ import annotations

import argparse
import io
import json
import posixpath
import re
import zipfile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
from PIL import Image

from mast3r_torch.obj import Obj, read_obj
from mast3r_torch.scenes.meshes import BACK, CEILING, FLOOR, OUTDOOR, TABLE, WALL

MOST_TRIANGLES = 20_000
TEXTURE_SIZE = 256
WELD = 1e-5  # of the largest side: places nearer than this are one

# Catalogue numbers, after a look at every model.
LEFT_OUT = {
    23: "glass", 38: "glass", 41: "glass", 66: "glass", 89: "glass",
    28: "a maker's badge", 70: "a trade mark", 78: "a league's mark", 111: "a branded machine's likeness",
    40: "parts that float", 139: "its own file says CC BY", 140: "its own file says CC BY",
}  # fmt: skip
ON_TABLES = {
    7, 9, 11, 12, 13, 14, 15, 18, 24, 32, 43, 44, 53, 54, 64, 69, 77, 81, 90, 91, 102, 106, 120, 126, 135,
    142, 147, 149, 169, 175,
}  # fmt: skip
ON_WALLS = {20, 34, 58, 59, 83, 116, 136, 137, 145, 161, 166, 172, 173, 174}
UNDER_CEILINGS = {92, 121, 155}
IN_THE_OPEN = {
    25, 29, 60, 65, 71, 72, 73, 82, 94, 97, 103, 105, 109, 110, 115, 117, 118, 119, 123, 129, 138, 150, 156,
    157, 160, 162, 163, 164, 167, 170,
}  # fmt: skip
TABLES_AND_FLOORS = {43, 44, 102, 106, 126}
NEVER_INDOORS = {25, 60, 97, 109, 110, 117, 119, 129, 138, 150, 156, 157, 160, 167}
BACKS = {
    4, 6, 20, 28, 30, 34, 35, 36, 39, 43, 44, 57, 58, 59, 61, 67, 68, 74, 75, 83, 84, 98, 104, 112, 116, 122,
    128, 132, 136, 137, 144, 145, 148, 151, 153, 154, 161, 165, 166, 172, 173, 174,
}  # fmt: skip


class Mesh(NamedTuple):
    points: np.ndarray  # [V,3] metres, y down, base at 0
    uv: np.ndarray  # [V,2]
    triangles: np.ndarray  # [T,3]
    material: np.ndarray  # [T]
    size: np.ndarray  # [3] of the catalogue


def classes(number: int) -> int:
    floor = not (number in ON_WALLS or number in UNDER_CEILINGS or number in NEVER_INDOORS)
    floor = floor and (number not in ON_TABLES or number in TABLES_AND_FLOORS)
    bits = (
        (ON_TABLES, TABLE),
        (ON_WALLS, WALL),
        (UNDER_CEILINGS, CEILING),
        (IN_THE_OPEN, OUTDOOR),
        (BACKS, BACK),
    )
    return FLOOR * floor + sum(bit for numbers, bit in bits if number in numbers)


def read_catalogue(text: str) -> dict[int, dict[str, str]]:
    """What a Java properties file says of each model: {number: {key: value}}."""
    out: dict[int, dict[str, str]] = {}
    for line in text.replace("\\\n", "").splitlines():
        found = re.match(r"([A-Za-z]+)#(\d+)\s*=\s*(.*)$", line.strip())
        if found:
            value = found[3].encode("latin-1").decode("unicode_escape") if "\\" in found[3] else found[3]
            out.setdefault(int(found[2]), {})[found[1]] = value
    return {number: row for number, row in sorted(out.items()) if "model" in row}


class Pictures:
    """The textures of all models, each once, as squares."""

    def __init__(self, read):
        self.read, self.known, self.files = read, {}, []

    def index(self, path: str | None) -> int:
        data = self.read(path) if path else None
        if data is None:
            return -1
        if data not in self.known:
            self.known[data] = len(self.files)
            self.files.append(self._square(data))
        return self.known[data]

    def _square(self, data: bytes) -> bytes:
        image = Image.open(io.BytesIO(data))
        if image.mode in ("RGBA", "LA") or "transparency" in image.info:
            image = image.convert("RGBA")  # holes get the mean colour of the rest
            pixels = np.asarray(image)
            solid = pixels[..., 3] >= 128
            mean = pixels[..., :3][solid].mean(0) if solid.any() else (128, 128, 128)
            under = Image.new("RGB", image.size, tuple(int(v) for v in mean))
            under.paste(image, mask=image.split()[3])
            image = under
        image = image.convert("RGB").resize((TEXTURE_SIZE, TEXTURE_SIZE), Image.LANCZOS)
        out = io.BytesIO()
        image.save(out, "JPEG", quality=85, subsampling=2)
        return out.getvalue()


def place(obj: Obj, row: dict[str, str]) -> tuple[np.ndarray, np.ndarray]:
    """Points in metres, upright in our frame, and the size: the catalogue's, to which each axis is scaled."""
    points = obj.points
    if row.get("modelRotation"):
        points = points @ np.array([float(v) for v in row["modelRotation"].split()]).reshape(3, 3).T
    used = points[np.unique(obj.triangles)]
    low, high = used.min(0), used.max(0)
    size = np.array([float(row[key]) for key in ("width", "height", "depth")]) / 100
    points = (points - (low + high) / 2) * (size / np.maximum(high - low, 1e-9))
    points[:, 1] += size[1] / 2
    return points * np.array([1, -1, -1]), size


def _area(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    a, b, c = (points[triangles[:, k]] for k in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1)


def weld(obj: Obj, row: dict[str, str], textured: np.ndarray) -> Mesh:
    """Equal places become a vertex for each of their texture coordinates; doubles and what has no area go.

    `textured`: which materials have a picture, [M].
    """
    points, size = place(obj, row)
    none = len(obj.uv)
    uv = np.concatenate([obj.uv, np.zeros((1, 2))])
    at, shown = obj.triangles.reshape(-1), obj.uv_triangles.reshape(-1)
    shown = np.where((shown < 0) | ~np.repeat(textured[obj.material], 3), none, shown)
    grid = np.round(points / size.max() / WELD).astype(np.int64)
    _, first, welded = np.unique(grid, axis=0, return_index=True, return_inverse=True)
    _, first_uv, welded_uv = np.unique(
        np.round(uv * 4096).astype(np.int64), axis=0, return_index=True, return_inverse=True
    )
    both = np.stack([welded.reshape(-1)[at], welded_uv.reshape(-1)[shown]], 1)
    vertices, triangles = np.unique(both, axis=0, return_inverse=True)
    triangles = triangles.reshape(-1, 3)
    places = vertices[:, 0][triangles]
    points, uv = points[first[vertices[:, 0]]], uv[first_uv[vertices[:, 1]]]
    keep = _area(points, triangles) > 2e-10 * size.max() ** 2
    places = np.sort(places, 1)
    keep &= (np.diff(places, axis=1) != 0).all(1)
    once = np.zeros(len(triangles), bool)
    once[np.unique(places, axis=0, return_index=True)[1]] = True
    keep &= once
    used, triangles = np.unique(triangles[keep], return_inverse=True)
    return Mesh(points[used], uv[used], triangles.reshape(-1, 3), obj.material[keep], size)


def quantise(mesh: Mesh) -> dict[str, np.ndarray]:
    """Places and coordinates in 16 bits of their boxes; triangles by material, vertices in order of use."""
    low = np.array([-mesh.size[0] / 2, -mesh.size[1], -mesh.size[2] / 2])
    position = np.clip(np.round((mesh.points - low) / mesh.size * 65535), 0, 65535).astype(np.uint16)
    solid = _area(position / 65535 * mesh.size + low, mesh.triangles) > 1e-9 * mesh.size.max() ** 2
    triangles, material = mesh.triangles[solid], mesh.material[solid]
    order = np.lexsort((triangles.min(1), material))
    triangles, material = triangles[order], material[order]
    used, first, inverse = np.unique(triangles.reshape(-1), return_index=True, return_inverse=True)
    by_use = np.argsort(first)
    triangles = np.argsort(by_use)[inverse].reshape(-1, 3)
    position, uv = position[used[by_use]], mesh.uv[used[by_use]]
    lowest, span = uv.min(0), np.maximum(np.ptp(uv, 0), 1e-6)
    return {
        "position": position,
        "uv": np.round((uv - lowest) / span * 65535).astype(np.uint16),
        "triangle": triangles.astype(np.uint16),
        "material": material.astype(np.uint8),
        "size": mesh.size[None].astype(np.float32),
        "uv_box": np.concatenate([lowest, span])[None].astype(np.float32),
    }


def look(obj: Obj, textures: list[int]) -> dict[str, np.ndarray]:
    """The rows of the material tables."""
    rgb = [np.round(np.clip(m.rgb, 0, 1) * np.array(255)) for m in obj.materials]
    rgb = [np.full(3, 255.0) if t >= 0 else colour for t, colour in zip(textures, rgb, strict=True)]
    return {
        "rgb": np.array(rgb, np.uint8),
        "texture": np.array(textures, np.int16),
        "specular": np.array(
            [round(min(float(np.mean(m.specular)), 1) * 255) for m in obj.materials], np.uint8
        ),
        "gloss": np.array([min(max(m.gloss, 1), 255) for m in obj.materials], np.float64).astype(np.uint8),
        "alpha": np.array([round(m.opacity * 255) for m in obj.materials], np.uint8),
    }


class Pack:
    def __init__(self) -> None:
        self.parts: dict[str, list[np.ndarray]] = {}
        self.ends = [0, 0, 0]  # vertices, triangles, materials

    def add(self, number: int, top: float, parts: dict[str, np.ndarray]) -> None:
        counts = [len(parts[name]) for name in ("position", "triangle", "rgb")]
        head = [v for pair in zip(self.ends, counts, strict=True) for v in pair]
        parts["head"] = np.array([[*head, classes(number), number]], np.int32)
        parts["top"] = np.array([top], np.float32)
        for name, part in parts.items():
            self.parts.setdefault(name, []).append(part)
        self.ends = [end + count for end, count in zip(self.ends, counts, strict=True)]

    def save(self, out: Path, files: list[bytes]) -> None:
        arrays = {name: np.concatenate(parts) for name, parts in self.parts.items()}
        arrays["jpeg"] = np.frombuffer(b"".join(files), np.uint8)
        arrays["jpeg_at"] = np.cumsum([0, *(len(f) for f in files)]).astype(np.int32)
        np.savez_compressed(out, **arrays)


def credit(names: list[str], number: int, row: dict[str, str], model: str) -> dict[str, str | int]:
    folder = posixpath.dirname(model)
    rest = (".obj", ".mtl", ".jpg", ".png", "/")
    stated = [n for n in names if posixpath.dirname(n) == folder and not n.lower().endswith(rest)]
    where = posixpath.basename(stated[0]) if stated else "catalogue"
    return {
        "catalogue": number, "name": posixpath.basename(folder), "title": row.get("name", ""),
        "author": row.get("creator", ""), "licence": "CC0-1.0", "licence_from": where,
    }  # fmt: skip


def collect(library: zipfile.ZipFile, out: Path) -> list[dict[str, str | int]]:
    names = library.namelist()
    known = set(names)

    def read(path: str) -> bytes | None:
        path = posixpath.normpath(path)
        return library.read(path) if path in known else None

    pack, pictures, credits = Pack(), Pictures(read), []
    catalogue = read_catalogue(library.read("PluginFurnitureCatalog.properties").decode("latin-1"))
    for number, row in catalogue.items():
        model = unquote(row["model"]).lstrip("/")
        if number in LEFT_OUT:
            print(f"{number} {row.get('name', '')}: left out, {LEFT_OUT[number]}")
            continue
        obj = read_obj(read, model)
        there = np.array([bool(m.texture) and read(m.texture) is not None for m in obj.materials])
        mesh = weld(obj, row, there)
        if len(mesh.triangles) > MOST_TRIANGLES:
            print(f"{number} {row.get('name', '')}: left out, {len(mesh.triangles)} triangles")
            continue
        textures = [pictures.index(m.texture) for m in obj.materials]
        top = float(row["dropOnTopElevation"]) / 100 if row.get("dropOnTopElevation") else mesh.size[1]
        pack.add(number, top, quantise(mesh) | look(obj, textures))
        credits.append(credit(names, number, row, model))
    if not credits:
        raise SystemExit("collect_meshes: no model in the library is fit")
    pack.save(out, pictures.files)
    return credits


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", type=Path, help="BlendSwap-CC-0.sh3f")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    with zipfile.ZipFile(args.library) as library:
        credits = collect(library, args.out)
    args.out.with_suffix(".json").write_text(json.dumps(credits, indent=1) + "\n")
    print(f"{args.out}: {len(credits)} meshes, {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
