"""Operating points, that is measured runs of known jobs: how they are checked, read, and made training rows."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from scenarios.files.documents import as_csv
from scenarios.files.scenario_file import read_text
from scenarios.files.yaml_text import parse_text
from twin.arrivals.laws import ArrivalLaw
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.metrics import TABLE, Totals
from twin.run import host_totals, metrics_of, operator_totals
from twin.scenario import RunSettings, Scenario, config_hash, put
from twin.workload import Constant, Poisson

# points --------------------------------------------------------------------------------------------------------------
# Operating points: measured runs of known jobs, and checks for impossible readings.


KEEPS_UP = 0.95
"""Share of its offer from which on a source keeps up: records come in bursts, and readings are uneven."""
ABOVE_ALL = 1.1
"""Largest possible reading of a share of time or of a host's cores; a delivered share above it is catching up."""
HELD = 0.05
"""Share of its time beyond which a backpressured source counts as held back: it takes all that it can."""
UNKNOWN = 2.0
"""Assumed ratio of an unknown offer to what the source takes: any factor above 1 makes the latter its limit."""
BELOW_NOTHING = -0.05
"""Least possible reading of a share: counters of engines have errors of this size around 0."""
TWICE = 2.0
"""Factor between two readings at the same settings beyond which they contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Operating point: measurements of one run; what was not measured is absent.

    scenario: the job as it ran, with the offered rates as its arrivals. taken_per_s, emitted_per_s: records by
    operator, all subtasks together; what a source takes is what it delivers. busy, backpressured: shares of time, means
    over an operator's subtasks. markers_s: mean age of latency markers by operator. cpu: by host, share of its cores.
    latency_s: of the results, mean, from their ingestion. capped: why the offer of a source is unknown, by source; what
    it takes is the most that it can. engine: by host, reference cores that the engine used without records, which are
    not in `cpu`.
    """

    name: str
    scenario: Scenario
    machine: str = ""
    taken_per_s: Mapping[str, float] = field(default_factory=dict)
    emitted_per_s: Mapping[str, float] = field(default_factory=dict)
    busy: Mapping[str, float] = field(default_factory=dict)
    backpressured: Mapping[str, float] = field(default_factory=dict)
    markers_s: Mapping[str, float] = field(default_factory=dict)
    cpu: Mapping[str, float] = field(default_factory=dict)
    latency_s: float | None = None
    capped: Mapping[str, str] = field(default_factory=dict)
    engine: Mapping[str, float] = field(default_factory=dict)

    def offered_per_s(self, source: str) -> float:
        """Mean rate at which records arrive at a source."""
        return self.scenario.workload.arrivals[source].mean_rate_per_s

    @property
    def delivered(self) -> dict[str, float]:
        """Share of its offer that each source takes, where it was measured; at most 1."""
        sources = (each.name for each in self.scenario.query.sources)
        return {
            name: min(1.0, self.taken_per_s[name] / self.offered_per_s(name))
            for name in sources
            if name in self.taken_per_s
        }

    @property
    def saturated(self) -> bool:
        """Whether a source takes less than it is offered, or all that it can."""
        return bool(self.capped) or any(share < KEEPS_UP for share in self.delivered.values())

    @property
    def readings(self) -> dict[str, float]:
        """All that was measured, by a name for people."""
        named = {
            "records/s into {}": self.taken_per_s,
            "records/s out of {}": self.emitted_per_s,
            "busy share of {}": self.busy,
            "backpressured share of {}": self.backpressured,
            "age of latency markers (s) at {}": self.markers_s,
            "cpu of host {}": self.cpu,
        }
        found = {text.format(name): value for text, each in named.items() for name, value in each.items()}
        return found if self.latency_s is None else {**found, "latency": self.latency_s}


def with_caps(point: Point) -> Point:
    """Point that marks sources as capped if they take all of their known offer, and are held back or catch up."""
    capped = {}
    for source in (each.name for each in point.scenario.query.sources):
        taken = point.taken_per_s.get(source, 0.0)
        if taken < point.offered_per_s(source):
            continue
        if point.backpressured.get(source, 0.0) > HELD:
            capped[source] = f"is backpressured for {point.backpressured[source]:.0%} of its time"
        elif taken > ABOVE_ALL * point.offered_per_s(source):
            capped[source] = f"took {taken / point.offered_per_s(source):.2g} times its offer, so it caught up"
    if not capped:
        return point
    scenario = point.scenario
    for source in capped:
        law = {"law": "constant", "rate_per_s": UNKNOWN * point.taken_per_s[source]}
        scenario = put(scenario, f"workload.arrivals.{source}", law, f"point {point.name}")
    return replace(point, scenario=scenario, capped=capped)


