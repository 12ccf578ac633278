# SPDX-License-Identifier: Apache-2.0
"""Every verb that writes, in random places: nothing of the user's changes, whatever happens.

The engines are made up, so that a run takes milliseconds and a process can be forked; what is written,
and where, is the commands' own. ``MAST3R_TEST_LAYOUTS`` is how many layouts a verb gets (default: 12).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import unix_only
from PIL import Image

from mast3r_runtime import cli
from mast3r_runtime._commands import collection, common, demo, doctor, main, pair, scene, views
from mast3r_runtime._files import manifest
from mast3r_runtime._files.lock import LOCK
from mast3r_runtime._pairs import heads, retrieve
from mast3r_runtime._pictures.header import read
from mast3r_runtime._results.results import InferenceResult, MatchResult, Transform
from mast3r_runtime._scene import dense, gauge, known, reconstruct, start
from mast3r_runtime._scene.model import Lens, Model
from mast3r_runtime._scene.parts import Component, Picture
from mast3r_runtime.scene import Scene

SEED = os.environ.get("MAST3R_TEST_SEED", "")
LAYOUTS = int(os.environ.get("MAST3R_TEST_LAYOUTS", "12"))
pytestmark = unix_only

# ---- verbs --------------------------------------------------------------------------------

FOLDERS = {  # verb: its words before -o, from a folder of pictures
    "infer": lambda p: [p / "a.jpg", p / "b.jpg"],
    "batch": lambda p: [p],
    "retrieve": lambda p: [p],
    "reconstruct": lambda p: [p],
    "views": lambda p: [p],
    "demo": lambda p: [],
}
FILES: dict[str, tuple[Callable[[Path], list[Path]], str]] = {  # words before the target, and its suffix
    "match": (lambda p: [p / "a.jpg", p / "b.jpg"], ".png"),
    "pose": (lambda p: [p / "a.jpg", p / "b.jpg"], ".png"),
    "view": (lambda p: [p / "cloud.ply"], ".html"),
    "doctor": (lambda p: [], ".zip"),
    "export": (lambda p: [], ".onnx"),
    "convert": (lambda p: [p / "model.safetensors"], ".safetensors"),
}
ELSEWHERE = {
    "download": "into the cache, a place of ours",
    "store": "removes in a store; its tests are test_store.py",
}
NOTHING = {"info", "selfcheck", "benchmark", "profile", "status", "localize"}


def test_every_verb_is_in_a_table() -> None:
    """A new verb that writes is tried here too, or says why not."""
    (verbs,) = (a for a in main._parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert {*FOLDERS, *FILES, *ELSEWHERE, *NOTHING} == set(verbs.choices)
    for verb in (*FOLDERS, *FILES):
        options = {o for a in verbs.choices[verb]._actions for o in a.option_strings}
        assert ("--wait" if verb in FOLDERS else "--overwrite") in options, verb
    for verb in NOTHING:
        assert "-o" not in {o for a in verbs.choices[verb]._actions for o in a.option_strings}, verb


# ---- made-up engines ----------------------------------------------------------------------


def made_scene(listed: dict[str, Path]) -> Scene:
    """A scene of all readable pictures, whose numbers come from their bytes."""
    headers = [read(name, path) for name, path in listed.items()]
    pictures, lenses = {}, []
    for number, h in enumerate(headers):
        if h.problem:
            pictures[h.name] = Picture(h.name, h.path, 0, 0, "unreadable", h.problem)
            continue
        lens = Lens("SIMPLE_PINHOLE", h.width, h.height, (50.0, (h.width - 1) / 2, (h.height - 1) / 2))
        pose = np.eye(4)
        pose[0, 3] = number
        shape = (6, 8)
        value = int(h.sha256[:4], 16)
        depth = dense.DepthMap(
            np.full(shape, 1 + value / 65536, np.float32), np.ones(shape, np.float32), np.ones(shape, bool),
            np.full((*shape, 3), value % 256, np.uint8), Transform(h.height, h.width, 6, 8, 0, 0, 6, 8),
        )  # fmt: skip
        pictures[h.name] = Picture(
            h.name, h.path, h.width, h.height, "placed", "", 0, pose, lens, None, 4, 0.1, depth
        )
        lenses.append((number, lens, pose))
    count = len(lenses)
    points = np.random.default_rng(count).normal(size=(4, 3))
    model = Model(
        np.array([n for n, _, _ in lenses]), np.array([np.linalg.inv(p) for _, _, p in lenses]),
        tuple(lens for _, lens, _ in lenses), points, np.full((4, 3), 9, np.uint8),
        np.repeat(np.arange(4), count), np.tile([n for n, _, _ in lenses], 4), np.ones((4 * count, 2)),
        "made",
    )  # fmt: skip
    names = tuple(p.name for p in pictures.values() if p.pose is not None)
    report = {"made_by": "mast3r-runtime", "seconds": {"total": 0.0}, "encoded": 0, "decoded": 0}
    scale = gauge.Scale(1.0, "none", 0.0, 0)
    return Scene(pictures, (Component(names, "made", "", model),), scale, report)


def made_result() -> tuple[InferenceResult, MatchResult]:
    rng = np.random.default_rng(1)
    way = Transform(48, 64, 48, 64, 0, 0, 48, 64)
    xyz = rng.normal(size=(48, 64, 3)).astype(np.float32) + (0, 0, 4)
    ones = np.ones((48, 64), np.float32)
    desc = np.zeros((48, 64, 24), np.float32)
    result = InferenceResult(
        xyz.astype(np.float32), xyz.astype(np.float32), ones, ones, desc, desc, ones, ones, way, way
    )
    at, index = np.full((5, 2), 3.0, np.float32), np.arange(5)
    three = np.ones((5, 3), np.float32)
    sure = np.ones(5, np.float32)
    return result, MatchResult(index, index, at, at, three, three, sure, transform_1=way, transform_2=way)


class MadeEngine:
    """Answers what the commands ask of an engine."""

    path = "made"

    def __enter__(self) -> MadeEngine:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def name(self) -> str:
        return "made"

    def info(self) -> dict[str, Any]:
        return {"desc_dim": 24, "variant": "made", "precision": "fp32", "resolution": 64, "name": "made"}

    def load_retrieval(self, _: object) -> None:
        pass

    def match(self, *_: object, **__: object) -> MatchResult:
        return made_result()[1]

    def export_onnx(self, target: Path, *_: object, **__: object) -> list[Path]:
        files = [Path(target), Path(f"{target}.data")]
        files[0].write_bytes(b"\x08\x0a\x12\x0emast3r-runtime")
        files[1].write_bytes(b"weights")
        return files


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    result, matches = made_result()
    for module in (collection, pair, scene, views):
        monkeypatch.setattr(module, "open_engine", lambda _: MadeEngine())
        monkeypatch.setattr(module, "say_memory", lambda _: None, raising=False)
    monkeypatch.setattr(
        reconstruct, "reconstruct", lambda engine, listed, **_: made_scene(dict(as_listed(listed)))
    )
    monkeypatch.setattr(start, "look", lambda engine, headers, *_, **__: seen(headers))

    def run(arguments: argparse.Namespace) -> tuple[Any, ...]:
        pixels = [
            np.asarray(Image.open(p).convert("RGB").resize((64, 48))) for p in pair._pictures(arguments)
        ]
        return (*pixels, result, matches, "made")

    monkeypatch.setattr(pair, "_run_pair", run)
    monkeypatch.setattr(pair, "_summary", lambda *_: {"total_ms": 1.0})
    monkeypatch.setattr(pair, "_pose_values", lambda _: {})
    monkeypatch.setattr(InferenceResult, "cameras", lambda *_, **__: SimpleNamespace(pose=1))
    from mast3r_runtime._commands import explain

    monkeypatch.setattr(explain, "line", lambda *_: "made")
    monkeypatch.setattr(explain, "pose_text", lambda *_: "made")
    monkeypatch.setattr(explain, "sentence", lambda *_: "made")
    monkeypatch.setattr(explain, "drawn", lambda one, *_: Image.fromarray(one))
    monkeypatch.setattr(heads, "need_retrieval", lambda *_: Path("head"))
    monkeypatch.setattr(heads, "find_beside", lambda *_: None)
    monkeypatch.setattr(retrieve, "retrieve", made_retrieval)
    monkeypatch.setattr(retrieve, "infer_pairs", made_pairs)
    monkeypatch.setattr(
        collection, "_batch_pairs", lambda _, names: [(i, i + 1) for i in range(len(names) - 1)]
    )
    monkeypatch.setattr(collection, "_matches_in", lambda path: 5 if path.is_file() else None)
    monkeypatch.setattr(demo, "pairs", lambda: [SimpleNamespace(name="room", title="made")])
    monkeypatch.setattr(demo, "run_pair", made_demo)
    monkeypatch.setattr(known, "paths", lambda: [])
    monkeypatch.setattr(known, "rate", lambda _: SimpleNamespace(text=lambda: "made"))
    monkeypatch.setattr(doctor, "collect", lambda *_: {"selfcheck": {"checks": []}})
    monkeypatch.setattr(doctor, "_text", lambda _: "made")
    monkeypatch.setattr(common, "look", lambda *_: None)


def made_demo(engine: object, shown: object, folder: Path) -> tuple[Any, ...]:
    folder.mkdir()
    for name in demo.FILES:
        (folder / name).write_text("made")
    score = SimpleNamespace(text=lambda: "made")
    return score, {"total_ms": 1.0}, Image.new("RGB", (64, 48))


def as_listed(listed: Any) -> dict[str, Path]:
    return dict(listed) if hasattr(listed, "items") else {Path(p).name: Path(p) for p in listed}


def seen(headers: Any) -> Scene:
    made = made_scene({h.name: h.path for h in headers})
    report = {"network": "made", "windows": [], "timing_ms": {"total_ms": 1.0}}
    return Scene(made.pictures, made.components, made.scale, report)


def made_retrieval(engine: object, images: list[str], *_: object, **__: object) -> retrieve.Retrieved:
    count = len(images)
    pairs = [retrieve.Pair(i, i + 1) for i in range(count - 1)]
    scores = np.eye(count, dtype=np.float32)
    return retrieve.Retrieved(
        scores, pairs, "made", [], list(range(count)), 0, np.ones(len(pairs), np.float32)
    )


def made_pairs(engine: object, images: list[str], pairs: Any, **_: object) -> Iterator[Any]:
    for i, j in pairs:
        yield i, j, SimpleNamespace(numpy=lambda: made_result()[0])


# ---- what is there ------------------------------------------------------------------------

Kind = tuple[str, object]
PRIVATE = ("/.cache/",)


def snapshot(top: Path) -> dict[str, Kind]:
    """All that lies below a folder, by name: kind, and bytes or text of a link."""
    out: dict[str, Kind] = {}
    for path in sorted(top.rglob("*")):
        name = "/" + path.relative_to(top).as_posix()
        if any(part in name + "/" for part in PRIVATE):
            continue
        if path.is_symlink():
            out[name] = ("link", os.readlink(path))
        elif path.is_dir():
            out[name] = ("folder", None)
        else:
            out[name] = ("file", (path.read_bytes(), path.stat().st_mode))
    return out


def listed_files(folder: Path) -> dict[str, manifest.Entry]:
    found = manifest.read(folder)
    return {} if found is None else {n: e for s in found[1].values() for n, e in s.files.items()}


@dataclass
class World:
    """Folders as users have them; ``pictures`` is given, ``out`` is where the verb writes."""

    top: Path
    pictures: Path
    out: Path
    notes: list[str] = field(default_factory=list)


def picture(path: Path, rng: random.Random, suffix: str = ".jpg") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    grain = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 256, (6, 8, 3), np.uint8)
    image = Image.fromarray(grain).resize((64, 48))
    exif = Image.Exif()
    exif[0x0112] = rng.choice([1, 1, 1, 6, 3])
    image.save(path, "PNG" if suffix == ".png" else "JPEG", exif=exif)


def world(top: Path, rng: random.Random) -> World:
    """A random place: where pictures lie, and how ``-o`` leads there."""
    pictures = top / rng.choice(["photos", "data/images", "my photos"])
    for name in ("a.jpg", "b.jpg", "c.jpg", "d.png"):
        picture(pictures / name, rng, Path(name).suffix)
    (pictures / "notes.txt").write_text("the user's")
    beside = pictures.parent
    choices = [top / "out", top / "out" / "deep", beside / "out", beside, pictures, pictures / "out"]
    w = World(top, pictures, rng.choice(choices))
    way = rng.choice(["", "", "link to out", "link to pictures", "images is a link", "hard links"])
    if way == "link to out":
        w.out.mkdir(parents=True, exist_ok=True)
        (top / "way").symlink_to(w.out)
        w.out = top / "way"
    elif way == "link to pictures":
        (top / "pictures").symlink_to(pictures)
        w.pictures = top / "pictures"
    elif way == "images is a link" and not (w.out / "images").exists():
        w.out.mkdir(parents=True, exist_ok=True)
        (w.out / "images").symlink_to(pictures)
    elif way == "hard links" and not (w.out / "images").exists():
        (w.out / "images").mkdir(parents=True)
        for name in ("a.jpg", "b.jpg"):
            os.link(pictures / name, w.out / "images" / name)
    w.notes.append(way)
    return w


def run(verb: str, w: World) -> int:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = cli.main([verb, *map(str, FOLDERS[verb](w.pictures)), "-o", str(w.out)])
    w.notes.append(said.getvalue()[-300:])
    return status


def plant(w: World, targets: list[str], rng: random.Random) -> None:
    """Put something of the user's at a name that the verb writes."""
    target = w.out / rng.choice(targets)
    if os.path.lexists(target) or any(p.is_file() for p in target.parents):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    how = rng.choice(["file", "read-only", "link", "folder", "dangling link"])
    if how == "folder":
        target.mkdir()
    elif how == "link":
        target.symlink_to(os.path.relpath(w.pictures.resolve() / "a.jpg", target.parent.resolve()))
    elif how == "dangling link":
        target.symlink_to("nowhere")
    else:
        target.write_text("the user's")
        target.chmod(0o444 if how == "read-only" else 0o644)
    w.notes.append(f"{how} at {target.relative_to(w.top)}")


