# SPDX-License-Identifier: Apache-2.0
"""The workflow files name packages, targets, scripts and verbs that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT

from mast3r_runtime import cli

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_there_are_workflows() -> None:
    assert {path.stem for path in WORKFLOWS} >= {"linux", "macos"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow(path: Path) -> None:
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    makefile = (ROOT / "Makefile").read_text()
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 60, name
        assert set([job.get("needs", name)]) <= set(workflow["jobs"])
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/x@v1")), step
            script = step.get("run", "")
            for package in re.findall(r"(?<=\s)\./[\w./-]+", script):
                assert package.endswith("...") or (ROOT / package).exists(), package
            for target in re.findall(r"\bmake ([a-z-]+)", script):
                assert re.search(rf"^{target}:", makefile, re.M), target
            for verb in re.findall(r"\bmast3r ([a-z]+)", script):
                with pytest.raises(SystemExit) as stop:
                    cli.main([verb, "--help"])
                assert stop.value.code == 0, verb
            if script.startswith("."):
                assert (ROOT / script.split()[0]).stat().st_mode & 0o111, script