def check(points: Sequence[Point]) -> None:
    """Raises BadInput, naming point and reading, for readings that are impossible or contradict another point."""
    if not points:
        raise BadInput("there is no operating point; give at least two, a row an operator or host")
    for point in points:
        _check_names(point)
        for what, value in point.readings.items():
            _check_value(point, what, value)
    _check_repeats(points)
    _check_order(points)
    machines = {point.machine for point in points}
    if len(machines) > 1:
        found = ", ".join(sorted(machine or "(none)" for machine in machines))
        raise BadInput(f"the points are of several machines ({found}); a profile is of one, choose with --machine")


def _check_names(point: Point) -> None:
    operators = [each.name for each in point.scenario.query.operators]
    hosts = [each.name for each in point.scenario.cluster.hosts]
    for name in {*point.taken_per_s, *point.emitted_per_s, *point.busy, *point.backpressured, *point.markers_s}:
        if name not in operators:
            raise BadInput(f"point {point.name}: unknown operator {name!r}; {suggest(name, operators)}")
    for name in point.markers_s:
        if point.scenario.query.operator(name).is_source:
            raise BadInput(
                f"point {point.name}: latency markers begin at a source, so {name} has none; leave marker_s out"
            )
    for name in point.cpu:
        if name not in hosts:
            raise BadInput(f"point {point.name}: unknown host {name!r}; {suggest(name, hosts)}")


def _check_value(point: Point, what: str, value: float) -> None:
    share = "share" in what or what.startswith("cpu")
    if not math.isfinite(value):
        raise BadInput(f"point {point.name}: {what} is {value}; leave out what was not measured")
    if share and not BELOW_NOTHING <= value <= ABOVE_ALL:
        raise BadInput(
            f"point {point.name}: {what} is {value:g}, a share is from 0 to 1; divide by the subtasks or cores"
        )
    if not share and value < 0:
        raise BadInput(f"point {point.name}: {what} is {value:g}; it cannot be negative")


def _check_repeats(points: Sequence[Point]) -> None:
    """Raises BadInput if readings of two points with the same settings differ by more than a factor TWICE."""
    first: dict[str, Point] = {}
    for point in points:
        other = first.setdefault(config_hash(point.scenario), point)
        for what, value in point.readings.items():
            before = other.readings.get(what, value)
            if max(value, before) > TWICE * max(min(value, before), 0.05 if "share" in what or "cpu" in what else 1e-3):
                raise BadInput(
                    f"points {other.name} and {point.name} contradict each other: at the same settings, {what} is "
                    f"{before:g} and {value:g}; remove one"
                )


