# SPDX-License-Identifier: Apache-2.0
"""Attacks on the library for as long as it is told: python tests/attack/attack.py 10m [NAME ...]

Each attack gets its share of the time that is left, runs in processes of its own, and prints one line of
figures. The exit status is 1 if any of them found something. Attacks that this machine cannot
make (no seccomp, no control groups) say so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import mast3r_runtime as m3r

HERE = Path(__file__).resolve().parent
MODEL = Path(m3r.__file__).parent / "models" / "mast3r_tiny" / "unified.safetensors"

Attack = Callable[[float, Path], tuple[bool, str]]
ATTACKS: dict[str, Attack] = {}


def attack(run: Attack) -> Attack:
    """Add an attack to the list."""
    ATTACKS[run.__name__] = run
    return run


def child(code: str, *arguments: object, timeout: float = 120.0, **options: object) -> tuple[int, str]:
    """Run Python code in a process of its own; -1 for one that hangs."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False, **options
        )  # type: ignore[call-overload]
    except subprocess.TimeoutExpired:
        return -1, "hangs"
    return done.returncode, done.stdout + done.stderr[-2000:]


def until(seconds: float) -> Callable[[], bool]:
    """A function that is true while there is time."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


SMALL = """
import sys, time, numpy as np, mast3r_runtime as m3r
engine = m3r.Engine("auto", 32, "fp32", 2, "cpu")
engine.load(sys.argv[1])
count = int(sys.argv[2])
picture = np.zeros((32, 32, 3), np.uint8)
for only in (None, ("conf",)):
    start = time.monotonic()
    with m3r.limit(timeout=float(sys.argv[3]) / 2):
        try:
            n = len(engine.infer_batch_pipelined([picture] * count, only=only))
            print(n, "pairs in", round(time.monotonic() - start), "s;", end=" ")
        except m3r.errors.TimeLimitError:
            print("ended by its time limit after", round(time.monotonic() - start), "s;", end=" ")
        except m3r.errors.MemoryLimitError as error:
            print("refused:", error, end="; ")
"""


@attack
def many_small_pairs(seconds: float, folder: Path) -> tuple[bool, str]:
    """A sequence of 10^5 small pictures in one call: all outputs, then the confidences alone."""
    status, out = child(SMALL, MODEL, 100_000, seconds, timeout=seconds + 60)
    return status == 0, out.strip()


SUBNORMAL = """
import json, sys, time, numpy as np, mast3r_runtime as m3r
times = []
for path in sys.argv[1:3]:
    with m3r.Engine("auto", 256, "fp32", 2, "cpu") as engine:
        engine.load(path)
        picture = np.zeros((192, 256, 3), np.uint8)
        engine.infer_gpu(picture, picture)
        best = 1e9
        for _ in range(5):
            start = time.perf_counter()
            engine.infer_gpu(picture, picture)
            best = min(best, time.perf_counter() - start)
        times.append(best)
print(times[1] / times[0])
"""


@attack
def subnormal_weights(seconds: float, folder: Path) -> tuple[bool, str]:
    """Weights below the smallest normal number cost no more time than others."""
    plain, small = folder / "plain.safetensors", folder / "small.safetensors"
    m3r.convert(MODEL, plain, dtype="fp32", progress=False)
    raw = bytearray(plain.read_bytes())
    size = int.from_bytes(raw[:8], "little")
    import numpy as np

    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name.endswith("fc1.weight"):
            a, b = (8 + size + at for at in entry["data_offsets"])
            raw[a:b] = (np.frombuffer(raw[a:b], "<f4") * np.float32(1e-39)).tobytes()
    small.write_bytes(raw)
    status, out = child(SUBNORMAL, plain, small, timeout=seconds + 300)
    if status != 0:
        return False, out
    return float(out) < 2, f"{float(out):.2f} times the time of normal weights"


PLAIN = """
import sys, numpy as np, mast3r_runtime as m3r
with m3r.Engine("auto", 64, "fp32", 2, "cpu") as engine:
    engine.load()
    picture = np.zeros((48, 64, 3), np.uint8)
    engine.infer_gpu(picture, picture)
