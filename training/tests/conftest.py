# SPDX-License-Identifier: Apache-2.0
"""Test set-up: the package's folder on the path, and where golden data is."""

import os
import sys
from pathlib import Path

import pytest

TRAINING = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TRAINING))


def find_shared() -> Path | None:
    if override := os.environ.get("MAST3R_SHARED"):
        return Path(override)
    for parent in TRAINING.parents:
        if (parent / "shared" / "golden").is_dir():
            return parent / "shared"
    return None


@pytest.fixture(scope="session")
def shared() -> Path:
    path = find_shared()
    if path is None:
        pytest.skip("no folder 'shared' with golden data beside the repository (set MAST3R_SHARED)")
    return path
