# SPDX-License-Identifier: Apache-2.0
"""Configuration of :func:`mast3r_runtime.get_runtime`.

Frozen dataclasses that check their values. A value of the wrong type or out of range is an
ArgumentError that names the value and the range. An unknown name is a TypeError, as in any
Python constructor; in a YAML file it is an ArgumentError that lists the valid names.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from .._checkpoints import places
from .._files.whole import replacing
from .._library import header
from ..errors import ArgumentError, FileError, checked

__all__ = [
    "PRESET_DESKTOP_PRECISION",
    "PRESET_DRONE_FAST",
    "PRESET_DRONE_QUALITY",
    "BackendType",
    "MASt3RRuntimeConfig",
    "MatchingConfig",
    "ModelConfig",
    "ModelVariant",
    "Precision",
    "RuntimeConfig",
]


class _Text(str, Enum):
    """An enumeration whose members are their texts."""

    def __str__(self) -> str:
        return str(self.value)

    __hash__ = str.__hash__  # a member finds what its text is the key of


@checked
class ModelVariant(_Text):
    """Names of the known models. Any other model loads by the path of its file."""

    MAST3R_SMALL = "mast3r_small"
    MAST3R_TINY = "mast3r_tiny"
    MAST3R_VIT_LARGE = "mast3r_vit_large"
    DUNE_VIT_SMALL_336 = "dune_vit_small_336"
    DUNE_VIT_SMALL_448 = "dune_vit_small_448"
    DUNE_VIT_BASE_336 = "dune_vit_base_336"
    DUNE_VIT_BASE_448 = "dune_vit_base_448"
    DA3_SMALL = "da3_small"
    DA3_BASE = "da3_base"

    @classmethod
    def _missing_(cls, value: object) -> ModelVariant | None:
        name = places.ALIASES.get(str(value))
        return cls(name) if name else None

    @property
    def patch(self) -> int:
        """Side of a patch in pixels."""
        return 14 if self.value.startswith(("dune", "da3")) else 16


@checked
class BackendType(_Text):
    """Where the network runs."""

    AUTO = "auto"
    METAL = "metal"
    CUDA = "cuda"
    CPU = "cpu"


@checked
class Precision(_Text):
    """The type of weights and activations. Sums are always float32."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"


_EnumT = TypeVar("_EnumT", bound=_Text)


def _check_enum(owner: object, name: str, kind: type[_EnumT]) -> None:
    value = getattr(owner, name)
    try:
        object.__setattr__(owner, name, kind(value))
    except ValueError:
        aliases = list(places.ALIASES) if kind is ModelVariant else []
        valid = ", ".join([*map(str, kind), *aliases])
        raise ArgumentError(f"{name}={value!r}, want one of {valid}") from None


def _check_bool(owner: object, name: str) -> None:
    value = getattr(owner, name)
    if not isinstance(value, bool):
        raise ArgumentError(f"{name}={value!r}, want true or false")


