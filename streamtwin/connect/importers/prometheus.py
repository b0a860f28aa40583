"""Turns samples of metrics, exported from a time-series database, into readings of runs.

Samples are lines of a table (`sample_table`). The label `run` tells runs apart; `operator`, or Flink's `task_name`,
names the operator, `host` the machine. Metrics are known by the ends of their names, as exporters put scopes before
them. Counters become rates by their growth, and gauges readings by their mean.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from streamtwin.connect.importers.sample_table import all_samples
from twin.errors import BadInput, suggest


@dataclass(frozen=True, slots=True)
class Meaning:
    """Meaning of a metric for an operating point: its column, and the label that it is of. scale: to the column's unit.
    counter: it grows. summed: over subtasks, instead of their mean."""

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
SUBTASK = "subtask_index"
FLOWS = ("in_per_s", "out_per_s")
"""Columns that are wrong if a subtask is missing."""
NAMES = {"operator": ("operator", "task_name"), "host": ("host",), "": ()}


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """Measured run. rows: readings of one operating point. seconds: from its first to its last sample. skipped: unknown

    metrics. unmeasured: metrics that have samples without a value. subtasks: number with samples, by operator, where
    labels tell.
    """

    name: str
    rows: tuple[dict[str, Any], ...]
    seconds: float
    skipped: tuple[str, ...]
    unmeasured: tuple[str, ...]
    subtasks: Mapping[str, int]


def read_metrics(path: Path) -> list[MeasuredRun]:
    """Reads the runs in a file. Raises BadInput, naming file and line, for what is no table of samples."""
    try:
        samples = all_samples(str(path), path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; check the path") from None
    runs: dict[str, list[dict[str, Any]]] = {}
    for sample in samples:
        runs.setdefault(str(sample.get("run", "run")), []).append(sample)
    return [_run(name, of_run, str(path)) for name, of_run in runs.items()]


def _run(name: str, everything: Sequence[dict[str, Any]], where: str) -> MeasuredRun:
    samples = [each for each in everything if not math.isnan(each["value"])]
    if not samples:
        raise BadInput(f"{where}: no sample of run {name} has a value; export what was measured")
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
        name=name,
        rows=tuple({**row, **settings, "point": name} for row in rows),
        seconds=max(times) - min(times),
        skipped=tuple(sorted(skipped)),
        unmeasured=tuple(sorted({str(each["metric"]) for each in everything if math.isnan(each["value"])})),
        subtasks=_subtasks(series),
    )


def _subtasks(series: Mapping[tuple[str, str, str], Sequence[Mapping[str, Any]]]) -> dict[str, int]:
    """Number of subtasks with samples, by operator: the fewest of any of its metrics."""
    found: dict[str, dict[str, set[str]]] = {}
    for (metric, of, _), group in series.items():
        if MEANINGS[metric].column in FLOWS and SUBTASK in group[0]:
            found.setdefault(of, {}).setdefault(metric, set()).add(str(group[0][SUBTASK]))
    return {of: min(map(len, by_metric.values())) for of, by_metric in found.items()}


def meaning_of(sample: Mapping[str, Any]) -> str | None:
    """Known name with which the name of a sample's metric ends, or None. Latencies of operators are of markers."""
    metric = str(sample["metric"])
    found = [name for name in MEANINGS if metric == name or metric.endswith((f"_{name}", f".{name}"))]
    longest = max(found, key=len) if found else None
    return f"operator_{longest}" if longest == "latency_mean" and _operator(sample) else longest


def _operator(sample: Mapping[str, Any]) -> bool:
    return any(sample.get(name) not in (None, "") for name in NAMES["operator"])


def named(sample: Mapping[str, Any], meaning: Meaning, where: str) -> str:
    """Operator or host that a sample is of; empty: of the whole job. Raises BadInput if its label is missing."""
    names = NAMES[meaning.of]
    found = next((str(sample[name]) for name in names if sample.get(name) not in (None, "")), "")
    if names and not found:
        raise BadInput(f"{where}: {sample['metric']} has no label {' or '.join(names)}; export it with its labels")
    return found


def labels(sample: Mapping[str, Any]) -> str:
    """Key of the series that a sample belongs to: all but its time and value."""
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
    """Reading by column: sum or mean of a metric's values; of the counter, if a gauge measures the same."""
    ordered = sorted(found, key=lambda metric: MEANINGS[metric].counter)
    return {
        MEANINGS[metric].column: sum(found[metric]) if MEANINGS[metric].summed else fmean(found[metric])
        for metric in ordered
    }
