"""Collocation in a running job: pairs come together, within budget and band, and nothing is lost."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from optimizers.balancing.joint import relieved
from optimizers.policies.balance import AlbicSpec, JointSpec
from optimizers.policies.rounds import GroupMap, MigrationBudget
from tests.optimizers import skewed_jobs
from tests.optimizers.skewed_jobs import Watching, moved_by_round, require_sums_of_hosts
from tests.twin.test_alignment import BYTES, WORKERS, job
from twin.change.controller import attributed, remote_cores
from twin.control import PolicySpec, Reconfiguration, policy_spec
from twin.deployment import Deployment
from twin.events import Failure, Move
from twin.profiles import STORM
from twin.run import Run
from twin.spec import parse

APART = {"n": [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0, 0, 0, 0]}
GROUPS = (16, 16)
run = partial(skewed_jobs.run, period_s=5.0)
BOTH = pytest.mark.parametrize("spec", [AlbicSpec(max_migrations=4), JointSpec(max_migrations=4, band=8)])


def apart(**more: Any) -> Deployment:
    """Job with m and n, 16 key groups each, on four workers; no two that belong together are on one."""
    return job(owners=APART, groups=GROUPS, **more)


def decisions(result: Run) -> list[dict[str, Any]]:
    return [row["detail"] for row in result.event_rows if row["kind"] == "decision" and row["detail"]["moves"]]


def sent(result: Run) -> float:
    """Records that workers send over the network in the last period, over the records that come."""
    last = max(row["period"] for row in result.link_rows)
    total = sum(row["bytesOut"] for row in result.link_rows if row["link"] in WORKERS and row["period"] == last)
    taken = next(r for r in result.operator_rows if r["operator"] == "m" and r["period"] == last)
    return total / BYTES / taken["numRecordsIn"]


# the loop ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@BOTH
def test_what_belongs_together_comes_together(spec: PolicySpec) -> None:
    """Pairs come together: first all records cross the network twice, in the end only results, with less
    serialising."""
    unmoved, result = run(apart(), None), run(apart(), spec)
    assert sent(unmoved) == pytest.approx(2.0, rel=0.05)
    assert sent(result) == pytest.approx(1.0, rel=0.05)
    assert decisions(result)[-1]["planned_collocation"] == pytest.approx(100)
    assert result.duplicates == 0
    cpu = [sum(row["cpuUtilisation"] for row in each.host_rows if row["period"] == 11) for each in (unmoved, result)]
    assert cpu[1] < 0.85 * cpu[0]


@BOTH
def test_rounds_keep_to_their_budget_and_say_what_they_plan(spec: PolicySpec) -> None:
    result = run(apart(), spec, horizon_s=30)
    assert 0 < max(moved_by_round(result)) <= 4
    found = decisions(result)
    for before, after in pairwise(found):
        assert after["collocation"] == pytest.approx(before["planned_collocation"], abs=2.0)
    if isinstance(spec, JointSpec):
        assert all(each["planned"] <= 8.01 for each in found)


def test_one_pair_a_round_as_published() -> None:
    """ALBIC as published brings one of 16 pairs (6 % of the traffic each) together a round; balancing may add one."""
    found = decisions(run(apart(), AlbicSpec(max_migrations=4, pairs="one"), horizon_s=40))
    steps = [each["planned_collocation"] - each["collocation"] for each in found]
    assert len(steps) == 7 and np.median(steps) == pytest.approx(100 / 16, abs=0.5)


def test_full_partitioning_has_nothing_to_bring_together() -> None:
    result = run(job(None, owners=APART, groups=GROUPS), JointSpec(band=20))
    assert not decisions(result)


def test_rounds_by_state_and_of_several_periods() -> None:
    result = run(apart(), policy_spec({"name": "joint", "max_state_mb": 0.0, "every_periods": 2}))
    assert {row["at_s"] % 10 for row in result.event_rows if row["kind"] == "decision"} <= {0.0}


# what is measured ----------------------------------------------------------------------------------------------------


def test_a_group_takes_its_own_serialising_and_an_even_part_of_the_rest() -> None:
    """A group's load is its own serialising (1,000 kB a second: 6 % of a core) and an even part of the rest."""
    sent_g, taken_k = remote_cores(np.diag([1000.0, 1000.0]), np.array([0, 0]), np.array([0, 1]), 1e3, STORM)
    assert sent_g == pytest.approx([0.0, 0.06]) and taken_k == pytest.approx([0.0, 0.06])
    assert attributed(np.array([10.0, 10.0]), 100 * sent_g, np.array([0, 0])) == pytest.approx([7.0, 13.0])
    assert attributed(np.array([2.0, 2.0]), 100 * sent_g, np.array([0, 0])) == pytest.approx([2.0, 2.0])
    assert attributed(np.array([0.0, 4.0]), np.array([0.0, 1.0]), np.array([0, 1])) == pytest.approx([0.0, 4.0])


