"""ALBIC, Fig. 8: what a limit on migrations costs in balance, on Real Job 1, simulated. `fig9` has what it saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from papers.albic.real_job_1 import FIRST, JOB, course, drawn, policy, rounds_of
from papers.interface import Experiment, Result, Table
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.scenario import Scenario

LIMITS: Mapping[str, int] = {"5": 5, "10": 10, "20": 20, "no limit": 300}
"""Migrations a round; the job has 300 key groups."""

COLUMNS = {
    "limit": "migrations a round, at most",
    "planned": "load distance after migrations, mean",
    "planned_most": "load distance after migrations, highest",
    "found": "load distance a round later, mean",
    "migrations": "migrations a round",
    "pauses": "pauses of key groups together, a round (s)",
}
NOTES = (
    (
        f"{JOB} of the library, as in albic.fig6: rounds of five simulated minutes, the first {FIRST} left out of the "
        "table."
    ),
    (
        "Balanced by the search without a band: without a limit it moves whatever makes hosts still more even. Key "
        "groups that travel between the same replicas travel together and pause as long."
    ),
    (
        "The paper's key groups pause for 2.5 s each, ours for as long as their state takes on this network; how "
        "pauses grow with the limit is what compares."
    ),
)


def courses(workspace: Workspace, sizes: Sizes) -> dict[str, dict[str, list[float]]]:
    """Every limit on the same input."""
    found, rounds = dict[str, dict[str, list[float]]](), rounds_of(sizes)
    with workspace.audience.progress("courses") as report:
        for name, limit in LIMITS.items():
            key = {"limit": limit, "rounds": rounds}
            compute = partial(course, partial(limited, limit), workspace.seed, rounds)
            found[name] = workspace.cached("albic-fig8", key, compute)
            report(len(found), len(LIMITS))
    return found


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """Load distances; what they take beside them."""
    found = courses(workspace, sizes)
    rows = tuple(_row(name, each) for name, each in found.items())
    figures: dict[str, Callable[[], Any]] = {
        "quality": partial(drawn, {name: each["planned"] for name, each in found.items()})
    }
    title = f"Real Job 1 by limit on migrations, {rounds_of(sizes)} rounds"
    return Result({"limits": Table(title, COLUMNS, rows)}, figures, NOTES)


def limited(limit: int, job: Scenario) -> Scenario:
    """The job, balanced with at most so many migrations a round."""
    return job.with_policy(policy("balance", max_migrations=limit, band=0.0))


def _row(name: str, found: Mapping[str, list[float]]) -> dict[str, Any]:
    later = {key: values[FIRST:] for key, values in found.items()}
    means = {key: float(np.mean(later[key])) for key in ("planned", "found", "migrations", "pauses")}
    return {"limit": name, "planned_most": max(later["planned"]), **means}


FIG8 = Experiment(
    name="albic.fig8",
    source="ALBIC, Fig. 8, Section 5.2.2",
    summary="load distance of Real Job 1 by the limit on migrations, simulated",
    run=run,
)
