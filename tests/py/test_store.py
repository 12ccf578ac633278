# SPDX-License-Identifier: Apache-2.0
"""The content-addressed folder: whole files or none, the same key for the same content."""

from __future__ import annotations

import errno
import io
import multiprocessing
import os
import socket
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from made_store import FAILED, WINDOW, pair_arrays

from mast3r_runtime._files import zips
from mast3r_runtime._store import packs, places, safetensors
from mast3r_runtime.errors import ArgumentError, DependencyError, FileError, StoreError
from mast3r_runtime.store import Store, check, file_hash, key_of, sizes


def test_bytes_and_arrays_come_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "s", fsync=True)
    key = key_of("pair", "a", 3, [1.5, None])
    assert store.read("mine", key) is None and not store.exists("mine", key)
    store.write_arrays("mine", key, {"x": np.arange(5), "y": np.float32(2)})
    path = store.path("mine", key)
    assert path == tmp_path / "s" / "mine" / key[:2] / f"{key}.npz"
    back = store.read_arrays("mine", key)
    assert back is not None and back["x"].tolist() == [0, 1, 2, 3, 4] and back["y"] == 2
    assert list(store.keys("mine")) == [key] and list(store.keys("other")) == []
    assert Store(tmp_path / "s").exists("mine", key)
    assert os.name == "nt" or path.stat().st_mode & 0o222 == 0


def test_keys_tell_contents_apart() -> None:
    keys = {
        key_of("a", 1),
        key_of("a", "1"),
        key_of("a1"),
        key_of("a", 1.5),
        key_of(["a", 1]),
        key_of("a", None),
    }
    assert len(keys) == 6 and all(len(k) == 32 for k in keys)
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    with pytest.raises(ValueError):
        key_of(float("nan"))


def test_hash_is_of_the_bytes(tmp_path: Path) -> None:
    one, two = tmp_path / "a", tmp_path / "b"
    one.write_bytes(b"x" * 3_000_000)
    two.write_bytes(b"x" * 3_000_000)
    assert file_hash(one) == file_hash(two)
    two.write_bytes(b"y" * 3_000_001)
    assert file_hash(one) != file_hash(two)


def test_torn_files_are_no_results(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write_arrays("mine", "ab" * 16, {"x": np.arange(100)})
    path = store.path("mine", "ab" * 16)
    whole = path.read_bytes()
    for content in (b"", whole[:50], whole[:-1], b"\0" * 99, b"PK\x03\x04" + whole[4:90]):
        store.write("mine", "ab" * 16, content)
        assert store.read_arrays("mine", "ab" * 16) is None
    store.write_arrays("mine", "ab" * 16, {"x": np.arange(3)})
    assert store.read_arrays("mine", "ab" * 16)["x"].tolist() == [0, 1, 2]


def test_pickles_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    import io

    out = io.BytesIO()
    np.savez(out, x=np.array([{"a": 1}], dtype=object))
    store.write("mine", "cd" * 16, out.getvalue())
    assert store.read_arrays("mine", "cd" * 16) is None


def test_foreign_folders(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text('{"schema": 9}')
    with pytest.raises(ArgumentError, match="schema 9, want 1"):
        Store(tmp_path)
    (tmp_path / "store.json").write_text("no json")
    with pytest.raises(FileError):
        Store(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError):
        Store(tmp_path / "file" / "store")


def _write(root: str, value: int, count: int) -> None:
    store = Store(root)
    for _ in range(count):
        store.write_arrays("mine", "ef" * 16, {"x": np.full(2000, value)})


def test_two_writers_and_a_reader(tmp_path: Path) -> None:
    """Readers never see a bad file, whoever writes; nothing is left over."""
    Store(tmp_path)
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_write, args=(str(tmp_path), 7, 150)) for _ in range(2)]
    for writer in writers:
        writer.start()
    store, seen = Store(tmp_path), 0
    while any(writer.is_alive() for writer in writers) or not seen:
        if not store.exists("mine", "ef" * 16):
            continue
        arrays = store.read_arrays("mine", "ef" * 16)
        if arrays is None and os.name == "nt":
            continue  # Windows opens no file in the moment in which it is replaced
        assert arrays is not None, "a file that does not parse"
        assert arrays["x"].shape == (2000,) and (arrays["x"] == 7).all()
        seen += 1
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert seen
    assert not list(tmp_path.rglob(".part-*"))


