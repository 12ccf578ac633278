# SPDX-License-Identifier: Apache-2.0
"""Paths stand in error texts as the user wrote them: their backslashes are not doubled."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

import mast3r_runtime as m3r
from mast3r_runtime import collection, errors, images, scene, store
from mast3r_runtime._commands.main import main
from mast3r_runtime._engine.features import Features
from mast3r_runtime._scene import given
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.errors import quoted

# Names of values that are paths.
PATHS = {"path", "folder", "file", "where", "url", "place", "target", "source_path", "directory"}


def test_no_path_is_written_by_repr() -> None:
    """``{path!r}`` doubles backslashes; ``{quoted(path)}`` does not."""
    seen = 0
    for file in sorted((ROOT / "python" / "mast3r_runtime").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FormattedValue) and node.conversion == ord("r"):
                seen += 1
                value = node.value
                call = isinstance(value, ast.Call) and ast.unparse(value.func) in ("str", "os.fspath")
                argument = value.args[0] if call and isinstance(value, ast.Call) else value
                name = argument.attr if isinstance(argument, ast.Attribute) else getattr(argument, "id", "")
                assert name not in PATHS, f"{file}:{node.lineno}: {ast.unparse(node)}, want quoted()"
    assert seen > 20


def test_quoted() -> None:
    assert quoted(r"C:\users\ü 日本.png") == r"'C:\users\ü 日本.png'"
    assert quoted(Path("a b")) == "'a b'" and quoted("two\nlines") == r"'two\nlines'"
    assert quoted(r"\\server\share") == r"'\\server\share'"


CALLS: dict[str, Callable[[Path], object]] = {
    "model": lambda path: CPUEngine("auto", 64).load(path / "no.safetensors"),
    "torn model": lambda path: CPUEngine("auto", 64).load(path / "torn.safetensors"),
    "picture": lambda path: images.read_image(path / "no.png"),
    "torn picture": lambda path: images.read_image(path / "torn.png"),
    "pictures": lambda path: collection.list_images(path / "none"),
    "few pictures": lambda path: collection.list_images(path),
    "pairs": lambda path: collection.read_pairs(path / "pairs.txt", ["a"]),
    "scene": lambda path: scene.Scene.load(path / "scene"),
    "features": lambda path: Features.load(path / "no.npz"),
    "torn features": lambda path: Features.load(path / "torn.npz"),
    "store": lambda path: store.Store(path / "torn.png" / "store"),
    "another store": lambda path: store.Store(path / "old"),
    "intrinsics": lambda path: given.intrinsics(str(path / "torn.json"), {}, {}),
    "config": lambda path: m3r.MASt3RRuntimeConfig.from_yaml(path / "none.yaml"),
}


@pytest.mark.parametrize("what", CALLS)
def test_errors_name_the_path(what: str, tmp_path: Path) -> None:
    r"""A folder ``pi\ctures``: a name of its own on Unix, two folders on Windows."""
    folder = tmp_path / "pi\\ctures"
    (folder / "old").mkdir(parents=True)
    (folder / "old" / "store.json").write_text('{"schema": 99}')
    for name in ("torn.safetensors", "torn.png", "torn.npz", "torn.json"):
        (folder / name).write_bytes(b"\x09torn")
    (folder / "pairs.txt").write_text("x y z\n")
    with pytest.raises(errors.Mast3rError) as caught:
        CALLS[what](folder)
    assert "pi\\ctures" in str(caught.value) and "pi\\\\ctures" not in str(caught.value)


def test_the_command_line_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "pi\\ctures"
    folder.mkdir(parents=True)
    np.savez(folder / "a.npz", x=np.zeros(3))
    for command in (["view", str(folder / "a.npz")], ["batch", str(folder)], ["store", str(folder)]):
        assert main(command) == 1
        said = capsys.readouterr().err
        assert "pi\\ctures" in said and "pi\\\\ctures" not in said
