# SPDX-License-Identifier: Apache-2.0
"""Writes values.txt: pickles of CPython, a name, a protocol and the bytes in hexadecimal a line."""

import argparse
import pickle
from collections import OrderedDict
from pathlib import Path, PurePosixPath

import numpy as np

shared = [1]
VALUES = {
    "none": None,
    "true": True,
    "false": False,
    "ints": [0, 255, 256, 65535, 65536, -1, 2**31, -(2**31), 2**63 - 1, -(2**63)],
    "floats": (0.1, -1e300),
    "text": "héllo ∞",
    "long_text": "x" * 300,
    "bytes": b"\x00\xff",
    "empties": ((), [], {}),
    "tuples": ((1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
    "dict": {"a": 1, 2: "b", None: True},
    "shared": [shared, shared],
    "ordered": OrderedDict(z=1, a=2),
    "namespace": argparse.Namespace(lr=0.5, names=["a"]),
    "array": np.array([[0, 1]], np.float32),
    "path": PurePosixPath("/a/b"),
    "scalar": np.float64(0.25),
}
lines = [f"{name} {p} {pickle.dumps(v, p).hex()}\n" for name, v in VALUES.items() for p in (2, 3, 4, 5)]
Path(__file__).with_name("values.txt").write_text("".join(lines))
