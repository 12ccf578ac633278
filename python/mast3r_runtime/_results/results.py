# SPDX-License-Identifier: Apache-2.0
"""The results of the calls: frozen dataclasses of tensors and arrays.

Every result owns its memory. A later call never changes an earlier result, and a result
outlives ``close()``. All of them pickle and deep-copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._library import structs as S
from .._library.cameras import check_intrinsics
from .._library.memory import INT32, INT64, Array, GPUTensor
from .._pictures.arrays import U8
from ..errors import ArgumentError, ShapeError, checked

if TYPE_CHECKING:
    import torch

    from .geometry import PairPose

__all__ = [
    "GPUInferenceResult",
    "InferenceResult",
    "MatchResult",
    "Overlap",
    "SymmetricResult",
    "Transform",
    "ViewResult",
    "confidence_mask",
]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@checked
@dataclass(frozen=True, slots=True)
class Transform:
    """How a picture was resized and cropped for the network.

    The picture is resized to ``resized_height x resized_width``; then the window of
    ``height x width`` at ``(crop_y, crop_x)`` is cut out. Pixel centres have integer
    coordinates in both pictures, so
    ``x_original = (x + crop_x + 0.5) * original_width / resized_width - 0.5``.
    """

    original_height: int
    original_width: int
    resized_height: int
    resized_width: int
    crop_y: int
    crop_x: int
    height: int
    width: int

    @classmethod
    def _of(cls, transform: S.Transform) -> Transform:
        return cls(
            transform.original_height,
            transform.original_width,
            transform.resized_height,
            transform.resized_width,
            transform.crop_y,
            transform.crop_x,
            transform.height,
            transform.width,
        )

    def _struct(self) -> S.Transform:
        return S.Transform(*(getattr(self, name) for name in self.__slots__))

    @property
    def scale(self) -> tuple[float, float]:
        """Original pixels per network pixel, as (x, y)."""
        return (
            self.original_width / self.resized_width,
            self.original_height / self.resized_height,
        )

    def to_original(self, xy: npt.ArrayLike) -> F64:
        """Network pixels ``[..., 2]`` (x, y) as pixels of the user's picture."""
        offset = np.array([self.crop_x + 0.5, self.crop_y + 0.5])
        return np.asarray((_points(xy) + offset) * np.array(self.scale) - 0.5)

    def to_network(self, xy: npt.ArrayLike) -> F64:
        """Pixels of the user's picture ``[..., 2]`` (x, y) as network pixels."""
        offset = np.array([self.crop_x + 0.5, self.crop_y + 0.5])
        return np.asarray((_points(xy) + 0.5) / np.array(self.scale) - offset)

    def intrinsics_to_network(self, k: npt.ArrayLike) -> F64:
        """A camera matrix ``[3, 3]`` of the user's picture as one of the network's.

        Raises ShapeError (a ValueError) if the shape is not [3, 3], a number is not finite, a
        focal length is not above 0, or the last row is not 0, 0, 1.
        """
        return np.asarray(self._matrix() @ check_intrinsics(k))

    def intrinsics_to_original(self, k: npt.ArrayLike) -> F64:
        """A camera matrix ``[3, 3]`` of the network's picture as one of the user's."""
        return np.asarray(np.linalg.inv(self._matrix()) @ check_intrinsics(k))

    def _matrix(self) -> F64:
        """`to_network` on homogeneous pixels."""
        sx, sy = self.scale
        return np.array(
            [
                [1 / sx, 0, 0.5 / sx - 0.5 - self.crop_x],
                [0, 1 / sy, 0.5 / sy - 0.5 - self.crop_y],
                [0, 0, 1],
            ]
        )


def _points(xy: npt.ArrayLike) -> F64:
    points = np.asarray(xy, np.float64)
    if points.ndim == 0 or points.shape[-1] != 2:
        raise ShapeError(f"points of shape {points.shape}, want (..., 2) with x, y")
    return points


