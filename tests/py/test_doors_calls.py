# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Every public call that takes pictures, with hostile files among them: it works, or says why it does not."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hostile_pictures import BAD, BOMBS, HEIC, MOV, good, hostile
from test_hostile import Table, called, parameters_of

from mast3r_runtime import collection, distributed, scene
from mast3r_runtime.errors import ImageError, Mast3rError
from mast3r_runtime.store import Store

# Names of arguments that are pictures, and of those that are several.
ONE = {"source", "img", "img1", "img2", "image", "image_1", "image_2", "image1", "image2"}
SEVERAL = {"images", "pictures"}
# Calls that take folders or lists and go on without what cannot be read.
GO_ON = {"Engine.infer_views", "reconstruct", "run_pairs"}


def of_pictures(parameter: inspect.Parameter) -> bool:
    """Whether an argument is a picture or several: by its type, or by its name where that may be a path."""
    text = str(parameter.annotation)
    paths = any(word in text for word in ("PathLike", "Paths", "ImagePath"))
    return "ImageLike" in text or (parameter.name in (ONE | SEVERAL) - {"source"} and paths)


def takes_pictures() -> dict[str, list[str]]:
    """The arguments of public calls that are pictures, or lists of them, by the name of the call."""
    found = {}
    for name, function in called().items():
        own = [p.name for p in parameters_of(name, function) if of_pictures(p)]
        own += ["path"] if name == "exif_focal" else []
        if own:
            found[name] = own
    return found


def test_what_takes_pictures_is_found() -> None:
    found = takes_pictures()
    for name in ("read_image", "Engine.infer_gpu", "Engine.infer_views", "retrieve", "run_pairs", "reconstruct", "infer_pairs",
                 "Scene.localize", "write_html", "Engine.encode_retrieval"):  # fmt: skip
        assert name in found, name
    assert set(found) >= GO_ON


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, micro: Path, head: Path, codebook: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("doors")
        patch.chdir(folder)
        patch.setenv("MAST3R_CACHE_DIR", str(folder / "cache"))
        right = Table(folder, micro, head, codebook)
        yield right
        right.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files")
    said = hostile(folder)
    usable = {"esc\x1b[31m.jpg", "line\nbreak.jpg", "no_suffix", "thin.png"}
    return [folder / name for name in said if name not in usable] + [folder / "missing.jpg"]


def test_every_call_with_pictures(table: Table, files: list[Path]) -> None:
    """Typed errors that name the file, no wait, whatever the file is."""
    functions = called()
    for name, own in takes_pictures().items():
        function = functions[name]
        right, lacking = table.arguments(name, parameters_of(name, function))
        assert not lacking, name
        for argument in own:
            if argument not in right and not required(function, argument):
                continue
            for path in files if name in ("read_image", "exif_focal") else some(files, name):
                started = time.monotonic()
                try:
                    run(table, name, function, {**right, argument: value(argument, right, path)})
                except Mast3rError as error:
                    assert name not in GO_ON, (name, path, error)
                    assert isinstance(error, ImageError) and path.stem in str(error), (
                        name,
                        argument,
                        path,
                        repr(error),
                    )
                else:
                    assert name in GO_ON or ignores(name, argument), (name, argument, path)
                assert time.monotonic() - started < 30, (name, path)


def required(function: Callable[..., Any], argument: str) -> bool:
    own = inspect.signature(function).parameters.get(argument)
    return own is not None and own.default is own.empty


def some(files: list[Path], name: str) -> list[Path]:
    """Three of them, others for each call: all of them with all calls would take minutes."""
    start = sum(map(ord, name)) % len(files)
    return [files[(start + 5 * k) % len(files)] for k in range(3)]


def value(argument: str, right: dict[str, Any], path: Path) -> Any:
    if argument in ONE or argument == "path":
        return path
    if isinstance(right.get(argument), dict):
        return {**right[argument], "bad": path}
    if argument == "pairs":
        return [*right[argument], (right[argument][0][0], path)]
    usual = list(right.get(argument) or [])
    return [*usual, path]


def ignores(name: str, argument: str) -> bool:
    """Pictures that some calls need not look at."""
    return name == "exif_focal" or (argument == "images" and name.endswith((".match", "write_html")))


def run(table: Table, name: str, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    if name in ("run_pairs", "infer_pairs"):
        arguments["pairs"] = [(0, len(arguments["images"]) - 1), (0, 1)]
    if name == "reconstruct":
        arguments["store"] = table.folder / "reconstructed"
        with pytest.raises(
            scene.__dict__["reconstruct"].__globals__["SceneError"]
        ) as caught:  # noise is no scene
            function(**arguments)
        report = caught.value.report
        assert (
            report
            and [p["status"] for p in report["pictures"].values()].count("unreadable")
            + len(report["left_out"])
            == 1
        )
        return
    result = function(*table.owner(name, function), **arguments)
    if inspect.isgenerator(result):
        for _ in result:
            pass
    if name == "run_pairs":
        assert [len(f.pair) for f in result.failed] == [2] and result.done == 1
    if name.endswith("infer_views"):
        assert [p.status for p in result.pictures.values()].count("unreadable") == 1


def test_a_list_without_what_cannot_be_read(table: Table, tmp_path: Path) -> None:
    """``on_error`` is told each; what is left is used."""
    paths = good(tmp_path)
    hostile(tmp_path)
    listed = collection.list_images(tmp_path)
    engine, told = table.objects["Engine"], []
    found = collection.retrieve(
        engine, listed, graph="complete", on_error=lambda i, error: told.append((i, error))
    )
    kept = [listed[i].name for i in found.kept]
    assert {p.name for p in paths} <= set(kept) and len(told) + len(kept) == len(listed)
    assert all(isinstance(error, ImageError) and error.file == str(listed[i]) for i, error in told)
    told.clear()
    pairs = [(i, i + 1) for i in range(len(listed) - 1)]
    done = list(
        collection.infer_pairs(engine, listed, pairs, on_error=lambda i, error: told.append((i, error)))
    )
    assert done and len({i for i, _ in told}) == len(told) >= len(BAD) - 4
    report = distributed.run_pairs(
        listed, pairs, store=tmp_path / "store", model=table.by_name["model"], resolution=64
    )
    assert report.done == len(done) and report.done + len(report.failed) == len(pairs)
    store = Store(tmp_path / "store")
    assert len(list(store.keys("features", ".safetensors"))) == len(kept) - 1  # two of equal bytes


@pytest.mark.parametrize(
    "data", [HEIC, MOV, b"", b"%!PS-Adobe-3.0 EPSF-3.0", *(make() for make in BOMBS.values())]
)
def test_bytes_and_file_objects(data: bytes, tmp_path: Path) -> None:
    from io import BytesIO

    from mast3r_runtime import read_image

    for source in (data, bytearray(data), BytesIO(data)):
        with pytest.raises(ImageError):
            read_image(source)  # type: ignore[arg-type]
    if os.name == "posix":
        read, write = os.pipe()
        os.write(write, data[:1000])
        os.close(write)
        with os.fdopen(read, "rb") as pipe, pytest.raises(ImageError):
            read_image(pipe)
