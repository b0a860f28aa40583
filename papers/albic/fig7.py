"""ALBIC, Fig. 7: the migrations that each way of Fig. 6 takes on Real Job 1, simulated, round after round."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from papers.albic.fig6 import courses
from papers.albic.real_job_1 import FIRST, JOB, MIGRATIONS, drawn, rounds_of
from papers.interface import Experiment, Result, Table
from papers.sizes import Sizes
from papers.workspace import Workspace

MOVING = ("Flux", "search (ours)", "MILP")
COLUMNS = {
    "way": "way",
    "first": f"migrations in the first {FIRST} rounds",
    "mean": "migrations a round later on, mean",
    "most": "migrations in a round later on, most",
    "at_limit": "rounds later on that take all that are allowed (%)",
    "pauses": "pauses of key groups together, a round (s)",
}
NOTES = (
    (
        f"The courses of albic.fig6: {JOB}, rounds of five simulated minutes, at most {MIGRATIONS} "
        "migrations in each. Two choices never migrate, and merge instead; what that costs is in albic.fig6."
    ),
    (
        "Published without numbers, and the text says nothing of them but that Flux may need more than the program. "
        "Here both stop within the same band of load distance, if they can."
    ),
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """Of the ways that migrate."""
    found = {way: each for way, each in courses(workspace, sizes).items() if way in MOVING}
    rows = tuple(_row(way, each) for way, each in found.items())
    picture = partial(drawn, {way: found[way]["migrations"] for way in MOVING if way != "MILP"}, "migrations")
    table = Table(f"Real Job 1: migrations, {rounds_of(sizes)} rounds", COLUMNS, rows)
    return Result({"migrations": table}, {"migrations": picture}, NOTES)


def _row(way: str, found: Mapping[str, list[float]]) -> dict[str, Any]:
    later = np.array(found["migrations"][FIRST:])
    return {
        "way": way,
        "first": float(np.sum(found["migrations"][:FIRST])),
        "mean": float(later.mean()),
        "most": float(later.max()),
        "at_limit": 100.0 * float(np.mean(later >= MIGRATIONS)),
        "pauses": float(np.mean(found["pauses"][FIRST:])),
    }


FIG7 = Experiment(
    name="albic.fig7",
    source="ALBIC, Fig. 7, Section 5.2.1",
    summary="migrations of Real Job 1 under the MILP and Flux, simulated",
    run=run,
)
