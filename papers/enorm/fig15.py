"""Enorm, Fig. 15: what fused random jobs still send from component to component; and how much less they could."""

from __future__ import annotations

from typing import Any

import numpy as np

from optimizers.fusion.exact import least_communication
from optimizers.fusion.random_jobs import random_job
from papers.enorm.fusing import ABOUT, ALGORITHMS, NOTES, drawn, means, outcomes
from papers.enorm.published import COMMUNICATION
from papers.interface import Experiment, Result, Table
from papers.parallel import Piece, kept
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.randomness import child_seed, stream

SMALL = (10, 20, 30)
"""Operators of jobs that are solved exactly."""
SOLVED_OF = 5
"""One of so many jobs of each size."""
LIMIT_S = 60.0

COLUMNS = {
    "operators": "operators",
    "score": "score",
    "mean": "communication",
    "standard_error": "standard error",
    "paper": "paper",
    "cyclic": "share with circles",
}
GAPS = {
    "operators": "operators",
    "score": "score",
    "mean": "communication",
    "least": "least possible",
    "gap": "gap",
    "worst": "largest gap",
    "optimal": "share without gap",
    "solved": "jobs solved",
}
OPTIMAL = 1e-6
"""Gaps that count as none: the tolerance of the solver."""

EXACT_NOTE = (
    f"The least possible is by integer programming, up to {LIMIT_S:g} s a job; jobs that take longer are left out. "
    "Like Algorithm 1 it allows circles, so that COMM without circles cannot reach it."
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """All algorithms on the same jobs; on smaller ones beside the exact solution."""
    rows = list(means(outcomes(workspace, sizes.n), "communication", COMMUNICATION))
    gaps = list(_gaps(workspace, max(1, sizes.n // SOLVED_OF)))
    tables = {
        "communication": Table(
            f"Share of all transfers between components, {sizes.n} random jobs a size", COLUMNS, tuple(rows)
        ),
        "gaps": Table("How far from the least possible, on jobs small enough for an exact solution", GAPS, tuple(gaps)),
    }
    figures = {"communication": lambda: drawn(rows, "share between components")}
    return Result(tables, figures, (*NOTES, EXACT_NOTE), ABOUT)


def _gaps(workspace: Workspace, jobs: int) -> list[dict[str, Any]]:
    rows = []
    for size in SMALL:
        pieces = [_piece(size, index, workspace.seed) for index in range(jobs)]
        proved = [each for each in kept(workspace, "enorm-exact", solve, pieces) if each["proved"]]
        rows += [_gap(size, name, proved, jobs) for name in ALGORITHMS] if proved else []
    return rows


def _piece(operators: int, index: int, seed: int) -> Piece:
    return Piece({"operators": operators, "job": index}, lambda: (operators, child_seed(seed, index)))


def solve(operators: int, seed: int) -> dict[str, Any]:
    """One job exactly, and by each algorithm: communication."""
    job = random_job(operators, seed)
    exact = least_communication(job, seconds=LIMIT_S)
    found = {name: each(job, stream(seed, "fusion-baseline")).communication for name, each in ALGORITHMS.items()}
    return {"proved": exact.proved, "least": exact.fusion.communication, **found}


def _gap(size: int, name: str, proved: list[dict[str, Any]], jobs: int) -> dict[str, Any]:
    mine, least = (np.array([each[key] for each in proved]) for key in (name, "least"))
    return {
        "operators": size,
        "score": name,
        "mean": float(mine.mean()),
        "least": float(least.mean()),
        "gap": float((mine - least).mean()),
        "worst": float((mine - least).max()),
        "optimal": float((mine - least <= OPTIMAL).mean()),
        "solved": f"{len(proved)} of {jobs}",
    }


FIG15 = Experiment(
    name="enorm.fig15",
    source="Enorm, Fig. 15, Section 7.6",
    summary="communication between components after automatic fusion of random jobs, by score, and the least possible",
    run=run,
)
