# SPDX-License-Identifier: Apache-2.0
"""A real headless Chromium for the tests of the viewer's page.

The browser is the system's (Debian's package chromium); without it, or without playwright, the
tests are skipped and say what is missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 60  # until a page is ready; far less on an idle machine


class Opened:
    """A page with what the browser said about it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.console: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda m: self.console.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda error: self.console.append(f"error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))

    def goto(self, path: Path, fragment: str = "test") -> None:
        self.page.goto(f"{path.as_uri()}#{fragment}")
        self.page.wait_for_function("window.scene && window.scene.ready", timeout=SECONDS * 1000)

    def js(self, code: str) -> Any:
        return self.page.evaluate(code)

    def settle(self) -> None:
        """Some frames later."""
        for _ in range(4):
            self.js("new Promise(r => requestAnimationFrame(r))")

    def slide(self, name: str, value: int) -> None:
        """Move a slider."""
        self.js(f"(s => {{ s.value = {value}; s.oninput(); }})(document.getElementById('{name}'))")
        self.settle()

    def clean(self) -> None:
        """No error was printed, and nothing was asked for but the file itself."""
        bad = [
            line for line in self.console if not line.startswith(("log", "info", "debug", "warning: [.WebGL"))
        ]
        assert not bad, bad
        asked = [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))]
        assert not asked, asked


@contextmanager
def chromium() -> Iterator[Callable[..., Any]]:
    """A function that starts a browser, ``launch(webgl=True)``; ``open_page(browser)`` gives pages."""
    sync = pytest.importorskip(
        "playwright.sync_api", reason="the page is not opened: no playwright (extra test)"
    )
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("the page is not opened: no Chromium here (apt-get install chromium)")
    drawing = {
        True: ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
        False: ["--disable-gpu", "--disable-3d-apis"],
    }
    with sync.sync_playwright() as tools:

        def launch(webgl: bool = True) -> Any:
            return tools.chromium.launch(executable_path=program, args=["--no-sandbox", *drawing[webgl]])

        yield launch


def open_page(browser: Any, width: int = 900, height: int = 640, **options: Any) -> Opened:
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    return Opened(context.new_page())
