# SPDX-License-Identifier: Apache-2.0
"""Processes, threads and signals: what a Go runtime inside Python must not break (T23)."""

from __future__ import annotations

import copy
import logging
import multiprocessing
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from conftest import CONSOLE, assert_same, child_environment, interrupt, noise, unix_only

import mast3r_runtime
from mast3r_runtime import errors
from mast3r_runtime.backends._cpu import CPUEngine


def run_python(code: str, *arguments: object, timeout: float = 60) -> str:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light() -> None:
    """No native library, decoder, exporter or progress bar before something needs it."""
    code = """
        import sys
        import mast3r_runtime, mast3r_runtime.backends._mps, mast3r_runtime.backends._cpu
        names = ("PIL", "trimesh", "tqdm", "torch", "scipy", "skimage")
        heavy = [name for name in names if name in sys.modules]
        maps = open("/proc/self/maps").read() if sys.platform == "linux" else ""
        print(heavy, "libmast3r" in maps)
    """
    assert run_python(code).split() == ["[]", "False"]


def test_threads_share_an_engine(engine: CPUEngine, rng: np.random.Generator) -> None:
    pairs = [(noise(rng, 64, 96), noise(rng, 64, 96)) for _ in range(8)]
    alone = [engine.infer_gpu(*pair) for pair in pairs]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda pair: engine.infer_gpu(*pair), pairs))
    for one, other in zip(alone, together):
        assert_same(one, other)


def test_close_while_others_work(micro: Path, rng: np.random.Generator) -> None:
    """close() ends the calls of other threads with an error of ours."""
    engine = CPUEngine("auto", 512, "fp32", 2)
    engine.load(micro)
    with ThreadPoolExecutor(2) as pool:
        work = [pool.submit(engine.warmup, 1000) for _ in range(2)]
        time.sleep(0.1)
        engine.close()
        for one in work:
            with pytest.raises((errors.CancelledError, errors.ClosedError)):
                one.result(timeout=30)


def infer_in_child(micro: str) -> float:
    a = np.random.default_rng(7).integers(0, 256, (64, 96, 3), np.uint8)
    with CPUEngine("auto", 96, "fp32", 2) as engine:
        engine.load(micro)
        return float(engine.infer_gpu(a, a).pts3d_1.numpy().sum())


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=unix_only)])
def test_spawned_processes_work(engine: CPUEngine, micro: Path, method: str) -> None:
    a = np.random.default_rng(7).integers(0, 256, (64, 96, 3), np.uint8)
    want = float(engine.infer_gpu(a, a).pts3d_1.numpy().sum())
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map_async(infer_in_child, [str(micro)]).get(60) == [want]


FORK = """
    import os, signal, sys, time
    from mast3r_runtime import errors
    from mast3r_runtime.backends._cpu import CPUEngine
    engine = CPUEngine("auto", 96)
    engine.load(sys.argv[1])
    engine.warmup(1)
    child = os.fork()
    if child == 0:
        bad = 0
        for call in (engine.is_ready, engine.warmup, lambda: CPUEngine("auto"), engine.close):
            start = time.perf_counter()
            try:
                call()
                bad = 1
            except errors.ForkError as error:
                bad |= "spawn" not in str(error) or time.perf_counter() - start > 1
        del engine  # a finalizer must not hang either
        os._exit(bad)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            print("child", os.waitstatus_to_exitcode(status))
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        print("hang")
    engine.warmup(1)
    print("parent fine")
"""


@unix_only
def test_fork_after_use_is_an_error(micro: Path) -> None:
    assert run_python(FORK, micro).split("\n")[:2] == ["child 0", "parent fine"]


@unix_only
def test_fork_before_use_is_fine(micro: Path) -> None:
    code = """
        import os, sys
        import mast3r_runtime.backends._cpu as cpu
        child = os.fork()
        with cpu.CPUEngine("auto", 96) as engine:
            engine.load(sys.argv[1])
            engine.warmup(1)
        if child == 0:
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run_python(code, micro).strip() == "0"


def test_engine_pickles_as_its_configuration(micro: Path, rng: np.random.Generator) -> None:
    a = noise(rng, 64, 96)
    with CPUEngine("auto", 96, "fp32", 2) as engine:
        engine.load(micro)
        data = pickle.dumps(engine)
        assert len(data) < 1000
        want = engine.infer_gpu(a, a)
        for again in (pickle.loads(data), copy.deepcopy(engine)):
            with again:
                assert_same(want, again.infer_gpu(a, a))


def test_runtime_pickles_as_its_configuration() -> None:
    config = mast3r_runtime.MASt3RRuntimeConfig(
        model=mast3r_runtime.ModelConfig("mast3r_tiny", precision="fp32")
    )
    with mast3r_runtime.get_runtime(config) as runtime, pickle.loads(pickle.dumps(runtime)) as again:
        assert again.config == config and not again.is_ready


CTRL_C = """
    import signal, sys, time
    from mast3r_runtime.backends._cpu import CPUEngine
    # A shell ignores SIGINT for what it starts in the background, tests too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    engine = CPUEngine("auto", 512)
    engine.load(sys.argv[1])
    engine.warmup(1)
    print("ready", flush=True)
    start = time.perf_counter()
    try:
        engine.warmup(100000)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    engine.warmup(1)
    print("works on")