@checked
def confidence_mask(
    conf: npt.ArrayLike, *, threshold: float | None = None, percentile: float | None = None
) -> npt.NDArray[np.bool_]:
    """Return which pixels of a confidence map to keep.

    Parameters
    ----------
    conf : array of any shape
        ``conf`` (at least 1) or ``desc_conf`` (above 0) of a result, raw values.
    threshold : float, optional
        Keep values of at least this.
    percentile : float in 0..100, optional
        Keep values of at least this percentile, as `numpy.percentile` defines it.

    Returns
    -------
    bool array of the same shape. If both limits are given, a pixel must satisfy both.
    """
    values = np.asarray(conf)
    keep = np.ones(values.shape, np.bool_)
    if threshold is not None:
        if np.isnan(threshold):
            raise ValueError("threshold is not a number")
        keep &= values >= threshold
    if percentile is not None:
        if not 0 <= percentile <= 100:
            raise ValueError(f"percentile {percentile}, want 0 to 100")
        if values.size:
            keep &= values >= np.percentile(values, percentile)
    return keep


@checked
@dataclass(frozen=True, slots=True, eq=False)  # arrays have no one truth
class ViewResult:
    """One picture of a pair: points in the first camera's frame, confidence, descriptors."""

    pts3d: GPUTensor
    conf: GPUTensor
    desc: GPUTensor
    desc_conf: GPUTensor
    transform: Transform

    @classmethod
    def _take(cls, result: S.Result) -> list[ViewResult]:
        """The views of a result."""
        views = [result.view[i] for i in range(result.views)]
        # The sizes are known but for one, which is asked for once and not for every tensor.
        dim = GPUTensor._last_side(views[0].desc)
        return [cls._of(view, dim) for view in views]

    @classmethod
    def _of(cls, view: S.View, dim: int) -> ViewResult:
        transform = Transform._of(view.transform)
        h, w = transform.height, transform.width
        return cls(
            GPUTensor._of(view.points, (h, w, 3)),
            GPUTensor._of(view.conf, (h, w)),
            GPUTensor._of(view.desc, (h, w, dim)),
            GPUTensor._of(view.desc_conf, (h, w)),
            transform,
        )


def _timing(timing: S.Timing) -> dict[str, float]:
    return {
        "preprocess_ms": timing.preprocess_ms,
        "encoder_ms": timing.encoder_ms,
        "decoder_ms": timing.decoder_ms,
        "heads_ms": timing.heads_ms,
        "copy_ms": timing.copy_ms,
        "inference_ms": timing.inference_ms,
        "total_ms": timing.total_ms,
    }


# How a result is matched. The engine puts it here, so that this module need not import the engine.
_matchers: list[Callable[[GPUInferenceResult | InferenceResult], MatchResult]] = []


@checked
class _Pair:
    """The methods that both kinds of a pair's result have."""

    __slots__ = ()

    def cameras(
        self,
        matches: MatchResult | None = None,
        intrinsics_1: npt.ArrayLike | None = None,
        intrinsics_2: npt.ArrayLike | None = None,
        *,
        focal_1: float | None = None,
        focal_2: float | None = None,
        estimator: str = "auto",
    ) -> PairPose:
        """The cameras: see :func:`mast3r_runtime.geometry.pair_cameras`.

        Without ``matches`` the result is matched first, on the CPU; no model is needed for it.
        """
        from .geometry import pair_cameras

        assert isinstance(self, (GPUInferenceResult, InferenceResult))
        if matches is None:
            matches = _matchers[0](self)
        return pair_cameras(
            self,
            matches,
            intrinsics_1,
            intrinsics_2,
            focal_1=focal_1,
            focal_2=focal_2,
            estimator=estimator,
        )

    def at_original(self, name: str) -> F32:
        """A map of the result on the pixels of the user's picture.

        Parameters
        ----------
        name : str
            "pts3d_1", "depth_1" (z in camera 1), "conf_1", "desc_conf_1", or the same for picture
            2, whose points are also in camera 1's frame.

        Returns
        -------
        float32 [H, W] or [H, W, 3]
            Interpolated linearly between network pixels. Beside an edge in depth the nearest
            network pixel is used, because there are no points between a near object and the
            background. NaN where the picture was cropped for the network.
        """
        kind, _, view = name.rpartition("_")
        if kind not in ("pts3d", "depth", "conf", "desc_conf") or view not in ("1", "2"):
            raise ArgumentError(
                f"at_original: {name!r}, want pts3d_1, depth_1, conf_1, desc_conf_1 or those of view 2"
            )
        field_name = f"pts3d_{view}" if kind == "depth" else name
        values = np.asarray(getattr(self, field_name), np.float32)
        if not values.size:
            raise ShapeError(f"at_original: {field_name} was left out by only=(...)")
        if kind == "depth":
            values = values[:, :, 2]
        depth = None
        if kind in ("pts3d", "depth"):
            depth = np.asarray(getattr(self, f"pts3d_{view}"), np.float32)[:, :, 2]
        from .geometry import resampled

        return resampled(values, getattr(self, f"transform_{view}"), depth)