def test_threads(tmp_path: Path) -> None:
    threads = [threading.Thread(target=_write, args=(str(tmp_path), 1, 40)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Store(tmp_path).read_arrays("mine", "ef" * 16) is not None


def test_a_store_at_a_url() -> None:
    pytest.importorskip("fsspec", reason="no fsspec here (extra cluster)")
    url = f"memory://{key_of('a store at a url')}/store"
    store = Store(url)
    assert store.where == url and not store.exists("pairs", "ab" * 16)
    store.write_arrays("pairs", "ab" * 16, pair_arrays())
    store.write_json("failed", "cd" * 16, FAILED)
    back = Store(url).read_arrays("pairs", "ab" * 16, ("matches",))
    assert back is not None and back["matches"] == 3
    assert list(store.keys("pairs")) == ["ab" * 16]
    assert store.read_json("failed", "cd" * 16) == FAILED
    with store.packing():
        store.write("pairs", "ef" * 16, b"held")
        assert store.read("pairs", "ef" * 16) == b"held" and not Store(url).exists("pairs", "ef" * 16)
    assert Store(url).read("pairs", "ef" * 16) == b"held"
    assert {kind: files for kind, (files, _) in sizes(store).items()} == {
        "failed": 1, "packs": 1, "pairs": 1, "store.json": 1,
    }  # fmt: skip
    store.remove("failed", "cd" * 16, ".json")
    assert not store.exists("failed", "cd" * 16, ".json") and store.read_json("failed", "cd" * 16) is None
    with pytest.raises(ArgumentError, match="no folder"):
        store.path("pairs", "ab" * 16)
    with pytest.raises((ArgumentError, DependencyError), match="nosuch"):
        Store("nosuch://bucket/store")


def test_a_url_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(DependencyError, match=r"mast3r-runtime\[cluster\]"):
        Store("memory://bucket/store")


def test_check_removes_what_is_damaged_and_left_over(tmp_path: Path) -> None:
    store = Store(tmp_path)
    arrays = {"tokens": np.ones((3, 4), np.float16), "transform": WINDOW}
    whole = safetensors.pack(arrays)
    for name, data in (("aa", whole), ("bb", whole[:-1]), ("cc", whole[:-3] + b"\1\2\3")):
        store.write("features", f"{name * 12}-{name * 6}-{name * 6}", data, ".safetensors")
    store.write_arrays("pairs", "dd" * 16, pair_arrays())
    store.write("pairs", "ee" * 16, b"PK")
    store.write("runs", "ff" * 6, b"{", ".json")
    gone = multiprocessing.get_context("spawn").Process(target=print)
    gone.start()
    gone.join()
    host = socket.gethostname()
    parts = {
        f".part-{host}-{gone.pid}-00000000": os.name != "nt",  # its process is gone; not known on Windows
        f".part-{host}-{os.getpid()}-00000000": False,  # somebody writes it now
        ".part-other-host-17-00000000": False,  # another machine's, from just now
        ".part-other-host-18-00000000": True,  # and from long ago
    }
    for name in parts:
        (tmp_path / "pairs" / "dd" / name).write_bytes(b"half")
    os.utime(tmp_path / "pairs" / "dd" / ".part-other-host-18-00000000", (1, 1))
    done = check(store)
    assert done.files == 7 and len(done.leftovers) == sum(parts.values())
    assert {name.split("/")[1] for name in done.damaged} == {"bb", "cc", "ee", "ff"}
    assert {n for n, left in parts.items() if (tmp_path / "pairs" / "dd" / n).exists()} == {
        n for n, over in parts.items() if not over
    }
    assert check(store).damaged == () and store.read_arrays("pairs", "dd" * 16) is not None


def test_a_store_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Full and read-only end a run; what another try may mend is another error."""
    store = Store(tmp_path)
    for number, kind in ((errno.ENOSPC, StoreError), (errno.EROFS, StoreError), (errno.EIO, FileError)):

        def fails(part: Path, target: Path, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(places.Folder, "_rename", staticmethod(fails))
        with pytest.raises(kind) as caught:
            store.write("pairs", "ab" * 16, b"x")
        assert type(caught.value) is kind
    assert not list(tmp_path.rglob(".part-*"))


@pytest.mark.parametrize(
    "name", ["../../../x", "/x", "a/b", "", ".", "..", "a\\b", "x\n", "é", "x" + chr(0), 3, None]
)
def test_keys_stay_in_the_store(tmp_path: Path, name: object) -> None:
    """What a kind, a key or a suffix says never leads to a file elsewhere."""
    store = Store(tmp_path / "s")
    good = ("pairs", "ab" * 16, ".npz")
    for place in range(3):
        kind, key, suffix = (name if k == place else value for k, value in enumerate(good))
        if place == 2 and name == "":
            continue  # a file without a suffix
        with pytest.raises(ArgumentError, match=r"store: (kind|key|suffix)"):
            store.write(kind, key, b"x", suffix)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError):
            store.read(kind, key, suffix)  # type: ignore[arg-type]
    assert [p.name for p in tmp_path.iterdir()] == ["s"] and os.listdir(tmp_path / "s") == ["store.json"]


def test_a_zip_is_no_pack() -> None:
    """The end of a pack that was cut is a whole zip, that of its last member: it is no pack."""
    member = io.BytesIO()
    np.savez(member, a=np.arange(3))
    whole = packs.packed({"pairs/ab/ab.npz": member.getvalue()})
    assert zips.opened(io.BytesIO(whole), packs.COMMENT).namelist() == ["pairs/ab/ab.npz"]
    with pytest.raises(zipfile.BadZipFile, match="mast3r-runtime pack"):
        zips.opened(io.BytesIO(member.getvalue()), packs.COMMENT)


def test_fsync_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fsync each entry is on the disk before it has its name; without, nobody waits."""
    synced: list[bool] = []
    for fsync in (True, False):
        store = Store(tmp_path / str(fsync), fsync=fsync)
        target = key_of({"a": 1})
        place = tmp_path / str(fsync) / "pairs" / target[:2] / f"{target}.npz"
        monkeypatch.setattr(os, "fsync", lambda _, place=place: synced.append(not place.exists()))
        synced.clear()
        store.write_arrays("pairs", target, {"a": np.zeros(3)})
        assert synced == ([True] if fsync else [])
