# SPDX-License-Identifier: Apache-2.0
"""The page: opened by a real browser, and read as a file."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import chromium, open_page
from conftest import ROOT
from PIL import Image

from mast3r_runtime import cli, export
from mast3r_runtime._commands import demo
from mast3r_runtime._output import page as pages
from mast3r_runtime.errors import ArgumentError, DependencyError, FileError, ShapeError
from mast3r_runtime.viewer import (
    Camera,
    Cloud,
    Matches,
    Page,
    pair_page,
    points_page,
    result_page,
    serve,
    write_html,
)

WEB = ROOT / "python" / "mast3r_runtime" / "_output" / "web"


@pytest.fixture(scope="module")
def launch() -> Iterator[Any]:
    with chromium() as start:
        yield start


@pytest.fixture(scope="module")
def browser(launch: Any) -> Iterator[Any]:
    opened = launch()
    yield opened
    opened.close()


def cloud(count: int, pictures: int = 1, seed: int = 0) -> Cloud:
    made = np.random.default_rng(seed)
    return Cloud(
        "made up",
        made.normal(size=(count, 3)),
        made.integers(0, 256, (count, 3), np.uint8),
        made.random(count),
        made.integers(0, pictures, count),
    )


def room_page() -> Page:
    """The rendered room: exact points of picture 1, both cameras, exact matches."""
    pair = demo.room()
    assert pair.depth is not None
    height, width = pair.depth.shape
    with np.load(demo._PICTURES / "room_truth.npz") as truth:
        k, turn, origin = truth["intrinsics"], truth["rotation"], truth["translation"]
    y, x = np.mgrid[0:height:2, 0:width:2]
    xy = np.stack([x, y], -1).reshape(-1, 2).astype(float)
    rays = np.concatenate([xy, np.ones((len(xy), 1))], 1) @ np.linalg.inv(k).T
    points = rays * pair.depth[::2, ::2].reshape(-1, 1)
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = turn, origin
    colours = pair.image_1[::2, ::2].reshape(-1, 3)
    n = len(points)
    dense = Cloud("dense", points, colours, np.linspace(1, 2, n), np.zeros(n, int))
    true = pair.locate(xy)
    known = np.isfinite(true).all(1)
    cameras = [
        Camera("room_1.png", (width, height), np.eye(4), k, image=pair.image_1),
        Camera("room_2.png", (width, height), pose, k, image=pair.image_2),
    ]
    lines = [Matches(0, 1, np.hstack([xy[known], true[known]]))]
    return Page("room", [dense], cameras, lines, "m", "Exact.")


def shot(opened: Any) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(opened.page.screenshot())).convert("RGB")).astype(float)


def test_axes_agree_with_the_pictures(browser: Any, tmp_path: Path) -> None:
    """From a picture's own camera the points lie on the picture: not mirrored, not turned, not moved."""
    path = write_html(tmp_path / "room.html", room_page())
    opened = open_page(browser)
    opened.goto(path)
    assert opened.js("document.title") == f"ready {192 * 256} 2"
    opened.js("document.documentElement.classList.remove('light')")
    pair = demo.room()
    for number, image in ((0, pair.image_1), (1, pair.image_2)):
        opened.js(f"panel.go({number})")
        opened.slide("opacity", 0)
        opened.settle()
        left, top, scale = opened.js("scene.frame()")
        seen, height, width = shot(opened), *image.shape[:2]
        y, x = np.mgrid[0.15:0.85:60j, 0.15:0.85:80j]
        ys, xs = (y * height).astype(int), (x * width).astype(int)
        there = seen[
            np.rint(top + (ys + 0.5) * scale).astype(int), np.rint(left + (xs + 0.5) * scale).astype(int)
        ]
        wanted = image[ys, xs].astype(float)
        drawn = (np.abs(there - there[0, 0]) > 0).any(-1) | (np.abs(there - wanted).max(-1) < 60)
        right = np.abs(there - wanted).mean(-1) < 30
        mirrored = np.abs(there - image[ys, width - 1 - xs]).mean(-1) < 30
        upside = np.abs(there - image[height - 1 - ys, xs]).mean(-1) < 30
        # picture 2 sees what picture 1 does not: those pixels stay paper
        assert right[drawn].mean() > (0.8 if number == 0 else 0.6), right.mean()
        assert right.mean() > 2 * max(mirrored.mean(), upside.mean())
    opened.clean()


