# SPDX-License-Identifier: Apache-2.0
"""Care for a store: what is not the store's stays, what is damaged is found and is no result.

Every test walks the table of kinds: a kind that is added is tried here, or made_store fails.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from made_store import FAILED, PICTURE, RUN, answer, contents, fill, npz, pair_arrays

from mast3r_runtime import cli
from mast3r_runtime._pairs import record
from mast3r_runtime._pairs.rule import Rule
from mast3r_runtime._scene import memo
from mast3r_runtime._store import care, kinds, packs, places
from mast3r_runtime.errors import ArgumentError, FileError, Mast3rError, StoreError
from mast3r_runtime.store import Store, check, foreign, sizes

RUN_KEY = "e6" * 6


def test_a_file_of_every_kind() -> None:
    """The table, and what these tests try, are the same; every file is whole and has a name of its own."""
    made = contents()
    assert {name.partition("/")[0] for name in made} == set(kinds.KINDS)
    for name, data in made.items():
        assert kinds.own(name) is not None, name
        assert packs.whole(data) if name.startswith("packs/") else kinds.whole(name, data), name


# ---- what is not the store's ---------------------------------------------


def strange(rng: random.Random, name: str) -> list[str]:
    """Names that a user's file may have, near to one of the store's."""
    kind, head, last = name.split("/")
    stem, dot, suffix = last.rpartition(".")
    other = format(rng.randrange(256), "02x")
    return [
        f"{kind}/room_00.jpg", f"{kind}/originals.zip", f"{kind}/{head}/room.jpg", f"{kind}/{last}",
        f"{kind}/{head}/deep/{last}", f"{kind}/{'ff' if head != 'ff' else '00'}/{last}",
        f"{kind}/{head}/{stem}.jpg", f"{kind}/{head}/{last}.bak", f"{kind}/{head}/{last.upper()}",
        f"{kind}/{head}/{stem[:-1]}{dot}{suffix}", f"{kind}/{head}/{stem}{other}{dot}{suffix}",
        f"{kind}/{head}/{stem}\n{dot}{suffix}", f"my{kind}/{head}/{last}", f"photos/{kind}/{head}/{last}",
        f"{kind}/.part-holiday", f"{kind}/{head}/.part-holiday", f"trip/.part-{'a' * 3}-1-0123abcd",
        f"{kind}/{head}/.part-h-1-0123abcd.jpg",
    ]  # fmt: skip


def foreign_files(root: Path) -> dict[str, bytes]:
    rng = random.Random(5)
    out = {"backup.zip": b"PK", "settings.json": b"{ // mine", "model.safetensors": b"\0" * 9, "x.npz": b""}
    for name in contents():
        out |= {own: rng.randbytes(20) for own in strange(rng, name)}
    # A zip of the user's with the very name of a pack: it has another end.
    out[f"packs/ab/{'ab' * 16}.zip"] = npz({"a": np.arange(3)})
    for name, data in out.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
        os.utime(root / name, (1, 1))  # long ago: nobody writes it
    return out


def files(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


VERBS = [
    [], ["--size"], ["--list", "runs"], ["--list", "failed"], ["--check"], ["--check", "--dry-run"],
    ["--gc", RUN_KEY], ["--gc", RUN_KEY, "--dry-run"],
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_no_verb_touches_what_is_not_the_stores(
    tmp_path: Path, verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    fill(Store(tmp_path))
    mine = foreign_files(tmp_path)
    before = files(tmp_path)
    assert cli.main(["store", str(tmp_path), *verb]) == 0
    after = files(tmp_path)
    assert {name: after.get(name) for name in mine} == mine
    if "--dry-run" in verb or verb[:1] not in (["--check"], ["--gc"]):
        assert after == before
    text = capsys.readouterr().out
    if "--list" not in verb:  # how many, and some names
        # what has the form of a file that is being written is not looked at
        count = len([name for name in mine if not re.search(r"/\.part-aaa-1-0123abcd$", name)])
        assert f"{count} files here are not the store's and stay as they are: 'backup.zip'" in text
    assert "room_00.jpg" not in "".join(re.findall("^damaged.*", text, re.M))


def test_gc_and_check_remove_the_stores_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are not merely harmless: what they are for goes, and a dry run names it before."""
    store = Store(tmp_path)
    made = fill(store)
    stay = {n for n in made if n.partition("/")[0] in ("runs", "solved", "sift")} | {"store.json"}
    assert cli.main(["store", str(tmp_path), "--gc", RUN_KEY, "--dry-run"]) == 0
    text = capsys.readouterr().out
    gone = {name for name in made if name in text}
    # the record of picture a is the run's own
    assert gone == set(made) - stay - {f"pictures/5a/{'5a' * 32}.json"}
    assert cli.main(["store", str(tmp_path), "--gc", RUN_KEY]) == 0
    assert set(files(tmp_path)) == ({*made, "store.json"}) - gone
    fill(store)
    for name in made:
        (tmp_path / name).chmod(0o644)
        data = bytearray(made[name])
        data[len(data) // 3] ^= 0x80  # a JSON text is no UTF-8 then
        (tmp_path / name).write_bytes(data)
    assert cli.main(["store", str(tmp_path), "--check", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert all(f"damaged: {name}\n" in text + "\n" for name in made) and len(files(tmp_path)) == len(made) + 1
    assert set(check(store).damaged) == set(made) and set(files(tmp_path)) == {"store.json"}


def test_dry_run_alone_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(tmp_path)
    assert cli.main(["store", str(tmp_path), "--dry-run"]) == 1
    assert "--gc or --check" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_lead_nowhere(tmp_path: Path) -> None:
    """A folder or a file of the store's name that is a link to another place."""
    store, elsewhere = Store(tmp_path / "s"), tmp_path / "elsewhere"
    made = contents()
    for name in made:
        (elsewhere / name).parent.mkdir(parents=True, exist_ok=True)
        (elsewhere / name).write_bytes(b"torn")
    names = list(made)
    for name in names[::3]:  # the folder of a kind
        (tmp_path / "s" / name.split("/")[0]).symlink_to(elsewhere / name.split("/")[0])
    for name in names[1::3]:  # a folder below
        target = tmp_path / "s" / name.rpartition("/")[0]
        target.parent.mkdir(parents=True)
        target.symlink_to((elsewhere / name).parent)
    for name in names[2::3]:  # a file
        (tmp_path / "s" / name).parent.mkdir(parents=True)
        (tmp_path / "s" / name).symlink_to(elsewhere / name)
    (tmp_path / "s" / "loop").symlink_to(tmp_path / "s")
    before = files(elsewhere)
    done = check(store)
    assert done.damaged == () and done.files == 1 and len(done.foreign) == len(names) + 1
    assert care.collect(store, ()).files == () and len(foreign(store)) == len(names) + 1
    assert files(elsewhere) == before and len(sizes(store)) == 1
    with pytest.raises(FileError, match="behind a link"):
        kind, key = kinds.own(names[0])  # type: ignore[misc]
        store.remove(kind, key, kinds.suffix_of(kind))
    for name in names[:2]:  # behind a folder of a kind, and behind one below
        kind, key = kinds.own(name)  # type: ignore[misc]
        with pytest.raises(FileError, match="behind a link"):
            store.write(kind, key, b"new", kinds.suffix_of(kind))
    assert files(elsewhere) == before
    (tmp_path / "whole").symlink_to(tmp_path / "other")
    (tmp_path / "other").mkdir()
    assert len(fill(Store(tmp_path / "whole"))) == len(files(tmp_path / "other")) - 1
    assert check(Store(tmp_path / "whole")).files == len(names) + 1


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="a file that its owner cannot read")
def test_what_cannot_be_read_is_not_called_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path)
    name = next(iter(fill(store)))
    (tmp_path / name).chmod(0)
    assert check(store).unreadable == (name,) and (tmp_path / name).exists()


def test_what_the_disk_does_not_give_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    made = fill(store)
    real = places.Folder.open

    def fails(self: places.Folder, name: str) -> object:
        if name.startswith("pairs/"):
            raise OSError(5, "Input/output error")
        return real(self, name)

    monkeypatch.setattr(places.Folder, "open", fails)
    done = check(store)
    assert [n.partition("/")[0] for n in done.unreadable] == ["pairs"] and done.damaged == ()
    assert set(files(tmp_path)) == {*made, "store.json"}


def test_the_same_rule_at_a_url() -> None:
    pytest.importorskip("fsspec", reason="no fsspec here (extra cluster)")
    store = Store(f"memory://{os.urandom(8).hex()}/my/store")
    made = fill(store)
    mine = {"photos/a.jpg": b"1", "pairs/room.jpg": b"2", f"packs/ab/{'ab' * 16}.zip": b"PK"}
    for name, data in mine.items():
        store.place.write(name, data)
    store.place.write(f"pairs/aa/{'aa' * 16}.npz", b"torn")
    assert set(foreign(store)) == set(mine)
    assert check(store, dry=True).damaged == (f"pairs/aa/{'aa' * 16}.npz",)
    done = check(store)
    assert done.damaged == (f"pairs/aa/{'aa' * 16}.npz",) and set(done.foreign) == set(mine)
    assert len(care.collect(store, ()).files) == len(made) - 3
    for name, data in mine.items():
        with store.place.open(name) as file:
            assert file.read() == data


def test_a_verb_makes_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fsspec", reason="no fsspec here (extra cluster)")
    for where in (str(tmp_path), f"memory://{os.urandom(8).hex()}", f"file://{tmp_path}"):
        assert cli.main(["store", where]) == 1
        assert "there is none" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# ---- damage that parses --------------------------------------------------


def directory(data: bytes) -> range:
    """The bytes of a zip's directory and end record."""
    end = data.rindex(b"PK\5\6")
    return range(int.from_bytes(data[end + 16 : end + 20], "little"), len(data))


@pytest.mark.parametrize("name", [n for n in contents() if n.endswith(".npz")])
def test_a_bit_of_a_zips_directory(tmp_path: Path, name: str) -> None:
    """Each bit in turn: the arrays are those that were written, or there are none, and --check knows."""
    store = Store(tmp_path)
    kind, key = kinds.own(name)  # type: ignore[misc]
    whole = contents()[name]
    store.write(kind, key, whole)
    wanted = store.read_arrays(kind, key)
    assert wanted is not None
    path = store.path(kind, key)
    path.chmod(0o644)
    missed = 0
    for at in directory(whole):
        for bit in range(8):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            path.write_bytes(data)
            got = store.read_arrays(kind, key)
            assert (got is not None) == kinds.whole(name, bytes(data)), (at, bit)
            if got is None:
                missed += 1
                continue
            assert got.keys() == wanted.keys(), (at, bit)
            assert all(np.array_equal(got[n], wanted[n], equal_nan=got[n].dtype.kind == "f") for n in got)
    assert missed


def test_members_that_a_bit_hides(tmp_path: Path) -> None:
    """The length of a member's comment swallows the members behind it: zipfile sees nothing."""
    whole = contents()[f"pairs/c4/{'c4' * 16}.npz"]
    start = directory(whole).start
    second = whole.index(b"PK\1\2", start + 4)
    data = bytearray(whole)
    data[start + 32 : start + 34] = (len(data) - second - 22).to_bytes(2, "little")
    import io
    import zipfile

    assert len(zipfile.ZipFile(io.BytesIO(data)).namelist()) == 1
    store = Store(tmp_path)
    store.write("pairs", "c4" * 16, bytes(data))
    assert store.read_arrays("pairs", "c4" * 16) is None
    assert store.read_arrays("pairs", "c4" * 16, ("xy_1",)) is None
    assert len(check(store).damaged) == 1


def test_arrays_of_another_kind(tmp_path: Path) -> None:
    """An npz that parses but is not what its kind's readers need is no result, and is found."""
    store = Store(tmp_path)
    good = pair_arrays()
    bad = [
        {n: v for n, v in good.items() if n != missing} for missing in good
    ] + [
        good | {"xy_1": np.zeros((3, 3), np.float32)}, good | {"xy_2": np.zeros((2, 2), np.float32)},
        good | {"xy_1": np.full((3, 2), np.nan, np.float32)}, good | {"xy_1": np.zeros((3, 2))},
        good | {"weight": np.full(3, np.inf, np.float32)}, good | {"verdict": np.int8(3)},
        good | {"verdict": np.int8(-1)}, good | {"matches": np.int32(2)}, good | {"made_by": b"x"},
        good | {"transform_1": np.zeros(8, np.int32)}, good | {"transform_1": np.arange(7, dtype=np.int32)},
        good | {"focal_1": np.zeros(2)}, {},
    ]  # fmt: skip
    for arrays in bad:
        store.write_arrays("pairs", "ab" * 16, arrays)
        assert store.read_arrays("pairs", "ab" * 16) is None, list(arrays)
        assert len(check(store, dry=True).damaged) == 1
    store.write_arrays("pairs", "ab" * 16, good)
    assert store.read_arrays("pairs", "ab" * 16) is not None and check(store).damaged == ()


@pytest.mark.parametrize("lost", ["tokens", "transform"])
def test_features_whose_header_has_another_name(tmp_path: Path, lost: str) -> None:
    """The checksum is of the data; a bit in the header renames an array."""
    from mast3r_runtime._store import safetensors

    store = Store(tmp_path)
    name = next(name for name in fill(store) if name.startswith("features/"))
    kind, key = kinds.own(name)  # type: ignore[misc]
    arrays = store.read_arrays(kind, key)
    assert arrays is not None
    arrays[f"{lost[:-1]}?"] = arrays.pop(lost)
    store.write(kind, key, safetensors.pack(arrays), ".safetensors")
    assert store.read_arrays(kind, key) is None and check(store).damaged == (name,)


def test_a_header_that_promises_too_much(tmp_path: Path) -> None:
    """An array of 2^60 bytes, by its header, takes no memory: it is damage, and no lack of memory."""
    import io
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,), }"
        archive.writestr("xy_1.npy", b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text)
    store = Store(tmp_path)
    store.write("sift", "ab" * 16, out.getvalue())
    assert store.read_arrays("sift", "ab" * 16) is None and len(check(store).damaged) == 1


