# SPDX-License-Identifier: Apache-2.0
"""The command line, run in this process: files, texts, exit status."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
import trimesh
from conftest import ROOT
from PIL import Image

from mast3r_runtime import cli, export
from mast3r_runtime._checkpoints import places
from mast3r_runtime._commands import demo, explain, selfcheck
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.images import read_image
from mast3r_runtime.results import InferenceResult


@pytest.fixture
def pair(tmp_path: Path, rng: np.random.Generator) -> list[str]:
    """Two picture files, the second an upright one of another size."""
    paths = []
    for name, size in (("left one.png", (96, 64)), ("right.jpg", (60, 90))):
        coarse = rng.integers(0, 256, (6, 8, 3), np.uint8)
        Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(tmp_path / name)
        paths.append(str(tmp_path / name))
    return paths


def test_infer(pair: list[str], micro: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "folder"
    options = ["--model", str(micro), "--resolution", "96", "--json", "--keep", "0.5"]
    assert cli.main(["infer", *pair, "-o", str(out), *options]) == 0
    printed = capsys.readouterr()
    values = json.loads(printed.out)
    assert (
        printed.err == "" and values["height_1"] == 64 and values["engine"].startswith("mast3r_micro on cpu")
    )
    assert {path.name for path in out.iterdir()} == {*values["files"], "report.json"}
    assert set(values["files"]) == {*export.RESULT_FILES, "view.html"}
    with np.load(out / "result.npz") as archive:
        stored = {name: archive[name] for name in archive.files}
    with CPUEngine("auto", 96, "auto", 0) as engine:
        engine.load(micro)
        want = engine.infer_gpu(*pair).numpy()
        matches = engine.match(want, top_k=None, confidence_threshold=0.0)
    for name in ("pts3d_1", "conf_2", "desc_1", "desc_conf_2"):
        np.testing.assert_array_equal(stored[name], getattr(want, name))
    assert stored["transform_2"].tolist() == [90, 60, 96, 64, 0, 0, 96, 64]
    np.testing.assert_array_equal(stored["match_idx_2"], matches.idx_2)
    assert values["matches"] == len(matches)
    assert values["line"] == explain.line(want, matches)
    said = r"overlap (YES|NO|UNSURE), \d+ consistent, \d+ refined; (camera 2|no pose)"
    assert re.match(said, values["line"])
    with Image.open(out / "matches.png") as picture:
        drawn = explain.drawn(*(read_image(path) for path in pair), matches, False, values["line"])
        assert picture.tobytes() == drawn.tobytes()
    check_points(out, want)
    for name in ("depth", "confidence", "matches", "cloud"):
        with Image.open(out / f"{name}.png") as picture:
            assert picture.mode == "RGB" and len(picture.getcolors(1 << 24)) > 8, name


def check_points(out: Path, result: InferenceResult) -> None:
    """Both clouds hold the most confident half, coloured; GLB is turned to glTF's axes."""
    want = np.concatenate(
        [
            points.reshape(-1, 3)[conf.reshape(-1) >= np.quantile(conf, 0.5)]
            for points, conf in ((result.pts3d_1, result.conf_1), (result.pts3d_2, result.conf_2))
        ]
    )
    ply = trimesh.load(out / "points.ply")
    np.testing.assert_array_equal(np.asarray(ply.vertices, np.float32), want)
    assert len(np.unique(ply.colors, axis=0)) > 50
    (glb,) = trimesh.load(out / "points.glb").geometry.values()
    np.testing.assert_array_equal(np.asarray(glb.vertices, np.float32), want * np.float32([1, -1, -1]))
    srgb = ply.colors[:, :3] / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    np.testing.assert_allclose(glb.colors[:, :3], linear * 255, atol=0.51)


