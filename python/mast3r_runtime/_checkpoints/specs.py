# SPDX-License-Identifier: Apache-2.0
"""The published models: their dimensions, their files, and where those come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

__all__ = [
    "BASE_URL",
    "DA3_LICENSE",
    "LICENSE",
    "MODEL_SPECS",
    "CheckpointFile",
    "HubFile",
    "ModelSpec",
    "expected",
    "restore",
    "wrong",
]

BASE_URL = "https://download.europe.naverlabs.com/"

LICENSE = (
    "The MASt3R and DUNE weights are the work of Naver Corporation, licensed CC BY-NC-SA 4.0: "
    "credit the authors, no commercial use, and share what you make of them alike. "
    "See https://creativecommons.org/licenses/by-nc-sa/4.0/"
)

DA3_LICENSE = (
    "The publisher of Depth Anything 3 declares the weights of SMALL and BASE Apache-2.0, which allows "
    "commercial use: https://www.apache.org/licenses/LICENSE-2.0. That label is the publisher's word: a "
    "question about the licences of the training data (issue 203 of its repository) is unanswered."
)

_HUB = "https://huggingface.co/"


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """One published file.

    Attributes
    ----------
    role : str
        ``unified``, ``encoder``, ``decoder``, ``retrieval`` or ``codebook``.
    path : str
        Where it is below the base address.
    size_mb : int
        Its published size in MiB, rounded as it was published.
    base : str
        What is before the path in its address.
    save_as : str
        Its name in the cache; "" for its own.
    size_bytes : int
        Its exact size, where that was published; else 0.
    """

    role: str
    path: str
    size_mb: int
    base: str = BASE_URL
    save_as: str = ""
    size_bytes: int = 0

    @property
    def name(self) -> str:
        """The name of the file in the cache, without folders."""
        return self.save_as or self.path.rpartition("/")[2]

    @property
    def url(self) -> str:
        """The official address."""
        return self.base + self.path


def expected(file: CheckpointFile) -> tuple[int, int]:
    """The size of a published file in bytes, and by how much a file may differ.

    Most sizes are published in whole MiB; whether rounded or cut is not said.
    """
    return (file.size_bytes, 0) if file.size_bytes else (file.size_mb << 20, 2 << 20)


def wrong(file: CheckpointFile, size: int) -> str:
    """What is wrong with a file of ``size`` bytes under a published name; empty where nothing is."""
    want, tolerance = expected(file)
    if abs(size - want) <= tolerance:
        return ""
    return "cut short" if size < want else "another file"


@dataclass(frozen=True, slots=True)
class HubFile:
    """The same contents as safetensors on the Hugging Face hub."""

    repository: str
    path: str
    role: str

    @property
    def name(self) -> str:
        """The name of the file without folders."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A published model.

    Attributes
    ----------
    patch_size, embed_dim, num_heads, depth : int
        Of the encoder; the decoders of MASt3R and DUNE are 768 wide, 12 deep, 12 heads, and
        what relates views in Depth Anything 3 is part of this depth.
    native_resolution : int
        Long side in pixels that the encoder was trained for.
    files : tuple of CheckpointFile
        The official files. Those a pair needs first, then retrieval's.
    hub : tuple of tuple of HubFile
        Alternatives on the hub, best first; each is a complete set for pairs.
    license : str
        What the weights may be used for, in a sentence.
    """

    patch_size: int
    embed_dim: int
    num_heads: int
    depth: int
    native_resolution: int
    files: tuple[CheckpointFile, ...] = field(repr=False)
    hub: tuple[tuple[HubFile, ...], ...] = field(repr=False)
    license: str = field(default=LICENSE, repr=False)


def restore(self: Any, state: list[object]) -> None:
    """What was pickled before a class had its last fields gets their defaults."""
    every = fields(self)
    for each, value in zip(every, [*state, *(f.default for f in every[len(state) :])]):
        object.__setattr__(self, each.name, value)


# Python 3.10 replaces a method of that name in the body of a class.
for _kind in (CheckpointFile, ModelSpec):
    setattr(_kind, "__setstate__", restore)  # noqa: B010


_MAST3R = "MASt3R_ViTLarge_BaseDecoder_512_catmlpdpt_metric"


def _mast3r() -> ModelSpec:
    folder = f"ComputerVision/MASt3R/{_MAST3R}"
    fp16 = "Aedelon/mast3r-vit-large-fp16"
    return ModelSpec(
        16,
        1024,
        16,
        24,
        512,
        (
            CheckpointFile("unified", f"{folder}.pth", 2627),
            CheckpointFile("retrieval", f"{folder}_retrieval_trainingfree.pth", 8),
            CheckpointFile("codebook", f"{folder}_retrieval_codebook.pkl", 256),
        ),
        (
            tuple(HubFile(fp16, f"{role}.safetensors", role) for role in ("unified", "retrieval")),
            (HubFile(f"naver/{_MAST3R}", "model.safetensors", "unified"),),
        ),
    )


def _dune(size: str, resolution: int) -> ModelSpec:
    dim, heads, encoder_mb, decoder_mb = {"small": (384, 6, 109, 1234), "base": (768, 12, 420, 1325)}[size]
    # The decoder of the base model was trained on the encoder of the paper.
    paper = "_paper" if (size, resolution) == ("base", 448) else ""
    variant = f"dune_vit_{size}_{resolution}"
    return ModelSpec(
        14,
        dim,
        heads,
        12,
        resolution,
        (
            CheckpointFile("encoder", f"dune/dune_vit{size}14_{resolution}{paper}.pth", encoder_mb),
            CheckpointFile("decoder", f"dune/dunemast3r_cvpr25_vit{size}.pth", decoder_mb),
        ),
        (
            tuple(
                HubFile("Aedelon/dunemast3r-models-fp16", f"{variant}/{role}.safetensors", role)
                for role in ("encoder", "decoder")
            ),
        ),
    )


def _da3(size: str) -> ModelSpec:
    dim, heads, count = {"small": (384, 6, 137_248_940), "base": (768, 12, 541_518_028)}[size]
    repository = f"depth-anything/DA3-{size.upper()}"
    path = f"{repository}/resolve/main/model.safetensors"
    file = CheckpointFile(
        "unified", path, round(count / 2**20), _HUB, f"da3_{size}.safetensors", count
    )  # fmt: skip
    hub = HubFile(repository, "model.safetensors", "unified")
    return ModelSpec(14, dim, heads, 12, 504, (file,), ((hub,),), DA3_LICENSE)


MODEL_SPECS: Mapping[str, ModelSpec] = MappingProxyType(
    {
        "mast3r_vit_large": _mast3r(),
        **{f"dune_vit_{s}_{r}": _dune(s, r) for s in ("small", "base") for r in (336, 448)},
        "da3_small": _da3("small"),
        "da3_base": _da3("base"),
    }
)
