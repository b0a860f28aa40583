"""Windows of a job's metrics, and the files that a shadow writes for each of them: one in each of three folders.

A file is whole or not there, with a JSON object a line, and a repeated window gets the same file again: so nothing is
lost or doubled however the shadow ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from scenarios.files import documents
from scenarios.files.traces import writing
from spark.metric_windows import Series, WindowSample
from streamtwin.connect.importers.prometheus import MEANINGS, labels, meaning_of, named, together
from streamtwin.connect.importers.sample_table import samples_of
from twin.atomic import write_text
from twin.checksums import stamped, unstamped
from twin.errors import BadInput

TIMES = ("start_s", "end_s", "at_s")
Readings = Mapping[str, float]
"""Readings by column of `twin calibrate`'s tables: in_per_s, out_per_s, offered_per_s, busy, backpressured, cpu, ..."""


@dataclass(frozen=True, slots=True)
class Window:
    """Readings of one window [start_s, end_s) in the samples' own time. at_s: mean time of its samples."""

    start_s: float
    end_s: float
    at_s: float
    operators: Mapping[str, Readings] = field(default_factory=dict)
    hosts: Mapping[str, Readings] = field(default_factory=dict)
    job: Readings = field(default_factory=dict)


def parsed(file: str, content: bytes) -> list[WindowSample]:
    """Samples of known metrics in a file as `twin import metrics` takes it.

    Raises BadInput, naming file and line, for what is no table of samples.
    """
    samples = []
    for each in samples_of(file, content):
        metric = meaning_of(each)
        if metric is not None:
            of = named(each, MEANINGS[metric], file)
            samples.append(WindowSample(each["time"], metric, of, labels(each), each["value"]))
    return samples


def windows_of(series: Sequence[Series], window_s: float) -> Iterator[Window]:
    """Yields the windows of series, in order."""
    for start_s, group in groupby(series, key=lambda each: each.start_s):
        yield _window(start_s, window_s, group)


def _window(start_s: float, window_s: float, series: Iterable[Series]) -> Window:
    values: dict[str, dict[str, dict[str, list[float]]]] = {"operator": {}, "host": {}, "": {}}
    times_s = []
    for each in series:
        times_s.append((each.first_s + each.last_s) / 2)
        value = _value(each)
        if value is not None:
            of = values[MEANINGS[each.metric].of].setdefault(each.of, {})
            of.setdefault(each.metric, []).append(value * MEANINGS[each.metric].scale)
    operators, hosts, job = ({of: together(found) for of, found in part.items()} for part in values.values())
    return Window(start_s, start_s + window_s, fmean(times_s), operators, hosts, job.get("", {}))


def _value(series: Series) -> float | None:
    """Mean of a gauge, or growth a second of a counter; None if a counter has fallen (a restart) or was seen once."""
    if not MEANINGS[series.metric].counter:
        return series.mean
    passed_s = series.last_s - series.first_s
    if passed_s <= 0 or (series.least, series.most) != (series.first, series.last):
        return None
    return (series.last - series.first) / passed_s


def rows_of(window: Window) -> list[dict[str, Any]]:
    """Rows of a window: one an operator, one a host, and one of the job if it has readings of its own."""
    span = {name: getattr(window, name) for name in TIMES}
    found = [{**span, "operator": name, **window.operators[name]} for name in sorted(window.operators)]
    found += [{**span, "host": name, **window.hosts[name]} for name in sorted(window.hosts)]
    return found + ([{**span, **window.job}] if window.job else [])


def of_rows(rows: Sequence[Mapping[str, Any]]) -> Window:
    """Window from the rows that `rows_of` made of it."""
    parts: dict[str, dict[str, Readings]] = {"operator": {}, "host": {}, "": {}}
    for row in rows:
        kind = next((name for name in ("operator", "host") if name in row), "")
        readings = {key: value for key, value in row.items() if key not in (*TIMES, kind)}
        parts[kind][row.get(kind, "")] = readings
    times_s = {name: rows[0][name] for name in TIMES}
    return Window(**times_s, operators=parts["operator"], hosts=parts["host"], job=parts[""].get("", {}))


Row = TypeVar("Row")
STATISTICS, FORECASTS, ALERTS = "statistics", "forecasts", "alerts"
SUFFIX = ".jsonl"


def write(out: Path, table: str, start_s: float, rows: Sequence[Any]) -> None:
    """Writes the rows of a window, result types or mappings. Raises BadInput if they cannot be written."""
    path = out / table / _name(start_s)
    with writing(path, "free space, then give the same command"):
        write_text(path, "".join(stamped(documents.document(row)) + "\n" for row in rows))


def read(out: Path, table: str, kind: type[Row]) -> list[Row]:
    """Reads all rows of a table, in the order of the windows. Raises BadInput if a file is damaged."""
    paths = sorted((out / table).glob(f"*{SUFFIX}"))
    return [row for path in paths for row in _read(path, lambda body: documents.read(kind, json.dumps(body)))]


def before(out: Path, start_s: float, count: int) -> list[Window]:
    """Reads the last `count` windows that began before `start_s`, oldest first."""
    names = sorted(path for path in (out / STATISTICS).glob(f"*{SUFFIX}") if path.name < _name(start_s))
    return [of_rows(_read(path, _readings)) for path in names[-count:]] if count else []


def _read(path: Path, row: Callable[[dict[str, Any]], Row]) -> list[Row]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [row(unstamped(line)) for line in lines or ("",)]
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{path} is damaged ({error}); remove it") from None


def _readings(body: dict[str, Any]) -> dict[str, Any]:
    if not set(TIMES) <= body.keys():
        raise ValueError("it is no window")
    return body


def _name(start_s: float) -> str:
    """Name of a window's file, in the order of time, to the millisecond."""
    return f"{round(start_s * 1000):016d}{SUFFIX}"
