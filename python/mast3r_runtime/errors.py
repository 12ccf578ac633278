# SPDX-License-Identifier: Apache-2.0
"""The errors of the package.

One tree under :class:`Mast3rError`; each leaf is also the builtin that a caller would
think of first, so ``except ValueError`` and ``except FileNotFoundError`` work as well.
Every text names what was got and what was wanted.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "CancelledError",
    "ChecksumError",
    "ClosedError",
    "DependencyError",
    "DeviceError",
    "DownloadError",
    "FileError",
    "ForkError",
    "ImageError",
    "ImageNotFoundError",
    "ImageTypeError",
    "InternalError",
    "LibraryError",
    "Mast3rError",
    "ModelNotFoundError",
    "NotLoadedError",
    "OfflineError",
    "SceneError",
    "ShapeError",
    "TimeLimitError",
    "WeightsError",
]


class Mast3rError(RuntimeError):
    """Base of every error that the package raises on its own account."""


class LibraryError(Mast3rError, ImportError):
    """The native library is missing or does not belong to this version of the package."""


class ForkError(Mast3rError):
    """The process was forked after the native library was loaded."""


class ArgumentError(Mast3rError, ValueError):
    """A setting or argument out of its range."""


class DependencyError(Mast3rError, ImportError):
    """An optional package is needed and not installed; the text names the command that installs it."""


class DeviceError(Mast3rError):
    """The backend asked for is not there, or it failed."""


class NotLoadedError(Mast3rError):
    """A model is needed and none is loaded."""


class ClosedError(Mast3rError):
    """The engine or tensor was closed."""


class CancelledError(Mast3rError):
    """The work was cancelled, as by ``close()`` from another thread."""


class TimeLimitError(Mast3rError, TimeoutError):
    """The time of a ``limit(timeout=...)`` block was up."""


class InternalError(Mast3rError):
    """A fault of ours, caught at the border of the native library."""


class WeightsError(Mast3rError, ValueError):
    """A model file that cannot be used."""


class ModelNotFoundError(Mast3rError, FileNotFoundError):
    """No model file where one was looked for."""


class OfflineError(ModelNotFoundError):
    """A download is needed, and HF_HUB_OFFLINE or MAST3R_OFFLINE forbids it."""


class FileError(Mast3rError, OSError):
    """The system refused to read or write a file: no space, a read-only folder."""


class DownloadError(Mast3rError, OSError):
    """A download that failed, from every address there is."""


class ChecksumError(DownloadError):
    """A download that came to its end with other bytes than the published ones."""


class ShapeError(Mast3rError, ValueError):
    """Sizes that do not fit each other."""


class ImageError(Mast3rError, ValueError):
    """A picture that cannot be used."""


class ImageTypeError(ImageError, TypeError):
    """An object or element type that is no picture."""


class ImageNotFoundError(ImageError, FileNotFoundError):
    """No picture file of that name."""


class SceneError(Mast3rError, ValueError):
    """Pictures that make no scene. ``report`` says why of each picture, where it got that far."""

    report: dict[str, object] | None = None
