# SPDX-License-Identifier: Apache-2.0
"""The engines: :mod:`._mps` (Metal where there is one, else the CPU) and :mod:`._cpu`."""
