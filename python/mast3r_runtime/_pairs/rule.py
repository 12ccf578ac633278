# SPDX-License-Identifier: Apache-2.0
"""What decides the numbers of a pair, and so its key in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .._engine.engine import Engine
from .._library.version import __version__
from .._store.store import file_hash, key_of
from ..errors import ArgumentError

__all__ = ["FEATURES", "ONLY", "STRIDES", "Rule", "model_hash", "stride_for"]

FeatureType = Literal["float16", "float32"]
Keep = Literal["matches", "dense", "all"]
FEATURES = ("float16", "float32")
ONLY = ("matches", "dense", "all")
MATCHING = 4  # the way of matching; another number where a change gives other matches
STRIDES = (8, 16)  # network pixels between anchors, and above COARSE_FROM pictures
COARSE_FROM = 200


def stride_for(pictures: int) -> int:
    """Network pixels between anchors where nobody says."""
    return STRIDES[pictures > COARSE_FROM]


@dataclass(frozen=True)
class Rule:
    """Everything but the pictures that decides the numbers. Threads are not in it: they change none.

    ``features`` is the type in which the store holds the encoder's features. A picture's features
    are rounded to it before they are decoded, whether they come from the store or not, so that
    the numbers of a pair do not depend on who encoded it.
    """

    model: str  # hash of the model's files
    resolution: int
    precision: str
    stride: int = STRIDES[0]
    features: str = "float16"
    isa: str = ""  # of the processor, where bits must be those of one kind of machine
    version: str = __version__

    def __post_init__(self) -> None:
        if self.features not in FEATURES:
            raise ArgumentError(f"features {self.features!r}, want {' or '.join(FEATURES)}")
        if not 1 <= self.stride <= 64:
            raise ArgumentError(f"stride {self.stride}, want 1 to 64 network pixels")

    @classmethod
    def of(cls, engine: Engine, stride: int, features: str, strict: bool = False) -> Rule:
        """The rule of a loaded engine."""
        info = engine.info()
        isa = f"{info['backend']} {info['isa']}" if strict else ""
        return cls(
            model_hash(engine.path), int(info["resolution"]), str(info["precision"]), stride, features, isa
        )

    @property
    def network(self) -> list[Any]:
        """What decides the numbers that the network gives for pictures."""
        half = ["float16"] if self.features == "float16" else []
        strict = [self.isa] if self.isa else []
        return [self.version, self.model, self.resolution, self.precision, *half, *strict]

    def feature_key(self, sha256: str) -> str:
        """Picture, model and options, for people too: the features of a picture sort together."""
        return f"{sha256[:24]}-{self.model[:12]}-{key_of('features', sha256, self.network)[:12]}"

    def pair_key(self, one: str, two: str) -> str:
        """The key of a pair's matches, by the pictures' SHA-256."""
        return key_of("pair", MATCHING, one, two, self.network, self.stride)

    def depth_key(self, one: str, two: str) -> str:
        """The key of the first picture's depth as the pair says it."""
        return key_of("depth", one, two, self.network)

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Rule:
        """A rule from what :meth:`record` gave; ArgumentError for anything else."""
        kinds = {name: type(value) for name, value in cls("", 0, "").record().items()}
        if {name: type(value) for name, value in record.items()} != kinds:
            raise ArgumentError(f"rule {str(dict(record)):.200}, want {', '.join(kinds)}")
        return cls(**record)


def model_hash(path: str | None) -> str:
    """What tells a model from all others: the bytes of its files."""
    if path is None:
        return ""
    place = Path(path)
    files = sorted(p for p in place.iterdir() if p.is_file()) if place.is_dir() else [place]
    return key_of([file_hash(file) for file in files])
