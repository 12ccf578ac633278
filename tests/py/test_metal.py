# SPDX-License-Identifier: Apache-2.0
"""The Metal engine from Python, on the simulated GPU of tests/metalsim.

The simulator is one per process and is chosen by the environment, so every test here runs a
process of its own. At its exit the simulator reports misuse and objects left behind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT, child_environment

METALSIM = ROOT / "tests" / "metalsim"


@pytest.fixture(scope="session")
def simulator() -> Path:
    """Build the simulator, under the lock that the Go tests take as well."""
    if sys.platform != "linux":
        pytest.skip("the Metal simulator runs on Linux only")
    for tool in ("gcc", "make"):
        if shutil.which(tool) is None:
            pytest.skip(f"no Metal simulator: {tool} is not installed")
    import fcntl

    build = METALSIM / "build"
    build.mkdir(exist_ok=True)
    with open(build / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", "-C", str(METALSIM)], check=True)
        # The library that is shipped knows no simulator.
        command = ["sh", "capi/build.sh", str(library())]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "TAGS": "metalsim"}, check=True)
    return build / "libmetalsim.so"


def library() -> Path:
    """The library with the tag metalsim."""
    return METALSIM / "build" / "libmast3r_runtime.so"


def on(simulator: Path) -> dict[str, str]:
    """The variables that put the simulator in place of Apple's libraries."""
    return {"MAST3R_OBJC_SIM": str(simulator), "MAST3R_LIBRARY": str(library())}


def test_the_shipped_library_knows_no_simulator(simulator: Path) -> None:
    """What stands for Apple's libraries in tests is not in the library of the wheel."""
    from mast3r_runtime._library.calls import library_path

    assert b"MAST3R_OBJC_SIM" in library().read_bytes()
    assert b"MAST3R_OBJC_SIM" not in library_path().read_bytes()
    environment = {**child_environment(), "MAST3R_OBJC_SIM": str(simulator), "MAST3R_BACKEND": "metal"}
    code = "from mast3r_runtime.backends import _mps; print(_mps.is_available())"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stdout + done.stderr


