"""Estimates a job from the last windows of its metrics: rates with their trends, and what it can take."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeVar

import numpy as np

from scenarios.files import documents
from scenarios.files.run_folder import writing
from spark.metric_windows import Series, WindowSample
from streamtwin.connect.importers.prometheus import MEANINGS, labels, meaning_of, named, samples_of, together
from twin.arrivals.laws import MIN_RATE_PER_S
from twin.chaining import fused, one_a_task
from twin.errors import BadInput
from twin.files import stamped, unstamped, write_text
from twin.kinds.basic import Calling
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.spec import parse

# windows of metrics --------------------------------------------------------------------------------------------------
# Windows of a job's metrics, and the files that a shadow writes for each of them: one in each of three folders.
#
# A file is whole or not there, with a JSON object a line, and a repeated window gets the same file again: so nothing
# is lost or doubled however the shadow ends.


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


# estimates -----------------------------------------------------------------------------------------------------------
# Estimates a job from the last windows of its metrics: rates with their trends, and costs of operators.
#
# The measured use of a core for a record, less the rate model's at the same rates, corrects an operator's service time;
# all else about the job is as in the scenario.


FEWEST = 4
"""Number of windows from which on a trend can be told from chance."""
LEVEL = 3
"""Number of windows over which a rate without a trend is averaged."""
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Trend:
    """Trend of a rate: records/s now, their growth a second, and half the growth's 95 % interval (None: not known)."""

    now_per_s: float
    slope_per_s2: float = 0.0
    half_width95: float | None = None

    def ahead(self, seconds: float) -> float:
        """Rate (records/s) after some seconds, if the trend holds; never below 0."""
        return max(0.0, self.now_per_s + self.slope_per_s2 * seconds)


def trend(times_s: Sequence[float], rates_per_s: Sequence[float], now_s: float) -> Trend:
    """Trend of rates at `times_s` (ascending, at least one). The slope is 0 unless it is significant (Student's t)."""
    level = float(np.mean(rates_per_s[-LEVEL:]))
    if len(times_s) < FEWEST:
        return Trend(level)
    x, y = np.array(times_s) - now_s, np.array(rates_per_s)
    slope, now = np.polyfit(x, y, 1)
    half = _half_width(x, y - now - slope * x)
    if abs(slope) <= half or not math.isfinite(slope):
        return Trend(level, 0.0, half)
    return Trend(max(0.0, float(now)), float(slope), half)


def _half_width(x: np.ndarray, residuals: np.ndarray) -> float:
    """Half of the confidence interval of a slope, from the residuals about the line."""
    from scipy.special import stdtrit

    free = len(x) - 2
    scatter = math.sqrt(float(np.sum(residuals**2)) / free / float(np.sum((x - x.mean()) ** 2)))
    return float(stdtrit(free, (1 + CONFIDENCE) / 2)) * scatter


LEAST_BUSY = 0.01
"""Share of the time below which a busy time tells nothing."""


def speeds_of(scenario: Scenario, window: Window, least: Mapping[str, float]) -> dict[str, float]:
    """Speed of a busy subtask (reference cores), by operator whose busy time is known. It is busy, too, while it waits
    for a core.

    least: speeds by the rate model: a subtask is never slower, and never faster than a core of its own. Between the
    two, the speeds are those at which the subtasks on a host use the CPU that was measured.
    """
    busy = {name: each["busy"] for name, each in window.operators.items() if each.get("busy", 0.0) >= LEAST_BUSY}
    chains = fused(scenario.query, scenario.plan, scenario.engine)
    known = {name: share for name, share in one_a_task(busy, chains).items() if name in least}
    factors = {host: _factor(scenario, window, host, known, least) for host in window.hosts}
    found = {}
    for name in known:
        hosts = [place.host for place in scenario.plan.locations(name)]
        found[name] = least[name] * sum(factors.get(host, 1.0) for host in hosts) / len(hosts)
    return found


def _factor(
    scenario: Scenario, window: Window, host: str, busy: Mapping[str, float], least: Mapping[str, float]
) -> float:
    """Factor on the speeds in `least` with which all subtasks on a host use the CPU that was measured."""
    there = [(name, place.socket) for name in busy for place in scenario.plan.locations(name) if place.host == host]
    slowest = sum(busy[name] * least[name] for name, _ in there)
    core = scenario.cluster.host(host).core_speed
    fastest = sum(busy[name] * max(core(socket), least[name]) for name, socket in there)
    measured = window.hosts[host].get("cpu")
    if measured is None or slowest <= 0.0:
        return 1.0
    cores = measured * scenario.cluster.host(host).cpu_percent / 100
    return min(max(cores, slowest), fastest) / slowest


