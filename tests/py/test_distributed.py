# SPDX-License-Identifier: Apache-2.0
"""Many workers and their ends: Dask, killed workers and drivers, object stores, Ctrl-C, the documents.

Run by ``make test-distributed``; the marker keeps it out of ``make test``. How often workers are
killed is --kills (default 20).
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, child_environment
from PIL import Image

from mast3r_runtime._pairs import dask as clusters
from mast3r_runtime._pairs import driver, plan, task
from mast3r_runtime._pairs.rule import Rule
from mast3r_runtime._scene import known
from mast3r_runtime.distributed import Progress, Workers, run_pairs
from mast3r_runtime.errors import StoreError
from mast3r_runtime.store import Store, check, failures

pytestmark = [pytest.mark.distributed, pytest.mark.filterwarnings("ignore")]

COUNT = 16
PAIRS = [(i, j) for i in range(COUNT) for j in range(i)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen pictures: crops that slide over the rendered views of the wheel."""
    out = tmp_path_factory.mktemp("sixteen") / "photos"
    out.mkdir()
    for i in range(COUNT):
        with Image.open(known.paths()[i % 8]) as view:
            x = 16 * (i // 8)
            view.crop((x, 0, x + 160, 120)).save(out / f"{i:02d}.png")
    return out


@pytest.fixture(scope="module")
def options(micro: Path) -> dict[str, Any]:
    return {"model": micro, "resolution": 64, "backend": "cpu", "precision": "fp32"}


@pytest.fixture(scope="module")
def paths(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def whole(
    paths: list[Path], options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    """The files of a run by one process."""
    store = tmp_path_factory.mktemp("one") / "store"
    report = run_pairs(paths, PAIRS, store=store, **options)
    assert report.computed == len(PAIRS)
    return files(store)


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    pytest.importorskip("distributed", reason="no Dask here (extra cluster)")
    with clusters.connect("local:2", 2) as client:
        yield client


def files(store: Path) -> dict[str, bytes]:
    return {p.relative_to(store).as_posix(): p.read_bytes() for p in store.rglob("*") if p.is_file()}


def killer(pids: Any, at: int, killed: list[int], chosen: random.Random) -> Any:
    """Progress that kills a worker once so many pairs are done."""

    def kill(p: Progress) -> None:
        if p.stage == "pairs" and p.done >= at and not killed:
            killed.append(chosen.choice(pids()))
            os.kill(killed[0], signal.SIGKILL)

    return kill


def dask_pids(client: Any) -> list[int]:
    return [n.process.pid for n in list(client.cluster.workers.values()) if n.process and n.process.pid]


# ---- the same bytes ------------------------------------------------------


def test_dask_gives_the_bytes_of_one_process(
    dask: Any, paths: list[Path], options: dict[str, Any], whole: dict[str, bytes], tmp_path: Path
) -> None:
    told: list[Progress] = []
    report = run_pairs(paths, PAIRS, store=tmp_path, client=dask, progress=told.append, **options)
    assert report.computed == report.done == len(PAIRS) and report.encoded == COUNT
    assert files(tmp_path) == whole and told[-1].workers == 2
    started = time.monotonic()
    again = run_pairs(paths, PAIRS, store=tmp_path, client=dask, **options)
    assert (again.computed, again.encoded) == (0, 0)
    print(f"second run: {time.monotonic() - started:.2f} s")


def test_rate_of_two_workers(paths: list[Path], options: dict[str, Any], tmp_path: Path) -> None:
    """Said, not judged: it means something on two idle cores alone. The bytes are judged."""
    rates = {}
    few = [(0, 1), (2, 3)]
    for name, threads, count in (("one process, two threads", 2, 0), ("two workers, one thread each", 1, 2)):
        how = {"threads": threads, **options}
        where = tmp_path / str(count)
        if count:
            with Workers(count) as workers:
                run_pairs(
                    paths,
                    [(0, 1), (2, 3)],
                    store=tmp_path / "warm",
                    client=workers,
                    threads=threads,
                    **options,
                )
                report = run_pairs(paths, PAIRS, store=where, client=workers, **how)
        else:
            run_pairs(paths, few, store=tmp_path / "warm0", **how)
            report = run_pairs(paths, PAIRS, store=where, **how)
        rates[name] = len(PAIRS) / report.seconds
    print(", ".join(f"{name}: {rate:.1f} pairs a second" for name, rate in rates.items()))
    assert files(tmp_path / "0") == files(tmp_path / "2")


# ---- ends ----------------------------------------------------------------


def test_killed_workers_lose_nothing(
    request: pytest.FixtureRequest, paths: list[Path], options: dict[str, Any], whole: dict[str, bytes],
    tmp_path: Path,
) -> None:  # fmt: skip
    """A third of the way and at random times: every pair is there, with the same bytes."""
    chosen = random.Random(3)
    for n in range(request.config.getoption("--kills")):
        store = tmp_path / str(n)
        at = len(PAIRS) // 3 if n == 0 else chosen.randrange(len(PAIRS))
        killed: list[int] = []
        with Workers(2) as workers:

            def kill(
                p: Progress, at: int = at, killed: list[int] = killed, workers: Workers = workers
            ) -> None:
                if p.stage == "pairs" and p.done >= at and not killed:
                    killed.append(chosen.choice(workers.pids()))
                    os.kill(killed[0], signal.SIGKILL)

            report = run_pairs(paths, PAIRS, store=store, client=workers, progress=kill, **options)
        assert killed and report.done == len(PAIRS) and not report.failed
        check(Store(store))
        assert files(store) == whole
        shutil.rmtree(store)


def test_killed_dask_workers_lose_nothing(
    dask: Any, paths: list[Path], options: dict[str, Any], whole: dict[str, bytes], tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill(p: Progress) -> None:
        if p.stage == "pairs" and p.done >= 40 * (len(killed) + 1) and len(killed) < 2:
            pids = [pid for pid in dask_pids(dask) if pid not in killed]
            if pids:
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

    report = run_pairs(paths, PAIRS, store=tmp_path, client=dask, progress=kill, **options)
    assert killed and report.done == len(PAIRS) and not report.failed
    check(Store(tmp_path))
    assert files(tmp_path) == whole


def batch(folder: Path, store: Path, options: dict[str, Any], *more: str) -> list[str]:
    return [
        sys.executable, "-m", "mast3r_runtime", "batch", str(folder), "--store", str(store),
        "--graph", "complete", "--model", str(options["model"]), "--resolution", "64", "--backend", "cpu",
        "--precision", "fp32", *more,
    ]  # fmt: skip


def wait_for(store: Path, count: int, seconds: float = 120) -> None:
    over = time.monotonic() + seconds
    while len(list(store.glob("pairs/*/*.npz"))) < count:
        assert time.monotonic() < over, f"no {count} pairs in {seconds} s"
        time.sleep(0.02)


def test_a_killed_driver_does_little_twice(
    folder: Path, options: dict[str, Any], whole: dict[str, bytes], tmp_path: Path
) -> None:
    process = subprocess.Popen(
        batch(folder, tmp_path, options, "--workers", "2"), env=child_environment(), start_new_session=True
    )
    wait_for(tmp_path, 30)
    os.killpg(process.pid, signal.SIGKILL)  # the driver and its workers
    process.wait()
    there = len(list(tmp_path.glob("pairs/*/*.npz")))
    done = subprocess.run(
        batch(folder, tmp_path, options, "--json"), env=child_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["computed"] == len(PAIRS) - there
    check(Store(tmp_path))
    assert files(tmp_path) == whole


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c(
    times: int, folder: Path, options: dict[str, Any], whole: dict[str, bytes], tmp_path: Path
) -> None:
    process = subprocess.Popen(
        batch(folder, tmp_path, options, "--workers", "2"), env=child_environment(), start_new_session=True,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(tmp_path, 20)
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process
        time.sleep(0.3)
    _, text = process.communicate(timeout=120)
    assert process.returncode == 130, text
    assert "pairs are missing; the same command goes on" in text or times == 2
    there = files(tmp_path)
    assert all(
        whole[name] == data
        for name, data in there.items()
        if name.startswith("pairs/") and ".part" not in name
    )
    done = subprocess.run(batch(folder, tmp_path, options), env=child_environment(), capture_output=True)
    assert done.returncode == 0
    check(Store(tmp_path))
    assert files(tmp_path) == whole


POISON = """
import os
from mast3r_runtime._pairs import worker
compute = worker.PairWorker._compute
def poisoned(self, one, two, *rest):
    if {os.path.basename(one.path), os.path.basename(two.path)} == {"03.png", "07.png"}:
        os._exit(9)
    return compute(self, one, two, *rest)
worker.PairWorker._compute = poisoned
"""


@pytest.mark.parametrize("how", ["workers", "dask"])
def test_poison_is_found_and_the_rest_is_done(
    how: str, folder: Path, options: dict[str, Any], tmp_path: Path
) -> None:
    """A truncated picture, and a pair that ends its process: 118 of 120 and of 15 more are done."""
    pictures, site, store = tmp_path / "photos", tmp_path / "site", tmp_path / "store"
    shutil.copytree(folder, pictures)
    (pictures / "zz.jpg").write_bytes(b"\xff\xd8\xff\xe0" + b"\0" * 50)
    pairs = tmp_path / "pairs.txt"
    names = sorted(p.name for p in folder.iterdir())
    rows = [(names[i], names[j]) for i, j in PAIRS[:-1]] + [("00.png", "zz.jpg")]
    pairs.write_text("".join(f"{a} {b}\n" for a, b in rows))
    site.mkdir()
    (site / "sitecustomize.py").write_text(textwrap.dedent(POISON))
    environment = child_environment()
    environment["PYTHONPATH"] = f"{site}{os.pathsep}{environment['PYTHONPATH']}"
    more = ["--workers", "2"] if how == "workers" else ["--dask", "local:2"]
    if how == "dask":
        pytest.importorskip("distributed")
        # As on a machine so busy that no process is back in time.
        environment["DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT"] = "100ms"
    done = subprocess.run(
        batch(pictures, store, options, "--pairs", str(pairs), "--json", *more),
        env=environment, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 6, done.stderr
    values = json.loads(done.stdout)
    assert values["done"] == len(PAIRS) - 2
    assert {(tuple(f["pair"]), f["error"]) for f in values["failed"]} == {
        (("03.png", "07.png"), "WorkerDied"), (("00.png", "zz.jpg"), "ImageError"),
    }  # fmt: skip
    assert len(list(failures(Store(store)))) == 2


def test_the_cluster_of_somebody_else_keeps_its_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our clusters wait 600 s for workers; an address where nobody listens is known sooner."""
    distributed = pytest.importorskip("distributed", reason="no Dask here (extra cluster)")
    config = pytest.importorskip("dask").config
    monkeypatch.setattr(distributed, "Client", lambda *_, **__: nullcontext())
    limit = "distributed.comm.timeouts.connect"
    with config.set({limit: "7s"}), clusters.connect("tcp://nowhere:8786", 1):
        assert config.get(limit) == "7s"


# ---- stores elsewhere ----------------------------------------------------


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A local S3 server."""
    server = pytest.importorskip("moto.server", reason="no moto here: no S3 server")
    pytest.importorskip("s3fs", reason="no s3fs here")
    import boto3

    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    url = f"http://{host}:{port}"
    set_before = {name: os.environ.get(name) for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID")}
    os.environ.update(
        AWS_ENDPOINT_URL=url, AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="x", AWS_DEFAULT_REGION="us-east-1"
    )
    boto3.client("s3", endpoint_url=url).create_bucket(Bucket="bucket")
    yield "s3://bucket/store"
    running.stop()
    for name, value in set_before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


def test_an_object_store_holds_the_same(
    bucket: str, paths: list[Path], options: dict[str, Any], whole: dict[str, bytes]
) -> None:
    report = run_pairs(paths, PAIRS[:30], store=bucket, **options)
    assert report.computed == 30
    store = Store(bucket)
    names = [e.name for e in store.place.list("pairs")]
    assert len(names) == 30
    for name in names:
        with store.place.open(name) as file:
            assert file.read() == whole[name]
    assert run_pairs(paths, PAIRS[:30], store=bucket, **options).computed == 0
    store.write("pairs", "ab" * 16, b"torn")
    assert check(store).damaged == ("pairs/ab/" + "ab" * 16 + ".npz",)


# ---- size ----------------------------------------------------------------


def trivial(root: Path, pictures: int, pairs: np.ndarray) -> driver.Driver:
    from concurrent.futures import Executor, Future

    class Instant(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            (job,) = args
            future: Future[Any] = Future()
            done = tuple((item.number, 100, 2) for item in job.items)
            future.set_result(task.TileReport(done, (), len(done), 0, 0, 0.001, "h", 1))
            return future

    rule = Rule("0" * 32, 64, "fp32")
    known_pictures = [task.Picture(f"/data/{i:06d}.jpg", f"{i:064x}") for i in range(pictures)]
    names = [f"{i:06d}.jpg" for i in range(pictures)]
    return driver.Driver(
        task.Setup(str(root)), rule, known_pictures, names, pairs, plan.tiles(pairs, 4), Instant(),
        lambda: 2, 3, lambda p: None,
    )  # fmt: skip


def test_overhead_of_the_driver(tmp_path: Path) -> None:
    pairs = plan.normal([(i, j) for i in range(46) for j in range(i)][:1000], 46)
    run = trivial(tmp_path, 46, pairs)
    started = time.process_time()
    run.run_tiles()
    each = 1000 * (time.process_time() - started) / len(pairs)
    print(f"driver: {each:.3f} ms of CPU a pair")
    assert run.done == 1000 and each < 5


def test_a_plan_of_100000_pairs_is_small(tmp_path: Path) -> None:
    """In a process of its own, with Dask imported: below 200 MB."""
    code = """
        import sys
        from pathlib import Path
        sys.path[:0] = [sys.argv[1]]
        import test_distributed as t
        try:
            import distributed
        except ImportError:
            pass
        from mast3r_runtime._pairs import plan, record
        pairs = plan.normal([(i, i + d) for d in range(1, 12) for i in range(10_000 - d)][:100_000], 10_000)
        run = t.trivial(Path(sys.argv[2]), 10_000, pairs)
        record.write_run(run.store, run.names, run.pictures, pairs, run.rule, "matches")
        run.run_tiles()
        assert run.done == 100_000
        status = Path("/proc/self/status").read_text()
        print(int(status.split("VmHWM:")[1].split()[0]) / 1024)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(ROOT / "tests" / "py"), str(tmp_path)],
        env=child_environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    print(f"driver of 100,000 pairs: {float(done.stdout):.0f} MiB")
    assert float(done.stdout) < 190


def _write(root: str, times: int) -> None:
    store = Store(root)
    for _ in range(times):
        store.write_arrays("mine", "ef" * 16, {"x": np.full(2000, 7)})


def test_two_writers_of_one_key_a_thousand_times(tmp_path: Path) -> None:
    import multiprocessing

    Store(tmp_path)
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_write, args=(str(tmp_path), 1000)) for _ in range(2)]
    for writer in writers:
        writer.start()
    store, seen = Store(tmp_path), 0
    while any(writer.is_alive() for writer in writers):
        if store.exists("mine", "ef" * 16):
            arrays = store.read_arrays("mine", "ef" * 16)
            assert arrays is not None and (arrays["x"] == 7).all()
            seen += 1
    assert seen and [writer.exitcode for writer in writers] == [0, 0]
    assert not list(tmp_path.rglob(".part-*"))


def test_shards_beside_dask(
    dask: Any,
    folder: Path,
    paths: list[Path],
    options: dict[str, Any],
    whole: dict[str, bytes],
    tmp_path: Path,
) -> None:
    """Three shards work on the store that Dask fills."""
    shards = [
        subprocess.Popen(
            batch(folder, tmp_path, options, "--shard", f"{k}/3", "--workers", "1"), env=child_environment()
        )
        for k in (2, 0, 1)
    ]
    report = run_pairs(paths, PAIRS, store=tmp_path, client=dask, **options)
    assert [process.wait(timeout=300) for process in shards] == [0, 0, 0]
    assert report.done == len(PAIRS)
    assert files(tmp_path) == whole


# ---- what the documents show ---------------------------------------------


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


@pytest.fixture
def room(folder: Path, micro: Path, tmp_path: Path) -> Path:
    """A folder with photos/, where ``mast3r`` is the command with a small model."""
    (tmp_path / "photos").mkdir()
    for path in sorted(folder.iterdir())[:6]:
        shutil.copy(path, tmp_path / "photos")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    small = f"--model {micro} --resolution 64 --backend cpu --precision fp32"
    script = f"""#!/bin/sh
case "$1" in batch) verb=$1; shift; exec {sys.executable} -m mast3r_runtime "$verb" {small} "$@" ;; esac
exec {sys.executable} -m mast3r_runtime "$@"
"""
    (bin_folder / "mast3r").write_text(script)
    (bin_folder / "mast3r").chmod(0o755)
    return tmp_path


def run_in(room: Path, command: list[str], **more: str) -> str:
    environment = {**child_environment(), "PATH": f"{room / 'bin'}{os.pathsep}{os.environ['PATH']}", **more}
    done = subprocess.run(command, cwd=room, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_slurm_page(room: Path) -> None:
    pairs, encode = (b for b in blocks("slurm.md", "sh"))
    for k in range(3):
        slurm = {"SLURM_ARRAY_TASK_ID": str(k), "SLURM_ARRAY_TASK_COUNT": "2"}  # as of --array=1,2
        run_in(room, ["bash", "-c", encode.replace("SHARDS=32", "SHARDS=3")], **slurm)
    for k in (1, 2, 0):
        slurm = {"SLURM_ARRAY_TASK_ID": str(k), "SLURM_ARRAY_TASK_COUNT": "2"}
        text = run_in(room, ["bash", "-c", pairs.replace("SHARDS=32", "SHARDS=3")], **slurm)
        assert "0 pictures encoded" in text
    status = run_in(
        room, ["mast3r", "batch", "photos/", "--store", "store", "--graph", "swin-10-noncyclic", "--status"]
    )
    assert "15 of 15 pairs done" in status
    run_in(
        room,
        [
            *[
                "mast3r",
                "batch",
                "photos/",
                "--store",
                "store",
                "--graph",
                "swin-10-noncyclic",
                "-o",
                "found",
                "--drop",
                "NO",
            ]
        ],
    )
    assert (room / "found" / "pairs.txt").is_file()


def test_pages_of_one_machine_and_of_care(room: Path) -> None:
    (commands, *_) = blocks("many-pictures.md", "sh")
    assert "15 of 15 pairs done" in run_in(room, ["sh", "-ec", commands])
    (care,) = blocks("store.md", "sh")
    run = json.loads(run_in(room, ["mast3r", "store", "store", "--list", "runs", "--json"]))[0]["run"]
    text = run_in(room, ["sh", "-ec", care.replace("STORE", "store").replace("RUN ", f"{run} ")])
    assert "nothing was set aside" in text and "0 damaged" in text


@pytest.mark.parametrize(
    "page, needs", [("many-pictures.md", None), ("dask.md", "distributed"), ("ray.md", "ray")]
)
def test_python_of_the_pages(page: str, needs: str | None, room: Path, micro: Path) -> None:
    if needs is not None:
        pytest.importorskip(needs, reason=f"no {needs} here: the example of docs/{page} is not run")
    (code,) = blocks(page, "python")
    code = code.replace('store="store"', f'store="store", model={str(micro)!r}, resolution=64, backend="cpu"')
    (room / "example.py").write_text(code)
    text = run_in(room, [sys.executable, "example.py"])
    assert "12 pairs, 12 computed, 0 failed" in text
    assert "12 pairs, 0 computed, 0 failed" in run_in(room, [sys.executable, "example.py"])


def test_dask_page_commands(room: Path) -> None:
    pytest.importorskip("distributed")
    (command,) = blocks("dask.md", "sh")
    assert "12 of 12 pairs" in run_in(room, ["sh", "-ec", command])


def test_dask_of_a_queue(room: Path) -> None:
    """``--dask slurm:jobs.yaml`` of the page, with an sbatch that runs its script here."""
    pytest.importorskip("dask_jobqueue", reason="no dask-jobqueue here")
    (jobs,) = blocks("dask.md", "yaml")
    (room / "jobs.yaml").write_text(jobs.replace("jobs: 8", "jobs: 1").replace("cores: 4", "cores: 1"))
    # As sbatch does, it keeps the script: dask-jobqueue deletes its own when sbatch is back.
    sbatch = '#!/bin/sh\ncp "$1" job.sh\nsh job.sh >job.log 2>&1 &\necho "Submitted batch job $!"\n'
    for name, script in (("sbatch", sbatch), ("scancel", "#!/bin/sh\nkill $1\n")):
        (room / "bin" / name).write_text(script)
        (room / "bin" / name).chmod(0o755)
    text = run_in(
        room,
        [
            *[
                "mast3r",
                "batch",
                "photos/",
                "--store",
                "store",
                "--graph",
                "swin-3-noncyclic",
                "--dask",
                "slurm:jobs.yaml",
            ]
        ],
    )
    assert "12 of 12 pairs" in text


def test_full_stores_end_with_status_5(folder: Path, options: dict[str, Any], tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import errno, itertools\nfrom mast3r_runtime._store import places\n"
        "rename, left = places.Folder._rename, itertools.count(40, -1)\n"
        "def full(part, target):\n"
        "    if next(left) < 0:\n        raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "    rename(part, target)\n"
        "places.Folder._rename = staticmethod(full)\n"
    )
    environment = child_environment()
    environment["PYTHONPATH"] = f"{site}{os.pathsep}{environment['PYTHONPATH']}"
    done = subprocess.run(
        batch(folder, tmp_path / "s", options, "--workers", "1"),
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 5 and "No space left" in done.stderr and "pairs are missing" in done.stderr
    assert StoreError.__mro__[1].__name__ == "FileError"
