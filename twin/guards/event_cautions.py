"""What whoever reads a run over event time should know: tuples that are in no window, and windows that nobody ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twin.engine.measure.meters import Row
from twin.guards.event_windows import in_time
from twin.job import Job
from twin.query import EventTimed

MOST_LATE = 1e-3
"""Of the tuples; fewer are not told."""


def event_cautions(job: Job, rows: Sequence[Row], totals: Mapping[str, Mapping[str, int]]) -> list[str]:
    """One line each, with the remedy. rows: of the operators; totals: of these, by operator."""
    timed = [operator.name for operator in job.query.operators if isinstance(operator, EventTimed)]
    return [*_late(job, timed, totals), *_waiting(job, timed, rows)] if timed else []


def _late(job: Job, timed: Sequence[str], totals: Mapping[str, Mapping[str, int]]) -> list[str]:
    lines = []
    for name in timed:
        came, late = totals[name]["numRecordsIn"], totals[name]["numRecordsIn"] - totals[name]["latencyCount"]
        if not in_time(job.query, name) and totals[name]["latencyCount"] and late > MOST_LATE * came:
            lines.append(
                f"{name}: {late:,} of {came:,} tuples ({late / came:.1%}) came after their window had ended and "
                "count in none; give their source a larger slack_s"
            )
    return lines


def _waiting(job: Job, timed: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """A source that has fallen silent tells no time, so windows behind it wait for it, whatever others send."""
    last_s = {name: _last_s(name, rows) for name in (source.name for source in job.query.sources)}
    lines = []
    for source, silent_s in last_s.items():
        behind = [name for name in timed if source in job.query.ancestors(name)]
        others = {other for name in behind for other in job.query.ancestors(name) & set(last_s)}
        period_s = max(row["end_s"] - row["start_s"] for row in rows)
        if max((last_s[other] for other in others), default=0.0) > silent_s + 2.0 * period_s:
            since = f"since {silent_s:g} s" if silent_s else "ever"
            lines.append(
                f"{behind[0]}: no tuple came from {source!r} {since}, so event time stops there and no window ends "
                "any more, as in Flink without idleness; let the source send now and then"
            )
    return lines


def _last_s(source: str, rows: Sequence[Row]) -> float:
    """The end of the last period in which something arrived."""
    return max((row["end_s"] for row in rows if row["operator"] == source and row["arrived"]), default=0.0)
