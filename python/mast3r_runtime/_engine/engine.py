# SPDX-License-Identifier: Apache-2.0
"""The engine: one class over the C interface, whatever the backend."""

from __future__ import annotations

import ctypes as C
import json
import logging
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from .._checkpoints import places
from .._library import calls
from .._library import structs as S
from .._library.options import Only, image_array, infer_options
from ..errors import ClosedError, Mast3rError, ShapeError
from ..images import U8, ImageLike
from ..results import GPUInferenceResult, SymmetricResult
from ..retrieval import RetrievalMethods
from .features import FeatureMethods
from .matching import MatchingMethods
from .onnx import OnnxMethods

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Engine", "create", "info_of"]

_log = logging.getLogger("mast3r_runtime")

_said: set[str] = set()  # reasons for a fallback that were logged: once per process
_open: weakref.WeakSet[Engine] = weakref.WeakSet()


def create(
    backend: str, variant: str = "auto", resolution: int = 0, precision: str = "auto", threads: int = 0
) -> int:
    """Create a native engine and return its handle."""
    config = S.struct(
        S.Config,
        resolution=calls.int32("resolution", resolution),
        threads=calls.int32("num_threads", threads),
        variant=calls.text("variant", variant),
        precision=calls.text("precision", precision),
        backend=calls.text("backend", backend),
    )
    handle = S.Handle()
    calls.call("mast3r_engine_create", C.byref(config), C.byref(handle))
    return int(handle.value)


def info_of(handle: int) -> dict[str, Any]:
    """Everything the library says about an engine, texts decoded."""
    info = S.struct(S.Info)
    calls.call("mast3r_engine_info", handle, C.byref(info))
    skip = {"size", "reserved"}
    values = {name: getattr(info, name) for name, *_ in info._fields_ if name not in skip}
    return {k: v.decode("utf-8", "replace") if isinstance(v, bytes) else v for k, v in values.items()}


def backend_wanted(preferred: str) -> str:
    """Apply MAST3R_BACKEND to "auto": ``metal`` insists, ``cpu`` forces."""
    wanted = os.environ.get("MAST3R_BACKEND", "").strip().lower()
    if preferred != "auto" or wanted in ("", "auto"):
        return preferred
    if wanted in ("metal", "cpu"):
        return wanted
    raise ValueError(f"MAST3R_BACKEND={wanted!r}, want auto, metal or cpu")