COSTS = 5
"""Number of windows whose median cost counts."""


@dataclass(frozen=True, slots=True)
class Belief:
    """Estimate of a job. scenario: with the estimated costs, at the rates now. trends: of the rates, by source.
    costs_s: by operator, service time of a record (s)."""

    scenario: Scenario
    trends: Mapping[str, Trend]
    costs_s: Mapping[str, float]

    def ahead(self, seconds: float) -> Scenario:
        """Job at the rates after some seconds, if the trends hold."""
        return at_rates(self.scenario, {name: each.ahead(seconds) for name, each in self.trends.items()})


def believed(given: Scenario, windows: Sequence[Window]) -> Belief | None:
    """Estimate of a job from its last windows, oldest first. None if a source was measured in none of them."""
    trends = {}
    for source in given.query.sources:
        seen = [(each, rate) for each in windows if (rate := _offered(each, source.name)) is not None]
        if not seen:
            return None
        times_s = [each.at_s for each, _ in seen]
        trends[source.name] = trend(times_s, [rate for _, rate in seen], windows[-1].end_s)
    costs_s = _costs_s(given, windows[-COSTS:])
    rates = {name: each.now_per_s for name, each in trends.items()}
    return Belief(at_rates(with_costs(given, costs_s), rates), trends, costs_s)


def at_rates(scenario: Scenario, rates_per_s: Mapping[str, float]) -> Scenario:
    """Job with steady sources of these rates, constant or Poisson as the given laws; without events and policy."""
    data: dict[str, Any] = scenario.model_dump(mode="json")
    for name, law in scenario.workload.arrivals.items():
        kind = "constant" if law.gap_scv == 0.0 else "poisson"
        data["workload"]["arrivals"][name] = {"law": kind, "rate_per_s": max(rates_per_s[name], MIN_RATE_PER_S)}
    return parse(Scenario, {**data, "events": [], "policy": None})


def with_costs(scenario: Scenario, costs_s: Mapping[str, float]) -> Scenario:
    """Job with these service times (s)."""
    data: dict[str, Any] = scenario.model_dump(mode="json")
    for operator in data["query"]["operators"]:
        operator["service_time_s"] = costs_s.get(operator["name"], operator["service_time_s"])
    return parse(Scenario, data)


def _offered(window: Window, source: str) -> float | None:
    """Rate that arrives at a source; if not measured, the rate taken or emitted, which is less under backpressure."""
    readings = window.operators.get(source, {})
    found = [readings[name] for name in ("offered_per_s", "in_per_s", "out_per_s") if readings.get(name)]
    return found[0] if found else readings.get("offered_per_s", readings.get("out_per_s"))


def _costs_s(given: Scenario, windows: Sequence[Window]) -> dict[str, float]:
    """CPU seconds of a record, by measured operator: medians over the windows."""
    known = given.engine, given.query
    base_s = {each.name: known[0].service_s(known[1], each) for each in given.query.operators}
    explicit = with_costs(given, base_s)
    found: dict[str, list[float]] = {}
    for window in windows:
        for name, more_s in _more_s(explicit, window).items():
            found.setdefault(name, []).append(max(0.0, base_s[name] + more_s))
    return {name: median(values) for name, values in found.items()}


def _more_s(scenario: Scenario, window: Window) -> dict[str, float]:
    """CPU seconds of a record as measured, less those predicted at the rates of the window, by operator; of chained
    operators, those of all of them at the first."""
    rates = {each.name: _offered(window, each.name) for each in scenario.query.sources}
    taken = {name: rate for name, rate in rates.items() if rate is not None}
    if len(taken) < len(rates):
        return {}
    answer = RateModel().answer(at_rates(scenario, taken), [scenario.plan])
    columns = {name: number for number, name in enumerate(answer.operators)}
    chains = fused(scenario.query, scenario.plan, scenario.engine)
    tasks = {name: chain for chain in chains for name in chain}
    speeds = speeds_of(scenario, window, {name: float(answer.speed[0, n]) for name, n in columns.items()})
    found = {}
    for name, speed in speeds.items():
        if isinstance(scenario.query.operator(name), Calling):
            continue  # its busy time includes waiting for answers
        readings, predicted_per_s = window.operators[name], float(answer.in_per_s[0, columns[name]])
        records_per_s = readings.get("in_per_s") or taken.get(name)
        if not records_per_s or not predicted_per_s:
            continue
        cores = sum(float(answer.busy_cores[0, columns[each]]) for each in tasks.get(name, (name,)))
        predicted_s = cores / predicted_per_s
        found[name] = scenario.plan.parallelism(name) * (readings["busy"] * speed / records_per_s - predicted_s)
    return found
