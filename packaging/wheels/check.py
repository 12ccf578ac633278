# SPDX-License-Identifier: Apache-2.0
"""Checks wheels and sdist without installing them: check.py DIST [LIBRARY]

Of every wheel: the tag, one library for that system and processor and no more, data, licences, bill
of materials, no path of the machine that built it, size. Then ``auditwheel show``, ``twine check``,
``check-wheel-contents`` and ``licensecheck``, whichever is installed beside this Python. With
LIBRARY, each wheel must hold that file byte for byte: the one that was inspected.
"""

import csv
import importlib.util
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Modules by their folders: the package itself would want numpy.
sys.path[:0] = [str(ROOT / "packaging"), str(ROOT / "python" / "mast3r_runtime" / "_library")]
from reasons import machine_of  # noqa: E402
from sbom import LICENSES  # noqa: E402

DEPLOYMENT = (ROOT / "packaging" / "darwin" / "deployment_target").read_text().strip()
LIBRARIES = {  # by tag: the library and its processor
    r"manylinux_2_(?:17|28)_x86_64|linux_x86_64": ("libmast3r_runtime.so", "x86_64"),
    r"manylinux_2_(?:17|28)_aarch64|linux_aarch64": ("libmast3r_runtime.so", "aarch64"),
    rf"macosx_{DEPLOYMENT.replace('.', '_')}_arm64": ("libmast3r_runtime.dylib", "aarch64"),
    r"win_amd64": ("libmast3r_runtime.dll", "x86_64"),
}
LIMIT = 100_000_000  # bytes of a file on the package index


def check(wheel: Path, inspected: Path | None) -> list[str]:
    """The problems of one wheel."""
    tag = wheel.stem.split("-none-")[-1]
    library, machine = next((v for k, v in LIBRARIES.items() if re.fullmatch(k, tag)), ("", ""))
    if not library:
        return [f"tag {tag} is none that this project publishes"]
    problems = []
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
        info = next(n for n in names if n.endswith(".dist-info/WHEEL")).removesuffix("WHEEL")
        head = z.read(info + "WHEEL").decode()
        if f"Tag: py3-none-{tag}" not in head.split("\n") or "Root-Is-Purelib: false" not in head:
            problems.append(f"WHEEL says {head!r}, want tag py3-none-{tag}")
        natives = [n for n in names if n.endswith((".so", ".dylib", ".dll", ".pyd"))]
        if natives != [f"mast3r_runtime/{library}"]:
            problems.append(f"libraries {natives}, want mast3r_runtime/{library} alone")
        else:
            code = z.read(natives[0])
            copy = ROOT / "build" / f"check-{library}"
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(code)
            if (got := machine_of(copy)) != machine:
                problems.append(f"{library} is for {got or 'an unknown processor'}, want {machine}")
            copy.unlink()
            if inspected is not None and code != inspected.read_bytes():
                problems.append(f"{library} is not {inspected} byte for byte")
            if str(ROOT).encode() in code:
                problems.append(f"{library} holds the path of the folder that it was built in")
        for need in (
            "py.typed",
            "models/mast3r_small/unified.safetensors",
            "models/mast3r_tiny/unified.safetensors",
            "pictures/room_1.png",
            "selfcheck/landscape.npz",
            "selfcheck/views.npz",
        ):
            if f"mast3r_runtime/{need}" not in names:
                problems.append(f"mast3r_runtime/{need} is missing")
        texts = [("LICENSE", ""), ("ATTRIBUTION.md", "")] + [
            ("packaging/licenses/" + t, m) for m, (_, t) in LICENSES.items()
        ]
        problems += [f"{info}licenses/{t} is missing" for t, _ in texts if f"{info}licenses/{t}" not in names]
        if f"{info}sboms/mast3r-runtime.cdx.json" not in names:
            problems.append("no bill of materials")
        else:
            components = json.loads(z.read(f"{info}sboms/mast3r-runtime.cdx.json"))["components"]
            if (linked := {c["name"] for c in components}) != set(LICENSES):
                problems.append(
                    f"the bill of materials names {sorted(linked)}, the licences {sorted(LICENSES)}"
                )
    if wheel.stat().st_size > LIMIT:
        problems.append(f"{wheel.stat().st_size} bytes, want at most {LIMIT}")
    return problems


