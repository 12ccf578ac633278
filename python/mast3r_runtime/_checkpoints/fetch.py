# SPDX-License-Identifier: Apache-2.0
"""One file over HTTP: resumed, locked, checked, and under its name only when complete.

What has arrived is kept as ``NAME.part`` beside the target, so that a later call goes on
from there if the server still has the same file (``If-Range``). One process at a time
writes; others wait for it and take its file.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import http.client
import json
import logging
import os
import shutil
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .._library import limits
from .._library.version import __version__
from ..errors import (
    ChecksumError,
    DownloadError,
    FileError,
    Mast3rError,
    OfflineError,
    quoted,
    without_secrets,
)
from .places import offline

__all__ = ["Expected", "fetch", "sha256_of"]

Progress = Callable[[int, int | None], None]

_log = logging.getLogger("mast3r_runtime")
_CHUNK = 1 << 20
_SPARE = 256 << 20  # of the disk, which a body without a length leaves alone
_SLOWEST = 1000  # bytes a second, over the time that a silent connection gets
_MOST_TRIES = 100  # in all, of a server that always gives a little
_PATIENCE = 2.5  # seconds without an answer after which that is said
_NO_NETWORK = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN)


@dataclass(frozen=True, slots=True)
class Expected:
    """What is known of a file beforehand: its size, give or take, and its SHA-256."""

    size: int | None = None
    tolerance: int = 0
    sha256: str | None = None

    def fits(self, size: int) -> bool:
        """Whether a file of ``size`` bytes can be the one."""
        return self.size is None or abs(size - self.size) <= self.tolerance


class _Cut(Exception):
    """The connection failed before the end; to be tried again from there."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def fetch(
    urls: Sequence[str],
    target: Path,
    expected: Expected = Expected(),  # noqa: B008 (frozen)
    progress: Progress | None = None,
    force: bool = False,
    timeout: float = 30.0,
    attempts: int = 5,
    pause: float = 0.5,
) -> Path:
    """Download the first of ``urls`` that works to ``target``.

    Parameters
    ----------
    urls : sequence of str
        Addresses of the same file, best first.
    target : Path
        The file to make. When it is there, nothing is done, unless ``force``.
    expected : Expected
        A file that does not fit is removed, and ChecksumError raised.
    progress : callable, optional
        Called with the bytes there and in all (None: the server does not say).
    timeout : float
        Seconds without a byte after which a connection counts as cut.
    attempts : int
        Tries in a row that bring nothing, after which an address is given up.
    pause : float
        Seconds before the second try; doubled for each further one.

    Returns
    -------
    Path
        ``target``.
    """
    if _there(target, expected, force):
        return target  # without the lock: a read-only cache with the file in it is fine
    if offline():
        raise OfflineError(
            f"{target} is not there, and HF_HUB_OFFLINE or MAST3R_OFFLINE forbids to fetch it; "
            f"{urls[-1]} may be fetched elsewhere and put there"
        )
    with _system(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target):
        if _there(target, expected, force):
            return target  # another process was first
        part = target.with_name(target.name + ".part")
        failures: list[DownloadError] = []
        for url in urls:
            try:
                _complete(url, part, expected, progress, timeout, attempts, pause)
            except DownloadError as error:
                _log.info("%s", error)
                failures.append(error)
                continue
            with _system(target):
                _publish(part, target)
            return target
        raise _all_of(target.name, failures)


def _all_of(name: str, failures: Sequence[DownloadError]) -> DownloadError:
    """One error of those of all addresses."""
    if len(failures) == 1:
        return failures[0]
    kind = ChecksumError if all(isinstance(e, ChecksumError) for e in failures) else DownloadError
    return kind(f"{name}: no address works: " + "; ".join(map(str, failures)))


def _there(target: Path, expected: Expected, force: bool) -> bool:
    """Whether the file is there. One of another size is not replaced unasked: it may be the user's own."""
    if force or not target.is_file():
        return False
    size = target.stat().st_size
    if not expected.fits(size):
        what = "cut short" if size < (expected.size or 0) else "another file"
        raise ChecksumError(
            f"{target} has {size} bytes, want {expected.size} (within {expected.tolerance}): it is {what}; "
            "put the whole file there, or fetch it again with force=True or --force"
        )
    return True


@contextmanager
def _system(path: Path) -> Iterator[None]:
    """Give the system's refusals a text that says what to do."""
    try:
        yield
    except Mast3rError:
        raise
    except OSError as error:
        if error.errno == errno.ENOSPC:
            hint = f"{shutil.disk_usage(path.parent).free >> 20} MB are free there"
        else:
            hint = "choose another folder with MAST3R_CACHE_DIR or --cache-dir"
        raise FileError(f"{path}: {error.strerror or error}; {hint}") from error


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    with _system(target):
        waiting = False
        while True:
            limits.check()
            try:
                lock.acquire(timeout=0.2)
                break
            except Timeout:
                if not waiting:
                    _log.info("%s: another process is downloading it, waiting", target.name)
                waiting = True
    try:
        yield
    finally:
        lock.release()