def _check_int(owner: object, name: str, low: int, high: int) -> None:
    value = getattr(owner, name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ArgumentError(f"{name}={value!r}, want an integer from {low} to {high}")


def _check_path(owner: object, name: str) -> None:
    value = getattr(owner, name)
    if value is None:
        return
    if not isinstance(value, (str, os.PathLike)) or not str(value):
        raise ArgumentError(f"{name}={value!r}, want a path")
    object.__setattr__(owner, name, Path(value).expanduser())


@checked
@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The model to load.

    Attributes
    ----------
    variant : ModelVariant
        The model's name; aliases are accepted.
    resolution : int or None
        Long side in pixels, 224 to 560 and a multiple of the patch. None: the model's own.
    precision : Precision
        The type of weights and activations.
    """

    variant: ModelVariant = ModelVariant.DUNE_VIT_SMALL_336
    resolution: int | None = None
    precision: Precision = Precision.FP16

    def __post_init__(self) -> None:
        _check_enum(self, "variant", ModelVariant)
        _check_enum(self, "precision", Precision)
        if self.resolution is not None:
            _check_int(self, "resolution", 224, 560)
            patch = self.variant.patch
            if self.resolution % patch:
                raise ArgumentError(f"resolution={self.resolution}, want a multiple of the patch, {patch}")


@checked
@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """The device, and the picture sizes for following a camera.

    Attributes
    ----------
    backend : BackendType
        ``metal`` and ``cuda`` are errors if there is no such device; ``auto`` then uses the CPU.
    num_threads : int
        1 to 1024; 0 is every core.
    use_dual_resolution : bool
        Allow ``infer_tracking`` and ``infer_keyframe``, at the two resolutions below.
    tracking_resolution, keyframe_resolution : int
        Long sides in pixels, 64 to 1024, the first at most the second. Pictures are cut to
        whole patches.
    use_gpu_preprocessing : bool
        True: the engine resizes the pictures. False: Pillow does, with the same bytes as result.
    """

    backend: BackendType = BackendType.AUTO
    num_threads: int = 4
    use_dual_resolution: bool = True
    tracking_resolution: int = 256
    keyframe_resolution: int = 336
    use_gpu_preprocessing: bool = True

    def __post_init__(self) -> None:
        _check_enum(self, "backend", BackendType)
        _check_int(self, "num_threads", 0, header.MAX_THREADS)
        _check_bool(self, "use_dual_resolution")
        _check_bool(self, "use_gpu_preprocessing")
        for name in ("tracking_resolution", "keyframe_resolution"):
            _check_int(self, name, 64, 1024)
        if self.tracking_resolution > self.keyframe_resolution:
            raise ArgumentError(
                f"tracking_resolution={self.tracking_resolution}, "
                f"want at most keyframe_resolution={self.keyframe_resolution}"
            )


@checked
@dataclass(frozen=True, slots=True)
class MatchingConfig:
    """How pairs are matched.

    Attributes
    ----------
    top_k : int
        How many of the best matches to keep, 64 to 2048.
    reciprocal : bool
        Keep only pairs that choose each other.
    spatial_filter : bool
        Leave out matches within 3 pixels of an edge of either picture, where descriptors are
        less reliable.
    confidence_threshold : float
        Leave out matches with a lower confidence, 0 to 1.
    """

    top_k: int = 512
    reciprocal: bool = True
    spatial_filter: bool = True
    confidence_threshold: float = 0.5

    def __post_init__(self) -> None:
        _check_int(self, "top_k", 64, 2048)
        _check_bool(self, "reciprocal")
        _check_bool(self, "spatial_filter")
        value = self.confidence_threshold
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 <= value <= 1:  # NaN fails as well
            raise ArgumentError(f"confidence_threshold={value!r}, want a number from 0 to 1")

    @property
    def border(self) -> int:
        """Width in pixels of the border that is left out."""
        return 3 if self.spatial_filter else 0


@checked
@dataclass(frozen=True, slots=True)
class MASt3RRuntimeConfig:
    """Everything :func:`mast3r_runtime.get_runtime` needs.

    Attributes
    ----------
    model : ModelConfig
    runtime : RuntimeConfig
    matching : MatchingConfig
    cache_dir : Path or None
        Where downloaded models are. None: MAST3R_CACHE_DIR, else ``~/.cache/mast3r_runtime``.
    checkpoint_dir : Path or None
        Where official files are looked for. None: ``checkpoints`` in the cache.
    export_dir : Path or None
        Where :meth:`Runtime.export` writes. None: ``exports`` in the cache.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    matching: MatchingConfig = field(default_factory=MatchingConfig)
    cache_dir: Path | None = None
    checkpoint_dir: Path | None = None
    export_dir: Path | None = None

    def __post_init__(self) -> None:
        for name, kind in _PARTS.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise ArgumentError(f"{name}={value!r}, want a {kind.__name__}")
        for name in ("cache_dir", "checkpoint_dir", "export_dir"):
            _check_path(self, name)

    def directories(self) -> dict[str, Path]:
        """Return the three folders with their defaults filled in; the environment is read now."""
        cache = self.cache_dir or places.cache_dir()
        return {
            "cache_dir": cache,
            "checkpoint_dir": self.checkpoint_dir or places.checkpoint_dir(cache),
            "export_dir": self.export_dir or cache / "exports",
        }

    def ensure_dirs(self) -> None:
        """Make the three folders, with those above them."""
        for name, path in self.directories().items():
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileError(f"{name} {path}: {error.strerror or error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with nothing left out."""
        return {key: _plain(value) for key, value in dataclasses.asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MASt3RRuntimeConfig:
        """Build a configuration from what :meth:`to_dict` returns, or a part of it."""
        return _build(cls, values, "")

    def to_yaml(self, path: str | os.PathLike[str]) -> None:
        """Write the configuration to a file that :meth:`from_yaml` reads."""
        import yaml

        try:
            with replacing(Path(path)) as temporary:
                temporary.write_text(yaml.safe_dump(self.to_dict(), sort_keys=False), encoding="utf-8")
        except OSError as error:
            raise FileError(f"{os.fspath(path)}: {error.strerror or error}") from error

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> MASt3RRuntimeConfig:
        """Read a configuration. What the file leaves out has its default.

        Parameters
        ----------
        path : path
            A YAML file with any of the fields of this class; those of ``model``, ``runtime``
            and ``matching`` are indented below them.

        Raises
        ------
        ArgumentError
            The file is not valid YAML, a key is unknown, or a value out of range. The text has the
            file and the key.
        FileError
            The file cannot be read.
        """
        import yaml

        name = os.fspath(path)
        try:
            values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise FileError(f"{name}: {error.strerror or error}") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ArgumentError(f"{name}: not valid YAML: {error}") from error
        try:
            return cls.from_dict({} if values is None else values)
        except ArgumentError as error:
            raise ArgumentError(f"{name}: {error}") from error


_PARTS: dict[str, type[Any]] = {"model": ModelConfig, "runtime": RuntimeConfig, "matching": MatchingConfig}
_ConfigT = TypeVar("_ConfigT")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return str(value) if isinstance(value, (Enum, Path)) else value


def _build(kind: type[_ConfigT], values: Any, where: str) -> _ConfigT:
    """Build a dataclass from a mapping; ``where`` is the key that leads to it."""
    if not isinstance(values, Mapping):
        raise ArgumentError(f"{where or 'configuration'}: a {type(values).__name__}, want keys and values")
    names = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    built = {}
    for key, value in values.items():
        full = f"{where}.{key}" if where else str(key)
        if key not in names:
            close = difflib.get_close_matches(str(key), names, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ArgumentError(f"unknown key {full}, want one of {', '.join(names)}{hint}")
        part = _PARTS.get(str(key)) if not where else None
        built[key] = _build(part, value, full) if part else value
    try:
        return kind(**built)
    except ArgumentError as error:
        raise ArgumentError(f"{where}.{error}" if where else str(error)) from None


PRESET_DRONE_FAST = MASt3RRuntimeConfig(
    ModelConfig(ModelVariant.DUNE_VIT_SMALL_336),
    RuntimeConfig(tracking_resolution=252, keyframe_resolution=336),
    MatchingConfig(top_k=256),
)
"""The smallest published model at its own size, half the usual matches."""

PRESET_DRONE_QUALITY = MASt3RRuntimeConfig(
    ModelConfig(ModelVariant.DUNE_VIT_BASE_448),
    RuntimeConfig(tracking_resolution=336, keyframe_resolution=448),
    MatchingConfig(top_k=1024),
)
"""The larger DUNE encoder at 448 pixels."""

PRESET_DESKTOP_PRECISION = MASt3RRuntimeConfig(
    ModelConfig(ModelVariant.MAST3R_VIT_LARGE, 512, Precision.FP32),
    RuntimeConfig(num_threads=0, tracking_resolution=512, keyframe_resolution=512),
    MatchingConfig(top_k=2048, confidence_threshold=0.0),
)
"""The reference's model, size and arithmetic, on every core."""
