"""Runs of one scenario as usual, and with Python looking after each event, and their differences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from twin.errors import BadInput
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.world.meters import SUMMED, Row
from twin.world.world import World

TABLES = ("operator_rows", "subtask_rows", "host_rows", "link_rows", "event_rows")
FACTS = ("metrics", "standard_errors", "operators", "hosts", "links", "markers", "duplicates", "crashed", "warnings")


@dataclass
class Outcome:
    """Run, or the error that it ended with."""

    run: Run | None
    error: str


def outcome(scenario: Scenario) -> Outcome:
    """Outcome of a scenario."""
    try:
        return Outcome(simulate(scenario), "")
    except BadInput as error:  # a run that breaks a law raises another error
        return Outcome(None, str(error))


@contextmanager
def looking_after_each_event() -> Iterator[None]:
    """Lets Python look at the world after each event of compiled code, as while a change waits for a condition."""
    whole = World.advance

    def looked(world: World, until_s: float) -> None:
        world.env.until(lambda: False)
        whole(world, until_s)

    with patch.object(World, "advance", looked):
        yield


def same_however(scenario: Scenario) -> Run:
    """Run of a scenario, which is the same to the last bit whenever compiled code and Python take turns."""
    found = outcome(scenario)
    with looking_after_each_event():
        assert differences(found, outcome(scenario)) == []
    assert found.run is not None, found.error
    return found.run


def differences(one: Outcome, other: Outcome) -> list[str]:
    """Differences of two outcomes, to the last bit."""
    if one.run is None or other.run is None:
        return [] if one.error == other.error else [f"{one.error or 'a run'} | {other.error or 'a run'}"]
    found = []
    for table in TABLES:
        rows, others = getattr(one.run, table), getattr(other.run, table)
        if len(rows) != len(others):
            found.append(f"{table}: {len(rows)} | {len(others)} rows")
        for row, its in zip(rows, others, strict=False):
            where = f"{table}[{row.get('operator') or row.get('host') or row.get('kind')}]"
            found += [f"{where}.{key}: {row[key]} | {its.get(key)}" for key in row if not _same(row[key], its.get(key))]
    for fact in FACTS:
        a, b = getattr(one.run, fact), getattr(other.run, fact)
        if not _same(a, b):
            found.append(f"{fact}: {a} | {b}")
    return found


def _same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)  # NaN is NaN, and 0.0 is not -0.0


# laws ----------------------------------------------------------------------------------------------------------------


def require_lawful(run: Run) -> None:
    """Checks the laws of conservation in a run's rows, beside those that `simulate` checks itself."""
    for row in run.operator_rows:
        shares = [row[f"{key}TimeMsPerSecond"] for key in ("busy", "backPressured", "idle")]
        assert sum(shares) == pytest.approx(1000) and min(shares) >= -1e-6
        theirs = [each for each in run.subtask_rows if (each["operator"], each["period"]) == _key(row)]
        for key in SUMMED:
            values = [each[key] for each in theirs]
            assert (row[key] is None and set(values) == {None}) or row[key] == sum(values), key
        time_s = [each["end_s"] - each["start_s"] for each in theirs]
        busy_s = sum(each["busyTimeMsPerSecond"] * there_s for each, there_s in zip(theirs, time_s, strict=True))
        assert row["busyTimeMsPerSecond"] * sum(time_s) == pytest.approx(busy_s)
    for operator in run.operators:
        for key in ("records_in", "records_out"):
            assert getattr(operator, key) == sum(getattr(subtask, key) for subtask in operator.subtasks)
    assert all(0 <= row["cpuUtilisation"] <= 1 + 1e-9 for row in run.host_rows)
    assert all(math.isfinite(value) for value in _numbers(run.to_dict()))
    under_way: Counter[str] = Counter()
    for row in run.link_rows:
        under_way[row["link"]] += row["recordsIn"] - row["recordsOut"]
        assert under_way[row["link"]] >= 0 and 0 <= row["utilisation"] <= 1
    if not run.crashed and not run.event_rows:
        end_s = max(row["end_s"] for row in run.operator_rows)
        late = [row for row in run.operator_rows if row["end_s"] > end_s / 2]
        waiting = sum(row["queueLength"] + (row["backlog"] or 0) for row in late if row["end_s"] == end_s)
        assert not waiting or any(row["numRecordsIn"] for row in late), f"all stands still before {waiting} records"


def _numbers(node: Any) -> list[float]:
    if isinstance(node, dict):
        return [number for child in node.values() for number in _numbers(child)]
    return [float(node)] if isinstance(node, int | float) else []


def _key(row: Row) -> tuple[str, int]:
    return row["operator"], row["period"]
