# SPDX-License-Identifier: Apache-2.0
"""Thousands of pictures: pairs matched into a store by one process, many, or many machines.

:func:`run_pairs` gives the work to a ``dask.distributed.Client``, to :class:`Workers` of this
machine, or does it in this process. What is in the store is never computed again. See
``docs/many-pictures.md``.
"""

from __future__ import annotations

from ._pairs.driver import Failure, Progress
from ._pairs.local import WorkerDied, Workers
from ._pairs.run import Report, run_pairs
from ._pairs.task import SetupError

__all__ = ["Failure", "Progress", "Report", "SetupError", "WorkerDied", "Workers", "run_pairs"]