def _check_order(points: Sequence[Point]) -> None:
    """Raises BadInput if a job keeps up at a rate but not at a lower one, and nothing else differs."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        if point.delivered:
            groups.setdefault(_but_for_rates(point), []).append(point)
    for group in groups.values():
        slow = [each for each in group if min(each.delivered.values()) < KEEPS_UP - 0.05]
        fast = [each for each in group if min(each.delivered.values()) >= KEEPS_UP]
        for behind in slow:
            for ahead in fast:
                if all(ahead.offered_per_s(name) > 1.1 * behind.offered_per_s(name) for name in behind.delivered):
                    raise BadInput(
                        f"points {behind.name} and {ahead.name} contradict each other: the first falls behind and the "
                        "second keeps up with more; remove one"
                    )


def _but_for_rates(point: Point) -> str:
    scenario = point.scenario
    parts = (scenario.query, scenario.cluster, scenario.plan)
    return "|".join(part.model_dump_json() for part in parts)


def one_job(points: Sequence[Point]) -> bool:
    """Whether all points are of the same query."""
    return all(point.scenario.query == points[0].scenario.query for point in points)


# points as training rows ---------------------------------------------------------------------------------------------
# Makes training rows of operating points: the labels and columns of simulated runs, marked as measured.


ROWS = "rows.parquet"


def training_row(point: Point, index: int, seconds: float) -> dict[str, Any]:
    """One row of `twin.trace.TRAINING_ROWS`. What was not measured has no label. seconds: length of the measurement."""
    query, spec = point.scenario.query, point.scenario.checkpoints
    sinks = [each.name for each in query.result_sinks]
    seen = all(name in point.taken_per_s for name in sinks)
    results = sum(point.taken_per_s[name] for name in sinks) * seconds if seen else math.nan
    taken = [point.taken_per_s.get(each.name, point.offered_per_s(each.name)) for each in query.sources]
    totals = Totals(
        seconds=seconds,
        results=results,
        processing_s=math.nan if point.latency_s is None else point.latency_s * results,
        e2e_s=math.nan,
        arrived=sum(point.offered_per_s(each.name) for each in query.sources) * seconds,
        taken=sum(taken) * seconds,
        alive=True,
    )
    labels = {
        name: metric.of(totals) if results or metric.kind != "latency" else math.nan for name, metric in TABLE.items()
    }
    return {
        "run": point.name,
        "index": index,
        "seed": 0,
        "config_hash": config_hash(point.scenario),
        "horizon_s": seconds,
        "warmup_s": 0.0,
        "deployment": point.scenario.deployment.model_dump_json(exclude_none=True),
        "checkpoints": None if spec is None else spec.model_dump_json(exclude_none=True),
        **{name: _known(value) for name, value in labels.items()},
        "success": bool(results > 0) if seen else True,
        "backpressure_per_s": max(0.0, totals.arrived - totals.taken) / seconds,
        "records_out": 0 if not seen else round(results),
        "measured": True,
    }


def check_subtasks(point: Point, counted: Mapping[str, int]) -> list[str]:
    """Operators that have more subtasks than in the plan, in words. counted: subtasks by operator, where known.

    Raises BadInput if an operator has fewer, because its rates are sums over subtasks.
    """
    more = []
    for operator, count in counted.items():
        parallelism = point.scenario.plan.parallelism(operator)
        if count < parallelism:
            raise BadInput(
                f"run {point.name}: {operator} has samples of {count} of its {parallelism} subtasks, and rates "
                f"are sums; export them all, or give the plan of that run in a column plan.placement.{operator}"
            )
        if count > parallelism:
            more.append(f"{operator} has samples of {count} subtasks, and {parallelism} in the plan")
    return more


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_rows(rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Writes a new folder with one Parquet file of rows and its card, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from twin.corpus.rows import describe
    from twin.files import new_folder
    from twin.trace import TRAINING_ROWS

    schema = TRAINING_ROWS.append(pa.field("measured", pa.bool_()))
    with new_folder(folder) as aside:
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=schema), aside / ROWS)
        describe(aside, "Data card: measured runs", {"rows": len(rows)}, schema.names, [ROWS])


# folders of runs -----------------------------------------------------------------------------------------------------
# Reads folders of runs as operating points: traces of simulated or measured runs, each with a job of its own.


PARTS = ("runs", "operators", "hosts")


def read_runs(folder: Path, scenario: Scenario) -> list[Point]:
    """Reads the runs of a trace (`twin run --out`, `twin corpus`, `twin import metrics`), under the scenario's profile.

    Runs that failed are left out. Raises BadInput if there is no run, or the trace is damaged.
    """
    from twin.trace import damage, read_table

    chunks = sorted(each.parent for each in folder.rglob("runs.parquet"))
    if not chunks:
        raise BadInput(
            f"{folder} holds no run (runs.parquet); write one with 'twin run --out' or 'twin import metrics'"
        )
    points = []
    for chunk in chunks:
        if told := damage(chunk):
            raise BadInput(f"{chunk}: {told}; make it again")
        runs, operators, hosts = (read_table(chunk, part).to_pylist() for part in PARTS)
        done = (run for run in runs if run["status"] == "ok")
        points += [_point_of_run(run, _of(run, operators), _of(run, hosts), scenario) for run in done]
    return points


def _of(run: dict[str, Any], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["run"] == run["run"]]


def _point_of_run(
    run: dict[str, Any], operators: Sequence[dict[str, Any]], hosts: Sequence[dict[str, Any]], scenario: Scenario
) -> Point:
    deployment = Deployment.model_validate_json(run["deployment"])
    settings = RunSettings(horizon_s=run["horizon_s"], warmup_s=run["warmup_s"], period_s=run["period_s"])
    job = Scenario(**{**dict(deployment), "engine": scenario.engine, "name": run["run"], "run": settings})
    totals = operator_totals(operators, run["warmup_s"])
    metrics = metrics_of(operators, run["warmup_s"], bool(run["crashed"]))
    latency = metrics.processing_latency_s
    return Point(
        name=run["name"] or run["run"],
        scenario=job,
        taken_per_s={each.operator: each.rate_in_per_s for each in totals},
        emitted_per_s={each.operator: each.rate_out_per_s for each in totals},
        busy={each.operator: each.busy for each in totals},
        backpressured={each.operator: each.backpressured for each in totals},
        cpu={each.host: each.cpu for each in host_totals(hosts, run["warmup_s"])},
        latency_s=None if latency is None else latency.mean,
    )


# small tables in Parquet ---------------------------------------------------------------------------------------------
# Reads small tables in Parquet as rows.


def parquet_rows(path: Path) -> list[Mapping[str, Any]]:
    """Reads the rows of a Parquet file. Raises BadInput if there is no such file, or it is no Parquet."""
    if not path.is_file():
        raise BadInput(f"{path} is missing; check the path")
    return rows_of(str(path), path.read_bytes())


def rows_of(name: str, content: bytes) -> list[Mapping[str, Any]]:
    """Rows in the content of a Parquet file. Raises BadInput, with the file's name, if it is no Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_table(pa.BufferReader(content)).to_pylist())
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(f"{name} is not a readable Parquet file ({error})") from None


