"""Hosts come and go with the load under each way of scaling, and no trouble ends a run."""

from __future__ import annotations

from typing import Any

import pytest

from optimizers.policies.adaptation import AdaptationSpec
from tests.optimizers.skewed_jobs import WORKERS, moved, moved_by_round, restarting, run, skewed
from twin.deployment import Deployment
from twin.events import Failure, RateChange
from twin.run import Run
from twin.spec import parse

DECIDERS = pytest.mark.parametrize("scaling", ["measured", "ds2", "flink-autoscaler"])


def small(rate: float = 300, start: tuple[str, ...] = ("w0", "w1"), **keys: Any) -> Deployment:
    """Job with m and a, 40 key groups each, on the first of four workers of one core; both take 3.2 ms a record."""
    job = skewed(rate=rate, zipf=0.3, **keys)
    placement = {**job.plan.placement, "m": start, "a": start}
    return job.with_plan(job.plan.model_copy(update={"placement": placement}))


def hosts(result: Run) -> list[int]:
    """Number of workers that do anything, by period."""
    found: dict[int, int] = {}
    for row in result.host_rows:
        busy = row["host"] in WORKERS and row["cpuUtilisation"] > 0.01
        found[row["period"]] = found.get(row["period"], 0) + busy
    return list(found.values())


def spec(**more: Any) -> AdaptationSpec:
    return AdaptationSpec(**({"max_migrations": 40, "calm_rounds": 2} | more))


@DECIDERS
def test_hosts_come_with_the_load_and_go_with_it(scaling: str) -> None:
    """Hosts follow the load: 1.9 cores of work need four workers; 0.6 from 15 s on one or two; 1.9 again from 70 s."""
    events = [RateChange(at_s=at_s, source="source", factor=factor) for at_s, factor in ((15, 0.3), (70, 1.0))]
    result = run(small(600, WORKERS), spec(scaling=scaling), *events, horizon_s=110)
    found = hosts(result)
    assert found[1] == 4
    assert found[6] in (1, 2)
    assert found[-1] in (3, 4)
    assert not result.metrics.backpressured or scaling == "measured"
    subtasks = [row["parallelism"] for row in result.operator_rows if row["operator"] == "m"]
    assert subtasks[6] == found[6], "subtasks went with their hosts"


@DECIDERS
def test_a_cluster_that_is_overwhelmed_grows(scaling: str) -> None:
    """A cluster with 2.6 cores of work on two grows: the paper's rule sees full hosts, the others also the backlog."""
    result = run(small(800), spec(scaling=scaling), horizon_s=60)
    found = hosts(result)
    assert found[0] == 2 and found[-1] == 4
    assert "add w" in next(row["detail"]["reason"] for row in result.event_rows if row["kind"] == "decision")
    if scaling != "measured":
        assert max(found[:4]) == 4


def test_never_changes_no_host_and_balances_all_the_same() -> None:
    result = run(small(400), spec(scaling="never"), horizon_s=60)
    assert set(hosts(result)) == {2}


def test_a_host_is_left_within_the_budget_of_the_rounds() -> None:
    result = run(small(150, WORKERS), spec(max_migrations=15), horizon_s=80)
    assert max(moved_by_round(result)) <= 15
    assert hosts(result)[-1] < 4


def test_what_else_a_host_runs_keeps_it() -> None:
    """A host that runs anything else is kept: w0 with source and sink, however idle."""
    job = small(60, WORKERS)
    placement = {**job.plan.placement, "source": ("w0",), "sink": ("w0",)}
    result = run(job.with_plan(job.plan.model_copy(update={"placement": placement})), spec(), horizon_s=100)
    last = [row["host"] for row in result.host_rows if row["period"] == 9 and row["cpuUtilisation"] > 0.01]
    assert "w0" in last and len(last) < 4


@pytest.mark.parametrize("scaling", ["measured", "ds2", "flink-autoscaler"])
def test_trouble_ends_no_run(scaling: str) -> None:
    """No trouble ends a run: a host dies while others are left; nothing comes for a time; groups have no records."""
    events = [
        RateChange(at_s=5, source="source", factor=0.2),
        Failure(at_s=21, host="w1", recover_after_s=3),
        RateChange(at_s=30, source="source", factor=1e-6),
        RateChange(at_s=45, source="source", factor=1.5),
    ]
    result = run(small(200, WORKERS), spec(scaling=scaling, max_migrations=10), *events, horizon_s=60)
    assert result.metrics.success


@pytest.mark.parametrize("solver", ["albic", "joint"])
def test_collocation_and_scaling_together(solver: str) -> None:
    data = small(600, WORKERS).model_dump(mode="json", exclude_none=True)
    between = next(each for each in data["query"]["streams"] if each["producer"] == "m")
    between["alignment"] = "one-to-one"
    event = RateChange(at_s=20, source="source", factor=0.3)
    result = run(parse(Deployment, data), spec(solver=solver), event, horizon_s=90)
    assert hosts(result)[-1] < 4
    found = [row["detail"] for row in result.event_rows if row["kind"] == "decision"]
    assert found[-1]["planned_collocation"] > 60


def test_no_cluster_to_grow_into_and_no_budget() -> None:
    """Nothing is added where all hosts are full, and nothing moves without a budget."""
    full = run(small(2000, WORKERS), spec(scaling="ds2"), horizon_s=40)
    assert not [row for row in full.event_rows if row["detail"].get("reason", "").startswith("add")]
    still = run(small(800), spec(max_migrations=0), horizon_s=40)
    assert not [row for row in still.event_rows if row["kind"] == "migration"]


def test_balance_alone_is_worth_a_restart_only_where_records_wait() -> None:
    even = spec(scaling="never")
    assert moved(run(skewed(200), even, horizon_s=60))
    assert not moved(run(restarting(skewed(200)), even, horizon_s=60))
    assert moved(run(restarting(skewed(1000)), even, horizon_s=200))


def test_a_host_that_is_no_longer_needed_is_worth_a_restart() -> None:
    result = run(restarting(small(180, WORKERS)), spec(), horizon_s=100)
    assert hosts(result)[0] == 4 and hosts(result)[-1] < 4
