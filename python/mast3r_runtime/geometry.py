# SPDX-License-Identifier: Apache-2.0
"""The cameras of a pair from matched places: relative pose, focal lengths, their uncertainty.

Everything here is in pixels of the pictures as given, centres at whole numbers. A camera's
axes are x right, y down, z forward; a pose takes camera 2's coordinates to camera 1's,
``X_1 = R X_2 + t``. Nothing but numpy is needed; see :func:`relative_pose` for what poselib
and pycolmap do where they are installed.
"""

from __future__ import annotations

from ._results.geometry import PairPose, dependence, exif_focal, network_focal, pair_cameras, relative_pose

__all__ = [
    "PairPose",
    "dependence",
    "exif_focal",
    "network_focal",
    "pair_cameras",
    "relative_pose",
]