def test_match(pair: list[str], micro: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "matches.png"
    assert cli.main(["match", *pair, "-o", str(out), "--model", str(micro), "--resolution", "96"]) == 0
    printed = capsys.readouterr().out
    assert "matches" in printed and str(out) in printed
    with Image.open(out) as picture:
        # both pictures at their own size, and lines of text
        assert picture.width == 96 + 8 + 60 and picture.height >= 90 + 24


def test_pose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pictures = Path(cli.__file__).parent / "pictures"
    room = [str(pictures / f"room_{i}.png") for i in (1, 2)]
    drawing = tmp_path / "pose.png"
    small = ["--resolution", "256", "--json"]
    known = ["--intrinsics", "430,430,255.5,191.5", "-o", str(drawing), "--epipolar"]
    assert cli.main(["pose", *room, *small, *known]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["overlap"] == "YES" and found["intrinsics_1"][0][0] == 430 and found["inliers"] > 500
    assert np.isclose(np.linalg.det(np.array(found["pose"])[:3, :3]), 1) and drawing.stat().st_size > 10000
    assert cli.main(["pose", *room, "--resolution", "256", "--focal", "430"]) == 0
    assert "focal length" in capsys.readouterr().out
    noise = tmp_path / "noise.png"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (96, 128, 3), np.uint8)).save(noise)
    assert cli.main(["pose", room[0], str(noise), *small]) == 3
    assert json.loads(capsys.readouterr().out)["pose"] is None
    assert cli.main(["pose", *room, "--intrinsics", "1,2"]) == 1
    assert "want FX,FY,CX,CY" in capsys.readouterr().err


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info"]) == 0
    assert "mast3r_small" in capsys.readouterr().out
    assert cli.main(["info", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["variant"] == "mast3r_small" and values["metadata"]["license"] == "Apache-2.0"


def test_benchmark(micro: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model", str(micro), "--resolution", "96", "--iterations", "3", "--warmup", "1", "--json"]
    assert cli.main(["benchmark", *options]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["width"] == 96 and 0 < values["min_ms"] <= values["p50_ms"] <= values["max_ms"]
    assert cli.main(["benchmark", "--iterations", "0"]) == 1


CPU_CHECKS = [
    *(f"reference {name}_{view}" for name in ("pts3d", "conf", "desc", "desc_conf") for view in (1, 2)),
    *("1 and 2 threads", "results stay", "preprocessing", "matching", "model in the wheel"),
]


def test_selfcheck(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["selfcheck"]) == 0
    text = capsys.readouterr().out
    assert set(CPU_CHECKS) <= set(re.findall(r"^ok    (.+?)  ", text, re.M)) and "FAIL" not in text
    assert cli.main(["selfcheck", "--json"]) == 0
    assert all(check["ok"] for check in json.loads(capsys.readouterr().out))


def test_selfcheck_notices(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A result off by one part in ten thousand is a failed check."""
    right = selfcheck._infer

    def wrong(*arguments: object, **options: object) -> InferenceResult:
        result = right(*arguments, **options)  # type: ignore[arg-type]
        result.pts3d_1[:] *= 1 + 1e-4
        return result

    monkeypatch.setattr(selfcheck, "_infer", wrong)
    assert cli.main(["selfcheck"]) == 1
    text = capsys.readouterr().out
    assert "FAIL  reference pts3d_1" in text and "ok    reference conf_1" in text and text.count("FAIL") == 1


def test_selfcheck_reports_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(places, "bundled_model", lambda *_: tmp_path / "gone.safetensors")
    assert cli.main(["selfcheck"]) == 1
    assert "FAIL  ModelNotFoundError" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["infer", "{a}", "{missing}", "-o", "{out}"], "nowhere.png"),
        (["infer", "{a}", "{text}", "-o", "{out}"], "text.jpg"),
        (["infer", "{a}", "{a}", "-o", "{a}"], "left one.png"),
        (["infer", "{a}", "{a}", "-o", "{out}", "--model", "{missing}"], "nowhere.png"),
        (["infer", "{a}", "{a}", "-o", "{out}", "--model", "{text}"], "text.jpg"),
        (["infer", "{a}", "{a}", "-o", "{out}", "--keep", "0", "--resolution", "96"], "--keep 0"),
        (["infer", "{a}", "{a}", "-o", "{out}", "--threads", "-4"], "-4"),
        (["info", "--backend", "metal"], "Metal"),
    ],
)
def test_failures(
    arguments: list[str], words: str, pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.jpg").write_text("no picture, no model")
    names = {
        "a": pair[0],
        "missing": tmp_path / "nowhere.png",
        "text": tmp_path / "text.jpg",
        "out": tmp_path / "o",
    }
    assert cli.main([argument.format(**names) for argument in arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and words in printed.err
    assert printed.err.startswith("mast3r: ") and printed.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [[], ["fly"], ["infer", "a.png"], ["benchmark", "--iterations", "many"]]
)
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2 and "usage:" in capsys.readouterr().err


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On the pairs in the package alone, as where scikit-image is missing."""
    monkeypatch.setattr(demo, "motorcycle", lambda: None)
    assert cli.main(["demo", "-o", str(tmp_path), "--resolution", "256", "--json"]) == 0
    printed = capsys.readouterr()
    scores = json.loads(printed.out)
    assert "motorcycle: left out" in printed.err
    if importlib.util.find_spec("pycolmap") is None:
        assert "Scene: left out" in printed.err and "mast3r-runtime[scene]" in printed.err
    else:
        scene = scores.pop("scene")
        assert scene["placed"] == scene["pictures"] == 8
        assert scene["position"] < 0.005 and abs(scene["focal"]) < 0.005 and scene["dense"] < 0.03
        assert (tmp_path / "scene.html").is_file() and (tmp_path / "scene" / "sparse" / "0").is_dir()
    assert list(scores) == ["room", "coffee"]
    for name, score in scores.items():
        assert {path.name for path in (tmp_path / name).iterdir()} == {
            *export.RESULT_FILES,
            "certainty.png",
            "sheet.png",
            "score.json",
        }
        assert score["near"] > 3 * score["same_pixel"] + 0.2, name
        where = {"room": "rendered room", "coffee": "coffee cup's homography"}[name]
        said = re.search(rf"([\d.]+) % on the {where}", (ROOT / "README.md").read_text("utf-8"))
        assert said and abs(float(said[1]) / 100 - score["near"]) < 0.005, (name, score["near"])
    assert (tmp_path / "overview.png").stat().st_size > 50_000
