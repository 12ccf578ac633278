# SPDX-License-Identifier: Apache-2.0
"""Tries the installed wheel: the README's ten lines on the rendered room of the wheel, with known numbers.

try.py [REFERENCE.npz]: compares the fields with those that another machine wrote (``--write
FILE``), each relative to its largest value, and prints the largest difference.
"""

import argparse
import platform
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

import numpy as np

import mast3r_runtime as m3r


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", nargs="?", help="fields of another machine")
    parser.add_argument("--write", metavar="FILE", help="write this machine's fields")
    parser.add_argument("--resolution", type=int, default=256)
    parser.add_argument("--threads", type=int, default=0, help="also infer in so many threads at once")
    parser.add_argument("--limit", type=float, default=1e-5, help="largest relative difference that passes")
    arguments = parser.parse_args()
    pictures = files("mast3r_runtime") / "pictures"
    with m3r.Engine(
        "auto", resolution=arguments.resolution, precision="fp32", num_threads=0, backend="cpu"
    ) as engine:
        engine.load()
        name = engine.name()
        result = engine.infer_gpu(str(pictures / "room_1.png"), str(pictures / "room_2.png"))
        if arguments.threads:
            together(engine, [str(pictures / f"room_{k}.png") for k in (1, 2)], result, arguments.threads)
        matches = engine.match(result.desc_1, result.desc_2, top_k=0)  # every reciprocal match, exactly
        fields = {
            "points": result.pts3d_1.numpy(),
            "confidence": result.conf_1.numpy(),
            "descriptors": result.desc_1.numpy(),
            "matches": np.concatenate([np.asarray(matches.pts2d_1), np.asarray(matches.pts2d_2)], axis=1),
        }
    system = f"{platform.platform()} {platform.machine()}"
    print(f"{system}, Python {platform.python_version()}, numpy {np.__version__}")
    print(f"{name}: {len(fields['matches'])} matches")
    if not np.isfinite(fields["points"]).all():
        sys.exit("try.py: points that are not finite")
    if len(fields["matches"]) < 10_000 * arguments.resolution**2 // 256**2:
        sys.exit(f"try.py: {len(fields['matches'])} matches, want more than 10000")
    if arguments.write:
        np.savez_compressed(arguments.write, **fields)
    if arguments.reference:
        compare(fields, dict(np.load(arguments.reference)), arguments.limit)


def together(engine: m3r.Engine, pair: list[str], want: m3r.InferenceResult, count: int) -> None:
    """Threads that use one engine at once get the bits that one of them gets alone."""
    with ThreadPoolExecutor(count) as pool:
        results = list(pool.map(lambda _: engine.infer_gpu(*pair), range(2 * count)))
    for result in results:
        for name in ("pts3d_1", "conf_2", "desc_1"):
            if not np.array_equal(getattr(result, name).numpy(), getattr(want, name).numpy()):
                sys.exit(f"try.py: {name} differs in one of {count} threads")
    locked = not sysconfig.get_config_var("Py_GIL_DISABLED") or sys._is_gil_enabled()
    print(f"{count} threads at once: the same bits, {'one' if locked else 'no'} interpreter lock")


def compare(fields: dict[str, np.ndarray], reference: dict[str, np.ndarray], limit: float) -> None:
    """Compare with another machine's fields; matches as sets of pairs of pixels."""
    worst = 0.0
    for name, got in fields.items():
        want = reference[name]
        if name == "matches":
            common = set(map(tuple, got.tolist())) & set(map(tuple, want.tolist()))
            print(f"matches: {len(common)} of {len(want)} are the same, {len(got)} here")
            if len(common) < 0.999 * max(len(want), len(got)):
                sys.exit("try.py: more than one match in a thousand differs")
            continue
        difference = float(np.abs(got - want).max() / np.abs(want).max())
        bits = "the same bits" if np.array_equal(got, want) else "other bits"
        print(f"{name}: largest difference {difference:.2g} of the largest value, {bits}")
        worst = max(worst, difference)
    if worst > limit:
        sys.exit(f"try.py: difference {worst:.2g}, want at most {limit:g}")


if __name__ == "__main__":
    main()
