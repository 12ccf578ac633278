# SPDX-License-Identifier: Apache-2.0
"""What ``mast3r doctor`` collects: enough to judge a machine from afar, and nothing about its user.

Everything that uses the device runs in processes of its own, which may end without taking the
report with them. Names of the user, of the machine and of folders are taken out at the end.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._files.single import MARK
from .._files.whole import replacing
from .._library.version import __version__
from ..errors import without_secrets

__all__ = ["collect", "write"]

# What the system says about itself; a command that is not there is left out.
_COMMANDS: dict[str, list[str]] = {
    "sw_vers": ["sw_vers"],
    "chip": ["sysctl", "-n", "machdep.cpu.brand_string"],
    "memory": ["sysctl", "-n", "hw.memsize"],
    "virtual machine": ["sysctl", "-n", "kern.hv_vmm_present"],
    "translated": ["sysctl", "-n", "sysctl.proc_translated"],
    "memory pressure": ["memory_pressure", "-Q"],
}
_VARIABLES = re.compile(r"MAST3R_|METALSIM_|MPSGRAPH_|MTL_|OBJC_|GODEBUG|GOMAXPROCS")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")
# A URL, which stays, or an absolute path of more than one folder: what is kept is its last part.
_PATHS = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*://\S*)"
    r"|(?<![\w.~)/\\])/(?:[^\s/\"':;,()]+/)+([^\s/\"':;,()]*)"
    r"|(?<!\w)(?:[A-Za-z]:|\\)\\(?:[^\s\\\"':;,()]+\\)+([^\s\\\"':;,()]*)"
)
_ENGINE = ("variant", "resolution", "precision", "threads", "backend")
_WATCH = """
import json, sys
import numpy as np
from mast3r_runtime._commands import doctor
print(json.dumps(doctor.watch(int(sys.argv[1]), json.loads(sys.argv[2]))))
"""


def collect(arguments: argparse.Namespace, note: Callable[[str], None]) -> dict[str, Any]:
    """Gather the report. ``note`` is told what is being done."""
    from .._library import calls

    options = _options(arguments)
    note("versions and system")
    report: dict[str, Any] = {
        "version": __version__,
        "python": sys.version,
        "executable architecture": platform.machine(),
        "platform": platform.platform(),
        "numpy": np.__version__,
        "library": calls.library_path().name,
        "environment": {key: value for key, value in sorted(os.environ.items()) if _VARIABLES.match(key)},
        "system": {name: _said(command) for name, command in _COMMANDS.items() if sys.platform == "darwin"},
    }
    note("the device")
    report["info"] = _child(["info", "--json", *options])
    note("the checks, of which those of a GPU take a minute")
    checks = _child(["selfcheck", "--json", "--backend", arguments.backend], statuses=(0, 1))
    failed = [{"name": "selfcheck", "ok": False, "detail": str(checks)}]
    report["selfcheck"] = {"checks": checks if isinstance(checks, list) else failed}
    report["timings"] = _timings(arguments.processes, options, note)
    note(f"memory over {arguments.pairs} pairs")
    settings = {name: getattr(arguments, name) for name in _ENGINE}
    settings["model"] = None if arguments.model is None else str(arguments.model)
    report["memory"] = _run([sys.executable, "-c", _WATCH, str(arguments.pairs), json.dumps(settings)])
    told = [*report["environment"].values(), *([settings["model"]] if settings["model"] else [])]
    clean: dict[str, Any] = _clean(report, told)
    return clean


def watch(pairs: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Run so many pairs and note after each tenth of them what memory the process holds."""
    from .._engine.engine import Engine

    model = settings.pop("model")
    rng = np.random.default_rng(0)
    with Engine(*(settings[name] for name in _ENGINE)) as engine:
        engine.load(None if model is None else Path(model))
        side = int(engine.info()["resolution"])
        pair = [rng.integers(0, 256, (side * 3 // 4, side, 3), np.uint8) for _ in range(2)]
        rows = []
        for done in range(pairs + 1):
            if done % max(pairs // 10, 1) == 0:
                info = engine.info()
                rows.append({"pairs": done, "resident": _resident(), "pool": info["pool_bytes"]})
            if done < pairs:
                engine.infer_gpu(pair[0], pair[1]).numpy()
    first, last = rows[len(rows) // 2], rows[-1]
    return {"rows": rows, "grown_in_second_half": last["resident"] - first["resident"]}


def write(report: dict[str, Any], path: Path) -> None:
    """Write the report as a zip file of a JSON file and one for reading."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = MARK.encode()
        archive.writestr("report.json", json.dumps(report, indent=2))
        archive.writestr("report.txt", _text(report))


def _options(arguments: argparse.Namespace) -> list[str]:
    options = [word for name in _ENGINE for word in (f"--{name}", str(getattr(arguments, name)))]
    return options if arguments.model is None else [*options, "--model", str(arguments.model)]


def _timings(processes: int, options: Sequence[str], note: Callable[[str], None]) -> dict[str, Any]:
    """Medians of fresh processes: which kernel a product gets is settled once a process."""
    runs = []
    for i in range(processes):
        note(f"timing, process {i + 1} of {processes}")
        runs.append(_child(["benchmark", "--json", "--iterations", "5", "--warmup", "2", *options]))
    medians = [run["p50_ms"] for run in runs if isinstance(run, dict) and "p50_ms" in run]
    if not medians:
        return {"processes": runs}
    summary = {"median_ms": statistics.median(medians), "min_ms": min(medians), "max_ms": max(medians)}
    return {"processes": runs, **summary}


def _child(arguments: Sequence[str], statuses: Sequence[int] = (0,)) -> Any:
    return _run([sys.executable, "-m", "mast3r_runtime", *arguments], statuses)


def _run(command: Sequence[str], statuses: Sequence[int] = (0,)) -> Any:
    """The JSON that a process printed, or how it ended."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode in statuses:
        try:
            return json.loads(done.stdout)
        except ValueError:
            pass
    return {"status": done.returncode, "stderr": done.stderr[-4000:], "stdout": done.stdout[-1000:]}


def _said(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        return type(error).__name__
    return done.stdout.strip() or done.stderr.strip()


def _resident() -> int:
    """Bytes of this process in memory."""
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    kilobytes = _said(["ps", "-o", "rss=", "-p", str(os.getpid())])
    return int(kilobytes) * 1024 if kilobytes.isdigit() else 0


def _clean(value: Any, told: Sequence[str]) -> Any:
    """The report without secrets of URLs and without the names of folders, user and machine."""
    if isinstance(value, dict):
        return {_clean(key, told): _clean(item, told) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, told) for item in value]
    return _anonymous(value, told) if isinstance(value, str) else value


def _anonymous(text: str, told: Sequence[str]) -> str:
    """``told`` are texts that the user gave, which are known to be paths or URLs where they look so."""
    urls = [word for value in told for word in re.split(r"[\s,]+", value) if "://" in word]
    text = without_secrets(text, *urls)
    names = {str(Path.home()): "~", os.getcwd(): "."}
    for prefix in (sys.prefix, sys.base_prefix):
        names[prefix] = "(python)"
    for path, instead in sorted(names.items(), key=lambda item: -len(item[0])):
        if len(path) > 1:
            text = text.replace(path, instead)
    for value in sorted(told, key=len, reverse=True):  # a path with blanks is known as a whole
        if "://" not in value and _ABSOLUTE.match(value):
            text = text.replace(value, ".../" + re.split(r"[\\/]", value.rstrip("\\/"))[-1])
    text = _PATHS.sub(lambda found: found[0] if found[1] else f".../{found[2] or found[3]}", text)
    for name, instead in ((_user(), "(user)"), (socket.gethostname(), "(host)")):
        if len(name) > 2:
            text = re.sub(rf"(?<![\w]){re.escape(name)}(?![\w])", instead, text)
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _line(check: dict[str, Any]) -> str:
    return f"{'ok  ' if check['ok'] else 'FAIL'}  {check['name']:40}  {check['detail']}"


def _text(report: dict[str, Any]) -> str:
    info, timings, memory = report["info"], report["timings"], report["memory"]
    lines = [
        f"mast3r_runtime {report['version']}, Python {report['python'].split()[0]}, {report['platform']}",
        f"{info.get('name', info)}",
        f"fallback: {info.get('fallback_reason') or 'none'}",
        *(f"{name}: {value}" for name, value in report["system"].items()),
        "",
        *map(_line, report["selfcheck"]["checks"]),
        "",
    ]
    if "median_ms" in timings:
        line = "a pair: median {median_ms:.1f} ms over fresh processes, {min_ms:.1f} to {max_ms:.1f}"
        lines.append(line.format(**timings))
    for row in memory.get("rows", []):
        lines.append("{pairs:4} pairs: {resident:>14,} bytes resident, {pool:>14,} in the pool".format(**row))
    return "\n".join(lines) + "\n"
