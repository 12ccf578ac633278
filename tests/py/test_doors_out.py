# SPDX-License-Identifier: Apache-2.0
"""The door out, held shut: nothing outside ``_files`` writes, renames or removes files by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "python" / "mast3r_runtime"

CALLS = {
    "unlink", "rename", "rmtree", "symlink_to", "hardlink_to", "symlink", "link", "write_text", "write_bytes",
    "rmdir", "removedirs", "remove", "touch", "copyfile", "copy", "copy2", "copytree", "move", "truncate",
    "ftruncate", "renames", "chmod", "extractall", "extract", "tofile", "savetxt", "save_file", "mkfifo",
}  # fmt: skip
MODULES = {"os", "shutil", "np"}  # whose functions of these names write; elsewhere such a word is a method
WORDS = {"copy", "remove", "move", "link", "extract", "truncate"}  # which are methods of other things too

# Who writes by itself, and why it may.
EXCEPTIONS = {
    ("_store/places.py", "*"): "a store writes and removes under a key's name, which nobody else has",
    ("_store/packs.py", "packed"): "in memory",
    ("_checkpoints/fetch.py", "*"): "a download goes on in its own .part file, and is renamed",
    ("_commands/synthetic.py", "_write"): "a model of made-up weights in a temporary folder or of a test",
    ("_pairs/parts.py", "*"): "files in a temporary folder",
    ("_output/export.py", "write_npz"): "into a file that the caller opened",
    ("_scene/files.py", "_write_colmap"): "write_text of colmap_files, which is no file's",
}


def names_of_temporaries(tree: ast.AST) -> dict[int, set[str]]:
    """Names that ``with replacing(...) as NAME`` gives, by the line of each statement inside."""
    out: dict[int, set[str]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.With):
            continue
        given = {
            item.optional_vars.id
            for item in node.items
            if isinstance(item.context_expr, ast.Call)
            and getattr(item.context_expr.func, "id", "") == "replacing"
            and isinstance(item.optional_vars, ast.Name)
        }
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            out.setdefault(line, set()).update(given)
    return out


def writes(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, function and call of everything in a module that writes by itself."""
    tree = ast.parse(text)
    temporaries = names_of_temporaries(tree)
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        call = written_by(node, temporaries.get(node.lineno, set()))
        if call:
            around = [f for f in functions if f.lineno <= node.lineno <= (f.end_lineno or 0)]
            name = max(around, key=lambda f: f.lineno).name if around else ""
            yield node.lineno, name, call


def written_by(node: ast.Call, temporaries: set[str]) -> str:
    """What a call writes with; empty where it writes nothing, or into a temporary name of ours."""
    arguments = [*node.args, *(k.value for k in node.keywords)]
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    first = owner if isinstance(owner, ast.Name) and owner.id not in MODULES else None
    touched = {a.id for a in [*node.args, first] if isinstance(a, ast.Name)}
    if touched & temporaries:
        return ""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    module = owner.id if isinstance(owner, ast.Name) else ""
    if name == "open":
        modes = [a.value for a in arguments if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if module == "os" and not any("devnull" in ast.dump(a) for a in arguments):
            return "os.open"
        return (
            "open" if any(set(mode) <= set("rwxabt+") and set(mode) & set("wxa+") for mode in modes) else ""
        )
    if name == "replace":  # of a path: one argument; of a text: two
        return "replace" if module == "os" or (len(arguments) == 1 and not node.keywords) else ""
    if name in ("ZipFile", "TarFile") and any(getattr(a, "value", None) == "w" for a in arguments):
        return name
    if name in ("save", "savez", "savez_compressed") and module == "np":
        return (
            "" if any("file" in ast.dump(a) or "out" in ast.dump(a) for a in node.args[:1]) else f"np.{name}"
        )
    if name in WORDS and module not in MODULES:
        return ""
    return name if name in CALLS else ""


def test_nothing_writes_beside_the_door() -> None:
    found, used = [], set()
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if file.startswith(("_files/", "_gopy/")):
            continue
        for line, function, call in writes(path.read_text(encoding="utf-8")):
            keys = {(file, function), (file, "*")} & set(EXCEPTIONS)
            used |= keys
            if not keys:
                found.append(f"{file}:{line}: {function}: {call}")
    assert not found, "write through _files: " + "; ".join(found)
    assert used == set(EXCEPTIONS), f"no longer needed: {set(EXCEPTIONS) - used}"


@pytest.mark.parametrize(
    "code",
    [
        "a.unlink(missing_ok=True)", "path.rename(other)", "path.replace(other)", "os.replace(a, b)",
        "shutil.rmtree(folder)", "link.symlink_to(path)", "(folder / 'x').write_text('')", "p.write_bytes(b)",
        "open(path, 'w')", "open(path, mode='ab')", "path.open('wb')", "os.remove(p)",
        "shutil.copyfile(a, b)",
        "os.open(path, 3)", "np.save(path, a)", "zipfile.ZipFile(path, 'w')", "os.link(a, b)", "p.rmdir()",
        "with replacing(p) as temporary:\n    other.write_text('')",
    ],
)  # fmt: skip
def test_a_planted_write_is_seen(code: str) -> None:
    assert list(writes(f"def f():\n    {code}\n" if "\n" not in code else code))


@pytest.mark.parametrize(
    "code",
    [
        "text.replace('a', 'b')", "replace(scene, name=1)", "open(path)", "open(path, 'rb')", "a.copy()",
        "with replacing(p) as temporary:\n    temporary.write_text('')",
        "with replacing(p) as t, open(t, 'wb') as file:\n    np.savez(file, a)", "names.remove(x)",
    ],
)  # fmt: skip
def test_what_writes_nothing_is_not(code: str) -> None:
    assert not list(writes(code))


def test_the_walk_reaches_the_package() -> None:
    files = [p for p in PACKAGE.rglob("*.py") if Path(p).parent.name == "_commands"]
    assert len(files) > 10
