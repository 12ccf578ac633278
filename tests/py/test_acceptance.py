# SPDX-License-Identifier: Apache-2.0
"""docs/acceptance.md: every statement has a test that exists, or a reason."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def acceptance() -> ModuleType:
    path = ROOT / "tests/acceptance/acceptance.py"
    spec = importlib.util.spec_from_file_location("acceptance", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["acceptance"] = module
    spec.loader.exec_module(module)
    return module


def test_every_statement_has_a_test_or_a_reason(acceptance: ModuleType) -> None:
    rows = acceptance.rows()
    assert len(rows) == len({row.number for row in rows}) == 261
    assert [fault for row in rows for fault in acceptance.faults(row)] == []


def test_rows_that_say_nothing_are_found(acceptance: ModuleType) -> None:
    row = acceptance.Row
    for bad, fault in (
        (row("9.1", "WORKS", "s", "", ""), "no test"),
        (row("9.1", "WORKS", "s", "gomps/tensor:TestNone", ""), "there is no"),
        (row("9.1", "PARTLY", "s", "", ""), "no reason"),
        (row("9.1", "FINE", "s", "", "n"), "mark"),
    ):
        assert any(fault in text for text in acceptance.faults(bad))


def test_page_is_generated(acceptance: ModuleType) -> None:
    assert (ROOT / "docs/acceptance.md").read_text() == acceptance.page(), (
        "run: python tests/acceptance/acceptance.py >docs/acceptance.md"
    )
