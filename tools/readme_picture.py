# SPDX-License-Identifier: Apache-2.0
"""Makes the README's picture from a demo's output: python tools/readme_picture.py out docs/images"""

import json
import sys
from pathlib import Path

from PIL import Image

from mast3r_runtime._commands import demo
from mast3r_runtime._output import drawing


def main(out: Path, target: Path) -> None:
    room = out / "room"
    rated = demo.Score(**json.loads((room / "score.json").read_text()))
    truth = demo.room()
    assert truth.depth is not None
    rows = [
        [("matches", Image.open(room / "matches.png"))],
        [
            ("depth", Image.open(room / "depth.png")),
            ("true depth", drawing.depth_map(truth.depth)),
            ("points of both pictures", Image.open(room / "cloud.png")),
        ],
    ]
    drawing.contact_sheet(rows, notes=[rated.text()]).save(target / "room.jpg", quality=85, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
