"""Time-lines of a run: rates, queues, latencies, utilisation of operators and hosts, and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from figures.time_line import EventMark, Panel
from streamtwin.tables.checkpoint_table import apart
from streamtwin.tables.tables import cell, seconds
from twin.chaining import fused
from twin.deployment import Deployment
from twin.engine.measure.meters import Row
from twin.engine.sketch import histogram_of, quantile_s
from twin.kinds.registry import SINKS, SOURCES
from twin.run import Run

MOST_POINTS = 240
MOST_SERIES = 6
MOST_MARKS = 40
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Group = Sequence[Row]
"""Rows of one point: of a period, or of several where there are many."""


def panels(run: Run) -> list[Panel]:
    """Five panels on the same axis of time; in long runs a point is several periods."""
    operators = _by_point(run.operator_rows)
    at_s = [(group[0]["start_s"] + group[-1]["end_s"]) / 2 for group in operators]
    rest: dict[str, Any] = {"at_s": at_s, "marks": marks(run), "end_s": run.manifest["horizon_s"]}
    ends = rest | {"at_s": [group[-1]["end_s"] for group in operators], "levels": True}
    hosts = _by_point(run.host_rows)
    return [
        Panel("tuples a second", series=_rates(operators), **rest),
        Panel("waiting tuples", series=_queues(operators), **ends),
        Panel("end-to-end latency [s]", series=_latencies(operators), logarithmic=True, **rest),
        Panel("operators: share of time busy", series=_busy(operators, run), top=1.0, shares=True, **rest),
        Panel("hosts: share of CPU in use", series=_cpu(hosts), top=1.0, shares=True, **rest),
    ]


def marks(run: Run) -> list[EventMark]:
    """Marks of events and decisions; the first ones if there are very many."""
    return [EventMark(row["at_s"], row["end_s"], in_words(row)) for row in apart(run.event_rows)[0][:MOST_MARKS]]


def in_words(event: Mapping[str, Any]) -> str:
    """Event in words: time, kind, component, key groups, and for how long the job or a part of it was paused."""
    paused = f", paused {seconds(event['paused_s'])}" if event["paused_s"] else ""
    detail = event["detail"]
    moved = detail.get("key_groups", ())
    what = f", {len(moved)} key group{'s' * (len(moved) != 1)}" if moved else ""
    to = f" to {detail['to']}" if "to" in detail else ""
    to = f" to subtask {detail['to_replica']}" if "to_replica" in detail else to
    reason = f" ({detail['reason']})" if detail.get("reason") else ""
    return f"{cell(event['at_s'])} s: {event['kind']} of {event['component']}{what}{to}{paused}{reason}"


def _by_point(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows by point, in order: by period, or by several neighbouring periods if there would be too many points."""
    periods: dict[int, list[Row]] = {}
    for row in rows:
        periods.setdefault(row["period"], []).append(row)
    ordered = [periods[number] for number in sorted(periods)]
    step = -(-len(ordered) // MOST_POINTS) or 1
    return [[row for period in ordered[at : at + step] for row in period] for at in range(0, len(ordered), step)]


def _length_s(group: Group) -> float:
    return float(group[-1]["end_s"] - group[0]["start_s"])


def _rates(groups: Sequence[Group]) -> dict[str, list[float | None]]:
    def rate(key: str, kinds: Iterable[str]) -> list[float | None]:
        return [sum(row[key] or 0 for row in group if row["kind"] in kinds) / _length_s(group) for group in groups]

    return {
        "arriving": rate("arrived", SOURCES),
        "taken up": rate("numRecordsIn", SOURCES),
        "results": rate("latencyCount", SINKS),
    }


def _queues(groups: Sequence[Group]) -> dict[str, list[float | None]]:
    """Queues at the sources' brokers, and before the operators with the longest ones; at the end of each point."""
    at_brokers: list[float | None] = []
    for group in groups:
        last = group[-1]["period"]
        at_brokers.append(float(sum(row["backlog"] or 0 for row in group if row["period"] == last)))
    longest = _fullest(groups, "operator", lambda rows: float(rows[-1]["queueLength"]), MOST_SERIES - 1, "before ")
    return {"unread at sources": at_brokers, **longest}


def _latencies(groups: Sequence[Group]) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {name: [] for name in QUANTILES}
    for group in groups:
        rows = [row for row in group if row["kind"] in SINKS and row["latencyCount"]]
        counts = histogram_of(rows, "e2e")
        for name, q in QUANTILES.items():
            found[name].append(quantile_s(counts, q) if counts else None)
    return found


def _busy(groups: Sequence[Group], run: Run) -> dict[str, list[float | None]]:
    """Busy shares of the busiest tasks; chained operators are one task, and so one line, which has all their names."""
    job = Deployment.model_validate_json(run.deployment_json)
    chains = {chain[0]: chain for chain in fused(job.query, job.plan, job.engine)}
    followers = {name for chain in chains.values() for name in chain[1:]}
    heads = [[row for row in group if row["operator"] not in followers] for group in groups]
    lines = _fullest(heads, "operator", lambda rows: _mean(rows, "busyTimeMsPerSecond") / 1000, MOST_SERIES)
    return {" -> ".join(chains.get(name, (name,))): line for name, line in lines.items()}


def _cpu(groups: Sequence[Group]) -> dict[str, list[float | None]]:
    return _fullest(groups, "host", lambda rows: _mean(rows, "cpuUtilisation"), MOST_SERIES)


def _mean(rows: Group, key: str) -> float:
    """Mean of a column of rows, weighted by the lengths of their periods."""
    lengths = [row["end_s"] - row["start_s"] for row in rows]
    return float(sum(row[key] * each for row, each in zip(rows, lengths, strict=True)) / sum(lengths))


def _fullest(
    groups: Sequence[Group], key: str, value: Callable[[Group], float], most: int, prefix: str = ""
) -> dict[str, list[float | None]]:
    """Lines of the `most` components with the highest values, the highest first, without those that are always 0."""
    lines: dict[str, list[float | None]] = {}
    for number, group in enumerate(groups):
        mine: dict[str, list[Row]] = {}
        for row in group:
            mine.setdefault(row[key], []).append(row)
        for name, rows in mine.items():
            line = lines.setdefault(name, [None] * len(groups))
            line[number] = value(rows)
    tops = {name: max(each or 0.0 for each in line) for name, line in lines.items()}
    chosen = sorted((name for name in lines if tops[name] > 0.0), key=lambda name: -tops[name])[:most]
    return {f"{prefix}{name}": lines[name] for name in chosen}
