# SPDX-License-Identifier: Apache-2.0
"""The verbs about this machine: ``info``, ``selfcheck``, ``doctor``, ``benchmark``."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._library.version import __version__
from .common import backend_option, engine_options, file_options, note, open_engine, say

__all__ = ["add"]


def add(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the verbs to the command line."""
    info = verb("info", _info, "Say what runs here, on what device, with which model.")
    engine_options(info)
    info.add_argument("--json", action="store_true", help="print JSON")

    check = verb("selfcheck", _selfcheck, "Compare with outputs of the published reference.")
    backend_option(check)
    check.add_argument("--json", action="store_true", help="print JSON")
    check.add_argument("--only-metal", action="store_true", help=argparse.SUPPRESS)
    check.add_argument("--only-cuda", action="store_true", help=argparse.SUPPRESS)

    report = verb("doctor", _doctor, "Write a report about this machine to attach to an issue.")
    report.add_argument("-o", "--out", type=Path, default=Path("report.zip"), help="the zip file")
    report.add_argument("--processes", type=int, default=8, help="fresh processes to time (default: 8)")
    report.add_argument("--pairs", type=int, default=50, help="pairs to watch memory over (default: 50)")
    engine_options(report)
    report.add_argument("--json", action="store_true", help="print JSON")
    file_options(report)

    bench = verb("benchmark", _benchmark, "Time the network on a random pair.")
    engine_options(bench)
    bench.add_argument("--iterations", type=int, default=20)
    bench.add_argument("--warmup", type=int, default=3)
    bench.add_argument("--json", action="store_true", help="print JSON")


def _info(arguments: argparse.Namespace) -> int:
    from .._library import calls

    with open_engine(arguments) as engine:
        values: dict[str, Any] = engine.info()
    values = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "library": str(calls.library_path()),
        **values,
    }
    shown = {key: value for key, value in values.items() if value not in ("", {}, 0)}
    width = max(map(len, shown))
    say(arguments, values, "\n".join(f"{key:{width}}  {value}" for key, value in shown.items()))
    return 0


def _selfcheck(arguments: argparse.Namespace) -> int:
    from . import selfcheck

    if arguments.only_metal or arguments.only_cuda:  # the process that may end: each check is told at once
        bad = 0
        if arguments.only_metal:
            checks_of_gpu = selfcheck.run_metal(arguments.backend == "metal")
        else:
            checks_of_gpu = selfcheck.run_cuda(arguments.backend)
        for check in checks_of_gpu:
            print(json.dumps(vars(check)), flush=True)
            bad += not check.ok
        return 1 if bad else 0
    checks = []
    for check in selfcheck.run(arguments.backend):
        checks.append(check)
        note(arguments, f"{'ok  ' if check.ok else 'FAIL'}  {check.name:24}  {check.detail}")
    bad = sum(not check.ok for check in checks)
    say(arguments, [vars(check) for check in checks], f"{len(checks) - bad} of {len(checks)} checks agree")
    return 1 if bad else 0


def _doctor(arguments: argparse.Namespace) -> int:
    from .._files.single import single
    from . import doctor

    single(arguments.out, (".zip",), [arguments.model] if arguments.model else [], arguments.overwrite)
    report = doctor.collect(arguments, lambda text: note(arguments, text))
    doctor.write(report, arguments.out)
    bad = [check["name"] for check in report["selfcheck"]["checks"] if not check["ok"]]
    verdict = f"failed checks: {', '.join(bad)}" if bad else "all checks agree"
    say(arguments, report, f"{verdict}; the report is {arguments.out}: read it, then attach it to the issue")
    return 1 if bad else 0


def _benchmark(arguments: argparse.Namespace) -> int:
    from .._engine import timing

    with open_engine(arguments) as engine:
        values = timing.benchmark(engine, arguments.iterations, arguments.warmup)
        name = engine.name()
    text = (
        "{}: {width:.0f} x {height:.0f}: median {p50_ms:.1f} ms, mean {mean_ms:.1f}, p95 {p95_ms:.1f}, "
        "min {min_ms:.1f} ({fps:.2f} pairs/s)"
    )
    if "joules" in values:
        text += ", {joules:.1f} J of the processor for each"
    say(arguments, {"engine": name, **values}, text.format(name, **values))
    return 0
