# SPDX-License-Identifier: Apache-2.0
"""Eager tensors on the GPU of a Mac, or the CPU: matrices, layers, small training jobs.

    import numpy as np
    import mast3r_runtime.tensor as mt

    with mt.Context("auto"):
        x = mt.tensor(np.ones((64, 256), np.float32))
        w = mt.tensor(np.ones((128, 256), np.float32))
        y = mt.linear(x, w, activation="gelu")  # one dispatch
        print((y * 2 + 1).numpy().shape)

Gradients are explicit calls: ``linear_backward``, ``conv2d_backward``, ``softmax_cross_entropy``
and so on. All operations are listed in docs/tensor-ops.md, advice is in docs/tensor.md.
"""

from __future__ import annotations

from ._eager import operations as _operations
from ._eager.context import (
    Commands,
    Context,
    Pool,
    PoolStats,
    Stats,
    Tensor,
    TensorLike,
    apply,
    operations,
    tensor,
)
from ._eager.executor import Executor, ExecutorStats, Graph
from ._eager.operations import *  # noqa: F403

__all__ = [
    "Commands",
    "Context",
    "Executor",
    "ExecutorStats",
    "Graph",
    "Pool",
    "PoolStats",
    "Stats",
    "Tensor",
    "TensorLike",
    "apply",
    "operations",
    "tensor",
    *_operations.__all__,
]
