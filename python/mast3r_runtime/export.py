# SPDX-License-Identifier: Apache-2.0
"""Results as files: npz, and coloured point clouds as PLY and GLB through trimesh.

Every file is written beside its final name and renamed, so that no half-written file is
ever seen under that name.
"""

from __future__ import annotations

from ._output.export import (
    KEEP,
    RESULT_FILES,
    Picture,
    coloured_points,
    from_linear,
    network_pixels,
    write_npz,
    write_png,
    write_points,
    write_result,
)

__all__ = [
    "KEEP",
    "RESULT_FILES",
    "Picture",
    "coloured_points",
    "from_linear",
    "network_pixels",
    "write_npz",
    "write_png",
    "write_points",
    "write_result",
]
