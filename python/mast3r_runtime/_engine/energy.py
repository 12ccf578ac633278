# SPDX-License-Identifier: Apache-2.0
"""The energy of the processor, where Linux counts it and lets this user read the count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["meter"]


def meter(root: Path = Path("/sys/class/powercap")) -> Callable[[], float | None]:
    """Start counting; the answer is a function that returns the joules since then.

    The counters are those of RAPL (Linux, Documentation/power/powercap/powercap.rst): one for each
    processor package, in microjoules, which start again at zero after ``max_energy_range_uj``.
    What else runs on the machine is in them. None: there are no counters, or only root may read.
    """
    # intel-rapl:0 is a package, intel-rapl:0:1 a part of it; AMD's have the same names.
    packages = sorted(p for p in root.glob("intel-rapl:*") if p.name.count(":") == 1)
    before = [_number(p / "energy_uj") for p in packages]
    ranges = [_number(p / "max_energy_range_uj") for p in packages]

    def joules() -> float | None:
        total = 0
        for package, start, most in zip(packages, before, ranges, strict=True):
            now = _number(package / "energy_uj")
            if now is None or start is None:
                return None
            total += now - start if now >= start else now - start + (most or 0)
        return total / 1e6 if packages else None

    return joules


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
