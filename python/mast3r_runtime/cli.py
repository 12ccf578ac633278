# SPDX-License-Identifier: Apache-2.0
"""The command line: ``mast3r VERB``. Only it and ``_commands`` print.

Exit status 0: done; 1: it failed, with one line on stderr; 2: the command was not understood.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence

from ._commands import collection, files, machine, pair, profile
from ._version import __version__
from .errors import Mast3rError

__all__ = ["benchmark_main", "download_main", "info_main", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status."""
    arguments = _parser().parse_args(argv)
    level = os.environ.get("MAST3R_RUNTIME_LOG", "warning").upper()
    logging.basicConfig(stream=sys.stderr, format="%(name)s: %(levelname)s: %(message)s")
    try:
        logging.getLogger("mast3r_runtime").setLevel(level)
    except ValueError:
        return _failed(f"MAST3R_RUNTIME_LOG={level!r}, want debug, info, warning or error")
    verb: Callable[[argparse.Namespace], int] = arguments.verb
    try:
        return verb(arguments)
    except (Mast3rError, OSError, ValueError) as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        return _failed("interrupted")


def info_main() -> int:
    """``mast3r-info``: an older name of ``mast3r info``."""
    return main(["info", *sys.argv[1:]])


def benchmark_main() -> int:
    """``mast3r-benchmark``: an older name of ``mast3r benchmark``."""
    return main(["benchmark", *sys.argv[1:]])


def download_main() -> int:
    """``mast3r-download``: an older name of ``mast3r download``."""
    return main(["download", *sys.argv[1:]])


def _failed(text: str) -> int:
    print(f"mast3r: {text}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mast3r", description="Two pictures in; points, confidences, descriptors and matches out."
    )
    parser.add_argument("--version", action="version", version=f"mast3r {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text)
        sub.set_defaults(verb=run)
        return sub

    for family in (pair, machine, files, collection, profile):
        family.add(verb)
    return parser
