# SPDX-License-Identifier: Apache-2.0
"""Encoder features as objects that can be kept, saved and decoded against any other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._files import zips
from .._files.plain import opened, read_bytes
from .._files.whole import replacing
from .._library import calls
from .._library import structs as S
from .._library.memory import GPUTensor
from .._library.options import Only, image_array, infer_options
from .._pictures.reading import ImageLike, read_image
from .._results.results import GPUInferenceResult, Transform
from .._results.windows import transform_of
from .._store import safetensors
from ..errors import ArgumentError, ModelNotFoundError, ShapeError, WeightsError, checked, quoted

__all__ = ["FeatureMethods", "Features"]

F32 = npt.NDArray[np.float32]


@checked
@dataclass(frozen=True, slots=True, eq=False)  # a tensor has no one truth
class Features:
    """What the encoder made of one picture: all that the decoder needs to know of it.

    ``tokens`` is ``[rows * columns, D]``. Features belong to the model that made them:
    another one of the same sizes would decode them to nonsense.
    """

    tokens: GPUTensor
    transform: Transform

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tokens.shape

    def numpy(self) -> F32:
        """The tokens as an array."""
        return self.tokens.numpy()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``.npz`` or ``.safetensors``, as the suffix says, in float32."""
        path = Path(path)
        if path.suffix.lower() not in (".npz", ".safetensors"):
            raise ArgumentError(f"features file {quoted(path.name)}: want .npz or .safetensors")
        with replacing(path) as temporary, open(temporary, "wb") as file:
            if path.suffix.lower() == ".npz":
                np.savez(file, **self._arrays())  # type: ignore[arg-type]
            else:
                file.write(safetensors.pack(self._arrays()))

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        transform = np.array([getattr(self.transform, name) for name in Transform.__slots__], np.int32)
        return {"tokens": np.ascontiguousarray(self.numpy()), "transform": transform}

    @classmethod
    def _of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Features:
        tokens, transform = arrays["tokens"], arrays["transform"]
        if tokens.dtype not in (np.float32, np.float16) or tokens.ndim != 2:
            raise ValueError(f"tokens {tokens.dtype} {tokens.shape}, want float32 or float16 [N, D]")
        if transform.shape != (len(Transform.__slots__),):
            raise ValueError(f"transform {transform.shape}, want 8 integers")
        return cls(GPUTensor.from_numpy(tokens.astype(np.float32)), transform_of(transform))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Features:
        """Read what :meth:`save` wrote, or what a store holds (float16 becomes float32)."""
        path = Path(path)
        if not path.is_file():
            raise ModelNotFoundError(f"features {quoted(path)}: no such file")
        try:
            if path.suffix.lower() == ".safetensors":
                return cls._of(safetensors.unpack(read_bytes(path)))
            with opened(path) as file:
                return cls._of(zips.arrays(file))
        except Exception as error:  # hostile bytes end in any of a dozen errors of zip, json and numpy
            raise WeightsError(f"features {quoted(path)}: {error!r}") from error


@checked
class FeatureMethods:
    """What an engine does with encoder features."""

    if TYPE_CHECKING:

        def _live(self) -> int: ...

    def encode(
        self,
        img: ImageLike,
        preprocess: bool = True,
        square_ok: bool = True,
        resolution: int | None = None,
    ) -> Features:
        """Run the encoder on one picture.

        The features can be kept, saved, and decoded against any other picture's: one that
        takes part in many pairs is then encoded once.
        """
        return self.encode_batch([img], preprocess, square_ok, resolution)[0]

    def encode_batch(
        self,
        images: Sequence[ImageLike],
        preprocess: bool = True,
        square_ok: bool = True,
        resolution: int | None = None,
    ) -> list[Features]:
        """Run the encoder on several pictures."""
        if not len(images):
            return []
        engine = self._live()
        options = infer_options(preprocess, square_ok, resolution)
        pictures = [read_image(image) for image in images]
        structs = image_array(pictures)
        keep = (structs, pictures, options)
        arguments = (structs, len(pictures), options)
        with calls.Job("mast3r_submit_encode", engine, *arguments, keep=keep) as job:
            job.wait()
            taken = [job.take(S.Encoded, "mast3r_job_take_encoded", i) for i in range(job.results())]
            return [Features(GPUTensor(f.tokens), Transform._of(f.transform)) for f in taken]

    def decode(self, features_1: Features, features_2: Features, only: Only = None) -> GPUInferenceResult:
        """Decode two encoded pictures: what :meth:`infer_gpu` gives for the pair."""
        engine = self._live()
        (one, keep_1), (two, keep_2) = _struct(features_1), _struct(features_2)
        options = infer_options(only=only)
        keep = (one, two, keep_1, keep_2, options)
        arguments = (one, two, options)
        with calls.Job("mast3r_submit_decode", engine, *arguments, keep=keep) as job:
            job.wait()
            return GPUInferenceResult._take(job.take(S.Result, "mast3r_job_take_result", 0))


def _struct(features: Features) -> tuple[S.Features, F32]:
    if not isinstance(features, Features):
        raise ShapeError(f"decode: {type(features).__name__}, want the Features that encode() returns")
    tokens = np.ascontiguousarray(features.numpy(), np.float32)
    window = features.transform._struct()
    out = S.struct(S.Features, tokens=tokens.ctypes.data, count=tokens.size, transform=window)
    return out, tokens
