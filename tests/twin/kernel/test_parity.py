"""Kernel and engine run the same world: all tables of a run are equal to the last bit, whatever happens.

The jobs are random, so that no law of conservation is broken on any plan, network, failure or change either.
"""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from scenarios.spaces.wide import wide_scenario
from tests.twin.kernel.both import differences, in_engine, in_kernel, in_memory, same_in_both
from tests.twin.kernel.random_jobs import HORIZON_S, scenario
from tests.twin.worlds import chain
from twin.engine.measure.meters import SUMMED, Row
from twin.key_skew import KeySkew
from twin.run import Run
from twin.scenario import RunSettings, Scenario

SEEDS = st.integers(0, 2**32 - 1)
WORTH = st.sampled_from([0, 5, 1000])
"""Strategy of how soon after a change the kernel takes over again."""


def require_same(job: Scenario, worth: int) -> None:
    engine, found = in_engine(job), in_kernel(job, worth)
    event("in the kernel" if found.stretches else "left to the engine")
    assert differences(engine, found) == []
    memory = in_memory(job)
    if memory is not None:
        event("in memory")
        assert differences(engine, memory) == []
    if engine.run is not None:
        require_lawful(engine.run)


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
        for key in ("tuples_in", "tuples_out"):
            assert getattr(operator, key) == sum(getattr(subtask, key) for subtask in operator.subtasks)
    assert all(0 <= row["cpuUtilisation"] <= 1 + 1e-9 for row in run.host_rows)
    assert all(math.isfinite(value) for value in _numbers(run.to_dict()))
    under_way: Counter[str] = Counter()
    for row in run.link_rows:
        under_way[row["link"]] += row["tuplesIn"] - row["tuplesOut"]
        assert under_way[row["link"]] >= 0 and 0 <= row["utilisation"] <= 1
    if not run.crashed and not run.event_rows:
        late = [row for row in run.operator_rows if row["end_s"] > HORIZON_S / 2]
        waiting = sum(row["queueLength"] + (row["backlog"] or 0) for row in late if row["end_s"] == HORIZON_S)
        assert not waiting or any(row["numRecordsIn"] for row in late), f"all stands still before {waiting} records"


def _numbers(node: Any) -> list[float]:
    if isinstance(node, dict):
        return [number for child in node.values() for number in _numbers(child)]
    return [float(node)] if isinstance(node, int | float) else []


def _key(row: Row) -> tuple[str, int]:
    return row["operator"], row["period"]


@settings(max_examples=15)
@given(SEEDS, WORTH)
def test_on_any_job(seed: int, worth: int) -> None:
    require_same(scenario(Random(seed), changing=False), worth)


@settings(max_examples=40)
@given(SEEDS, WORTH)
def test_on_any_job_to_which_something_happens(seed: int, worth: int) -> None:
    require_same(scenario(Random(seed), changing=True), worth)


@settings(max_examples=4)
@given(SEEDS)
def test_on_what_models_are_trained_with(seed: int) -> None:
    require_same(wide_scenario(seed, 1.0), 0)


def test_keys_that_drift_leave_a_run_to_the_kernel() -> None:
    """A run whose keys drift stays in the kernel, though producers' costs of sending drift, too."""
    window = {"policy": "time", "size_s": 0.1}
    sums = {"kind": "aggregate", "name": "sums", "window": window, "group_by": "int", "groups": 50, "key_groups": 20}
    hosts = [{"name": each, "cpu_percent": 200, "ram_mb": 1000, "bandwidth_mbps": 50, "latency_ms": 1} for each in "ab"]
    deployment = chain([sums], 800.0, hosts=hosts, placement={"source": "a", "sums": ["a", "b"], "sink": "a"})
    drifting = KeySkew(zipf=1.5, drift_every_s=0.05, drift_share=0.5)
    workload = deployment.workload.model_copy(update={"keys": {"sums": drifting}})
    job = Scenario(**{**dict(deployment), "workload": workload, "run": RunSettings(horizon_s=2.0, period_s=0.5)})
    found = in_kernel(job)
    assert found.stretches == 1 and differences(in_engine(job), found) == []
    move = {"kind": "migration", "operator": "source", "replica": 0, "to": "b", "at_s": 1.02}
    same_in_both(Scenario(**{**dict(job), "events": [move]}), 0)


@pytest.mark.slow
@settings(max_examples=150)
@given(SEEDS, st.booleans(), WORTH)
def test_on_many_jobs(seed: int, changing: bool, worth: int) -> None:
    require_same(scenario(Random(seed), changing), worth)
