# SPDX-License-Identifier: Apache-2.0
"""Downloads from a server with every fault (T16): cut, corrupt, stalled, 416, two at once."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import child_environment
from file_server import Served, Server, serving

from mast3r_runtime import errors
from mast3r_runtime._checkpoints.fetch import Expected, fetch, sha256_of

DATA = bytes(range(256)) * 3000 + b"the end"
DIGEST = hashlib.sha256(DATA).hexdigest()
PATH = "/folder/model.pth"
FAST = {"timeout": 0.5, "pause": 0.0}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    for name in ("HF_HUB_OFFLINE", "MAST3R_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with serving({PATH: Served(DATA)}) as server:
        yield server


def names(folder: Path) -> set[str]:
    """The files a user sees: what is hidden are locks."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_plain(served: Server, tmp_path: Path) -> None:
    target = tmp_path / "new" / "model.pth"
    seen: list[tuple[int, int | None]] = []
    got = fetch([served.url + PATH], target, Expected(len(DATA), 0, DIGEST), lambda *a: seen.append(a))
    assert got == target and target.read_bytes() == DATA
    assert names(target.parent) == {"model.pth", "model.pth.sha256"}
    assert target.with_name("model.pth.sha256").read_text() == f"{DIGEST}  model.pth\n"
    assert seen[0] == (0, len(DATA)) and seen[-1] == (len(DATA), len(DATA))
    fetch([served.url + PATH], target)
    assert len(served.requests) == 1, "what is there was fetched again"
    fetch([served.url + PATH], target, force=True)
    assert len(served.requests) == 2


def test_cut_half_way_is_resumed(served: Server, tmp_path: Path) -> None:
    target = tmp_path / "model.pth"
    served.files[PATH].faults = ["cut:300000", "status:503", "cut:1000"]
    fetch([served.url + PATH], target, Expected(sha256=DIGEST), **FAST)
    assert target.read_bytes() == DATA
    assert served.ranges_of(PATH) == ["", "bytes=300000-", "bytes=300000-", "bytes=301000-"]


def test_interrupted_and_called_again(served: Server, tmp_path: Path) -> None:
    """After an exception, what has arrived waits under another name; the next call goes on."""
    target = tmp_path / "model.pth"

    def interrupt(done: int, total: int | None) -> None:
        if done > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch([served.url + PATH], target, progress=interrupt)
    assert names(tmp_path) == {"model.pth.part", "model.pth.part.json"}
    there = (tmp_path / "model.pth.part").stat().st_size
    assert 0 < there <= len(DATA)
    fetch([served.url + PATH], target, Expected(sha256=DIGEST))
    assert served.ranges_of(PATH)[1] == f"bytes={there}-" and names(tmp_path) == {
        "model.pth",
        "model.pth.sha256",
    }


def test_a_server_that_always_cuts(served: Server, tmp_path: Path) -> None:
    served.files[PATH].faults = ["cut:5000"] + ["cut:0"] * 20
    with pytest.raises(errors.DownloadError, match="3 times in a row"):
        fetch([served.url + PATH], tmp_path / "model.pth", attempts=3, **FAST)
    assert len(served.requests) == 4 and names(tmp_path) == {"model.pth.part", "model.pth.part.json"}


def test_stalled(served: Server, tmp_path: Path) -> None:
    served.files[PATH].faults = ["stall:200000"]
    start = time.monotonic()
    fetch([served.url + PATH], tmp_path / "model.pth", Expected(sha256=DIGEST), **FAST)
    assert time.monotonic() - start < 15 and served.ranges_of(PATH)[1].startswith("bytes=")


def test_wrong_bytes_of_the_right_size(served: Server, tmp_path: Path) -> None:
    served.files[PATH].faults = ["other"]
    wrong = hashlib.sha256(bytes(255 - b for b in DATA)).hexdigest()
    with pytest.raises(errors.ChecksumError) as caught:
        fetch([served.url + PATH], tmp_path / "model.pth", Expected(len(DATA), 0, DIGEST), **FAST)
    assert wrong in str(caught.value) and DIGEST in str(caught.value) and names(tmp_path) == set()


