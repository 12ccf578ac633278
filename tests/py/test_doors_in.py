# SPDX-License-Identifier: Apache-2.0
"""Hostile and unusual pictures, through every command and call that takes pictures."""

from __future__ import annotations

import ast
from pathlib import Path

from mast3r_runtime._pictures.formats import suffixes

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "mast3r_runtime"

# Files of the wheel, not of the user.
OWN_PICTURES = {"_commands/demo.py"}
# Suffixes of what is written, not of what is read.
WRITTEN = {".png", ".jpg"}


def sources() -> dict[str, ast.Module]:
    """The modules of the package outside the room that reads pictures."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in PACKAGE.rglob("*.py")
        if not {"_pictures", "_gopy"} & set(path.parts)
    }


def opens(tree: ast.Module) -> list[int]:
    """Lines that call Pillow's ``open``, under whatever name it was imported."""
    names = {"Image", "PILImage"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "PIL":
            names |= {alias.asname or alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            names |= {a.asname or a.name for a in node.names if a.name.partition(".")[0] == "PIL"}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "open":
            base = ast.unparse(node.value)
            if base in names or base.endswith(".Image") or base == "PIL.Image":
                found.append(node.lineno)
    return found


def test_one_room_opens_pictures() -> None:
    found = {name: lines for name, tree in sources().items() if (lines := opens(tree))}
    assert set(found) <= OWN_PICTURES, found
    assert opens(ast.parse("from PIL import Image as I\nI.open(x)")) == [2]
    assert opens(ast.parse("import PIL.Image\nPIL.Image.open(x)")) == [2]


def test_one_room_knows_suffixes_of_pictures() -> None:
    """A list of suffixes elsewhere is a second opinion about what a picture is."""
    known = suffixes() | {".heic", ".heif", ".mov", ".mp4", ".dng"}
    for name, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value.lower() not in known - WRITTEN, f"{name}:{node.lineno}: {node.value!r}"
