# SPDX-License-Identifier: Apache-2.0
"""The cache of packed weights, by its environment variable."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from conftest import ROOT, child_environment

SCRIPT = """
import hashlib, sys
import numpy as np
from mast3r_runtime.backends._cpu import CPUEngine

with CPUEngine("auto", resolution=64, precision="fp32") as engine:
    engine.load(sys.argv[1])
    a, b = (np.random.default_rng(s).integers(0, 256, (48, 64, 3), np.uint8) for s in (1, 2))
    result = engine.infer_gpu(a, b)
    values = [result.pts3d_1, result.conf_1, result.desc_2, result.desc_conf_2]
    print(hashlib.sha256(b"".join(v.numpy().tobytes() for v in values)).hexdigest())
"""


def pair_in_child(model: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(model)],
        cwd=ROOT, env=child_environment() | environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_processes_share_packed_weights(micro: Path, tmp_path: Path) -> None:
    want = pair_in_child(micro)
    assert len(want) == hashlib.sha256().digest_size * 2
    assert pair_in_child(micro, MAST3R_PACK_CACHE=str(tmp_path)) == want
    files = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/*.pack")}
    assert len(files) > 10
    assert pair_in_child(micro, MAST3R_PACK_CACHE=str(tmp_path)) == want
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/*")} == files, "written again"


def test_damage_and_a_bad_place_do_not_matter(micro: Path, tmp_path: Path) -> None:
    want = pair_in_child(micro, MAST3R_PACK_CACHE=str(tmp_path))
    for path in tmp_path.glob("*/*.pack"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    assert pair_in_child(micro, MAST3R_PACK_CACHE=str(tmp_path)) == want
    file = tmp_path / "file"
    file.write_bytes(b"")
    assert pair_in_child(micro, MAST3R_PACK_CACHE=str(file)) == want
