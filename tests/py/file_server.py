# SPDX-License-Identifier: Apache-2.0
"""A local HTTP server of files with the faults of real ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """One file and how it is served.

    ``faults`` are used up, one a request: ``cut:N`` closes the connection after N bytes of
    the answer, ``stall:N`` sends N bytes and then nothing, ``status:N`` answers N,
    ``other`` serves from here on other bytes of the same size under another tag.
    """

    data: bytes
    faults: list[str] = field(default_factory=list)
    ranges: bool = True
    etag: str = '"one"'
    length: bool = True
    delay: float = 0.0  # before each block: time for others to come
    gate: threading.Event | None = None  # no byte is sent before it is set


@dataclass
class Server:
    url: str = ""
    files: dict[str, Served] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)  # path, Range
    stop: threading.Event = field(default_factory=threading.Event)
    stalled: threading.Event = field(default_factory=threading.Event)  # an answer has stalled

    def ranges_of(self, path: str) -> list[str]:
        return [wanted for name, wanted in self.requests if name == path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: Server

    def log_message(self, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        self.close_connection = True
        wanted = self.headers.get("Range", "")
        self.state.requests.append((self.path, wanted))
        served = self.state.files.get(self.path)
        if served is None:
            return self.send_error(404)
        fault, _, number = served.faults.pop(0).partition(":") if served.faults else ("", "", "")
        if fault == "status":
            return self.send_error(int(number))
        if fault == "other":
            served.data, served.etag = bytes(255 - b for b in served.data), '"two"'
        start = 0
        same = self.headers.get("If-Range") in (None, served.etag)
        if wanted and served.ranges and same:
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
            if start >= len(served.data):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(served.data)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(served.data) - 1}/{len(served.data)}")
        else:
            self.send_response(200)
        if served.etag:
            self.send_header("ETag", served.etag)
        if served.length:
            self.send_header("Content-Length", str(len(served.data) - start))
        self.end_headers()
        self._body(served, served.data[start:], fault, int(number or 0))
        return None

    def _body(self, served: Served, body: bytes, fault: str, number: int) -> None:
        try:
            if fault in ("cut", "stall"):
                self.wfile.write(body[:number])
                self.wfile.flush()
                if fault == "stall":
                    self.state.stalled.set()
                    self.state.stop.wait(20)
                return
            if served.gate is not None:
                served.gate.wait(300)
            for at in range(0, len(body), 65536):
                time.sleep(served.delay)
                self.wfile.write(body[at : at + 65536])
        except OSError:
            pass  # the client went away


@contextmanager
def serving(files: dict[str, Served]) -> Iterator[Server]:
    """Serve ``files`` by path until the end of the block."""
    state = Server(files=files)
    handler = type("Handler", (_Handler,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()
