# SPDX-License-Identifier: Apache-2.0
"""A secret in any URL or variable that a user can give is in no text, report, log or traceback."""

from __future__ import annotations

import argparse
import json
import logging
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_store import contents, fill
from PIL import Image

import mast3r_runtime as m3r
from mast3r_runtime import cli, errors
from mast3r_runtime._checkpoints import fetch
from mast3r_runtime._commands import doctor
from mast3r_runtime._pairs import task
from mast3r_runtime._store import places
from mast3r_runtime.errors import without_secrets
from mast3r_runtime.store import Store

SECRET = "Hunter2wJalrXUtnFEMI"
ODD = f"K7MDENG/bPx+{SECRET}%2F%40="  # as keys of object stores look


@pytest.mark.parametrize(
    "url",
    [
        f"s3://AKIAKEY:{SECRET}@bucket/store", f"s3://AKIAKEY:{ODD}@bucket/store", f"sftp://{SECRET}@host/x",
        f"https://host/x?token={SECRET}", f"https://host/x?a=1&sig={SECRET}#k={SECRET}",
        f"https://u:p@{SECRET}@host:8080/x", f"HTTPS://u:{SECRET}@host", f"simplecache::s3://{SECRET}:b@c/d",
        f"https://host/x#{SECRET}", f"gs://u:{SECRET}?@host/x",
    ],
)  # fmt: skip
def test_one_function(url: str) -> None:
    forms = (
        url,
        f"store {url!r}: no",
        f"a {url}, b",
        json.dumps({"at": url, "n": 1}),
        f"({url})",
        f"M={url};",
    )
    for text in forms:
        cut = without_secrets(text)
        assert SECRET not in cut and "***" in cut and without_secrets(cut) == cut, cut
    assert SECRET not in errors.quoted(url) and SECRET not in str(errors.FileError(f"{url}: no"))
    assert SECRET not in repr(errors.ArgumentError(url)) and SECRET not in str(errors.DependencyError(url))
    told = f"bad port {url.partition('://')[2]}"  # where the scheme is lost
    assert SECRET not in without_secrets(told, url)


def test_plain_addresses_stay() -> None:
    for text in ("s3://bucket/a/b", "see https://host:80/x.pth, or /data/a@b", "C:\\x@y", "memory://x"):
        assert without_secrets(text) == text
    assert without_secrets("s3://k:s@b/x?y=1 z") == "s3://***@b/x?*** z"
    told = "no such user keykey, password 'a/b+c'"
    assert without_secrets(told, "s3://keykey:a%2Fb+c@b") == "no such user ***, password '***'"


class Faulty:
    """A file system whose every error has the whole URL in it, as those of object stores do."""

    url = f"faulty://AKIAKEY:{ODD}@bucket/store?sig={SECRET}"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def fails(*arguments: Any, **named: Any) -> Any:
            raise RuntimeError(f"403 for {Faulty.url}: key {ODD} of {arguments}")

        return fails


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> str:
    fsspec = pytest.importorskip("fsspec.core", reason="no fsspec here (extra cluster)")
    real = fsspec.url_to_fs

    def opened(url: str) -> tuple[Any, str]:
        return (Faulty(), "bucket/store") if url.startswith("faulty:") else real(url)

    monkeypatch.setattr(fsspec, "url_to_fs", opened)
    return Faulty.url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    out = tmp_path / "pictures"
    out.mkdir()
    for n in range(2):
        Image.new("RGB", (64, 48), (n, 9, 9)).save(out / f"{n}.png")
    return out


def secret_free(root: Path) -> None:
    for path in root.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def test_stores_of_every_verb(
    faulty: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], micro: Path
) -> None:
    """Stores that fail and one that works, by every verb that takes one; what is printed and written."""
    pytest.importorskip("pycolmap", reason="no pycolmap here (extra scene)")
    works = f"memory://KEY:{SECRET}@{os.urandom(6).hex()}/s"
    small = ["--model", str(micro), "--resolution", "64", "--backend", "cpu"]
    out = ["-o", str(tmp_path / "out")]
    for url in (faulty, f"nosuch://K:{SECRET}@b/s", f"s3://K:{SECRET}@b/s", f"s3:/K:{SECRET}@b", works):
        batch = ["batch", str(folder), "--store", url, *small, "--workers", "1"]
        for words in (
            batch, [*batch, "--json-progress"], [*batch, "--status"], [*batch, "--json"],
            ["retrieve", str(folder), "--store", url, *small], ["store", url], ["store", url, "--check"],
            ["store", url, "--gc", "ab"], ["store", url, "--list", "failed"],
            ["reconstruct", str(folder), *out, "--store", url, *small],
        ):  # fmt: skip
            cli.main(words)
            text = capfd.readouterr()
            assert SECRET not in text.out + text.err, words
        with pytest.raises(SystemExit):
            cli.main(["batch", str(folder), "--stoer", url])
        assert SECRET not in capfd.readouterr().err
    secret_free(tmp_path)


