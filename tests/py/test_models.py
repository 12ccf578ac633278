# SPDX-License-Identifier: Apache-2.0
"""Model files: what is refused and how (T15), PyTorch files, conversion."""

from __future__ import annotations

import json
import logging
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch_file
from conftest import assert_same, noise

import mast3r_runtime as m3r
from mast3r_runtime import cli, errors
from mast3r_runtime._library import calls, structs
from mast3r_runtime.backends._cpu import CPUEngine

MICRO_ARGS = torch_file.ARGS.replace("two_confs", "enc_num_heads=2, dec_num_heads=3, two_confs")


def tensors_of(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """A safetensors file, read by the book; padding included."""
    raw = path.read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    header: dict[str, Any] = json.loads(raw[8 : 8 + size])
    meta = header.pop("__metadata__", {})
    kinds = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "U8": "u1", "BF16": "<u2"}
    data = raw[8 + size :]
    return {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], kinds[entry["dtype"]]).reshape(
            entry["shape"]
        )
        for name, entry in header.items()
    }, meta


@pytest.fixture(scope="session")
def checkpoint(micro: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The micro model as torch.save would write it: a wrapper's prefix, aliases on one storage."""
    tensors, _ = tensors_of(micro)
    for k in range(4):
        for side in (1, 2):
            head = f"downstream_head{side}.dpt.scratch"
            tensors[f"{head}.layer_rn.{k}.weight"] = tensors[f"{head}.layer{k + 1}_rn.weight"]
    path = tmp_path_factory.mktemp("torch") / "checkpoint.pth"
    named = {f"module.{name}": array for name, array in tensors.items()}
    torch_file.save(path, named, args=torch_file.arguments(MICRO_ARGS), epoch=3)
    return path


def run(path: Path, rng: np.random.Generator, precision: str = "fp32") -> m3r.InferenceResult:
    pair = [noise(rng, 48, 64), noise(rng, 64, 48)]
    with CPUEngine("auto", 96, precision, 2) as engine:
        engine.load(path)
        return engine.infer_gpu(*pair, preprocess=False).numpy()


def test_checkpoint_runs_as_the_same_model(micro: Path, checkpoint: Path, tmp_path: Path) -> None:
    want = run(micro, np.random.default_rng(1))
    assert_same(run(checkpoint, np.random.default_rng(1)), want)
    (written,) = m3r.convert(checkpoint, tmp_path / "new" / "model", dtype="fp32", progress=False)
    assert written == tmp_path / "new" / "model" / "unified.safetensors"
    assert_same(run(written.parent, np.random.default_rng(1)), want)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "keep"])
def test_convert(checkpoint: Path, micro: Path, tmp_path: Path, dtype: str) -> None:
    seen: list[tuple[int, int]] = []
    (written,) = m3r.convert(
        checkpoint, tmp_path / "out.safetensors", dtype=dtype, progress=lambda *a: seen.append(a)
    )
    got, meta = tensors_of(written)
    source, _ = tensors_of(micro)
    assert meta["enc_heads"] == "2" and meta["desc_conf_mode"] == "exp,0,inf"
    assert not any(".layer_rn." in name or name.startswith("module.") for name in got)
    for name, want in source.items():
        if ".layer_rn." in name:
            continue
        if dtype == "bf16":
            bits = want.view(np.uint32)
            want = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        np.testing.assert_array_equal(got[name], want.astype(np.float16) if dtype == "fp16" else want, name)
    raw = written.read_bytes()
    start = 8 + struct.unpack_from("<Q", raw)[0]
    offsets = [e["data_offsets"][0] for n, e in json.loads(raw[8:start]).items() if n in got and e]
    assert all((start + o) % 16384 == 0 for o, n in zip(offsets, got) if not n.startswith("__padding__"))
    assert seen and seen[-1][0] == seen[-1][1] > 0
    assert os.listdir(tmp_path) == ["out.safetensors"]


def test_convert_places(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAST3R_CACHE_DIR", str(tmp_path / "cache"))
    beside = tmp_path / "naïve name.pth"
    beside.write_bytes(checkpoint.read_bytes())
    assert m3r.convert(beside, progress=False) == [beside.with_suffix(".safetensors")]
    for source in (beside.with_suffix(".safetensors"), tmp_path):
        with pytest.raises(errors.ArgumentError, match="overwritten: name a target"):
            m3r.convert(source)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "unified.pth").write_bytes(checkpoint.read_bytes())
    assert m3r.convert(folder, progress=False) == [folder / "unified.safetensors"]
    place = m3r.get_checkpoint_paths("mast3r_vit_large")["unified"]
    with pytest.raises(errors.ModelNotFoundError, match="mast3r download mast3r_vit_large"):
        m3r.convert("mast3r_vit_large")
    place.parent.mkdir(parents=True)
    place.write_bytes(checkpoint.read_bytes())
    m = tmp_path / "cache" / "safetensors" / "mast3r_vit_large"
    assert m3r.convert("mast3r_vit_large", progress=False) == [m / "unified.safetensors"]
    assert {s.variant: s.path for s in m3r.status()}["mast3r_vit_large"] == m


