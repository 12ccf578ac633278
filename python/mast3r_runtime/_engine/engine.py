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
from typing import TYPE_CHECKING, Any, ClassVar, Union

import numpy as np
import numpy.typing as npt

from .._checkpoints import places
from .._library import calls
from .._library import structs as S
from .._library.memory import Array, GPUTensor
from .._library.options import Only, image_array, infer_options
from ..errors import ClosedError, Mast3rError, ShapeError
from ..images import ImageLike
from ..results import GPUInferenceResult, InferenceResult, MatchResult, SymmetricResult, Transform
from ..retrieval import RetrievalMethods
from .features import FeatureMethods
from .onnx import OnnxMethods

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Engine", "create", "info_of"]

_log = logging.getLogger("mast3r_runtime")

DescLike = Union[npt.ArrayLike, GPUTensor]
PairResult = Union[GPUInferenceResult, InferenceResult]

_MAP_SIZE = C.sizeof(S.Map)

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


class Engine(RetrievalMethods, FeatureMethods, OnnxMethods):
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
        result = self._run("mast3r_submit_infer", [img1, img2], options)[0]
        return GPUInferenceResult._take(result)

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
        result = self._run("mast3r_submit_symmetric", [img1, img2], options)[0]
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
        results = self._run("mast3r_submit_sequence", images, options)
        return [GPUInferenceResult._take(result) for result in results]

    def _run(
        self, submit: str, images: Sequence[ImageLike], options: S.InferOptions
    ) -> list[S.Result]:
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
            return [job.take(S.Result, name, i) for i in range(count)]

    # ---- matching --------------------------------------------------------

    def match(
        self,
        desc_1: DescLike | PairResult,
        desc_2: DescLike | None = None,
        top_k: int | None = 512,
        reciprocal: bool = True,
        confidence_threshold: float = 0.5,
        *,
        conf_1: DescLike | None = None,
        conf_2: DescLike | None = None,
        pts3d_1: DescLike | None = None,
        pts3d_2: DescLike | None = None,
        mask_1: npt.ArrayLike | None = None,
        mask_2: npt.ArrayLike | None = None,
        subsample: int = 1,
        border: int = 0,
        weighted: bool = False,
        min_weight: float = 0.0,
    ) -> MatchResult:
        """Match two descriptor maps ``[H, W, D]`` or ``[1, H, W, D]``, or a whole result.

        The maps may differ in size. ``top_k`` None or 0 means all. A match's confidence is the
        similarity of its descriptors, at most 1 for the network's unit vectors; ``weighted``
        multiplies it by the geometric mean of the two pixels' ``conf`` (a result's
        ``desc_conf``). ``confidence_threshold`` leaves out matches of less confidence and
        ``min_weight`` pixels of less ``conf``. Masks keep matches inside them; ``border`` leaves
        out matches that near to a side; ``subsample`` starts from every so many pixels.
        """
        transforms: tuple[Transform | None, Transform | None] = (None, None)
        if isinstance(desc_1, (GPUInferenceResult, InferenceResult)):
            if desc_2 is not None:
                raise ShapeError("match: a whole result and a second map; pass one or the other")
            result = desc_1
            transforms = (result.transform_1, result.transform_2)
            desc_1, desc_2 = result.desc_1, result.desc_2
            conf_1, conf_2 = result.desc_conf_1, result.desc_conf_2
            pts3d_1, pts3d_2 = result.pts3d_1, result.pts3d_2
            if not result.has("desc"):
                raise ShapeError("match: a result without descriptors; it was made with only=...")
            if not result.has("desc_conf"):
                conf_1 = conf_2 = None
            if not result.has("pts3d"):
                pts3d_1 = pts3d_2 = None
        if desc_2 is None:
            raise ShapeError("match: one descriptor map, want two, or a whole result")
        map1, keep1 = _map_struct("1", desc_1, conf_1, pts3d_1, mask_1)
        map2, keep2 = _map_struct("2", desc_2, conf_2, pts3d_2, mask_2)
        options = S.struct(
            S.MatchOptions,
            top_k=calls.int32("top_k", top_k or 0),
            reciprocal=int(bool(reciprocal)),
            subsample=calls.int32("subsample", subsample),
            border=calls.int32("border", border),
            weighted=int(bool(weighted)),
            min_weight=float(min_weight),
            min_confidence=float(confidence_threshold),
        )
        arguments = (C.byref(map1), C.byref(map2), C.byref(options))
        keep = (keep1, keep2, map1, map2, options)
        with calls.Job("mast3r_submit_match", self._live(), *arguments, keep=keep) as job:
            job.wait()
            matches = job.take(S.Matches, "mast3r_job_take_matches")
            return MatchResult._take(matches, transforms)


def _rebuild(kind: type[Engine], config: tuple[str, int, str, int], path: str | None) -> Engine:
    engine = kind(*config)
    if path is not None:
        engine.load(path)
    return engine


def _map_struct(
    which: str,
    desc: DescLike,
    weight: DescLike | None,
    points: DescLike | None,
    mask: npt.ArrayLike | None,
) -> tuple[S.Map, list[Array]]:
    """Return the C struct of one map and the arrays whose memory it points at."""
    descriptors = _floats(f"desc_{which}", desc)
    if descriptors.ndim == 4 and descriptors.shape[0] == 1:
        descriptors = descriptors[0]
    if descriptors.ndim != 3:
        raise ShapeError(f"match: desc_{which} of shape {descriptors.shape}, want (H, W, D) or (1, H, W, D)")
    height, width, dim = descriptors.shape
    keep: list[Array] = [descriptors]
    out = S.Map(_MAP_SIZE, height, width, dim, descriptors.ctypes.data)
    if weight is None and points is None and mask is None:
        return out, keep
    for field, name, value, shape in (
        ("weight", f"conf_{which}", weight, (height, width)),
        ("points", f"pts3d_{which}", points, (height, width, 3)),
        ("mask", f"mask_{which}", mask, (height, width)),
    ):
        if value is None:
            continue
        array: Array
        if field == "mask":
            array = np.ascontiguousarray(np.asarray(value).astype(bool).view(np.uint8))
        else:
            array = _floats(name, value)
        if array.shape == (1, *shape):
            array = array[0]
        if array.shape != shape:
            raise ShapeError(f"match: {name} of shape {array.shape}, want {shape}")
        keep.append(array)
        setattr(out, field, array.ctypes.data)
    return out, keep


def _floats(name: str, value: DescLike) -> Array:
    array = value.numpy() if isinstance(value, GPUTensor) else np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"match: {name} of element type {array.dtype}, want float32")
    return np.ascontiguousarray(array, np.float32)


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
