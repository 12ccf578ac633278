# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows runs, and its API reference is that of the code."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, child_environment

from mast3r_runtime._scene import known

EXAMPLES = ROOT / "docs" / "examples"
PAGES = sorted((ROOT / "docs").glob("*.md"))


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def test_tour_runs(micro: Path, head: Path, codebook: Path) -> None:
    options = ("--model", micro, "--resolution", 64, "--retrieval", head, "--codebook", codebook)
    done = run(EXAMPLES / "tour.py", *options)
    assert done.returncode == 0, done.stderr
    assert re.search(r"points \(48, 64, 3\)", done.stdout) and "mast3r_micro" in done.stdout
    assert re.search(r"\d+ matches in", done.stdout) and "pairs [Pair(first=0, second=1)" in done.stdout


def test_scene_example_runs(tmp_path: Path) -> None:
    pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene)")
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for path in known.paths()[:5]:
        shutil.copy(path, pictures)
    done = run(EXAMPLES / "scene.py", pictures, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"room_0[0-3].jpg: at", done.stdout)) == 4
    assert re.search(r"room_04.jpg: \d+ inliers", done.stdout) and "points; Scale guessed" in done.stdout
    assert (tmp_path / "out" / "scene.html").is_file() and (tmp_path / "out" / "small.html").is_file()


def test_examples_are_typed() -> None:
    """As a user with mypy --strict sees them: the package's own types suffice."""
    done = run("-m", "mypy", "--strict", EXAMPLES)
    assert done.returncode == 0, done.stdout


def test_reference_is_generated() -> None:
    """docs/api.md is what tools/reference.py makes of the docstrings."""
    done = run(ROOT / "tools" / "reference.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), "run: make reference"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#\s]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_differences_are_a_table() -> None:
    text = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    assert len(rows) > 15 and all(line.count(" | ") == 2 for line in rows)


def test_python_blocks_compile() -> None:
    for page in PAGES:
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            compile(block, page.name, "exec")
