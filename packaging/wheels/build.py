# SPDX-License-Identifier: Apache-2.0
"""Builds the wheels of all systems on one machine, and the sdist: build.py [NAME ...] --out DIR

Run with a Python that has ``pip``, ``setuptools``, ``wheel`` and ``ziglang``; ``make wheels`` makes
one. The macOS wheel needs clang 19 and lld 19 (packaging/darwin); it is skipped, loudly, without
them.
"""

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CC = ROOT / "packaging" / "wheels" / "cc.sh"


@dataclass(frozen=True)
class Target:
    """A system: Go's names for it, the tag of its wheels, the compiler and zig's name for it."""

    goos: str
    goarch: str
    tag: str  # "": setup.py knows it
    cc: Path = CC
    zig: str = ""


TARGETS = {
    "linux-x86_64": Target("linux", "amd64", "manylinux_2_28_x86_64", zig="x86_64-linux-gnu.2.28"),
    "linux-aarch64": Target("linux", "arm64", "manylinux_2_28_aarch64", zig="aarch64-linux-gnu.2.28"),
    "windows-x86_64": Target("windows", "amd64", "win_amd64", zig="x86_64-windows-gnu"),
    "macos-arm64": Target("darwin", "arm64", "", cc=ROOT / "packaging" / "darwin" / "cc.sh"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"sdist, {', '.join(TARGETS)}; default: all")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    names = arguments.names or ["sdist", *TARGETS]
    if unknown := set(names) - {"sdist", *TARGETS}:
        sys.exit(f"build.py: no target {', '.join(sorted(unknown))}; want sdist, {', '.join(TARGETS)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name == "sdist":
            run(
                [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", arguments.out, ROOT],
                {},
            )
        elif name == "macos-arm64" and not (shutil.which("clang-19") and shutil.which("ld64.lld-19")):
            print("SKIPPED: macos-arm64: clang 19 and lld 19 are not here", file=sys.stderr)
        else:
            wheel(TARGETS[name], arguments.out)


def wheel(target: Target, out: Path) -> None:
    """Build one wheel. What an earlier build left would be taken along, so it goes first."""
    for left in ROOT.glob("build/lib*"), ROOT.glob("build/bdist*"):
        for folder in left:
            shutil.rmtree(folder)
    environment = {
        "GOOS": target.goos,
        "GOARCH": target.goarch,
        "CC": str(target.cc),
        "ZIG_TARGET": target.zig,
        "ZIG_PYTHON": sys.executable,
        "MAST3R_WHEEL_PLATFORM": target.tag,
    }
    environment = {name: value for name, value in environment.items() if value}
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*command, "--wheel-dir", out, ROOT], environment)


def run(command: list[str | Path], environment: dict[str, str]) -> None:
    """Run a command with more environment; times inside archives are the commit's, so that builds repeat."""
    stamp = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True)
    if "SOURCE_DATE_EPOCH" not in os.environ and stamp.returncode == 0:
        environment = {"SOURCE_DATE_EPOCH": stamp.stdout.strip(), **environment}
    if done := subprocess.run(command, env={**os.environ, **environment}).returncode:
        sys.exit(f"build.py: {' '.join(map(str, command))} failed with {done}")


if __name__ == "__main__":
    main()
