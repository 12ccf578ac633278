# SPDX-License-Identifier: Apache-2.0
"""The published models: fetching them, and saying what is there."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import (
    ArgumentError,
    ChecksumError,
    DownloadError,
    ModelNotFoundError,
    OfflineError,
    checked,
)
from . import places
from .specs import MODEL_SPECS, CheckpointFile, expected, restore, wrong

__all__ = ["SOURCES", "FileStatus", "ModelStatus", "download", "status"]

SOURCES = ("auto", "naver", "hf")
_RETRIEVAL = ("retrieval", "codebook")
_log = logging.getLogger("mast3r_runtime")

Progress = bool | Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One official file in the cache.

    Attributes
    ----------
    size_mb : int
        Published size in MiB.
    present : bool
        Whether the file is there, in its published size.
    bytes : int
        How much is there: of the file, or of an interrupted download.
    sha256 : str
        Digest at the time of the download; "" when it was not downloaded here.
    wrong : str
        "cut short" or "another file" where a file of this name has another size than the published
        one; else "".
    """

    role: str
    path: Path
    url: str
    size_mb: int
    present: bool
    bytes: int
    sha256: str
    wrong: str = ""


setattr(FileStatus, "__setstate__", restore)  # noqa: B010 (Python 3.10 replaces one in the body)


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """One variant: ``path`` is what ``load`` would take, None when it is not there, or not whole."""

    variant: str
    path: Path | None
    files: tuple[FileStatus, ...]

    @property
    def ready(self) -> bool:
        """Whether the variant can be loaded without a download."""
        return self.path is not None


@checked
def status(cache_dir: str | os.PathLike[str] | None = None) -> list[ModelStatus]:
    """Say which models are there and where.

    Parameters
    ----------
    cache_dir : path, optional
        The cache; MAST3R_CACHE_DIR or ``~/.cache/mast3r_runtime`` when left out.

    Returns
    -------
    list of ModelStatus
        One for each variant, the models in the wheel first.
    """
    cache = _cache(cache_dir)
    return [_status_of(variant, cache) for variant in places.VARIANTS]


def _status_of(variant: str, cache: Path) -> ModelStatus:
    try:
        path: Path | None = places.find(variant, cache)
    except ModelNotFoundError:
        path = None
    spec = MODEL_SPECS.get(variant)
    files = [_file_status(file, places.checkpoint_dir(cache)) for file in spec.files] if spec else []
    if path in [file.path for file in files] and any(f.wrong for f in files if f.role not in _RETRIEVAL):
        path = None
    return ModelStatus(variant, path, tuple(files))


def _file_status(file: CheckpointFile, folder: Path) -> FileStatus:
    path = folder / file.name
    there = path if path.is_file() else path.with_name(path.name + ".part")
    size = there.stat().st_size if there.is_file() else 0
    record = path.with_name(path.name + ".sha256")
    digest = (
        record.read_text(encoding="utf-8", errors="replace").split(" ")[0]
        if path.is_file() and record.is_file()
        else ""
    )
    bad = wrong(file, size) if path.is_file() else ""
    whole = path.is_file() and not bad
    return FileStatus(file.role, path, file.url, file.size_mb, whole, size, digest, bad)


def _cache(cache_dir: str | os.PathLike[str] | None) -> Path:
    return Path(cache_dir) if cache_dir is not None else places.cache_dir()


@checked
def download(
    variant: object,
    *,
    source: str = "auto",
    cache_dir: str | os.PathLike[str] | None = None,
    force: bool = False,
    retrieval: bool = True,
    progress: Progress = True,
) -> Path:
    """Fetch the files of a published model into the cache.

    What is there already is not fetched again, and an interrupted download goes on where
    it stopped. ``MODEL_SPECS[variant].license`` says what the weights may be used for.

    Parameters
    ----------
    variant : str or ModelVariant
        Which model; ``mast3r_small`` and ``mast3r_tiny`` are in the wheel and need no download.
    source : {"auto", "naver", "hf"}
        The official server (and MAST3R_MIRROR, addresses separated by commas, before it);
        converted files on the Hugging Face hub, for which ``huggingface_hub`` must be
        installed; or the first, then the second where the first cannot be reached.
    cache_dir : path, optional
        The cache; MAST3R_CACHE_DIR or ``~/.cache/mast3r_runtime`` when left out.
    force : bool
        Fetch again what is there.
    retrieval : bool
        Also fetch the retrieval head and codebook, of a variant that has them.
    progress : bool or callable
        A bar on stderr if that is a terminal; or ``progress(name, done, total)`` in bytes.

    Returns
    -------
    Path
        What ``load`` takes.

    Raises
    ------
    OfflineError
        HF_HUB_OFFLINE or MAST3R_OFFLINE is set and a file is missing.
    DownloadError, ChecksumError
        No address works, or what came is not the published file.
    FileError
        No space, or a folder that cannot be written to.
    """
    name = places.resolve(variant)
    if source not in SOURCES:
        raise ArgumentError(f"source {source!r}, want one of {', '.join(SOURCES)}")
    if name in places.BUNDLED:
        return places.bundled_model(name)
    cache = _cache(cache_dir)
    if not force and _complete(name, cache, source, retrieval):
        return places.find(name, cache)
    if source == "hf":
        _from_hub(name, cache, force, retrieval)
        return cache / "safetensors" / name
    try:
        _from_server(name, cache, force, retrieval, progress)
    except DownloadError as error:
        if source == "naver" or importlib.util.find_spec("huggingface_hub") is None:
            raise
        _log.warning("%s; trying the Hugging Face hub", error)
        _from_hub(name, cache, force, retrieval)
        return cache / "safetensors" / name
    return places.find(name, cache)


