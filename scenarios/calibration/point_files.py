"""Reads operating points: a table (CSV, Parquet, YAML) and one scenario for all, or a folder of runs with their own.

A row of a table is about one point, and there about one operator, one host, or (neither named) the results.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scenarios.calibration.point import Point, with_caps
from scenarios.files.documents import as_csv
from scenarios.files.parquet_rows import parquet_rows
from scenarios.files.scenario_file import read_text
from scenarios.files.yaml_text import parse_text
from twin.arrivals.law import ArrivalLaw
from twin.errors import BadInput, suggest
from twin.overrides import put
from twin.scenario import Scenario
from twin.workload import Constant, Poisson

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
        from scenarios.calibration.run_folders import read_runs

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