def check(w: World, before: dict[str, Kind], ours: dict[str, manifest.Entry], status: int) -> None:
    """What the user had is as it was; what is new is listed; a run that failed changed nothing."""
    after = snapshot(w.top)
    real = w.out.resolve()
    base = "/" + real.relative_to(w.top.resolve()).as_posix() if real != w.top.resolve() else ""
    mine = {f"{base}/{name}" for name in (*ours, *([manifest.REPORT] if ours else []))}
    for name, kind in before.items():
        if name not in mine and kind[0] != "folder":
            assert after.get(name) == kind, f"{name} was changed: {w.notes}"
    assert not [n for n in after if ".mast3r-" in n and n not in before], w.notes
    if status:
        assert {n: k for n, k in after.items() if n in before} == before, w.notes
        assert set(after) == set(before), f"left behind: {set(after) - set(before)}, {w.notes}"
        return
    listed = listed_files(real)
    new = {n for n, k in after.items() if n not in before and k[0] != "folder"}
    nested = {f"{base}/scene/{n}" for n in [*listed_files(real / "scene"), manifest.REPORT]}
    assert new <= {f"{base}/{name}" for name in listed} | {f"{base}/{manifest.REPORT}"} | nested, w.notes
    for name, entry in listed.items():
        path = real / name
        if entry.link is None:
            assert hashlib.sha256(path.read_bytes()).hexdigest() == entry.sha256, name
        else:
            assert os.readlink(path) == entry.link


