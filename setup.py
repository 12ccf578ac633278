# SPDX-License-Identifier: Apache-2.0
"""Builds the Go shared library into the package. All metadata is in pyproject.toml."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

ROOT = Path(__file__).resolve().parent
# Modules by their folders: the package itself would want numpy.
sys.path[:0] = [str(ROOT / "packaging"), str(ROOT / "python" / "mast3r_runtime" / "_library")]
from reasons import is_musl  # noqa: E402
from sbom import bill  # noqa: E402

PACKAGE = "mast3r_runtime"
# GOOS, GOARCH and CC cross-build; MAST3R_WHEEL_PLATFORM then names the wheel's platform.
SUFFIXES = {"linux": "so", "darwin": "dylib", "windows": "dll"}
GOOS = os.environ.get("GOOS") or {"win32": "windows"}.get(sys.platform, sys.platform)
# On a Mac the library is for the processor that this Python runs on: a universal Python runs
# on one of two, and one under Rosetta on x86_64 whatever the Mac is.
GOARCH = os.environ.get("GOARCH") or {"arm64": "arm64", "x86_64": "amd64"}.get(platform.machine(), "")
TARGET = (
    os.environ.get("MACOSX_DEPLOYMENT_TARGET")
    or (ROOT / "packaging/darwin/deployment_target").read_text().strip()
)
LIBRARY = "libmast3r_runtime." + SUFFIXES.get(GOOS, "so")


def unsupported() -> str:
    """Why no library for this system can be built and loaded, and what to do; "" where it can."""
    if GOOS not in SUFFIXES:
        return f"no build for {GOOS}; Linux, macOS and Windows are supported"
    if os.environ.get("GOARCH"):  # a cross build: the machine at hand is not the one that matters
        return ""
    if is_musl():
        return (
            "Alpine and other systems with musl cannot load Go shared libraries (golang/go issue 54805). "
            "Use a system with glibc, for example the image python:3-slim."
        )
    if sys.maxsize < 2**32:
        return "this Python is a 32-bit program; install a 64-bit Python."
    return ""


class build_go(Command):
    """`go build -buildmode=c-shared`, as a sub-command of build (also for editable installs)."""

    description = "build the Go shared library"
    user_options = []
    editable_mode = False

    def initialize_options(self):
        self.build_lib = None

    def finalize_options(self):
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def _target(self):
        base = ROOT / "python" if self.editable_mode else Path(self.build_lib)
        return base / PACKAGE / LIBRARY

    def run(self):
        if problem := unsupported():
            raise SystemExit(f"mast3r-runtime: {problem}")
        if not shutil.which(os.environ.get("GO", "go")):
            raise SystemExit(
                "mast3r-runtime: there is no wheel for this platform, and building from source needs "
                "Go 1.26 or later on PATH (or GO=/path/to/go) and a C compiler. "
                "Install Go, then try again."
            )
        target = self._target().resolve()
        if not shutil.which("sh"):
            raise SystemExit(
                "mast3r-runtime: building from source needs sh on PATH (Git for Windows and MSYS2 have one)"
            )
        environment = dict(os.environ)
        if GOOS == "darwin":
            environment |= {"GOARCH": GOARCH, "MACOSX_DEPLOYMENT_TARGET": TARGET}
        subprocess.run(["sh", str(ROOT / "capi" / "build.sh"), str(target)], check=True, env=environment)

    def get_outputs(self):
        return [str(self._target())]

    def get_output_mapping(self):
        return {}

    def get_source_files(self):  # what an sdist needs to build the library
        folders = ("capi", "gomps", "internal")
        sources = [p for d in folders for p in (ROOT / d).rglob("*") if p.is_file()]
        sources = [p for p in sources if ROOT / "capi" / "pyext" not in p.parents]  # see make gopy
        keep = [p for p in sources if "testdata" not in p.parts and not p.name.endswith("_test.go")]
        return [str(p.relative_to(ROOT)) for p in keep] + ["go.mod", "go.sum"]


class BuildWithGo(build):
    sub_commands = [*build.sub_commands, ("build_go", None)]


class PlatformWheel(bdist_wheel):
    """py3-none-PLATFORM: ctypes needs no CPython ABI, so one wheel serves every version."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def write_wheelfile(self, wheelfile_base, *arguments, **named):
        super().write_wheelfile(wheelfile_base, *arguments, **named)
        library = Path(self.bdist_dir) / PACKAGE / LIBRARY
        if library.exists():  # an editable wheel holds no library
            folder = Path(wheelfile_base) / "sboms"
            folder.mkdir(exist_ok=True)
            (folder / "mast3r-runtime.cdx.json").write_text(bill(library, self.distribution.get_version()))

    def get_tag(self):
        tag = os.environ.get("MAST3R_WHEEL_PLATFORM")
        if not tag and GOOS == "darwin":  # not the interpreter's: that may be universal2, or newer
            machine = {"amd64": "x86_64"}.get(GOARCH, GOARCH)
            tag = f"macosx_{TARGET.replace('.', '_')}_{machine}"
        return "py3", "none", tag or super().get_tag()[2]


class PlatformDistribution(Distribution):
    def has_ext_modules(self):  # platlib, not purelib
        return True


setup(
    cmdclass={"build": BuildWithGo, "build_go": build_go, "bdist_wheel": PlatformWheel},
    distclass=PlatformDistribution,
)
