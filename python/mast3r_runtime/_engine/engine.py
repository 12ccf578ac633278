# SPDX-License-Identifier: Apache-2.0
"""The engine: one class over the C interface, whatever the backend."""

from __future__ import annotations

import json
import logging
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._checkpoints import places
from .._files.single import not_an_input
from .._library import calls
from .._library import structs as S
from .._library.device import backend_wanted, create, info_of
from .._library.options import Only, image_array, infer_options
from .._library.owned import Owned
from .._library.pool import Pool
from .._pictures.arrays import U8
from .._pictures.reading import ImageLike, read_image
from .._results.results import GPUInferenceResult, InferenceResult, MatchResult, SymmetricResult, _matchers
from ..errors import ClosedError, ShapeError, checked
from .features import FeatureMethods
from .matching import MatchingMethods
from .retrieval import RetrievalMethods
from .views import ViewMethods

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Engine", "open_engines"]

_log = logging.getLogger("mast3r_runtime")

_said: set[str] = set()  # reasons for a fallback that were logged: once per process
_open: list[weakref.ref[Engine]] = []  # not a WeakSet: Python code would run where an engine goes (see Owned)


@checked
class Engine(MatchingMethods, RetrievalMethods, FeatureMethods, ViewMethods):
    """Runs the network on pairs of pictures.

    Several threads may share an engine. A pickled engine holds its configuration and the paths
    of the loaded files, not their contents. If it cannot be restored, for example because the
    files are missing, its first call raises the reason.

    Parameters
    ----------
    variant : str
        The model that :meth:`load` expects; ``auto`` accepts any model.
    resolution : int
        Long side of the pictures at the network, in pixels; 0: the model's own. 224 is the
        short side of a square from the picture's middle, as in the reference.
    precision : {"auto", "fp32", "tf32", "fp16", "bf16"}
        The type of weights and products. ``info()`` tells which one the backend uses.
    num_threads : int
        Threads of the CPU backend; 0: every core.
    backend : {"auto", "metal", "cuda", "cuda:N", "cpu"}
        Where to compute. ``auto`` uses the backend named in MAST3R_BACKEND, otherwise the first
        that is available of Metal, an NVIDIA GPU, the CPU. With any other name a missing device
        is a DeviceError. ``cuda:1`` is the second GPU.
    """

    _broken: Exception | None = None  # why it could not be made again in this process
    _where: str = ""

    def __init__(
        self,
        variant: str = "mast3r_vit_large",
        resolution: int = 512,
        precision: str = "fp16",
        num_threads: int = 4,
        backend: str = "auto",
    ) -> None:
        variant = variant if str(variant) == "auto" else places.resolve(variant)
        self._config = (variant, resolution, precision, num_threads, backend)
        self._path: str | None = None
        self._retrieval: tuple[str | None, str] | None = None
        self._closed = False
        self._handle = create(backend_wanted(backend), variant, resolution, precision, num_threads)
        self._owned = Owned("mast3r_engine_close", self._handle)
        _open[:] = [other for other in _open if other() is not None]
        _open.append(weakref.ref(self))
        calls.forward_log()
        reason = info_of(self._handle)["fallback_reason"]
        if reason and reason not in _said:
            _said.add(reason)
            _log.info("running on the CPU: %s", reason)

    # ---- life ------------------------------------------------------------

    def load(self, path: str | os.PathLike[str] | None = None) -> None:
        """Load a model: a safetensors or ``.pth`` file, a directory that contains one, or a variant by name.

        A name is one of ``MODEL_SPECS``, or the one under which the model is published, as
        ``naver/MASt3R_ViTLarge_BaseDecoder_512_catmlpdpt_metric``. Without a path, ``mast3r_small``,
        which ``auto`` means, and ``mast3r_tiny`` are loaded from the wheel, other variants from the
        cache. A second call replaces the model.
        """
        where = places.find(self._config[0]) if path is None else places.model_path(path)
        with calls.Job("mast3r_submit_load", self._live(), calls.text("path", where)) as job:
            job.wait()
        self._path = os.fspath(where)
        self._where = os.path.abspath(where)  # for another process, which may stand elsewhere

    @property
    def path(self) -> str | None:
        """Path of the loaded model; None before the first :meth:`load`."""
        return self._path

    def is_ready(self) -> bool:
        """Whether a model is loaded and the engine is open."""
        return not self._closed and bool(info_of(self._live())["ready"])

    def name(self) -> str:
        """Model and backend, as in ``mast3r_small on cpu (avx512)``."""
        return str(info_of(self._live())["name"])

    def info(self) -> dict[str, Any]:
        """Facts about the device and the loaded model, with the file's metadata."""
        values = info_of(self._live())
        text = calls.text_of(lambda *out: calls.call("mast3r_engine_metadata", self._live(), *out))
        return {**values, "metadata": json.loads(text)}

    def warmup(self, num_iterations: int = 3) -> None:
        """Run the network ``num_iterations`` times on a blank pair, so that the next call is fast."""
        iterations = calls.int32("num_iterations", num_iterations)
        with calls.Job("mast3r_submit_warmup", self._live(), iterations) as job:
            job.wait()

    def trim(self) -> None:
        """Free the memory that is kept for the next call."""
        calls.call("mast3r_engine_trim", self._live())

    @property
    def pool(self) -> Pool:
        """The memory that the engine keeps for reuse: ``stats``, ``configure``, ``memory_pressure``."""
        return Pool("mast3r_pool", self._live)

    def close(self) -> None:
        """Free the engine's memory. Results taken before stay valid. May be called twice."""
        self._closed = True
        if self._broken is None:
            self._owned._close()

    def _live(self) -> int:
        if self._broken is not None:
            raise self._broken
        calls.check_fork()
        if self._closed:
            raise ClosedError("engine: closed")
        return self._handle

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        state = (self._path and self._where, self._retrieval, self._closed)
        return (_rebuild, (type(self), self._config, *state))

    def __repr__(self) -> str:
        variant, resolution, precision, threads, backend = self._config
        where = "" if backend == "auto" else f", backend={backend!r}"
        state = ", closed" if self._closed else ""
        return (
            f"{type(self).__name__}({variant!r}, resolution={resolution}, "
            f"precision={precision!r}, num_threads={threads}{where}{state})"
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
        """Run the network on a pair. The pictures may differ in size.

        Accepted pictures are described in :mod:`mast3r_runtime.images`. ``preprocess=False``
        takes pictures that already have the network's size (each side a multiple of the patch).
        ``square_ok=False`` cuts square pictures to 4:3, as the reference does. ``resolution`` is
        the long side for this pair instead of the engine's. ``only`` names the outputs to
        compute, for example ``("pts3d", "conf")``; the other tensors are not valid.
        """
        options = infer_options(preprocess, square_ok, resolution, only)
        return GPUInferenceResult._take(*self._pair("mast3r_submit_infer", img1, img2, options))

    def infer_symmetric(
        self,
        img1: ImageLike,
        img2: ImageLike,
        preprocess: bool = True,
        square_ok: bool = True,
        resolution: int | None = None,
        only: Only = None,
    ) -> SymmetricResult:
        """Run a pair in both directions; each picture is encoded once."""
        options = infer_options(preprocess, square_ok, resolution, only)
        return SymmetricResult._take(self._pair("mast3r_submit_symmetric", img1, img2, options)[0])

    def infer_batch_pipelined(
        self,
        images: Sequence[ImageLike],
        preprocess: bool = True,
        square_ok: bool = True,
        resolution: int | None = None,
        only: Only = None,
    ) -> list[GPUInferenceResult]:
        """Run the pairs (i, i+1) of a sequence; each picture is encoded once."""
        if len(images) < 2:
            raise ShapeError(f"infer_batch_pipelined: {len(images)} images, want at least 2")
        options = infer_options(preprocess, square_ok, resolution, only)
        engine = self._live()
        pictures = [read_image(image) for image in images]
        structs = image_array(pictures)
        count, keep = len(pictures), (pictures, structs, options)
        with calls.Job("mast3r_submit_sequence", engine, structs, count, options, keep=keep) as job:
            job.wait()
            taken = [job.take(S.Result, "mast3r_job_take_result", i) for i in range(count - 1)]
        pairs = zip(pictures, pictures[1:], strict=False)
        return [GPUInferenceResult._take(result, pair) for result, pair in zip(taken, pairs, strict=True)]

    def infer_batch(
        self,
        pairs: Sequence[tuple[ImageLike, ImageLike]],
        preprocess: bool = True,
        square_ok: bool = True,
        resolution: int | None = None,
        only: Only = None,
    ) -> list[GPUInferenceResult]:
        """Run pairs that have nothing to do with each other, each as :meth:`infer_gpu` would.

        An NVIDIA GPU computes eight pairs of equal sizes at once, a CPU small ones side by side.
        """
        options = infer_options(preprocess, square_ok, resolution, only)
        engine = self._live()
        pictures: list[U8] = []
        for number, pair in enumerate(pairs):
            if isinstance(pair, (str, bytes)) or len(pair) != 2:
                raise ShapeError(f"infer_batch: pair {number} is {pair!r}, want two pictures")
            pictures += [read_image(image) for image in pair]
        if not pictures:
            return []
        structs = image_array(pictures)
        keep = (pictures, structs, options)
        with calls.Job("mast3r_submit_batch", engine, structs, len(pictures), options, keep=keep) as job:
            job.wait()
            taken = [job.take(S.Result, "mast3r_job_take_result", i) for i in range(len(pictures) // 2)]
        return [
            GPUInferenceResult._take(result, (pictures[2 * i], pictures[2 * i + 1]))
            for i, result in enumerate(taken)
        ]

    def _pair(
        self, submit: str, img1: ImageLike, img2: ImageLike, options: S.InferOptions
    ) -> tuple[S.Result, tuple[U8, U8]]:
        """Run one pair by the call ``submit``; the result, and the pictures as read."""
        engine = self._live()
        pictures = [read_image(img1), read_image(img2)]
        structs = image_array(pictures)
        keep = (pictures, structs, options)
        with calls.Job(submit, engine, structs[0], structs[1], options, keep=keep) as job:
            job.wait()
            return job.take(S.Result, "mast3r_job_take_result", 0), (pictures[0], pictures[1])

    # ---- export ----------------------------------------------------------

    def export_onnx(
        self,
        path: str | os.PathLike[str],
        height: int = 0,
        width: int = 0,
        height2: int = 0,
        width2: int = 0,
        half: bool = False,
        half_compute: bool = False,
        opset: int = 20,
    ) -> list[Path]:
        """Write the loaded network, for one pair of pictures, as an ONNX model.

        Inputs ``image1`` and ``image2``: ``uint8 [1, H, W, 3]``, RGB, at network size. Outputs:
        ``points1``, ``conf1``, ``desc1``, ``desc_conf1`` and the same of view 2, each with a
        leading 1, as :meth:`infer_gpu` gives them with ``preprocess=False``.

        Parameters
        ----------
        path : path
            The model's file. The weights go beside it, to ``path`` + ``.data``.
        height, width : int
            The first picture's size at the network, multiples of the patch; 0: the model's own
            at 4:3.
        height2, width2 : int
            The second picture's; 0: the same.
        half : bool
            Store the weights as float16; the arithmetic stays float32.
        half_compute : bool
            Round the factors of products to float16 too, for a GPU; norms, softmax and the last
            layers of the heads stay float32.
        opset : {20, 23}
            23 writes attention as ONNX's own operator, for which runtimes have fused kernels.

        Returns
        -------
        list of Path
            The files written.
        """
        if self.path is not None:
            for file in (os.fspath(path), f"{os.fspath(path)}.data"):
                not_an_input(Path(file), [self.path])
        options = S.struct(
            S.ExportOptions,
            half=2 if half_compute else int(bool(half)),
            opset=calls.int32("opset", opset),
            height1=calls.int32("height", height),
            width1=calls.int32("width", width),
            height2=calls.int32("height2", height2),
            width2=calls.int32("width2", width2),
        )
        name = calls.text("path", path)
        with calls.Job("mast3r_submit_export", self._live(), name, options, keep=options) as job:
            job.wait()
        return [Path(path), Path(os.fspath(path) + ".data")]


def _rebuild(
    kind: type[Engine],
    config: tuple[Any, ...],
    path: str | None,
    retrieval: tuple[str | None, str] | None = None,
    closed: bool = False,
) -> Engine:
    """Make a pickled engine again.

    It never raises: an error while unpickling would end a worker of a process pool, which
    starts another, without an end. The engine keeps the error for its first call.
    """
    try:
        engine = kind(*config)
        if not closed and path is not None:
            engine.load(path)
        if not closed and retrieval is not None:
            engine._load_retrieval(*retrieval)
        if closed:
            engine.close()
        return engine
    except Exception as error:
        engine = kind.__new__(kind)
        engine._config, engine._path, engine._retrieval, engine._closed = config, path, retrieval, closed
        engine._where = path or ""
        engine._broken = error
        return engine


def _match(result: GPUInferenceResult | InferenceResult) -> MatchResult:
    with Engine("auto", num_threads=0, backend="cpu") as engine:
        return engine.match(result, top_k=None)


_matchers.append(_match)


def open_engines() -> list[Engine]:
    """The engines of this process that are open."""
    engines = [reference() for reference in list(_open)]
    return [engine for engine in engines if engine is not None and not engine._closed]
