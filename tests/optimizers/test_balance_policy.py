"""Balancing a running job: figures of key groups, the closed loop, and odd events that must not end a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimizers.balancing.problem import Status
from optimizers.policies.balance import BalanceSpec, FluxSpec
from optimizers.policies.rounds import GroupMap, MigrationBudget
from tests.optimizers.skewed_jobs import (
    WORKERS,
    Watching,
    distances,
    moved,
    moved_by_round,
    placed,
    require_sums_of_hosts,
    run,
    skewed,
)
from tests.twin.worlds import deployment, sink, source
from twin.control import KeyGroupStatistics, PeriodStatistics, PolicySpec, Reconfiguration, policy_spec
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Failure, Migration, Move
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

# statistics ----------------------------------------------------------------------------------------------------------


def test_percentages_of_groups_sum_to_what_their_host_did() -> None:
    """Loads of groups add up to their host's utilisation: workers have only keyed subtasks, on half a core to two."""
    watching = Watching()
    run(skewed(cores=(0.5, 1, 1, 2), rate=300), watching)
    assert len(watching.seen) == 5
    require_sums_of_hosts(watching.seen)


def test_rates_of_groups_sum_to_what_their_operator_took_also_when_keys_drift() -> None:
    watching = Watching()
    run(skewed(drift_every_s=3, drift_share=0.5), watching)
    for period in watching.seen:
        for operator, groups in period.key_groups.items():
            took = period.operators[operator]["numRecordsIn"]
            assert sum(each.rate_per_s for each in groups) * period.length_s == pytest.approx(took, rel=1e-9)


def test_loads_are_proportional_to_the_work_of_records() -> None:
    """Loads are proportional to work: a record of m takes 2 ms on a reference core, wherever it runs."""
    watching = Watching()
    run(skewed(cores=(1, 1, 2, 2), rate=400), watching, horizon_s=120)
    cores = dict(zip(WORKERS, (1, 1, 2, 2), strict=True))
    for each in watching.seen[-1].key_groups["m"]:
        host = watching.seen[-1].placement["m"][each.subtask]
        assert each.cpu_percent / 100 * cores[host] == pytest.approx(each.rate_per_s * 2.1e-3, rel=0.25)


# the map to a balance ------------------------------------------------------------------------------------------------


def mapped(job: Deployment) -> GroupMap:
    watching = Watching()
    run(job, watching)
    return GroupMap(job, watching.seen[-2:], ["m", "a"])


def test_a_balance_shows_hosts_as_loaded_as_they_are() -> None:
    here = mapped(skewed(cores=(1, 1, 2, 2), rate=300))
    balance = here.balance(MigrationBudget(10))
    measured = [100 * np.mean([each.hosts[host]["cpuUtilisation"] for each in here.periods]) for host in here.hosts]
    assert here.hosts == list(WORKERS)
    assert balance.capacity_h == pytest.approx([1, 1, 2, 2])
    assert balance.load_h(balance.home_g) == pytest.approx(measured)
    assert balance.bottleneck == "cpu"
    assert balance.stays_g.sum() == len(WORKERS)


def test_a_host_counts_as_no_more_cores_than_it_has_subtasks() -> None:
    here = mapped(skewed(cores=(1, 8, 2, 2), rate=300))
    assert here.balance(MigrationBudget(10)).capacity_h[1] == pytest.approx(2, abs=1e-3)


def test_what_a_plan_moves_is_what_it_says() -> None:
    here = mapped(skewed())
    balance = here.balance(MigrationBudget(10))
    node_g = balance.home_g.copy()
    node_g[[0, 3, 41]] = (node_g[[0, 3, 41]] + 1) % 4
    assert here.moves(node_g) == (
        Move(operator="a", key_groups=(1,), to_subtask=int(node_g[41])),
        Move(operator="m", key_groups=(0, 3), to_subtask=int(node_g[0])),
    )
    assert here.moves(balance.home_g) == ()