@checked
@dataclass(frozen=True, slots=True, eq=False)  # arrays have no one truth
class GPUInferenceResult(_Pair):
    """The result of a pair. All points are in camera 1's frame, with OpenCV axes.

    For each picture: ``pts3d [H, W, 3]``, ``conf [H, W]`` (at least 1), ``desc [H, W, 24]``,
    ``desc_conf [H, W]`` (above 0), all float32. ``images`` are the two pictures,
    ``uint8 [H, W, 3]``, which ``match`` uses to refine matches. Arrays given by the caller are
    kept, not copied. A pair decoded from features has no images.
    """

    pts3d_1: GPUTensor
    pts3d_2: GPUTensor
    conf_1: GPUTensor
    conf_2: GPUTensor
    desc_1: GPUTensor
    desc_2: GPUTensor
    desc_conf_1: GPUTensor
    desc_conf_2: GPUTensor
    transform_1: Transform
    transform_2: Transform
    timing: Mapping[str, float] = field(default_factory=dict)
    images: tuple[U8, U8] | None = field(default=None, repr=False)

    @classmethod
    def _take(cls, result: S.Result, images: tuple[U8, U8] | None = None) -> GPUInferenceResult:
        one, two = ViewResult._take(result)
        return cls(
            one.pts3d,
            two.pts3d,
            one.conf,
            two.conf,
            one.desc,
            two.desc,
            one.desc_conf,
            two.desc_conf,
            one.transform,
            two.transform,
            _timing(result.timing),
            images,
        )

    def has(self, output: str) -> bool:
        """Whether ``output`` ("pts3d", "conf", "desc", "desc_conf") was computed; see ``only``."""
        return bool(getattr(self, f"{output}_1").is_valid)

    def numpy(self) -> InferenceResult:
        """The same result as numpy arrays. Outputs that were not computed are empty."""
        p1, p2, c1, c2, d1, d2, q1, q2 = GPUTensor._arrays(
            (
                self.pts3d_1,
                self.pts3d_2,
                self.conf_1,
                self.conf_2,
                self.desc_1,
                self.desc_2,
                self.desc_conf_1,
                self.desc_conf_2,
            )
        )
        return InferenceResult(
            p1, p2, c1, c2, d1, d2, q1, q2, self.transform_1, self.transform_2, self.timing, self.images
        )

    def to_torch(self, device: str = "cpu") -> dict[str, torch.Tensor]:
        """The outputs as torch tensors by field name (torch is not a dependency)."""
        return self.numpy().to_torch(device)


@checked
@dataclass(frozen=True, slots=True, eq=False)  # arrays have no one truth
class SymmetricResult:
    """Both directions of a pair: ``view_ij`` is picture i seen from camera j."""

    view_11: ViewResult
    view_21: ViewResult
    view_22: ViewResult
    view_12: ViewResult
    timing: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def _take(cls, result: S.Result) -> SymmetricResult:
        v11, v21, v22, v12 = ViewResult._take(result)
        return cls(v11, v21, v22, v12, _timing(result.timing))

    def to_torch(self, device: str = "cpu") -> dict[str, torch.Tensor]:
        """The outputs as torch tensors, as ``pts3d_11`` (torch is not a dependency)."""
        import torch

        out = {}
        for view in ("11", "21", "22", "12"):
            for name in ("pts3d", "conf", "desc", "desc_conf"):
                tensor: GPUTensor = getattr(getattr(self, f"view_{view}"), name)
                if tensor.is_valid:
                    out[f"{name}_{view}"] = torch.from_numpy(tensor.numpy()).to(device)
        return out


