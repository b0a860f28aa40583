"""Labels of a run beside its metrics, from the rows of its trace: how far it is behind, and what checkpoints took.

`spark.pipeline` computes the same of many runs at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from twin.files import parse_json
from twin.kinds.registry import SOURCES
from twin.metrics import measured

BEHIND = 0.1
"""Share of the records of a period above which those that wait at its end show that the job is behind: fewer may just
have come."""
CHECKPOINT, COMPLETED = "checkpoint", "completed"
"""Kind of the events, and their status, that are of checkpoints which did not fail."""

Row = Mapping[str, Any]


def further_labels(operators: Sequence[Row], events: Sequence[Row], warmup_s: float) -> dict[str, Any]:
    """Labels `behind_share`, `backlog_max`, `checkpoint_duration_s` and `checkpoint_bytes`; None for what is not known.

    operators, events: rows of these tables of one run; details of events as in a trace, or not yet as JSON.
    """
    return {**_behind(measured(operators, warmup_s)), **_checkpoints(events, warmup_s)}


def _behind(operators: Sequence[Row]) -> dict[str, Any]:
    waiting: dict[tuple[float, float], int] = defaultdict(int)
    taken: dict[tuple[float, float], int] = defaultdict(int)
    for row in operators:
        if row["kind"] in SOURCES and row["backlog"] is not None:
            period = row["start_s"], row["end_s"]
            waiting[period] += row["backlog"]
            taken[period] += row["numRecordsIn"]
    if not waiting:
        return {"behind_share": None, "backlog_max": None}
    seconds = {period: period[1] - period[0] for period in waiting}
    behind = sum(seconds[period] for period, records in waiting.items() if records > BEHIND * taken[period])
    return {"behind_share": behind / sum(seconds.values()), "backlog_max": max(waiting.values())}


def _checkpoints(events: Sequence[Row], warmup_s: float) -> dict[str, Any]:
    done = [
        row
        for row in events
        if row["kind"] == CHECKPOINT and row["at_s"] >= warmup_s and _detail(row)["status"] == COMPLETED
    ]
    if not done:
        return {"checkpoint_duration_s": None, "checkpoint_bytes": None}
    return {
        "checkpoint_duration_s": sum(row["end_s"] - row["at_s"] for row in done) / len(done),
        "checkpoint_bytes": sum(row["bytes"] for row in done) / len(done),
    }


def _detail(event: Row) -> Mapping[str, Any]:
    found = event["detail"]
    return parse_json(found) if isinstance(found, str) else found
