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
PACKAGE = "mast3r_runtime"
# GOOS, GOARCH and CC cross-build; MAST3R_WHEEL_PLATFORM then names the wheel's platform.
GOOS = os.environ.get("GOOS") or sys.platform
# On a Mac the library is for the processor that this Python runs on: a universal Python runs
# on one of two, and one under Rosetta on x86_64 whatever the Mac is.
GOARCH = os.environ.get("GOARCH") or {"arm64": "arm64", "x86_64": "amd64"}.get(platform.machine(), "")
TARGET = os.environ.get("MACOSX_DEPLOYMENT_TARGET") or (ROOT / "packaging/darwin/deployment_target").read_text().strip()
LIBRARY = "libmast3r_runtime." + ("dylib" if GOOS == "darwin" else "so")


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
        if GOOS not in ("linux", "darwin"):
            raise SystemExit(f"mast3r-runtime: no build for {GOOS}; Linux and macOS are supported")
        if not shutil.which(os.environ.get("GO", "go")):
            raise SystemExit(
                "mast3r-runtime: there is no wheel for this platform, and building from source needs "
                "Go 1.26 or later on PATH (or GO=/path/to/go) and a C compiler. "
                "Install Go, then try again."
            )
        target = self._target().resolve()
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
