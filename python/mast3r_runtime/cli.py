# SPDX-License-Identifier: Apache-2.0
"""The command line: ``mast3r VERB``. Only it and ``_commands`` print.

Exit status 0: done; 1: it failed, with one line on stderr; 2: the command was not understood, or a
package that it needs is not installed; 3 and 4: see ``localize`` and ``reconstruct --strict``;
5 and 6: see ``batch``; 130: Ctrl-C.
"""

from __future__ import annotations

from ._commands.main import benchmark_main, download_main, info_main, main

__all__ = ["benchmark_main", "download_main", "info_main", "main"]
