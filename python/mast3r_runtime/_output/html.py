# SPDX-License-Identifier: Apache-2.0
"""A pair, or whatever says how it is shown, as one HTML file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, Union, runtime_checkable

from .._files.single import not_an_input
from .._pictures import reading
from .._pictures.reading import ImageLike
from .._results.results import GPUInferenceResult, InferenceResult, MatchResult
from ..errors import ArgumentError, checked
from .page import Page, write
from .sources import pair_page

__all__ = ["Viewable", "write_html"]


@runtime_checkable
class Viewable(Protocol):
    """An object with a method ``page`` that returns what to show."""

    def page(self, title: str | None = None) -> Page: ...


@checked
def write_html(
    path: str | os.PathLike[str],
    scene_or_result: Union[Viewable, Page, GPUInferenceResult, InferenceResult],
    images: Sequence[ImageLike] | None = None,
    matches: MatchResult | None = None,
    *,
    max_points: int = 1_000_000,
    thumb: int = 160,
    title: str | None = None,
) -> Path:
    """Write a scene or a pair as one HTML file.

    Parameters
    ----------
    path : path
        The file; it is written beside its name and renamed.
    scene_or_result : Scene, Page, or a pair's result
    images : the two pictures of a pair, as they were given to the engine
    matches : MatchResult, optional
        Of a pair: drawn as lines.
    max_points : int, 1 to 20 million
        A cloud of more is thinned: of each cell of a grid the most confident point stays.
    thumb : int, 16 to 1024
        Long side of the thumbnails in pixels (64 at most above 500 pictures, none above 5000).
    title : str, optional

    Returns
    -------
    Path
        Where the file is.

    Raises
    ------
    ArgumentError
        A pair's result without its two pictures, a number out of its range, or a path that is one of
        the pictures.
    """
    target = Path(path)
    page: Page
    if isinstance(scene_or_result, (GPUInferenceResult, InferenceResult)):
        if images is None or len(images) != 2:
            raise ArgumentError(f"write_html: a pair's result and {len(images or ())} pictures, want its two")
        not_an_input(target, [image for image in images if isinstance(image, (str, os.PathLike))])
        one, two = (reading.read_image(image) for image in images)
        result = scene_or_result
        arrays = result.numpy() if isinstance(result, GPUInferenceResult) else result
        page = pair_page(arrays, one, two, matches, title=title or "pair")
    elif isinstance(scene_or_result, Page):
        page = scene_or_result
    elif isinstance(scene_or_result, Viewable):
        page = scene_or_result.page(title)
    else:
        kind: Any = type(scene_or_result)
        raise ArgumentError(f"write_html: {kind.__name__}, want a scene, a page or a pair's result")
    return write(target, page, max_points=max_points, thumb=thumb)