def test_loads_of_groups_still_sum_to_what_their_host_did() -> None:
    watching = Watching()
    run(apart(), watching, horizon_s=20)
    require_sums_of_hosts(watching.seen)


def test_a_plan_foresees_what_need_not_be_serialised() -> None:
    """The loads that a plan predicts, with less serialising, are those that the next periods measure."""
    watching = Watching({2: Reconfiguration(moves=tuple(_home(group) for group in range(4)))})
    deployment = apart()
    run(deployment, watching, horizon_s=40)
    before = GroupMap(deployment, watching.seen[:2], ["m", "n"]).balance(MigrationBudget(20), with_traffic=True)
    node_g = before.home_g.copy()
    node_g[16:20] = node_g[0:4]
    after = [100 * np.mean([each.hosts[host]["cpuUtilisation"] for each in watching.seen[3:]]) for host in WORKERS]
    cores = np.array(before.capacity_h) / 2.0
    assert relieved(before, node_g).load_h(node_g) * cores == pytest.approx(after, abs=0.5)
    assert np.abs(before.load_h(node_g) * cores - after).max() > 1.0, "without foresight it would be off"


def _home(group: int) -> Move:
    return Move(operator="n", key_groups=(group,), to_subtask=0)


def test_a_join_of_two_sources_keeps_its_matches() -> None:
    """A join of two sources has as many results while its groups come together."""
    data = apart().model_dump(mode="json", exclude_none=True)
    joined = {"kind": "join", "name": "n", "key_groups": 16, "selectivity": 0.01}
    joined |= {"window": {"policy": "time", "size_s": 1}, "service_time_s": 1e-4}
    data["query"]["operators"] = [each if each["name"] != "n" else joined for each in data["query"]["operators"]]
    data["query"]["operators"].append({"kind": "source", "name": "clicks", "service_time_s": 0})
    data["query"]["streams"].append({"producer": "clicks", "consumer": "n"})
    data["plan"]["placement"]["clicks"] = ["in"]
    data["workload"]["arrivals"]["clicks"] = {"law": "constant", "rate_per_s": 50}
    deployment = parse(Deployment, data)
    unmoved, moved = (
        run(deployment, None, horizon_s=40),
        run(deployment, JointSpec(max_migrations=6, band=10), horizon_s=40),
    )
    assert decisions(moved)[-1]["planned_collocation"] > 90
    assert moved.metrics.records_out == pytest.approx(unmoved.metrics.records_out, rel=0.05)


# subtasks on demand --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", [False, True])
def test_a_subtask_that_was_made_goes_when_it_has_no_groups(failing: bool) -> None:
    """A subtask made for a key group goes when the group has gone back."""
    there, back = (
        Reconfiguration(moves=(Move(operator="n", key_groups=(0,), **to),)) for to in ({"to": "in"}, {"to_subtask": 1})
    )
    events = [Failure(at_s=15.0005, host="w2", recover_after_s=1.0)] if failing else []
    result = run(apart(), Watching({1: there, 3: back}), *events, horizon_s=40)
    counts = [row["parallelism"] for row in result.operator_rows if row["operator"] == "n"]
    assert counts[:3] == [4, 5, 5] and counts[-1] == 4


def test_with_retire_all_subtasks_without_groups_go() -> None:
    empty = Reconfiguration(moves=(Move(operator="n", key_groups=(12, 13, 14, 15), to_subtask=1),), retire=True)
    result = run(apart(), Watching({1: empty}), horizon_s=20)
    assert [row["parallelism"] for row in result.operator_rows if row["operator"] == "n"][-1] == 3
    kept = run(apart(), Watching({1: Reconfiguration(moves=empty.moves)}), horizon_s=20)
    assert [row["parallelism"] for row in kept.operator_rows if row["operator"] == "n"][-1] == 4


# what must not end a run ---------------------------------------------------------------------------------------------


def test_a_solver_out_of_time_moves_what_it_can() -> None:
    result = run(apart(), JointSpec(max_migrations=4, steps=1), horizon_s=12)
    assert result.metrics.success
    assert not decisions(run(apart(), JointSpec(max_migrations=0), horizon_s=12))
