# SPDX-License-Identifier: Apache-2.0
"""Gathers the pictures that textures are cut from, all CC0 or in the public domain.

    npm pack @pmndrs/assets && tar xzf pmndrs-assets-*.tgz
    python collect_photos.py OUT --assets package [--held-out FOLDER] [--furniture LIBRARY --whole FOLDER]

From the npm package (CC0): tone-mapped panoramas, half of the relief maps,
clouds. From the installed scikit-image: pictures that are CC0 or NASA's.
From matplotlib: a portrait by the US Navy. No picture of the evaluation is
among them; --held-out gets the two that only the evaluation's textures use.
--furniture adds the textures of Debian's sweethome3d-furniture (CC0, see
collect_meshes.py), which the seventh and later runs have. --whole gets those
that are pictures of something, for train.py --photographs.
Needs OpenEXR, scikit-image and matplotlib.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import re
import shutil
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

LONG_SIDE = 1024
SKIMAGE = (
    "astronaut.png",
    "brick.png",
    "camera.png",
    "grass.png",
    "gravel.png",
    "hubble_deep_field.jpg",
    "moon.png",
    "rocket.jpg",
)
HELD_OUT = ("chelsea.png", "coffee.png")
MARKS = ("basketball_basketball-colormap", "iphone_iphone")  # textures that show somebody's mark
LEAST_SIDE = 200
# Textures of furniture that are pictures of something; of the others all but relief maps and clouds are.
WHOLE = (
    "ammobox_box", "bread_breadd", "chairwithcushion_wood_013_color", "chicken_chicken",
    "couch2_fabric_011_color", "couch_plain001", "drawerscabinet_american_oak", "drawerscabinet_marble_14",
    "japaneselantern_japaneselantern", "lantern_lantern_1024_c", "rock1_rock01", "rock2_rock02",
    "rock3_rock03",
)  # fmt: skip


def package_folder(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"collect_photos: package {name!r} is not installed")
    return Path(spec.origin).parent


def save(image: Image.Image, out: Path, name: str) -> None:
    image = image.convert("RGB")
    image.thumbnail((LONG_SIDE, LONG_SIDE), Image.LANCZOS)
    image.save(out / f"{name}.jpg", quality=92)


def payload(module: Path) -> bytes:
    """The file inside a JavaScript module that exports a data URL."""
    found = re.search(r"base64,([A-Za-z0-9+/=]+)", module.read_text())
    if found is None:
        raise ValueError(f"collect_photos: no base64 data in {module}")
    return base64.b64decode(found[1])


def tone_mapped(exr: bytes) -> Image.Image:
    """High dynamic range to bytes: three times the median becomes half of white."""
    import OpenEXR

    with tempfile.NamedTemporaryFile(suffix=".exr") as file:
        file.write(exr)
        file.flush()
        channels = OpenEXR.File(file.name).channels()
    linear = (
        channels["RGB"].pixels if "RGB" in channels else np.stack([channels[c].pixels for c in "RGB"], -1)
    )
    linear = np.asarray(linear, np.float32)
    linear = linear / (3 * np.median(linear) + 1e-6)
    linear = np.clip(1.3 * linear / (1 + linear), 0, 1)
    return Image.fromarray((255 * linear ** (1 / 2.2)).astype(np.uint8))


def furniture(library: Path, out: Path) -> None:
    """The textures of a library of models, but for icons, doubles, small ones and marks."""
    seen = set()
    with zipfile.ZipFile(library) as archive:
        for name in sorted(archive.namelist()):
            parts = name.split("/")
            if not name.lower().endswith((".png", ".jpg", ".jpeg")) or len(parts) < 2:
                continue
            data = archive.read(name)
            digest = hashlib.sha256(data).digest()
            try:
                image = Image.open(io.BytesIO(data)).convert("RGB")
            except OSError:
                continue
            stem = f"{parts[-2]}_{Path(name).stem}".lower().replace(" ", "_")
            if digest not in seen and min(image.size) >= LEAST_SIDE and stem not in MARKS:
                image.save(out / f"bswap_{stem}.jpg", quality=90)
            seen.add(digest)


def whole_pictures(photos: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(photos.glob("*.jpg")):
        kind, _, stem = path.stem.partition("_")
        if stem in WHOLE if kind == "bswap" else not stem.startswith(("normals_", "textures_")):
            shutil.copy(path, out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--assets", type=Path, required=True, help="the unpacked npm package")
    parser.add_argument("--held-out", type=Path)
    parser.add_argument("--furniture", type=Path, help="BlendSwap-CC-0.sh3f")
    parser.add_argument("--whole", type=Path, help="folder of the pictures that are used whole")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for module in sorted(args.assets.glob("hdri/*.exr.js")):
        save(tone_mapped(payload(module)), args.out, f"pmndrs_hdri_{module.name.split('.')[0]}")
    reliefs = [*sorted(args.assets.glob("normals/*.webp.js"))[::2], args.assets / "textures/cloud.webp.js"]
    for module in reliefs:
        save(
            Image.open(io.BytesIO(payload(module))),
            args.out,
            f"pmndrs_{module.parent.name}_{module.name.split('.')[0]}",
        )
    data = package_folder("skimage") / "data"
    for name in SKIMAGE:
        save(Image.open(data / name), args.out, f"skimage_{name.split('.')[0]}")
    save(
        Image.open(package_folder("matplotlib") / "mpl-data/sample_data/grace_hopper.jpg"),
        args.out,
        "matplotlib_grace_hopper",
    )
    if args.furniture:
        furniture(args.furniture, args.out)
    if args.whole:
        whole_pictures(args.out, args.whole)
    if args.held_out:
        args.held_out.mkdir(parents=True, exist_ok=True)
        for name in HELD_OUT:
            shutil.copy(data / name, args.held_out)


if __name__ == "__main__":
    main()
