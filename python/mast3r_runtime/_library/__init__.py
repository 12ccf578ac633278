# SPDX-License-Identifier: Apache-2.0
"""The native library: ctypes lives here and nowhere else."""
