# SPDX-License-Identifier: Apache-2.0
"""``python -m mast3r_runtime``: the command line."""

import sys

from .cli import main

sys.exit(main())