print("fine")
"""


def settled(code: int, out: str) -> bool:
    """It worked, or ended with an error of ours."""
    return code == 0 or "mast3r_runtime.errors." in out


@attack
def surroundings(seconds: float, folder: Path) -> tuple[bool, str]:
    """No HOME, none to write, no /tmp, little memory, few descriptors, read-only places."""
    base = dict(os.environ)
    locked = folder / "locked"
    locked.mkdir(mode=0o555)
    nothing = {k: v for k, v in base.items() if k not in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}

    def memory(megabytes: int) -> Callable[[], None]:
        return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    cases: dict[str, dict[str, object]] = {
        "no HOME": {"env": nothing},
        "read-only HOME": {"env": base | {"HOME": str(locked)}},
        "no TMPDIR": {"env": base | {"TMPDIR": "/nonexistent"}},
        "16 descriptors": {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))},
        "stack of 256 KB": {
            "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_STACK, (256 << 10,) * 2)
        },
        **{
            f"{mb} MB of address space": {"preexec_fn": memory(mb)}
            for mb in (600, 1000, 1500, 2000, 3000, 4000)
        },
    }
    results = {name: child(PLAIN, **options) for name, options in cases.items()}
    wrong = {name: out[-200:] for name, (code, out) in results.items() if not settled(code, out)}
    fine = [name for name, (code, _) in results.items() if code == 0]
    refused = sorted(set(results) - set(fine) - set(wrong))
    return (
        not wrong,
        f"work: {', '.join(fine)}; refused with our error: {', '.join(refused) or 'none'}; {wrong or ''}",
    )


SECCOMP = """
import ctypes, platform, struct, sys
# Calls that sandboxes refuse; not clone3, without which with EPERM glibc makes no thread.
NUMBERS = {
    "x86_64": (101, 155, 165, 166, 169, 175, 246, 248, 250, 298, 310, 311, 319, 321, 323,
               425, 426, 427, 434),
    "aarch64": (39, 40, 41, 97, 104, 105, 117, 142, 219, 241, 264, 270, 271, 279, 280, 282,
                425, 426, 427, 434),
}
numbers = NUMBERS[platform.machine()]
code = [(0x20, 0, 0, 0)]  # load the call's number
for i, n in enumerate(numbers):
    code.append((0x15, len(numbers) - i, 0, n))  # equal: go to the refusal
code += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)]  # allow; EPERM
program = b"".join(struct.pack("=HBBI", *c) for c in code)
buffer = ctypes.create_string_buffer(program)
class Filter(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Filter(len(code), ctypes.addressof(buffer)))):
    print("no seccomp here")
    sys.exit(0)