def _complete(
    url: str,
    part: Path,
    expected: Expected,
    progress: Progress | None,
    timeout: float,
    attempts: int,
    pause: float,
) -> None:
    """Bring ``part`` to its end from one address, and check it."""
    fruitless = 0
    for _ in range(_MOST_TRIES):
        before = _size(part)
        try:
            _stream(url, part, expected, progress, timeout)
            break
        except _Cut as cut:
            fruitless = 0 if _size(part) > before else fruitless + 1
            if fruitless >= attempts:
                raise DownloadError(f"{url}: {cut}, {attempts} times in a row") from cut
            # The first is said aloud: the others take their time.
            level = logging.WARNING if fruitless == 1 else logging.INFO
            _log.log(level, "%s: %s; trying again", without_secrets(url), cut)
            limits.check()
            time.sleep(min(max(pause * 2**fruitless, cut.wait), max(limits.remaining(), 0)))
    else:
        raise DownloadError(f"{url}: no end after {_MOST_TRIES} tries")
    size = _size(part)
    if not expected.fits(size):
        _discard(part)
        raise ChecksumError(f"{url}: got {size} bytes, want {expected.size} (within {expected.tolerance})")
    if expected.sha256:
        digest = sha256_of(part)
        if digest != expected.sha256:
            _discard(part)
            raise ChecksumError(f"{url}: got SHA-256 {digest}, want {expected.sha256}")