"""


def test_ctrl_c(micro: Path) -> None:
    """SIGINT reaches Python during a long call, and the engine is usable after it."""
    command = [sys.executable, "-c", textwrap.dedent(CTRL_C), str(micro)]
    process = subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True, **CONSOLE)
    assert process.stdout is not None
    guard = threading.Timer(120, process.kill)  # a call that is not interrupted must not hang the suite
    guard.start()
    with process:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(0.3)
        interrupt(process)
        assert process.stdout.read().split("\n")[:2] == ["interrupted", "works on"]
    guard.cancel()
    assert process.returncode == 0


LATE = """
    import os, signal, sys
    from mast3r_runtime import cli
    from mast3r_runtime._commands import machine
    signal.signal(signal.SIGINT, signal.default_int_handler)

    class SecondCtrlC:
        def __del__(self, kill=os.kill, process=os.getpid(), signal=signal.SIGINT):
            kill(process, signal)  # where Python no longer has a handler

    def interrupted(_):
        raise KeyboardInterrupt(said)

    second = SecondCtrlC()
    machine._info = interrupted
    said, sys.argv[1] = sys.argv[1], "info"
    sys.exit(cli.main())
"""


@unix_only
@pytest.mark.parametrize("said", ["", "interrupted; 3 of 4 pairs are missing"])
def test_ctrl_c_while_python_ends(said: str) -> None:
    """A command that Ctrl-C ended has status 130, also where the second one finds it on its way out."""
    command = [sys.executable, "-c", textwrap.dedent(LATE), said]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, f"mast3r: {said or 'interrupted'}\n")


BRIEF = """
    import signal, sys, time
    import numpy as np
    from mast3r_runtime.backends._cpu import CPUEngine
    signal.signal(signal.SIGINT, signal.default_int_handler)
    engine = CPUEngine("auto", 96)
    engine.load(sys.argv[1])
    grey = np.full((16, 16, 3), 128, np.uint8)
    want = engine.infer_gpu(grey, grey, preprocess=False).numpy()
    print("ready", flush=True)
    count, deadline = 0, time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            got = engine.infer_gpu(grey, grey, preprocess=False).numpy()
            assert all(np.array_equal(getattr(got, n), getattr(want, n)) for n in ("pts3d_1", "desc_2"))
            count += 1
    except KeyboardInterrupt:
        print("interrupted", count > 0, flush=True)
"""


def test_ctrl_c_among_brief_calls(micro: Path) -> None:
    """Calls so short that the calling thread makes them itself let signals through between them."""
    command = [sys.executable, "-c", textwrap.dedent(BRIEF), str(micro)]
    process = subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True, **CONSOLE)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(0.5)
        interrupt(process)
        assert process.stdout.read().strip() == "interrupted True"
    assert process.returncode == 0


def test_log_reaches_logging(micro: Path) -> None:
    code = """
        import logging, sys
        logging.basicConfig(level="INFO", format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
        from mast3r_runtime.backends._cpu import CPUEngine
        with CPUEngine("auto", 96) as engine:
            engine.load(sys.argv[1])
    """
    assert "mast3r_runtime INFO model loaded" in run_python(code, micro)


def test_nothing_is_printed(micro: Path, capfd: pytest.CaptureFixture[str], rng: np.random.Generator) -> None:
    logging.getLogger("mast3r_runtime")
    with CPUEngine("auto", 96) as engine:
        engine.load(micro)
        engine.infer_gpu(noise(rng, 64, 96), noise(rng, 64, 96))
        with pytest.raises(errors.ImageError):
            engine.infer_gpu(noise(rng, 4, 4000), noise(rng, 64, 96))
    assert capfd.readouterr() == ("", "")


def test_library_of_another_version(tmp_path: Path) -> None:
    code = """
        import os, sys
        os.environ["MAST3R_LIBRARY"] = sys.argv[1]
        from mast3r_runtime import errors
        from mast3r_runtime.backends._cpu import CPUEngine
        try:
            CPUEngine("auto")
        except errors.LibraryError as error:
            print(error)
    """
    assert "nowhere.so" in run_python(code, tmp_path / "nowhere.so")
    (tmp_path / "junk.so").write_bytes(b"no library")
    assert "junk.so" in run_python(code, tmp_path / "junk.so")


def test_choice_of_the_native_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """MAST3R_NATIVE: ctypes, gopy, or an error that says so; a missing extension says how to build it."""
    code = """
        from mast3r_runtime._library import calls
        from mast3r_runtime import errors
        try:
            print(calls.library_path().name.partition(".")[0])
        except errors.Mast3rError as error:
            print(type(error).__name__, "make gopy" in str(error), "abacus" in str(error))
    """
    monkeypatch.delenv("MAST3R_LIBRARY", raising=False)
    for native, want in (("ctypes", ["libmast3r_runtime"]), ("abacus", ["ArgumentError", "False", "True"])):
        monkeypatch.setenv("MAST3R_NATIVE", native)
        assert run_python(code).split() == want
    monkeypatch.setenv("MAST3R_NATIVE", "gopy")
    assert run_python(code).split() in (["_mast3r"], ["LibraryError", "True", "False"])


@unix_only
def test_little_address_space_is_an_error() -> None:
    """Go ends a process in which it can reserve nothing: that is asked before."""
    code = """
        import resource
        import mast3r_runtime
        resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
        try:
            mast3r_runtime.Engine("auto")
        except mast3r_runtime.errors.LibraryError as error:
            print("600 MB" in str(error))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=child_environment(), capture_output=True, text=True
    )
    assert done.stdout == "True\n", done.stderr
