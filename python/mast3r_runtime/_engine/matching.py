# SPDX-License-Identifier: Apache-2.0
"""Matching two descriptor maps or a whole result, and refining matches on the pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Union

import numpy as np
import numpy.typing as npt

from .._library import calls
from .._library import structs as S
from .._library.cameras import check_intrinsics
from .._library.device import info_of
from .._library.memory import FLOAT64, INT32, GPUTensor
from .._library.options import DescLike, image_array, map_struct, places_struct
from .._pictures.reading import ImageLike, read_image
from .._results.geometry import PairPose, pair_cameras
from .._results.results import GPUInferenceResult, InferenceResult, MatchResult, Transform
from ..errors import ArgumentError, ShapeError, UnsupportedError, checked

__all__ = ["MatchingMethods", "Refined"]

PairResult = Union[GPUInferenceResult, InferenceResult]
Auto = Literal["auto"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

# A descriptor of less confidence looks at what the other picture does not show, as a rule.
SURE = 1.001


@checked
@dataclass(frozen=True, slots=True, eq=False)  # arrays have no one truth
class Refined:
    """Matches moved to where the pictures agree, in the order they were given in.

    ``xy_2 [N, 2]`` are places in picture 2, ``covariance [N, 2, 2]`` theirs in squared pixels
    (the places in picture 1 taken as exact), ``correlation [N]`` that of the patches around
    both ends (0: not compared). A match that is not ``refined [N]`` keeps its place, but for one
    that is only much less sure than the others: it has moved, and its covariance says how unsure it is.
    """

    xy_2: F64
    covariance: F32
    correlation: F32
    refined: npt.NDArray[np.bool_]
    timing: dict[str, float]


@checked
class MatchingMethods:
    """The matching methods of an engine."""

    if TYPE_CHECKING:

        def _live(self) -> int: ...

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
        subsample: int | Auto = "auto",
        both_ways: bool | Auto = "auto",
        border: int = 0,
        weighted: bool = False,
        min_weight: float | Auto = "auto",
        images: tuple[ImageLike, ImageLike] | None = None,
        refine: bool | Auto = "auto",
    ) -> MatchResult:
        """Match a whole result, or two descriptor maps ``[H, W, D]`` or ``[1, H, W, D]``.

        The meaning of "auto" depends on what is matched:

        ============== ======================================= ==================
        option         a whole result                          two maps
        ============== ======================================= ==================
        subsample      every 8th pixel at a long side of 512   every pixel
        both_ways      from pixels of both pictures            of picture 1
        min_weight     1.001, where there is ``desc_conf``     0
        refine         where the pictures are at hand          never
        ============== ======================================= ==================

        For a whole result ``pts2d_2`` has subpixel accuracy, and each match has a
        ``covariance`` and a flag ``refined``. ``subsample=1`` searches every pixel exactly, which
        takes seconds at 512 pixels.

        Parameters
        ----------
        top_k : int or None
            How many matches to keep; None or 0 keeps all. For a result they are spread over
            picture 1: the best match of each part comes before the second best of any part,
            refined ones first. For two maps they are the best ones.
        reciprocal : bool
            Keep pairs of pixels that are each other's nearest neighbour; otherwise every pixel
            of map 1 is matched with its nearest neighbour.
        confidence_threshold : float
            Leave out matches with a lower confidence. The confidence is the similarity of the
            descriptors, at most 1 for the network's unit vectors.
        conf_1, conf_2, pts3d_1, pts3d_2
            Confidence ``[H, W]`` and points ``[H, W, 3]`` of two maps; a result has its own.
        mask_1, mask_2 : bool [H, W]
            Keep matches where the mask is true.
        subsample : int
            Start from every n-th pixel of each row and column.
        border : int
            Leave out matches within this many network pixels of an edge.
        weighted : bool
            Multiply the confidence by the geometric mean of the two pixels' ``conf``. It is not
            good for ranking: the greatest ``desc_conf`` lie close together.
        min_weight : float
            Leave out pixels with a lower ``conf``.
        images : pair of pictures
            The full pictures for refining; by default those of the result.
        refine : bool
            Move each match until patches of the full pictures agree: see :meth:`refine`.
        """
        whole = isinstance(desc_1, (GPUInferenceResult, InferenceResult))
        transforms: tuple[Transform | None, Transform | None] = (None, None)
        if isinstance(desc_1, (GPUInferenceResult, InferenceResult)):
            result = desc_1
            if desc_2 is not None:
                raise ShapeError("match: a whole result and a second map; pass one or the other")
            if not result.has("desc"):
                own = info_of(self._live())
                if own["ready"] and not own["desc_dim"]:
                    raise UnsupportedError(
                        f"match: {own['variant']} has no descriptors; infer_views(pictures) makes a scene, "
                        "whose correspondences(i, j) match by geometry; MASt3R models have descriptors"
                    )
                raise ShapeError("match: a result without descriptors; it was made with only=...")
            transforms = (result.transform_1, result.transform_2)
            images = images or result.images
            desc_1, desc_2 = result.desc_1, result.desc_2
            if result.has("desc_conf"):
                conf_1, conf_2 = result.desc_conf_1, result.desc_conf_2
            if result.has("pts3d"):
                pts3d_1, pts3d_2 = result.pts3d_1, result.pts3d_2
        if desc_2 is None:
            raise ShapeError("match: one descriptor map, want two, or a whole result")
        map1, keep1 = map_struct("1", desc_1, conf_1, pts3d_1, mask_1)
        map2, keep2 = map_struct("2", desc_2, conf_2, pts3d_2, mask_2)
        if refine is True and not whole:
            raise ArgumentError("match: refine=True needs a whole result; for bare descriptors use refine()")
        if refine is True and images is None:
            raise ArgumentError("match: refine=True needs the pictures; pass images=(picture_1, picture_2)")
        step: int = max(1, max(map1.height, map1.width) // 64) if whole else 1
        if not isinstance(subsample, str):
            step = subsample
        if isinstance(both_ways, str):
            both_ways = whole
        if isinstance(min_weight, str):
            min_weight = SURE if whole and conf_1 is not None else 0.0
        options = S.struct(
            S.MatchOptions,
            top_k=calls.int32("top_k", top_k or 0),
            reciprocal=int(bool(reciprocal)),
            subsample=calls.int32("subsample", step),
            both_ways=int(bool(both_ways)),
            spread=int(whole),
            subpixel=int(whole),
            judge=int(whole),
            border=calls.int32("border", border),
            weighted=int(bool(weighted)),
            min_weight=float(min_weight),
            min_confidence=float(confidence_threshold),
        )
        keep: list[Any] = [keep1, keep2, map1, map2, options]
        if whole and images is not None and refine:
            pictures = [read_image(image) for image in images]
            structs = image_array(pictures)
            options.image1, options.image2 = (S.address(struct) for struct in structs)
            options.transform1, options.transform2 = (way._struct() for way in transforms if way)
            keep += [structs, pictures]
        arguments = (map1, map2, options)
        with calls.Job("mast3r_submit_match", self._live(), *arguments, keep=keep) as job:
            job.wait()
            matches = job.take(S.Matches, "mast3r_job_take_matches")
            return MatchResult._take(matches, transforms)

    def refine(
        self,
        image_1: ImageLike,
        image_2: ImageLike,
        xy_1: npt.ArrayLike,
        xy_2: npt.ArrayLike,
        reach: float,
        sigma: float | None = None,
    ) -> Refined:
        """Move matches, wherever they come from, until patches of the pictures agree.

        Each end in picture 2 moves, by less than ``reach``, until the patch around it and the
        one in picture 1, warped by the map of the matches around, agree up to gain and offset.
        It counts as refined if they correlate by 0.8 and the way back ends where it began.
        The answer does not depend on the number of threads.

        Parameters
        ----------
        image_1, image_2
            The pictures as given; see :mod:`mast3r_runtime.images`.
        xy_1, xy_2 : [N, 2]
            Pixels (x, y) of these pictures, centres at whole numbers. At least 13 matches;
            fewer are not refined, as nothing tells the map between the pictures.
        reach : float
            How far an end may be from its true place, in pixels of picture 2: about twice
            the picture's long side over the network's.
        sigma : float, optional
            Standard deviation of a coordinate of a match that is not refined, in pixels of
            picture 2; by default a quarter of ``reach``.
        """
        pictures = [read_image(image_1), read_image(image_2)]
        structs = image_array(pictures)
        places, keep = places_struct(xy_1, xy_2)
        options = S.struct(S.RefineOptions, reach=float(reach), sigma=float(sigma or 0.0))
        arguments = (structs[0], structs[1], places, options)
        everything = (structs, pictures, places, keep, options)
        with calls.Job("mast3r_submit_refine", self._live(), *arguments, keep=everything) as job:
            job.wait()
            out = job.take(S.Refined, "mast3r_job_take_refined")
        n = out.count
        xy, covariance, correlation, refined = GPUTensor._arrays(
            (
                GPUTensor._of(out.pixel2, (n, 2), FLOAT64),
                GPUTensor._of(out.covariance, (n, 2, 2)),
                GPUTensor._of(out.correlation, (n,)),
                GPUTensor._of(out.refined, (n,), INT32),
            )
        )
        return Refined(xy, covariance, correlation, refined != 0, {"refine_ms": out.refine_ms})

    def relative_pose(
        self,
        result: PairResult,
        matches: MatchResult | None = None,
        *,
        intrinsics_1: npt.ArrayLike | None = None,
        intrinsics_2: npt.ArrayLike | None = None,
        focal_1: float | None = None,
        focal_2: float | None = None,
        estimator: str = "auto",
    ) -> PairPose:
        """The cameras of an inferred pair: pose, camera matrices, uncertainty.

        Matches are made where none are given (all that :meth:`match` finds, refined where the
        pictures are at hand). See :func:`mast3r_runtime.geometry.pair_cameras`.
        """
        for given in (intrinsics_1, intrinsics_2):  # before the work
            if given is not None:
                check_intrinsics(given)
        if matches is None:
            matches = self.match(result, top_k=None)
        return pair_cameras(
            result,
            matches,
            intrinsics_1,
            intrinsics_2,
            focal_1=focal_1,
            focal_2=focal_2,
            estimator=estimator,
        )