def _stream(url: str, part: Path, expected: Expected, progress: Progress | None, timeout: float) -> None:
    """Append to ``part`` until the server says that was all; _Cut when it did not get there."""
    if not url.startswith(("https://", "http://")):
        raise DownloadError(f"{url}: want an address that starts with https://")
    offset, validator = _resumable(url, part)
    headers = {"User-Agent": f"mast3r-runtime/{__version__}", "Accept-Encoding": "identity"}
    if offset:
        headers |= {"Range": f"bytes={offset}-", "If-Range": validator}
    try:
        with _patience(url):
            answer = _opener.open(_request(url, headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and offset:
                return _past_the_end(part, offset, error.headers.get("Content-Range"))
            if error.code in (408, 425, 429) or error.code >= 500:
                raise _Cut(f"HTTP {error.code} {error.reason}", _retry_after(error.headers)) from error
            raise DownloadError(f"{url}: HTTP {error.code} {error.reason}") from error
    except DownloadError:
        raise
    except (http.client.InvalidURL, ValueError) as error:  # an address or a header that is none
        raise DownloadError(f"{url}: {without_secrets(str(error), url)}") from None
    except (OSError, http.client.HTTPException) as error:
        if not offset and _unreachable(error):
            raise DownloadError(f"{url}: {_reason(error)}") from error
        raise _Cut(_reason(error)) from error
    with answer:
        total = _total(answer, offset)
        if answer.status != 206:
            offset = 0  # the whole file, from the start
        if total is not None and not expected.fits(total):
            _discard(part)
            raise ChecksumError(
                f"{url}: the server has {total} bytes, want {expected.size} (within {expected.tolerance})"
            )
        if total is not None:
            _room(part, total - offset)
        _note(url, part, answer.headers)
        done = _copy(answer, part, offset, total, expected, progress, timeout)
    if total is not None and done != total:
        raise _Cut(f"the connection ended at byte {done} of {total}")


def _request(url: str, headers: dict[str, str]) -> urllib.request.Request:
    """A request whose address has no user and password: they go into a header that redirects lose."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    user, at, host = host.rpartition("@")
    request = urllib.request.Request(f"{scheme}://{host}{slash}{path}", headers=headers)
    if at:
        name = urllib.parse.unquote(user).encode()
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(name).decode()}")
    return request


@contextmanager
def _patience(url: str) -> Iterator[None]:
    """Say after some seconds that nothing has answered: names of hosts can take long without a network."""
    host = without_secrets(url)
    timer = threading.Timer(
        _PATIENCE, _log.warning, ("%s: no answer after %.1f s, still waiting", host, _PATIENCE)
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _unreachable(error: Exception) -> bool:
    """Whether there is no such host, or no network: another try at once would say the same."""
    inner = getattr(error, "reason", None)
    cause = inner if isinstance(inner, OSError) else error
    return isinstance(cause, socket.gaierror) or getattr(cause, "errno", None) in _NO_NETWORK


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects to http and https alone, and never from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        scheme = newurl.partition(":")[0].lower()
        if scheme not in ("http", "https") or (req.type == "https" and scheme != "https"):
            raise DownloadError(f"{req.full_url}: redirected to {quoted(newurl)}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any) -> Any:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except urllib.error.HTTPError:
            raise  # holds it
        except BaseException:
            fp.close()  # urllib leaves it open
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


_opener = urllib.request.build_opener(_Redirects)


def _copy(
    answer: Any,
    part: Path,
    offset: int,
    total: int | None,
    expected: Expected,
    progress: Progress | None,
    timeout: float,
) -> int:
    most = total
    if most is None and expected.size is not None:
        most = expected.size + expected.tolerance
    free = shutil.disk_usage(part.parent).free
    start = time.monotonic()
    with _system(part), open(part, "r+b" if offset else "wb") as file:
        if offset:
            file.seek(offset)
            file.truncate()
        done = offset
        if progress:
            progress(done, total)
        while True:
            try:
                # read1, not read: what came before a stall must not be lost with it
                block = answer.read1(_CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise _Cut(f"at byte {done}: {_reason(error)}") from error
            if not block:
                return done
            if most is not None and done + len(block) > most:
                if total is not None:
                    raise _Cut(f"more than the {total} bytes announced")
                file.close()
                _discard(part)
                raise ChecksumError(
                    f"{answer.url}: got more than {most} bytes, want {expected.size} "
                    f"(within {expected.tolerance})"
                )
            if most is None and done + len(block) - offset > free - _SPARE:
                raise FileError(
                    f"{part.parent}: the server does not say how much comes, and {free >> 20} MB are free"
                )
            file.write(block)
            done += len(block)
            limits.check()
            # A byte now and then keeps a connection alive and never comes to an end.
            seconds = time.monotonic() - start
            if seconds > timeout and done - offset < _SLOWEST * seconds:
                raise _Cut(f"{done - offset} bytes in {seconds:.0f} s")
            if progress:
                progress(done, total)


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", None)
    return str(inner or error) or type(error).__name__


def _total(answer: Any, offset: int) -> int | None:
    """The size of the whole file, from the headers of a 200 or a 206."""
    if answer.status == 206:
        unit, _, rest = str(answer.headers.get("Content-Range", "")).partition(" ")
        span, _, total = rest.partition("/")
        if unit != "bytes" or span.partition("-")[0] != str(offset):
            raise _Cut(f"asked for bytes from {offset}, got {unit} {rest!r}")
        return _number(total)
    length = str(answer.headers.get("Content-Length", ""))
    return _number(length)


def _number(text: str) -> int | None:
    """A size that a server wrote. str.isdigit is true of more than int reads."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _past_the_end(part: Path, offset: int, content_range: str | None) -> None:
    """HTTP 416: what is there already is the whole file, or not a piece of this file."""
    total = (content_range or "").rpartition("/")[2]
    if total == str(offset):
        return
    _discard(part)
    raise _Cut(f"the server has {total or 'fewer'} bytes and {offset} were here; starting over")


def _retry_after(headers: Any) -> float:
    value = str(headers.get("Retry-After", ""))
    return min(float(_number(value) or 0), 60.0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _notes(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _note(url: str, part: Path, headers: Any) -> None:
    """Remember which file of the server ``part`` is a piece of."""
    validator = headers.get("ETag") or headers.get("Last-Modified") or ""
    if validator.startswith("W/"):
        validator = ""  # a weak validator promises no equal bytes
    with _system(part):
        _notes(part).write_text(
            json.dumps({"url": without_secrets(url), "validator": validator}), encoding="utf-8"
        )


def _resumable(url: str, part: Path) -> tuple[int, str]:
    """How much of the file is there, and what proves that it is the same file."""
    try:
        notes = json.loads(_notes(part).read_text(encoding="utf-8"))
        same, validator = notes["url"] == without_secrets(url), str(notes["validator"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0, ""
    # It becomes a header: a damaged one is a hint that is not taken.
    whole = validator.isascii() and validator.isprintable()
    return (_size(part), validator) if same and validator and whole else (0, "")


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _notes(part).unlink(missing_ok=True)


def _room(part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise FileError(f"{part.parent}: {needed >> 20} MB needed, {free >> 20} MB free")


def _publish(part: Path, target: Path) -> None:
    """Give the file its name, and its digest a file that ``sha256sum -c`` reads."""
    digest = sha256_of(part)
    record = target.with_name(target.name + ".sha256")
    before = record.read_text(encoding="utf-8", errors="replace") if record.is_file() else digest
    if not before.startswith(digest):
        _log.warning("%s: other contents than at the download before", target.name)
    with open(part, "r+b") as file:
        os.fsync(file.fileno())  # before the rename: a crash must not leave the name on nothing
    os.replace(part, target)
    _notes(part).unlink(missing_ok=True)
    record.write_text(f"{digest}  {target.name}\n")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()