def poster(seen: np.ndarray) -> np.ndarray:
    """The middle (x, y) of the cup's orange poster."""
    r, g, b = seen[..., 0], seen[..., 1], seen[..., 2]
    y, x = np.nonzero((r > 150) & (r - b > 80) & (g < 0.75 * r))
    assert len(x) > 500
    return np.array([np.median(x), np.median(y)])


def test_poster_lies_where_the_picture_has_it(browser: Any, tmp_path: Path) -> None:
    opened = open_page(browser)
    opened.goto(write_html(tmp_path / "room.html", room_page()), "cam=room_1.png")
    opened.js("document.documentElement.classList.remove('light')")
    opened.slide("opacity", 0)
    opened.settle()
    left, top, scale = opened.js("scene.frame()")
    image = demo.room().image_1.astype(float)
    height, width = image.shape[:2]
    area = shot(opened)[int(top) : int(top + height * scale), int(left) : int(left + width * scale)]
    assert np.abs(poster(area) / scale - poster(image)).max() < 0.02 * width
    opened.clean()


def test_thumbnail_lies_upright_over_the_points(browser: Any, tmp_path: Path) -> None:
    """At full opacity the frustum's own picture fills the frame as the file has it."""
    opened = open_page(browser)
    opened.goto(write_html(tmp_path / "room.html", room_page(), thumb=400), "cam=room_2.png")
    opened.slide("opacity", 100)
    opened.page.wait_for_timeout(300)
    left, top, scale = opened.js("scene.frame()")
    image = demo.room().image_2
    height, width = image.shape[:2]
    area = shot(opened)[int(top) : int(top + height * scale), int(left) : int(left + width * scale)]
    small = np.asarray(Image.fromarray(area.astype(np.uint8)).resize((64, 48))).astype(float)
    wanted = np.asarray(Image.fromarray(image).resize((64, 48))).astype(float)
    assert np.abs(small - wanted).mean() < 12
    opened.clean()


def test_confidence_slider(browser: Any, tmp_path: Path) -> None:
    """At 50 % half of the points are drawn, and fewer pixels of the picture are theirs."""
    page = Page("c", [cloud(20_000)], [])
    opened = open_page(browser)
    opened.goto(write_html(tmp_path / "c.html", page))
    assert opened.js("scene.drawn()") == 20_000
    coloured = []
    for value in (0, 50, 90):
        opened.slide("confidence", value)
        seen = shot(opened)[:500, 260:]
        coloured.append(int((np.abs(seen - np.median(seen, axis=(0, 1))).max(-1) > 40).sum()))
        assert abs(opened.js("scene.drawn()") / 20_000 - (1 - value / 100)) < 0.05
    assert coloured[0] > coloured[1] > coloured[2] > 0
    opened.slide("confidence", 50)
    assert "50 %" in opened.js("document.getElementById('confidence-text').textContent")
    opened.clean()


HOSTILE = [
    "</script><img src=x onerror=alert(1)>.jpg",
    "<!--<script>.jpg",
    "a\"b'c`${1}.jpg",
    "{{SCRIPT}}{{THREE}}.jpg",
    "\u05e9\u05dc\u05d5\u05dd \u202e gpj.jpg",
    "\U0001f600 caf\u00e9.jpg",
    "]]>\u2028\u2029.jpg",
]


def test_hostile_names(browser: Any, tmp_path: Path) -> None:
    cameras = [Camera(name, (40, 30), status="unmatched", reason=f"best 3 with {name}") for name in HOSTILE]
    page = Page(HOSTILE[0], [cloud(50)], cameras, scale=HOSTILE[0], unit=HOSTILE[1])
    path = write_html(tmp_path / "h.html", page)
    opened = open_page(browser)
    opened.page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    opened.goto(path)
    shown = opened.js("[...document.querySelectorAll('#list .name')].map(n => n.textContent)")
    assert shown == HOSTILE
    assert opened.js("document.getElementById('title').textContent") == HOSTILE[0]
    assert opened.js("document.querySelectorAll('img[src=x]').length") == 0
    opened.clean()


