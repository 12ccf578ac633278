# SPDX-License-Identifier: Apache-2.0
"""Published models: names, places, sources, status (T16); small stand-ins are served."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch_file
from conftest import ROOT, child_environment, noise
from file_server import Served, Server, serving
from test_models import MICRO_ARGS, tensors_of

import mast3r_runtime as m3r
from mast3r_runtime import cli, errors
from mast3r_runtime._checkpoints import convert, download, places, specs
from mast3r_runtime._commands import files as file_verbs
from mast3r_runtime.backends._cpu import CPUEngine

LARGE = "mast3r_vit_large"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and nobody's environment."""
    for name in ("HF_HUB_OFFLINE", "MAST3R_OFFLINE", "MAST3R_MIRROR", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("MAST3R_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


@pytest.fixture
def served(micro: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A mirror of the official server, with files of the micro model under the published names."""
    tensors, _ = tensors_of(micro)
    torch_file.save(tmp_path / "m.pth", tensors, args=torch_file.arguments(MICRO_ARGS))
    contents = {
        "unified": (tmp_path / "m.pth").read_bytes(),
        "codebook": pickle.dumps({"state": {"centroids": np.zeros((2, 64), np.float32)}}),
    }
    small = {
        name: dataclasses.replace(
            spec, files=tuple(dataclasses.replace(file, size_mb=6, size_bytes=0) for file in spec.files)
        )
        for name, spec in specs.MODEL_SPECS.items()
    }
    for module in (places, download, convert, file_verbs):
        monkeypatch.setattr(module, "MODEL_SPECS", small)
    files = {
        f"/{file.path}": Served(contents.get(file.role, b"").ljust(6 << 20, b"\0"))
        for file in small[LARGE].files
    }
    # Padding is no part of an archive: the pickle after the end record is not read.
    unified = next(path for path in files if path.endswith("_metric.pth"))
    files[unified].data = contents["unified"]
    assert abs(len(contents["unified"]) - (6 << 20)) < 2 << 20
    with serving(files) as server:
        monkeypatch.setenv("MAST3R_MIRROR", server.url + "/")
        yield server


def official(monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    """Put the official files elsewhere."""
    moved = {
        name: dataclasses.replace(
            spec, files=tuple(dataclasses.replace(file, base=base) for file in spec.files)
        )
        for name, spec in download.MODEL_SPECS.items()
    }
    monkeypatch.setattr(download, "MODEL_SPECS", moved)


def test_specs() -> None:
    assert list(m3r.MODEL_SPECS) == [
        LARGE,
        "dune_vit_small_336",
        "dune_vit_small_448",
        "dune_vit_base_336",
        "dune_vit_base_448",
        "da3_small",
        "da3_base",
    ]
    base = m3r.MODEL_SPECS["da3_base"]
    assert (base.patch_size, base.embed_dim, base.native_resolution) == (14, 768, 504)
    assert base.files[0].size_bytes == 541_518_028 and base.files[0].name == "da3_base.safetensors"
    assert m3r.get_checkpoint_urls("da3_base")["unified"].endswith(
        "depth-anything/DA3-BASE/resolve/main/model.safetensors"
    )
    assert "Apache-2.0" in base.license and "no commercial use" in m3r.MODEL_SPECS[LARGE].license
    large, small = m3r.MODEL_SPECS[LARGE], m3r.MODEL_SPECS[m3r.ModelVariant.DUNE_VIT_SMALL_336]
    assert (large.patch_size, large.embed_dim, large.num_heads, large.depth) == (16, 1024, 16, 24)
    assert (small.patch_size, small.embed_dim, small.num_heads, small.native_resolution) == (14, 384, 6, 336)
    assert m3r.get_total_checkpoint_size_mb(LARGE) == 2627 + 8 + 256
    assert m3r.get_total_checkpoint_size_mb("dune_vit_base_14") == 420 + 1325
    urls = m3r.get_checkpoint_urls("dune_vit_small_14")
    assert urls == {
        "encoder": "https://download.europe.naverlabs.com/dune/dune_vitsmall14_448.pth",
        "decoder": "https://download.europe.naverlabs.com/dune/dunemast3r_cvpr25_vitsmall.pth",
    }
    paths = m3r.get_checkpoint_paths(LARGE, "/x")
    assert paths["retrieval"].name.endswith("_metric_retrieval_trainingfree.pth")
    assert paths["codebook"].parent == Path("/x/checkpoints")
    with pytest.raises(TypeError):
        m3r.MODEL_SPECS["other"] = large  # type: ignore[index]


def test_unknown_variant(cache: Path) -> None:
    for call in (m3r.download, m3r.get_checkpoint_paths, m3r.get_checkpoint_urls, places.find):
        with pytest.raises(ValueError, match="'mast3r_huge'.*mast3r_vit_large.*dune_vit_base_14"):
            call("mast3r_huge")
    with pytest.raises(ValueError, match="source 'ftp', want one of auto, naver, hf"):
        m3r.download(LARGE, source="ftp")
    for variant in ("mast3r_small", "mast3r_tiny"):
        assert m3r.download(variant) == places.bundled_model(variant) == places.find(variant)
        with pytest.raises(ValueError, match=f"{variant} is in the wheel"):
            m3r.get_checkpoint_urls(variant)
    assert places.find("auto") == places.bundled_model("mast3r_small")


def test_download_load_run(served: Server, cache: Path, rng: np.random.Generator) -> None:
    calls: list[tuple[str, int, int | None]] = []
    with pytest.raises(errors.ModelNotFoundError, match=f"mast3r download {LARGE}"):
        places.find(LARGE)
    path = m3r.download(LARGE, progress=lambda *a: calls.append(a))
    paths = m3r.get_checkpoint_paths(LARGE)
    assert path == paths["unified"] == places.find(LARGE) and all(p.is_file() for p in paths.values())
    assert {name for name, *_ in calls} == {p.name for p in paths.values()}
    with CPUEngine("auto", 64, "fp32", 2) as engine:
        engine.load(path)
        assert engine.infer_gpu(noise(rng, 48, 64), noise(rng, 48, 64)).pts3d_1.shape == (48, 64, 3)
    before = len(served.requests)
    assert m3r.download(LARGE) == path and len(served.requests) == before
    m3r.download(LARGE, force=True, progress=False)
    assert len(served.requests) == 2 * before


def test_status(served: Server, cache: Path) -> None:
    small, tiny, large, *others = m3r.status()
    assert (small.variant, tiny.variant) == places.BUNDLED and small.ready and tiny.ready
    assert not large.ready and not others[0].ready
    m3r.download(LARGE, retrieval=False, progress=False)
    unified, retrieval, codebook = m3r.status()[2].files
    assert unified.present and unified.bytes == unified.path.stat().st_size and len(unified.sha256) == 64
    assert not retrieval.present and retrieval.bytes == 0 and retrieval.sha256 == ""
    codebook.path.with_name(codebook.path.name + ".part").write_bytes(b"12345")
    assert m3r.status(cache)[2].files[2].bytes == 5 and not m3r.status(cache)[2].files[2].present
    m3r.download(LARGE, progress=False)  # what was left out is still missing
    assert all(file.present for file in m3r.status()[2].files)


def test_offline(served: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for source in ("auto", "naver", "hf"):
        with pytest.raises(errors.OfflineError, match=re.escape(str(cache))):
            m3r.download(LARGE, source=source)
    assert served.requests == []
    monkeypatch.delenv("HF_HUB_OFFLINE")
    path = m3r.download(LARGE, progress=False)
    monkeypatch.setenv("MAST3R_OFFLINE", "true")
    assert m3r.download(LARGE) == path


def test_a_wrong_file_is_not_taken(served: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error page with status 200, as some proxies send it."""
    official(monkeypatch, "http://127.0.0.1:9/")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    for served_file in served.files.values():
        served_file.data = b"<html>please log in</html>"
    with pytest.raises(errors.DownloadError, match="26 bytes, want 6291456"):
        m3r.download(LARGE, source="naver", progress=False)
    assert not any(m3r.status()[2].files[0].path.parent.glob("MASt3R*"))


class FakeHub(types.ModuleType):
    """huggingface_hub as far as it is used."""

    def __init__(self, micro: Path, refused: tuple[str, ...] = ()) -> None:
        super().__init__("huggingface_hub")
        self.calls: list[tuple[str, str, bool]] = []
        self._micro, self._refused = micro, refused

    def hf_hub_download(self, repo: str, name: str, *, local_dir: Path, force_download: bool) -> str:
        self.calls.append((repo, name, force_download))
        if repo in self._refused:
            raise OSError(f"404 for {repo}")
        target = Path(local_dir) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self._micro.read_bytes())
        return str(target)


@pytest.fixture
def hub(micro: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub(micro)
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: fake)
    return fake


def test_hub(cache: Path, hub: FakeHub) -> None:
    path = m3r.download("dune_vit_small_14", source="hf")
    assert path == cache / "safetensors" / "dune_vit_small_448" == places.find("dune_vit_small_448")
    repo = "Aedelon/dunemast3r-models-fp16"
    assert hub.calls == [(repo, f"dune_vit_small_448/{r}.safetensors", False) for r in ("encoder", "decoder")]
    m3r.download("dune_vit_small_448", source="hf")
    assert len(hub.calls) == 2
    m3r.download("dune_vit_small_448", source="hf", force=True)
    assert hub.calls[-1][2] is True


def test_hub_alternatives(cache: Path, hub: FakeHub) -> None:
    hub._refused = ("Aedelon/mast3r-vit-large-fp16",)
    assert m3r.download(LARGE, source="hf") == cache / "safetensors" / LARGE
    assert (cache / "safetensors" / LARGE / "model.safetensors").is_file()
    hub._refused = tuple(repo for repo, *_ in hub.calls)
    with pytest.raises(errors.DownloadError, match="Aedelon.*404.*naver"):
        m3r.download(LARGE, source="hf", force=True)


def test_auto_falls_back_to_the_hub(
    served: Server, cache: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.files.clear()
    official(monkeypatch, served.url + "/official/")
    assert m3r.download(LARGE, progress=False) == cache / "safetensors" / LARGE
    with pytest.raises(errors.DownloadError, match="no address works.*404.*404"):
        m3r.download(LARGE, source="naver", force=True, progress=False)


def test_without_the_hub_package(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(errors.DownloadError, match=r"mast3r-runtime\[hub\]"):
        m3r.download(LARGE, source="hf")


def test_real_hub_client(cache: Path, micro: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The true huggingface_hub against a server that speaks as much of the hub as it asks for."""
    pytest.importorskip("huggingface_hub", reason="the hub extra is not installed")
    from hub_server import hub_of

    contents = {
        "dune_vit_small_336/encoder.safetensors": b"e" * 1000,
        "dune_vit_small_336/decoder.safetensors": b"d",
    }
    with hub_of("Aedelon/dunemast3r-models-fp16", contents) as url:
        code = (
            "import sys, mast3r_runtime as m3r\n"
            "print(m3r.download('dune_vit_small_336', source='hf', cache_dir=sys.argv[1]))\n"
        )
        # A process of its own: the client reads the environment when it is imported.
        done = subprocess.run(
            [sys.executable, "-c", code, str(cache)],
            env={**child_environment(), "HF_ENDPOINT": url, "HF_HUB_DISABLE_TELEMETRY": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    folder = cache / "safetensors" / "dune_vit_small_336"
    assert done.stdout.strip() == str(folder)
    assert (folder / "encoder.safetensors").read_bytes() == b"e" * 1000
    assert (folder / "decoder.safetensors").read_bytes() == b"d"


def test_found_in_the_hubs_own_cache(cache: Path, tmp_path: Path) -> None:
    """What another program fetched with huggingface_hub is not fetched again."""
    folder = tmp_path / "hf/hub/models--naver--MASt3R_ViTLarge_BaseDecoder_512_catmlpdpt_metric"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    with pytest.raises(errors.ModelNotFoundError):
        places.find(LARGE)
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "snapshots" / "abc" / "model.safetensors").touch()
    assert places.find(LARGE) == folder


def test_half_a_model_is_not_found(cache: Path) -> None:
    paths = m3r.get_checkpoint_paths("dune_vit_base_448")
    paths["encoder"].parent.mkdir(parents=True)
    paths["encoder"].touch()
    with pytest.raises(errors.ModelNotFoundError, match="dunemast3r_cvpr25_vitbase.pth"):
        places.find("dune_vit_base_448")
    paths["decoder"].touch()
    assert places.find("dune_vit_base_448") == paths["encoder"]
    elsewhere = cache / "elsewhere"
    with pytest.raises(errors.ModelNotFoundError, match="elsewhere"):
        places.find("dune_vit_base_448", None, elsewhere)


# ---- command line --------------------------------------------------------


def test_command_line(
    served: Server, cache: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(["download", LARGE, "--quiet", "--json", "--cache-dir", str(tmp_path / "other")]) == 0
    printed = capsys.readouterr()
    paths = m3r.get_checkpoint_paths(LARGE, tmp_path / "other")
    assert json.loads(printed.out) == {LARGE: str(paths["unified"])}
    assert "CC BY-NC-SA 4.0" in printed.err and "naver" in printed.err.lower()
    assert cli.main(["download", "--list", "--cache-dir", str(tmp_path / "other")]) == 0
    text = capsys.readouterr().out
    assert "https://download.europe.naverlabs.com/dune/dune_vitbase14_448_paper.pth" in text
    assert str(paths["unified"]) in text
    assert cli.main(["status", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [v["ready"] for v in values] == [True, True] + 7 * [False]
    assert values[2]["files"][0]["role"] == "unified"
    assert cli.main(["download", "mast3r_huge"]) == 1
    assert "want one of" in capsys.readouterr().err
    assert cli.main(["download"]) == 1
    assert "or all" in capsys.readouterr().err


def test_download_all(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        download, "download", lambda variant, **kw: seen.append((variant, kw)) or Path(variant)
    )
    assert cli.main(["download", "all", "--source", "hf", "--force", "--no-retrieval"]) == 0
    assert [variant for variant, _ in seen] == list(m3r.MODEL_SPECS)
    assert seen[0][1] == {
        "source": "hf",
        "cache_dir": None,
        "force": True,
        "retrieval": False,
        "progress": True,
    }
    printed = capsys.readouterr()
    assert printed.out.count("\n") == len(m3r.MODEL_SPECS)
    # Each licence once, and how much comes.
    assert printed.err.count("CC BY-NC-SA") == 1 and printed.err.count("issue 203") == 1
    assert "da3_base 516 MiB" in printed.err


def test_download_of_an_exact_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Depth Anything 3: one file under a name of its own, of a size that is known to the byte."""
    spec = specs.MODEL_SPECS["da3_small"]
    file = dataclasses.replace(spec.files[0], size_bytes=1000)
    for module in (places, download):
        monkeypatch.setattr(
            module, "MODEL_SPECS", {"da3_small": dataclasses.replace(spec, files=(file,), hub=())}
        )
    path = f"/{file.path}"
    with serving({path: Served(b"x" * 1000)}) as server:
        monkeypatch.setenv("MAST3R_MIRROR", server.url + "/")
        got = m3r.download("da3_small", cache_dir=tmp_path / "a", progress=False)
        assert got == tmp_path / "a" / "checkpoints" / "da3_small.safetensors" and got.stat().st_size == 1000
    with serving({path: Served(b"x" * 999)}) as server:
        monkeypatch.setenv("MAST3R_MIRROR", server.url + "/")
        monkeypatch.setattr(
            download,
            "MODEL_SPECS",
            {
                "da3_small": dataclasses.replace(
                    spec, files=(dataclasses.replace(file, base=server.url + "/"),), hub=()
                )
            },
        )
        with pytest.raises(m3r.errors.DownloadError):
            m3r.download("da3_small", cache_dir=tmp_path / "b", source="naver", progress=False)


def test_scripts_exist() -> None:
    """Each command of pyproject.toml is a function."""
    text = (ROOT / "pyproject.toml").read_text()
    scripts = dict(re.findall(r'^(mast3r[a-z0-9-]*) = "mast3r_runtime.cli:(\w+)"$', text, re.M))
    assert set(scripts) == {"mast3r", "mast3r-runtime", "mast3r-info", "mast3r-benchmark", "mast3r-download"}
    assert all(callable(getattr(cli, function)) for function in scripts.values())


def test_variant_option(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for bundled in places.BUNDLED:
        assert cli.main(["info", "--variant", bundled, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["variant"] == bundled
    for variant, words in (("mast3r_huge", "want one of"), ("dune_vit_small_14", "dune_vit_small_448")):
        assert cli.main(["info", "--variant", variant]) == 1
        assert words in capsys.readouterr().err


def test_older_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["mast3r-info", "--json"])
    assert cli.info_main() == 0 and "mast3r_small" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["mast3r-download", "--list"])
    assert cli.download_main() == 0 and LARGE in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["mast3r-benchmark", "--iterations", "0"])
    assert cli.benchmark_main() == 1


# ---- names, sizes, no network --------------------------------------------

HUB = "naver/MASt3R_ViTLarge_BaseDecoder_512_catmlpdpt_metric"


@pytest.mark.parametrize(
    "name, variant",
    [
        (HUB, LARGE), (HUB.partition("/")[2], LARGE), (HUB.partition("/")[2] + ".pth", LARGE),
        (HUB.lower(), LARGE), ("Aedelon/mast3r-vit-large-fp16", LARGE),
        ("depth-anything/DA3-SMALL", "da3_small"), ("DA3-BASE", "da3_base"),
        ("da3-base", "da3_base"), ("dune_vitsmall14_336.pth", "dune_vit_small_336"),
        ("dune_vitbase14_448_paper", "dune_vit_base_448"), ("dunemast3r_cvpr25_vitbase", "dune_vit_base_448"),
        ("dunemast3r_cvpr25_vitsmall.pth", "dune_vit_small_448"), ("dune_vit_base_14", "dune_vit_base_448"),
    ],
)  # fmt: skip
def test_published_names_are_names_of_variants(
    name: str, variant: str, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a variant or a model is taken: the same as by our own name."""
    monkeypatch.setenv("MAST3R_OFFLINE", "1")
    assert places.resolve(name) == variant
    assert m3r.get_checkpoint_urls(name) == m3r.get_checkpoint_urls(variant)
    if not variant.startswith("da3"):  # which has no estimate
        wanted = m3r.estimate_cost(variant=variant, size=(112, 112))
        assert m3r.estimate_cost(name, size=(112, 112)) == wanted
        assert m3r.estimate_cost(variant=name, size=(112, 112)) == wanted
    with m3r.Engine(name, backend="cpu") as engine, pytest.raises(errors.ModelNotFoundError, match=variant):
        engine.load()
    with m3r.Engine("auto", backend="cpu") as engine, pytest.raises(errors.ModelNotFoundError, match=variant):
        engine.load(name)
    with pytest.raises(errors.OfflineError):
        m3r.download(name)
    with pytest.raises(errors.ModelNotFoundError, match=f"no official files of {variant}"):
        m3r.convert(name)
    for words in (["info", "--model", name], ["info", "--variant", name], ["download", name]):
        assert cli.main(words) == 1
        assert variant in capsys.readouterr().err


def test_what_is_no_model_lists_the_variants(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    from mast3r_runtime.distributed import SetupError, run_pairs

    picture = tmp_path / "a.png"
    Image.new("RGB", (64, 48)).save(picture)
    assert places.for_others(HUB) == LARGE and places.for_others(picture) == str(picture)
    for word in ("naver/MASt3R_Huge", "no/such/file.pth", "mast3r_vit_larg"):
        with (
            m3r.Engine("auto", backend="cpu") as engine,
            pytest.raises(errors.ModelNotFoundError, match=LARGE),
        ):
            engine.load(word)
        with pytest.raises(errors.ModelNotFoundError, match=LARGE):
            m3r.estimate_cost(word)
        with pytest.raises(SetupError, match=LARGE):
            run_pairs([picture], [], store=tmp_path / "s", model=word)
        assert cli.main(["info", "--model", word]) == 1
        assert "da3_small" in capsys.readouterr().err
    with pytest.raises(ValueError, match=LARGE):
        m3r.Engine("naver/MASt3R_Huge")


@pytest.mark.parametrize(
    "size, word", [(191 << 20, "cut short"), (0, "cut short"), (2700 << 20, "another file")]
)
def test_a_file_of_another_size(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, size: int, word: str
) -> None:
    """A file that was copied by hand and cut is not called here, by nobody."""
    path = m3r.get_checkpoint_paths(LARGE)["unified"]
    path.parent.mkdir(parents=True)
    with open(path, "wb") as file:
        file.truncate(size)
    (model,) = [m for m in m3r.status() if m.variant == LARGE]
    (unified,) = [f for f in model.files if f.role == "unified"]
    assert (model.ready, model.path, unified.present, unified.wrong) == (False, None, False, word)
    assert cli.main(["status"]) == 0
    assert f"here, {size >> 20} of 2627 MiB: {word}" in capsys.readouterr().out
    for offline in ("1", ""):
        monkeypatch.setenv("MAST3R_OFFLINE", offline)
        with pytest.raises(errors.ChecksumError, match=f"{size} bytes, want .*{word}"):
            m3r.download(LARGE, retrieval=False, progress=False, source="naver")
        assert path.stat().st_size == size  # it may be the user's own: only --force replaces it
    assert cli.main(["download", LARGE, "--no-retrieval", "--source", "naver"]) == 1
    assert word in capsys.readouterr().err
    with open(path, "wb") as file:
        file.truncate(2627 << 20)
    monkeypatch.setenv("MAST3R_OFFLINE", "1")
    assert m3r.download(LARGE, retrieval=False) == path
    with pytest.raises(errors.OfflineError, match=r"retrieval_trainingfree\.pth"):
        m3r.download(LARGE)


def test_without_a_network(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that nobody knows is asked for once; the text says where to fetch and where to put it."""
    import socket
    import time

    asked: list[str] = []

    def nobody(host: str, *arguments: object, **named: object) -> None:
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    monkeypatch.delenv("https_proxy", raising=False)
    start = time.monotonic()
    assert cli.main(["download", LARGE, "--source", "naver"]) == 1
    assert time.monotonic() - start < 3 and asked == ["download.europe.naverlabs.com"]
    text = capsys.readouterr().err
    path, url = m3r.get_checkpoint_paths(LARGE)["unified"], m3r.get_checkpoint_urls(LARGE)["unified"]
    for word in (url, str(path), "MAST3R_MIRROR=", "MAST3R_OFFLINE=1", "Name or service not known"):
        assert word in text, word
    monkeypatch.setenv("MAST3R_OFFLINE", "1")
    assert cli.main(["download", LARGE]) == 1
    text = capsys.readouterr().err
    assert str(path) in text and url in text and len(asked) == 1


def test_a_name_server_that_does_not_answer(
    cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something is said after some seconds, and it goes on waiting."""
    import socket
    import time

    from mast3r_runtime._checkpoints import fetch

    waits: list[tuple[float, str]] = []

    def refused(host: str, *arguments: object, **named: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    def slow(host: str, *arguments: object, **named: object) -> None:
        time.sleep(0.6)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    monkeypatch.setattr(fetch, "_PATIENCE", 0.2)
    with pytest.raises(errors.DownloadError, match="Temporary failure"):
        m3r.download("da3_small", source="naver", progress=False)
    assert "no answer after 0.2 s" in caplog.text
    caplog.clear()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: refused(*a, **k))
    monkeypatch.setattr(time, "sleep", lambda seconds: waits.append((seconds, caplog.text)))
    with pytest.raises(errors.DownloadError, match="5 times in a row"):
        m3r.download("da3_small", source="naver", progress=False)
    assert len(waits) == 4 and all("trying again" in text for _, text in waits)  # before the first wait
    assert fetch._PATIENCE < 3