def test_python_calls_and_their_tracebacks(faulty: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    calls: list[Callable[[], object]] = [
        lambda: Store(faulty), lambda: Store.existing(faulty), lambda: Store(f"nosuch://K:{SECRET}@b"),
        lambda: Store(f"file://K:{SECRET}@b/x"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(errors.Mast3rError) as caught:
            call()
        text = "".join(traceback.format_exception(caught.value))
        assert SECRET not in text, text
        failure = task._failure(0, "k", caught.value)
        assert SECRET not in json.dumps(vars(failure))
    place = places.ObjectStore(f"memory://K:{SECRET}@b/{os.urandom(6).hex()}")
    assert SECRET not in place.where
    with pytest.raises(FileNotFoundError) as lost:
        place.open("x")
    assert SECRET not in "".join(traceback.format_exception(lost.value))
    assert SECRET not in repr(task.Setup(faulty)) and SECRET not in caplog.text
    other = task._failure(0, "k", RuntimeError(faulty))
    assert SECRET not in json.dumps(vars(other))


def test_a_store_that_works_keeps_no_secret() -> None:
    """Its files are those of any other store."""
    url = f"memory://KEY:{SECRET}@{os.urandom(6).hex()}/s"
    pytest.importorskip("fsspec", reason="no fsspec here (extra cluster)")
    store = Store(url)
    fill(store)
    for name in [*contents(), "store.json"]:
        with store.place.open(name) as file:
            assert SECRET.encode() not in file.read()
    assert SECRET not in store.where


def test_mirrors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A mirror with a password and a token: in no error, no log, no note beside the half file."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("no_proxy", "*")
    real = fetch.fetch

    def quick(urls: Any, *arguments: Any, **named: Any) -> Any:
        return real(urls[:1], *arguments, attempts=1, pause=0.0, **named)

    monkeypatch.setattr(fetch, "fetch", quick)
    for mirror in (
        f"http://anna:{SECRET}@127.0.0.1:1/", f"http://anna:{SECRET}@127.0.0.1:port/", f"ftp://a:{SECRET}@h/",
        f"http://127.0.0.1:1/?token={SECRET}&f=", f"http://anna:{SECRET}@no.such.host.invalid/",
    ):  # fmt: skip
        monkeypatch.setenv("MAST3R_MIRROR", mirror)
        with pytest.raises(errors.Mast3rError) as caught:
            m3r.download("da3_small", cache_dir=tmp_path, progress=False, source="naver")
        assert SECRET not in "".join(traceback.format_exception(caught.value)) and SECRET not in caplog.text
    secret_free(tmp_path)


def test_a_password_reaches_the_mirror_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import http.server
    import threading

    monkeypatch.setenv("no_proxy", "*")
    seen: list[tuple[str, str | None]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("Authorization")))
            if self.path == "/x":
                self.send_response(302)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(403 if len(seen) == 4 else 200)
            self.send_header("ETag", '"1"')
            self.send_header("Content-Length", "9")
            self.end_headers()
            self.wfile.write(b"123456789"[: 9 if len(seen) > 2 else 4])  # cut, refused, whole

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://anna:{SECRET}%21@127.0.0.1:{server.server_port}/x"
    with pytest.raises(errors.DownloadError):
        fetch.fetch([url], tmp_path / "f", attempts=1, pause=0.0)
    secret_free(tmp_path)  # the note beside the half file
    assert fetch.fetch([url], tmp_path / "f", attempts=2, pause=0.0).read_bytes() == b"123456789"
    server.shutdown()
    server.server_close()
    import base64

    basic = "Basic " + base64.b64encode(f"anna:{SECRET}!".encode()).decode()
    assert {auth for path, auth in seen if path == "/x"} == {basic}
    assert {auth for path, auth in seen if path == "/elsewhere"} == {None}


def test_doctors_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every variable of ours, and what the children print of it; of folders only the last part."""
    acme = "/data/client-acme/with blank"
    values = {
        "MAST3R_MIRROR": f"https://anna:{SECRET}@h/,https://h2/?token={SECRET}", "MAST3R_" + "ANY": f"s3://{SECRET}@b",
        "MAST3R_CACHE_DIR": f"{acme}/cache", "MAST3R_PJRT_CUDA": "/opt/acme-corp/plugin.so",
        "MAST3R_" + "OTHER": "D:\\acme\\models\\m.pth",
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)

    def child(arguments: object, statuses: object = (0,)) -> object:
        said = f"cannot open {acme}/cache/x.pth: see {values['MAST3R_MIRROR']}; in /srv/acme/a/b.so"
        return {"status": 1, "stderr": said, "stdout": f"auth {SECRET} failed for D:\\acme\\models\\m.pth"}

    monkeypatch.setattr(doctor, "_run", child)
    arguments = argparse.Namespace(
        backend="cpu", processes=1, pairs=1, model=Path("/home/acme-user/models/m.pth"), variant="auto",
        resolution=0, precision="auto", threads=0,
    )  # fmt: skip
    text = json.dumps(doctor.collect(arguments, lambda _: None))
    for word in (SECRET, "acme", "with blank", "anna"):
        assert word not in text, word
    assert "plugin.so" in text and ".../cache" in text and "m.pth" in text and "b.so" in text
