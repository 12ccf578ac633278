# SPDX-License-Identifier: Apache-2.0
"""The verb ``profile``: measured times of a pair, or its work counted from the shapes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any

from .common import engine_options, open_engine, say

__all__ = ["add"]


def add(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    profile = verb("profile", _profile, "Say where the time of a pair goes, or what it should cost.")
    engine_options(profile)
    profile.add_argument("--iterations", type=int, default=10)
    profile.add_argument("--wait", action="store_true", help="wait for Enter, so that a profiler can attach")
    profile.add_argument(
        "--stages", action="store_true", help="submit every stage alone: a GPU times it then"
    )
    profile.add_argument("--size", type=_size, metavar="WxH", help="of the pictures, at network size")
    profile.add_argument("--static", action="store_true", help="count from the shapes, run nothing")
    profile.add_argument("--tflops", type=float, default=0.0, help="--static: the machine's (default: 7.5)")
    profile.add_argument("--bandwidth", type=float, default=0.0, help="--static: GB/s (default: 273)")
    profile.add_argument("--json", action="store_true", help="print JSON")


def _size(text: str) -> tuple[int, int]:
    """Parse ``512x384``, width first as people say it, to (height, width)."""
    width, cross, height = text.lower().partition("x")
    if not (cross and width.isdecimal() and height.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r}, want WIDTHxHEIGHT as in 512x384")
    return int(height), int(width)


def _profile(arguments: argparse.Namespace) -> int:
    if arguments.iterations < 1:
        raise ValueError(f"--iterations {arguments.iterations}: want at least 1")
    values, text = _static(arguments) if arguments.static else _measured(arguments)
    say(arguments, values, text)
    return 0


def _static(arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from .._engine.reports import estimate_cost

    values = estimate_cost(
        arguments.model,
        arguments.variant,
        arguments.size,
        precision="fp32" if arguments.precision == "fp32" else "fp16",
        tflops=arguments.tflops,
        gb_per_s=arguments.bandwidth,
    )
    return values, _cost_text(values)


def _measured(arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    import numpy as np

    from .._engine.reports import profile
    from .._engine.timing import native_size

    with open_engine(arguments) as engine:
        height, width = arguments.size or native_size(engine)
        pair = np.random.default_rng(0).integers(0, 256, (2, height, width, 3), np.uint8)
        if arguments.wait:
            engine.warmup(1)
            print(f"process {os.getpid()} is ready; attach, then press Enter", file=sys.stderr)
            sys.stdin.readline()
        values = profile(engine, pair[0], pair[1], arguments.iterations, arguments.stages, preprocess=False)
        name = engine.name()
    return {"engine": name, **values}, _profile_text(name, values)


def _cost_text(values: dict[str, Any]) -> str:
    lines = [
        "{variant} in {precision}: {width_1} x {height_1} and {width_2} x {height_2} "
        "at {tflops:g} TFLOPS and {gb_per_s:g} GB/s".format(**values),
        f"{'':18}{'dispatches':>11}{'transposes':>11}{'GFLOP':>10}{'MB':>10}{'of weights':>11}{'ms':>10}",
    ]
    for part in (*values["graphs"], values["total"], {}, *values["ops"]):
        row = "{name:18}{dispatches:11}{transposes:11}{0:10.1f}{1:10.1f}{2:11.1f}{predicted_ms:10.2f}"
        sizes = (part["flops"] / 1e9, part["bytes"] / 1e6, part["weight_bytes"] / 1e6) if part else ()
        lines.append(row.format(*sizes, **part) if part else "")
    return "\n".join(lines)


def _profile_text(name: str, values: dict[str, Any]) -> str:
    lines = [
        f"{name}: {values['width_1']} x {values['height_1']}, median of {values['iterations']}: "
        f"{values['wall_ms']:.2f} ms, {values['device_ms']:.2f} of them on the device",
    ]
    how = "" if values["measured"] else "  (shares by cost; --stages measures them)"
    lines.append(f"{'stage':24}{'ms':>10}{'TFLOPS':>10}{how}")
    lines += [f"{stage['name']:24}{stage['ms']:10.3f}{stage['tflops']:10.3f}" for stage in values["stages"]]
    how = "" if values["ops_measured"] else "  (shares by cost)"
    lines.append(f"{'operation':24}{'ms':>10}{'count':>10}{'GFLOP':>10}{how}")
    lines += [
        f"{op['name']:24}{op['ms']:10.3f}{op['count']:10}{op['flops'] / 1e9:10.2f}" for op in values["ops"]
    ]
    return "\n".join(lines)
