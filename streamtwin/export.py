"""Export of runs to other programs: trace viewers, spreadsheets, data frames."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scenarios.files.documents import as_csv
from scenarios.files.run_folder import KeptRun, check_free, write_run, writing
from streamtwin.tables.run_tables import in_words, panels
from twin import VERSION
from twin.errors import BadInput, suggest
from twin.files import new_file, new_folder
from twin.run import Run
from twin.trace import TABLES
from twin.world.meters import Row

# trace events --------------------------------------------------------------------------------------------------------
# Turns a run into the Trace Event Format, which Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) show.
#
# Operators and hosts are tracks with a slice a period; events and pauses are slices; queues, rates, latencies and
# utilisations are counters. Times are microseconds of simulated time. Format: Google, "Trace Event Format" (complete
# events X, instants i, counters C, metadata M); slices of a track never overlap in part.


Event = dict[str, Any]
MICROS = 1e6
JOB, OPERATORS, HOSTS, EVENTS, PAUSES = 1, 2, 3, 4, 5
PROCESSES = {JOB: "job", OPERATORS: "operators", HOSTS: "hosts", EVENTS: "events", PAUSES: "standing still"}
SHOWN = ("numRecordsIn", "numRecordsOut", "numRecordsDropped", "queueLength", "backlog", "stateBytes", "parallelism")


def trace_events(run: Run) -> Iterator[Event]:
    """Yields all events of a run, names of tracks first."""
    operators = list(dict.fromkeys(row["operator"] for row in run.operator_rows))
    hosts = list(dict.fromkeys(row["host"] for row in run.host_rows))
    horizon_s = float(run.manifest["horizon_s"])
    happened = lanes([(row["at_s"], _end_s(row, horizon_s), row) for row in run.event_rows])
    paused = lanes([(row["at_s"], row["at_s"] + row["paused_s"], row) for row in run.event_rows if row["paused_s"]])
    yield from _processes()
    yield from _tracks(OPERATORS, operators)
    yield from _tracks(HOSTS, hosts)
    yield from _tracks(EVENTS, (f"events {number}" for number, _ in enumerate(happened, start=1)))
    yield from _tracks(PAUSES, (f"pauses {number}" for number, _ in enumerate(paused, start=1)))
    yield from _operator_events(run.operator_rows, operators)
    yield from _host_events(run.host_rows, hosts)
    yield from _link_events(run.link_rows)
    yield from _job_events(run)
    for process, tracks in ((EVENTS, happened), (PAUSES, paused)):
        for track, slices in enumerate(tracks, start=1):
            for start_s, end_s, row in slices:
                yield _happening(process, track, start_s, end_s, row)


def lanes(slices: Iterable[tuple[float, float, Row]]) -> list[list[tuple[float, float, Row]]]:
    """Tracks of slices, as few as are needed for none to overlap."""
    tracks: list[list[tuple[float, float, Row]]] = []
    for each in sorted(slices, key=lambda each: each[:2]):
        free = next((track for track in tracks if track[-1][1] <= each[0] and track[-1][0] < each[0]), None)
        if free is None:
            tracks.append([each])
        else:
            free.append(each)
    return tracks


def _end_s(row: Row, horizon_s: float) -> float:
    """End of an event (s); an event that has not ended ends with the run."""
    return horizon_s if row["end_s"] is None else min(row["end_s"], horizon_s)


def _processes() -> Iterator[Event]:
    for number, name in PROCESSES.items():
        yield _about("process_name", number, 0, name=name)
        yield _about("process_sort_index", number, 0, sort_index=number)


def _tracks(process: int, names: Iterable[str]) -> Iterator[Event]:
    for track, name in enumerate(names, start=1):
        yield _about("thread_name", process, track, name=name)
        yield _about("thread_sort_index", process, track, sort_index=track)


def _about(what: str, process: int, track: int, **values: Any) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": track, "args": values}


def _operator_events(rows: Sequence[Row], names: Sequence[str]) -> Iterator[Event]:
    tracks = {name: track for track, name in enumerate(names, start=1)}
    for row in rows:
        busy, held = row["busyTimeMsPerSecond"] / 1000, row["backPressuredTimeMsPerSecond"] / 1000
        words = f"busy {busy:.0%}, held up {held:.0%}" if held >= 0.005 else f"busy {busy:.0%}"
        yield _slice(OPERATORS, tracks[row["operator"]], row, words, "operator", _known(row, SHOWN))
        yield _counter(OPERATORS, f"queue of {row['operator']}", row["end_s"], {"records": row["queueLength"]})
        if row["backlog"] is not None:
            yield _counter(OPERATORS, f"unread at {row['operator']}", row["end_s"], {"records": row["backlog"]})


def _host_events(rows: Sequence[Row], names: Sequence[str]) -> Iterator[Event]:
    tracks = {name: track for track, name in enumerate(names, start=1)}
    for row in rows:
        known = _known(row, ("cpuUtilisation", "memoryUsedMb", "gcSlowdown", "bytesOut"))
        yield _slice(HOSTS, tracks[row["host"]], row, f"CPU {row['cpuUtilisation']:.0%}", "host", known)
        yield _counter(HOSTS, f"CPU of {row['host']}", row["start_s"], {"percent": 100 * row["cpuUtilisation"]})
        yield _counter(HOSTS, f"memory of {row['host']}", row["end_s"], {"MB": row["memoryUsedMb"]})


def _link_events(rows: Sequence[Row]) -> Iterator[Event]:
    for row in rows:
        yield _counter(HOSTS, f"network {row['link']}", row["start_s"], {"percent": 100 * row["utilisation"]})


def _job_events(run: Run) -> Iterator[Event]:
    """Counters of rates and latency quantiles, as in the time-lines of a report."""
    rates, _, latencies, *_ = panels(run, by_window=False)
    for panel in (rates, latencies):
        for number, at_s in enumerate(panel.at_s):
            values = {name: line[number] for name, line in panel.series.items()}
            known = {name: value for name, value in values.items() if value is not None}
            if known:
                yield _counter(JOB, panel.title, at_s, known)


def _happening(process: int, track: int, start_s: float, end_s: float, row: Row) -> Event:
    """Slice of an event or pause, or an instant if it took no time."""
    detail = {key: value for key, value in row["detail"].items() if value is not None}
    name, args = f"{row['kind']} of {row['component']}", {"what": in_words(row), **detail}
    about = {"name": name, "cat": "event", "pid": process, "tid": track, "ts": start_s * MICROS, "args": args}
    if end_s > start_s:
        return {"ph": "X", "dur": (end_s - start_s) * MICROS, **about}
    return {"ph": "i", "s": "t", **about}


def _slice(process: int, track: int, row: Row, name: str, category: str, args: Mapping[str, Any]) -> Event:
    start, end = row["start_s"] * MICROS, row["end_s"] * MICROS
    about = {"ph": "X", "name": name, "cat": category, "pid": process, "tid": track}
    return {**about, "ts": start, "dur": end - start, "args": dict(args)}


def _counter(process: int, name: str, at_s: float, values: Mapping[str, float]) -> Event:
    return {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": at_s * MICROS, "args": dict(values)}


def _known(row: Row, keys: Sequence[str]) -> dict[str, Any]:
    return {key: row[key] for key in keys if row.get(key) is not None}


# files ---------------------------------------------------------------------------------------------------------------
# Writes a run in the formats of other programs: perfetto (one JSON file), csv and parquet (a folder of tables),
# metrics (a folder of samples).


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
