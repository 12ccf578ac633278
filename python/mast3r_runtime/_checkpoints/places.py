# SPDX-License-Identifier: Apache-2.0
"""Where model files are: in the wheel, in the cache, or where the user says.

The cache holds ``checkpoints/``, the official files under their own names, and
``safetensors/VARIANT/``, converted ones. The environment is read when a function is
called, not at import.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ..errors import ArgumentError, ModelNotFoundError, checked, quoted
from .specs import MODEL_SPECS, ModelSpec

__all__ = [
    "ALIASES",
    "BUNDLED",
    "VARIANTS",
    "bundled_model",
    "cache_dir",
    "checkpoint_dir",
    "find",
    "for_others",
    "get_checkpoint_paths",
    "get_checkpoint_urls",
    "get_total_checkpoint_size_mb",
    "model_path",
    "offline",
    "resolve",
]

BUNDLED = ("mast3r_small", "mast3r_tiny")  # in the wheel; "auto" is the first
VARIANTS = (*BUNDLED, *MODEL_SPECS)
ALIASES = {"dune_vit_small_14": "dune_vit_small_448", "dune_vit_base_14": "dune_vit_base_448"}


def _published() -> dict[str, str]:
    """Variants by the names that their publishers use, in small letters: of files with and without
    suffix, and of repositories of the hub that hold one model. A decoder of two variants is the later's,
    which has the resolution that its demo takes."""
    out: dict[str, str] = {}
    repositories: dict[str, set[str]] = {}
    for variant, spec in MODEL_SPECS.items():
        for file in spec.files:
            if file.role in ("unified", "encoder", "decoder"):
                name = file.path.rpartition("/")[2].lower()
                if name != "model.safetensors":
                    out |= {name: variant, name.rpartition(".")[0]: variant}
        for alternative in spec.hub:
            for each in alternative:
                repositories.setdefault(each.repository.lower(), set()).add(variant)
    for repository, variants in repositories.items():
        if len(variants) == 1:
            out[repository] = out[repository.rpartition("/")[2]] = variants.pop()
    return out


_PUBLISHED = _published()
LAYOUTS = (("unified.safetensors",), ("model.safetensors",), ("encoder.safetensors", "decoder.safetensors"))


def bundled_model(variant: str = BUNDLED[0]) -> Path:
    """The file of a model that ships in the wheel."""
    return Path(__file__).parents[1] / "models" / variant / "unified.safetensors"


def cache_dir() -> Path:
    """MAST3R_CACHE_DIR (read when called), or ``~/.cache/mast3r_runtime``."""
    override = os.environ.get("MAST3R_CACHE_DIR")
    return Path(override) if override else _home() / ".cache" / "mast3r_runtime"


def _home() -> Path:
    """The user's folder; where there is none, one in the folder for temporary files."""
    try:
        return Path.home()
    except RuntimeError:  # no HOME, and no entry for this user: a container with --user
        return Path(tempfile.gettempdir()) / f"mast3r-runtime-{getattr(os, 'getuid', int)()}"


def offline() -> bool:
    """Whether HF_HUB_OFFLINE or MAST3R_OFFLINE is set to a true value."""
    yes = {"1", "true", "yes", "on"}
    return any(os.environ.get(n, "").strip().lower() in yes for n in ("HF_HUB_OFFLINE", "MAST3R_OFFLINE"))


def checkpoint_dir(directory: Path | None = None) -> Path:
    """The folder of official files in a cache."""
    return (directory or cache_dir()) / "checkpoints"


def resolve(variant: object) -> str:
    """Return the plain name of a variant: of an alias, a published name, a hub's id, a ModelVariant."""
    text = str(variant)
    name = ALIASES.get(text, text)
    if name not in VARIANTS:
        name = _PUBLISHED.get(text.lower().replace("\\", "/").strip("/"), "")  # as a path of Windows, too
    if not name:
        raise ArgumentError(
            f"variant {quoted(text)}, want one of {', '.join((*VARIANTS, *ALIASES))}, or the name under "
            "which one of them is published"
        )
    return name


