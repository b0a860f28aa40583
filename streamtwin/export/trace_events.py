"""Turns a run into the Trace Event Format, which Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) show.

Operators and hosts are tracks with a slice a period; events and pauses are slices; queues, rates, latencies and
utilisations are counters. Times are microseconds of simulated time. Format: Google, "Trace Event Format" (complete
events X, instants i, counters C, metadata M); slices of a track never overlap in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from streamtwin.tables.timelines import in_words, panels
from twin.engine.measure.meters import Row
from twin.run import Run

Event = dict[str, Any]
MICROS = 1e6
JOB, OPERATORS, HOSTS, EVENTS, PAUSES = 1, 2, 3, 4, 5
PROCESSES = {JOB: "job", OPERATORS: "operators", HOSTS: "hosts", EVENTS: "events", PAUSES: "standing still"}
SHOWN = ("numRecordsIn", "numRecordsOut", "numRecordsDropped", "queueLength", "backlog", "stateBytes", "replicas")


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
        yield _counter(OPERATORS, f"queue of {row['operator']}", row["end_s"], {"tuples": row["queueLength"]})
        if row["backlog"] is not None:
            yield _counter(OPERATORS, f"unread at {row['operator']}", row["end_s"], {"tuples": row["backlog"]})


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
    rates, _, latencies, *_ = panels(run)
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
