"""Relieving hot hosts, and when balancing is worth a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from optimizers.policies.balance import BalanceSpec
from optimizers.policies.moves import RelieveSpec
from optimizers.policies.room import TOO_DEAR, RestartAccount, cores_by_subtask
from tests.optimizers.skewed_jobs import (
    STOP_S,
    WORKERS,
    moved,
    restarting,
    run,
    skewed,
)
from tests.twin.worlds import deployment, sink, source
from twin.control import PeriodStatistics
from twin.deployment import Deployment
from twin.events import Migration, Move
from twin.query import Stream
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

HOSTS = [
    {"name": name, "cpu_percent": 100, "ram_mb": 64_000, "bandwidth_mbps": 1000, "latency_ms": 1}
    for name in ("h0", "h1", "h2")
]
BUSY = {"source": 0.1, "a": 0.5, "b": 0.4, "c": 0.95, "sink": 0.05}
"""Share of a core by operator; h0 carries the source, a and b, h1 carries c, and h2 the sink."""
PLACES = {"source": ("h0",), "a": ("h0",), "b": ("h0",), "c": ("h1",), "sink": ("h2",)}


def chain_job() -> Deployment:
    names = list(BUSY)
    middle = [{"kind": "map", "name": name} for name in "abc"]
    streams = list(pairwise(names))
    return deployment([source(), *middle, sink()], streams, {"source": 100}, hosts=HOSTS, placement=PLACES)


def period(index: int, busy: Mapping[str, float] = BUSY, places: Mapping[str, Any] = PLACES) -> PeriodStatistics:
    rows = {name: {"busyTimeMsPerSecond": 1000 * share} for name, share in busy.items()}
    used = {name: sum(share for each, share in busy.items() if places[each] == (name,)) for name in ("h0", "h1", "h2")}
    hosts = {name: {"host": name, "cpuUtilisation": share} for name, share in used.items()}
    return PeriodStatistics(10.0 * index, 10.0 * index + 10.0, rows, hosts, places)


def test_a_host_is_relieved_after_two_hot_periods_of_its_busiest_subtask() -> None:
    policy = RelieveSpec().start(chain_job())
    assert policy.decide(period(0)) is None
    decision = policy.decide(period(1))
    assert decision is not None
    assert decision.moves == (Move(operator="a", subtask=0, to="h2"),)


def test_the_cores_of_a_task_are_those_of_its_first_operator() -> None:
    """Cores that a host used are dealt to its tasks by their busy times, once for each chain."""
    job = chain_job()
    job = job.with_plan(job.plan.model_copy(update={"fused": (("a", "b"),)}))
    found = cores_by_subtask(period(0, {**BUSY, "a": 0.8, "b": 0.8}), {"h0": 1.0, "h1": 1.0, "h2": 1.0}, job)
    used = period(0, {**BUSY, "a": 0.8, "b": 0.8}).hosts["h0"]["cpuUtilisation"]
    assert found["a", 0] == pytest.approx(used * 0.8 / 0.9) and found["b", 0] == 0.0
    assert found["source", 0] == pytest.approx(used * 0.1 / 0.9)


def test_one_hot_period_is_not_enough() -> None:
    policy = RelieveSpec().start(chain_job())
    cool = BUSY | {"a": 0.1, "c": 0.5}
    assert [policy.decide(period(k, BUSY if k % 2 else cool)) for k in range(6)] == [None] * 6


def test_periods_before_and_after_a_move_or_an_outage_are_not_taken_together() -> None:
    policy = RelieveSpec().start(chain_job())
    policy.decide(period(0))
    moved = PLACES | {"b": ("h2",)}
    assert policy.decide(period(1, BUSY | {"a": 0.85}, moved)) is None
    assert policy.decide(period(4, BUSY | {"a": 0.85}, moved)) is None, "nobody asked for two periods"
    decision = policy.decide(period(5, BUSY | {"a": 0.85}, moved))
    assert decision is not None and decision.moves[0].operator == "source", "a would fill h2 as much"


def test_where_the_hottest_host_cannot_be_helped_the_next_one_is() -> None:
    """If the hottest host cannot be helped (c alone fills h1, and would fill any other), the next one is."""
    policy = RelieveSpec().start(chain_job())
    busy = BUSY | {"c": 1.0, "a": 0.45, "b": 0.35}
    policy.decide(period(0, busy))
    decision = policy.decide(period(1, busy))
    assert decision is not None and decision.moves[0].operator == "a"


def test_what_cannot_move_stays() -> None:
    """Subtasks of a share a queue and stay, so b moves."""
    job = chain_job()
    streams = tuple(
        Stream(producer=each.producer, consumer=each.consumer, partitioning="shared" if each.consumer == "a" else None)
        for each in job.query.streams
    )
    shared = job.model_copy(update={"query": job.query.model_copy(update={"streams": streams})})
    policy = RelieveSpec().start(shared)
    policy.decide(period(0))
    decision = policy.decide(period(1))
    assert decision is not None and decision.moves[0].operator == "b"


def test_a_host_is_relieved_by_a_restart_once_as_much_was_waited_for() -> None:
    """A restart comes once waiting has cost as much: at 95 %, catching up costs 100 x 4^2 / 2 / 0.05 record-seconds."""
    cost, waiting = 100.0 * STOP_S**2 / 2.0 / 0.05, 700.0
    policy = RelieveSpec().start(restarting(chain_job()))
    decided = []
    for index in range(3):
        here = period(index)
        rows = {name: {**row, "queueLength": 0, "backlog": 0} for name, row in here.operators.items()}
        rows["source"] |= {"arrived": 1000, "numRecordsIn": 1000, "backlog": waiting}
        decided.append(policy.decide(replace(here, operators=rows)))
    assert 2 * 10 * waiting < cost < 3 * 10 * waiting
    assert decided[:2] == [None, TOO_DEAR]
    assert decided[2] is not None and decided[2].moves == (Move(operator="a", subtask=0, to="h2"),)


def waited(result: Run) -> list[float]:
    """Records that wait at the end of each period."""
    periods = sorted({row["period"] for row in result.operator_rows})
    rows = [[row for row in result.operator_rows if row["period"] == period] for period in periods]
    return [sum(row["queueLength"] + (row["backlog"] or 0) for row in each) for each in rows]


@pytest.mark.parametrize("rate", [300.0, 600.0])
def test_a_restart_costs_its_stop_and_catching_up(rate: float) -> None:
    """A restart costs r R^2 / (2 (1 - u)) of waiting, where u is the load of the busiest; here all are alike."""
    job = restarting(skewed(rate, zipf=0.0))
    settings_ = RunSettings(horizon_s=60, period_s=0.25)
    move = Migration(at_s=20.0, operator="m", key_groups=(0,), to_subtask=0)
    without, with_it = (simulate(Scenario.of(job, settings_, events)) for events in ((), (move,)))
    more = 0.25 * (sum(waited(with_it)) - sum(waited(without)))
    busy = [row["cpuUtilisation"] for row in without.host_rows if row["host"] in WORKERS and row["start_s"] >= 10.0]
    assert more == pytest.approx(rate * STOP_S**2 / 2.0 / (1.0 - np.mean(busy)), rel=0.15)


@pytest.mark.parametrize("how", ["restart", "reactive"])
def test_what_keeps_up_is_not_restarted_to_be_even(how: str) -> None:
    uneven = skewed(200)
    assert moved(run(uneven, BalanceSpec()))
    still = run(restarting(uneven, how), BalanceSpec())
    assert not moved(still)
    (row,) = [row for row in still.event_rows if row["kind"] == "decision"]
    assert "records would wait longer" in row["detail"]["reason"]


def test_what_falls_behind_is_restarted_once_as_much_was_waited_for() -> None:
    """At the first move the account of waiting has reached the restart's cost, and had not a round before."""
    job = restarting(skewed(1000))
    asked: list[tuple[float, float]] = []
    cost = RestartAccount.cost

    def noted(account: RestartAccount, last: PeriodStatistics, load: float) -> float:
        asked.append((last.end_s, cost(account, last, load)))
        return asked[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RestartAccount, "cost", noted)
        result = run(job, BalanceSpec(), horizon_s=300)
    first_s = min(row["at_s"] for row in moved(result))
    account = {10.0 * (k + 1): 10.0 * sum(waited(result)[: k + 1]) for k in range(30)}
    before = [(at_s, price) for at_s, price in asked if at_s < first_s]
    assert before and all(account[at_s] < price for at_s, price in before)
    assert account[first_s] >= dict(asked)[first_s]
    assert waited(run(job, None, horizon_s=300))[-1] > 10 * waited(result)[-1]
    assert len({row["at_s"] for row in moved(result)}) <= 2


def test_where_even_balanced_hosts_fall_behind_nothing_is_restarted() -> None:
    assert not moved(run(restarting(skewed(1600)), BalanceSpec()))