# the loop ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("spec", [BalanceSpec(), BalanceSpec(solver="milp", seconds=0.3), FluxSpec()])
def test_hosts_get_even(spec: PolicySpec) -> None:
    """Hosts get even under a fixed skew, which stays without migrations; only random variation of records is left."""
    unmoved, evened = (distances(run(skewed(), policy)) for policy in (None, spec))
    assert evened[0] == unmoved[0] > 10
    assert min(unmoved) > 10
    assert np.mean(evened[2:]) < 0.4 * np.mean(unmoved[2:])


def test_hosts_of_different_capacity_get_even() -> None:
    job = skewed(cores=(0.5, 1, 1, 2), rate=500, zipf=0.4)
    assert np.mean(distances(run(job, BalanceSpec(max_migrations=40)))[2:]) < 6 < min(distances(run(job, None)))


def test_a_round_keeps_to_its_budget() -> None:
    result = run(skewed(), BalanceSpec(max_migrations=3, band=0))
    assert 0 < max(moved_by_round(result)) <= 3
    assert not moved(run(skewed(), BalanceSpec(max_migrations=0)))


def test_rounds_take_as_many_periods_as_asked() -> None:
    result = run(skewed(), BalanceSpec(every_periods=2, band=0), horizon_s=50)
    assert [row["at_s"] for row in result.event_rows if row["kind"] == "decision"] == [20, 40]


def test_a_band_that_holds_moves_nothing() -> None:
    assert not run(skewed(), BalanceSpec(band=100)).event_rows


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    zipf=st.floats(0, 2),
    drift_s=st.floats(0.5, 5),
    seed=st.integers(0, 1000),
    moves=st.integers(1, 40),
    failing=st.booleans(),
    apart=st.booleans(),
)
def test_nothing_is_lost_or_doubled_however_much_moves(
    zipf: float, drift_s: float, seed: int, moves: int, failing: bool, apart: bool
) -> None:
    """Migrations lose no record (`simulate` checks that), and without a failure no result comes twice. apart: the
    operators are on different workers at first, so that subtasks are made."""
    job = skewed(rate=150, zipf=zipf, drift_every_s=drift_s)
    if apart:
        job = placed(job, m=["w0", "w1"], a=["w2", "w3"])
    events = [Failure(at_s=5.3, host="w1", recover_after_s=1)] if failing else []
    scenario = Scenario.of(job, RunSettings(horizon_s=10, period_s=2, seed=seed), events)
    result = simulate(scenario.with_policy(BalanceSpec(max_migrations=moves, band=0)))
    migrations = moved(result)
    assert migrations and all(row["end_s"] is None or row["end_s"] >= row["at_s"] for row in migrations)
    assert failing or result.duplicates == 0
    taken, out = (next(each for each in result.operators if each.operator == name) for name in ("m", "a"))
    assert out.records_in == pytest.approx(taken.records_out, abs=60)


def test_subtasks_are_made_where_groups_go() -> None:
    """Subtasks are made where groups go, with their state: m on two full workers, a on two idle ones."""
    job = placed(skewed(rate=380, zipf=0.2), m=["w0", "w1"], a=["w2", "w3"])
    result = run(job, BalanceSpec(), horizon_s=40)
    made = [row["detail"]["to"] for row in result.event_rows if "to" in row["detail"]]
    assert set(made) >= {"w2", "w3"}
    found = distances(result)
    assert np.mean(found[-2:]) < 0.3 * found[0]
    assert result.duplicates == 0


def test_key_groups_move_to_a_place_by_an_event_too() -> None:
    job = skewed()
    events = [Migration(at_s=at_s, operator="a", key_groups=(at_s,), to="in") for at_s in (3, 4)]
    result = run(job, None, *events, horizon_s=20)
    assert [row["detail"]["to"] for row in result.event_rows] == ["in", "in"]
    assert {each.operator: each.parallelism for each in result.operators} == {"source": 1, "m": 4, "a": 5, "sink": 1}


# what must not end a run ---------------------------------------------------------------------------------------------


