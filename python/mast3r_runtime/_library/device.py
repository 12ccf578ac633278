# SPDX-License-Identifier: Apache-2.0
"""Which backend computes: the rule, in one place, and what a native engine says about itself."""

from __future__ import annotations

import os
import re
from typing import Any

from ..errors import Mast3rError
from . import calls
from . import structs as S

__all__ = ["BACKENDS", "available", "backend_wanted", "create", "info_of", "known"]

BACKENDS = ("auto", "metal", "cuda", "cpu")
"""What may be asked for, best first; ``cuda:1`` and so on name one GPU of several."""


def backend_wanted(preferred: str) -> str:
    """Return the backend to ask the library for.

    A backend asked for by name is insisted on. ``auto`` is what MAST3R_BACKEND says, else Metal
    where it can run the model, else CUDA, else the CPU, with the reason in ``fallback_reason``.
    """
    if preferred != "auto":
        return preferred
    wanted = os.environ.get("MAST3R_BACKEND", "").strip().lower() or "auto"
    if not known(wanted):
        raise ValueError(f"MAST3R_BACKEND={wanted!r}, want one of {', '.join(BACKENDS)}, cuda:N")
    return wanted


def known(backend: str) -> bool:
    """Whether a name is that of a backend: one of BACKENDS, or ``cuda:`` and a number."""
    return backend in BACKENDS or re.fullmatch(r"cuda:\d{1,2}", backend) is not None


def create(
    backend: str, variant: str = "auto", resolution: int = 0, precision: str = "auto", threads: int = 0
) -> int:
    """Create a native engine on exactly this backend and return its handle."""
    config = S.struct(
        S.Config,
        resolution=calls.int32("resolution", resolution),
        threads=calls.int32("num_threads", threads),
        variant=calls.text("variant", variant),
        precision=calls.text("precision", precision),
        backend=calls.text("backend", backend),
    )
    handle = S.Handle()
    calls.call("mast3r_engine_create", config, handle)
    return int(handle.value)


def info_of(handle: int) -> dict[str, Any]:
    """Everything the library says about an engine, texts decoded."""
    info = S.struct(S.Info)
    calls.call("mast3r_engine_info", handle, info)
    skip = {"size", "reserved"}
    values = {name: getattr(info, name) for name, *_ in info._fields_ if name not in skip}
    texts = {k: v.decode("utf-8", "replace") for k, v in values.items() if isinstance(v, bytes)}
    return {**values, **texts, "outputs": tuple(texts["outputs"].split())}


def available(backend: str) -> str:
    """Return "" when the backend can run here, else the reason why not."""
    try:
        calls.release("mast3r_engine_close", create(backend))
    except Mast3rError as error:
        return str(error) or type(error).__name__
    return ""
