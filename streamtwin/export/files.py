"""Writes a run in the formats of other programs: perfetto (one JSON file), csv and parquet (a folder of tables),
metrics (a folder of samples)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from scenarios.files.documents import as_csv
from scenarios.files.run_folder import KeptRun
from scenarios.files.traces import check_free, write_run, writing
from streamtwin.export.trace_events import trace_events
from twin.atomic import new_file, new_folder
from twin.errors import BadInput, suggest
from twin.run import Run
from twin.trace import TABLES
from twin.version import VERSION

COUNTERS = ("numRecordsIn", "numRecordsOut")
GAUGES = ("busyTimeMsPerSecond", "backPressuredTimeMsPerSecond")


class MetricSample(NamedTuple):
    """Sample of a metric. time: the end of its period, in simulated seconds."""

    time: float
    metric: str
    value: float
    operator: str = ""
    host: str = ""


def files_of(run: Run) -> Iterator[tuple[str, str]]:
    """Name and text of each file of metric samples, in order of time: a file a period, named after its end in ms.

    `twin import metrics` and `twin shadow` read them. Counters grow from 0; gauges are means over the period.
    """
    by_time: dict[float, list[MetricSample]] = defaultdict(list)
    for sample in (*_operators(run), *_hosts(run)):
        by_time[sample.time].append(sample)
    for time_s in sorted(by_time):
        yield f"{round(time_s * 1000):012d}.csv", as_csv(sample._asdict() for sample in by_time[time_s])


def _operators(run: Run) -> Iterator[MetricSample]:
    grown: dict[tuple[str, str], int] = defaultdict(int)
    results: dict[float, int] = defaultdict(int)
    ages_s: dict[float, float] = defaultdict(float)
    for row in run.operator_rows:
        end_s, name = row["end_s"], row["operator"]
        for counter in COUNTERS:
            grown[name, counter] += row[counter]
            yield MetricSample(end_s, counter, grown[name, counter], name)
        for gauge in GAUGES:
            yield MetricSample(end_s, gauge, row[gauge], name)
        if row.get("arrived") is not None:
            yield MetricSample(end_s, "offered_per_s", row["arrived"] / (end_s - row["start_s"]), name)
        if row.get("latencyCount"):
            results[end_s] += row["latencyCount"]
            ages_s[end_s] += row["processingLatencySum_s"]
    for end_s, count in results.items():  # a mean over the records of all sinks, as points have one latency
        yield MetricSample(end_s, "processing_latency_s", ages_s[end_s] / count)


def _hosts(run: Run) -> Iterator[MetricSample]:
    for row in run.host_rows:
        yield MetricSample(row["end_s"], "cpu", row["cpuUtilisation"], host=row["host"])


NOT_IN_TABLES = ("runs",)
"""Tables that are not exported as CSV: one row is no table for a spreadsheet, and its values are in result.json."""


def export(kept: KeptRun, form: str, out: Path) -> None:
    """Writes a run to `out` in a format, whole or not at all. Raises BadInput if it exists or cannot be written."""
    check_free(out)
    with writing(out, "name another place with --out"):
        FORMATS[form][1](kept, out)


def check_format(form: str) -> None:
    """Raises BadInput, with the nearest name, for an unknown format."""
    if form not in FORMATS:
        raise BadInput(f"--format {form}: unknown format; {suggest(form, FORMATS)}")


def default_place(name: str, form: str) -> Path:
    """Default path of an export."""
    return Path(f"{name}{FORMATS[form][0]}")


def _perfetto(kept: KeptRun, out: Path) -> None:
    """Writes a trace, event by event, so that long runs need no memory."""
    about = {"scenario": kept.name, "simulated": True, "streamtwin": VERSION, **kept.run.manifest}
    with new_file(out) as aside, aside.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ms", "otherData": ' + json.dumps(about) + ', "traceEvents": [\n')
        for number, event in enumerate(trace_events(kept.run)):
            file.write((",\n" if number else "") + json.dumps(event, allow_nan=False))
        file.write("\n]}\n")


def _csv(kept: KeptRun, out: Path) -> None:
    """Writes a file a table; lists within a cell are JSON."""
    rows = kept.run.rows(run="run-000000", name=kept.name, subtasks=True)
    with new_folder(out) as aside:
        for name in TABLES:
            if name not in NOT_IN_TABLES:
                table = as_csv(rows.get(name, ()), TABLES[name].names[1:])
                (aside / f"{name}.csv").write_text(table, encoding="utf-8", newline="")
        (aside / "result.json").write_text(json.dumps(kept.run.to_dict(), indent=2) + "\n", encoding="utf-8")


def _parquet(kept: KeptRun, out: Path) -> None:
    write_run(kept.run, kept.name, out)


def _metrics(kept: KeptRun, out: Path) -> None:
    """Writes a file of samples a period."""
    with new_folder(out) as aside:
        for name, text in files_of(kept.run):
            (aside / name).write_text(text, encoding="utf-8")


FORMATS: Mapping[str, tuple[str, Callable[[KeptRun, Path], None]]] = {
    "perfetto": (".perfetto.json", _perfetto),
    "csv": ("-csv", _csv),
    "parquet": ("-parquet", _parquet),
    "metrics": ("-metrics", _metrics),
}
"""Formats by name: the ending of the default path, and the function that writes."""