@pytest.mark.parametrize(
    "page",
    [
        Page("empty", [], []),
        Page("no points", [], [Camera("a.jpg", (40, 30), np.eye(4), np.diag([50.0, 50, 1]))]),
        Page("one", [cloud(1)], []),
        Page(
            "lost", [], [Camera(f"{i}.jpg", (4, 3), status="unmatched", reason="no pair") for i in range(300)]
        ),
        Page(
            "nan",
            [Cloud("n", np.full((5, 3), np.nan), np.zeros((5, 3), np.uint8), np.ones(5), np.zeros(5, int))],
            [],
        ),
    ],
    ids=lambda page: page.title,
)
def test_small_and_empty(browser: Any, tmp_path: Path, page: Page) -> None:
    opened = open_page(browser)
    opened.goto(write_html(tmp_path / "p.html", page))
    assert opened.js("scene.pictures") == len(page.cameras)
    assert opened.js("document.querySelectorAll('#list li').length") == len(page.cameras)
    for key in "fgm[]dG":
        opened.page.keyboard.press(key)
    opened.clean()


def test_components_are_tabs(browser: Any, tmp_path: Path) -> None:
    k = np.diag([50.0, 50, 1])
    cameras = [Camera(f"{i}.jpg", (40, 30), np.eye(4), k, component=i // 2) for i in range(4)]
    opened = open_page(browser)
    opened.goto(write_html(tmp_path / "t.html", Page("two", [cloud(400, 4)], cameras)))
    shown = "[...document.querySelectorAll('#list li')].filter(n => n.style.display !== 'none').length"
    assert opened.js(shown) == 2
    opened.page.get_by_role("tab").nth(1).click()
    assert opened.js(shown) == 2 and opened.js("scene.state.component") == 1
    opened.js("location.hash = 'cam=0.jpg'")
    opened.page.wait_for_function("scene.state.component === 0 && scene.state.current === 0")
    opened.clean()


@pytest.mark.parametrize("window", [(390, 844), (900, 640)])
def test_first_view_holds_the_whole_scene(browser: Any, tmp_path: Path, window: tuple[int, int]) -> None:
    """Nine tenths of a wide wall lie in the window, upright or not."""
    made = np.random.default_rng(2)
    wall = np.stack([made.uniform(-2, 2, 900), made.uniform(-1, 1, 900), np.full(900, 4.0)], 1)
    wide = Cloud("wall", wall, np.full((900, 3), 90, np.uint8), np.ones(900), np.zeros(900, int))
    opened = open_page(browser, *window, reduced_motion="reduce")
    opened.goto(write_html(tmp_path / "w.html", Page("w", [wide], [])))
    ends = [[side * 1.8, up * 0.9, 4] for side in (-1, 1) for up in (-1, 1)]
    seen = opened.js(
        f"(world.camera.updateMatrixWorld(), {ends}.map(([x, y, z]) => "
        "new THREE.Vector3(x, -y, -z).project(world.camera).toArray()))"
    )
    assert np.abs(np.array(seen)[:, :2]).max() < 1
    opened.clean()


def test_keyboard_walks_the_cameras_and_matches_are_lines(browser: Any, tmp_path: Path) -> None:
    opened = open_page(browser, reduced_motion="reduce")
    opened.goto(write_html(tmp_path / "room.html", room_page()))
    opened.page.keyboard.press("]")
    assert opened.js("scene.state.current") == 0 and "cam=room_1.png" in opened.js("location.hash")
    opened.page.keyboard.press("]")
    assert opened.js("scene.state.current") == 1
    opened.page.select_option("#matches", "0")
    lines = opened.js("world.matches.geometry.getAttribute('position').count")
    assert 400 <= lines / 2 <= 500
    opened.page.keyboard.press("Escape")
    assert opened.js("scene.state.current") == -1
    opened.clean()


def test_measures_what_is_clicked(browser: Any, tmp_path: Path) -> None:
    """Two clicked points of known places, 2 m apart."""
    points = np.array([[-1.0, 0, 4], [1, 0, 4], [0, 1, 4], [0, -1, 4]])
    four = Cloud("four", points, np.full((4, 3), 200, np.uint8), np.ones(4), np.zeros(4, int))
    opened = open_page(browser, reduced_motion="reduce")
    opened.goto(write_html(tmp_path / "m.html", Page("m", [four], [], unit="m", scale="Made up.")))
    opened.page.keyboard.press("m")
    for x in (-1, 1):
        at = opened.page.evaluate(WHERE, x)
        opened.page.mouse.click(*at)
    assert opened.js("document.getElementById('note').textContent").startswith("2.000 m. Made up.")
    opened.clean()


BOXES = """[...document.querySelectorAll("CHOICE")].map(n => n.getBoundingClientRect())
    .filter(r => r.width).map(r => [r.left, r.top, r.right, r.bottom])"""
WHERE = """x => {
    world.camera.updateMatrixWorld();
    const v = new THREE.Vector3(x, 0, -4).project(world.camera);
    return [(v.x + 1) / 2 * innerWidth, (1 - v.y) / 2 * innerHeight];
}"""


@pytest.mark.parametrize("size", [(1280, 800), (360, 640), (800, 400)])
def test_controls_stay_on_the_screen(browser: Any, tmp_path: Path, size: tuple[int, int]) -> None:
    opened = open_page(browser, *size)
    opened.goto(write_html(tmp_path / "room.html", room_page()))
    boxes = opened.js(BOXES.replace("CHOICE", "button, select, input"))
    (tools,) = opened.js(BOXES.replace("CHOICE", "#tools"))
    assert tools[0] >= 0 and tools[2] <= size[0] and tools[3] <= size[1]
    assert all(box[0] >= 0 and box[2] <= size[0] + 1 for box in boxes)
    opened.clean()


def test_without_webgl_there_are_a_picture_and_the_list(launch: Any, tmp_path: Path) -> None:
    path = write_html(tmp_path / "room.html", room_page())
    browser = launch(webgl=False)
    opened = open_page(browser)
    opened.goto(path)
    assert opened.js("scene.webgl") is False
    opened.page.wait_for_function("document.querySelector('#view img').naturalWidth > 300")
    assert opened.js("document.querySelectorAll('#list li').length") == 2
    browser.close()


def test_a_million_points(browser: Any, tmp_path: Path) -> None:
    path = write_html(tmp_path / "large.html", Page("large", [cloud(1_500_000)], []))
    assert path.stat().st_size <= 17e6
    opened = open_page(browser)
    opened.goto(path)
    assert 900_000 <= opened.js("scene.points") <= 1_000_000
    opened.clean()


# ---- without a browser --------------------------------------------------------------------


def header(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="head">(.*?)</script>', text, re.S)
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize("count, kind", [(1000, "<u4"), (300_000, "<u2")])
def test_places_are_exact_to_the_stated_share(tmp_path: Path, count: int, kind: str) -> None:
    """16 bits of the box, and 32 bits where there are few points."""
    import base64

    made = cloud(count)
    path = write_html(tmp_path / "c.html", Page("c", [made], []))
    head = header(path)["clouds"][0]
    block = re.search(r'data-part="xyz">(.*?)</script>', path.read_text(encoding="utf-8"))
    assert block and head["place_bytes"] == np.dtype(kind).itemsize
    most = np.iinfo(kind).max
    places = np.frombuffer(base64.b64decode(block[1]), kind).reshape(-1, 3)
    points = np.array(head["low"]) + places / most * np.array(head["size"])
    order = np.argsort(-made.confidence, kind="stable")
    error = np.abs(points - made.points[order]).max(0)
    assert (error <= np.array(head["size"]) / most / 2 * 1.001 + 1e-12).all()


@pytest.mark.parametrize("pictures", [256, 257])
def test_numbers_of_pictures_and_ends_of_matches(browser: Any, tmp_path: Path, pictures: int) -> None:
    """The page reads what was written, of one byte and of two, and wrong by half a step at most."""
    made, size = cloud(3000, pictures), (4000, 3000)
    made.picture[0] = pictures - 1
    pixels = np.random.default_rng(1).uniform(-0.5, np.tile(size, 2) - 0.5, (90, 4))
    cameras = [Camera(f"{i}.jpg", size) for i in range(pictures)]
    lines = [Matches(3, 4, np.vstack([pixels, np.full(4, np.nan)]))]
    path = write_html(tmp_path / "n.html", Page("n", [made], cameras, lines))
    opened = open_page(browser)
    opened.goto(path)
    order = np.argsort(-made.confidence, kind="stable")
    assert opened.js("[...clouds[0].pictures]") == made.picture[order].tolist()
    read = np.reshape(opened.js("pixelsOf(head.matches[0])"), (-1, 4))
    assert (np.abs(read - pixels) <= np.tile(size, 2) / 131070 * 1.001).all()
    opened.clean()


def test_matches_of_pictures_that_the_page_has_not(tmp_path: Path) -> None:
    page = Page("n", [], [Camera("a.jpg", (4, 3))], [Matches(0, 1, np.zeros((1, 4)))])
    with pytest.raises(ShapeError, match="pictures 0 and 1, the page has 1"):
        write_html(tmp_path / "n.html", page)


def test_thinning_keeps_the_most_confident_of_a_cell() -> None:
    made = cloud(200_000)
    thinned = pages.thin(made, 10_000)
    assert 8_000 <= len(thinned.points) <= 10_000
    assert (np.diff(thinned.confidence) <= 0).all()
    assert thinned.confidence.mean() > made.confidence.mean() + 0.2


def test_pages_forbid_requests_and_hold_the_licence(tmp_path: Path) -> None:
    text = write_html(tmp_path / "e.html", Page("e", [], [])).read_text(encoding="utf-8")
    assert "default-src 'none'" in text and "connect-src" not in text
    assert "The MIT License" in text and "three.js authors" in text
    assert not re.search(r"<(link|img|iframe)\b[^>]*(href|src)=", text)


def test_arguments(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="points of"):
        Cloud("x", np.zeros((2, 2)), np.zeros((2, 3), np.uint8), np.zeros(2), np.zeros(2, int))
    with pytest.raises(ShapeError, match="0..65535"):
        Cloud("x", np.zeros((1, 3)), np.zeros((1, 3), np.uint8), np.zeros(1), np.array([70000]))
    for options in ({"max_points": 0}, {"max_points": 10**9}, {"thumb": 3}):
        with pytest.raises(ArgumentError):
            write_html(tmp_path / "x.html", Page("e", [], []), **options)
    with pytest.raises(ArgumentError, match="want a scene"):
        write_html(tmp_path / "x.html", 3)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_files_of_points(tmp_path: Path) -> None:
    from mast3r_runtime._output import export

    made = cloud(100)
    for name in ("a.ply", "a.glb", "b.GLB"):
        export.write_points(tmp_path / name, made.points.astype(np.float32), made.colours)
        page = points_page(tmp_path / name)
        np.testing.assert_allclose(page.clouds[0].points, made.points, atol=1e-5)
        linear = name.lower().endswith("glb")  # whose bytes tell few dark tones apart
        got, want = (export._linear(c) if linear else c for c in (page.clouds[0].colours, made.colours))
        np.testing.assert_array_equal(got, want)
    (tmp_path / "bad.ply").write_bytes(b"ply\nformat binary_little_endian 1.0\nelement vertex 99999999999\n")
    with pytest.raises(FileError, match="bad.ply"):
        points_page(tmp_path / "bad.ply")


def test_pair_of_an_engine(engine: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    images = [rng.integers(0, 256, (64, 96, 3), np.uint8) for _ in range(2)]
    result = engine.infer_gpu(*images)
    path = write_html(tmp_path / "pair.html", result, images, engine.match(result, top_k=50))
    head = header(path)
    assert [p["name"] for p in head["pictures"]] == ["picture 1", "picture 2"]
    assert head["pictures"][0]["pose"] and sum(c["count"] for c in head["clouds"]) == 2 * 64 * 96
    with pytest.raises(ArgumentError, match="want its two"):
        write_html(tmp_path / "x.html", result)


def test_result_file_is_a_page(engine: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    """view result.npz: the points, colours and matches of the pair it was written of."""
    one, two = (rng.integers(0, 256, (64, 96, 3), np.uint8) for _ in range(2))
    result = engine.infer_gpu(one, two).numpy()
    matches = engine.match(result, confidence_threshold=0.0)
    path = tmp_path / "result.npz"
    export.write_npz(path, result, matches)
    page, direct = result_page(path, "pair"), pair_page(result, one, two, matches)
    for name in ("points", "colours", "confidence", "picture"):
        np.testing.assert_array_equal(getattr(page.clouds[0], name), getattr(direct.clouds[0], name))
    assert [c.size for c in page.cameras] == [c.size for c in direct.cameras] == [(96, 64)] * 2
    assert [c.reason for c in page.cameras] == [c.reason for c in direct.cameras]
    np.testing.assert_array_equal(page.matches[0].pixels, direct.matches[0].pixels)
    assert cli.main(["view", str(path), "--json"]) == 0 and (tmp_path / "result.html").is_file()
    whole = path.read_bytes()
    for bad in (b"", whole[:200], whole[: len(whole) // 2], b"x" * 300):
        path.write_bytes(bad)
        with pytest.raises(FileError, match="result"):
            result_page(path)
    np.savez(path, pts3d_1=np.zeros(3))
    with pytest.raises(FileError, match="result"):
        result_page(path)


def test_live_without_viser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(DependencyError, match=r"pip install 'mast3r-runtime\[viewer\]'"):
        serve(room_page())


def test_live_serves_points_and_cameras() -> None:
    """On this machine alone, with the points and poses of the page."""
    pytest.importorskip("viser", reason="no viser here (extra viewer): nothing is served")
    page = room_page()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = serve(page, port, max_points=5000)
    try:
        assert server.get_host() == "127.0.0.1"
        with urllib.request.urlopen(f"http://127.0.0.1:{server.get_port()}/", timeout=20) as answer:
            assert answer.status == 200
        nodes = server.scene._handle_from_node_name
        frusta = [n for name, n in nodes.items() if name.startswith("/cameras/")]
        placed = [c for c in page.cameras if c.pose is not None]
        assert len(frusta) == len(placed) == 2
        for node, camera in zip(frusta, placed):
            np.testing.assert_allclose(node.position, camera.pose[:3, 3], atol=1e-6)  # type: ignore[index]
            assert abs(np.tan(node.fov / 2) - camera.size[1] / 2 / camera.intrinsics[1, 1]) < 1e-6  # type: ignore[index]
        clouds = [n for name, n in nodes.items() if name.startswith("/points/")]
        assert 0 < len(clouds[0].points) <= 5000
    finally:
        server.stop()


def test_checksum_of_the_bundle() -> None:
    digest, name = (WEB / "three.js.sha256").read_text().split()
    assert hashlib.sha256((WEB / name).read_bytes()).hexdigest() == digest


def test_bundle_is_what_the_lock_file_makes(tmp_path: Path) -> None:
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("the bundle is not rebuilt: no node and npm here")
    folder = tmp_path / "viewer"
    shutil.copytree(ROOT / "viewer", folder, ignore=shutil.ignore_patterns("node_modules"))
    done = subprocess.run(
        ["sh", "build.sh", str(tmp_path / "three.js")],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
    )
    if done.returncode and re.search(r"ENOTFOUND|ECONN|ETIMEDOUT|EAI_AGAIN|network", done.stderr):
        pytest.skip(f"the bundle is not rebuilt: npm has no network: {done.stderr[:200]}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "three.js").read_bytes() == (WEB / "three.js").read_bytes()