def tools(files: list[Path]) -> list[str]:
    """What the usual checkers say."""
    problems = []
    for file in files:
        if "linux" in file.name and file.suffix == ".whl" and have("auditwheel"):
            said = subprocess.run(
                [sys.executable, "-m", "auditwheel", "show", file], capture_output=True, text=True
            ).stdout
            tag = file.stem.split("-none-")[-1]
            # auditwheel names the oldest system that the file runs on: not newer than the tag claims.
            found = re.search(r"manylinux_2_(\d+)_", said.replace("\n", " "))
            claimed = re.search(r"manylinux_2_(\d+)_", tag)
            print(f"{file.name}: auditwheel: {' '.join(said.split())[:200]}")
            if claimed and (not found or int(found[1]) > int(claimed[1])):
                problems.append(f"{file.name}: auditwheel says {found[0] if found else said!r}")
    for command in (["twine", "check", "--strict"], ["check_wheel_contents"]):
        some = [f for f in files if f.suffix == ".whl"] if command[0] == "check_wheel_contents" else files
        if have(command[0]) and some:
            done = subprocess.run(
                [sys.executable, "-m", *command, *some],
                capture_output=True,
                text=True,
                cwd=ROOT / "packaging" / "wheels",
            )
            print(done.stdout.strip())
            if done.returncode:
                problems.append(f"{command[0]}: {done.stdout}{done.stderr}")
    return problems


def licences(wheel: Path) -> list[str]:
    """What licensecheck says of the packages that pip brings along."""
    if not have("licensecheck"):
        return []
    with zipfile.ZipFile(wheel) as z:
        metadata = z.read(next(n for n in z.namelist() if n.endswith(".dist-info/METADATA"))).decode()
    needs = re.findall(r"^Requires-Dist: (([\w-]+)[^;\n]*)$", metadata, re.M)  # without those of extras
    listing = ROOT / "build" / "check-requirements.txt"
    listing.write_text("".join(f"{need}\n" for need, _ in needs))
    command = [sys.executable, "-m", "licensecheck", "-r", listing, "-l", "Apache-2.0", "--format", "csv"]
    said = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    rows = list(csv.DictReader(said.stdout[said.stdout.find("name,") :].splitlines()))
    if not rows:
        print(f"SKIPPED: licensecheck: {said.stderr.strip()[-200:]}", file=sys.stderr)
        return []
    print("licensecheck: " + ", ".join(f"{row['name'].lower()} ({row['license']})" for row in rows))
    missing = {name.lower() for _, name in needs} - {row["name"].lower() for row in rows}
    problems = [f"licensecheck does not list {name}" for name in sorted(missing)]
    return problems + [f"{r['name']}: licence {r['license']}" for r in rows if r["licenseCompat"] != "True"]


def have(module: str) -> bool:
    """Whether a checker is installed; says it where not."""
    if importlib.util.find_spec(module) is None:
        print(f"SKIPPED: {module} is not installed", file=sys.stderr)
        return False
    return True


def main() -> None:
    folder = Path(sys.argv[1])
    inspected = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    files = sorted(f for f in folder.iterdir() if f.suffix == ".whl" or f.name.endswith(".tar.gz"))
    if not any(f.suffix == ".whl" for f in files):
        sys.exit(f"check.py: no wheel in {folder}")
    problems = []
    for file in files:
        if file.suffix == ".whl":
            found = check(file, inspected)
            print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB, {'; '.join(found) or 'right'}")
            problems += [f"{file.name}: {p}" for p in found]
    problems += tools([f.resolve() for f in files])
    problems += licences(next(f for f in files if f.suffix == ".whl"))  # the same in each
    if problems:
        sys.exit("check.py: " + "\ncheck.py: ".join(problems))


if __name__ == "__main__":
    main()
