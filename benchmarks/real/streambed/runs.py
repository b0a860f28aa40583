"""Published runs of StreamBed (Rosinosky, Schmitz, Rivière, DEBS 2024), read and checked, and their queries."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

import pandas as pd

from twin.errors import BadInput

# queries -------------------------------------------------------------------------------------------------------------
# The queries of Nexmark that StreamBed measured, operator by operator as Flink's plan has them.


Keyed = Literal["no", "by record", "by window"]


@dataclass(frozen=True)
class Step:
    """Operator of a plan. size_s, slide_s: of its windows, if it has any; gap_s: of its sessions. keyed: whether a
    record's own key says which subtask gets it, or the window that it is a result of."""

    name: str
    inputs: tuple[str, ...]
    keyed: Keyed = "no"
    size_s: float | None = None
    slide_s: float | None = None
    gap_s: float | None = None

    @property
    def window_s(self) -> tuple[float, float] | None:
        """Size and slide of the window; None without one."""
        return None if self.size_s is None else (self.size_s, self.slide_s or self.size_s)


SOURCE, SINK = "Source", "Sink"

QUERIES: Mapping[str, tuple[Step, ...]] = {
    "q1": (Step("Calc", (SOURCE,)), Step(SINK, ("Calc",))),
    "q2": (Step("Calc", (SOURCE,)), Step(SINK, ("Calc",))),
    "q5": (
        Step("Calc1", (SOURCE,)),
        Step("GroupWindowAggregate", ("Calc1",), "by record", size_s=10, slide_s=2),
        Step("Calc2", ("GroupWindowAggregate",)),
        Step("Calc3", ("GroupWindowAggregate",)),
        Step("GroupAggregate", ("Calc3",), "by window"),
        Step("Calc4", ("GroupAggregate",)),
        Step("Join", ("Calc2", "Calc4"), "by window"),
        Step("Calc5", ("Join",)),
        Step(SINK, ("Calc5",)),
    ),
    "q8": (
        Step("Calc1", (SOURCE,)),
        Step("Calc2", (SOURCE,)),
        Step("GroupWindowAggregate1", ("Calc1",), "by record", size_s=10),
        Step("GroupWindowAggregate2", ("Calc2",), "by record", size_s=10),
        Step("Calc3", ("GroupWindowAggregate1",)),
        Step("Calc4", ("GroupWindowAggregate2",)),
        Step("Join", ("Calc3", "Calc4"), "by record"),
        Step("Calc5", ("Join",)),
        Step(SINK, ("Calc5",)),
    ),
    "q11": (
        Step("Calc1", (SOURCE,)),
        Step("GroupWindowAggregate", ("Calc1",), "by record", gap_s=10),
        Step("Calc2", ("GroupWindowAggregate",)),
        Step(SINK, ("Calc2",)),
    ),
}
"""Operators behind the source, in topological order.

q5 asks for the auctions with most bids in each window: the maximum, and the join with it, are by the window's times.
"""


# runs ----------------------------------------------------------------------------------------------------------------
# Published runs of StreamBed (Rosinosky, Schmitz, Rivière, DEBS 2024) as two tables, read and checked.
#
# `runs.csv` has a line a run: what was offered and what the sources delivered. `operators.csv` has a line for each
# operator of the runs whose operators were measured: records in and out of it, and the busy time of a record.


SMALL = ("search", "variable")
"""Sets of runs in which the largest sustained rate was searched; of them are the costs."""
LARGE = "large"
LEFT_OUT = ("stuck", "same run")
"""Oddities of lines that say nothing: a search that never raised its rate, and a run that is listed twice."""
ADDED = 0.1
"""Share of the target that the authors added in planning a large cluster."""
KEPT = 0.99
"""Share of the offered rate from which on a run keeps up (the authors' rule)."""

ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class Reading:
    """What was measured of an operator. cost_us: busy time of a record, in microseconds; in_per_s: records into all of
    its subtasks; in_share, out_share: records in and out over events of the sources."""

    cost_us: float
    in_per_s: float
    in_share: float
    out_share: float


