"""Metrics of runs as exported from a time-series database: samples to readings, a run at a time.

A sample is a line: `time` (seconds, or ISO 8601), `metric`, `value`, and labels. The label `run` tells runs apart;
`operator`, or Flink's `task_name`, names the operator, `host` the machine. Metrics are known by the ends of their names
as exporters put scopes before them. Counters become rates by their growth, and gauges by their mean.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from twin.errors import BadInput, suggest


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a metric is of a point. scale: to the unit there. counter: grows. summed: over subtasks, else their mean."""

    column: str
    of: str
    scale: float = 1.0
    counter: bool = False
    summed: bool = False


MEANINGS: Mapping[str, Meaning] = {
    "numRecordsInPerSecond": Meaning("in_per_s", "operator", summed=True),
    "numRecordsOutPerSecond": Meaning("out_per_s", "operator", summed=True),
    "numRecordsIn": Meaning("in_per_s", "operator", counter=True, summed=True),
    "numRecordsOut": Meaning("out_per_s", "operator", counter=True, summed=True),
    "busyTimeMsPerSecond": Meaning("busy", "operator", 1e-3),
    "backPressuredTimeMsPerSecond": Meaning("backpressured", "operator", 1e-3),
    "offered_per_s": Meaning("offered_per_s", "operator", summed=True),
    "CPU_Load": Meaning("cpu", "host"),
    "cpu": Meaning("cpu", "host"),
    "processing_latency_s": Meaning("latency_s", ""),
    "latency_mean": Meaning("latency_s", "", 1e-3),
    "operator_latency_mean": Meaning("marker_s", "operator", 1e-3),
}
FIXED = ("time", "metric", "value")
NAMES = {"operator": ("operator", "task_name"), "host": ("host",), "": ()}


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """rows: readings of one operating point. seconds: from its first to its last sample. skipped: unknown metrics."""

    name: str
    rows: tuple[dict[str, Any], ...]
    seconds: float
    skipped: tuple[str, ...]


