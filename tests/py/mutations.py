# SPDX-License-Identifier: Apache-2.0
"""Damaged and hostile files for every reader of the package: whole files, their readers, and mutations.

test_readers.py tries a few hundred of each with a fixed seed; ``make attack`` (readers) ten thousand.
"""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import given_files
import made_store
import numpy as np

from mast3r_runtime import export
from mast3r_runtime._engine.features import Features
from mast3r_runtime._output import page
from mast3r_runtime._output.sources import points_page, result_page
from mast3r_runtime._results.results import Transform
from mast3r_runtime._scene.dense import DepthMap, RayMap
from mast3r_runtime._scene.gauge import Scale
from mast3r_runtime._scene.parts import Component, Picture
from mast3r_runtime._store import kinds, packs, safetensors
from mast3r_runtime.scene import Scene
from mast3r_runtime.store import Store

Reader = Callable[[bool], object]  # with True, a page is made of what was read, and files are written


def scene() -> Scene:
    """Two placed pictures with dense maps and rays, and one that could not be read."""
    model = made_store.answer().solved.models[0]
    window = Transform(*map(int, made_store.WINDOW))
    side = (window.height, window.width)
    rng = np.random.default_rng(4)
    ray = rng.random((8, 8, 3), np.float32)
    pictures = {}
    for k in range(2):
        depth = DepthMap(
            rng.random(side, np.float32) + 1, rng.random(side, np.float32), np.ones(side, bool),
            rng.integers(0, 256, (*side, 3), np.uint8), window,
        )  # fmt: skip
        name = f"{k}.jpg"
        pictures[name] = Picture(
            name, Path("/nowhere") / name, 64, 48, "placed", "", 0, np.eye(4), model.lenses[k], None, 5, 0.5,
            depth, RayMap(ray, ray, ray[..., 0]),
        )  # fmt: skip
    pictures["bad.jpg"] = Picture("bad.jpg", Path("/nowhere/bad.jpg"), 0, 0, "unreadable", "torn")
    component = Component(("0.jpg", "1.jpg"), model.mapper, "", model)
    return Scene(pictures, (component,), Scale(1.0, "network", 0.1, 2), {"pictures": 3, "seconds": {}})


def _shown(shown: page.Page, more: bool = True) -> None:
    for _ in page.html(shown, max_points=1000) if more else ():
        pass


def targets(folder: Path) -> dict[str, tuple[Path, Reader]]:
    """A whole file of each kind, and what reads it."""
    own = folder / "scene"
    made = scene()
    own.mkdir(parents=True)
    made.write(own, ["npz", "report", "dense"])

    def load(more: bool) -> None:
        back = Scene.load(own)
        if more:
            _shown(back.page("t"))
            back.write(folder / "again", ["npz", "ply", "transforms"])

    out: dict[str, tuple[Path, Reader]] = {
        "scene.npz": (own / "scene.npz", load), "report.json": (own / "report.json", load),
        "dense": (own / "dense" / "0.jpg.npz", load),
    }  # fmt: skip
    points, colours = np.random.default_rng(5).normal(size=(40, 3)), np.full((40, 3), 9, np.uint8)
    for suffix in (".ply", ".glb"):
        path = folder / f"points{suffix}"
        export.write_points(path, points, colours)
        out[suffix[1:]] = path, lambda more, path=path: _shown(points_page(path), more)  # type: ignore[misc]
    result = folder / "result.npz"
    export.write_npz(result, made_store.result(), _matches())
    out["result.npz"] = result, lambda more: _shown(result_page(result), more)
    features = folder / "features.safetensors"
    tokens = np.ones((4, 3), np.float32)
    features.write_bytes(safetensors.pack({"tokens": tokens, "transform": made_store.WINDOW}))
    np.savez(folder / "features.npz", tokens=tokens, transform=made_store.WINDOW)
    out["features"] = features, lambda _: Features.load(features)
    out["features.npz"] = folder / "features.npz", lambda _: Features.load(folder / "features.npz")
    store = Store(folder / "store")
    for name in made_store.fill(store):
        kind, key = kinds.own(name) or ("", "")
        out[f"store {kind}"] = folder / "store" / name, lambda _, k=kind, key=key: _kept(store, k, key)  # type: ignore[misc]
    out["store.json"] = folder / "store" / "store.json", lambda _: Store(folder / "store")
    out |= given_files.targets(folder / "given")
    for path, _ in out.values():
        path.chmod(0o644)
    return out


def _matches() -> Any:
    from mast3r_runtime._results.results import MatchResult

    t = Transform(*map(int, made_store.WINDOW))
    rng = np.random.default_rng(6)
    idx, at = np.arange(5), rng.random((5, 2), np.float32)
    xyz = rng.random((5, 3), np.float32)
    return MatchResult(idx, idx, at, at, xyz, xyz, at[:, 0], {}, t, t)


