# SPDX-License-Identifier: Apache-2.0
"""Every call of the C interface with NULL, wrong sizes, closed handles, NaN and huge numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from mast3r_runtime._library import header

# Calls that cannot fail, and those whose only failing argument this machine does not have.
NEVER_FAIL = {"mast3r_log_level"}


def test_every_call(micro: Path) -> None:
    script = Path(__file__).with_name("hostile_c.py")
    done = subprocess.run(
        [sys.executable, script, micro], capture_output=True, text=True, timeout=300, check=False
    )
    last = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    assert done.returncode == 0, f"ended with {done.returncode} in {last}:\n{done.stderr[-2000:]}"
    found = json.loads(done.stdout.splitlines()[-1])
    statuses = {name: set(values) for name, values in found["statuses"].items()}
    assert set(statuses) == set(header.SIGNATURES), "every call of the header"
    tame = {name for name, got in statuses.items() if not any(status > 1 for status in got)}
    assert tame == NEVER_FAIL, f"took every argument: {tame - NEVER_FAIL}"
    assert found["calls"] > 3000