libc.syscall.restype = ctypes.c_long
assert libc.syscall(numbers[0], 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1, "the filter does not filter"
"""


@attack
def sandbox(seconds: float, folder: Path) -> tuple[bool, str]:
    """Under seccomp without unusual calls; as a stranger to whom every file is read-only."""
    found = {}
    status, out = child(SECCOMP + PLAIN)
    found["seccomp"] = status == 0 and out.strip() in ("fine", "no seccomp here"), out.strip()[-200:]
    if os.geteuid() == 0 and hasattr(os, "setuid"):
        home = folder / "home"
        home.mkdir(mode=0o555)
        folder.chmod(0o755)
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home)}
        if path := os.environ.get("PYTHONPATH"):
            environment["PYTHONPATH"] = path
        name = "read-only HOME, packages and no temporary folder"
        try:
            status, out = child(PLAIN, user=12345, group=12345, env=environment, cwd="/")
            found[name] = status == 0, out.strip()[-200:]
        except PermissionError as error:
            found[name] = True, f"cannot be tried here: {error}"
    wrong = {name: out for name, (good, out) in found.items() if not good}
    return not wrong, ", ".join(f"{name}: {out}" for name, (_, out) in found.items())


@attack
def control_group(seconds: float, folder: Path) -> tuple[bool, str]:
    """In a control group with little memory, what does not fit is refused, and nobody is killed."""
    text = Path("/proc/self/cgroup").read_text(encoding="ascii") if Path("/proc/self/cgroup").exists() else ""
    own = next((line[3:] for line in text.splitlines() if line.startswith("0::")), "")
    parent = Path("/sys/fs/cgroup" + own)
    controllers = parent / "cgroup.controllers"
    if not own or not controllers.exists() or "memory" not in controllers.read_text(encoding="ascii"):
        return True, "cannot be made here: no version 2 of control groups with memory"
    group = parent / f"mast3r-attack-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        return True, f"cannot be made here: {error}"
    try:
        (group / "memory.max").write_text(str(1 << 30), encoding="ascii")
    except OSError as error:
        group.rmdir()
        return True, f"cannot be made here: {error}"

    def enter() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    try:
        results = {side: child(GROUP, side, preexec_fn=enter) for side in (256, 512, 2048, 4096)}
    finally:
        group.rmdir()
    good = all(status == 0 for status, _ in results.values()) and "refused" in results[4096][1]
    return good, ", ".join(f"{side}: {out.strip()[-200:]}" for side, (_, out) in results.items())


GROUP = """
import sys, numpy as np, mast3r_runtime as m3r
side = int(sys.argv[1])
with m3r.Engine("auto", side, "fp32", 2, "cpu") as engine:
    engine.load()
    picture = np.zeros((48, 64, 3), np.uint8)
    try:
        engine.infer_gpu(picture, picture)
        print("fits")
    except m3r.errors.MemoryLimitError as error:
        print("refused:", error)
"""


GZIP = """
import gzip, http.server, sys, threading
from pathlib import Path
from mast3r_runtime import errors
from mast3r_runtime._checkpoints.fetch import Expected, fetch
data = bytes(range(256)) * 4096
bomb = gzip.compress(bytes(1 << 28))
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def do_GET(self):
        body = {"/gzip": gzip.compress(data), "/bomb": bomb, "/plain": data}[self.path]
        self.send_response(200)
        if self.path != "/plain":
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
folder = Path(sys.argv[1])
for name in ("gzip", "bomb", "plain"):
    url = f"http://127.0.0.1:{server.server_port}/{name}"
    try:
        path = fetch([url], folder / name, Expected(size=len(data)), attempts=1, pause=0)
        print(name, "whole" if path.read_bytes() == data else "WRONG")
    except (errors.DownloadError, errors.FileError) as error:
        print(name, "refused")
    left = sum(f.stat().st_size for f in folder.iterdir())
    assert left <= 2 * len(data), (name, left)
"""


@attack
def gzip_bodies(seconds: float, folder: Path) -> tuple[bool, str]:
    """A server that compresses, and one that sends a bomb: never a wrong file, never a full disk."""
    status, out = child(GZIP, folder)
    lines = out.split("\n")
    return status == 0 and "WRONG" not in out and "plain whole" in lines, ", ".join(filter(None, lines))


TRUNCATE = """
import os, sys, numpy as np, mast3r_runtime as m3r
path, threads, keep = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
engine = m3r.Engine("auto", 64, "fp32", threads, "cpu")
engine.load(path)
os.truncate(path, keep)
picture = np.zeros((48, 64, 3), np.uint8)
try:
    engine.infer_gpu(picture, picture)
    print("no error")
except m3r.errors.FileError as error:
    print("typed" if path in str(error) else "no name")
engine.load(sys.argv[4])
engine.infer_gpu(picture, picture)
engine.close()
print("closed")
"""


@attack
def truncation(seconds: float, folder: Path) -> tuple[bool, str]:
    """A model file is cut after the load, with 1, 2 and 8 threads."""
    more, good, runs = until(seconds), Counter[int](), Counter[int]()
    size = MODEL.stat().st_size
    wrong = ""
    while more() or min(runs[t] for t in (1, 2, 8)) < 5:
        for threads in (1, 2, 8):
            path = folder / "m.safetensors"
            shutil.copy(MODEL, path)
            status, out = child(TRUNCATE, path, threads, random.randrange(size), MODEL)
            runs[threads] += 1
            fine = status == 0 and out.split() in (["typed", "closed"], ["no", "error", "closed"])
            good[threads] += fine
            wrong = wrong if fine else out[-300:]
    figures = ", ".join(f"{good[t]} of {runs[t]} with {t} threads" for t in (1, 2, 8))
    return not wrong, f"ended by a typed error (or unhurt) and closable: {figures} {wrong}"


LATENCY = """
import os, signal, sys, threading, time, numpy as np, mast3r_runtime as m3r
side, wait = int(sys.argv[1]), float(sys.argv[2])
signal.signal(signal.SIGINT, signal.default_int_handler)
engine = m3r.Engine("auto", side, "fp32", 0, "cpu")
engine.load(sys.argv[3])
picture = np.zeros((side * 3 // 4 // 16 * 16, side, 3), np.uint8)
start = time.process_time()
def interrupt():
    while time.process_time() - start < wait:
        time.sleep(0.002)
    global sent, used
    sent, used = time.monotonic(), time.process_time()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    while True:
        engine.infer_gpu(picture, picture)
except KeyboardInterrupt:
    print(1000 * (time.monotonic() - sent), 1000 * (time.process_time() - used))
engine.close()
"""


@attack
def interrupt(seconds: float, folder: Path) -> tuple[bool, str]:
    """The time from Ctrl-C to the exception, by resolution, by the clock and of the processor.

    The processor's time of all threads is what the library does after the signal; the clock has
    what other processes of a busy machine do meanwhile, too.
    """
    sides = (256, 512, 1024, 2048, 3072, 4096)
    worst: dict[int, list[tuple[float, float]]] = {side: [] for side in sides}
    more = until(seconds)
    while more() or not worst[sides[0]]:
        for side in sides:
            status, out = child(LATENCY, side, random.choice((0.02, 0.1, 0.3, 1, 3)), MODEL, timeout=300)
            if "MemoryLimitError" in out:
                continue  # the machine has no room for this size now
            if status != 0:
                return False, f"{side}: {out}"
            clock, processor = map(float, out.split())
            worst[side].append((clock, processor))
    found = {side: tuple(map(max, zip(*seen, strict=True))) for side, seen in worst.items() if seen}
    figures = ", ".join(f"{s}: {clock:.0f} ({processor:.0f})" for s, (clock, processor) in found.items())
    runs = sum(map(len, worst.values()))
    threads = min(2, os.cpu_count() or 1)
    good = all(processor <= 100 * threads for _, processor in found.values())
    return good, f"longest of {runs} by long side, ms (of the processor): {figures}"


FLAT = """
import gc, os, sys, time, numpy as np, mast3r_runtime as m3r
what, seconds, most, path = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
picture = np.zeros((48, 64, 3), np.uint8)
def state():
    gc.collect()
    status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    maps = sum(1 for _ in open("/proc/self/maps"))
    files = len(os.listdir("/proc/self/fd"))
    return [int(status["VmRSS"].split()[0]) >> 10, files, int(status["Threads"]), maps]
engine = m3r.Engine("auto", 64, "fp32", 2, "cpu")
engine.load(path)
def once():
    if what == "pairs":
        engine.infer_gpu(picture, picture)
    else:
        with m3r.Engine("auto", 64, "fp32", 2, "cpu") as other:
            other.load(path)
for _ in range(50):
    once()
before, end, n = state(), time.monotonic() + seconds, 0
while n < most and time.monotonic() < end:
    once()
    n += 1
print(n, before, state())
"""


def flat(what: str, seconds: float, model: Path) -> tuple[bool, str]:
    status, out = child(FLAT, what, seconds, 100_000, model, timeout=seconds + 120)
    found = re.fullmatch(r"(\d+) \[(.*)\] \[(.*)\]\n", out)
    if status != 0 or found is None:
        return False, out
    before, after = ([int(v) for v in found.group(i).split(", ")] for i in (2, 3))
    names = ("RSS MB", "descriptors", "threads", "maps")
    figures = ", ".join(f"{n} {a} to {b}" for n, a, b in zip(names, before, after, strict=True))
    grown = (
        after[0] > before[0] + 16
        or after[1] > before[1]
        or after[2] > before[2] + 2
        or after[3] > before[3] + 16
    )
    return not grown, f"{found.group(1)} times: {figures}"


@attack
def open_close(seconds: float, folder: Path) -> tuple[bool, str]:
    """Open, load, close: nothing grows."""
    return flat("engines", seconds, MODEL)


@attack
def pairs(seconds: float, folder: Path) -> tuple[bool, str]:
    """Pairs of a micro model on one engine: nothing grows."""
    from mast3r_runtime._commands import synthetic

    synthetic.write(folder / "micro.safetensors")
    return flat("pairs", seconds, folder / "micro.safetensors")


FILES = """
import os, random, sys, time, numpy as np, mast3r_runtime as m3r
from pathlib import Path
folder, seconds, seed, model = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
random.seed(seed)
raw = model.read_bytes()
head = 8 + int.from_bytes(raw[:8], "little")
engine = m3r.Engine("auto", 64, "fp32", 2, "cpu")
picture = np.zeros((48, 64, 3), np.uint8)
path = folder / "m.safetensors"
n = opened = 0
end = time.monotonic() + seconds
while time.monotonic() < end:
    data = bytearray(raw)
    for _ in range(random.randrange(1, 8)):
        if not data:
            break
        at = random.randrange(min(head, len(data)) if random.random() < 0.8 else len(data))
        kind = random.randrange(4)
        if kind == 0:
            data[at] = random.randrange(256)
        elif kind == 1:
            del data[at : at + random.randrange(1, 64)]
        elif kind == 2:
            data[at:at] = os.urandom(random.randrange(1, 64))
        else:
            del data[at + 1 :]
    path.write_bytes(data)
    n += 1
    for call in (lambda: engine.load(path), lambda: engine.infer_gpu(picture, picture),
                 lambda: m3r.convert(path, folder / "out.safetensors", progress=False),
                 lambda: m3r.estimate_cost(model=path)):
        try:
            call()
            opened += 1
        except m3r.errors.InternalError:
            raise
        except m3r.Mast3rError:
            pass
print(n, opened)
"""


@attack
def model_files(seconds: float, folder: Path) -> tuple[bool, str]:
    """Mutated model files through load, infer, convert and cost."""
    status, out = child(FILES, folder, seconds, random.randrange(2**31), MODEL, timeout=seconds + 120)
    left = [p.name for p in folder.iterdir() if p.name.startswith(".")]
    found = re.fullmatch(r"(\d+) (\d+)\n", out)
    if status != 0 or found is None or left:
        return False, f"{out} left over: {left}"
    return True, f"{found.group(1)} files, {found.group(2)} calls succeeded, every other one a Mast3rError"


PICTURES = """
import io, os, random, sys, time, numpy as np, mast3r_runtime as m3r
from PIL import Image
seconds, seed = float(sys.argv[1]), int(sys.argv[2])
random.seed(seed)
samples = []
for kind in ("PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF", "PPM"):
    for mode in ("RGB", "L"):
        file = io.BytesIO()
        noise = np.random.default_rng(0).integers(0, 255, (40, 56, 3), np.uint8)
        Image.fromarray(noise).convert(mode).save(file, kind)
        samples.append(file.getvalue())
n = read = 0
end = time.monotonic() + seconds
while time.monotonic() < end:
    data = bytearray(random.choice(samples))
    for _ in range(random.randrange(1, 6)):
        at = random.randrange(len(data))  # a sample cannot shrink to nothing by so few
        data[at : at + random.randrange(3)] = os.urandom(random.randrange(3))
    if random.random() < 0.2:
        del data[random.randrange(len(data)):]
    n += 1
    try:
        m3r.read_image(bytes(data))
        read += 1
    except m3r.errors.ImageError:
        pass
print(n, read)
"""


@attack
def pictures(seconds: float, folder: Path) -> tuple[bool, str]:
    """Mutated pictures of seven formats."""
    status, out = child(PICTURES, seconds, random.randrange(2**31), timeout=seconds + 120)
    found = re.match(r"(\d+) (\d+)\n", out)  # libtiff writes to standard error what it misses
    if status != 0 or found is None:
        return False, out
    return True, f"{found.group(1)} pictures, {found.group(2)} read, every other one an ImageError"


READERS = """
import random, resource, sys, time, warnings
from pathlib import Path
sys.path.insert(0, sys.argv[3])
warnings.simplefilter("ignore")
import mutations
from mast3r_runtime.errors import Mast3rError
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
seconds, name, seed, folder = float(sys.argv[1]), sys.argv[2], int(sys.argv[4]), Path(sys.argv[5])
path, read = mutations.targets(folder / "files")[name]
whole, rng = path.read_bytes(), random.Random(seed)
end, count, taken, slowest = time.monotonic() + seconds, 0, 0, 0.0
while time.monotonic() < end and count < 10_000:
    path.write_bytes(data := mutations.mutated(rng, whole))
    count += 1
    start = time.monotonic()
    try:
        read(count % 200 == 0)
        taken += 1
    except Mast3rError:
        pass
    except BaseException:
        print(f"seed {seed}, mutation {count} of {name}")
        raise
    slowest = max(slowest, time.monotonic() - start)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(f"{name} {count} ({taken} read, slowest {slowest:.2f} s, {peak} MB)")
"""


@attack
def readers(seconds: float, folder: Path) -> tuple[bool, str]:
    """Mutated files of every reader that takes a stranger's, up to 10,000 each: errors of ours, no hang."""
    here = HERE.parent / "py"
    sys.path.insert(0, str(here))
    from mutations import targets

    names = list(targets(folder / "names"))
    good, lines, end = True, [], time.monotonic() + seconds
    for number, name in enumerate(names):
        share = max(end - time.monotonic(), 1.0) / (len(names) - number)
        own = folder / str(number)
        own.mkdir()
        status, out = child(READERS, share, name, here, random.randrange(2**31), own, timeout=share + 120)
        good &= status == 0
        lines.append(out.strip().splitlines()[-1] if status == 0 else out[-1000:])
    return good, "; ".join(lines)


@attack
def folders(seconds: float, folder: Path) -> tuple[bool, str]:
    """Every verb that writes, in other random places than those of the tests, and killed there."""
    more, rounds = until(seconds), 0
    test = HERE.parent / "py" / "test_out_verbs.py"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-k", "nothing or killed", str(test)]
    while more() or not rounds:
        seed = str(random.randrange(1 << 30))
        environment = {**os.environ, "MAST3R_TEST_SEED": seed, "MAST3R_TEST_LAYOUTS": "8"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            return False, f"seed {seed}: {done.stdout[-1500:]}"
        rounds += 1
    return True, f"{rounds * 8} places a verb, and kills in half as many: no byte of others changed"


KILLED = """
import sys, mast3r_runtime as m3r
m3r.convert(sys.argv[1], sys.argv[2], dtype="fp32", progress=False)
"""


@attack
def killed(seconds: float, folder: Path) -> tuple[bool, str]:
    """convert is killed at any moment: never half a file, and nothing stays."""
    more, runs, finished = until(seconds), 0, 0
    out = folder / "out"
    out.mkdir()
    target = out / "m.safetensors"
    while more() or runs < 5:
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(MODEL), str(target)])
        time.sleep(random.uniform(0.05, 1.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        runs += 1
        if target.exists():
            finished += 1
            with m3r.Engine("auto", 64, "fp32", 2, "cpu") as engine:
                engine.load(target)
            target.unlink()
    m3r.convert(MODEL, target, dtype="fp32", progress=False)
    left = sorted(p.name for p in out.iterdir())
    return left == [target.name], f"{runs} kills, {finished} after the end; left in the folder: {left}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("time", help="in all: 90s, 10m, 1h")
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(ATTACKS)}")
    arguments = parser.parse_args()
    found = re.fullmatch(r"(\d+)([smh])", arguments.time)
    if found is None or set(arguments.names) - set(ATTACKS):
        parser.error(f"want a time like 10m, and names among {', '.join(ATTACKS)}")
    seconds = int(found.group(1)) * {"s": 1, "m": 60, "h": 3600}[found.group(2)]
    names = arguments.names or list(ATTACKS)
    failed, end = 0, time.monotonic() + seconds
    for i, name in enumerate(names):
        start = time.monotonic()
        share = max(end - start, 0.0) / (len(names) - i)  # of what the short ones, which come first, left
        with tempfile.TemporaryDirectory() as folder:
            good, figures = ATTACKS[name](share, Path(folder))
        failed += not good
        print(
            f"{'held' if good else 'FAULT'}  {name} ({time.monotonic() - start:.0f} s): {figures}", flush=True
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
