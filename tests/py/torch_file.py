# SPDX-License-Identifier: Apache-2.0
"""Writes files as torch.save does, without PyTorch."""

from __future__ import annotations

import argparse
import io
import pickle
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ARGS = (
    "AsymmetricMASt3R(pos_embed='RoPE100', img_size=(512, 512), head_type='catmlp+dpt', "
    "output_mode='pts3d+desc24', depth_mode=('exp', -inf, inf), conf_mode=('exp', 1, inf), "
    "two_confs=True, desc_conf_mode=('exp', 0, inf), landscape_only=False)"
)
STORAGES = {"float32": "FloatStorage", "float64": "DoubleStorage", "float16": "HalfStorage"}


@contextmanager
def fake_torch() -> Iterator[types.ModuleType]:
    """Modules with the names that a pickle of tensors mentions."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def _rebuild_tensor_v2() -> None:
        raise NotImplementedError

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2  # type: ignore[attr-defined]
    torch._utils = utils  # type: ignore[attr-defined]
    for name in STORAGES.values():
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules |= {"torch": torch, "torch._utils": utils}
    try:
        yield torch
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


class _Storage:
    def __init__(self, key: str, array: np.ndarray) -> None:
        self.key, self.array = key, array


class _Tensor:
    """Pickles as a call of _rebuild_tensor_v2 on a whole storage."""

    def __init__(self, storage: _Storage) -> None:
        self.storage = storage

    def __reduce__(self) -> Any:
        array = self.storage.array
        stride = tuple(s // array.itemsize for s in array.strides)
        rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2
        return rebuild, (self.storage, 0, array.shape, stride, False, OrderedDict())


class _Pickler(pickle.Pickler):
    def persistent_id(self, thing: object) -> Any:
        if not isinstance(thing, _Storage):
            return None
        kind = getattr(sys.modules["torch"], STORAGES[thing.array.dtype.name])
        return ("storage", kind, thing.key, "cpu", thing.array.size)


def save(path: Path, tensors: Mapping[str, np.ndarray], **top: Any) -> None:
    """Write ``{"model": tensors, **top}``; arrays that are one object share a storage."""
    storages: dict[int, _Storage] = {}
    model = OrderedDict()
    for name, array in tensors.items():
        array = np.ascontiguousarray(array)
        storage = storages.setdefault(id(tensors[name]), _Storage(str(len(storages)), array))
        model[name] = _Tensor(storage)
    body = io.BytesIO()
    with fake_torch():
        _Pickler(body, 2).dump({**top, "model": model})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", body.getvalue())
        archive.writestr("archive/byteorder", "little")
        for storage in storages.values():
            archive.writestr(f"archive/data/{storage.key}", storage.array.tobytes())
        archive.writestr("archive/version", "3\n")


def arguments(model: str = ARGS, **others: Any) -> argparse.Namespace:
    """What a training script leaves in ``args``."""
    return argparse.Namespace(model=model, lr=1e-4, **others)