@dataclass(frozen=True)
class Run:
    """A run. parallelism: subtasks by operator, in topological order, the source first. offered_per_s: None in a search
    for the largest rate, where `observed_per_s` is that rate. promised_per_s: what StreamBed's program said of it."""

    name: str
    set: str
    query: str
    memory_mb: int
    task_managers: int
    parallelism: Mapping[str, int]
    observed_per_s: float
    offered_per_s: float | None
    promised_per_s: float | None
    readings: Mapping[str, Reading] = field(default_factory=dict)

    @property
    def density(self) -> float:
        """Subtasks on a task manager, those of the source included."""
        return sum(self.parallelism.values()) / self.task_managers

    @property
    def job(self) -> str:
        """Query and subtasks, which runs of one configuration share."""
        return f"{self.query} {json.dumps(dict(self.parallelism))}"


def read_runs(folder: Path) -> list[Run]:
    """Runs of a folder with runs.csv and operators.csv, without those that say nothing.

    Raises BadInput if a file or a column is missing, or a number is none.
    """
    lines, measured = _table(folder / "runs.csv"), defaultdict[str, dict[str, Reading]](dict)
    for where, line in _lines(_table(folder / "operators.csv"), "operators.csv"):
        cost_us = _number(line, "cost_us_per_record", where)
        if cost_us is None:  # a run without costs, such as one that verifies a rate
            continue
        others = [_given(line, name, where) for name in ("records_in_per_s", "in_per_source_event")]
        out = _number(line, "out_per_source_event", where) or 0.0
        measured[_text(line, "run_id", where)][_text(line, "operator", where)] = Reading(cost_us, *others, out)
    found = []
    for where, line in _lines(lines, "runs.csv"):
        if any(word in str(line.get("oddity") or "") for word in LEFT_OUT):
            continue
        name = _text(line, "run_id", where)
        run = Run(
            name=name,
            set=_text(line, "set", where),
            query=_text(line, "query", where),
            memory_mb=int(_given(line, "memory_mb_per_tm", where)),
            task_managers=int(_given(line, "task_managers", where)),
            parallelism=_parallelism(line, where),
            observed_per_s=_given(line, "observed_per_s", where),
            offered_per_s=_number(line, "offered_per_s", where),
            promised_per_s=_promised(line, where),
            readings=measured[name],
        )
        found.append(run)
    return found


def grouped(runs: Sequence[Run], by: Callable[[Run], ValueT]) -> dict[ValueT, list[Run]]:
    """Runs by a value of each, in the order in which they come."""
    found = defaultdict[ValueT, list[Run]](list)
    for run in runs:
        found[by(run)].append(run)
    return dict(found)


def _table(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{path}: it cannot be read ({error}); give --data a folder with runs.csv and operators.csv"
        ) from None


def _lines(table: pd.DataFrame, name: str) -> list[tuple[str, Mapping[str, object]]]:
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return [(f"{name}, line {number}", row) for number, row in enumerate(rows, start=2)]


def _number(line: Mapping[str, object], column: str, where: str) -> float | None:
    if column not in line:
        raise BadInput(f"{where}: there is no column {column!r}; see that the file is StreamBed's, as cleaned")
    value = line[column]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise BadInput(f"{where}: {column} is {value!r}; it must be a number of at least 0")
    return float(value)


def _promised(line: Mapping[str, object], where: str) -> float | None:
    """What StreamBed's program promised: of a large run, the target and what was added to it for safety."""
    target = _number(line, "target_per_s", where)
    return _number(line, "lp_objective_per_s", where) if target is None else target * (1.0 + ADDED)


def _given(line: Mapping[str, object], column: str, where: str) -> float:
    value = _number(line, column, where)
    if value is None:
        raise BadInput(f"{where}: {column} is empty; it must be a number of at least 0")
    return value


def _text(line: Mapping[str, object], column: str, where: str) -> str:
    value = line.get(column)
    if not isinstance(value, str) or not value:
        raise BadInput(f"{where}: {column} is {value!r}; it must be a word")
    return value


def _parallelism(line: Mapping[str, object], where: str) -> dict[str, int]:
    text = _text(line, "parallelism", where)
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found or not all(isinstance(n, int) and n >= 1 for n in found.values()):
        raise BadInput(f"{where}: parallelism is {text!r}; it must give each operator its number of subtasks, from 1")
    return found