def test_wrong_size(served: Server, tmp_path: Path) -> None:
    with pytest.raises(errors.ChecksumError, match=rf"{len(DATA)} bytes, want 1000000 \(within 7\)"):
        fetch([served.url + PATH], tmp_path / "model.pth", Expected(1000000, 7))
    served.files[PATH].length = False  # then only the end tells
    with pytest.raises(errors.ChecksumError, match=f"got {len(DATA)} bytes"):
        fetch([served.url + PATH], tmp_path / "model.pth", Expected(1000000, 7))
    assert names(tmp_path) == set()


def test_changed_between_two_pieces(served: Server, tmp_path: Path) -> None:
    """Another tag: what is there is no part of this file, so it starts anew."""
    served.files[PATH].faults = ["cut:300000", "other"]
    fetch([served.url + PATH], tmp_path / "model.pth", **FAST)
    assert (tmp_path / "model.pth").read_bytes() == bytes(255 - b for b in DATA)


@pytest.mark.parametrize("etag", ["", 'W/"weak"'])
def test_without_a_strong_tag_nothing_is_resumed(served: Server, tmp_path: Path, etag: str) -> None:
    served.files[PATH].etag = etag
    served.files[PATH].faults = ["cut:300000"]
    fetch([served.url + PATH], tmp_path / "model.pth", Expected(sha256=DIGEST), **FAST)
    assert served.ranges_of(PATH) == ["", ""]


def test_a_server_without_ranges(served: Server, tmp_path: Path) -> None:
    served.files[PATH].ranges = False
    served.files[PATH].faults = ["cut:300000"]
    fetch([served.url + PATH], tmp_path / "model.pth", Expected(sha256=DIGEST), **FAST)


@pytest.mark.parametrize(
    ("extra", "requests"), [(b"", ["bytes=768007-"]), (b"too much", ["bytes=768015-", ""])]
)
def test_416(served: Server, tmp_path: Path, extra: bytes, requests: list[str]) -> None:
    """Asked for bytes past the end: what is there is the whole file, or not this file."""
    part = tmp_path / "model.pth.part"
    part.write_bytes(DATA + extra)
    url = served.url + PATH
    (tmp_path / "model.pth.part.json").write_text(f'{{"url": "{url}", "validator": "\\"one\\""}}')
    fetch([url], tmp_path / "model.pth", Expected(sha256=DIGEST), **FAST)
    assert served.ranges_of(PATH) == requests and (tmp_path / "model.pth").read_bytes() == DATA


@pytest.mark.parametrize("notes", ["", "[]", "{", '{"url": "elsewhere", "validator": "x"}', "\xff"])
def test_a_part_of_unknown_origin_is_not_trusted(served: Server, tmp_path: Path, notes: str) -> None:
    (tmp_path / "model.pth.part").write_bytes(b"rubbish")
    (tmp_path / "model.pth.part.json").write_text(notes, encoding="latin-1")
    fetch([served.url + PATH], tmp_path / "model.pth", Expected(sha256=DIGEST))
    assert served.ranges_of(PATH) == [""]


def test_not_found_then_a_mirror(served: Server, tmp_path: Path) -> None:
    gone = served.url + "/gone.pth"
    with pytest.raises(errors.DownloadError, match="HTTP 404"):
        fetch([gone], tmp_path / "model.pth")
    assert len(served.requests) == 1, "a missing file is no reason to try again"
    closed = "http://127.0.0.1:9/model.pth"
    fetch([gone, closed, served.url + PATH], tmp_path / "model.pth", attempts=1, **FAST)
    assert (tmp_path / "model.pth").read_bytes() == DATA
    with pytest.raises(errors.DownloadError, match="no address works.*404.*refused"):
        fetch([gone, closed], tmp_path / "other.pth", attempts=1, **FAST)
    with pytest.raises(errors.DownloadError, match="https://"):
        fetch(["file:///etc/passwd"], tmp_path / "other.pth")


