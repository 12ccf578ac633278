# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Hostile and unusual pictures, through every command that takes pictures."""

from __future__ import annotations

import io
import json
import shutil
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from hostile_pictures import (
    HEIC,
    MP4,
    encoded,
    ghostscript,
    good,
    hostile,
    pixels,
)
from PIL import Image
from test_hostile import made_scene

from mast3r_runtime import Engine, cli, read_image
from mast3r_runtime._commands.main import _parser
from mast3r_runtime._pictures import header
from mast3r_runtime._scene import known
from mast3r_runtime._store import store as stores
from mast3r_runtime.errors import ArgumentError, ImageError, SceneError, shown
from mast3r_runtime.scene import Scene, reconstruct

# ---- commands --------------------------------------------------------------------------------

ODD_NAMES = ("esc\x1b[31m.jpg", "line\nbreak.jpg")
# What each command takes. A new one fails the test below until it is here.
PAIR, FOLDER, SCENE = ("infer", "match", "pose"), ("reconstruct", "views", "batch", "retrieve"), ("localize",)
NO_PICTURES = {
    "demo": "its own pictures", "view": "a scene or points, of which other tests are hostile", "info": "",
    "selfcheck": "its own pictures", "doctor": "", "benchmark": "made ones", "download": "", "status": "",
    "convert": "a model", "export": "a model", "store": "a store", "profile": "made ones",
}  # fmt: skip


def verbs() -> list[str]:
    (action,) = _parser()._subparsers._group_actions  # type: ignore[union-attr]
    return list(action.choices)  # type: ignore[arg-type]


def test_every_command_is_in_the_table() -> None:
    assert set(verbs()) == {*PAIR, *FOLDER, *SCENE, *NO_PICTURES}


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed; nothing in it that a terminal obeys."""
    both = capsys.readouterr()
    text = both.out + both.err
    assert all(c.isprintable() or c in "\n\t\r" for c in text), [c for c in text if not c.isprintable()]
    assert "Traceback" not in text
    return text


@pytest.fixture
def gs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file into which a Ghostscript writes that it was started."""
    path, started = ghostscript(tmp_path / "bin")
    monkeypatch.setenv("PATH", path)
    return started


def common(micro: Path) -> list[str]:
    return [
        "--model",
        str(micro),
        "--resolution",
        "96",
        "--precision",
        "fp32",
        "--backend",
        "cpu",
        "--threads",
        "2",
    ]


