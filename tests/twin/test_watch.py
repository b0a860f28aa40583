"""Watch of a run: what is refused would have taken that long or held that much; looks change nothing, and say what is
so."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenarios.files.scenario_file import load
from tests.twin.event_jobs import compute, consolidate, source
from tests.twin.event_jobs import job as event_job
from tests.twin.machine.runs import TABLES
from tests.twin.worlds import HOST, chain, deployment, sink
from twin.errors import TooMuch
from twin.guards import watch
from twin.guards.watch import Offered
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.world import clock, world

ROOT = Path(__file__).resolve().parents[2]
LONG = RunSettings(horizon_s=1e5, period_s=1e4)
SHORT = RunSettings(horizon_s=8, warmup_s=2, period_s=2)


@pytest.fixture
def closely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the watch look as often as it can, and judge and tell at each look."""
    for module in (clock, world):
        monkeypatch.setattr(module, "LOOK", 1000)
    for limit in ("FIRST_S", "LOOK_S", "LONG_S", "TOLD_S"):
        monkeypatch.setattr(watch, limit, 0.0)


def rows(run: Run) -> list[Any]:
    return [*(getattr(run, table) for table in TABLES), run.metrics, run.warnings]


@pytest.mark.parametrize("name", ["word-count", "rush-hour-scaling", "checkpointed-shop", "exactly-once", "smart-grid"])
def test_looks_change_nothing(name: str, request: pytest.FixtureRequest) -> None:
    scenario = load(name).with_run(horizon_s=12, warmup_s=2, period_s=4)
    scenario = scenario.with_events(*(each for each in scenario.events if each.at_s < 12))
    unseen, told = simulate(scenario), list[str]()
    request.getfixturevalue("closely")
    assert rows(simulate(scenario, tell=told.append)) == rows(unseen)
    assert len(told) > 3


# how long ------------------------------------------------------------------------------------------------------------


def steady(rate_per_s: float = 2e5, horizon_s: float = 8.0, **more: Any) -> Scenario:
    job = chain([{"kind": "map", "name": "m", "service_time_s": 1e-7}], rate_per_s, **more)
    return Scenario.of(job, RunSettings(horizon_s=horizon_s, period_s=horizon_s))


def overloaded() -> Scenario:
    job = chain([{"kind": "map", "name": "m", "service_time_s": 2e-5}], 1e5)
    return Scenario.of(job, RunSettings(horizon_s=25, period_s=25))


def filling() -> Scenario:
    """Job whose work grows with its windows, which fill until the end."""
    window = {"policy": "time", "size_s": 40.0, "slide_s": 0.1}
    counts = {"kind": "aggregate", "name": "a", "window": window, "group_by": "int", "groups": 3}
    return Scenario.of(chain([counts | {"service_time_s": 1e-7}], 2e4), RunSettings(horizon_s=20, period_s=20))


@pytest.mark.parametrize("case", [steady, overloaded, filling])
def test_what_is_refused_would_have_taken_that_long(case: Callable[[], Scenario], monkeypatch: Any) -> None:
    took_s = simulate(case()).cpu_s
    assert took_s > 0.03
    monkeypatch.setattr(watch, "FIRST_S", took_s / 10)
    monkeypatch.setattr(watch, "LOOK_S", took_s / 100)
    assert simulate(case(), most_s=4 * took_s).metrics.records_in
    began_s = time.thread_time()
    with pytest.raises(TooMuch, match="the run would take about"):
        simulate(case(), most_s=took_s / 4)
    assert time.thread_time() - began_s < took_s


def test_a_rush_that_is_known_to_end_is_no_reason_to_refuse(monkeypatch: Any) -> None:
    """The first two seconds of ten thousand bring nearly all records: as slow as they are, it would take an hour."""
    calm, rush = steady(1.0, 1e4), {"at_s": 0, "rate_per_s": 1e5}
    law = {"law": "steps", "steps": [rush, {"at_s": 2, "rate_per_s": 0.01}]}
    scenario = calm.with_set("workload.arrivals.source", law)
    monkeypatch.setattr(watch, "FIRST_S", 0.05)
    monkeypatch.setattr(watch, "LOOK_S", 0.01)
    assert simulate(scenario, most_s=60.0).metrics.records_in > 1.5e5


