"""A run as the metrics of a job: samples as a monitoring system would export them, a file a period.

The format is that of `twin import metrics` and `twin shadow`. Counters grow from 0; gauges are means over the period.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from scenarios.files.documents import as_csv
from twin.run import Run

COUNTERS = ("numRecordsIn", "numRecordsOut")
GAUGES = ("busyTimeMsPerSecond", "backPressuredTimeMsPerSecond")


class MetricSample(NamedTuple):
    """time: the end of its period, in simulated seconds."""

    time: float
    metric: str
    value: float
    operator: str = ""
    host: str = ""


def files_of(run: Run) -> Iterator[tuple[str, str]]:
    """(name, text) of each file, in order of time; a name tells the period's end in milliseconds."""
    by_time: dict[float, list[MetricSample]] = defaultdict(list)
    for sample in (*_operators(run), *_hosts(run)):
        by_time[sample.time].append(sample)
    for time_s in sorted(by_time):
        yield f"{round(time_s * 1000):012d}.csv", as_csv(sample._asdict() for sample in by_time[time_s])


def _operators(run: Run) -> Iterator[MetricSample]:
    grown: dict[tuple[str, str], int] = defaultdict(int)
    for row in run.operator_rows:
        end_s, name = row["end_s"], row["operator"]
        for counter in COUNTERS:
            grown[name, counter] += row[counter]
            yield MetricSample(end_s, counter, grown[name, counter], name)
        for gauge in GAUGES:
            yield MetricSample(end_s, gauge, row[gauge], name)
        yield from _at_the_ends(row)


def _at_the_ends(row: Mapping[str, Any]) -> Iterator[MetricSample]:
    """What arrives at sources; how old results are at sinks."""
    if row.get("arrived") is not None:
        offered_per_s = row["arrived"] / (row["end_s"] - row["start_s"])
        yield MetricSample(row["end_s"], "offered_per_s", offered_per_s, row["operator"])
    if row.get("latencyCount"):
        mean_s = row["processingLatencySum_s"] / row["latencyCount"]
        yield MetricSample(row["end_s"], "processing_latency_s", mean_s)


def _hosts(run: Run) -> Iterator[MetricSample]:
    for row in run.host_rows:
        yield MetricSample(row["end_s"], "cpu", row["cpuUtilisation"], host=row["host"])