def test_periods_around_an_outage_say_nothing() -> None:
    """Policies skip the periods around an outage, in which the job stood still, rather than see idle hosts."""
    result = run(skewed(), BalanceSpec(band=0), Failure(at_s=24, host="w1", recover_after_s=8), horizon_s=90)
    decided = [row["at_s"] for row in result.event_rows if row["kind"] == "decision"]
    assert 30 not in decided and 40 not in decided and 50 in decided


def test_a_job_without_records_moves_nothing() -> None:
    result = run(skewed(rate=1e-6), BalanceSpec(band=0))
    assert not moved(result)


def test_odd_statistics_are_noted_once_and_move_nothing() -> None:
    policy = BalanceSpec().start(skewed())
    odd = KeyGroupStatistics(0, 0, 1.0, 0.0, float("nan"))

    @dataclass
    class Odd(Watching):
        def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
            groups = {name: (odd, *each[1:]) for name, each in statistics.key_groups.items()}
            return policy.decide(replace(statistics, key_groups=groups))

    (event,) = run(skewed(), Odd()).event_rows
    assert event["kind"] == "decision" and "nothing to balance" in event["detail"]["reason"]


def test_groups_without_records_stay() -> None:
    """Groups without records have no load and stay: a hundredth of the groups have all records."""
    result = run(skewed(zipf=10), BalanceSpec(band=1))
    went = {group for row in result.event_rows for group in row["detail"].get("key_groups", ())}
    assert len(went) < 40


def test_state_beyond_the_memory_of_any_host_stays() -> None:
    here = mapped(skewed())
    last = here.periods[-1]
    huge = {name: tuple(replace(each, state_bytes=1e12) for each in groups) for name, groups in last.key_groups.items()}
    stuck = GroupMap(here.deployment, [replace(last, key_groups=huge)], here.operators)
    balance = stuck.balance(MigrationBudget(10))
    found = BalanceSpec()._solver().solve(balance)
    assert found.status in (Status.FEASIBLE, Status.OPTIMAL) and not balance.violation(found.node_g)
    assert not len(found.moves)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"name": "balance", "solver": "cplex"}, "solver"),
        ({"name": "balance", "max_migrations": -1}, "max_migrations"),
        ({"name": "balance", "max_migrations": 3, "max_state_mb": 5}, "either max_migrations or max_state_mb"),
        ({"name": "flux", "band": 200}, "band"),
        ({"name": "flux", "solver": "milp"}, "solver"),
        ({"name": "balance", "every_periods": 0}, "every_periods"),
        ({"name": "albic", "pairs": "two"}, "pairs"),
        ({"name": "albic", "share": 0}, "share"),
        ({"name": "albic", "step": -1}, "step"),
        ({"name": "joint", "steps": 0}, "steps"),
        ({"name": "joint", "max_migrations": 3, "max_state_mb": 5}, "either max_migrations or max_state_mb"),
        ({"name": "adaptation", "low": 70}, "low < target < high"),
        ({"name": "adaptation", "scaling": "guess"}, "scaling"),
        ({"name": "adaptation", "solver": "cola"}, "solver"),
        ({"name": "adaptation", "calm_rounds": 0}, "calm_rounds"),
    ],
)
def test_options_are_checked(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint) as raised:
        policy_spec(options)
    assert "\n" not in str(raised.value)


def test_a_job_without_movable_key_groups_is_refused() -> None:
    job = deployment([source(), {"kind": "map", "name": "m"}, sink()], [("source", "m"), ("m", "sink")], {"source": 5})
    with pytest.raises(BadInput, match="no operator of this job has any that can move"):
        BalanceSpec().start(job)


def test_a_budget_of_state_counts_bytes() -> None:
    watching = Watching()
    job = skewed()
    run(job, watching)
    here = GroupMap(job, watching.seen[-1:], ["m", "a"])
    balance = here.balance(MigrationBudget(20, state_mb=1.0))
    assert balance.budget == 1.0
    assert balance.costs_g[:80].sum() == pytest.approx(
        sum(each.state_bytes for _, each in here.groups) * job.engine.memory.object_overhead / 1e6
    )