@pytest.mark.parametrize("verb", PAIR)
def test_commands_for_a_pair(
    verb: str, tmp_path: Path, micro: Path, gs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = good(tmp_path / "in", 1)[0]
    said = hostile(tmp_path / "in")
    target = {"infer": ["-o", str(tmp_path / "o")], "match": ["-o", str(tmp_path / "o.png")], "pose": []}[
        verb
    ]
    fine = {*ODD_NAMES, "no_suffix", "thin.png"}  # which a pair can be of
    for name in {**said, "missing.jpg": "no such file"}.keys() - fine:
        for pair in ([one, tmp_path / "in" / name], [tmp_path / "in" / name, one]):
            started = time.monotonic()
            assert cli.main([verb, *map(str, pair), *target, *common(micro)]) == 1, name
            assert time.monotonic() - started < 20, name
            text = printed(capsys)
            assert name.partition(".")[0] in text and said.get(name, "").removeprefix("ffmpeg -i ") in text, (
                name,
                text,
            )
    assert not gs.exists()


def panorama(path: Path) -> Path:
    Image.fromarray(pixels()).save(path, "JPEG", xmp=b'<x GPano:ProjectionType="equirectangular"/>')
    return path


def test_pose_of_panoramas(tmp_path: Path, micro: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = good(tmp_path, 1)[0], panorama(tmp_path / "pano.jpg")
    for pair in ([one, other], [other, one]):
        assert cli.main(["pose", *map(str, pair), *common(micro)]) == 1
        assert "pano.jpg: a panorama (equirectangular)" in printed(capsys)
    assert cli.main(["pose", str(one), str(other), "--intrinsics", "60,60,32,24", *common(micro)]) in (0, 3)


def report_of(verb: str, out: Path, text: str) -> dict[str, str]:
    """The pictures that were not used, and why, as a command's report has them."""
    if verb in ("retrieve", "batch"):
        return dict(json.loads(text[text.index("{") : text.rindex("}") + 1])["left_out"])
    report = json.loads((out / "report.json").read_text())
    if verb == "views":
        return {**report["left_out"], **report["unreadable"]}
    rows = {n: p["reason"] for n, p in report["pictures"].items() if p["status"] == "unreadable"}
    return {**report["left_out"], **rows}


@pytest.mark.parametrize("verb", FOLDER)
def test_commands_for_a_folder(
    verb: str, tmp_path: Path, micro: Path, head: Path, gs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them at once among three that can be read: each is named with its reason, the rest goes on."""
    if verb == "reconstruct":
        pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene)")
    out, folder = tmp_path / "out", tmp_path / "in"
    made = good(folder)
    said = hostile(folder)
    model = (
        ROOT / "internal" / "model" / "da3" / "testdata" / "tiny.safetensors" if verb == "views" else micro
    )
    words = {
        "reconstruct": ["-o", str(out)], "views": ["-o", str(out)], "batch": ["-o", str(out), "--json"],
        "retrieve": ["--retrieval", str(head), "--json"],
    }[verb]  # fmt: skip
    started = time.monotonic()
    status = cli.main([verb, str(folder), *words, *common(model)])
    assert time.monotonic() - started < 120
    text = printed(capsys)
    # noise has nothing in common: no scene, and a report of each picture all the same
    assert status == (0 if verb == "views" else 1), text
    found = report_of(verb, out, text)
    if verb in ("batch", "retrieve"):  # only files of cameras cannot hold these names
        said = {name: why for name, why in said.items() if name not in ODD_NAMES}
    assert set(found) == set(said)
    for name, why in said.items():
        assert why in found[name], (name, found[name])
        assert shown(name) in text or verb in ("reconstruct", "views"), name
    assert not set(found) & {path.name for path in made} and "files left out" in text
    assert not gs.exists()
    if verb == "batch":
        assert {path.name for path in out.glob("*.npz")} >= {"g1.jpg__g2.png.npz", "g2.png__g3.png.npz"}


def test_batch_with_a_store_goes_on(
    tmp_path: Path, micro: Path, gs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, store = tmp_path / "in", tmp_path / "store"
    made = good(folder)
    hostile(folder)
    words = ["--store", str(store), "--graph", "complete", "--workers", "1", "--max-failed", "9999", "--json"]
    assert cli.main(["batch", str(folder), *words, *common(micro)]) == 0
    text = printed(capsys)
    values = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert values["done"] == 10 and len(made) + len(ODD_NAMES) == 5 and not gs.exists()
    assert "phone.HEIC" in values["left_out"]


@pytest.mark.parametrize("verb", FOLDER)
def test_folders_that_hold_nothing(
    verb: str, tmp_path: Path, micro: Path, head: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight HEIC alone, a folder of folders, an empty one, one that is not there."""
    cases = {
        "heic": "mast3r-runtime[heif]",
        "deep": "-r of reconstruct",
        "empty": "want at least",
        "none": "no such",
    }
    (tmp_path / "heic").mkdir()
    (tmp_path / "empty").mkdir()
    for k in range(8):
        (tmp_path / "heic" / f"IMG_{k}.HEIC").write_bytes(HEIC)
    good(tmp_path / "deep" / "a")
    model = (
        ROOT / "internal" / "model" / "da3" / "testdata" / "tiny.safetensors" if verb == "views" else micro
    )
    for name, text in cases.items():
        words = ["--retrieval", str(head)] if verb == "retrieve" else ["-o", str(tmp_path / "out")]
        assert cli.main([verb, str(tmp_path / name), *words, *common(model)]) == 1
        assert text in printed(capsys), name


@pytest.mark.parametrize("verb", SCENE)
def test_commands_for_a_scene_and_a_picture(
    verb: str, tmp_path: Path, micro: Path, gs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene)")
    folder = tmp_path / "in"
    one, two = good(folder, 2)
    shutil.copy(two, folder / "a.png")
    shutil.copy(two, folder / "b.png")
    made_scene(folder).write(tmp_path / "scene", ["report", "npz", "dense"])
    said = hostile(folder)
    panorama(folder / "pano.jpg")
    fine = {*ODD_NAMES, "no_suffix", "thin.png"}
    for name, why in {**said, "pano.jpg": "a panorama", "missing.jpg": "no such file"}.items():
        if name not in fine:
            started = time.monotonic()
            assert cli.main([verb, str(tmp_path / "scene"), str(folder / name), *common(micro)]) == 1, name
            assert time.monotonic() - started < 20, name
            text = printed(capsys)
            assert name.partition(".")[0] in text and why in text, (name, text)
    assert cli.main([verb, str(tmp_path / "scene"), str(one), *common(micro)]) in (0, 3)
    assert not gs.exists()


def test_a_scene_some_of_whose_pictures_are_lost(
    tmp_path: Path, micro: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene)")
    one, two = good(tmp_path / "in", 2)
    for name in ("a.png", "b.png"):
        shutil.copy(two, tmp_path / "in" / name)
    made_scene(tmp_path / "in").write(tmp_path / "scene", ["report", "npz", "dense"])
    words = ["localize", str(tmp_path / "scene"), str(one), *common(micro)]
    (tmp_path / "in" / "a.png").write_bytes(b"torn")
    assert cli.main(words) in (0, 3)
    assert "1 pictures of the scene left out: a.png (cannot be read: no picture" in caplog.text
    (tmp_path / "in" / "b.png").unlink()
    assert cli.main(words) == 1
    assert "no picture of the scene can be read any more, such as a.png" in printed(capsys)


# ---- pictures that go or change while a run is on -----------------------------------------------


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-700])


def replace(path: Path) -> None:
    Image.fromarray(np.flipud(read_image(path))).save(path)


LOSSES = {"gone": Path.unlink, "cut": truncate, "replaced": replace}


@pytest.fixture(scope="module")
def wheel() -> Iterator[Engine]:
    with Engine("mast3r_tiny", resolution=192, precision="fp32", num_threads=2, backend="cpu") as engine:
        engine.load()
        yield engine


def room(folder: Path, count: int = 5) -> list[Path]:
    folder.mkdir()
    return [Path(shutil.copy(path, folder)) for path in known.paths()[:count]]


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("when", ["after the headers", "after the network"])
def test_a_picture_that_is_lost_is_unreadable(
    how: str, when: str, tmp_path: Path, wheel: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is placed; nothing of another picture is kept under the hash of the lost one."""
    pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene)")
    *_, victim = paths = room(tmp_path / "in")
    sha = header.read("v", victim).sha256
    shutil.copy(victim, tmp_path / "in" / "zz.jpg")  # a copy that stays: nothing was looked at in it
    count = 0

    def tick(step: str, done: int, total: int) -> None:
        nonlocal count
        if step == ("pairs" if when == "after the headers" else "verify"):
            count += 1
            if count == 1:
                LOSSES[how](victim)

    # the first pair is one of the others
    tried = list(combinations([p.name for p in paths], 2))
    store = stores.Store(tmp_path / "store")
    found = reconstruct(wheel, tmp_path / "in", store=store, progress=tick, pairs=tried)
    assert count and [p.name for p in found.placed] == [p.name for p in paths[:4]]
    lost = found.pictures[victim.name]
    assert lost.status == "unreadable" and lost.reason.startswith("cannot be read: ")
    assert ("changed while" in lost.reason) == (how != "gone")
    assert found.report["pictures"][victim.name]["status"] == "unreadable"
    assert found.pictures["zz.jpg"].reason == f"the same file as {victim.name}: {lost.reason}"
    kept = [key for key in store.keys("features", ".safetensors") if key.startswith(sha[:24])]
    assert len(kept) == (when == "after the network")


def test_nothing_is_kept_under_the_hash_of_other_bytes(tmp_path: Path, wheel: Engine) -> None:
    """A picture that another takes the place of between its hash and its encoding, everywhere."""
    from mast3r_runtime._pairs.looks import Looks
    from mast3r_runtime._pairs.rule import Rule
    from mast3r_runtime._pairs.task import Picture
    from mast3r_runtime._pairs.worker import PairWorker

    path = room(tmp_path / "in", 1)[0]
    store = stores.Store(tmp_path / "store")
    picture = Picture(str(path), stores.file_hash(path))
    worker = PairWorker(wheel, store, Rule.of(wheel, 8, "float32"))
    replace(path)
    with pytest.raises(ImageError, match="changed while it was worked on"):
        worker.features(picture)
    assert not list(store.keys("features", ".safetensors"))
    looks = Looks.__new__(Looks)
    looks._hashes, looks.store, looks.head, looks.rule, looks.encoded = (
        {str(path): "0" * 64},
        store,
        "h",
        [],
        0,
    )
    with pytest.raises(ImageError, match="changed while it was worked on"):
        looks.of(path)
    assert not list(store.keys("retrieval"))


def test_views_of_pictures_of_which_some_cannot_be_read(tmp_path: Path) -> None:
    one, two, three = good(tmp_path)
    with Engine("auto", 112, "fp32", 2, "cpu") as engine:
        engine.load(ROOT / "internal" / "model" / "da3" / "testdata" / "tiny.safetensors")
        cut = tmp_path / "cut.png"
        cut.write_bytes(two.read_bytes()[:200])
        poses = np.stack([np.eye(4)] * 4)
        poses[:, 0, 3] = range(4)
        k = np.stack([np.array([[60.0, 0, 32], [0, 60, 24], [0, 0, 1]])] * 4)
        for scene in (
            engine.infer_views([one, cut, two, three]),
            engine.infer_views([one, cut, two, three], poses=poses, intrinsics=k),
            reconstruct(engine, [one, cut, two, three]),
        ):
            assert [p.status for p in scene.pictures.values()] == ["placed", "unreadable", "placed", "placed"]
            assert list(scene.pictures) == ["g1.jpg", "cut.png", "g2.png", "g3.png"]
            assert scene.components[0].model.pictures.tolist() == [0, 2, 3]
            assert list(scene.report["unreadable"]) == ["cut.png"]
        for wrong in ([cut], [tmp_path / "none.png"], [cut, cut]):
            with pytest.raises(ImageError):
                engine.infer_views(wrong)
        with pytest.raises(ArgumentError, match="masks|scale|pairs"):
            reconstruct(engine, [one, two], scale="none")


# ---- masks to the end ------------------------------------------------------------------------


def test_masked_pixels_are_in_no_cloud(
    tmp_path: Path, wheel: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alpha, palettes and labels alike, from files and from arrays; the clouds too."""
    pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene)")
    paths = room(tmp_path / "in", 4)
    left = np.zeros((384, 512), bool)
    left[:, :300] = True
    (tmp_path / "masks").mkdir()
    makes = ("alpha over black", "palette of labels", "16 bits of labels", "labels")
    for path, kind in zip(paths, makes, strict=True):
        small = Image.open(io.BytesIO(mask_bytes(kind, left)))
        small.save(tmp_path / "masks" / f"{path.stem}.mask.png")
    common_words = ["--resolution", "192", "--precision", "fp32", "--backend", "cpu", "--threads", "2"]
    out = tmp_path / "out"
    words = ["--model", "mast3r_tiny", "--store", str(tmp_path / "store"), "--masks", str(tmp_path / "masks")]
    assert cli.main(["reconstruct", str(tmp_path / "in"), "-o", str(out), *words, *common_words]) == 0
    capsys.readouterr()
    by_file = Scene.load(out)
    by_array = reconstruct(
        wheel, tmp_path / "in", store=tmp_path / "store", masks={path.stem: left for path in paths}
    )
    for scene in (by_file, by_array):
        assert len(scene.placed) == 4
        for p in scene.placed:
            assert p.depth is not None and p.depth.keep.any()
            rows, columns = np.nonzero(p.depth.keep)
            xy = p.depth.transform.to_original(np.stack([columns, rows], 1))
            assert xy[:, 0].max() < 300
        model = scene.components[0].model
        assert model.seen_at[:, 0].max() < 300.5
    with pytest.raises(SceneError, match="masked") as caught:
        reconstruct(
            wheel, tmp_path / "in", store=tmp_path / "store", masks={p.name: left & False for p in paths}
        )
    assert "100% of its matches are masked" in str(caught.value)


def mask_bytes(kind: str, use: np.ndarray) -> bytes:
    grey = Image.fromarray(use.astype(np.uint8) * 9)
    if kind == "alpha over black":
        grey = Image.merge("LA", (Image.new("L", grey.size), Image.fromarray(use.astype(np.uint8) * 255)))
    elif kind == "palette of labels":
        grey = Image.new("P", grey.size)
        grey.putdata(use.astype(int).ravel().tolist())
        grey.putpalette([0, 0, 0, 0, 255, 0, 255, 0, 0])
    elif kind == "16 bits of labels":
        grey = Image.fromarray(use.astype(np.uint16))
    return encoded("PNG", grey)


@pytest.mark.parametrize("verb", FOLDER)
def test_a_picture_that_the_network_cannot_take(
    verb: str, tmp_path: Path, micro: Path, head: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A strip is read like any other, and only the network knows that less than a patch of it is left."""
    if verb == "reconstruct":
        pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene)")
    folder, out = tmp_path / "in", tmp_path / "out"
    good(folder)
    Image.fromarray(pixels(5, 40, 900)).save(folder / "a_strip.png")  # the first of all pairs
    model = (
        ROOT / "internal" / "model" / "da3" / "testdata" / "tiny.safetensors" if verb == "views" else micro
    )
    words = ["-o", str(out)] if verb in ("reconstruct", "views") else ["-o", str(out), "--json"]
    words += ["--retrieval", str(head)] if verb == "retrieve" else []
    assert cli.main([verb, str(folder), *words, *common(model)]) == (0 if verb == "views" else 1)
    text = printed(capsys)
    found = report_of(verb, out, text)
    assert list(found) == ["a_strip.png"] and (
        "patch" in found["a_strip.png"] or "thin" in found["a_strip.png"]
    )


def test_one_text_for_a_video_in_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], micro: Path
) -> None:
    good(tmp_path)
    (tmp_path / "walk.mp4").write_bytes(MP4)
    said = "a video (MP4); take pictures out of it first: mkdir frames; ffmpeg -i walk.mp4 -vf fps=2"
    out, common = str(tmp_path / "out"), ["--model", str(micro), "--resolution", "96", "--backend", "cpu"]
    walk = str(tmp_path / "walk.mp4")
    for verb, *words in (
        ["infer", walk, walk, "-o", out], ["match", walk, walk, "-o", out + ".png"], ["pose", walk, walk],
        ["reconstruct", walk, "-o", out], ["views", walk, "-o", out], ["batch", walk, "-o", out],
        ["retrieve", walk],
    ):  # fmt: skip
        assert cli.main([verb, *words, *common]) == 1, verb
        assert said in capsys.readouterr().err, verb
