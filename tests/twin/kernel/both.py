"""Runs of one scenario in the engine, in the kernel, and in one memory, and their differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from twin import simulation
from twin.errors import BadInput
from twin.job import compile
from twin.kernel import bridge
from twin.run import Run
from twin.scenario import Scenario
from twin.wiring.world import World

TABLES = ("operator_rows", "subtask_rows", "host_rows", "link_rows", "event_rows")
FACTS = ("metrics", "standard_errors", "operators", "hosts", "links", "markers", "duplicates", "crashed", "warnings")


@dataclass
class Outcome:
    """Run, or the error that it ended with; and how far time and the random numbers have come."""

    run: Run | None
    error: str
    stretches: int = 0
    events: int = 0


def in_engine(scenario: Scenario) -> Outcome:
    """Outcome in the engine, record by record in SimPy."""
    return _outcome(scenario, lambda world, until_s: world.env.run(until_s))


def in_kernel(scenario: Scenario, worth: int = bridge.WORTH) -> Outcome:
    """Outcome in the kernel. worth: see `twin.kernel.bridge`; 0 hands the world over after each of SimPy's events."""
    found = Outcome(None, "")

    def counted(self: bridge.Stretch, until_s: float) -> int:
        events = whole(self, until_s)
        found.stretches, found.events = found.stretches + 1, found.events + events
        return events

    whole = bridge.Stretch.run
    with patch.object(bridge, "WORTH", worth), patch.object(bridge.Stretch, "run", counted):
        ended = _outcome(scenario, bridge.run)
    found.run, found.error = ended.run, ended.error
    return found


def in_memory(scenario: Scenario) -> Outcome | None:
    """Outcome in one memory from the beginning to the end; None if there are parts that cannot be built there."""
    deciding = scenario.policy is not None
    return _ended(scenario) if simulation.in_memory(compile(scenario), scenario, deciding) else None


def _outcome(scenario: Scenario, advance: Callable[[World, float], Any]) -> Outcome:
    with advancing(advance):
        return _ended(scenario)


def _ended(scenario: Scenario) -> Outcome:
    try:
        return Outcome(simulation.simulate(scenario), "")
    except BadInput as error:  # a run that breaks a law raises another error
        return Outcome(None, str(error))


@contextmanager
def advancing(advance: Callable[[World, float], Any]) -> Iterator[None]:
    """Replaces the function that takes worlds of the engine through time, for a block in which all runs are of it."""
    with patch.object(simulation, "advance", advance), patch.object(simulation, "in_memory", lambda *_: False):
        yield


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


def same_in_both(scenario: Scenario, worth: int = bridge.WORTH) -> Run:
    """Run that engine and kernel agree on, some of which took place in the kernel."""
    found, engine = in_kernel(scenario, worth), in_engine(scenario)
    assert found.stretches and found.run is not None
    assert differences(engine, found) == []
    return found.run


def _same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)  # NaN is NaN, and 0.0 is not -0.0
