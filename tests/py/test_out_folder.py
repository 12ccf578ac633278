# SPDX-License-Identifier: Apache-2.0
"""The door out by itself: folders that commands fill, and files that a user names."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import child_environment, unix_only

from mast3r_runtime._files import manifest
from mast3r_runtime._files.folder import OutFolder
from mast3r_runtime._files.lock import LOCK
from mast3r_runtime._files.manifest import JOURNAL, REPORT
from mast3r_runtime.errors import BusyError, FileError

Tree = dict[str, object]


def tree(folder: Path) -> Tree:
    """Every folder, file and link below a folder; the text of a file, and of a link."""
    out: Tree = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        out[name] = os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
    return out


def fill(folder: Path, files: Mapping[str, str], section: str = "pair", **how: object) -> list[str]:
    """A run that writes these files; a text that begins with -> is a link."""
    with OutFolder(folder, section) as out:
        out.claim(files)
        for name, text in files.items():
            path = out.stage / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("->"):
                path.symlink_to(text[2:])
            else:
                path.write_text(text)
        return out.finish({"what": section}, **how)  # type: ignore[arg-type]


FIRST = {"a.txt": "1", "deep/er/b.txt": "1", "deep/c.txt": "1", "gone/only.txt": "1"}
SECOND = {"a.txt": "2", "deep/er/b.txt": "1", "new/d.txt": "2"}


def test_what_a_run_no_longer_writes_goes(tmp_path: Path) -> None:
    out = tmp_path / "made" / "out"
    fill(out, FIRST)
    (out / "deep" / "mine.txt").write_text("mine")
    assert fill(out, SECOND) == []
    names = {n for n, text in tree(out).items() if text is not None}
    assert names == {"a.txt", "deep/er/b.txt", "deep/mine.txt", "new/d.txt", REPORT}
    assert not (out / "gone").exists() and (out / "a.txt").read_text() == "2"
    report, sections = manifest.read(out) or pytest.fail("no list")
    assert report == {"what": "pair"} and set(sections["pair"].files) == set(SECOND)
    entry = sections["pair"].files["a.txt"]
    assert entry.sha256 == hashlib.sha256(b"2").hexdigest() and entry.bytes == 1


def test_other_products_stay_and_are_marked(tmp_path: Path) -> None:
    fill(tmp_path, {"pairs.txt": "a b"}, "retrieval", made_from={"/p/a.jpg": "1" * 64})
    listed = {str(tmp_path / "pairs.txt"): hashlib.sha256(b"a b").hexdigest()}
    fill(tmp_path, {"a__b.npz": "x"}, "batch", made_from=listed)
    fill(tmp_path, {"scene.npz": "x"}, "scene", made_from={"/p/a.jpg": "1" * 64, "/p/b.jpg": "2" * 64})

    def stale() -> dict[str, bool]:
        found = manifest.read(tmp_path)
        assert found is not None
        return {name: section.stale for name, section in found[1].items()}

    assert not any(stale().values())
    fill(tmp_path, {"scene.npz": "y"}, "scene", made_from={"/p/a.jpg": "3" * 64})
    assert stale() == {"retrieval": True, "batch": False, "scene": False}
    fill(tmp_path, {"pairs.txt": "a c"}, "retrieval", made_from={"/p/a.jpg": "3" * 64})
    assert stale() == {"retrieval": False, "batch": True, "scene": False}
    assert (tmp_path / "a__b.npz").exists()
    with OutFolder(tmp_path, "batch") as out, pytest.raises(FileError, match=r"pairs\.txt"):
        out.claim(["pairs.txt"])  # it is ours, and another product's


@pytest.mark.parametrize(
    "what", ["file", "folder", "link", "read-only", "edited", "parent", "parent is a file"]
)
def test_what_is_not_ours_is_refused_before_the_work(tmp_path: Path, what: str) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    other.mkdir()
    (other / "b.txt").write_text("mine")
    fill(out, FIRST)
    target, name = out / "new.txt", "new.txt"
    if what == "file":
        target.write_text("mine")
    elif what == "folder":
        target.mkdir()
    elif what == "link":
        target.symlink_to(other / "b.txt")
    elif what == "parent":
        (out / "new").symlink_to(other)
        name = "new/b.txt"
    elif what == "parent is a file":
        (out / "new").write_text("mine")
        name = "new/b.txt"
    else:
        name = "a.txt"
        if what == "edited":
            (out / name).write_text("2")
        else:
            (out / name).chmod(0o444)
    before = tree(tmp_path)
    with pytest.raises(FileError, match=f"'{name}'.*nothing was changed"):
        fill(out, {**FIRST, name: "3"})
    assert tree(tmp_path) == before


def test_what_appeared_meanwhile_stays(tmp_path: Path) -> None:
    with OutFolder(tmp_path, "pair") as out:
        out.claim(["a.txt"])
        (out.stage / "a.txt").write_text("ours")
        (tmp_path / "a.txt").write_text("mine")
        with pytest.raises(FileError, match=r"a\.txt"):
            out.finish()
    assert tree(tmp_path) == {"a.txt": b"mine"}


def test_what_the_user_changed_is_reported_and_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path, FIRST)
    (tmp_path / "gone" / "only.txt").write_text("edited")
    (tmp_path / "deep" / "c.txt").unlink()
    (tmp_path / "deep" / "c.txt").symlink_to("er/b.txt")
    assert fill(tmp_path, SECOND) == ["deep/c.txt", "gone/only.txt"]
    assert "gone/only.txt" in caplog.text
    assert (tmp_path / "gone" / "only.txt").read_text() == "edited" and (
        tmp_path / "deep" / "c.txt"
    ).is_symlink()


def test_links_are_ours_by_their_text(tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    photo.write_text("photo")
    out = tmp_path / "out"
    fill(out, {"images/a.jpg": "->../../photo.jpg", "images/b.jpg": "->../../photo.jpg"})
    (out / "images" / "b.jpg").unlink()
    (out / "images" / "b.jpg").symlink_to("../../photo.jpg.other")
    assert fill(out, {"a.txt": "1"}) == ["images/b.jpg"]
    assert not os.path.lexists(out / "images" / "a.jpg") and photo.read_text() == "photo"
    assert (out / "images").is_dir()


def test_a_link_in_a_parent_is_never_followed(tmp_path: Path) -> None:
    """A listed file whose folder has become a link to the user's own."""
    out, photos = tmp_path / "out", tmp_path / "photos"
    fill(out, {"images/a.jpg": "same", "a.txt": "1"})
    photos.mkdir()
    (photos / "a.jpg").write_text("same")
    (out / "images" / "a.jpg").unlink()
    (out / "images").rmdir()
    (out / "images").symlink_to(photos)
    assert fill(out, {"a.txt": "1"}) == ["images/a.jpg"]
    assert (photos / "a.jpg").read_text() == "same" and (out / "images").is_symlink()