@pytest.mark.parametrize("verb", FOLDERS)
@pytest.mark.usefixtures("made")
def test_nothing_of_the_users_changes(verb: str, tmp_path: Path) -> None:
    done = refused = 0
    for seed in range(LAYOUTS):
        rng = random.Random(f"{verb} {seed}{SEED}")
        w = world(tmp_path / str(seed), rng)
        sample = World(w.top, w.pictures, tmp_path / f"sample{seed}")
        assert run(verb, sample) == 0, sample.notes
        targets = [n for n in listed_files(sample.out)] + [manifest.REPORT, LOCK]
        shutil.rmtree(sample.out)
        if rng.random() < 0.3:
            plant(w, targets, rng)
        for _ in range(3):  # the second run with other pictures, the third with something edited
            before, ours = snapshot(w.top), listed_files(w.out)
            status = run(verb, w)
            done, refused = done + (status == 0), refused + (status != 0)
            check(w, before, ours, status)
            change(w, rng)
    if not SEED:  # that both happen: of other places who knows
        assert done > LAYOUTS // 2 and (refused or verb == "demo"), (done, refused)


def change(w: World, rng: random.Random) -> None:
    """What a user does between two runs."""
    if rng.random() < 0.5:
        (w.pictures / "c.jpg").unlink(missing_ok=True)
    else:
        picture(w.pictures / "e.jpg", rng)
    names = [n for n in listed_files(w.out) if (w.out / n).is_file() and not (w.out / n).is_symlink()]
    if names and rng.random() < 0.3:
        name = rng.choice(sorted(names))
        (w.out / name).write_text("edited")
        w.notes.append(f"edited {name}")
    if names and rng.random() < 0.3:
        name = rng.choice(sorted(names))
        (w.out / name).unlink()
        w.notes.append(f"removed {name}")


