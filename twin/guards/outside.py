"""Limits of systems outside that a fast run has in its latencies, and not in the time for which tasks are blocked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twin.engine.measure.statistics import Row
from twin.job import Job
from twin.kinds.calling import Calling
from twin.scenario import RunSettings

USED = 0.5
"""Of the limit, from which on tuples are held back often: for 26 to 73 % of the time in exact runs that were tried."""


def held_outside(job: Job, settings: RunSettings, rows: Sequence[Row]) -> list[str]:
    """One line for each operator that calls outside, in a fast run. rows: those of the operators."""
    lines = []
    for operator in job.deployment.query.operators if settings.fidelity != "exact" else ():
        if not isinstance(operator, Calling):
            continue
        mine = [row for row in rows if row["operator"] == operator.name and row["start_s"] >= settings.warmup_s]
        length_s = sum(row["end_s"] - row["start_s"] for row in mine)
        in_per_s = np.array(sum(row["numRecordsIn"] for row in mine) / max(length_s, 1e-9))
        used = float(operator.calls.used(in_per_s, in_per_s / job.component(operator.name).replicas))
        blocked = sum(row["backPressuredTimeMsPerSecond"] for row in mine) / max(1, len(mine)) / 1000
        if used > USED and blocked < USED * used:
            lines.append(
                f"{operator.name}: it uses {100 * used:.0f} % of what the system outside bears; waiting for that "
                f"is in latencies, but not in the {100 * blocked:.0f} % of time blocked; exact runs count it there"
            )
    return lines
