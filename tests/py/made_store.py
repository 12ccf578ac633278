# SPDX-License-Identifier: Apache-2.0
"""A store with a file of every kind, made up: small, whole, and as the package writes them."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from mast3r_runtime._output.export import write_npz
from mast3r_runtime._pairs.rule import Rule
from mast3r_runtime._results.results import InferenceResult, Transform
from mast3r_runtime._scene import memo
from mast3r_runtime._scene.model import Lens, Model
from mast3r_runtime._scene.solver import Solved, Verified
from mast3r_runtime._store import kinds, packs, safetensors
from mast3r_runtime.store import Store

WINDOW = np.array([12, 16, 6, 8, 0, 0, 6, 8], np.int32)
FAILED = {
    "pair": ["a.jpg", "b.jpg"], "error": "ImageError", "message": "no", "traceback": "", "host": "h",
    "attempts": 1,
}  # fmt: skip
SHA = "5a" * 32
RUN = {
    "only": "matches", "rule": Rule("ab" * 16, 64, "fp32").record(), "names": ["a.jpg", "b.jpg"],
    "paths": ["/nowhere/a.jpg", "/nowhere/b.jpg"], "sha256": [SHA, "6b" * 32], "pairs": [0, 1],
}  # fmt: skip
PICTURE = {"sha256": SHA, "bytes": 9, "path": "/nowhere/a.jpg", "height": 48, "width": 64}


def pair_arrays(count: int = 3) -> dict[str, Any]:
    """What the store holds of a pair."""
    rng = np.random.default_rng(count)
    return {
        "xy_1": rng.random((count, 2), np.float32), "xy_2": rng.random((count, 2), np.float32),
        "weight": rng.random(count, np.float32), "matches": np.int32(count), "verdict": np.int8(2),
        "overlap": np.ones(3, np.float32), "transform_1": WINDOW, "transform_2": WINDOW,
        "focal_1": 40.0, "focal_2": float("nan"), "made_by": "tests",
    }  # fmt: skip


def answer() -> memo.Answer:
    """A solved scene of two pictures and five points."""
    poses = np.stack([np.eye(4), np.eye(4)])
    lens = Lens("PINHOLE", 64, 48, (50.0, 50.0, 31.5, 23.5))
    seen = np.repeat(np.arange(5), 2)
    model = Model(
        np.arange(2), poses, (lens, lens), np.ones((5, 3)), np.ones((5, 3), np.uint8), seen, seen % 2,
        np.ones((10, 2)), "incremental",
    )  # fmt: skip
    verified = Verified()
    verified.matches[0, 1] = verified.inliers[0, 1] = 30
    return memo.Answer(verified, Solved([model], {}, {}), {0: np.eye(6)})


def result() -> InferenceResult:
    """A pair's maps of 6 x 8."""
    rng = np.random.default_rng(1)
    t = Transform(*map(int, WINDOW))
    points, conf, desc = ((6, 8, 3), (6, 8), (6, 8, 4))
    arrays = [rng.random(shape, np.float32) + 1 for shape in (points, conf, desc, conf) for _ in range(2)]
    return InferenceResult(*arrays, t, t)


def npz(arrays: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def contents() -> dict[str, bytes]:
    """Whole files of every kind, by their names in a store."""
    rng = np.random.default_rng(2)
    key, of_picture = "c4" * 16, f"{'5a' * 12}-{'ab' * 6}-{'7c' * 6}"
    tokens = {"tokens": rng.random((4, 3)).astype(np.float16), "transform": WINDOW}
    maps = io.BytesIO()
    write_npz(maps, result())
    look = {
        "features": rng.random((4, 3), np.float32), "attention": rng.random(4, np.float32),
        "global": rng.random(3, np.float32),
    }  # fmt: skip
    points = {name: rng.random((4, 2), np.float32) for name in ("xy_1", "xy_2")}
    depth = {name: rng.random((6, 8), np.float32) for name in ("depth", "conf")}
    data = {
        "features": (of_picture, safetensors.pack(tokens)),
        "pairs": (key, npz(pair_arrays())),
        "depth": (key, npz(depth)),
        "results": (key, maps.getvalue()),
        "retrieval": (of_picture, npz(look)),
        "index": (key, safetensors.pack({"words": rng.random((4, 3), np.float32)})),
        "failed": (key, json.dumps(FAILED).encode()),
        "pictures": (SHA, json.dumps(PICTURE).encode()),
        "packs": (key, packs.packed({f"pairs/d5/{'d5' * 16}.npz": npz(pair_arrays(4))})),
        "runs": ("e6" * 6, json.dumps(RUN).encode()),
        "solved": (key, npz(dict(memo._packed(answer())))),
        "sift": (key, npz(points)),
    }
    return {f"{kind}/{k[:2]}/{k}{kinds.suffix_of(kind)}": raw for kind, (k, raw) in data.items()}


def fill(store: Store) -> dict[str, bytes]:
    """Put all of :func:`contents` into a store."""
    made = contents()
    for name, data in made.items():
        store.place.write(name, data)
    store.refresh()
    return made
