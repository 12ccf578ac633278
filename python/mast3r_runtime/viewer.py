# SPDX-License-Identifier: Apache-2.0
"""Scenes and pairs as one HTML file that works without a network.

    from mast3r_runtime.viewer import write_html

    write_html("pair.html", result, [left, right])     # of engine.infer_gpu(left, right)
    write_html("scene.html", scene)                    # of mast3r_runtime.scene.reconstruct
    serve(scene.page())                                # by viser, on this machine (extra ``viewer``)

The file needs a browser with WebGL 2 and nothing else: no server, no other file, no request.
"""

from __future__ import annotations

from ._output.html import Viewable, write_html
from ._output.live import serve
from ._output.page import Camera, Cloud, Matches, Page
from ._output.sources import pair_page, points_page, result_page

__all__ = [
    "Camera",
    "Cloud",
    "Matches",
    "Page",
    "Viewable",
    "pair_page",
    "points_page",
    "result_page",
    "serve",
    "write_html",
]
