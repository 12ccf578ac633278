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


# The first major version of each action that runs on Node 24: runners have no Node 20 any more.
NODE_24 = {
    "checkout": 5,
    "setup-go": 6,
    "setup-python": 6,
    "upload-artifact": 6,
    "download-artifact": 7,
    "attest-build-provenance": 3,
}
# A container; the index's own action for trusted publishing.
NO_NODE = {"pypa/gh-action-pypi-publish@release/v1"}


def test_there_are_workflows() -> None:
    assert {path.stem for path in WORKFLOWS} >= {"linux", "macos"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow(path: Path) -> None:
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    # GitHub's own choice of shell has no pipefail: the status of "x | tee" would be tee's.
    assert workflow["defaults"]["run"]["shell"] == "bash"
    makefile = (ROOT / "Makefile").read_text()
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 60, name
        assert {job.get("needs", name)} <= set(workflow["jobs"])
        for step in job["steps"]:
            if "uses" in step:
                action = re.fullmatch(r"actions/([a-z-]+)@v(\d+)", step["uses"])
                assert step["uses"] in NO_NODE or action and int(action[2]) >= NODE_24[action[1]], step
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


def test_macos_tries_what_is_shipped() -> None:
    """The cross-built wheel is what the Macs verify, load and test, and a crash is no "no GPU"."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "macos.yml").read_text())["jobs"]
    for name in ("try", "other-pythons", "native", "gpu"):
        assert jobs[name]["needs"] == "cross", name
    scripts = {name: "\n".join(step.get("run", "") for step in job["steps"]) for name, job in jobs.items()}
    assert "make darwin" in scripts["cross"]
    for word in ("verify.sh", "CDLL", "selfcheck", "pytest"):
        assert word in scripts["try"], word
    assert jobs["try"]["strategy"]["matrix"]["python"] == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    assert scripts["gpu"].index("found=crashed") < scripts["gpu"].index("is_available")
    steps = [step.get("uses", step.get("run", "")) for step in jobs["native"]["steps"]]
    uploads = [i for i, step in enumerate(steps) if "upload-artifact" in step]
    assert uploads and uploads[0] < steps.index("make c-test")
