# SPDX-License-Identifier: Apache-2.0
"""Servers that answer anything at all: a download ends with a DownloadError, within bounds."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mast3r_runtime import errors
from mast3r_runtime._checkpoints import fetch as module
from mast3r_runtime._checkpoints.fetch import Expected, fetch

FAST = {"timeout": 0.5, "pause": 0.0, "attempts": 2}
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    for name in ("HF_HUB_OFFLINE", "MAST3R_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def raw_server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does what ``answer`` does with each connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            try:
                connection.recv(65536)
                answer(connection)
            except OSError:
                pass
            finally:
                connection.close()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/f"
    finally:
        listener.close()


@pytest.mark.parametrize(
    "head",
    [
        OK + b"Content-Length: \xb2\r\n\r\nx",
        OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nx",
        OK + b"Content-Length: -1\r\n\r\nx",
        b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-*/\xb2\r\n\r\nx",
        b"HTTP/1.1 206 Partial\r\nContent-Range: nonsense\r\n\r\nx",
        b"HTTP/1.1 503 Busy\r\nRetry-After: \xb2\r\n\r\n",
        b"HTTP/1.1 416 Range\r\nContent-Range: bytes */\xb2\r\n\r\n",
        b"HTTP/1.1 \xb2\xb2\xb2 what\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://[::1/\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: ftp://127.0.0.1/f\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /f\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:99999/f\r\n\r\n",
        b"\x00" * 100,
        b"SSH-2.0-OpenSSH\r\n",
        b"X" * 100000,
        OK + b"A: b\r\n" * 1000 + b"\r\n",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"ETag: \xff\xfe\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
def test_any_answer_is_a_download_error(head: bytes, tmp_path: Path) -> None:
    with raw_server(lambda c: c.sendall(head)) as url, pytest.raises(errors.DownloadError):
        fetch([url], tmp_path / "f", Expected(1000), **FAST)
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("url", ["http://[::1/", "http://", "https://", "http://a b/", "x", "http://\udce9/"])
def test_addresses_that_are_none(url: str, tmp_path: Path) -> None:
    with pytest.raises(errors.DownloadError):
        fetch([url], tmp_path / "f", **FAST)


def test_the_next_address_is_tried(tmp_path: Path) -> None:
    body = OK + b"Content-Length: 3\r\n\r\nabc"
    with raw_server(lambda c: c.sendall(body)) as url:
        fetch(["http://[::1/", url], tmp_path / "f", Expected(3), **FAST)
    assert (tmp_path / "f").read_bytes() == b"abc"


def endless(head: bytes) -> tuple[list[int], Callable[[socket.socket], None]]:
    sent = [0]

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            sent[0] += connection.send(bytes(65536))

    return sent, answer


def test_a_body_without_a_length_ends_at_the_expected_size(tmp_path: Path) -> None:
    sizes: list[int] = []
    _, answer = endless(OK + b"\r\n")
    with raw_server(answer) as url, pytest.raises(errors.ChecksumError, match="more than 1064000"):
        fetch([url], tmp_path / "f", Expected(1_000_000, 64_000), lambda done, _: sizes.append(done), **FAST)
    assert max(sizes) <= 1_064_000
    assert not [p for p in tmp_path.iterdir() if not p.name.startswith(".")]


def test_a_body_without_a_length_leaves_the_disk_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = module.shutil.disk_usage(tmp_path)._replace(free=module._SPARE + 500_000)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: free)
    _, answer = endless(OK + b"\r\n")
    with raw_server(answer) as url, pytest.raises(errors.FileError, match="does not say"):
        fetch([url], tmp_path / "f", **FAST)
    assert (tmp_path / "f.part").stat().st_size <= 500_000


def test_no_more_than_announced_is_kept(tmp_path: Path) -> None:
    """http.client cuts at the announced length; an answer object that does not is cut as well."""

    class Answer:
        url = "http://x"

        def read1(self, _: int) -> bytes:
            return bytes(700)

    seen: list[int] = []
    with pytest.raises(module._Cut, match="more than the 1000"):
        module._copy(Answer(), tmp_path / "p", 0, 1000, Expected(), lambda n, _: seen.append(n), 1.0)
    assert (tmp_path / "p").stat().st_size == 700 and max(seen) <= 1000


@pytest.mark.parametrize("short", [1, 0])
def test_room_to_the_byte(short: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = module.shutil.disk_usage(tmp_path)._replace(free=1000 - short)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: free)
    if short:
        with pytest.raises(errors.FileError, match="needed"):
            module._room(tmp_path / "p", 1000)
    else:
        module._room(tmp_path / "p", 1000)


def test_a_trickle_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then is less than a connection has to bring."""
    now = [0.0]

    class Answer:
        url = "http://x"

        def read1(self, _: int) -> bytes:
            now[0] += 0.9
            return b"x"

    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with pytest.raises(module._Cut, match="bytes in"):
        module._copy(Answer(), tmp_path / "p", 0, 10**6, Expected(), None, 30.0)
    assert now[0] < 40


@pytest.mark.parametrize(
    "notes",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100000,
        b'{"url": 3}',
        b'{"url": "URL", "validator": "a\\nb"}',
        b'{"url": "URL", "validator": "\xe2\x82\xac"}',
        b'{"url": "URL", "validator": null}',
    ],
)
def test_damaged_side_files_are_hints(notes: bytes, tmp_path: Path) -> None:
    target = tmp_path / "f"
    with raw_server(lambda c: c.sendall(OK + b"Content-Length: 3\r\n\r\nabc")) as url:
        (tmp_path / "f.part").write_bytes(b"ab")
        (tmp_path / "f.part.json").write_bytes(notes.replace(b"URL", url.encode()))
        (tmp_path / "f.sha256").write_bytes(b"\xff\xfe garbage")
        assert fetch([url], target, Expected(3), **FAST).read_bytes() == b"abc"


def test_https_never_becomes_http() -> None:
    request = module.urllib.request.Request("https://example.org/f")
    for to in ("http://example.org/f", "ftp://example.org/f", "file:///f"):
        with pytest.raises(errors.DownloadError, match="not followed"):
            module._Redirects().redirect_request(request, None, 302, "", {}, to)
    assert module._Redirects().redirect_request(request, None, 302, "", {}, "https://example.com/f")


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/f", "file:///f", "data:,f", "HTTPS//x", ""])
def test_only_addresses_of_the_web(tmp_path: Path, url: str) -> None:
    with pytest.raises(errors.DownloadError, match="starts with https"):
        fetch([url], tmp_path / "f", attempts=1, pause=0)
