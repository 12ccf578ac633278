# SPDX-License-Identifier: Apache-2.0
"""How long a page takes in a real Chromium, in several windows: python benchmarks/viewer.py [PAGE...]

Without pages, one of a million made-up points. Needs playwright and the system's Chromium (extra
``test``). A screenshot of each window lies beside the table, in build/viewer-bench/.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from mast3r_runtime.viewer import Cloud, Page, write_html

WINDOWS = ((1600, 1000), (1280, 800), (800, 600), (390, 844))
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")


def made_up(path: Path, count: int) -> Path:
    made = np.random.default_rng(0)
    points = made.normal(size=(count, 3))
    colours = made.integers(0, 256, (count, 3), np.uint8)
    cloud = Cloud("made up", points, colours, made.random(count), np.zeros(count, int))
    return write_html(path, Page("made up", [cloud], []))


def opened(browser: Any, page: Path, size: tuple[int, int], shot: Path) -> dict[str, Any]:
    """Seconds until the page is ready, what the console and the network saw, what the slider leaves."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]})
    tab = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    tab.on("console", lambda m: said.append(m.text) if m.type == "error" else None)
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    start = time.perf_counter()
    tab.goto(f"{page.resolve().as_uri()}#test")
    tab.wait_for_function("window.scene && window.scene.ready", timeout=120_000)
    seconds = time.perf_counter() - start
    for _ in range(4):
        tab.evaluate("new Promise(r => requestAnimationFrame(r))")
    tab.screenshot(path=str(shot))
    points, cameras = tab.evaluate("[scene.points, scene.pictures]")
    outside = [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    context.close()
    return {"seconds": seconds, "points": points, "cameras": cameras, "said": said, "outside": outside}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--points", type=int, default=1_000_000, help="of the made-up page")
    parser.add_argument("--out", type=Path, default=Path("build/viewer-bench"))
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    arguments.out.mkdir(parents=True, exist_ok=True)
    pages = arguments.pages or [made_up(arguments.out / "points.html", arguments.points)]
    binary = next((found for name in NAMES if (found := shutil.which(name))), None)
    bad = 0
    print(
        "| page | MB | window | ready | points | cameras | console errors | requests |\n" + "|---" * 8 + "|"
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox", *FLAGS])
        for page in pages:
            for width, height in WINDOWS:
                shot = arguments.out / f"{page.stem}-{width}x{height}.png"
                row = opened(browser, page, (width, height), shot)
                bad += bool(row["said"] or row["outside"])
                print(
                    f"| {page.name} | {page.stat().st_size / 1e6:.1f} | {width} x {height} | "
                    f"{row['seconds']:.1f} s | {row['points']} | {row['cameras']} | "
                    f"{len(row['said'])} | {len(row['outside'])} |",
                    flush=True,
                )
        browser.close()
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