# tables of points ----------------------------------------------------------------------------------------------------
# Reads operating points: a table (CSV, Parquet, YAML) and one scenario for all, or a folder of runs with their own.
#
# A row of a table is about one point, and there about one operator, one host, or (neither named) the results.


Row = Mapping[str, Any]


class ReadingColumn(NamedTuple):
    """Column of readings. of: the column that a row needs beside it; empty: none. key: name of the value in a point.
    factor: converts a reading to that value."""

    of: str
    key: str
    factor: float = 1.0


NUMBERS: Mapping[str, ReadingColumn] = {
    "offered_per_s": ReadingColumn("operator", "offered"),
    "in_per_s": ReadingColumn("operator", "in"),
    "out_per_s": ReadingColumn("operator", "out"),
    "busy": ReadingColumn("operator", "busy"),
    "busyTimeMsPerSecond": ReadingColumn("operator", "busy", 1e-3),
    "backpressured": ReadingColumn("operator", "backpressured"),
    "backPressuredTimeMsPerSecond": ReadingColumn("operator", "backpressured", 1e-3),
    "marker_s": ReadingColumn("operator", "marker"),
    "cpu": ReadingColumn("host", "cpu"),
    "others_percent": ReadingColumn("host", "others"),
    "latency_s": ReadingColumn("", "latency"),
}
WORDS = ("point", "operator", "host", "machine")
IGNORED = "note"
COLUMNS = (
    *("point", "operator", "host", "offered_per_s", "in_per_s", "out_per_s"),
    *("busy", "backpressured", "marker_s", "cpu", "others_percent", "latency_s"),
)
"""Columns of the tables that imports write."""


def read_points(path: Path, scenario: Scenario) -> list[Point]:
    """Reads the points in a file or folder, in their order; only their form is checked.

    Raises BadInput, naming file, row and column, for what is no table of points.
    """
    if path.is_dir():
        from scenarios.calibration.points import read_runs

        return read_runs(path, scenario)
    rows = _rows(path)
    if not rows:
        raise BadInput(f"{path} has no rows; give a row an operator or host of each operating point")
    return points_of(rows, scenario, str(path))


def points_of(rows: Sequence[Row], scenario: Scenario, where: str) -> list[Point]:
    """Points that rows describe. Raises BadInput, naming row and column, for what is no table of points."""
    groups: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for number, row in enumerate(rows, start=1):
        place = f"{where}, row {number}"
        known = {str(key): value for key, value in row.items() if not _empty(value)}
        _check_columns(known, place)
        groups.setdefault(str(known.get("point", number)), []).append((place, known))
    return [_point(name, group, scenario) for name, group in groups.items()]


def _point(name: str, rows: Sequence[tuple[str, dict[str, Any]]], scenario: Scenario) -> Point:
    found: dict[str, dict[str, float]] = {column.key: {} for column in NUMBERS.values()}
    for place, row in rows:
        for path, value in row.items():
            if "." in path:
                scenario = put(scenario, path, parse_text(str(value), place), place)
        of = str(row.get("operator", row.get("host", "")))
        for read, column in NUMBERS.items():
            if read in row:
                value = _number(row[read], read, place) * column.factor
                _keep(found[column.key], of if column.of else place, value, f"{place}: {read}")
    machines = {str(row["machine"]) for _, row in rows if "machine" in row}
    if len(machines) > 1:
        raise BadInput(f"point {name} is of several machines ({', '.join(sorted(machines))}); give them other names")
    sources = [each.name for each in scenario.query.sources]
    for source, rate in found["offered"].items():
        if source not in sources:
            raise BadInput(f"point {name}: offered_per_s is of sources, not of {source!r}; {suggest(source, sources)}")
        law = _law(rate, scenario.workload.arrivals[source], name, source)
        scenario = put(scenario, f"workload.arrivals.{source}", law, f"point {name}")
    for host, percent in found["others"].items():
        scenario = put(scenario, f"cluster.hosts.{host}.others_percent", percent, f"point {name}")
    taken = {**found["in"], **{each: found["out"][each] for each in sources if each in found["out"]}}
    point = Point(
        name=name,
        scenario=scenario,
        machine=next(iter(machines), ""),
        taken_per_s=taken,
        emitted_per_s=found["out"],
        busy=found["busy"],
        backpressured=found["backpressured"],
        markers_s=found["marker"],
        cpu=found["cpu"],
        latency_s=next(reversed(found["latency"].values()), None),
    )
    return with_caps(point)


