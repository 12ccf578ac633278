# SPDX-License-Identifier: Apache-2.0
"""The model card says what was measured, of the model that is in the wheel."""

import json
from pathlib import Path

import pytest

import card
from mast3r_torch import weights

MODELS = Path(card.__file__).parents[1] / "python/mast3r_runtime/models"


@pytest.fixture
def kept() -> dict:
    return json.loads(card.KEPT.read_text())


def test_the_tables_are_those_of_the_measurement(kept):
    document = card.DOCUMENT.read_text()
    assert card.fill(document, kept) == document, "python card.py FIGURES.json HALF.json makes them anew"


@pytest.mark.parametrize("name", ["small", "tiny"])
def test_the_measurement_is_of_the_model_in_the_wheel(kept, name):
    """Its file has the main figures; another machine may round the last digit otherwise."""
    _, meta = weights.read(MODELS / f"mast3r_{name}/unified.safetensors")
    assert meta["variant"] == f"mast3r_{name}"
    figures = json.loads(meta["figures"])
    assert len(figures) > 10
    for section, row in figures.items():
        for figure, value in row.items():
            assert kept[name][section][figure] == pytest.approx(value, abs=2e-3), f"{section}: {figure}"


def test_a_mark_that_is_not_there_is_an_error(kept):
    with pytest.raises(ValueError, match="0 marks '<!-- card.py: truth -->', want 1"):
        card.fill("no marks", kept)
