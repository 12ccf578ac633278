# SPDX-License-Identifier: Apache-2.0
"""The wheel, the sdist and the README, as a stranger meets them."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

import mast3r_runtime
from mast3r_runtime._commands import demo
from mast3r_runtime._library import calls, structs
from mast3r_runtime.backends._cpu import CPUEngine

SYSTEM = "macosx" if sys.platform == "darwin" else "linux"
WHEELS = sorted((ROOT / "dist").glob(f"mast3r_runtime-*{SYSTEM}*_{platform.machine()}.whl"))


@pytest.fixture(scope="session")
def wheel() -> Path:
    if not WHEELS:
        pytest.skip("no wheel in dist/: run make wheel first")
    return WHEELS[-1]


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel alone in an empty folder; its dependencies are those of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    subprocess.run([*pip, str(folder), str(wheel)], check=True)
    return folder


def run_installed(installed: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    for name in ("MAST3R_LIBRARY", "MAST3R_NATIVE"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=cwd, capture_output=True, text=True, timeout=120
    )


def test_wheel_holds_what_it_needs(wheel: Path) -> None:
    version, python, abi, tag = wheel.stem.split("-")[1:]
    assert (version, python, abi) == (mast3r_runtime.__version__, "py3", "none")
    assert tag.startswith(("linux", "manylinux", "macosx"))
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    inside = {name.removeprefix("mast3r_runtime/") for name in names if name.startswith("mast3r_runtime/")}
    want = {
        "py.typed",
        "models/mast3r_small/unified.safetensors",
        "models/mast3r_tiny/unified.safetensors",
        "pictures/coffee.png",
        "pictures/scene/truth.npz",
        "_output/web/three.js",
        "_output/web/page.html",
        "selfcheck/landscape.npz",
        "selfcheck/views.npz",
    }
    assert want <= inside
    assert any(name.startswith("libmast3r_runtime.") for name in inside)
    assert not any("_gopy" in name for name in inside)
    assert not {name for name in inside if name.endswith((".go", ".h", ".pyc", ".c"))}


def test_installed_wheel_checks_itself(installed: Path, tmp_path: Path) -> None:
    done = run_installed(installed, "-m", "mast3r_runtime", "selfcheck", cwd=tmp_path)
    assert done.returncode == 0 and "FAIL" not in done.stdout, done.stdout + done.stderr
    for name in ("reference pts3d_1", "reference desc_conf_2", "matching", "model in the wheel"):
        assert f"ok    {name} " in done.stdout, done.stdout


def test_readme_lines_run(installed: Path, tmp_path: Path) -> None:
    """The first Python block of the README, with the wheel's own pictures under its names."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[:1]
    for i, name in enumerate(("left.png", "right.png"), 1):
        (tmp_path / name).write_bytes((installed / f"mast3r_runtime/pictures/room_{i}.png").read_bytes())
    done = run_installed(installed, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\(\d+, \d+, 3\) \d+ matches", done.stdout), done.stdout


def test_readme_figures() -> None:
    """The README's figures are those of the demo with the model as it is, to a point."""
    text = " ".join((ROOT / "README.md").read_text().split())
    claimed = re.search(
        r"([\d.]+) % within 3 pixels of the truth on the motorcycle stereo pair, ([\d.]+) % on the "
        r"rendered room, ([\d.]+) % on the coffee cup's homography, at a long side of 256",
        text,
    )
    assert claimed is not None
    figures = dict(zip(("motorcycle", "room", "coffee"), map(float, claimed.groups())))
    with CPUEngine("auto", 256, "auto", 0) as engine:
        engine.load()
        for pair in demo.pairs():  # without scikit-image, the last two
            result = engine.infer_gpu(pair.image_1, pair.image_2).numpy()
            matches = engine.match(result, top_k=None, confidence_threshold=0.0)
            near = demo.score(pair, result, matches).near
            assert near is not None and abs(100 * near - figures[pair.name]) < 1, pair.name


def test_readme_names_what_exists() -> None:
    """Every make target, verb and linked file of the README is there."""
    text = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"\bmake ([a-z-]+)\b", text):
        assert re.search(rf"^{target}:", makefile, re.M), target
    usage = subprocess.run(
        [sys.executable, "-m", "mast3r_runtime", "-h"], capture_output=True, text=True
    ).stdout
    for verb in re.findall(r"\bmast3r ([a-z]+)\b", text):
        assert verb in usage, verb
    for link in re.findall(r"\]\(([^)#]+?)\)", text):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_sdist_refuses_politely_without_go(tmp_path: Path) -> None:
    """The source archive holds all sources; without Go it says what is missing."""
    build = [
        sys.executable,
        "-c",
        "import setuptools.build_meta as b, sys; print(b.build_sdist(sys.argv[1]))",
    ]
    made = subprocess.run([*build, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
        tar.extractall(tmp_path / "src", filter="data")
    assert {
        "go.mod",
        "capi/mast3r.h",
        "capi/mast3r.map",
        "capi/build.sh",
        "gomps/engine.go",
        "LICENSE",
    } <= names
    (source,) = (tmp_path / "src").iterdir()
    code = "import setuptools.build_meta as b; b.build_wheel('.')"
    environment = {**os.environ, "GO": "no-such-go"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=source, env=environment, capture_output=True, text=True
    )
    assert done.returncode != 0 and "needs Go" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("machine", "arch", "tag"),
    [
        ("arm64", None, "macosx_12_0_arm64"),
        ("x86_64", None, "macosx_12_0_x86_64"),  # Rosetta, or half of a universal Python
        ("x86_64", "arm64", "macosx_12_0_arm64"),  # a cross build
    ],
)
def test_macos_tag_is_that_of_the_library(machine: str, arch: str | None, tag: str) -> None:
    """The wheel's tag names the processor of the library in it, whatever the interpreter's is."""
    code = (
        "import platform, runpy, sys\n"
        f"platform.machine = lambda: {machine!r}\n"
        "sys.argv = ['setup.py', '--version']\n"
        "made = runpy.run_path('setup.py')\n"
        "from setuptools.dist import Distribution\n"
        "print(made['GOARCH'], '-'.join(made['PlatformWheel'](Distribution()).get_tag()))\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in {"GOARCH", "MAST3R_WHEEL_PLATFORM"}}
    environment |= {"GOOS": "darwin", "_PYTHON_HOST_PLATFORM": "macosx-14.0-universal2"}
    environment |= {"GOARCH": arch} if arch else {}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    want = {"arm64": "arm64", "x86_64": "amd64"}[arch or machine]
    assert done.stdout.split()[-2:] == [want, f"py3-none-{tag}"]


def test_struct_sizes_are_the_header_s(tmp_path: Path) -> None:
    """ctypes lays the structs out as the C compiler does."""
    kinds = [kind for kind in vars(structs).values() if isinstance(kind, type) and hasattr(kind, "_fields_")]
    assert len(kinds) > 20
    lines = []
    for kind in kinds:
        name, fields = kind.__name__, [field for field, *_ in kind._fields_]
        c_name = "mast3r_" + re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        lines.append(f'printf("{name} %zu\\n", sizeof({c_name}));')
        lines += [f'printf("{name}.{f} %zu\\n", __builtin_offsetof({c_name}, {f}));' for f in fields]
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    body = "\n".join(lines)
    source.write_text(f'#include <stdio.h>\n#include "mast3r.h"\nint main(void) {{ {body} return 0; }}\n')
    subprocess.run(["cc", f"-I{ROOT / 'capi'}", "-o", str(program), str(source)], check=True)
    import ctypes

    for line in subprocess.run(
        [str(program)], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        name, size = line.split()
        kind, _, field = name.partition(".")
        struct = getattr(structs, kind)
        got = getattr(struct, field).offset if field else ctypes.sizeof(struct)
        assert got == int(size), name


def test_the_library_is_of_this_version() -> None:
    assert calls.library().mast3r_version().decode() == mast3r_runtime.__version__