def _law(rate: float, usual: ArrivalLaw, point: str, source: str) -> dict[str, Any]:
    """Arrival law of the measured rate: Poisson if the source's usual law is random, else constant."""
    if not rate > 0:
        raise BadInput(f"point {point}: offered_per_s of {source} must be > 0, got {rate:g}")
    steady = Poisson if usual.gap_scv else Constant
    return steady(rate_per_s=rate).model_dump(mode="json")


def _keep(into: dict[str, float], of: str, value: float, what: str) -> None:
    if of in into and into[of] != value:
        raise BadInput(f"{what} of {of} is given twice in this point ({into[of]:g} and {value:g}); remove one")
    into[of] = value


def _check_columns(row: Row, place: str) -> None:
    for column in row:
        if column not in (*WORDS, *NUMBERS, IGNORED) and "." not in column:
            hint = suggest(column, (*WORDS, *NUMBERS))
            raise BadInput(f"{place}: unknown column {column!r}; {hint}; a column with dots sets a value as --set does")
    if "operator" in row and "host" in row:
        raise BadInput(f"{place} names an operator and a host; give each a row of its own")
    for column, (of, *_) in NUMBERS.items():
        if column in row and of and of not in row:
            raise BadInput(f"{place}: {column} needs a name of its {of}; fill the column {of!r}")


def _number(value: Any, column: str, place: str) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise BadInput(f"{place}: {column} must be a number, got {value!r}") from None
    if not math.isfinite(found):
        raise BadInput(f"{place}: {column} is {value}; leave empty what was not measured")
    return found


def _empty(value: Any) -> bool:
    return value is None or value == ""


def _rows(path: Path) -> list[Row]:
    if path.suffix in (".parquet", ".pq"):
        return parquet_rows(path)
    text = read_text(path)
    if path.suffix in (".yaml", ".yml", ".json"):
        data = parse_text(text, str(path))
        rows = data.get("points") if isinstance(data, Mapping) else data
        if not isinstance(rows, list) or not all(isinstance(each, Mapping) for each in rows):
            raise BadInput(f"{path} must hold a list of rows, such as '- {{point: a, operator: map, busy: 0.4}}'")
        return rows
    return list(_csv_rows(text, path))


def _csv_rows(text: str, path: Path) -> Iterable[Row]:
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    if not reader.fieldnames or len(reader.fieldnames) < 2:
        raise BadInput(
            f"{path} is no CSV of operating points; its first line names columns such as point,operator,busy"
        )
    for number, row in enumerate(reader, start=1):
        if None in row:
            raise BadInput(f"{path}, row {number} has more cells than the first line has columns")
        yield {key: value.strip() if isinstance(value, str) else value for key, value in row.items()}


def with_point(path: Path, point: str, rows: Sequence[Mapping[str, Any]], text: str = "") -> str:
    """Text of a file with one more point; a new file gets a first line. text: instead of the file's own.

    Raises BadInput if the file is another table, or has a point of that name.
    """
    before = text or (read_text(path) if path.exists() else ",".join(COLUMNS) + "\n")
    reader = csv.DictReader(io.StringIO(before))
    kept = list(reader)
    if "point" not in (reader.fieldnames or ()) or not set(reader.fieldnames or ()) <= set(COLUMNS):
        raise BadInput(f"{path} is another table; name a new file, or one that an import wrote")
    if any(row["point"] == point for row in kept):
        raise BadInput(f"{path} has a point {point!r}; name this one with --point")
    known = [key for row in rows for key in row if key not in COLUMNS]
    if known:
        raise BadInput(
            f"{path}: this table has no column {known[0]!r}; write the points by hand, or leave --points out"
        )
    return as_csv([*kept, *({"point": point, **row} for row in rows)], COLUMNS)
