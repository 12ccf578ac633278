# SPDX-License-Identifier: Apache-2.0
"""What a long command says of itself: its size before it begins, and how far it is, in a file too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mast3r_runtime import cli
from mast3r_runtime._commands import progress
from mast3r_runtime._scene import known


def test_the_first_line_of_reconstruct_is_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures, pairs, memory; then, as nothing here is a terminal, plain lines."""
    pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene)")
    monkeypatch.setattr(progress, "EVERY", 0.0)
    pictures = [str(path) for path in known.paths()[:3]]
    make = ["reconstruct", *pictures, "-o", str(tmp_path), "--resolution", "128", "--backend", "cpu"]
    assert cli.main(make) in (0, 1)
    lines = capsys.readouterr().err.splitlines()
    size = r"mast3r: 3 pictures, 3 pairs, about [\d.]+ [MG]B of memory at the most(; .* leaves .*)?"
    assert re.fullmatch(size, lines[0]), lines[0]
    assert "mast3r: pairs: 3 of 3, about 0 s left" in lines and "\r" not in "".join(lines)


def test_what_cannot_be_done_is_said_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No estimate stands before an error that it has nothing to do with."""
    assert cli.main(["reconstruct", str(tmp_path / "nothing"), "-o", str(tmp_path / "o")]) == 1
    assert "of memory" not in capsys.readouterr().err


def test_lines_come_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    with progress.Steps() as steps:
        for done in range(101):
            steps("pairs", done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert 20 < len(lines) < 40 and re.fullmatch(
        r"mast3r: pairs: \d+ of 100, about \d+ (s|minutes) left", lines[0]
    )
    assert progress.left(1, 100, 60.0) == ", about 99 minutes left" and progress.left(0, 9, 1.0) == ""
