# SPDX-License-Identifier: Apache-2.0
"""Writes the mean of the weights of several models of one shape: a start for a run.

python mean.py OUT.safetensors A.safetensors B.safetensors ...
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from mast3r_torch import weights


def mean(paths: list[Path], out: Path) -> dict[str, str]:
    """Equal shares of each; returns the metadata written, which name the runs behind them."""
    read = [weights.read(path) for path in paths]
    dims = [weights.dims_from_metadata(meta) for _, meta in read]
    if other := next((k for k, d in enumerate(dims) if d != dims[0]), 0):
        raise ValueError(f"mean: {paths[other]} has {dims[other]}, want those of {paths[0]}: {dims[0]}")
    tensors = {k: torch.stack([t[k].float() for t, _ in read]).mean(0) for k in read[0][0]}
    runs = " and ".join(meta.get("training_run", "unknown") for _, meta in read)
    meta = {**read[0][1], "training_run": f"mean of {runs}", "training_steps": "0", "figures": "{}"}
    weights.save(tensors, out, meta)
    return meta


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    args = parser.parse_args()
    print(f"{args.out}: {mean(args.models, args.out)['training_run']}")


if __name__ == "__main__":
    main()