def test_offline(served: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "model.pth"
    for name in ("HF_HUB_OFFLINE", "MAST3R_OFFLINE"):
        monkeypatch.setenv(name, "1")
        with pytest.raises(errors.OfflineError, match="model.pth") as caught:
            fetch([served.url + PATH], target)
        assert isinstance(caught.value, FileNotFoundError)
        monkeypatch.delenv(name)
    assert served.requests == []
    target.write_bytes(b"there")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert fetch([served.url + PATH], target) == target


def test_no_space_before(served: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type(shutil.disk_usage("/"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 1000))
    with pytest.raises(errors.FileError, match="0 MB needed, 0 MB free"):
        fetch([served.url + PATH], tmp_path / "model.pth")
    assert names(tmp_path) == set()


@pytest.mark.skipif(
    os.name != "posix" or not Path("/dev/full").exists(), reason="no /dev/full on this system"
)
def test_no_space_while_writing(served: Server, tmp_path: Path) -> None:
    (tmp_path / "model.pth.part").symlink_to("/dev/full")
    with pytest.raises(errors.FileError, match="[Nn]o space.*MB are free") as caught:
        fetch([served.url + PATH], tmp_path / "model.pth")
    assert isinstance(caught.value.__cause__, OSError) and caught.value.__cause__.errno == errno.ENOSPC
    assert "model.pth" not in names(tmp_path)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that cannot be written to, also when the tests run as root."""
    if os.name != "posix":
        pytest.skip("this system is not Unix")
    folder = tmp_path / "read_only"
    folder.mkdir()
    (folder / "there.pth").write_bytes(b"there")
    folder.chmod(0o555)
    for path in (tmp_path, *tmp_path.parents):
        if not os.stat(path).st_mode & 0o001 and os.geteuid() == 0:
            path.chmod(os.stat(path).st_mode | 0o011)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o755)


def test_read_only_cache(served: Server, read_only: Path) -> None:
    assert fetch([served.url + PATH], read_only / "there.pth") == read_only / "there.pth"
    for target in (read_only / "model.pth", read_only / "below" / "model.pth"):
        with pytest.raises(errors.FileError, match="ermission.*MAST3R_CACHE_DIR"):
            fetch([served.url + PATH], target)
    assert served.requests == []


def test_two_processes_at_once(served: Server, tmp_path: Path) -> None:
    """The others wait for the first and take its file: one request, one file."""
    served.files[PATH].gate = gate = threading.Event()
    code = (
        "import logging, sys; from pathlib import Path; from mast3r_runtime._checkpoints.fetch import fetch\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "fetch([sys.argv[1]], Path(sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", code, served.url + PATH, str(tmp_path / "model.pth")]
    children = [
        subprocess.Popen(command, env=child_environment(), stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    texts = [""] * 3
    waiting = threading.Semaphore(0)  # a child has said that it waits

    def listen(number: int) -> None:
        stderr = children[number].stderr
        assert stderr is not None
        with stderr:
            for line in stderr:
                texts[number] += line
                if "another process" in line:
                    waiting.release()

    threads = [threading.Thread(target=listen, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    # The first gets its bytes once both others are seen to wait for it, however long that takes.
    seen = [waiting.acquire(timeout=120) for _ in range(2)]
    gate.set()
    assert [child.wait(timeout=120) for child in children] == [0, 0, 0], texts
    for thread in threads:
        thread.join()
    assert seen == [True, True] and sorted("another process" in text for text in texts) == [False, True, True]
    assert len(served.requests) == 1 and (tmp_path / "model.pth").read_bytes() == DATA


def test_other_contents_than_before(served: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = tmp_path / "model.pth"
    fetch([served.url + PATH], target)
    served.files[PATH].faults = ["other"]
    with caplog.at_level(logging.WARNING, "mast3r_runtime"):
        fetch([served.url + PATH], target, force=True)
    assert "other contents" in caplog.text
    assert sha256_of(target) in target.with_name("model.pth.sha256").read_text()
