# SPDX-License-Identifier: Apache-2.0
"""The parser of every verb, and what becomes of their errors; public as :mod:`mast3r_runtime.cli`."""

from __future__ import annotations

import argparse
import errno
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from .._library.version import __version__
from ..errors import DependencyError, Mast3rError, StoreError, shown, without_secrets
from . import collection, files, machine, many, pair, profile, scene, views

__all__ = ["benchmark_main", "download_main", "info_main", "main"]

FULL = 5  # exit status: there is no space, or the store cannot be written
_NO_SPACE = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
INTERRUPTED = 130  # what shells say of a command that Ctrl-C ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status.

    Args:
        argv: The words after the command's name. Those of this process, which then ends, without.
    """
    arguments = _parser().parse_args(argv)
    level = os.environ.get("MAST3R_RUNTIME_LOG", "warning").upper()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Plain("%(name)s: %(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
    try:
        logging.getLogger("mast3r_runtime").setLevel(level)
    except ValueError:
        return _failed(f"MAST3R_RUNTIME_LOG={level!r}, want debug, info, warning or error")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot show is no failure
            stream.reconfigure(errors="backslashreplace")
    verb: Callable[[argparse.Namespace], int] = arguments.verb
    try:
        status = verb(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        return _unread()
    except DependencyError as error:
        return _failed(str(error), 2)
    except OSError as error:
        if _is_full(error):
            return _failed(str(error), FULL)
        if isinstance(error, Mast3rError) or not error.strerror:
            return _failed(str(error))
        if os.name == "nt" and error.errno == errno.EINVAL and error.filename is None:
            return _unread()  # what Windows says of a pipe that nobody reads
        where = f"{error.filename}: " if error.filename else ""
        return _failed(f"{where}{error.strerror}")
    except (Mast3rError, ValueError) as error:
        return _failed(str(error))
    except MemoryError:
        return _failed("out of memory")
    except KeyboardInterrupt as error:
        if argv is None:
            # Python restores the system's handler as it ends; one more Ctrl-C would then kill
            # this process, and its status would no longer be this one.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return _failed(str(error) or "interrupted", INTERRUPTED)


def info_main() -> int:
    """``mast3r-info``: an older name of ``mast3r info``."""
    return main(["info", *sys.argv[1:]])


def benchmark_main() -> int:
    """``mast3r-benchmark``: an older name of ``mast3r benchmark``."""
    return main(["benchmark", *sys.argv[1:]])


def download_main() -> int:
    """``mast3r-download``: an older name of ``mast3r download``."""
    return main(["download", *sys.argv[1:]])


def _is_full(error: BaseException | None) -> bool:
    """Whether it came of a full disk, or of a store that cannot be written."""
    while error is not None:
        if isinstance(error, StoreError):
            return True
        if isinstance(error, OSError) and error.errno in _NO_SPACE:
            return True
        error = error.__cause__
    return False


def _unread() -> int:
    """Whoever read has enough, as ``| head -1`` has. Nothing may be written at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + 13


def _failed(text: str, status: int = 1) -> int:
    print(f"mast3r: {shown(without_secrets(text), lines=True)}", file=sys.stderr)
    return status


class _Parser(argparse.ArgumentParser):
    """A parser whose errors show no secret of a URL among the words that it does not know."""

    def error(self, message: str) -> NoReturn:
        super().error(without_secrets(message))


class _Plain(logging.Formatter):
    """Lines without what a terminal obeys: names of files are in them."""

    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record), lines=True)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mast3r", description="Two pictures in; points, confidences, descriptors and matches out."
    )
    parser.add_argument("--version", action="version", version=f"mast3r {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text)
        sub.set_defaults(verb=run)
        return sub

    for family in (pair, scene, views, machine, files, collection, many, profile):
        family.add(verb)
    return parser
