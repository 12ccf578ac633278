# SPDX-License-Identifier: Apache-2.0
"""What is to say about a pair: lines of text, and the matches drawn by how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._output import drawing
from ..errors import Mast3rError

__all__ = ["drawn", "line", "pose_text", "sentence"]


def sentence(matches: Any) -> str:
    """What the matches say, in a line."""
    overlap = matches.overlap
    refined = int(matches.refined.sum())
    return f"overlap {overlap.verdict}, {int(matches.consistent.sum())} consistent, {refined} refined"


def line(result: Any, matches: Any, focals: Sequence[float | None] = (None, None)) -> str:
    """Verdict, inliers, pose and focal length in one line; ``focals`` in pixels, where EXIF has them."""
    try:
        found = result.cameras(matches, focal_1=focals[0], focal_2=focals[1])
        said = pose_text(found).splitlines()
    except Mast3rError as error:
        return f"{sentence(matches)}; no pose: {error}"
    return "; ".join([sentence(matches), *said[:1], *(text.split(";")[0] for text in said[1:2])])


def drawn(image_1: Any, image_2: Any, matches: Any, epipolar: bool, caption: str) -> Any:
    """The matches, sure ones bright: a standard deviation of a tenth of a network pixel is sure."""
    pixel = max(matches.transform_2.scale)
    off = np.sqrt(np.maximum(matches.covariance[:, 0, 0], matches.covariance[:, 1, 1])) / pixel
    return drawing.matches(
        image_1,
        image_2,
        matches.original_1,
        matches.original_2,
        certainty=np.where(matches.refined, 1 - np.clip((off - 0.1) / 0.4, 0, 1), 0.0),
        fundamental=matches.overlap.fundamental if epipolar else None,
        caption=caption,
    )


def pose_text(found: Any) -> str:
    """Lines about the cameras of a pair."""
    if found.pose is None:
        return f"no pose: {found.reason}"
    turn = np.degrees(np.arccos(np.clip((np.trace(found.pose[:3, :3]) - 1) / 2, -1, 1)))
    x, y, z = found.pose[:3, 3]
    lines = [f"camera 2 is turned by {turn:.2f} +- {found.turn_interval:.2f} degrees"]
    if not found.turn_only:
        lines[0] += f" and lies at ({x:.3f}, {y:.3f}, {z:.3f}) +- {found.direction_interval:.2f} degrees"
        if found.scale is not None:
            lines[0] += f" times {found.scale:.3g} m (a guess)"
    focal = found.intrinsics_1[0, 0]
    spread = f" +- {1.96 * 100 * found.focal_sigma[0]:.1f} %" if found.focal_sigma[0] else ""
    lines.append(
        f"focal length {focal:.1f} px{spread} ({found.intrinsics_source}); {len(found.inliers)} inliers, "
    )
    lines[-1] += f"{found.rms:.2f} px from the epipolar lines; by {found.estimator}"
    lines += [f"note: {text}" for text in found.warnings]
    return "\n".join(lines)