def test_convert_codebook(tmp_path: Path) -> None:
    centroids = np.arange(12, dtype=np.float32).reshape(4, 3)
    (tmp_path / "book.pkl").write_bytes(pickle.dumps({"type": "Codebook", "state": {"centroids": centroids}}))
    (written,) = m3r.convert(tmp_path / "book.pkl", tmp_path, dtype="fp16", progress=False)
    assert written.name == "codebook.safetensors"
    np.testing.assert_array_equal(tensors_of(written)[0]["centroids"], centroids)
    assert tensors_of(written)[0]["centroids"].dtype == np.float32


def test_convert_failures(checkpoint: Path, tmp_path: Path) -> None:
    wide = tmp_path / "wide.pth"
    torch_file.save(wide, {"w": np.array([1e5], np.float32)})
    out = tmp_path / "out.safetensors"
    for source, target, words, kind in (
        (wide, out, "element 0 is 100000, which does not fit in f16", errors.WeightsError),
        (tmp_path / "gone.pth", out, "gone.pth", errors.ModelNotFoundError),
        (checkpoint, wide / "x.safetensors", "wide.pth", errors.FileError),
        (Path(os.devnull), out, "null", errors.Mast3rError),
    ):
        with pytest.raises(kind, match=words):
            m3r.convert(source, target, progress=False)
    with pytest.raises(errors.ArgumentError, match="int8.*fp32, fp16, bf16"):
        m3r.convert(wide, out, dtype="int8")
    assert sorted(os.listdir(tmp_path)) == ["wide.pth"]


