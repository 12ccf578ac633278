# SPDX-License-Identifier: Apache-2.0
"""The engine's part in retrieval: features of pictures, and indices over a codebook."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._library import calls
from .._library import structs as S
from .._library.options import image_array, infer_options
from .._pictures.reading import ImageLike, read_image
from ..errors import ClosedError, checked
from .index import Index, RetrievalResult

__all__ = ["RetrievalMethods"]


@checked
class RetrievalMethods:
    """The retrieval methods of an engine."""

    _retrieval: tuple[str | None, str] | None

    if TYPE_CHECKING:

        def _live(self) -> int: ...

    def load_retrieval(self, path: str | os.PathLike[str]) -> None:
        """Load a retrieval head that uses the encoder of the loaded model.

        ``path`` is ``retrieval.safetensors``, the published ``..._retrieval_trainingfree.pth``, or
        a folder with one of them.
        """
        self._load_retrieval(None, path)

    def load_retrieval_standalone(
        self, model_path: str | os.PathLike[str], retrieval_path: str | os.PathLike[str]
    ) -> None:
        """Load a retrieval head with its own encoder, which is read from ``model_path``."""
        self._load_retrieval(model_path, retrieval_path)

    def _load_retrieval(self, model: Any, retrieval: str | os.PathLike[str]) -> None:
        own = None if model is None else calls.text("model_path", model)
        head = calls.text("path", retrieval)
        with calls.Job("mast3r_submit_load_retrieval", self._live(), own, head) as job:
            job.wait()
        self._retrieval = (None if model is None else os.path.abspath(model), os.path.abspath(retrieval))

    def is_retrieval_ready(self) -> bool:
        """Whether :meth:`encode_retrieval` can be called."""
        return self._retrieval_state()[0]

    def is_retrieval_standalone(self) -> bool:
        """Whether the retrieval head has its own encoder."""
        return self._retrieval_state()[1]

    def _retrieval_state(self) -> tuple[bool, bool]:
        ready, standalone = S.Int32(), S.Int32()
        try:
            engine = self._live()
        except ClosedError:
            return False, False
        calls.call("mast3r_engine_retrieval", engine, ready, standalone)
        return bool(ready.value), bool(standalone.value)

    def encode_retrieval(
        self,
        img: ImageLike,
        preprocess: bool = True,
        square_ok: bool = False,
        resolution: int | None = None,
    ) -> RetrievalResult:
        """Compute the retrieval features of one picture.

        Square pictures are cut to 4:3 unless ``square_ok`` is true, because the published codebook
        was made that way. The published head was made for a long side of 512 pixels.
        """
        return self.encode_retrieval_batch([img], preprocess, square_ok, resolution)[0]

    def encode_retrieval_batch(
        self,
        images: Sequence[ImageLike],
        preprocess: bool = True,
        square_ok: bool = False,
        resolution: int | None = None,
    ) -> list[RetrievalResult]:
        """Compute the retrieval features of several pictures."""
        engine = self._live()
        if not len(images):
            return []
        options = infer_options(preprocess, square_ok, resolution)
        pictures = [read_image(image) for image in images]
        structs = image_array(pictures)
        arguments = (structs, len(pictures), options)
        keep = (structs, pictures, options)
        with calls.Job("mast3r_submit_retrieval", engine, *arguments, keep=keep) as job:
            job.wait()
            name = "mast3r_job_take_retrieval"
            return [RetrievalResult._take(job.take(S.Retrieval, name, i)) for i in range(job.results())]

    def open_index(self, codebook: str | os.PathLike[str], nfeat: float = 300) -> Index:
        """Start an empty index over a codebook.

        Parameters
        ----------
        codebook : path
            ``codebook.safetensors``, the published ``..._codebook.pkl``, or a folder with one.
        nfeat : float
            How many features of each picture are used, those with the greatest attention. The
            published head was made for 300. A negative number is a fraction: -1 means all.
        """
        path = calls.text("codebook", codebook)
        with calls.Job("mast3r_submit_index_open", self._live(), path, float(nfeat)) as job:
            job.wait()
            return Index(job.take_handle("mast3r_job_take_index"))
