# SPDX-License-Identifier: Apache-2.0
"""Scenes and pairs as one HTML file that works without a network.

    from mast3r_runtime.viewer import write_html

    write_html("pair.html", result, [left, right])     # of engine.infer_gpu(left, right)
    write_html("scene.html", scene)                    # of mast3r_runtime.scene.reconstruct

The file needs a browser with WebGL 2 and nothing else: no server, no other file, no request.
"""

from __future__ import annotations

from ._output.html import Viewable, write_html
from ._output.page import Camera, Cloud, Matches, Page
from ._output.sources import pair_page, points_page

__all__ = ["Camera", "Cloud", "Matches", "Page", "Viewable", "pair_page", "points_page", "write_html"]
