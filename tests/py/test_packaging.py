# SPDX-License-Identifier: Apache-2.0
"""What surrounds the wheel: why a library does not load, licences, release notes, recipes."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from conftest import ROOT

import mast3r_runtime as m3r
from mast3r_runtime._library import reasons
from mast3r_runtime._library.calls import library_path


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(name).stem, ROOT / name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Why it does not load.


def test_reason_of_a_missing_file(tmp_path: Path) -> None:
    text = reasons.why_not_loaded(tmp_path / "none.so", OSError("cannot open"))
    assert "not there" in text and "pip install" in text


def elf(machine: int) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 3, machine) + bytes(44)


@pytest.mark.parametrize(
    ("head", "machine"),
    [
        (elf(62), "x86_64"),
        (elf(183), "aarch64"),
        (b"\xcf\xfa\xed\xfe" + struct.pack("<I", 0x0100000C) + bytes(24), "aarch64"),
        (b"\xcf\xfa\xed\xfe" + struct.pack("<I", 0x01000007) + bytes(24), "x86_64"),
        (
            b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<H", 0x8664) + bytes(18),
            "x86_64",
        ),
        (b"MZ" + bytes(58) + struct.pack("<I", 4000) + b"PE", ""),
        (b"\x7fELF", ""),
        (b"", ""),
    ],
)
def test_machine_of_a_library(tmp_path: Path, head: bytes, machine: str) -> None:
    (tmp_path / "library").write_bytes(head)
    assert reasons.machine_of(tmp_path / "library") == machine


def test_reason_of_another_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "library").write_bytes(elf(183))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    text = reasons.why_not_loaded(tmp_path / "library", OSError("invalid ELF header"))
    assert "made for aarch64" in text and "runs on x86_64" in text


def test_reason_on_musl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "library").write_bytes(elf(62))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(
        sysconfig, "get_config_var", lambda name: "cpython-312-x86_64-linux-musl" if name == "SOABI" else ""
    )
    text = reasons.why_not_loaded(tmp_path / "library", OSError("Error relocating"))
    assert "musl" in text and "python:3-slim" in text


def test_reason_of_an_old_glibc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "library").write_bytes(elf(62))
    monkeypatch.setattr(sys, "platform", "linux")
    text = reasons.why_not_loaded(tmp_path / "library", OSError("version `GLIBC_2.99' not found"))
    assert "newer glibc" in text and "GLIBC_2.99" in text


def test_reason_under_rosetta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "library").write_bytes(elf(183))
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(
        platform, "version", lambda: "Darwin Kernel Version 24.5.0: root:xnu/RELEASE_ARM64_T6041"
    )
    assert "Rosetta" in reasons.why_not_loaded(tmp_path / "library", OSError("incompatible architecture"))


def test_the_error_says_it(tmp_path: Path) -> None:
    (tmp_path / "library.so").write_bytes(elf(183 if platform.machine() == "x86_64" else 62))
    done = subprocess.run(
        [sys.executable, "-c", "import mast3r_runtime as m; m.Engine('auto')"],
        env={
            "MAST3R_LIBRARY": str(tmp_path / "library.so"),
            "PYTHONPATH": ":".join(p for p in sys.path if p),
            "PATH": "",
        },
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "LibraryError" in done.stderr and "made for" in done.stderr


# Licences.


@pytest.mark.skipif(
    os.environ.get("MAST3R_NATIVE") == "gopy", reason="the extension of make gopy is in no wheel"
)
def test_every_linked_module_has_its_licence() -> None:
    if shutil.which("go") is None:
        pytest.skip("go is not here: the library's modules are not read")
    sbom = script("packaging/sbom.py")
    linked = {name for name, _ in sbom.modules(library_path())}
    assert linked == set(sbom.LICENSES), "packaging/licenses and packaging/sbom.py follow go.mod"
    for _, text in sbom.LICENSES.values():
        assert len((ROOT / "packaging" / "licenses" / text).read_text()) > 1000
    document = yaml.safe_load(sbom.bill(library_path(), "1.2.3"))
    assert document["bomFormat"] == "CycloneDX" and len(document["components"]) == len(linked)


def test_a_module_without_a_licence_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    sbom = script("packaging/sbom.py")
    monkeypatch.setattr(sbom, "modules", lambda library: [("example.org/new", "v1.0.0")])
    with pytest.raises(SystemExit, match=r"example\.org/new v1\.0\.0 has no licence"):
        sbom.bill(Path("library"), "1")


# Releases.


def test_release_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = script("packaging/release.py")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n- no\n\n## 1.2.0 - 2026-01-01\n\n- yes\n\n## 1.1.0\n\n- no\n"
    )
    assert release.notes("1.2.0") == "- yes"
    assert release.notes("1.3.0") == ""


def test_release_refuses_another_version() -> None:
    for tag, problem in (("v99.0.0", "the sources say " + m3r.__version__), ("nonsense", "the sources say")):
        done = subprocess.run(
            [sys.executable, ROOT / "packaging" / "release.py", "check", tag], capture_output=True, text=True
        )
        assert done.returncode == 1 and problem in done.stderr


def test_recipes_have_version_and_checksum(tmp_path: Path) -> None:
    release = script("packaging/release.py")
    sdist = tmp_path / f"mast3r_runtime-{m3r.__version__}.tar.gz"
    sdist.write_bytes(b"sdist")
    written = {path.name: path.read_text() for path in release.recipes(tmp_path)}
    assert set(written) == {"recipe.yaml", "mast3r-runtime.rb"}
    digest = hashlib.sha256(b"sdist").hexdigest()
    for text in written.values():
        assert m3r.__version__ in text and digest in text and "@" not in text
    recipe = yaml.safe_load(written["recipe.yaml"])
    assert recipe["source"]["sha256"] == digest
    if shutil.which("ruby"):
        subprocess.run(
            ["ruby", "-c", tmp_path / "recipes" / "mast3r-runtime.rb"], check=True, capture_output=True
        )


def test_conda_recipe_needs_what_the_package_needs() -> None:
    tomllib = pytest.importorskip("tomllib")

    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml.in").read_text())
    got = [r.replace(" ", "") for r in recipe["requirements"]["run"] if r != "python"]
    assert sorted(got) == sorted(wanted)