@checked
@dataclass(frozen=True, slots=True, eq=False)  # arrays have no one truth
class InferenceResult(_Pair):
    """A pair as numpy arrays; fields as in :class:`GPUInferenceResult`."""

    pts3d_1: F32
    pts3d_2: F32
    conf_1: F32
    conf_2: F32
    desc_1: F32
    desc_2: F32
    desc_conf_1: F32
    desc_conf_2: F32
    transform_1: Transform
    transform_2: Transform
    timing: Mapping[str, float] = field(default_factory=dict)
    images: tuple[U8, U8] | None = field(default=None, repr=False)

    def has(self, output: str) -> bool:
        """Whether ``output`` ("pts3d", "conf", "desc", "desc_conf") was computed; see ``only``."""
        return bool(getattr(self, f"{output}_1").size)

    @property
    def height(self) -> int:
        """Rows of view 1."""
        return self.transform_1.height

    @property
    def width(self) -> int:
        """Columns of view 1."""
        return self.transform_1.width

    @property
    def desc_dim(self) -> int:
        return int(self.desc_1.shape[2])

    def to_torch(self, device: str = "cpu") -> dict[str, torch.Tensor]:
        """The arrays as torch tensors by field name (torch is not a dependency)."""
        return _to_torch(self, device)


@checked
@dataclass(frozen=True, slots=True, eq=False)  # arrays have no one truth
class Overlap:
    """Whether two pictures show a common part. True if the verdict is YES.

    ``verdict`` is "YES", "NO" or "UNSURE". ``matched`` is the fraction of the starting points
    with a confident match. ``consistent`` is the fraction of these that fit one epipolar
    geometry. ``score`` is the smallest of these and of the matches' median certainty
    (``desc_conf``), each relative to its threshold (1: equal).
    ``fundamental [3, 3]`` is the geometry, ``(x_2, 1) F (x_1, 1) = 0`` in original pixels, or
    None if there is none.
    """

    verdict: str
    reason: str
    score: float
    matched: float
    consistent: float
    fundamental: F64 | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return self.verdict == "YES"

    @classmethod
    def _of(cls, overlap: S.Overlap, one: Transform, two: Transform) -> Overlap:
        geometry = np.array(overlap.fundamental).reshape(3, 3)
        fundamental = None
        if geometry.any():
            fundamental = two._matrix().T @ geometry @ one._matrix()
            fundamental /= np.linalg.norm(fundamental)
        return cls(
            ("NO", "YES", "UNSURE")[overlap.verdict],
            overlap.reason.decode("utf-8", "replace"),
            overlap.score,
            overlap.matched,
            overlap.consistent,
            fundamental,
        )


