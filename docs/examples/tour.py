# SPDX-License-Identifier: Apache-2.0
"""The whole interface in one script: python docs/examples/tour.py [IMAGE IMAGE ...]

Without pictures it takes the pair in the wheel, without options the model in the wheel.
``--model``, ``--retrieval`` and ``--codebook`` name other files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import mast3r_runtime as m3r


def pictures(paths: list[Path]) -> list[m3r.images.U8]:
    """Read the pictures, or the pair in the wheel."""
    if not paths:
        folder = Path(m3r.__file__).parent / "pictures"
        paths = [folder / "room_1.png", folder / "room_2.png"]
    return [m3r.read_image(path) for path in paths]


def reconstruct(engine: m3r.Engine, images: list[m3r.images.U8]) -> None:
    """A pair: points, confidences, matches in the pixels of the pictures."""
    result = engine.infer_gpu(images[0], images[1])
    points, confidence = result.pts3d_1.numpy(), result.conf_1.numpy()
    sure = confidence > np.median(confidence)
    print(f"points {points.shape}, median depth of the surer half {np.median(points[sure][:, 2]):.2f}")
    print(f"inference {result.timing['inference_ms']:.0f} ms, in all {result.timing['total_ms']:.0f} ms")

    matches = engine.match(result, top_k=512, reciprocal=True, confidence_threshold=0.5)
    print(f"{len(matches)} matches in {matches.timing['match_ms']:.0f} ms")
    for (x1, y1), (x2, y2) in list(zip(matches.original_1, matches.original_2))[:3]:
        print(f"  ({x1:.1f}, {y1:.1f}) is ({x2:.1f}, {y2:.1f})")

    # Only what is needed: the descriptors' branch of the heads is not run.
    only = engine.infer_gpu(images[0], images[1], only=("pts3d", "conf"))
    assert not only.desc_1.is_valid


def sequence(engine: m3r.Engine, images: list[m3r.images.U8]) -> None:
    """Neighbours of a sequence: every picture is encoded once."""
    for i, result in enumerate(engine.infer_batch_pipelined([*images, images[0]])):
        print(f"pair {i}, {i + 1}: mean confidence {result.conf_1.numpy().mean():.2f}")

    # The same by hand: features can be kept, saved and decoded against any others.
    features = [engine.encode(image) for image in images]
    again = engine.decode(features[1], features[0])
    print(f"decoded the other way round: {again.pts3d_1.shape}")

    both = engine.infer_symmetric(images[0], images[1])
    print(f"picture 1 seen from camera 2: {both.view_12.pts3d.shape}")


def retrieve(engine: m3r.Engine, images: list[m3r.images.U8], head: Path, codebook: Path | None) -> None:
    """Which pictures are worth pairing."""
    engine.load_retrieval(head)
    assert engine.is_retrieval_ready() and not engine.is_retrieval_standalone()
    features = engine.encode_retrieval_batch(images)
    print(f"retrieval features {features[0].features.shape}, attention {features[0].attention.shape}")
    scores = m3r.similarity(features)
    if codebook is not None:
        with engine.open_index(codebook) as index:
            index.add(features)
            scores = index.score(features)
    print("pairs", m3r.scene_pairs(len(images), "retrieval-1-2", scores))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("images", nargs="*", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--retrieval", type=Path)
    parser.add_argument("--codebook", type=Path)
    parser.add_argument("--resolution", type=int, default=256)
    arguments = parser.parse_args()
    backend = m3r.get_backend_info()
    if "metal" not in backend["available"]:
        print("no Metal here:", backend["context"]["fallback_reason"])
    images = pictures(arguments.images)
    size = arguments.resolution
    with m3r.Engine(variant="auto", resolution=size, precision="auto", num_threads=0) as engine:
        engine.load(arguments.model)
        engine.warmup(num_iterations=1)
        print(engine.name(), "on", engine.info()["device"])
        reconstruct(engine, images)
        sequence(engine, images)
        if arguments.retrieval is not None:
            retrieve(engine, images, arguments.retrieval, arguments.codebook)


if __name__ == "__main__":
    main()