# ---- kills --------------------------------------------------------------------------------


def killed(verb: str, w: World, moment: int) -> bool:
    """Run in a process that is killed before its ``moment``-th change of the file system."""
    child = os.fork()
    if child == 0:
        count = 0

        def hook(event: str, arguments: Any) -> None:
            nonlocal count
            writes = (
                event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            )
            if writes or event in ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.symlink"):
                count += 1
                if count > moment:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            run(verb, w)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("verb", FOLDERS)
@pytest.mark.usefixtures("made")
def test_a_killed_run_is_gone_on_with(verb: str, tmp_path: Path) -> None:
    hit = 0
    for seed in range(max(LAYOUTS // 2, 4)):
        rng = random.Random(f"kill {verb} {seed}{SEED}")
        w = world(tmp_path / str(seed), rng)
        if run(verb, w):
            continue
        (w.pictures / "c.jpg").unlink(missing_ok=True)
        picture(w.pictures / "new.jpg", rng)
        before, ours = snapshot(w.top), listed_files(w.out)
        twin = tmp_path / f"twin{seed}"
        shutil.copytree(w.top, twin, symlinks=True)
        for _ in range(rng.randint(1, 3)):
            hit += killed(verb, w, rng.randint(1, 40))
            for name, kind in before.items():
                path = w.top / name[1:]
                real = path.parent.resolve() / path.name
                listed = real.is_relative_to(w.out.resolve())
                if kind[0] == "file" and not (
                    listed and real.relative_to(w.out.resolve()).as_posix() in ours
                ):
                    assert name.endswith(manifest.REPORT) or path.read_bytes() == kind[1][0], name  # type: ignore[index]
        assert run(verb, w) == 0, w.notes
        now = snapshot(w.top)
        w.top.rename(tmp_path / f"done{seed}")
        twin.rename(w.top)
        assert run(verb, w) == 0, w.notes
        wanted = snapshot(w.top)
        differ = {n for n in {*now, *wanted} if now.get(n) != wanted.get(n)}
        assert not {n for n in differ if not n.endswith(manifest.REPORT)}, w.notes
    assert hit >= 2 or SEED


# ---- files that are named -------------------------------------------------------------------


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    rng = random.Random(3)
    for name in ("a.jpg", "b.jpg"):
        picture(folder / name, rng)
    (folder / "cloud.ply").write_text(
        "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\n"
        "end_header\n0 0 0\n1 1 1\n"
    )
    from mast3r_runtime._commands import synthetic

    synthetic.write(folder / "model.safetensors")
    return folder


def run_file(verb: str, folder: Path, target: Path, *more: str) -> int:
    words, _ = FILES[verb]
    to = [str(target)] if verb in ("export", "convert") else ["-o", str(target)]
    quiet = ["--quiet"] if verb == "convert" else []
    with contextlib.redirect_stdout(io.StringIO()):
        return cli.main([verb, *map(str, words(folder)), *to, *quiet, *more])


@pytest.mark.parametrize("verb", FILES)
@pytest.mark.parametrize("how", ["file", "link", "empty", "picture", "folder", "read-only"])
@pytest.mark.usefixtures("made")
def test_a_file_of_the_users_is_refused(
    verb: str, how: str, inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"x{FILES[verb][1]}"
    if how == "link":
        target.symlink_to("in/a.jpg")
    elif how == "folder" and verb != "convert":  # a folder is a place for models
        target.mkdir()
    elif how == "picture":
        Image.new("RGB", (8, 8)).save(target, "PNG")
    else:
        target.write_bytes(b"" if how == "empty" else b"the user's")
        target.chmod(0o444 if how == "read-only" else 0o644)
    before = snapshot(tmp_path)
    assert run_file(verb, inputs, target) == 1
    assert snapshot(tmp_path) == before
    assert target.name in capsys.readouterr().err
    if how in ("file", "picture"):
        assert run_file(verb, inputs, target, "--overwrite") == 0 and target.read_bytes() != b"the user's"
        assert run_file(verb, inputs, target) == 0, "what we wrote we may write again"
    if how == "file" and verb in ("match", "pose", "view"):  # what people edit
        data = bytearray(target.read_bytes())
        data[len(data) // 2] ^= 1
        target.write_bytes(data)
        assert run_file(verb, inputs, target) == 1 and target.read_bytes() == data


@pytest.mark.parametrize("verb", ["match", "pose", "view", "convert"])
@pytest.mark.parametrize("how", ["itself", "link", "hard link", "through a folder that is a link"])
@pytest.mark.usefixtures("made")
def test_an_input_is_never_written(verb: str, how: str, inputs: Path, tmp_path: Path) -> None:
    words, suffix = FILES[verb]
    source = inputs / f"input{suffix}"
    first = words(inputs)[0]
    first.rename(source)
    if how in ("link", "hard link"):
        target = tmp_path / f"other{suffix}"
        target.symlink_to(source) if how == "link" else os.link(source, target)
    elif how == "itself":
        target = source
    else:
        (tmp_path / "way").symlink_to("in")
        target = tmp_path / "way" / source.name
    before = snapshot(tmp_path)
    to = [str(target)] if verb == "convert" else ["-o", str(target)]
    rest = [str(p) for p in words(inputs)[1:]]
    assert cli.main([verb, str(source), *rest, *to, "--overwrite"]) == 1
    assert snapshot(tmp_path) == before


def test_a_report_of_before_tells_what_was_made(made: None, tmp_path: Path) -> None:
    w = world(tmp_path / "w", random.Random(1))
    w.out = tmp_path / "w" / "out"
    for verb in ("reconstruct", "retrieve", "batch"):
        (w.out / "pairs.json").unlink(missing_ok=True) if verb == "batch" else None
        if verb == "batch":
            continue
        assert run(verb, w) == 0
    written = json.loads((w.out / manifest.REPORT).read_text())["written"]
    assert set(written) == {"scene", "retrieval"} and not any(s["stale"] for s in written.values())
    picture(w.pictures / "a.jpg", random.Random(9))
    assert run("reconstruct", w) == 0
    written = json.loads((w.out / manifest.REPORT).read_text())["written"]
    assert written["retrieval"]["stale"] and not written["scene"]["stale"]
