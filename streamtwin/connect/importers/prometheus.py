"""Turns samples of metrics, exported from a time-series database, into readings of operators."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from twin.errors import BadInput, some_of, suggest
from twin.files import parse_json
from twin.quantities import moment_s

# tables of samples ---------------------------------------------------------------------------------------------------
# Reads samples of a time-series database: of a table, a line each with `time`, `metric`, `value` and labels; or as
# Prometheus itself writes them, for those that it scrapes and for those that ask its HTTP API.
#
# Exporters name and fill columns in their own ways: `timestamp` and `__name__`, capitals, semicolons or tabs, epochs
# in milliseconds, and nothing or NaN where nothing was measured.


FIXED: Mapping[str, tuple[str, ...]] = {
    "time": ("time", "timestamp"),
    "metric": ("metric", "__name__"),
    "value": ("value",),
}
"""Columns that a sample must have, and their names at exporters, in capitals or not."""
DELIMITERS = (",", ";", "\t")
FORMS = "CSV or Parquet, text that Prometheus scrapes, or an answer of its HTTP API"
BESIDES = frozenset(name for names in FIXED.values() for name in names)
"""Names of labels that a table has for what a sample is, and that are left out of Prometheus' own."""
_EXPOSED = re.compile(r"[a-zA-Z_:][\w:]*(\{.*\})?\s+[-+]?(\d|NaN|Inf|\.)")
"""First line of text that Prometheus scrapes: a name, labels in braces, and a number."""


def samples_of(file: str, content: bytes) -> list[dict[str, Any]]:
    """Reads the samples that have a value from the content of a file, CSV or Parquet by its name.

    Raises BadInput, naming file and line, for what is no table of samples.
    """
    return [each for each in all_samples(file, content) if not math.isnan(each["value"])]


def all_samples(file: str, content: bytes) -> list[dict[str, Any]]:
    """Reads all samples from the content of a file, CSV or Parquet by its name; a missing value is nan. Raises BadInput
    as `samples_of`."""
    rows, place, first = _rows(file, content)
    if not rows:
        raise BadInput(f"{file} holds no samples; its columns are time, metric, value and labels such as run, operator")
    names = _names(rows, file)
    return [_checked(row, names, f"{file}, {place} {number}") for number, row in enumerate(rows, start=first)]


def _names(rows: Sequence[Mapping[str, Any]], file: str) -> dict[str, str]:
    """Name in the table of each column in FIXED."""
    columns = list(dict.fromkeys(str(column) for row in rows for column in row))
    found = {}
    for name, others in FIXED.items():
        known = [column for column in columns if column.lower() in others]
        if len(known) != 1:
            what = f"has no {name}" if not known else f"has {' and '.join(known)}, which are both a sample's {name}"
            raise BadInput(
                f"{file} {what}; its columns are {', '.join(columns)}, and a sample has time, metric, value and labels"
            )
        found[name] = known[0]
    return found


def _checked(row: Mapping[str, Any], names: Mapping[str, str], place: str) -> dict[str, Any]:
    for name in ("time", "metric"):
        if row.get(names[name]) in (None, ""):
            raise BadInput(f"{place} has no {name}; the columns are time, metric, value and labels")
    metric = str(row[names["metric"]])
    labels = {str(key): each for key, each in row.items() if key not in names.values() and each not in (None, "")}
    value = _value(row.get(names["value"]), metric, place)
    return {**labels, "time": _seconds(row[names["time"]], place), "metric": metric, "value": value}


def _value(value: Any, metric: str, place: str) -> float:
    if value in (None, ""):
        return math.nan
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise BadInput(f"{place}: value must be a number such as 0.5, got {value!r}") from None
    if math.isinf(found):
        raise BadInput(f"{place}: {metric} is {found}; leave out samples that were not measured")
    return found


def _seconds(value: Any, place: str) -> float:
    try:
        return moment_s(value)
    except ValueError:
        raise BadInput(f"{place}: time must be seconds or ISO 8601, got {value!r}") from None


def _rows(file: str, content: bytes) -> tuple[list[Mapping[str, Any]], str, int]:
    """Samples in a file, what they are called there, and the number of the first."""
    if file.endswith((".parquet", ".pq")):
        from scenarios.calibration.points import rows_of

        return rows_of(file, content), "row", 1
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{file} is not text in UTF-8; samples are {FORMS}") from None
    if text.lstrip().startswith("{"):
        return _of_http_api(file, text), "sample", 1
    first = text.lstrip().partition("\n")[0]
    if first.startswith("#") or _EXPOSED.match(first):
        return _of_exposition(file, text), "sample", 1
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True, delimiter=max(DELIMITERS, key=first.count))
    rows: list[Mapping[str, Any]] = []
    for number, row in enumerate(reader, start=2):
        if None in row:
            raise BadInput(
                f"{file}, line {number} has more cells than the first line has columns; quote what has commas"
            )
        rows.append(row)
    return rows, "line", 2