def test_nothing_is_left_where_nothing_was_written(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), OutFolder(tmp_path / "a" / "b", "pair") as out:
        (out.stage / "x").write_text("x")
        raise ZeroDivisionError
    assert tree(tmp_path) == {}
    fill(tmp_path / "a", FIRST)
    before = tree(tmp_path)
    with pytest.raises(ZeroDivisionError), OutFolder(tmp_path / "a", "pair") as out:
        (out.stage / "a.txt").write_text("x")
        raise ZeroDivisionError
    assert tree(tmp_path) == before


def test_through_a_link_it_is_the_same_folder(tmp_path: Path) -> None:
    fill(tmp_path / "out", FIRST)
    (tmp_path / "link").symlink_to("out")
    fill(tmp_path / "link", SECOND)
    assert (tmp_path / "link").is_symlink() and not (tmp_path / "out" / "gone").exists()
    with OutFolder(tmp_path / "out", "pair"), pytest.raises(BusyError):
        OutFolder(tmp_path / "link" / "..", "pair").__enter__().__exit__(None, None, None)
        fill(tmp_path / "link", FIRST)


# ---- the lock -----------------------------------------------------------------------------

HOLD = """
import sys, time
from mast3r_runtime._files.folder import OutFolder
with OutFolder(sys.argv[1], "scene", "reconstruct") as out:
    (out.stage / "x.txt").write_text("x")
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_run_is_refused_and_names_the_first(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        env=child_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "held\n"
        began = time.monotonic()
        with pytest.raises(BusyError, match=rf"mast3r reconstruct \(process {child.pid} on .*since 20"):
            fill(tmp_path, FIRST)
        assert time.monotonic() - began < 5
        done = []
        waiting = threading.Thread(target=lambda: done.append(wait_and_fill(tmp_path)))
        waiting.start()
        time.sleep(0.3)
        assert not done
    finally:
        child.kill()
        child.communicate()
    waiting.join(30)
    assert done == [[]] and not (tmp_path / LOCK).exists()
    assert {n for n, text in tree(tmp_path).items() if text is not None} == {*FIRST, REPORT}


def wait_and_fill(folder: Path) -> list[str]:
    with OutFolder(folder, "pair", wait=True):
        pass
    return fill(folder, FIRST)


def test_many_at_once(tmp_path: Path) -> None:
    """Of threads that take a folder without end, never two have it."""
    inside, worst, ends = [0], [0], time.monotonic() + 1.0

    def run() -> None:
        while time.monotonic() < ends:
            with OutFolder(tmp_path, "pair", wait=True):
                inside[0] += 1
                worst[0] = max(worst[0], inside[0])
                time.sleep(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst[0] == 1 and tree(tmp_path) == {}


@unix_only
@pytest.mark.parametrize("name", [LOCK, JOURNAL, REPORT])
@pytest.mark.parametrize("how", ["text", "link", "hard link", "folder", "fifo", "dangling"])
def test_files_of_our_names_that_are_not_ours(tmp_path: Path, name: str, how: str) -> None:
    out, photo = tmp_path / "out", tmp_path / "photo.jpg"
    out.mkdir()
    photo.write_text("a photograph")
    if how == "text":
        (out / name).write_text("mine")
    elif how == "link":
        (out / name).symlink_to(photo)
    elif how == "dangling":
        (out / name).symlink_to("nowhere")
    elif how == "hard link":
        os.link(photo, out / name)
    elif how == "fifo":
        os.mkfifo(out / name)
    else:
        (out / name).mkdir()
    listed = {n: os.lstat(out / n) for n in os.listdir(out)}
    with pytest.raises(FileError):
        fill(out, FIRST)
    assert photo.read_text() == "a photograph" and not os.path.lexists(out / "nowhere")
    assert {n: os.lstat(out / n).st_ino for n in os.listdir(out)} == {n: s.st_ino for n, s in listed.items()}


# ---- the list is hostile ------------------------------------------------------------------

OUTSIDE = [
    "../photo.jpg", "/etc/passwd", "a/../../photo.jpg", "./a", "a//b", "", "..", "a\0b", "..\\photo.jpg",
    "C:/photo.jpg", "c:photo.jpg", "a\\b", "images/../../photo.jpg", REPORT, JOURNAL, "x/" + REPORT,
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_that_lead_out_are_a_broken_list(tmp_path: Path, name: str) -> None:
    out, photo = tmp_path / "out", tmp_path / "photo.jpg"
    photo.write_text("same")
    fill(out, {"photo.jpg": "same"})
    sections = {"pair": manifest.Section({name: manifest.Entry(4, hashlib.sha256(b"same").hexdigest())})}
    (out / REPORT).write_text(manifest.sealed({}, sections))
    before = tree(tmp_path)
    with pytest.raises(FileError):
        fill(out, FIRST)
    assert tree(tmp_path) == before


def test_mutated_lists_remove_nothing(tmp_path: Path) -> None:
    """Whatever is done to the list: what lies there is what lay there, or the run is done."""
    out = tmp_path / "out"
    fill(out, FIRST)
    good = (out / REPORT).read_bytes()
    rng = random.Random(5)
    for _ in range(300):
        text = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text))
            text[at : at + rng.randint(0, 3)] = bytes(rng.randrange(256) for _ in range(rng.randint(0, 3)))
        (out / REPORT).write_bytes(text)
        before = tree(tmp_path)
        try:
            fill(out, {"z.txt": "z"})
        except FileError:
            assert tree(tmp_path) == before
        else:  # the same list in other bytes
            assert manifest.parse(bytes(text)) == manifest.parse(good)
            fill(out, FIRST)
    (out / REPORT).write_bytes(good)
    assert fill(out, FIRST) == []


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", "null", '{"written": 3}', "\ufeff{}", ""])
def test_reports_that_are_no_list(tmp_path: Path, text: str) -> None:
    (tmp_path / REPORT).write_text(text)
    with pytest.raises(FileError, match=r"report\.json"):
        fill(tmp_path, FIRST)
    assert tree(tmp_path) == {REPORT: text.encode()}


# ---- killed at any moment -----------------------------------------------------------------


def killed_run(folder: Path, files: Mapping[str, str], moment: int) -> bool:
    """A run in a process that is killed before its ``moment``-th call of the system; whether it was."""
    child = os.fork()
    if child == 0:
        count = 0

        def hook(event: str, _: object) -> None:
            nonlocal count
            if event in ("open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"):
                count += 1
                if count > moment:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            fill(folder, files)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@unix_only
def test_after_a_kill_at_any_moment_the_next_run_ends_as_if_nothing_was(tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    fill(clean, FIRST)
    (clean / "deep" / "mine.txt").write_text("mine")
    fill(clean, SECOND)
    wanted = tree(clean)
    kills = 0
    for moment in range(1000):
        out = tmp_path / f"out{moment}"
        fill(out, FIRST)
        (out / "deep" / "mine.txt").write_text("mine")
        if not killed_run(out, SECOND, moment):
            break
        kills += 1
        if moment % 3 == 1:  # and once more, somewhere else
            killed_run(out, SECOND, moment // 2)
        if moment % 3 == 2:  # another product's run in between
            fill(out, {"other.txt": "1"}, "scene")
            fill(out, {}, "scene")
        fill(out, SECOND)
        now = tree(out)
        now.pop(REPORT), wanted.pop(REPORT, None)
        assert now == wanted, moment
    assert kills > 30 and tree(out)[REPORT] is not None


@unix_only
def test_what_was_edited_after_a_kill_stays(tmp_path: Path) -> None:
    fill(tmp_path, FIRST)
    hit = 0
    for moment in range(10, 60, 7):
        if killed_run(tmp_path, SECOND, moment) and (tmp_path / "new" / "d.txt").exists():
            hit += 1
            (tmp_path / "new" / "d.txt").write_text("edited")
            with pytest.raises(FileError, match=r"new/d\.txt"):
                fill(tmp_path, SECOND)
            assert (tmp_path / "new" / "d.txt").read_text() == "edited"
            (tmp_path / "new" / "d.txt").unlink()
        fill(tmp_path, FIRST)
    assert hit


def test_a_report_is_read_by_others(tmp_path: Path) -> None:
    fill(tmp_path, FIRST)
    values = json.loads((tmp_path / REPORT).read_text())
    assert values["what"] == "pair" and values["written"]["pair"]["stale"] is False
    assert values["written"]["pair"]["files"]["a.txt"]["bytes"] == 1
