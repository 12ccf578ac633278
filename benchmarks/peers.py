# SPDX-License-Identifier: Apache-2.0
"""The ways to run the network: this project, PyTorch, ONNX Runtime."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import common  # noqa: F401  puts training/ on the path

NAMES = ("ours", "ours-fp16", "ours-bf16", "torch", "torch-bf16", "torch-compiled", "onnx")


class Ours:
    """This project's CPU engine."""

    def __init__(self, path: Path, images: Sequence[Any], threads: int, precision: str = "fp32") -> None:
        from mast3r_runtime.backends._cpu import CPUEngine

        self.name = f"mast3r-runtime {precision}"
        self.images = images
        self.engine = CPUEngine(
            "auto", resolution=max(images[0].shape[:2]), precision=precision, num_threads=threads
        )
        self.engine.load(path)
        self.products = self.engine.info()["products"]

    def pair(self) -> dict[str, float]:
        t = self.engine.infer_gpu(*self.images[:2], preprocess=False).timing
        return {stage: t[f"{stage}_ms"] / 1e3 for stage in ("encoder", "decoder", "heads")}

    def sequence(self) -> None:
        self.engine.infer_batch_pipelined(self.images, preprocess=False)

    def load_retrieval(self, path: Path) -> None:
        self.engine.load_retrieval(path)

    def retrieval(self) -> None:
        self.engine.encode_retrieval(self.images[0], preprocess=False, square_ok=True)

    def close(self) -> None:
        self.engine.close()


class Torch:
    """PyTorch, with the network of training/, eager or compiled."""

    _nets: dict[Path, Any] = {}  # one copy of the weights for all precisions

    def __init__(
        self, path: Path, images: Sequence[Any], threads: int, dtype: str = "fp32", compiled: bool = False
    ) -> None:
        import torch
        from mast3r_torch.weights import load

        torch.set_num_threads(threads)
        if path not in self._nets:
            self._nets[path] = load(path)[0].eval()
        self.net = self._nets[path]
        self.encode, self.decode, self.heads = self.net.encode, self.net.decode, self._heads
        if compiled:
            self.encode, self.decode, self.heads = (
                torch.compile(f) for f in (self.encode, self.decode, self.heads)
            )
        self.cast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16")
        self.name = f"PyTorch {torch.__version__} {dtype}{' compiled' if compiled else ''}"
        self.x = [
            torch.from_numpy(i).permute(2, 0, 1)[None].float().div(255).sub(0.5).div(0.5) for i in images
        ]
        self.grid = self.net.grid(self.x[0])
        with torch.inference_mode(), self.cast:
            self.products = onednn(lambda: self.net.encode(torch.zeros(1, 3, 64, 64)))
        self.whitening = None

    def _heads(self, tokens1: Any, tokens2: Any, h: int, w: int) -> Any:
        from mast3r_torch.model import activate

        return activate(self.net.downstream_head1(tokens1, h, w)), activate(
            self.net.downstream_head2(tokens2, h, w)
        )

    def _decoded(self, f1: Any, f2: Any) -> Any:
        return self.decode(f1, f2, self.grid, self.grid)

    def pair(self) -> dict[str, float]:
        import torch

        with torch.inference_mode(), self.cast:
            marks = [time.perf_counter()]
            f = self.encode(torch.cat(self.x[:2]))
            marks.append(time.perf_counter())
            tokens = self._decoded(f[:1], f[1:])
            marks.append(time.perf_counter())
            self.heads(*tokens, *self.grid)
            marks.append(time.perf_counter())
        return dict(
            zip(("encoder", "decoder", "heads"), (b - a for a, b in itertools.pairwise(marks)), strict=True)
        )

    def sequence(self) -> None:
        """Each picture encoded once: the best that one can do with PyTorch, and no less than ours."""
        import torch

        with torch.inference_mode(), self.cast:
            before = self.encode(self.x[0])
            for x in self.x[1:]:
                f = self.encode(x)
                self.heads(*self._decoded(before, f), *self.grid)
                before = f

    def load_retrieval(self, path: Path) -> None:
        from safetensors.torch import load_file

        self.whitening = load_file(path)

    def retrieval(self) -> None:
        import torch

        with torch.inference_mode(), self.cast:
            f = self.encode(self.x[0])
        with torch.inference_mode():
            z = ((f.double() - self.whitening["prewhiten.m"]) @ self.whitening["prewhiten.p"]).float()
            z.norm(dim=-1).topk(min(300, z.shape[1]))

    def close(self) -> None:
        self._nets.clear()


