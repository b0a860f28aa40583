"""Joins that their own results block, in jobs that keep up: what waits meanwhile changes what matches."""

from __future__ import annotations

from collections.abc import Sequence

from twin.engine.measure.statistics import Row
from twin.job import Job
from twin.metrics import BACKPRESSURE_SHARE
from twin.query import Windowed
from twin.scenario import RunSettings

BLOCKED = 0.1
"""Of the time. Nine of the held-out jobs of Table II and on weak hosts that keep up have such a join. Of three of them
nothing else is said: their throughput is 0.72, 0.97 and 1.11 of an exact run's."""


def blocked_joins(job: Job, settings: RunSettings, rows: Sequence[Row]) -> list[str]:
    """One line for each in a fast run. rows: those of the operators."""
    measured = [row for row in rows if row["start_s"] >= settings.warmup_s]
    if settings.fidelity == "exact" or not all(_keeps_up(measured, source.name) for source in job.sources):
        return []
    windows = [each.name for each in job.query.operators if isinstance(each, Windowed)]
    joins = [name for name in windows if len(job.query.inputs(name)) > 1]
    return [
        f"{name}: its own results block it for {100 * blocked:.0f} % of the time, and what waits meanwhile changes "
        "what matches: throughput may be a third off, and differs from seed to seed; set fidelity: exact, and average "
        "several runs (twin whatif --replications)"
        for name in joins
        if (blocked := _blocked(measured, name)) > BLOCKED
    ]


def _keeps_up(rows: Sequence[Row], source: str) -> bool:
    mine = [row for row in rows if row["operator"] == source]
    arrived, taken = (sum(row[key] for row in mine) for key in ("arrived", "numRecordsIn"))
    return bool(arrived - taken <= BACKPRESSURE_SHARE * arrived)


def _blocked(rows: Sequence[Row], operator: str) -> float:
    mine = [row["backPressuredTimeMsPerSecond"] for row in rows if row["operator"] == operator]
    return float(sum(mine) / max(1, len(mine)) / 1000)