@dataclass(frozen=True, slots=True, eq=False)  # arrays have no one truth
class MatchResult:
    """Matches in descending order of confidence; equal ones in order of their index.

    ``idx_* [N]`` are flat indices ``y * W + x``. ``pts2d_* [N, 2]`` are coordinates (x, y) in
    network pixels. They are those of the indices, except that ``pts2d_2`` has subpixel accuracy
    if a whole result was matched. ``transform_*.to_original(pts2d_*)`` converts them to pixels
    of the pictures as given; for a whole result ``original_1`` and ``original_2`` do this.
    ``pts3d_* [N, 3]`` are the points at the indices, NaN if only descriptors were matched.

    ``covariance [N, 2, 2]`` is the covariance of ``original_2`` in squared pixels, with
    ``original_1`` taken as exact; NaN if only descriptors were matched. ``refined [N]`` is true
    for matches that were moved to where the full pictures agree. ``seeds`` is the number of
    pixels of picture 1 where the search started.

    For a whole result, ``overlap`` says whether the pictures show a common part, judged from
    all matches before ``top_k``. ``consistent [N]`` is true for matches that fit its geometry.

    ``kind`` says where matches come from: "descriptors" that are alike, or "geometry", which are
    the same places of a scene's depth maps; their confidence is how well the depths agree.
    """

    idx_1: I64
    idx_2: I64
    pts2d_1: F32
    pts2d_2: F32
    pts3d_1: F32
    pts3d_2: F32
    confidence: F32
    timing: Mapping[str, float] = field(default_factory=dict)
    transform_1: Transform | None = None
    transform_2: Transform | None = None
    covariance: F32 = field(default_factory=lambda: np.empty((0, 2, 2), np.float32))
    refined: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    seeds: int = 0
    overlap: Overlap | None = None
    consistent: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    kind: str = "descriptors"

    @classmethod
    def _take(cls, matches: S.Matches, transforms: tuple[Transform | None, Transform | None]) -> MatchResult:
        n = matches.count
        one, pair, triple = (n,), (n, 2), (n, 3)
        i1, i2, p1, p2, q1, q2, confidence = GPUTensor._arrays(
            (
                GPUTensor._of(matches.index1, one, INT64),
                GPUTensor._of(matches.index2, one, INT64),
                GPUTensor._of(matches.pixel1, pair),
                GPUTensor._of(matches.pixel2, pair),
                GPUTensor._of(matches.points1, triple),
                GPUTensor._of(matches.points2, triple),
                GPUTensor._of(matches.confidence, one),
            )
        )
        if matches.refined:
            covariance, flags = GPUTensor._arrays(
                (
                    GPUTensor._of(matches.covariance, (n, 2, 2)),
                    GPUTensor._of(matches.refined, one, INT32),
                )
            )
            refined = flags != 0
        else:
            # Half a network pixel in either direction, as measured of the descriptors' matches.
            sx, sy = (np.nan, np.nan) if transforms[1] is None else transforms[1].scale
            covariance = np.tile(np.diag([0.25 * sx * sx, 0.25 * sy * sy]).astype(np.float32), (n, 1, 1))
            refined = np.zeros(n, np.bool_)
        one_way, other_way = transforms
        overlap, consistent = None, np.zeros(n, np.bool_)
        if matches.consistent and one_way is not None and other_way is not None:
            overlap = Overlap._of(matches.overlap, one_way, other_way)
            consistent = GPUTensor._of(matches.consistent, one, INT32).numpy() != 0
        timing = {"match_ms": matches.match_ms}
        return cls(
            i1,
            i2,
            p1,
            p2,
            q1,
            q2,
            confidence,
            timing,
            *transforms,
            covariance,
            refined,
            matches.seeds,
            overlap,
            consistent,
        )

    def __len__(self) -> int:
        return len(self.idx_1)

    @property
    def num_matches(self) -> int:
        return len(self.idx_1)

    @property
    def original_1(self) -> F64:
        """``pts2d_1`` in pixels of the first picture as the user gave it."""
        return self._original(self.transform_1, self.pts2d_1)

    @property
    def original_2(self) -> F64:
        """``pts2d_2`` in pixels of the second picture as the user gave it."""
        return self._original(self.transform_2, self.pts2d_2)

    @staticmethod
    def _original(transform: Transform | None, xy: F32) -> F64:
        if transform is None:
            raise ShapeError("original pixels: unknown for bare descriptors; match a whole result")
        return transform.to_original(xy)

    def to_torch(self, device: str = "cpu") -> dict[str, torch.Tensor]:
        """The arrays as torch tensors by field name (torch is not a dependency)."""
        return _to_torch(self, device)


def _to_torch(result: Any, device: str) -> dict[str, torch.Tensor]:
    import torch

    arrays: dict[str, Array] = {
        name: value for name in result.__slots__ if isinstance(value := getattr(result, name), np.ndarray)
    }
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


def _set_state(result: Any, state: list[Any]) -> None:
    """Unpickle; what a pickle of an earlier version lacks gets its default."""
    for number, declared in enumerate(fields(result)):
        if number < len(state):
            value = state[number]
        elif declared.default_factory is not MISSING:
            value = declared.default_factory()
        else:
            value = declared.default
        object.__setattr__(result, declared.name, value)


# After the decorator, which on Python 3.10 puts its own there whatever the class has.
for _kind in (GPUInferenceResult, InferenceResult, MatchResult):
    setattr(_kind, "__setstate__", _set_state)  # noqa: B010