def test_convert_is_cancelled(tmp_path: Path) -> None:
    """An exception in the progress function stops the work and leaves nothing."""
    source = tmp_path / "large.pth"
    torch_file.save(source, {"w": np.zeros((64, 1 << 20), np.float32)})

    class Stop(Exception):
        pass

    def progress(done: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        m3r.convert(source, tmp_path / "out.safetensors", progress=progress)
    assert os.listdir(tmp_path) == ["large.pth"]


# ---- T15 -----------------------------------------------------------------


def image(header: Any, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


ONE = entry("F32", [1], 0, 4)

HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "ends too early"),
    "truncated": (image({"a": entry("F32", [4], 0, 16)}, b"1234"), 'ends too early.*"a".*4 bytes.*16'),
    "header of 2^63": (image({}, size=2**63), "header length.*9223372036854775808"),
    "overlap": (image({"a": ONE, "b": entry("F32", [1], 2, 6)}, b"123456"), 'overlapping.*"b".*2 to 6'),
    "past the end": (image({"a": ONE, "b": entry("F32", [1], 90, 94)}, b"1234"), 'out of range.*"b"'),
    "unknown dtype": (image({"a": entry("F8_E4M3", [4], 0, 4)}, b"1234"), 'unknown dtype.*"a".*F8_E4M3'),
    "bytes": (image({"a": entry("F32", [3], 0, 4)}, b"1234"), 'byte count.*"a".*4 bytes.*12 for'),
    "duplicate key": (
        image(b'{"a":%s,"a":%s}' % ((json.dumps(ONE).encode(),) * 2), b"1234"),
        'duplicate key.*"a"',
    ),
    "LFS pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n",
        "LFS pointer.*git lfs pull",
    ),
    "old torch": (
        b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.",
        "old kind.*1.6.*newer PyTorch",
    ),
    "pickle bomb": (b"\x80\x04cposix\nsystem\n\x8c\x04true\x85R.", '"posix.system"'),
    "zip cut short": (b"PK\x03\x04" + bytes(100), "damaged PyTorch archive.*cut short"),
    "no model": (image({"a": ONE}, b"1234"), "no network of a known family: none of enc_blocks.0"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_file(name: str, engine: CPUEngine, tmp_path: Path) -> None:
    """Each kind of damage has a text of its own; the loaded model stays."""
    data, words = HOSTILE[name]
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises(errors.WeightsError, match=words) as caught:
        engine.load(path)
    assert str(path) in str(caught.value) and engine.is_ready()


def write(path: Path, tensors: dict[str, np.ndarray], meta: dict[str, str]) -> None:
    header: dict[str, Any] = {"__metadata__": meta}
    blobs, at = [], 0
    kinds = {"float32": "F32", "float16": "F16", "uint16": "BF16", "float64": "F64"}
    for name, array in tensors.items():
        blob = array.tobytes()
        header[name] = entry(kinds[array.dtype.name], list(array.shape), at, at + len(blob))
        at += len(blob)
        blobs.append(blob)
    path.write_bytes(image(header, b"".join(blobs)))


Edit = Callable[[dict[str, np.ndarray]], Any]
NORM = "dec_norm.weight"

WRONG: dict[str, tuple[Edit, str]] = {
    "missing key": (lambda t: t.pop(NORM), 'missing tensor.*"dec_norm.weight".*want \\[48\\]'),
    "wrong shape": (
        lambda t: t.update({NORM: t[NORM][:5]}),
        'wrong shape.*"dec_norm.weight".*got \\[5\\].*want \\[48\\]',
    ),
    "0-d tensor": (
        lambda t: t.update({NORM: np.float32(1).reshape(())}),
        'wrong shape.*"dec_norm.weight".*got \\[\\]',
    ),
    "two contents": (
        lambda t: t.update(
            {
                "downstream_head1.dpt.scratch.layer_rn.0.weight": 2
                * t["downstream_head1.dpt.scratch.layer1_rn.weight"]
            }
        ),
        "different contents",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_tensor(name: str, micro: Path, tmp_path: Path) -> None:
    tensors, meta = tensors_of(micro)
    edit, words = WRONG[name]
    edit(tensors)
    write(tmp_path / "m.safetensors", tensors, meta)
    with pytest.raises(errors.WeightsError, match=words):
        run(tmp_path / "m.safetensors", np.random.default_rng(1))


def test_extra_keys_are_reported(micro: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tensors, meta = tensors_of(micro)
    tensors["surplus.weight"] = np.zeros(3, np.float32)
    write(tmp_path / "m.safetensors", tensors, meta)
    with caplog.at_level(logging.WARNING, "mast3r_runtime"):
        got = run(tmp_path / "m.safetensors", np.random.default_rng(1))
    assert "surplus.weight" in caplog.text
    assert_same(got, run(micro, np.random.default_rng(1)))


def test_bfloat16_file(micro: Path, tmp_path: Path) -> None:
    """BF16 tensors are read as the numbers they are."""
    tensors, meta = tensors_of(micro)
    cut = {name: array.view(np.uint32) & 0xFFFF0000 for name, array in tensors.items()}
    write(tmp_path / "f32.safetensors", {n: a.view(np.float32) for n, a in cut.items()}, meta)
    write(tmp_path / "bf16.safetensors", {n: (a >> 16).astype(np.uint16) for n, a in cut.items()}, meta)
    want = run(tmp_path / "f32.safetensors", np.random.default_rng(1))
    assert_same(run(tmp_path / "bf16.safetensors", np.random.default_rng(1)), want)


def test_pth_without_args(micro: Path, tmp_path: Path) -> None:
    """Shapes say nearly everything; heads of 64 are assumed, which micro's do not fit."""
    tensors, _ = tensors_of(micro)
    torch_file.save(tmp_path / "bare.pth", tensors)
    with pytest.raises(errors.WeightsError, match="heads for dimension 48"):
        run(tmp_path / "bare.pth", np.random.default_rng(1))
    torch_file.save(tmp_path / "args.pth", tensors, args=torch_file.arguments(MICRO_ARGS))
    assert_same(run(tmp_path / "args.pth", np.random.default_rng(1)), run(micro, np.random.default_rng(1)))


def test_another_kind_of_model(micro: Path, tmp_path: Path) -> None:
    tensors, _ = tensors_of(micro)
    for old, new, words in (
        ("two_confs=True", "two_confs=False", "another kind.*two_confs"),
        ("catmlp+dpt", "linear", "another kind.*head_type"),
        ("('exp', 1, inf)", "('sigmoid', 0, 1)", "conf_mode.*sigmoid"),
    ):
        torch_file.save(tmp_path / "m.pth", tensors, args=torch_file.arguments(MICRO_ARGS.replace(old, new)))
        with pytest.raises(errors.WeightsError, match=words):
            run(tmp_path / "m.pth", np.random.default_rng(1))


# ---- command line --------------------------------------------------------


def test_command_line(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["convert", str(checkpoint), str(tmp_path / "m"), "--dtype", "fp16", "--json"]) == 0
    printed = capsys.readouterr()
    written = tmp_path / "m" / "unified.safetensors"
    assert json.loads(printed.out) == {str(written): written.stat().st_size}
    assert cli.main(["convert", str(tmp_path / "none.pth")]) == 1
    assert "none.pth" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["convert", str(checkpoint), "--dtype", "int8"])


def test_handles_are_given_back() -> None:
    stats = structs.struct(structs.Stats)
    calls.call("mast3r_live", stats)
    assert stats.jobs == 0
