"""ALBIC, Fig. 9: for how long key groups pause together, by the limit on migrations, on Real Job 1, simulated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from papers.albic.fig8 import courses
from papers.albic.real_job_1 import FIRST, JOB, drawn, rounds_of
from papers.interface import Experiment, Result, Table
from papers.sizes import Sizes
from papers.workspace import Workspace

COLUMNS = {
    "limit": "migrations a round, at most",
    "pauses": "pauses of key groups together, a round, mean (s)",
    "pauses_most": "pauses of key groups together, in a round, most (s)",
    "migrations": "migrations a round",
    "pause": "pause of a key group (ms)",
}
NOTES = (
    (f"The courses of albic.fig8: {JOB}, rounds of five simulated minutes, the first {FIRST} left out of the table."),
    (
        "The paper's key groups pause for 2.5 s each, ours for as long as their state takes on this network: how "
        "pauses grow with the limit is what compares. Key groups that travel between the same replicas travel "
        "together, and pause as long."
    ),
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """Of every limit."""
    found = courses(workspace, sizes)
    rows = tuple(_row(name, each) for name, each in found.items())
    picture = partial(drawn, {name: each["pauses"] for name, each in found.items()}, "pauses together (s)")
    title = f"Real Job 1: pauses by limit on migrations, {rounds_of(sizes)} rounds"
    return Result({"pauses": Table(title, COLUMNS, rows)}, {"pauses": picture}, NOTES)


def _row(name: str, found: Mapping[str, list[float]]) -> dict[str, Any]:
    pauses, migrations = (np.array(found[key][FIRST:]) for key in ("pauses", "migrations"))
    return {
        "limit": name,
        "pauses": float(pauses.mean()),
        "pauses_most": float(pauses.max()),
        "migrations": float(migrations.mean()),
        "pause": 1e3 * float(pauses.sum() / max(migrations.sum(), 1.0)),
    }


FIG9 = Experiment(
    name="albic.fig9",
    source="ALBIC, Fig. 9, Section 5.2.2",
    summary="pauses of Real Job 1 by the limit on migrations, simulated",
    run=run,
)