def _kept(store: Store, kind: str, key: str) -> None:
    """A store's file by its kind's own reader: wrong bytes are no result, and never an error."""
    from mast3r_runtime._pairs import record
    from mast3r_runtime._scene import memo

    suffix = kinds.suffix_of(kind)
    if kind == "packs":
        Store(store.where).read("pairs", "d5" * 16)
    elif suffix == ".json":
        value = store.read_json(kind, key)
        if kind == "runs" and value is not None:
            record.status(store, record.read_run(store, key))
    else:
        arrays = store.read_arrays(kind, key)
        if kind == "solved" and arrays is not None:
            memo._unpacked(arrays)
        if kind == "features" and arrays is not None:
            Features._of(arrays)


# ---- mutations -----------------------------------------------------------


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The bytes of a file with something in them changed."""
    if data[:4] == b"PK\3\4" and not data.endswith(packs.COMMENT) and rng.random() < 0.6:
        return _npz(rng, data)
    if data[:1] in b"{[" and rng.random() < 0.6:
        return json.dumps(_json(rng, json.loads(data))).encode()
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        way, at = rng.randrange(6), rng.randrange(len(out) + 1)
        if rng.random() < 0.5:  # headers and directories are at the ends
            at = min(at % 300, len(out)) if rng.random() < 0.5 else max(len(out) - at % 300, 0)
        if way == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            out[at : at + 4] = rng.choice((b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"9999", b"nan "))
        elif way == 2:
            del out[at:]
        elif way == 3:
            del out[at : at + rng.randrange(1, 40)]
        elif way == 4:
            out[at:at] = rng.randbytes(rng.randrange(1, 40))
        else:
            out[at:at] = out[: rng.randrange(min(len(out), 200) + 1)]
    return bytes(out)


WILD: list[Any] = [
    np.nan, np.inf, -np.inf, 1e300, -1e300, 1e38, 0, -1, 2**31, 2**62, -(2**63), 1e-300, 255, 65536,
]  # fmt: skip


def _npz(rng: random.Random, data: bytes) -> bytes:
    """An npz whose arrays are others: missing, of another dtype or shape, with wild numbers."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    name = rng.choice(list(arrays))
    array = arrays[name]
    way = rng.randrange(8)
    if way == 0:
        del arrays[name]
    elif way == 1:
        kind = rng.choice(("f4", "f8", "i4", "i8", "u1", "f2", "c16", "U9", "?"))
        plain = array.dtype.kind in "fiub"
        arrays[name] = array.astype(kind, casting="unsafe") if plain else np.zeros(array.shape)
    elif way == 2:
        arrays[name] = array[..., None] if rng.random() < 0.5 else array.reshape(-1)
    elif way == 3 and array.ndim:
        arrays[name] = array[: rng.randrange(len(array) + 1)]
    elif way == 4 and array.ndim and len(array):
        arrays[name] = np.concatenate([array, array[: rng.randrange(1, len(array) + 1)]])
    elif way == 5:
        arrays[name] = arrays[rng.choice(list(arrays))]
    elif array.dtype.kind in "fiub" and array.size:
        flat = array.reshape(-1).copy()
        with np.errstate(all="ignore"):
            for _ in range(rng.choice((1, 1, 5, flat.size))):
                value = np.array(rng.choice(WILD))
                flat[rng.randrange(flat.size)] = value.astype(array.dtype, casting="unsafe")
        arrays[name] = flat.reshape(array.shape)
    elif array.dtype.kind == "U":
        texts = array.reshape(-1).astype("U600")
        if texts.size:
            texts[rng.randrange(texts.size)] = rng.choice(
                ("", "x" * 500, "../../x", "a\0b", "\ud800", "PINHOLE", "\n")
            )
        arrays[name] = texts.reshape(array.shape)
    out = io.BytesIO()
    saved: dict[str, Any] = arrays
    if rng.random() < 0.05:
        np.savez_compressed(out, **saved)
    else:
        np.savez(out, **saved)
    return out.getvalue() if zipfile.is_zipfile(out) else data


def _json(rng: random.Random, value: Any) -> Any:
    """A JSON value with one thing in it changed."""
    wild = [None, True, -1, 0, 2**70, 1.5, 1e400, "", "x", "\0", "\ud800", [], {}, [[]], "9" * 70]
    if isinstance(value, dict) and value and rng.random() < 0.85:
        out, key = dict(value), rng.choice(list(value))
        if rng.random() < 0.2:
            del out[key]
        else:
            out[key] = _json(rng, out[key])
        return out
    if isinstance(value, list) and value and rng.random() < 0.7:
        rows = list(value)
        rows[rng.randrange(len(rows))] = _json(rng, rng.choice(value))
        return rows
    return rng.choice(wild)
