# SPDX-License-Identifier: Apache-2.0
"""The network as an ONNX model."""

from __future__ import annotations

import ctypes as C
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .._library import calls
from .._library import structs as S

__all__ = ["OnnxMethods"]


class OnnxMethods:
    """What an engine does with ONNX."""

    if TYPE_CHECKING:

        def _live(self) -> int: ...

    def export_onnx(
        self,
        path: str | os.PathLike[str],
        height: int = 0,
        width: int = 0,
        height2: int = 0,
        width2: int = 0,
        half: bool = False,
    ) -> list[Path]:
        """Write the loaded network, for one pair of pictures, as an ONNX model (opset 20).

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

        Returns
        -------
        list of Path
            The files written.
        """
        options = S.struct(
            S.ExportOptions,
            half=int(bool(half)),
            height1=calls.int32("height", height),
            width1=calls.int32("width", width),
            height2=calls.int32("height2", height2),
            width2=calls.int32("width2", width2),
        )
        name = calls.text("path", path)
        with calls.Job("mast3r_submit_export", self._live(), name, C.byref(options), keep=options) as job:
            job.wait()
        return [Path(path), Path(os.fspath(path) + ".data")]
