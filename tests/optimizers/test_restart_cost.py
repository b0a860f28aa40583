"""Policies that balance restart a job only for what a restart is worth: its cost, and when it is paid."""

from __future__ import annotations

import numpy as np
import pytest

from optimizers.policies.balance import BalanceSpec
from optimizers.policies.restarts import RestartAccount
from tests.optimizers.skewed_jobs import (
    STOP_S,
    WORKERS,
    moved,
    restarting,
    run,
    skewed,
)
from twin.control import PeriodStatistics
from twin.events import Migration
from twin.run import Run
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


def waited(result: Run) -> list[float]:
    """Records that wait at the end of each period."""
    periods = sorted({row["period"] for row in result.operator_rows})
    rows = [[row for row in result.operator_rows if row["period"] == period] for period in periods]
    return [sum(row["queueLength"] + (row["backlog"] or 0) for row in each) for each in rows]


@pytest.mark.parametrize("rate", [300.0, 600.0])
def test_a_restart_costs_its_stop_and_catching_up(rate: float) -> None:
    """r R^2 / (2 (1 - u)) more waits than without it, where u is the load of the busiest; here all are alike."""
    job = restarting(skewed(rate, zipf=0.0))
    settings_ = RunSettings(horizon_s=60, period_s=0.25)
    move = Migration(at_s=20.0, operator="m", key_groups=(0,), to_replica=0)
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
    """The account of waiting at the first move: as much as the restart costs, and not so a round before."""
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