def _of_http_api(file: str, text: str) -> list[Mapping[str, Any]]:
    """Samples in an answer of Prometheus' HTTP API, of `query` or `query_range`."""
    try:
        answer = parse_json(text)
    except ValueError as error:
        raise BadInput(f"{file} begins as JSON and is none: {error}; samples are {FORMS}") from None
    if answer.get("status") == "error":
        raise BadInput(f"{file} is an error of Prometheus: {answer.get('error', 'without a word')}; ask again")
    result = answer["data"].get("result") if isinstance(answer.get("data"), dict) else None
    if not isinstance(result, list) or not all(
        isinstance(each, dict) and isinstance(each.get("metric"), dict) for each in result
    ):
        raise BadInput(f"{file} is JSON without data.result, as /api/v1/query_range of Prometheus answers; give that")
    if not result:
        raise BadInput(f"{file} answers with no series; ask for metrics and a time for which there are some")
    rows = list[Mapping[str, Any]]()
    for series in result:
        labels = {key: value for key, value in series["metric"].items() if key.lower() not in BESIDES}
        metric = series["metric"].get("__name__")
        if not metric:
            raise BadInput(f"{file}: a series has no __name__, as of rate(...); ask for the metrics themselves")
        pairs = series.get("values") or [series.get("value")]
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise BadInput(f"{file}: a series of {metric} has no values; ask for a range, or an instant")
        where = f"{file}: {metric}"
        rows += [{**labels, "time": at_s, "metric": metric, "value": _finite(value, where)} for at_s, value in pairs]
    return rows


def _of_exposition(file: str, text: str) -> list[Mapping[str, Any]]:
    """Samples in the text that Prometheus reads of a reporter, or gives of itself (`/federate`, which has times)."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        families = list(text_string_to_metric_families(text))
    except ValueError:
        raise BadInput(_unread(file, text)) from None
    return [
        {
            **{key: value for key, value in each.labels.items() if key.lower() not in BESIDES},
            "time": 0.0 if each.timestamp is None else float(each.timestamp),
            "metric": each.name.removesuffix("_total") if family.type == "counter" else each.name,  # the reader adds it
            "value": _finite(each.value, f"{file}: {each.name}"),
        }
        for family in families
        for each in family.samples
    ]


def _unread(file: str, text: str) -> str:
    """Which line of a text is no sample of Prometheus, and whether the file ends within it."""
    from prometheus_client.parser import text_string_to_metric_families

    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    for number, line in lines:
        try:
            list(text_string_to_metric_families(f"{line}\n"))
        except ValueError:
            ends = (number, line) == lines[-1]
            remedy = "the file ends within it; save it again" if ends else f"samples are {FORMS}"
            return f"{file}, line {number} is no sample of Prometheus: {line.strip()[:60]!r}; {remedy}"
    return f"{file} is no text of metrics; samples are {FORMS}"


def _finite(value: Any, where: str) -> float:
    """The value, or NaN where Prometheus has an infinite one: of a quantile of nothing, or the last bucket."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise BadInput(f"{where}: value must be a number such as 0.5, got {value!r}") from None
    return found if math.isfinite(found) else math.nan


# readings ------------------------------------------------------------------------------------------------------------
# Turns samples of metrics, exported from a time-series database, into readings of runs.
#
# Samples are lines of a table (`sample_table`). The label `run` tells runs apart; `operator`, or Flink's `task_name`,
# names the operator, `host` the machine. Metrics are known by the ends of their names, as exporters put scopes before
# them. Counters become rates by their growth, and gauges readings by their mean.


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
INSIDE = frozenset({"operator_name", "operator_id"})
"""Labels of Flink's metrics of one operator in a chain."""
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
    scraped = min(times) == max(times)
    for sample in samples:
        found = meaning_of(sample)
        if found is None or (scraped and MEANINGS[found].counter):
            skipped.add(str(sample["metric"]))
            continue
        series.setdefault((found, named(sample, MEANINGS[found], where), labels(sample)), []).append(sample)
    if not series:
        if scraped and any(meaning_of(each) for each in samples):
            raise BadInput(f"{where}: run {name} has counters of one moment only; export two moments at least")
        raise BadInput(f"{where}: run {name} has no known metric; {suggest(min(skipped), MEANINGS)}")
    _check_one_job([each for group in series.values() for each in group], where)
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


def _check_one_job(samples: Sequence[Mapping[str, Any]], where: str) -> None:
    """Raises BadInput if samples of a run are of several jobs, or of several attempts of a task, which would be added:
    each label is another series."""
    for label in ("job_name", "job_id"):
        jobs = sorted({str(each[label]) for each in samples if label in each})
        if len(jobs) > 1:
            raise BadInput(f"{where} has metrics of {len(jobs)} jobs by {label}: {some_of(jobs)}; export those of one")
    attempts: dict[tuple[str, str], set[str]] = {}
    for each in samples:
        if "task_attempt_id" in each:
            task = next((str(each[name]) for name in NAMES["operator"] if name in each), "")
            attempts.setdefault((task, str(each.get(SUBTASK, ""))), set()).add(str(each["task_attempt_id"]))
    for (task, subtask), found in attempts.items():
        if len(found) > 1:
            raise BadInput(
                f"{where}: subtask {subtask} of {task} has {len(found)} attempts, so the job was restarted meanwhile; "
                "export what is before or after"
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
    if INSIDE & sample.keys() and "task_name" in sample:  # of an operator in a task, whose own counters are told too
        return None
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
    if ordered and (least := min(each["value"] for each in ordered)) < 0:
        counter = ordered[0]["metric"]
        raise BadInput(f"{where}: the counter {counter} is {least:g}, and nothing counts below 0; export it again")
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
