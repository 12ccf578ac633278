# SPDX-License-Identifier: Apache-2.0
"""Solving, with its answer kept in the store: the same key points and options are not solved twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._store.store import Arrays, Store, key_of
from . import solver, uncertainty
from .model import F64, Lens, Model
from .problem import Problem, pycolmap
from .solver import Solved, Verified

__all__ = ["Answer", "solve"]

SOLVING = 5  # the way of solving; another number where a change gives other answers
KIND = "solved"


@dataclass(frozen=True)
class Answer:
    """What solving says: inliers of pairs, checked components, covariance by picture where asked for."""

    verified: Verified
    solved: Solved
    covariance: dict[int, F64]


def solve(
    store: Store,
    problem: Problem,
    mapper: str,
    covariance: bool,
    tick: Callable[[], None] = lambda: None,
    lap: Callable[[str], None] = lambda _: None,
    database: Path | None = None,
) -> Answer:
    """Verify pairs and solve, or take the answer from the store. ``lap`` is told what is done.

    Where COLMAP's ``database`` is to be kept, it is solved in any case: the store has none.
    """
    key = _key(problem, mapper, covariance)
    arrays = store.read_arrays(KIND, key) if database is None else None
    known = None if arrays is None else _unpacked(arrays)
    if known is not None:
        return known
    verified = solver.verify(problem, tick)
    lap("verify")
    solved = solver.solve(problem, verified, mapper, database)
    answer = Answer(verified, solved, uncertainty.poses(problem, solved) if covariance else {})
    store.write_arrays(KIND, key, _packed(answer))
    return answer


def _key(problem: Problem, mapper: str, covariance: bool) -> str:
    """All that decides the answer; of the threads only whether there is one, which fixes the bits."""
    digest = hashlib.sha256()
    for xy in problem.keys.xy:
        digest.update(np.int64(len(xy)).tobytes() + np.ascontiguousarray(xy).tobytes())
    for (i, j), numbers in sorted(problem.keys.matches.items()):
        digest.update(np.array([i, j, len(numbers)]).tobytes() + np.ascontiguousarray(numbers).tobytes())
    lenses = [_row(lens) for lens in problem.lenses]
    others = [[c, _row(lens)] for c, lens in sorted(problem.others.items())]
    return key_of(
        KIND, SOLVING, pycolmap().__version__, digest.hexdigest(), lenses, list(problem.camera_of),
        sorted(problem.fixed), sorted(problem.known.items()), list(problem.network_pixel), problem.seed,
        problem.threads == 1, problem.least, mapper, covariance,
        [[i, np.asarray(pose).tolist()] for i, pose in sorted(problem.poses.items())], problem.fix_poses,
        sorted(problem.turned), sorted(problem.open), others,
    )  # fmt: skip


def _row(lens: Lens) -> list[Any]:
    return [lens.model, lens.width, lens.height, lens.params]


def _packed(answer: Answer) -> dict[str, npt.ArrayLike]:
    v, s = answer.verified, answer.solved
    facts = {
        "reasons": s.reasons,
        "unstable": s.unstable,
        "notes": s.notes,
        "models": [
            {"mapper": m.mapper, "lenses": [_row(lens) for lens in m.lenses]}
            for m in s.models
        ],
    }
    out: dict[str, npt.ArrayLike] = {
        "pairs": np.array(
            [(*p, v.matches[p], n, p in v.contradicted) for p, n in v.inliers.items()], np.int64
        ).reshape(-1, 5),
        "facts": json.dumps(facts),
        "covariance_of": np.array(sorted(answer.covariance), np.int64),
        "covariance": np.array([answer.covariance[i] for i in sorted(answer.covariance)]).reshape(-1, 6, 6),
    }
    for k, m in enumerate(s.models):
        for name in ("pictures", "poses", "points", "colours", "seen", "seen_by", "seen_at"):
            out[f"{name}_{k}"] = getattr(m, name)
    return out


def _unpacked(arrays: Arrays) -> Answer | None:
    """The answer, None where the facts are not those of one. The store has looked at the arrays."""
    try:
        return _answer(arrays, json.loads(str(arrays["facts"])))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None


def _answer(arrays: Arrays, facts: dict[str, Any]) -> Answer:
    verified = Verified()
    for i, j, matches, inliers, contradicted in arrays["pairs"].tolist():
        verified.matches[i, j], verified.inliers[i, j] = matches, inliers
        if contradicted:
            verified.contradicted.add((i, j))
    models = []
    for k, row in enumerate(facts["models"]):
        lenses = tuple(Lens(name, w, h, tuple(params)) for name, w, h, params in row["lenses"])
        models.append(
            Model(
                arrays[f"pictures_{k}"],
                arrays[f"poses_{k}"],
                lenses,
                arrays[f"points_{k}"],
                arrays[f"colours_{k}"],
                arrays[f"seen_{k}"],
                arrays[f"seen_by_{k}"],
                arrays[f"seen_at_{k}"],
                row["mapper"],
            )  # fmt: skip
        )
    solved = Solved(
        models,
        {int(k): why for k, why in facts["unstable"].items()},
        {int(i): why for i, why in facts["reasons"].items()},
        notes=list(map(str, facts["notes"])),
    )
    return Answer(verified, solved, dict(zip(arrays["covariance_of"].tolist(), arrays["covariance"])))
