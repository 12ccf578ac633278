# SPDX-License-Identifier: Apache-2.0
"""Scenes of one to many pictures, by networks that can."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._library import calls
from .._library import structs as S
from .._library.cameras import check_intrinsics, check_pinhole
from .._library.device import info_of
from .._library.memory import GPUTensor
from .._library.options import image_array, views_options, windows_of
from .._pictures.arrays import U8
from .._pictures.header import why
from .._pictures.reading import ImageLike, about, read_image
from .._results.results import Transform, _timing
from ..errors import ArgumentError, ImageError, ShapeError, checked

if TYPE_CHECKING:
    from .._scene.scene import Scene

__all__ = ["Taken", "View", "ViewMethods", "Window", "assemblers"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class View:
    """One view as the network gives it, at network size.

    ``pose [4, 4]`` is world from camera, ``intrinsics [3, 3]`` in network pixels; zeros where the
    network does not know them. ``rays [h, w, 6]`` and ``ray_conf [h, w]`` are there if asked for.
    """

    depth: F32
    conf: F32
    pose: F64
    intrinsics: F64
    transform: Transform
    rays: F32 | None = None
    ray_conf: F32 | None = None


@dataclass(frozen=True)
class Window:
    """Views that were looked at together, and how they were laid on those before.

    ``scale`` is the size of their unit in the scene's, ``residual`` the root mean square of how far
    the shared points are apart, relative to their distance from their camera.
    """

    first: int
    count: int
    reference: int
    overlap: int
    points: int
    scale: float
    residual: float


@dataclass(frozen=True)
class Taken:
    """What a scene is made of. ``sources`` are the pictures as they were given.

    ``pictures`` and ``views`` are of those that could be read; ``lost`` says of the others why not.
    """

    variant: str
    names: tuple[str, ...]
    sources: tuple[ImageLike, ...]
    pictures: tuple[U8, ...]
    views: tuple[View, ...]
    windows: tuple[Window, ...]
    timing: Mapping[str, float]
    known: bool
    lost: Mapping[str, str]


# What makes a scene of it: set by the package, as scenes lie above engines.
assemblers: list[Callable[[Taken], Scene]] = []


@checked
class ViewMethods:
    """What an engine does with many pictures at once."""

    if TYPE_CHECKING:

        def _live(self) -> int: ...

    def infer_views(
        self,
        pictures: Sequence[ImageLike] | Mapping[str, ImageLike],
        preprocess: bool = True,
        resolution: int | None = None,
        reference: str = "saddle_balanced",
        poses: npt.ArrayLike | None = None,
        intrinsics: npt.ArrayLike | None = None,
        rays: bool = False,
        window: int = 0,
        overlap: int = 0,
    ) -> Scene:
        """Depth, points, confidence, pose and intrinsics of one to many pictures of a place.

        Needs a network of many views, such as ``da3_base``. The world is the first picture's
        camera; lengths are in a unit of the network's own, unless ``poses`` are given.

        Parameters
        ----------
        pictures : sequence of pictures, or mapping of names to pictures
            Accepted pictures are described in :mod:`mast3r_runtime.images`. Pictures of different
            shapes are cut, in the middle, to the smallest height and width of all. Files that
            cannot be read are "unreadable" in the scene, with the reason.
        preprocess : bool
            False takes pictures of the network's size: each side a multiple of the patch.
        resolution : int, optional
            Long side for this call instead of the engine's.
        reference : {"saddle_balanced", "first", "middle", "saddle_sim_range"}
            How the view is chosen to which the others refer, from three views on.
        poses, intrinsics : float [N, 4, 4] and [N, 3, 3], optional
            World from camera, and camera matrices in pixels of the pictures as given, where they
            are known. Both or neither.
        rays : bool
            The network's rays too, ``scene.pictures[name].rays``, which take as long as its depth.
        window, overlap : int
            How many pictures are looked at together, and how many of them are those of the window
            before. 0: all where the memory allows, else as many as fit, and a third of them.

        Returns
        -------
        Scene
            ``scene.pictures[name]`` has pose, intrinsics and depth, ``dense()`` its points;
            ``scene.correspondences(i, j)`` are matches; ``scene.report["windows"]`` says how
            windows were laid on each other.

        Raises
        ------
        UnsupportedError
            The loaded network takes pairs, or has no rays.
        """
        engine = self._live()
        names, sources = _named(pictures)
        info = info_of(engine)
        size = resolution or int(info["resolution"]) or 1
        read, lost = _read(names, sources, int(info["patch"]) / size if preprocess else 0.0)
        known = poses is not None
        if lost:
            poses, intrinsics = (_rows(v, names, lost) for v in (poses, intrinsics))
        _check_cameras(intrinsics, read)
        options, keep = views_options(
            len(read), not preprocess, resolution or 0, reference, rays, window, overlap, poses, intrinsics
        )
        structs = image_array(read)
        arguments = (structs, len(read), options)
        with calls.Job("mast3r_submit_views", engine, *arguments, keep=(read, structs, options, keep)) as job:
            job.wait()
            taken = [job.take(S.SceneView, "mast3r_job_take_view", i) for i in range(len(read))]
            windows, timing = windows_of(job)
        variant = str(info["variant"])
        views = tuple(_view(v) for v in taken)
        shown = tuple(Window(*w) for w in windows)
        done = Taken(variant, names, sources, read, views, shown, _timing(timing), known, lost)
        return assemblers[-1](done)


def _read(
    names: Sequence[str], sources: Sequence[Any], thinnest: float
) -> tuple[tuple[U8, ...], dict[str, str]]:
    """The pixels of the pictures, and why files among them cannot be read. Raises where none can.

    ``thinnest`` is the least a short side may be of a long one.
    """
    read, lost, first = [], {}, None
    for name, source in zip(names, sources, strict=True):
        try:
            with about(source):
                read.append(_thick(read_image(source), thinnest))
        except ImageError as error:
            if error.file is None:
                raise
            lost[name] = why(error)
            first = first or error
    if first is not None and not read:
        raise first
    return tuple(read), lost


def _check_cameras(intrinsics: npt.ArrayLike | None, read: Sequence[U8]) -> None:
    """Refuse camera matrices that cannot be those of the pictures; other shapes are refused later."""
    if intrinsics is None or np.shape(intrinsics) != (len(read), 3, 3):
        return
    for number, (k, pixels) in enumerate(zip(np.asarray(intrinsics), read, strict=True)):
        m = check_intrinsics(k)
        if m[0, 1] or m[1, 0]:
            raise ArgumentError(f"intrinsics {number}: skew {m[0, 1]:g}, want 0: no camera here has it")
        size = (pixels.shape[1], pixels.shape[0])
        check_pinhole(m[0, 0], m[1, 1], m[0, 2], m[1, 2], size, f"intrinsics {number}")


def _thick(pixels: U8, thinnest: float) -> U8:
    height, width = pixels.shape[:2]
    if min(height, width) < thinnest * max(height, width):
        raise ImageError(f"image: {width} x {height} pixels, too thin for the network")
    return pixels


def _rows(values: npt.ArrayLike | None, names: Sequence[str], lost: Mapping[str, str]) -> Any:
    """The rows of the pictures that could be read."""
    if values is None or np.ndim(values) != 3 or len(np.asarray(values)) != len(names):
        return values
    return np.asarray(values)[[name not in lost for name in names]]


def _named(
    pictures: Sequence[ImageLike] | Mapping[str, ImageLike],
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Names and pictures: a file's own name, as far as no two are the same; a number for arrays."""
    if isinstance(pictures, Mapping):
        return tuple(map(str, pictures)), tuple(pictures.values())
    if isinstance(pictures, (str, bytes, os.PathLike)):
        raise ArgumentError("infer_views: one path, want a sequence or a mapping of pictures")
    sources = tuple(pictures)
    if not sources:
        raise ShapeError("infer_views: no pictures, want at least 1")
    paths = [
        os.fspath(s) if isinstance(s, (str, os.PathLike)) else f"picture_{i:04d}"
        for i, s in enumerate(sources)
    ]
    short = [os.path.basename(p) for p in paths]
    names = [s if short.count(s) == 1 else f"{i:04d}_{s}" for i, s in enumerate(short)]
    return tuple(names), sources


def _view(view: S.SceneView) -> View:
    t = view.transform
    size = (t.height, t.width)
    arrays = [GPUTensor._of(view.depth, size), GPUTensor._of(view.conf, size)]
    if view.rays:
        cells = (t.height * 8 // 14, t.width * 8 // 14)
        arrays += [GPUTensor._of(view.rays, (*cells, 6)), GPUTensor._of(view.ray_conf, cells)]
    depth, conf, *rays = GPUTensor._arrays(arrays)
    for handle in (view.points, view.sky):
        if handle:
            calls.release("mast3r_tensor_release", handle)
    if not conf.size:
        conf = np.ones(size, np.float32)
    return View(
        depth,
        conf,
        np.array(view.pose[:]).reshape(4, 4),
        np.array(view.intrinsics[:]).reshape(3, 3),
        Transform._of(t),
        *rays,
    )
