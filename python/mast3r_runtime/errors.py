# SPDX-License-Identifier: Apache-2.0
"""The errors of the package.

All derive from :class:`Mast3rError`. Each is also the builtin exception that fits, so
``except ValueError`` and ``except FileNotFoundError`` work as well. Every message says what
was given and what is valid.
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
    "OutOfMemoryError",
    "SceneError",
    "ShapeError",
    "TimeLimitError",
    "WeightsError",
]


class Mast3rError(RuntimeError):
    """Base of every error that the package raises."""


class LibraryError(Mast3rError, ImportError):
    """The native library is missing or does not belong to this version of the package."""


class ForkError(Mast3rError):
    """The process was forked after the native library was loaded."""


class ArgumentError(Mast3rError, ValueError):
    """A setting or argument is out of range."""


class DependencyError(Mast3rError, ImportError):
    """An optional package is needed and not installed; the message names the command to install it."""


class DeviceError(Mast3rError):
    """The requested backend is not available, or it failed."""


class OutOfMemoryError(DeviceError, MemoryError):
    """The device has no memory for the work. The engine stays usable, for smaller or fewer pictures."""


class NotLoadedError(Mast3rError):
    """The call needs a model, and none is loaded."""


class ClosedError(Mast3rError):
    """The engine or tensor was closed."""


class CancelledError(Mast3rError):
    """The work was cancelled, as by ``close()`` from another thread."""


class TimeLimitError(Mast3rError, TimeoutError):
    """The time of a ``limit(timeout=...)`` block ran out."""


class InternalError(Mast3rError):
    """A bug in the native library, caught before it could end the process."""


class WeightsError(Mast3rError, ValueError):
    """The model file cannot be used."""


class ModelNotFoundError(Mast3rError, FileNotFoundError):
    """There is no model file at the place where one was expected."""


class OfflineError(ModelNotFoundError):
    """A download is needed, and HF_HUB_OFFLINE or MAST3R_OFFLINE forbids it."""


class FileError(Mast3rError, OSError):
    """The system refused to read or write a file: no space, a read-only folder."""


class DownloadError(Mast3rError, OSError):
    """The download failed from every address."""


class ChecksumError(DownloadError):
    """The downloaded file is complete, but differs from the published file."""


class ShapeError(Mast3rError, ValueError):
    """Sizes do not fit each other."""


class ImageError(Mast3rError, ValueError):
    """The picture cannot be used."""


class ImageTypeError(ImageError, TypeError):
    """The object, or its element type, is not a picture."""


class ImageNotFoundError(ImageError, FileNotFoundError):
    """There is no picture file of that name."""


class SceneError(Mast3rError, ValueError):
    """The pictures do not make a scene. ``report``, if not None, gives the reason for each picture."""

    report: dict[str, object] | None = None