def _complete(name: str, cache: Path, source: str, retrieval: bool) -> bool:
    """Whether nothing is to be done: the model is there, in any form, and all that goes with it."""
    try:
        folder = places.find(name, cache)
    except ModelNotFoundError:
        return False
    if source == "hf":
        return folder == cache / "safetensors" / name
    official = places.checkpoint_dir(cache)
    converted = cache / "safetensors" / name
    needed = [
        file
        for file in MODEL_SPECS[name].files
        if (retrieval if file.role in _RETRIEVAL else folder.parent == official)
    ]
    for file in needed:
        if (converted / f"{file.role}.safetensors").is_file():
            continue
        path = official / file.name
        if not path.is_file() or wrong(file, path.stat().st_size):
            return False  # which fetch says, or mends
    return True


def _from_server(name: str, cache: Path, force: bool, retrieval: bool, progress: Progress) -> None:
    from .fetch import Expected, fetch  # urllib and filelock: not for those who only import

    mirrors = [base.strip().rstrip("/") + "/" for base in os.environ.get("MAST3R_MIRROR", "").split(",")]
    mirrors = [base for base in mirrors if base != "/"]
    for file in MODEL_SPECS[name].files:
        if file.role in _RETRIEVAL and not retrieval:
            continue
        target = places.checkpoint_dir(cache) / file.name
        urls = [*(mirror + file.path for mirror in mirrors), file.url]
        try:
            with _Bar(file.name, progress) as report:
                fetch(urls, target, Expected(*expected(file)), report, force)
        except ChecksumError:
            raise
        except DownloadError as error:
            raise DownloadError(f"{error}. {_by_hand(file, target)}") from error


def _by_hand(file: CheckpointFile, target: Path) -> str:
    return (
        f"Without a network: fetch {file.url} ({file.size_mb} MiB) on another machine and put it here as "
        f"{target}. MAST3R_MIRROR=https://HOST/ names a server of your own that has {file.path}; "
        "MAST3R_OFFLINE=1 says that there is no network"
    )


class _Bar:
    """A progress bar, or the user's function, or nothing."""

    def __init__(self, name: str, progress: Progress) -> None:
        self._name, self._progress, self._bar = name, progress, None

    def __enter__(self) -> Callable[[int, int | None], None] | None:
        return self._report if self._progress else None

    def _report(self, done: int, total: int | None) -> None:
        if callable(self._progress):
            return self._progress(self._name, done, total)
        if self._bar is None:
            from tqdm.auto import tqdm

            # disable=None: no bar where stderr is no terminal
            self._bar = tqdm(
                desc=self._name, total=total, unit="B", unit_scale=True, disable=None, initial=done
            )
        bar: Any = self._bar
        bar.update(done - bar.n)
        return None

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _from_hub(name: str, cache: Path, force: bool, retrieval: bool) -> None:
    """Fetch converted files with huggingface_hub, which resumes, locks and checks itself."""
    if places.offline():
        raise OfflineError(
            f"{name} is not in {cache}, and HF_HUB_OFFLINE or MAST3R_OFFLINE forbids to fetch it"
        )
    try:
        hub: Any = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise DownloadError(
            "source hf: huggingface_hub is not installed, pip install 'mast3r-runtime[hub]'"
        ) from error
    failures = []
    for alternative in MODEL_SPECS[name].hub:
        try:
            for file in alternative:
                if file.role in _RETRIEVAL and not retrieval:
                    continue
                # Repositories that hold several models have a folder for each.
                folder = cache / "safetensors"
                local = folder if "/" in file.path else folder / name
                hub.hf_hub_download(file.repository, file.path, local_dir=local, force_download=force)
            return
        except (OSError, ValueError, RuntimeError) as error:  # the hub's errors are all of these
            failures.append(f"{alternative[0].repository}: {error}")
    raise DownloadError(f"{name}: the Hugging Face hub gave nothing: " + "; ".join(failures))