# ---- records of any content ----------------------------------------------


def mutated(rng: random.Random, value: object) -> object:
    """A JSON value with one thing in it changed."""
    wild = [None, True, -1, 0, 2**70, 1.5, 1e400, "", "x", "\0", "\ud800", [], {}, [[]], "9" * 70]
    if isinstance(value, dict) and value and rng.random() < 0.8:
        out = dict(value)
        key = rng.choice(list(out))
        if rng.random() < 0.2:
            del out[key]
        else:
            out[key] = mutated(rng, out[key])
        return out
    if isinstance(value, list) and value and rng.random() < 0.7:
        out_list = list(value)
        out_list[rng.randrange(len(out_list))] = mutated(rng, rng.choice(value))
        return out_list
    return rng.choice(wild)


def test_records_of_any_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs, failures and pictures: each record is read, or is a typed error or a miss; no verb ends badly."""
    rng = random.Random(3)
    store = Store(tmp_path)
    made = fill(store)
    whole = {"runs": RUN, "failed": FAILED, "pictures": PICTURE}
    for number in range(400):
        for kind, value in whole.items():
            name = next(n for n in made if n.startswith(f"{kind}/"))
            raw = json.dumps(mutated(rng, value)).encode()
            if rng.random() < 0.2:
                raw = raw[: rng.randrange(len(raw) + 1)] + rng.randbytes(rng.randrange(3))
            store.place.write(name, raw)
        try:
            run = record.read_run(store, RUN_KEY)
            record.status(store, run)
            record.needed(run)
        except Mast3rError:
            pass
        assert all(len(f["pair"]) == 2 for f in care.failures(store))
        if number % 40 == 0:
            for verb in VERBS[:4] + [VERBS[5], VERBS[7]]:
                assert cli.main(["store", str(tmp_path), *verb]) in (0, 1), (verb, raw)
    capsys.readouterr()
    store.place.write(f"runs/e6/{RUN_KEY}.json", json.dumps(RUN).encode())
    store.place.write(f"runs/ab/{'ab' * 6}.json", b"[1]")
    assert cli.main(["store", str(tmp_path), "--list", "runs"]) == 0
    text = capsys.readouterr().out
    assert f"{'ab' * 6}: damaged" in text and f"{RUN_KEY}: 2 pictures" in text


@pytest.mark.parametrize("field, value", [("stride", "8"), ("stride", 0), ("model", None), ("more", 1)])
def test_a_rule_of_another_form(field: str, value: object) -> None:
    good = Rule("ab", 64, "fp32").record()
    assert Rule.from_record(good).record() == good
    with pytest.raises(ArgumentError):
        Rule.from_record(good | {field: value})
    with pytest.raises(ArgumentError):
        Rule.from_record({name: v for name, v in good.items() if name != "stride"})


def test_a_solvers_answer_of_any_content() -> None:
    """The facts are JSON inside an npz: what they say is an answer, or none."""
    rng = random.Random(4)
    arrays = {name: np.asarray(value) for name, value in memo._packed(answer()).items()}
    known = memo._unpacked(arrays)
    assert known is not None and known.verified.inliers == {(0, 1): 30}
    facts = json.loads(str(arrays["facts"]))
    none = 0
    for _ in range(500):
        text = json.dumps(mutated(rng, facts))
        none += memo._unpacked(arrays | {"facts": np.array(text)}) is None
    assert none > 100


# ---- where a store is ----------------------------------------------------


def test_file_urls_are_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target = (tmp_path / "a b" / "s").as_posix()
    plain = "/" + target.lstrip("/")
    quoted = plain.replace(" ", "%20")
    for where in (
        f"file://{quoted}", f"file:{quoted}", f"file://localhost{quoted}", f"FILE://{quoted}",
        f"local://{quoted}", f"File://LocalHost{quoted}", str(tmp_path / "a b" / "s"), "a b/s",
    ):  # fmt: skip
        assert places.location(where) == os.path.abspath(target), where
        Store(where)
        assert [p.name for p in tmp_path.iterdir()] == ["a b"], where
        shutil.rmtree(tmp_path / "a b")
    for where in ("file://other/x", "file:x", "file://x", "s3:/bucket/x", "file:"):
        with pytest.raises(ArgumentError, match="want"):
            Store(where)
    assert list(tmp_path.iterdir()) == []
    assert places.location("S3://Bucket/x") == "s3://Bucket/x"
    assert places.location("C:\\x") == os.path.abspath("C:\\x")
    assert places.location("./s3:/x") == os.path.abspath("s3:/x")


def test_a_full_store_is_status_5_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any verb: who runs jobs can tell a full disk from a mistake."""

    def full(self: places.Folder, name: str, data: bytes) -> None:
        raise StoreError("no space left")

    monkeypatch.setattr(places.Folder, "write", full)
    from PIL import Image

    folder, out = tmp_path / "p", tmp_path / "o"
    folder.mkdir()
    for n in range(2):
        Image.new("RGB", (64, 48), (n, 0, 0)).save(folder / f"{n}.png")
    small = ["--resolution", "64", "--backend", "cpu"]
    assert cli.main(["batch", str(folder), "--store", str(out), *small]) == 5
    pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene)")
    assert cli.main(["reconstruct", str(folder), "-o", str(out), *small]) == 5
    assert "no space left" in capsys.readouterr().err
