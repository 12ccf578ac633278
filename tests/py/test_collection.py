# SPDX-License-Identifier: Apache-2.0
"""Folders of pictures: pairs found, every picture encoded once, and their verbs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import assert_same, noise
from PIL import Image

from mast3r_runtime import cli, collection, errors
from mast3r_runtime.backends._cpu import CPUEngine

QUIET = ["--backend", "cpu", "--threads", "2", "--precision", "fp32", "--resolution", "64"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three unlike pictures and a copy of the first, one name with a space, and a text."""
    made = np.random.default_rng(5)
    out = tmp_path_factory.mktemp("pictures")
    first = noise(made, 48, 64)
    for name, pixels in (
        ("a.png", first), ("b two.png", noise(made, 48, 64)),
        ("c.png", noise(made, 64, 48)), ("d.png", first),
    ):  # fmt: skip
        Image.fromarray(pixels).save(out / name)
    (out / "notes.txt").write_text("no picture")
    return out


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    status = cli.main([*map(str, arguments), "--json"])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return json.loads(captured.out)


def test_retrieve(
    folder: Path, micro: Path, head: Path, codebook: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "retrieve",
        folder,
        "--model",
        micro,
        "--retrieval",
        head,
        *QUIET,
        "--graph",
        "retrieval-1-2",
    ]
    plain = run(capsys, *arguments, "-o", tmp_path / "plain")
    assert plain["method"] == "cosine of global vectors" and plain["codebook"] is None
    asmk = run(capsys, *arguments, "--codebook", codebook, "--nfeat", 6, "-o", tmp_path / "asmk")
    assert asmk["method"] == "ASMK" and asmk["codebook"] == str(codebook)
    for values, out in ((plain, "plain"), (asmk, "asmk")):
        assert values["images"] == ["a.png", "b two.png", "c.png", "d.png"]
        pairs = {frozenset((p["first"], p["second"])) for p in values["pairs"]}
        assert frozenset(("a.png", "d.png")) in pairs  # the copy is found
        best = max(values["pairs"], key=lambda p: p["score"])
        assert {best["first"], best["second"]} == {"a.png", "d.png"}
        lines = (tmp_path / out / "pairs.txt").read_text().splitlines()
        assert len(lines) == len(values["pairs"])
        assert json.loads((tmp_path / out / "pairs.json").read_text())["pairs"] == values["pairs"]
        with Image.open(tmp_path / out / "similarity.png") as picture:
            assert picture.width > 200 and np.asarray(picture).std() > 1
    # the list goes straight back in
    batch = run(
        capsys, "batch", folder, "--model", micro, *QUIET,
        "--pairs", tmp_path / "asmk" / "pairs.txt", "-o", tmp_path / "run",
    )  # fmt: skip
    assert [(p["first"], p["second"]) for p in batch["pairs"]] == [
        (p["first"], p["second"]) for p in asmk["pairs"]
    ]


def test_head_beside_the_model_is_found(
    folder: Path, micro: Path, head: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "unified.safetensors").write_bytes(micro.read_bytes())
    (tmp_path / "retrieval.safetensors").write_bytes(head.read_bytes())
    values = run(capsys, "retrieve", folder, "--model", tmp_path, *QUIET)
    assert values["retrieval"] == str(tmp_path / "retrieval.safetensors") and values["pairs"]


def test_retrieve_says_what_it_needs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["retrieve", str(folder), *QUIET]) == 1
    text = capsys.readouterr().err
    assert "retrieval head" in text and "--codebook" in text and "mast3r download" in text


def test_batch(folder: Path, micro: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = run(capsys, "batch", folder, "--model", micro, *QUIET, "-o", tmp_path)
    assert values["encoded"] == 4 and len(values["pairs"]) == 3
    with CPUEngine("auto", 64, "fp32", 2) as engine:
        engine.load(micro)
        want = engine.infer_gpu(folder / "b two.png", folder / "c.png").numpy()
    with np.load(tmp_path / "b two.png__c.png.npz") as got:
        np.testing.assert_array_equal(got["pts3d_2"], want.pts3d_2)
        assert len(got["match_idx_1"]) == values["pairs"][1]["matches"]


def test_each_picture_is_read_and_encoded_once(
    engine: CPUEngine, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [noise(rng, 64, 96) for _ in range(4)]
    encoded, alive = [], []
    encode = engine.encode
    monkeypatch.setattr(engine, "encode", lambda image, **k: (encoded.append(image), encode(image, **k))[1])
    pairs = [(0, 1), (1, 2), (2, 3), (0, 3)]
    for i, j, result in collection.infer_pairs(engine, images, pairs):
        alive.append((i, j))
        assert_same(result, engine.infer_gpu(images[i], images[j]))
    assert alive == pairs and len(encoded) == 4
    with pytest.raises(errors.ArgumentError, match="below 4"):
        next(collection.infer_pairs(engine, images, [(0, 4)]))


def test_folders_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["batch", str(tmp_path / "none"), "-o", str(tmp_path)]) == 1
    assert "no such file or folder" in capsys.readouterr().err
    assert cli.main(["batch", str(tmp_path), "-o", str(tmp_path)]) == 1
    assert "at least 2" in capsys.readouterr().err


def test_pairs_of_other_pictures(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pairs.txt").write_text("a.png z.png 0.5\n")
    status = cli.main(
        ["batch", str(folder), "--pairs", str(tmp_path / "pairs.txt"), "-o", str(tmp_path / "o"), *QUIET]
    )
    assert status == 1 and "line 1" in capsys.readouterr().err


def test_export(micro: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "m.onnx"
    sizes = run(capsys, "export", target, "--model", micro, *QUIET, "--height", 48, "--width", 64, "--half")
    assert sizes == {str(p): p.stat().st_size for p in (target, tmp_path / "m.onnx.data")}
