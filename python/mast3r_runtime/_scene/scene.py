# SPDX-License-Identifier: Apache-2.0
"""A scene: pictures with poses or with the reason why not, points, dense depth, scale."""

from __future__ import annotations

import html
import operator
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._output import page as pages
from .._pictures.names import Names
from .._pictures.reading import ImageLike
from .._results.results import MatchResult
from ..errors import ArgumentError, SceneError, checked
from . import colmap_files, files
from .gauge import Scale
from .localize import Located, localize
from .model import Lens
from .parts import Component, Picture, Points
from .problem import pycolmap
from .same import correspondences

if TYPE_CHECKING:
    from .._engine.engine import Engine

__all__ = ["Scene"]

NOTEBOOK_POINTS = 200_000


@checked
@dataclass(frozen=True)
class Scene:
    """What :func:`.reconstruct` makes. Owns its memory, pickles, needs no pycolmap."""

    pictures: Mapping[str, Picture]
    components: tuple[Component, ...]
    scale: Scale
    report: Mapping[str, Any]

    @property
    def placed(self) -> list[Picture]:
        return [p for p in self.pictures.values() if p.pose is not None]

    @property
    def points(self) -> Points:
        """The points of the largest component."""
        return self.points_of(0)

    def points_of(self, component: int) -> Points:
        """The points of a component. Raises SceneError where there is no such component."""
        if not 0 <= component < len(self.components):
            raise SceneError(f"component {component}: the scene has {len(self.components)}")
        model = self.components[component].model
        total = np.bincount(model.seen, model.errors(), minlength=len(model.points))
        lengths = model.track_lengths()
        names = tuple(self.pictures)
        return Points(model.points, model.colours, total / np.maximum(lengths, 1), lengths, model, names)

    def dense_points(self, component: int | None = None, limit: int | None = None) -> pages.Cloud:
        """The kept dense points of all pictures (of one component) as one cloud."""
        if limit is not None and limit < 1:
            raise ArgumentError(f"limit {limit} points, want at least 1")
        parts: list[tuple[Any, ...]] = []
        for number, picture in enumerate(self.pictures.values()):
            if picture.depth is None or component not in (None, picture.component):
                continue
            points, confidence = picture.dense()
            keep = picture.depth.keep
            own = np.full(keep.sum(), number)
            parts.append((points[keep], picture.depth.rgb[keep], confidence[keep], own))
        if not parts:
            empty = np.zeros((0, 3))
            parts = [(empty, empty.astype(np.uint8), np.zeros(0), np.zeros(0, np.int64))]
        points, rgb, confidence, numbers = (np.concatenate(column) for column in zip(*parts))
        cloud = pages.Cloud("dense", points, rgb, confidence, numbers)
        return cloud if limit is None else pages.thin(cloud, limit)

    def page(self, title: str | None = None) -> pages.Page:
        """What the viewer shows of it."""
        clouds = [self.dense_points()]
        sparse = [self._sparse_cloud(c) for c in range(len(self.components))]
        if sparse:
            columns = zip(*((c.points, c.colours, c.confidence, c.picture) for c in sparse))
            points, rgb, lengths, numbers = (np.concatenate(c) for c in columns)
            clouds.append(pages.Cloud("solved", points, rgb, lengths, numbers, "pictures"))
        cameras = [
            pages.Camera(
                p.name, (p.width, p.height), p.pose, p.intrinsics, p.status, p.reason, max(p.component, 0),
                p.depth.rgb if p.depth is not None else None,
            )
            for p in self.pictures.values()
        ]  # fmt: skip
        return pages.Page(
            title or "scene", clouds, cameras, self._lines(), self.scale.unit, self.scale.sentence()
        )

    def _sparse_cloud(self, component: int) -> pages.Cloud:
        model = self.components[component].model
        first = np.zeros(len(model.points), np.int64)
        first[model.seen[::-1]] = model.seen_by[::-1]
        return pages.Cloud("solved", model.points, model.colours, model.track_lengths(), first)

    def _lines(self) -> list[pages.Matches]:
        """Pixels of points that two pictures share, for the pairs that share most."""
        out = []
        for component in self.components:
            model = component.model
            row = {int(i): k for k, i in enumerate(model.pictures)}
            table = np.full((len(model.points), len(model.pictures)), -1)
            table[model.seen, [row[int(i)] for i in model.seen_by]] = np.arange(len(model.seen))
            for a, first in enumerate(model.pictures):
                shared = ((table >= 0) & (table[:, a : a + 1] >= 0)).sum(0)
                for b in np.argsort(-shared, kind="stable")[:4]:
                    both = (table[:, a] >= 0) & (table[:, b] >= 0)
                    if b > a and both.any():
                        pixels = np.hstack([model.seen_at[table[both, a]], model.seen_at[table[both, b]]])
                        out.append(pages.Matches(int(first), int(model.pictures[b]), pixels))
        return out

    def correspondences(
        self, i: int | str, j: int | str, tolerance: float = 0.02, stride: int = 1
    ) -> MatchResult:
        """Pixels of two pictures that show the same place, by their depth maps.

        A pixel of picture i goes to the world and into picture j; it counts where the depth there
        agrees within ``tolerance`` (relative), and back again. The result's ``kind`` is
        "geometry", its ``confidence`` 1 where depths are equal and 0 where they differ by the
        tolerance. ``pts3d_*`` are in the world.

        Parameters
        ----------
        i, j : int or str
            Numbers in the order of ``pictures``, or names; also those of the copies in ``images/``.
        tolerance : float
            Largest relative difference of depth.
        stride : int
            Start from every n-th pixel of picture i.

        Raises SceneError for a picture without dense depth.
        """
        return correspondences(self._picture(i), self._picture(j), tolerance, stride)

    def _picture(self, which: int | str) -> Picture:
        if isinstance(which, str):
            name = Names(list(self.pictures)).find(which)
            if name is not None:
                return self.pictures[name]
        elif 0 <= operator.index(which) < len(self.pictures):
            return list(self.pictures.values())[which]
        raise SceneError(
            f"picture {which!r}: the scene has {len(self.pictures)}: {', '.join(self.pictures)[:200]}"
        )

    def localize(self, engine: Engine, image: ImageLike, lens: Lens | None = None) -> Located:
        """The pose of a new picture, or why there is none. Needs the extra ``scene``.

        Give the engine the resolution of the scene's: then matches begin at the scene's own key points,
        and places are as exact as its points. ``lens`` is the camera, where it is known.
        """
        return localize(self, engine, image, lens)

    def write(
        self,
        folder: str | os.PathLike[str],
        formats: Sequence[str] | None = None,
        max_dense: int = files.MAX_DENSE,
        *,
        copy_images: bool = False,
        keep_gps: bool = False,
    ) -> list[Path]:
        """Write the scene's files and return their paths.

        Nothing in the folder is replaced or removed that an earlier scene did not write there: a file
        of another origin at one of the names is an error before anything is written. What an earlier,
        other scene wrote and this one does not is removed.

        Parameters
        ----------
        folder : path
        formats : names, optional
            Of ``mast3r_runtime.scene.FORMATS``; all when left out.
        max_dense : int
            ``dense.ply`` has at most so many points: above it one is kept of each cell of space.
        copy_images : bool
            Copy the pictures into ``images/``, not link them. A picture that other programs would see
            otherwise than its camera says (turned, HEIC, 16 bit, ...) is an upright copy in any case.
        keep_gps : bool
            Keep in those copies where the pictures were taken.

        Raises
        ------
        BusyError
            Another run writes into the folder.
        FileError
            Files of others at these names, or the system refused.
        """
        return files.write(self, Path(folder), formats, max_dense, copy_images=copy_images, keep_gps=keep_gps)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Scene:
        """Read what :meth:`write` wrote. Raises FileError where it is missing or torn."""
        return cls(*files.load(Path(folder)))

    def to_pycolmap(self, component: int = 0) -> Any:
        """A ``pycolmap.Reconstruction`` of a component. Needs the extra ``scene``."""
        colmap = pycolmap("to_pycolmap")
        with tempfile.TemporaryDirectory() as folder:
            colmap_files.write_binary(Path(folder), list(self.pictures), self.components[component].model)
            return colmap.Reconstruction(folder)

    def _repr_html_(self) -> str:
        """The viewer in a notebook: a page inside the page, which fetches nothing."""
        text = "".join(pages.html(self.page(), max_points=NOTEBOOK_POINTS))
        return (
            '<iframe style="width:100%;height:600px;border:0" sandbox="allow-scripts allow-downloads" '
            f'srcdoc="{html.escape(text)}"></iframe>'
        )