def onednn(run: Callable[[], object]) -> str:
    """What oneDNN's verbose mode names for the products of run: its kernels, and so the instructions."""
    import torch

    with tempfile.TemporaryFile() as out:
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(out.fileno(), 1)  # the library writes to the descriptor
        try:
            with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
                run()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        out.seek(0)
        return kernels(out.read().decode(errors="replace"))


def kernels(verbose: str) -> str:
    """The kernels of products in what oneDNN printed."""
    found = set()
    for line in verbose.splitlines():
        fields = line.split(",")
        if "exec" in fields[:4]:
            kind, name = fields[fields.index("exec") + 2 :][:2]
            if kind in ("matmul", "inner_product", "convolution"):
                found.add(f"{kind} {name}")
    return ", ".join(sorted(found)) or "no product of oneDNN's"


class Onnx:
    """ONNX Runtime, with the model that this project exports."""

    def __init__(self, path: Path, images: Sequence[Any], threads: int) -> None:
        import onnxruntime as ort

        from mast3r_runtime.backends._cpu import CPUEngine

        height, width = images[0].shape[:2]
        self.folder = tempfile.TemporaryDirectory()  # not beside the weights: those may be the package's own
        model = Path(self.folder.name) / "model.onnx"
        with CPUEngine("auto", resolution=max(height, width), num_threads=threads) as engine:
            engine.load(path)
            engine.export_onnx(model, height=height, width=width)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.images = images
        self.name = f"ONNX Runtime {ort.__version__} fp32"

    def _run(self, a: Any, b: Any) -> None:
        self.session.run(None, {"image1": a[None], "image2": b[None]})

    def pair(self) -> None:
        self._run(*self.images[:2])

    def sequence(self) -> None:
        """Pair by pair: the model has no place to hand features over."""
        for a, b in itertools.pairwise(self.images):
            self._run(a, b)

    def close(self) -> None:
        del self.session
        self.folder.cleanup()


def make(name: str, path: Path, images: Sequence[Any], threads: int) -> Any:
    match name:
        case "ours" | "ours-fp16" | "ours-bf16":
            return Ours(path, images, threads, {"ours": "fp32"}.get(name, name[5:]))
        case "torch" | "torch-bf16" | "torch-compiled":
            return Torch(
                path, images, threads, "bf16" if name.endswith("bf16") else "fp32", name.endswith("compiled")
            )
        case "onnx":
            return Onnx(path, images, threads)
    raise SystemExit(f"contender {name!r}, want one of {', '.join(NAMES)}")


def write_head(path: Path, dim: int) -> Path:
    """A retrieval head of made-up numbers: a mean and a whitening matrix, in double precision."""
    import numpy as np
    from safetensors.numpy import save_file

    r = np.random.default_rng(3)
    save_file(
        {"prewhiten.m": r.normal(size=(1, dim)), "prewhiten.p": r.normal(size=(dim, dim)) / dim**0.5}, path
    )
    return path


def available(names: Sequence[str]) -> list[str]:
    """The contenders whose packages are installed; what is missing is said."""
    import importlib.util

    kept = []
    for name in names:
        package = {"onnx": "onnxruntime", "torch": "torch"}.get(name.split("-")[0])
        if package and importlib.util.find_spec(package) is None:
            print(f"{name} is left out: {package} is not installed", flush=True)
            continue
        kept.append(name)
    return kept
