# SPDX-License-Identifier: Apache-2.0
"""The extension module of `make gopy`: what it binds besides the C interface."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from mast3r_runtime._library import calls
from mast3r_runtime.backends._cpu import CPUEngine

if os.environ.get("MAST3R_NATIVE") != "gopy":
    pytest.skip(
        "MAST3R_NATIVE is not gopy: make gopy builds and tests the extension", allow_module_level=True
    )


def test_engine(micro: Path) -> None:
    from mast3r_runtime._gopy import pyext

    engine = pyext.Open("", 64, "fp32", 2, "cpu")
    assert not engine.Ready()
    engine.Load(str(micro))
    engine.Warmup(1)
    assert engine.Ready() and engine.Name().startswith("mast3r_micro on cpu")
    info = json.loads(engine.Info())
    with CPUEngine("auto", 64, "fp32", 2) as same:
        same.load(micro)
        ours = same.info()
    assert (info["Variant"], info["EncDim"], info["Threads"]) == (
        ours["variant"],
        ours["enc_dim"],
        ours["threads"],
    )
    engine.Close()


def test_errors_are_exceptions(micro: Path) -> None:
    from mast3r_runtime._gopy import pyext

    engine = pyext.Open("", 0, "", 1, "cpu")
    with pytest.raises(RuntimeError, match="none.safetensors"):
        engine.Load("none.safetensors")
    with pytest.raises(RuntimeError, match="no model"):
        engine.Warmup(1)
    engine.Close()
    with pytest.raises(RuntimeError, match="closed"):
        engine.Warmup(1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mappings are read from /proc")
def test_one_go_runtime() -> None:
    """The process has the extension and not the library beside it."""
    calls.library()
    maps = Path("/proc/self/maps").read_text()
    assert "_mast3r.cpython" in maps and "libmast3r_runtime" not in maps
    assert calls.library_path().name.startswith("_mast3r.")
