# SPDX-License-Identifier: Apache-2.0
"""The published models: their dimensions, their files, and where those come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["BASE_URL", "LICENSE", "MODEL_SPECS", "CheckpointFile", "HubFile", "ModelSpec"]

BASE_URL = "https://download.europe.naverlabs.com/"

LICENSE = (
    "The MASt3R and DUNE weights are the work of Naver Corporation, licensed CC BY-NC-SA 4.0: "
    "credit the authors, no commercial use, and share what you make of them alike. "
    "See https://creativecommons.org/licenses/by-nc-sa/4.0/"
)


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
    """

    role: str
    path: str
    size_mb: int

    @property
    def name(self) -> str:
        """The name of the file without folders."""
        return self.path.rpartition("/")[2]

    @property
    def url(self) -> str:
        """The official address."""
        return BASE_URL + self.path


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
        Of the encoder; the decoders of all of them are 768 wide, 12 deep, 12 heads.
    native_resolution : int
        Long side in pixels that the encoder was trained for.
    files : tuple of CheckpointFile
        The official files. Those a pair needs first, then retrieval's.
    hub : tuple of tuple of HubFile
        Alternatives on the hub, best first; each is a complete set for pairs.
    """

    patch_size: int
    embed_dim: int
    num_heads: int
    depth: int
    native_resolution: int
    files: tuple[CheckpointFile, ...] = field(repr=False)
    hub: tuple[tuple[HubFile, ...], ...] = field(repr=False)


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


MODEL_SPECS: Mapping[str, ModelSpec] = MappingProxyType(
    {
        "mast3r_vit_large": _mast3r(),
        **{f"dune_vit_{s}_{r}": _dune(s, r) for s in ("small", "base") for r in (336, 448)},
    }
)
