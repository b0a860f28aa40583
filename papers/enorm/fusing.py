"""Random jobs, each fused in all ways: what the figures on fusion share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from optimizers.fusion.algorithms import (
    baseline,
    by_attributes,
    by_communication,
    by_rate_between,
)
from optimizers.fusion.components import Fusion
from optimizers.fusion.job import FusionJob
from optimizers.fusion.random_jobs import random_job
from papers.enorm.published import OPERATORS
from papers.parallel import Piece, kept
from papers.workspace import Workspace
from twin.randomness import child_seed, stream

Algorithm = Callable[[FusionJob, np.random.Generator], Fusion]

PUBLISHED: Mapping[str, Algorithm] = {
    "COMM": lambda job, _rng: by_communication(job),
    "PA": lambda job, _rng: by_attributes(job),
    "baseline": lambda job, rng: baseline(job, rng),
}
OURS: Mapping[str, Algorithm] = {
    "baseline, unfused only": lambda job, rng: baseline(job, rng, whole=False),
    "COMM between components": lambda job, _rng: by_rate_between(job),
    "COMM without circles": lambda job, _rng: by_communication(job, acyclic=True),
}
"""The other reading of the baseline, and two variants of Algorithm 1."""
ALGORITHMS = {**PUBLISHED, **OURS}

JOBS_A_PIECE = 100
ABOUT = (
    "Nothing here is measured or simulated: random jobs are fused, and what their transfers' rates say is counted. "
    "What is headed *paper* is published; its figures have no numbers."
)
NOTES = (
    (
        "Jobs as in Section 7, random subsets of 30 partition attributes. Open there: subsets grow or shrink by up to "
        "3 attributes from one operator to the next; what the last consumer does not get of 1,000 tuples is not sent."
    ),
    (
        "baseline: what it takes in may already be part of a component, which comes along. If only operators that are "
        "still alone count, it has more components than COMM, against what the paper reports."
    ),
    "COMM between components: the score is the rate between two components, not between two operators.",
    (
        "In a circle components send to each other, so that each waits for the timestamps of the others. The paper "
        "does not speak of it. COMM without circles merges only where no other path leads from one end to the other."
    ),
)


def outcomes(workspace: Workspace, jobs: int) -> dict[int, dict[str, dict[str, np.ndarray]]]:
    """By size and algorithm: components, communication, cyclic of each job, [jobs]; kept in the workspace."""
    pieces = [
        Piece(
            {"operators": size, "first": first, "jobs": (count := min(JOBS_A_PIECE, jobs - first))},
            _of(workspace, size, first, count),
        )
        for size in OPERATORS
        for first in range(0, jobs, JOBS_A_PIECE)
    ]
    found = kept(workspace, "enorm-fusion", fuse, pieces)
    together: dict[int, dict[str, dict[str, np.ndarray]]] = {}
    for size in OPERATORS:
        mine = [rows for piece, rows in zip(pieces, found, strict=True) if piece.key["operators"] == size]
        together[size] = {
            name: {key: np.concatenate([rows[name][key] for rows in mine]) for key in mine[0][name]}
            for name in ALGORITHMS
        }
    return together


def _of(workspace: Workspace, size: int, first: int, count: int) -> Callable[[], tuple[int, int, int, int]]:
    return lambda: (size, workspace.seed, first, count)


def fuse(operators: int, seed: int, first: int, count: int) -> dict[str, dict[str, list[float]]]:
    """Jobs `first`, `first` + 1, ... of a seed, under every algorithm."""
    keys = ("components", "communication", "cyclic")
    found: dict[str, dict[str, list[float]]] = {name: {key: [] for key in keys} for name in ALGORITHMS}
    for index in range(first, first + count):
        job = random_job(operators, child_seed(seed, index))
        for name, algorithm in ALGORITHMS.items():
            fusion = algorithm(job, stream(child_seed(seed, index), "fusion-baseline"))
            found[name]["components"].append(float(len(fusion.components)))
            found[name]["communication"].append(fusion.communication)
            found[name]["cyclic"].append(float(fusion.cyclic))
    return found


def means(
    found: Mapping[int, Mapping[str, Mapping[str, np.ndarray]]], key: str, paper: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """A row a size and algorithm: mean and standard error over the jobs, and what the paper says."""
    for size, by_algorithm in found.items():
        for name, values in by_algorithm.items():
            each = values[key]
            yield {
                "operators": size,
                "score": name,
                "mean": float(each.mean()),
                "standard_error": float(each.std(ddof=1) / np.sqrt(each.size)) if each.size > 1 else None,
                "paper": paper.get(name),
                "cyclic": float(values["cyclic"].mean()),
            }


def drawn(rows: list[dict[str, Any]], quantity: str) -> Any:
    """The paper's three and the fourth that the twin would use."""
    from figures.bars import bars

    shown = [row for row in rows if row["score"] in (*PUBLISHED, "COMM without circles")]
    table = {
        "group": [f"{row['operators']} operators" for row in shown],
        "series": [row["score"] for row in shown],
        "value": [row["mean"] for row in shown],
    }
    return bars(table, quantity)