def read_metrics(path: Path) -> list[MeasuredRun]:
    """The runs in a file. Raises BadInput, naming file and line, for what is no table of samples."""
    try:
        samples = samples_of(str(path), path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; check the path") from None
    runs: dict[str, list[dict[str, Any]]] = {}
    for sample in samples:
        runs.setdefault(str(sample.get("run", "run")), []).append(sample)
    return [_run(name, of_run, str(path)) for name, of_run in runs.items()]


def samples_of(file: str, content: bytes) -> list[dict[str, Any]]:
    """The checked samples in a file, CSV or Parquet by its name. Raises BadInput, naming file and line, for others."""
    rows = _rows(file, content)
    samples = [_checked(sample, f"{file}, line {number}") for number, sample in enumerate(rows, start=2)]
    if not samples:
        raise BadInput(f"{file} holds no samples; its columns are time, metric, value and labels such as run, operator")
    return samples


def _run(name: str, samples: Sequence[dict[str, Any]], where: str) -> MeasuredRun:
    times = [sample["time"] for sample in samples]
    series: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    skipped = set()
    for sample in samples:
        found = meaning_of(sample)
        if found is None:
            skipped.add(str(sample["metric"]))
            continue
        series.setdefault((found, named(sample, MEANINGS[found], where), labels(sample)), []).append(sample)
    if not series:
        raise BadInput(f"{where}: run {name} has no known metric; {suggest(min(skipped), MEANINGS)}")
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for (metric, of, _), group in series.items():
        meaning = MEANINGS[metric]
        value = _growth(group, where) if meaning.counter else fmean(each["value"] for each in group)
        values.setdefault((meaning.of, of), {}).setdefault(metric, []).append(value * meaning.scale)
    settings = {key: value for key, value in samples[0].items() if "." in key}
    rows = [{**({kind: of} if kind else {}), **together(found)} for (kind, of), found in values.items()]
    return MeasuredRun(
        name, tuple({**row, **settings, "point": name} for row in rows), max(times) - min(times), tuple(sorted(skipped))
    )


def meaning_of(sample: Mapping[str, Any]) -> str | None:
    """The known name that its metric's name ends with; None if there is none. Latencies of operators are of markers."""
    metric = str(sample["metric"])
    found = [name for name in MEANINGS if metric == name or metric.endswith((f"_{name}", f".{name}"))]
    longest = max(found, key=len) if found else None
    return f"operator_{longest}" if longest == "latency_mean" and _operator(sample) else longest


def _operator(sample: Mapping[str, Any]) -> bool:
    return any(sample.get(name) not in (None, "") for name in NAMES["operator"])


def named(sample: Mapping[str, Any], meaning: Meaning, where: str) -> str:
    """The operator or host that a sample is of; empty: of the whole job. Raises BadInput if its label is missing."""
    names = NAMES[meaning.of]
    found = next((str(sample[name]) for name in names if sample.get(name) not in (None, "")), "")
    if names and not found:
        raise BadInput(f"{where}: {sample['metric']} has no label {' or '.join(names)}; export it with its labels")
    return found


def labels(sample: Mapping[str, Any]) -> str:
    """What tells one series from another."""
    return repr(sorted((key, str(value)) for key, value in sample.items() if key not in ("time", "value")))


def _growth(group: Sequence[Mapping[str, Any]], where: str) -> float:
    ordered = sorted(group, key=lambda sample: float(sample["time"]))
    passed_s = ordered[-1]["time"] - ordered[0]["time"]
    if passed_s <= 0:
        raise BadInput(f"{where}: {ordered[0]['metric']} is a counter with one sample; export two moments at least")
    grown = float(ordered[-1]["value"]) - float(ordered[0]["value"])
    if any(after["value"] < before["value"] for before, after in itertools.pairwise(ordered)):
        raise BadInput(
            f"{where}: the counter {ordered[0]['metric']} falls, so the job was restarted; export what is after"
        )
    return grown / float(passed_s)


def together(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """By column; where a counter and a gauge say the same, the counter."""
    ordered = sorted(found, key=lambda metric: MEANINGS[metric].counter)
    return {
        MEANINGS[metric].column: sum(found[metric]) if MEANINGS[metric].summed else fmean(found[metric])
        for metric in ordered
    }


def _checked(sample: Mapping[str, Any], place: str) -> dict[str, Any]:
    for column in FIXED:
        if sample.get(column) in (None, ""):
            raise BadInput(f"{place} has no {column}; the columns are time, metric, value and labels")
    try:
        value = float(sample["value"])
    except (TypeError, ValueError):
        raise BadInput(f"{place}: value must be a number, got {sample['value']!r}") from None
    if not math.isfinite(value):
        raise BadInput(f"{place}: {sample['metric']} is {value}; leave out samples that were not measured")
    labels = {str(key): each for key, each in sample.items() if key not in FIXED and each not in (None, "")}
    return {**labels, "time": _seconds(sample["time"], place), "metric": str(sample["metric"]), "value": value}


def _seconds(value: Any, place: str) -> float:
    if isinstance(value, datetime):
        return value.timestamp()
    try:
        found = float(value)
    except (TypeError, ValueError):
        try:
            return datetime.fromisoformat(str(value)).timestamp()
        except ValueError:
            raise BadInput(f"{place}: time must be seconds or ISO 8601, got {value!r}") from None
    if not math.isfinite(found):
        raise BadInput(f"{place}: time is {value}")
    return found


def _rows(file: str, content: bytes) -> list[Mapping[str, Any]]:
    if file.endswith((".parquet", ".pq")):
        from scenarios.files.parquet_rows import rows_of

        return rows_of(file, content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{file} is not text in UTF-8; samples are CSV or Parquet") from None
    return list(csv.DictReader(io.StringIO(text), skipinitialspace=True))
