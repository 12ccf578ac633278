# SPDX-License-Identifier: Apache-2.0
"""Eager tensors: contexts and tensors, one function an operation, and small graphs."""

from .context import Stats, Tensor

__all__ = ["Stats", "Tensor"]  # what 0.1.0 pickled is looked up here