def test_what_takes_hours_may_run_until_it_is_precise(monkeypatch: Any) -> None:
    scenario = steady(2e4, 1e7).with_run(precision=0.05, period_s=1e5)
    monkeypatch.setattr(watch, "FIRST_S", 0.0)
    monkeypatch.setattr(watch, "LOOK_S", 0.0)
    assert simulate(scenario).metrics.records_in
    with pytest.raises(TooMuch, match=r"h of CPU time.*\(--precision 1%\)"):
        simulate(scenario.with_run(precision=None))


@pytest.mark.parametrize("name", ["rush-hour", "rush-hour-scaling", "failover"])
def test_as_many_records_are_expected_as_come(name: str) -> None:
    """Expected records at five standard errors of Poisson arrivals, with changes of rates."""
    scenario = load(name)
    scenario = scenario.with_run(horizon_s=min(150.0, scenario.run.horizon_s), warmup_s=0)
    scenario = scenario.with_events(
        *(each for each in scenario.events if each.at_s < 150 and each.kind == "rate-change")
    )
    offered = Offered(scenario)
    made = simulate(scenario)
    came = np.cumsum([row["arrived"] or 0 for row in made.operator_rows])
    for row, count in zip(made.operator_rows, came, strict=True):
        if row["operator"] == made.operator_rows[-1]["operator"]:  # the last row of a period
            assert abs(count - offered.until(row["end_s"])) < 5 * np.sqrt(count)


# why -----------------------------------------------------------------------------------------------------------------


