# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of the model card from what evaluate.py measured.

    python card.py FIGURES.json HALF.json

FIGURES.json and HALF.json are what `evaluate.py --backend runtime --sift --json` wrote in fp32 and in
fp16. They are kept in card.json beside those of the other model in the wheel, and the tables between
the marks in docs/model-card.md are made of them. A test compares both, and the figures in the model
files, with each other.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from evaluate import THRESHOLDS

HERE = Path(__file__).parent
DOCUMENT, KEPT = HERE.parent / "docs/model-card.md", HERE / "card.json"

Figures = dict[str, dict[str, float]]

TURNS = {  # of evaluate.TURNS
    "turned 45 times 1": "turned by 45 degrees",
    "turned 90 times 0.9": "turned by 90 degrees",
    "turned 180 times 1": "turned by 180 degrees",
    "turned 6 times 2": "enlarged twice",
    "turned 6 times 3": "enlarged three times",
}
PHOTOGRAPHS = {
    "zoom x2": "enlarged twice",
    "zoom x3": "enlarged three times",
    "zoom x4": "enlarged four times",
    "rotation 90": "turned by 90 degrees",
    "rotation 180": "turned by 180 degrees",
    "graf": "graf, both ways",
    "stereo": "stereo",
    "turned stereo": "turned stereo",
    "chess": "chessboards",
    "box": "box",
}
WANTED = {(section, figure): value for section, figure, _, value in THRESHOLDS}
MOTORCYCLE = ("motorcycle 256x176", "motorcycle 512x352")
GOALS = (  # what is asked for, of which sections, by which figures
    ("synthetic near, mutual 3 px, of the pixels", ("synthetic near 256x192",), ("mutual", "mutual_share")),
    ("motorcycle at 256 and 512, mutual 3 px", MOTORCYCLE, ("mutual",)),
    ("motorcycle at 256 and 512, correlation of inverse depth", MOTORCYCLE, ("inverse_depth",)),
    ("raw 3 px at 512, enlarged x2, x3, x4", ("512: zoom x2", "512: zoom x3", "512: zoom x4"), ("raw_p3",)),
    ("raw 3 px at 512, turned by 90, 180 degrees", ("512: rotation 90", "512: rotation 180"), ("raw_p3",)),
    ("box, right matches", ("512: box",), ("raw_right",)),
    ("focal length off: median, nine of ten", ("512: focal",), ("median", "p90")),
    ("stereo at 512: median depth error", ("512: stereo",), ("depth_error",)),
    ("synthetic near, median point error of both views", ("synthetic near 256x192",), ("points1", "points2")),
)


def share(row: dict[str, float], figure: str) -> str:
    """A share of right matches, and in brackets that of the pixels."""
    return f"{row[figure]:.3f} ({row[f'{figure}_share']:.2f})"


def shape(row: dict[str, float]) -> str:
    if "points1" in row:
        return f"{row['points1']:.3f} / {row['points2']:.3f}"
    return f"{row['inverse_depth']:.3f}" if "inverse_depth" in row else ""


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(line) + " |" for line in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def truth(kept: dict[str, Figures]) -> str:
    half, rows = kept["small fp16"], []
    for name, row in kept["small"].items():
        if "strict" in row and "all" in row and "turned" not in name and "identity" not in name:
            other = "; ".join(v for v in (f"{half[name]['mutual']:.3f}", shape(half[name])) if v)
            rows.append((
                name, f"{row['all']:.3f}", share(row, "mutual"), share(row, "strict"), shape(row), other,
                f"{row['same_pixel']:.3f}",
            ))  # fmt: skip
    head = (
        "pair",
        "all",
        "mutual",
        "strict",
        "points, or inverse depth",
        "float16: mutual; points",
        "same pixel",
    )
    return table(head, rows)


def without_truth(kept: dict[str, Figures]) -> str:
    head = (
        "pair",
        "strict matches, share of the grid",
        "of them with `desc_conf` > 1.001",
        "median `desc_conf`",
    )
    rows = []
    for name in ("identity 256x176", "box 256", "box 512", "no overlap 256x176"):
        row = kept["small"][name]
        rows.append(
            (name, *(f"{row[k]:.3f}" for k in ("strict_share", "sure_share")), f"{row['desc_conf']:.1f}")
        )
    return table(head, rows)


def turned(kept: dict[str, Figures]) -> str:
    full = kept["small"]
    rows = [
        (to, share(full[f"coffee {t}"], "mutual"), share(full[f"chelsea {t}"], "mutual"))
        for t, to in TURNS.items()
    ]
    return table(("second view", "coffee", "cat"), rows)


def photographs(kept: dict[str, Figures]) -> str:
    rows = []
    for name, to in PHOTOGRAPHS.items():
        row = kept["small"][f"512: {name}"]
        cells = [
            f"{row[f'{m}_p3']:.3f} ({row[f'{m}_cover']:.2f})" if row.get(f"{m}_n") else "none"
            for m in ("raw", "sift", "magsac", "sift_magsac")
        ]
        rows.append((to, f"{row['pairs']:.0f}", *cells))
    return table(("set", "pairs", "raw", "SIFT", "raw + MAGSAC", "SIFT + MAGSAC"), rows)


def goals(kept: dict[str, Figures]) -> str:
    def written(values: list[float]) -> str:
        return ", ".join(f"{v:.3f}" if v < 1 and v else f"{v:.0f}" for v in values)

    rows = []
    for what, sections, figures in GOALS:
        asked = [(section, figure) for section in sections for figure in figures]
        measured = (written([model[s][f] for s, f in asked]) for model in (kept["small"], kept["tiny"]))
        rows.append((what, written([WANTED[a] for a in asked]), *measured))
    return table(("", "wanted", "`mast3r_small`", "`mast3r_tiny`"), rows)


TABLES = {
    "truth": truth,
    "without-truth": without_truth,
    "turned": turned,
    "photographs": photographs,
    "goals": goals,
}


def fill(document: str, kept: dict[str, Figures]) -> str:
    """The document with each table between `<!-- card.py: NAME -->` and `<!-- end -->` made anew."""
    for name, make in TABLES.items():
        begin = f"<!-- card.py: {name} -->\n"
        if document.count(begin) != 1:
            raise ValueError(f"card: {document.count(begin)} marks {begin.strip()!r}, want 1")
        body = make(kept)
        pattern = re.escape(begin) + r".*?<!-- end -->"
        document = re.sub(
            pattern, lambda _, b=begin, t=body: f"{b}\n{t}\n\n<!-- end -->", document, flags=re.S
        )
    return document


def main() -> None:
    full, half = (json.loads(Path(path).read_text()) for path in sys.argv[1:])
    kept = json.loads(KEPT.read_text()) | {"small": full, "small fp16": half}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    DOCUMENT.write_text(fill(DOCUMENT.read_text(), kept))


if __name__ == "__main__":
    main()
