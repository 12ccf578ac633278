# SPDX-License-Identifier: Apache-2.0
"""Pictures to a scene, and what can be asked of it.

    python docs/examples/scene.py FOLDER OUT [--resolution 256]

Needs pip install 'mast3r-runtime[scene]'.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import mast3r_runtime as m3r
from mast3r_runtime.scene import Scene, reconstruct
from mast3r_runtime.viewer import write_html


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--resolution", type=int, default=256)
    arguments = parser.parse_args()

    pictures = sorted(arguments.folder.glob("*.jpg"))
    kept_out, rest = pictures[-1], pictures[:-1]
    with m3r.Engine("auto", resolution=arguments.resolution, precision="fp32") as engine:
        engine.load()
        scene = reconstruct(engine, rest, store=arguments.out / ".cache")
        found = scene.localize(engine, kept_out)

    for name, picture in scene.pictures.items():
        if picture.pose is None:
            print(f"{name}: {picture.status}, {picture.reason}")
            continue
        x, y, z = picture.pose[:3, 3]
        print(f"{name}: at {x:.3f} {y:.3f} {z:.3f} {scene.scale.unit}, {picture.observations} observations")
    print(f"{len(scene.points)} points; {scene.scale.sentence()}")
    if found.pose is not None:
        print(f"{kept_out.name}: {found.inliers} inliers, at {np.round(found.pose[:3, 3], 3)}")

    # How far are the points that a picture sees? In its own camera's frame depth is z.
    first = scene.placed[0]
    assert first.pose is not None
    points, confidence = first.dense()
    known = np.isfinite(points).all(-1)
    depth = (points[known] - first.pose[:3, 3]) @ first.pose[:3, 2]
    print(f"{first.name}: depth {depth.min():.2f} to {depth.max():.2f}, {known.mean():.0%} of the pixels")

    scene.write(arguments.out)
    again = Scene.load(arguments.out)
    write_html(arguments.out / "small.html", again, max_points=20_000, title="a small page")
    print(f"open {arguments.out / 'scene.html'} in a browser")


if __name__ == "__main__":
    main()