def cause(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> str:
    """Words with which a run is refused after a moment."""
    monkeypatch.setattr(watch, "FIRST_S", 0.1)
    with pytest.raises(TooMuch) as refused:
        simulate(scenario, most_s=0.0)
    return str(refused.value)


@pytest.mark.parametrize(
    ("selectivities", "says"),
    [
        ((1.0, 0.1), r"records: [\d,]+ at 'source' so far; lower rates"),
        ((20.0, 0.05), r"records: [\d,]+ (from 'm0'|at 'm1') so far; lower rates"),
        ((0.05, 10.0), r"records: [\d,]+ at 'source' so far"),
    ],
)
def test_the_operator_that_does_most_is_named(selectivities: Any, says: str, monkeypatch: Any) -> None:
    middle = [
        {"kind": "map", "name": f"m{number}", "service_time_s": 1e-6, "selectivity": each}
        for number, each in enumerate(selectivities)
    ]
    assert re.search(says, cause(Scenario.of(chain(middle, 2e4), LONG), monkeypatch))


def test_windows_that_are_evaluated_often_are_named(monkeypatch: Any) -> None:
    window = {"policy": "time", "size_s": 2.0, "slide_s": 0.01}
    counts = {"kind": "aggregate", "name": "a", "window": window, "group_by": "int", "groups": 3}
    scenario = Scenario.of(chain([counts | {"service_time_s": 1e-6}], 500.0), SHORT)
    said = cause(scenario.with_run(horizon_s=1e6, period_s=1e5), monkeypatch)
    assert re.search(r"windows of 'a': [\d,]+ evaluations so far.*its slide longer", said)


def test_panes_of_windows_over_event_time_are_named(monkeypatch: Any) -> None:
    windows = [{"length_s": 10, "every_s": 0.01}]
    operators = [source(), compute(partial_s=0.01), consolidate(windows=windows), sink()]
    assert "windows of 'merge'" in cause(event_job(operators, rate_per_s=10.0, horizon_s=200.0), monkeypatch)


# how large -----------------------------------------------------------------------------------------------------------


def bursting(selectivity: float) -> Scenario:
    """Job whose map makes a million records at once, which its slow consumer does not take."""
    hosts = [{**HOST, "name": "h", "cpu_percent": 1e5}, {**HOST, "name": "slow", "cpu_percent": 1}]
    middle = [{"kind": "map", "name": "m", "selectivity": selectivity, "service_time_s": 1e-6}]
    return Scenario.of(chain(middle, 10.0, hosts=hosts, placement={"sink": "slow"}), SHORT)


def test_what_one_service_makes_is_refused_before_it_fills_the_memory(monkeypatch: Any) -> None:
    monkeypatch.setattr(watch, "MOST_BYTES", 4e7)
    before = watch._process_bytes()
    with pytest.raises(
        TooMuch, match=r"would hold [\d,]+ records that 'm' has made.*the limit is 0\.04 GB; make its sel"
    ):
        simulate(bursting(1e6))
    assert watch._process_bytes() - before < 3e8


def test_whether_arrays_are_too_large_does_not_depend_on_looks(monkeypatch: Any) -> None:
    monkeypatch.setattr(watch, "MOST_BYTES", 4e7)
    said = set()
    for look_s in (1e-3, 1e9):
        monkeypatch.setattr(watch, "LOOK_S", look_s)
        monkeypatch.setattr(watch, "_process_bytes", lambda: 0)
        with pytest.raises(TooMuch) as refused:
            simulate(bursting(1e6))
        said.add(str(refused.value))
    assert len(said) == 1


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"channel": 10**6, "rate": 1e5, "work_s": 1e-3}, r"records that wait at 'a'"),
        ({"window_s": 100.0, "rate": 3e5}, r"records in the windows of 'a'"),
        ({"period_s": 1e-4}, r"rows of statistics.*; make run\.period_s"),
        ({"read_s": 0.1, "rate": 1e8}, r"records that 'source' has not read.*; lower its rate"),
        ({"gap_s": 20.0, "rate": 3e5}, r"states of 'a'"),
    ],
)
def test_what_no_memory_holds_is_refused_by_name(what: dict[str, Any], words: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(watch, "MOST_BYTES", 5e7)
    monkeypatch.setattr(watch, "FIRST_S", 0.1)
    window = {"policy": "time", "size_s": what.get("window_s", 1.0)}
    holds = {"kind": "session", "gap_s": what["gap_s"], "keys": 10**9} if "gap_s" in what else {"window": window}
    operators = [
        {"kind": "source", "name": "source", "service_time_s": what.get("read_s", 0)},
        {"kind": "aggregate", "name": "a", "service_time_s": what.get("work_s", 0)} | holds,
        sink(),
    ]
    engine = load("word-count").engine.model_copy(update={"channel_records": what.get("channel", 100)})
    job = deployment(
        operators,
        [("source", "a"), ("a", "sink")],
        {"source": what.get("rate", 100.0)},
        placement={"a": {"h": 4}},
        hosts=[{**HOST, "cpu_percent": 1_000_000}],
        engine=engine.model_dump(mode="json"),
    )
    settings = RunSettings(horizon_s=200.0, period_s=what.get("period_s", 10.0))
    with pytest.raises(TooMuch, match=f"would hold .*{words}"):
        simulate(Scenario.of(job, settings))


CROWD = """
import time
from tests.twin.test_watch import SHORT, Scenario, chain, simulate, watch
watch.MOST_BYTES, watch.FIRST_S, watch.LOOK_S = 2e8, 0.3, 0.0
job = chain([{"kind": "map", "name": "m"}], 10.0, placement={"m": {"h": 100_000}})
began_s = time.thread_time()
try:
    simulate(Scenario.of(job, SHORT))
except watch.TooMuch as refused:
    print(time.thread_time() - began_s, refused)
"""
"""A process of its own has not yet had the memory that the run asks for."""


def test_more_subtasks_than_memory_holds_are_refused_as_they_are_made() -> None:
    found = subprocess.run([sys.executable, "-c", CROWD], cwd=ROOT, capture_output=True, text=True, check=True)
    spent_s, words = found.stdout.split(maxsplit=1)
    assert re.search(r"would hold the 100,000 subtasks of 'm'.*use fewer subtasks", words)
    assert float(spent_s) < 10.0
