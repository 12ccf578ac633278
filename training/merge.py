# SPDX-License-Identifier: Apache-2.0
"""Joins the parts that train.py wrote into one model file.

    python merge.py FOLDER OUT.safetensors [--figures FIGURES.json]

FIGURES.json is what evaluate.py --json wrote; its thresholds' figures go
into the file's metadata in place of the quick ones of the training run.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mast3r_torch import weights

KEPT = (
    "mutual",
    "mutual_share",
    "strict",
    "strict_share",
    "points1",
    "points2",
    "inverse_depth",
    "sure_share",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--figures", type=Path)
    args = parser.parse_args()
    extra = {}
    if args.figures:
        measured = json.loads(args.figures.read_text())
        short = {name: {k: row[k] for k in KEPT if k in row} for name, row in measured.items()}
        extra["figures"] = json.dumps(short)
    meta = weights.merge_parts(args.folder, args.out, extra)
    size, run = args.out.stat().st_size, meta["training_run"]
    print(f"{args.out}: {size} bytes, run {run!r}, {meta['training_steps']} steps")


if __name__ == "__main__":
    main()