class Engine(MatchingMethods, RetrievalMethods, FeatureMethods, OnnxMethods):
    """A two-view engine. Use :class:`MPSEngine` or :class:`CPUEngine`.

    Calls may come from several threads. An engine pickles as its configuration and the
    path of its model, never as memory.
    """

    _backend: ClassVar[str] = "auto"

    def __init__(
        self,
        variant: str = "mast3r_vit_large",
        resolution: int = 512,
        precision: str = "fp16",
        num_threads: int = 4,
    ) -> None:
        self._config = (variant, resolution, precision, num_threads)
        self._path: str | None = None
        self._closed = False
        backend = backend_wanted(self._backend)
        self._handle = create(backend, variant, resolution, precision, num_threads)
        # Not __del__: a finalizer also runs at exit, in order, and cannot revive the object.
        self._finalizer = weakref.finalize(self, calls.release, "mast3r_engine_close", self._handle)
        _open.add(self)
        calls.forward_log()
        reason = info_of(self._handle)["fallback_reason"]
        if reason and reason not in _said:
            _said.add(reason)
            _log.info("running on the CPU: %s", reason)

    # ---- life ------------------------------------------------------------

    def load(self, path: str | os.PathLike[str] | None = None) -> None:
        """Load a model: a safetensors or ``.pth`` file, or a directory that holds one.

        Without a path: the model in the wheel for ``auto`` and ``mast3r_tiny``, otherwise the
        variant's files in the cache. May be called again; the new model replaces the old one.
        """
        where = places.find(self._config[0]) if path is None else Path(path)
        with calls.Job("mast3r_submit_load", self._live(), calls.text("path", where)) as job:
            job.wait()
        self._path = os.fspath(where)

    def is_ready(self) -> bool:
        """Whether a model is loaded and the engine is open."""
        return not self._closed and bool(info_of(self._live())["ready"])

    def name(self) -> str:
        """Model and backend, as in ``mast3r_tiny on cpu (avx512)``."""
        return str(info_of(self._live())["name"])

    def info(self) -> dict[str, Any]:
        """Facts about the device and the loaded model, with the file's metadata."""
        values = info_of(self._live())
        text = calls.text_of(lambda *out: calls.call("mast3r_engine_metadata", self._live(), *out))
        return {**values, "metadata": json.loads(text)}

    def warmup(self, num_iterations: int = 3) -> None:
        """Run the network that many times on a blank pair, so that the next call is fast."""
        iterations = calls.int32("num_iterations", num_iterations)
        with calls.Job("mast3r_submit_warmup", self._live(), iterations) as job:
            job.wait()

    def trim(self) -> None:
        """Give memory that is only kept for the next call back to the system."""
        calls.call("mast3r_engine_trim", self._live())

    def close(self) -> None:
        """Free the engine's memory. Results taken before stay valid. May be called twice."""
        self._closed = True
        _open.discard(self)
        if self._finalizer.detach() is not None:
            calls.call("mast3r_engine_close", self._handle)

    def _live(self) -> int:
        calls.check_fork()
        if self._closed:
            raise ClosedError("engine: closed")
        return self._handle

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self._config, self._path))

    def __repr__(self) -> str:
        variant, resolution, precision, threads = self._config
        state = ", closed" if self._closed else ""
        return (
            f"{type(self).__name__}({variant!r}, resolution={resolution}, "
            f"precision={precision!r}, num_threads={threads}{state})"
        )

    # ---- inference -------------------------------------------------------

    def infer_gpu(
        self,
        img1: ImageLike,
        img2: ImageLike,
        preprocess: bool = True,
        square_ok: bool = True,
        resolution: int | None = None,
        only: Only = None,
    ) -> GPUInferenceResult:
        """Run a pair. Pictures of any size each; see :mod:`mast3r_runtime.images`.

        ``preprocess=False`` takes pictures that are at network size already (sides multiples
        of the patch; the two may differ) as they are. ``square_ok=False`` cuts square pictures
        to 4:3, as the reference does. ``resolution`` is the long side for this pair, in place
        of the engine's. ``only`` names the outputs wanted, as ``("pts3d", "conf")``: the others
        are not computed, and their tensors are not valid.
        """
        options = infer_options(preprocess, square_ok, resolution, only)
        (result,), (one, two) = self._run("mast3r_submit_infer", [img1, img2], options)
        return GPUInferenceResult._take(result, (one, two))

    def infer_symmetric(
        self,
        img1: ImageLike,
        img2: ImageLike,
        preprocess: bool = True,
        square_ok: bool = True,
        resolution: int | None = None,
        only: Only = None,
    ) -> SymmetricResult:
        """Encode each picture once, decode the pair both ways."""
        options = infer_options(preprocess, square_ok, resolution, only)
        (result,), _ = self._run("mast3r_submit_symmetric", [img1, img2], options)
        return SymmetricResult._take(result)

    def infer_batch_pipelined(
        self,
        images: Sequence[ImageLike],
        preprocess: bool = True,
        square_ok: bool = True,
        resolution: int | None = None,
        only: Only = None,
    ) -> list[GPUInferenceResult]:
        """Run the pairs (i, i+1) of a sequence; every picture is encoded once."""
        if len(images) < 2:
            raise ShapeError(f"infer_batch_pipelined: {len(images)} images, want at least 2")
        options = infer_options(preprocess, square_ok, resolution, only)
        results, pictures = self._run("mast3r_submit_sequence", images, options)
        pairs = zip(pictures, pictures[1:], strict=False)
        return [GPUInferenceResult._take(result, pair) for result, pair in zip(results, pairs, strict=True)]

    def _run(
        self, submit: str, images: Sequence[ImageLike], options: S.InferOptions
    ) -> tuple[list[S.Result], list[U8]]:
        engine = self._live()
        structs, pictures = image_array(images)
        arguments: tuple[Any, ...] = (C.byref(structs[0]), C.byref(structs[1]))
        count = 1
        if submit == "mast3r_submit_sequence":
            arguments = (structs, len(pictures))
            count = len(pictures) - 1
        keep = (pictures, structs, options)
        with calls.Job(submit, engine, *arguments, C.byref(options), keep=keep) as job:
            job.wait()
            name = "mast3r_job_take_result"
            return [job.take(S.Result, name, i) for i in range(count)], pictures


def _rebuild(kind: type[Engine], config: tuple[str, int, str, int], path: str | None) -> Engine:
    engine = kind(*config)
    if path is not None:
        engine.load(path)
    return engine


def open_engines() -> list[Engine]:
    """The engines of this process that are open."""
    return [engine for engine in list(_open) if not engine._closed]


def available(backend: str) -> str:
    """Return "" when the backend can run here, else the reason why not."""
    try:
        calls.release("mast3r_engine_close", create(backend))
    except Mast3rError as error:
        return str(error) or type(error).__name__
    return ""
