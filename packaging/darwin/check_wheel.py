# SPDX-License-Identifier: Apache-2.0
"""Checks a cross-built macOS wheel without a Mac: check_wheel.py WHEEL DYLIB"""

import sys
import zipfile
from pathlib import Path

TARGET = (Path(__file__).parent / "deployment_target").read_text().strip()
TAG = f"py3-none-macosx_{TARGET.replace('.', '_')}_arm64"
LIBRARY = "mast3r_runtime/libmast3r_runtime.dylib"


def main() -> None:
    wheel, dylib = Path(sys.argv[1]), Path(sys.argv[2])
    problems = []
    if not wheel.name.endswith(f"-{TAG}.whl"):
        problems.append(f"name {wheel.name}, want the tag {TAG}")
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
        tags = next(z.read(n).decode() for n in names if n.endswith(".dist-info/WHEEL"))
        if f"Tag: {TAG}\n" not in tags.replace("\r\n", "\n") or "Root-Is-Purelib: false" not in tags:
            problems.append(f"WHEEL says:\n{tags}")
        natives = [n for n in names if n.endswith((".so", ".dylib"))]
        if natives != [LIBRARY]:
            problems.append(f"libraries {natives}, want {[LIBRARY]}")
        elif z.read(LIBRARY) != dylib.read_bytes():
            problems.append(f"{LIBRARY} is not {dylib} byte for byte")
        for need in ("mast3r_runtime/py.typed", "mast3r_runtime/models/mast3r_tiny/unified.safetensors"):
            if need not in names:
                problems.append(f"{need} is missing")
    if problems:
        sys.exit("check_wheel: " + "\ncheck_wheel: ".join(problems))
    print(f"{wheel.name}: tag, library and data are right")


if __name__ == "__main__":
    main()