def for_others(model: str | os.PathLike[str]) -> str:
    """A model as other processes are told of it: a name by itself, for each to find; else an absolute path,
    which may be there on their machines alone."""
    if not Path(model).exists():
        try:
            return resolve(model)
        except ArgumentError:
            pass
    return os.path.abspath(model)


def model_path(model: str | os.PathLike[str]) -> Path:
    """The file or folder of a model: what is there under that path, else a variant by any of its names.

    Raises
    ------
    ModelNotFoundError
        It is neither, or the variant is not there; the text says which variants there are.
    """
    if "\0" in os.fspath(model):
        raise ArgumentError(f"model {quoted(os.fspath(model))}: a NUL, which no path can have")
    path = Path(model)
    if path.exists():
        return path
    try:
        name = resolve(model)
    except ArgumentError:
        raise ModelNotFoundError(
            f"model {quoted(os.fspath(model))}: no such file or folder, and no variant; variants are "
            f"{', '.join(VARIANTS)}"
        ) from None
    return find(name)


def spec_of(variant: object) -> ModelSpec:
    """Return the spec of a published variant."""
    name = resolve(variant)
    if name in BUNDLED:
        raise ArgumentError(f"{name} is in the wheel, want one of {', '.join(MODEL_SPECS)}")
    return MODEL_SPECS[name]


@checked
def get_checkpoint_paths(variant: object, cache_dir: str | os.PathLike[str] | None = None) -> dict[str, Path]:
    """Return where the official files of a variant are kept, by role, present or not.

    Parameters
    ----------
    variant : str or ModelVariant
        A published variant, or an alias of one.
    cache_dir : path, optional
        The cache; MAST3R_CACHE_DIR or ``~/.cache/mast3r_runtime`` when left out.

    Returns
    -------
    dict of str to Path
        ``unified`` or ``encoder`` and ``decoder``; ``retrieval`` and ``codebook`` where there are.
    """
    folder = checkpoint_dir(Path(cache_dir) if cache_dir is not None else None)
    return {file.role: folder / file.name for file in spec_of(variant).files}


@checked
def get_checkpoint_urls(variant: object) -> dict[str, str]:
    """Return the official addresses of a variant's files, by role."""
    return {file.role: file.url for file in spec_of(variant).files}


@checked
def get_total_checkpoint_size_mb(variant: object) -> int:
    """Return the published size of all official files of a variant, in MiB."""
    return sum(file.size_mb for file in spec_of(variant).files)


def find(variant: object, directory: Path | None = None, checkpoints: Path | None = None) -> Path:
    """Return what ``load`` wants for ``variant``, or say where it was looked for.

    Converted files come first, for they are smaller and their tensors lie on pages.
    """
    name = BUNDLED[0] if str(variant) == "auto" else resolve(variant)
    if name in BUNDLED:
        return bundled_model(name)
    cache = directory or cache_dir()
    folders = [cache / "safetensors" / name, cache / name]
    for folder in folders:
        if any(all((folder / file).is_file() for file in layout) for layout in LAYOUTS):
            return folder
    originals = checkpoints or checkpoint_dir(cache)
    needed = [file.name for file in MODEL_SPECS[name].files if file.role in ("unified", "encoder", "decoder")]
    if all((originals / file).is_file() for file in needed):
        return originals / needed[0]  # of two halves, load finds the other beside it
    for alternative in MODEL_SPECS[name].hub:
        for file in alternative:
            hub = _hub_folder(file.repository) if file.name == "model.safetensors" else None
            if hub is not None:
                return hub
    raise ModelNotFoundError(
        f"no files of {name} in {folders[0]} or {folders[1]}, nor {' and '.join(needed)} in {originals}; "
        f"fetch them with `mast3r download {name}`, give load() a path, or use variant={BUNDLED[0]!r}, "
        "the small model in the wheel"
    )


def _hub_folder(repository: str) -> Path | None:
    """A repository's folder in the hub's own cache, if its current snapshot has the model."""
    home = os.environ.get("HF_HOME") or _home() / ".cache" / "huggingface"
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    folder = hub / f"models--{repository.replace('/', '--')}"
    try:
        revision = (folder / "refs" / "main").read_text().strip()
    except OSError:
        return None
    return folder if (folder / "snapshots" / revision / "model.safetensors").is_file() else None
