# SPDX-License-Identifier: Apache-2.0
"""Builds the wheels of all systems on one machine, and the sdist: build.py [NAME ...] --out DIR

Run with a Python that has ``pip``, ``setuptools``, ``wheel`` and ``ziglang``; ``make wheels`` makes
one. The macOS wheel needs clang 19 and lld 19 (packaging/darwin); it is skipped, loudly, without
them.
"""

import argparse
import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
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
            sdist(arguments.out)
        elif name == "macos-arm64" and not (shutil.which("clang-19") and shutil.which("ld64.lld-19")):
            print("SKIPPED: macos-arm64: clang 19 and lld 19 are not here", file=sys.stderr)
        else:
            wheel(TARGETS[name], arguments.out)


def sdist(out: Path) -> None:
    """Build the source archive, and write it again without what differs from build to build."""
    run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, ROOT], {}, quiet=True)
    path = next(out.glob("mast3r_runtime-*.tar.gz"))
    with tarfile.open(path) as archive:
        files = {m.name: (m.mode, archive.extractfile(m).read()) for m in archive if m.isfile()}  # type: ignore[union-attr]
    with (
        open(path, "wb") as file,
        gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, (mode, data) in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), int(epoch())
            member.mode = 0o755 if mode & 0o100 else 0o644
            archive.addfile(member, io.BytesIO(data))


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


def epoch() -> str:
    """The times inside archives: the commit's, so that builds repeat."""
    stamp = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True)
    return os.environ.get("SOURCE_DATE_EPOCH") or stamp.stdout.strip() or "315532800"  # zip begins in 1980


def run(command: list[str | Path], environment: dict[str, str], quiet: bool = False) -> None:
    """Run a command with more environment."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch(), **environment}
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL if quiet else None).returncode
    if done:
        sys.exit(f"build.py: {' '.join(map(str, command))} failed with {done}")


if __name__ == "__main__":
    main()