def run(simulator: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the simulated GPU; without misuse and leaks, or the test fails."""
    environment = {
        **child_environment(),
        **on(simulator),
        "MAST3R_BACKEND": "metal",
        "METALSIM_REPORT": "1",
        **settings,
    }
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300
    )
    report = re.findall(r"^metalsim: (\d+) (violations|objects left)$", done.stderr, re.M)
    assert report == [("0", "violations"), ("0", "objects left")], done.stdout + done.stderr
    return done


WHOLE_ENGINE = """
import sys
import numpy as np
from pathlib import Path
import mast3r_runtime
from mast3r_runtime.backends import _mps
from mast3r_runtime.backends._cpu import CPUEngine
from mast3r_runtime.backends._mps import MPSEngine
from mast3r_runtime.images import read_image

model, precision, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
data = Path(mast3r_runtime.__file__).with_name("selfcheck")
pair = [read_image(data / f"view_{i}.png") for i in (1, 2)]
FIELDS = [f"{name}_{view}" for view in (1, 2) for name in ("pts3d", "conf", "desc", "desc_conf")]

def near(got, want, what):
    error = np.linalg.norm(got - want) / np.linalg.norm(want)
    assert error <= limit, (what, error)

assert _mps.is_available() and "Simulated" in _mps.get_device_name()
with MPSEngine("auto", 96, precision, 2) as gpu, CPUEngine("auto", 96, "fp32", 2) as cpu:
    gpu.load(model)
    cpu.load(model)
    gpu.warmup(2)
    info = gpu.info()
    assert info["backend"] == "metal" and info["precision"] == precision and info["fallback_reason"] == ""
    result = gpu.infer_gpu(*pair, preprocess=False)
    arrays = result.numpy()
    with np.load(data / "landscape.npz") as golden:
        for field in FIELDS:
            near(getattr(arrays, field)[::3, ::3], golden[field], field)
    want = cpu.infer_gpu(*pair, preprocess=False).numpy()
    for field in FIELDS:
        near(getattr(arrays, field), getattr(want, field), field)
    both = gpu.infer_symmetric(*pair)
    sequence = gpu.infer_batch_pipelined([pair[0], pair[1], pair[0]])
    assert len(sequence) == 2
    matches = gpu.match(result, top_k=None, confidence_threshold=0.0)
    assert len(matches) > 100
    try:
        gpu.infer_gpu(pair[0][:40], pair[1], preprocess=False)
    except mast3r_runtime.errors.ImageError:
        pass
    else:
        raise AssertionError("a picture of 40 rows was taken")
    for r in (result, both, *sequence):
        del r
    del result, both, sequence
    gpu.trim()
    assert gpu.info()["pool_bytes"] == 0
"""


@pytest.mark.parametrize(("precision", "limit"), [("fp32", "2.5e-5"), ("fp16", "3e-2")])
def test_whole_engine(simulator: Path, micro: Path, precision: str, limit: str) -> None:
    done = run(simulator, "-c", WHOLE_ENGINE, str(micro), precision, limit)
    assert done.returncode == 0, done.stderr


FAILURES = """
import sys
from mast3r_runtime import errors
from mast3r_runtime.backends._mps import MPSEngine
import numpy as np
noise = np.random.default_rng(1).integers(0, 256, (64, 96, 3), np.uint8)
with MPSEngine("auto", 96, "fp16", 2) as gpu:
    gpu.load(sys.argv[1])
    try:
        gpu.infer_gpu(noise, noise)
    except errors.DeviceError as error:
        print("typed:", error)
    gpu.infer_gpu(noise, noise).numpy()
    print("goes on")
"""


@pytest.mark.parametrize("setting", ["METALSIM_FAIL_COMMAND", "METALSIM_FAIL_GRAPH", "METALSIM_FAIL_ALLOC"])
def test_device_failures(simulator: Path, micro: Path, setting: str) -> None:
    """The first use fails: a DeviceError, a lack of memory too; the process and the engine go on."""
    settings = {setting: "1", "MAST3R_SELFCHECK": "off"}
    done = run(simulator, "-c", FAILURES, str(micro), **settings)
    assert done.returncode == 0, done.stderr
    assert "typed:" in done.stdout and "goes on" in done.stdout


def test_wrong_gpu(simulator: Path, micro: Path) -> None:
    """A GPU that computes something else: an error where it was insisted on, else the CPU."""
    code = (
        "import sys; from mast3r_runtime.backends._mps import MPSEngine, get_context_info\n"
        "e = MPSEngine('auto', 96, 'fp16', 2); e.load(sys.argv[1]); print(e.name())\n"
        "print(e.info()['fallback_reason']); e.close()"
    )
    wrong = {"METALSIM_FAULT": "align_corners"}
    insisted = run(simulator, "-c", code, str(micro), **wrong)
    assert insisted.returncode != 0 and "DeviceError" in insisted.stderr and "differ" in insisted.stderr
    auto = run(simulator, "-c", code, str(micro), MAST3R_BACKEND="auto", **wrong)
    assert auto.returncode == 0 and "on cpu" in auto.stdout and "differ from the reference" in auto.stdout
    trusted = run(simulator, "-c", code, str(micro), MAST3R_SELFCHECK="off", **wrong)
    assert trusted.returncode == 0 and "on metal" in trusted.stdout


def test_selfcheck(simulator: Path) -> None:
    """One screen; and every single check as JSON."""
    verb = ("-m", "mast3r_runtime", "selfcheck")
    done = run(simulator, *verb)
    assert done.returncode == 0 and "FAIL" not in done.stdout, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) < 45
    metal = (
        "methods",
        "stack",
        "fp16 operations",
        "fp32 network",
        "is used",
        "reference pts3d_1",
        "matching",
    )
    for name in (*(f"metal {name}" for name in metal), "reference pts3d_1", "model in the wheel"):
        assert f"ok    {name} " in done.stdout, done.stdout
    wrong = run(simulator, *verb, "--json", METALSIM_FAULT="erf", MAST3R_BACKEND="auto")
    assert wrong.returncode == 1
    bad = [check["name"] for check in json.loads(wrong.stdout) if not check["ok"]]
    assert "metal fp32 elementwise" in bad and "metal fp16 network" in bad and "metal is used" in bad


def test_selfcheck_outlives_the_gpu(simulator: Path) -> None:
    """Apple's code ends the process that uses the GPU: that is told, and the rest is checked."""
    environment = {**child_environment(), **on(simulator), "METALSIM_CRASH": "encode"}
    command = [sys.executable, "-m", "mast3r_runtime", "selfcheck"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "FAIL  metal process" in done.stdout and "SIGABRT" in done.stdout, done.stdout
    assert "ok    model in the wheel" in done.stdout and done.stdout.count("FAIL") == 1, done.stdout


def test_doctor(simulator: Path, micro: Path, tmp_path: Path) -> None:
    """One file with everything but who and where."""
    out = tmp_path / "report.zip"
    command = ["-m", "mast3r_runtime", "doctor", "-o", str(out), "--processes", "2", "--pairs", "10"]
    options = ["--model", str(micro), "--resolution", "96"]
    environment = {**child_environment(), **on(simulator), "HOME": str(tmp_path)}
    environment |= dict.fromkeys(("LOGNAME", "USER", "USERNAME"), "somebody")
    done = subprocess.run(
        [sys.executable, *command, *options], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(out) as archive:
        assert sorted(archive.namelist()) == ["report.json", "report.txt"]
        report = json.loads(archive.read("report.json"))
        text = archive.read("report.txt").decode()
    checks = {check["name"]: check["ok"] for check in report["selfcheck"]["checks"]}
    assert report["info"]["backend"] == "metal" and all(checks.values()) and "metal fp16 network" in checks
    assert len(report["timings"]["processes"]) == 2 and report["timings"]["median_ms"] > 0
    assert [row["pairs"] for row in report["memory"]["rows"]] == list(range(11))
    assert report["environment"]["MAST3R_OBJC_SIM"].startswith(("~", "/", "."))
    for private in ("somebody", str(tmp_path)):
        assert private not in json.dumps(report) + text
    assert "over fresh processes" in text and "bytes resident" in text


def test_profile(simulator: Path, micro: Path) -> None:
    verb = ("-m", "mast3r_runtime", "profile", "--model", str(micro), "--size", "96x64", "--iterations", "2")
    for option, buffers in ((), 1), (("--stages",), 4):
        done = run(simulator, *verb, "--json", *option)
        assert done.returncode == 0, done.stderr
        values = json.loads(done.stdout)
        assert values["command_buffers"] == buffers and values["measured"] == bool(option)
        assert [stage["name"] for stage in values["stages"]] == ["encoder", "decoder", "head1", "head2"]
        assert not values["ops_measured"] and values["height_1"] == 64
    text = run(simulator, *verb).stdout
    assert "shares by cost" in text and "attention" in text


def test_manual_attention(simulator: Path, micro: Path) -> None:
    done = run(simulator, "-c", WHOLE_ENGINE, str(micro), "fp32", "2.5e-5", MAST3R_ATTENTION="manual")
    assert done.returncode == 0, done.stderr


def test_executable_cache(simulator: Path, micro: Path, tmp_path: Path) -> None:
    """A second process takes every graph from disk: it runs where compiling would fail."""
    arguments = ("-c", WHOLE_ENGINE, str(micro), "fp16", "3e-2")
    settings = {"MAST3R_EXECUTABLE_CACHE": str(tmp_path / "graphs")}
    assert run(simulator, *arguments, **settings).returncode == 0
    kept = sorted(path.name for path in (tmp_path / "graphs").iterdir())
    assert len(kept) >= 5 and not any("." in name or name.startswith("new-") for name in kept)
    failing = {"METALSIM_FAIL_GRAPH": "1"}
    done = run(simulator, *arguments, **settings, **failing)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "graphs").iterdir()) == kept
    assert run(simulator, *arguments, **failing).returncode != 0  # without the folder it fails
