"""Plans of engines with slots: what can be deployed; scaling proposes nothing else and bears what it claims."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.interface import Problem
from optimizers.objectives import at_rate
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from optimizers.rules import SlotDeployment, deployed, fits
from optimizers.space import Space, counts_of
from scenarios.files import scenario_file
from scenarios.planning.planner import in_slots, optimize
from tests.commands import answer, done
from tests.twin.worlds import sink, source
from twin.chaining import fused
from twin.errors import BadInput
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

NONE_PINNED, ONE_GROUP = np.zeros(3, bool), np.zeros(3, int)
RUN = {"horizon_s": 60, "warmup_s": 20, "period_s": 10, "seed": 5}


@pytest.mark.parametrize("groups", [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 2)])
def test_each_slot_sharing_group_takes_slots_of_its_own(groups: tuple[int, ...]) -> None:
    """Groups take slots one after another, on the next task manager in turn: as many as all groups need together."""
    for parallelism in product(range(1, 5), repeat=3):
        most = [max(n for n, group in zip(parallelism, groups, strict=True) if group == k) for k in sorted(set(groups))]
        first = [sum(most[:group]) for group in groups]
        for hosts in (1, 2, 3):
            counts = np.zeros((3, 3), int)
            for o, subtasks in enumerate(parallelism):
                for k in range(subtasks):
                    counts[o, (first[o] + k) % hosts] += 1
            assert fits(counts[None], NONE_PINNED, np.array(groups))[0]
            again = deployed(counts, NONE_PINNED, np.array(groups))
            assert fits(again[None], NONE_PINNED, np.array(groups))[0]
            assert sorted(again.sum(axis=0)) == sorted(counts.sum(axis=0))
            places = {
                name: tuple(f"tm-{h}" for h in range(3) for _ in range(row[h]))
                for name, row in zip("abc", again, strict=True)
            }
            found = SlotDeployment.of(
                ExecutionPlan(placement=places), "abc", dict(zip("abc", map(str, groups), strict=True))
            )
            assert sum(found.task_managers.values()) == sum(most)
            assert max(found.task_managers.values()) - min(found.task_managers.values()) <= 1


def test_operators_that_share_slots_go_together_and_others_need_not() -> None:
    apart = np.array([[[1, 1, 0], [1, 1, 0], [0, 0, 1]]])
    assert not fits(apart, NONE_PINNED, ONE_GROUP)[0]
    assert fits(apart, NONE_PINNED, np.array([0, 1, 2]))[0]  # five slots, 2, 2 and 1
    assert not fits(2 * apart, NONE_PINNED, np.array([0, 1, 2]))[0]  # 4, 4 and 2 are not spread evenly


def test_groups_are_inherited_as_in_flink_and_end_chains() -> None:
    """A group is inherited from all inputs if they are in one; no chain leads from one group into another."""
    operators = [kafka(4, 1e-4, "a"), kafka(4, 1e-4, "b"), work(1e-3), OUT]
    operators[0]["slot_sharing_group"] = "sources"
    assert job_of(operators, a=10, b=10).query.slot_sharing_groups == {
        "a": "sources", "b": "default", "work": "default", "out": "default",
    }  # fmt: skip
    operators[1]["slot_sharing_group"] = "sources"
    assert set(job_of(operators, a=10, b=10).query.slot_sharing_groups.values()) == {"sources"}
    apart = job_of([kafka(4, 1e-4), work(1e-3, slot_sharing_group="heavy"), OUT], kafka=10)
    with pytest.raises(BadInput, match="slot sharing groups 'default' and 'heavy'; give both the same"):
        apart.with_set("plan.fused", [["kafka", "work"]])
    chaining = apart.engine.model_copy(update={"chaining": True})
    assert fused(apart.query, apart.plan, chaining) == (("work", "out"),)


def test_a_plan_has_the_slots_of_all_groups() -> None:
    job = job_of([kafka(12, 1e-4), work(1.2e-3, slot_sharing_group="heavy"), count(500, 5e-4), OUT], kafka=1500)
    found = optimize(job, "milp-hosts")
    slots = in_slots(job, found.plan)
    assert found.feasible and slots is not None
    most = max(slots.parallelism[name] for name in ("work", "count", "out"))
    assert sum(slots.task_managers.values()) == slots.parallelism["kafka"] + most


def test_chains_are_parted_only_when_asked() -> None:
    """Chains are parted only if asked: three partitions feed three subtasks, too few for 1,500 x 4 ms = 6 cores."""
    job = job_of([kafka(3, 1e-5), work(4e-3), OUT], kafka=1500)
    job = job.with_plan(job.plan.model_copy(update={"fused": (("kafka", "work"),)}))
    kept, parted = (optimize(job, "milp-hosts", space=Space(part_chains=part)) for part in (False, True))
    assert not kept.feasible and kept.plan.fused == job.plan.fused
    assert parted.feasible and not parted.plan.fused
    assert parted.plan.parallelism("work") >= 7 > parted.plan.parallelism("kafka")
    light = job.with_set("query.operators.work.service_time_s", 1e-4)
    found = optimize(light, "milp-hosts", space=Space(part_chains=True))
    assert len(set(found.plan.placement["work"])) == 1 and found.plan.fused == job.plan.fused


def test_what_no_slots_hold_cannot() -> None:
    for wrong in (
        [[4, 2, 1], [2, 2, 3], [1, 1, 1]],
        [[2, 0, 0], [1, 1, 0], [1, 0, 0]],
        [[2, 2, 0], [1, 1, 2], [1, 1, 1]],
        [[1, 0, 0], [0, 1, 1], [1, 1, 1]],  # subtask 0 would be in two slots
    ):
        assert not fits(np.array([wrong]), NONE_PINNED, ONE_GROUP)[0]


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=3, max_size=3), pinned=st.booleans()
)
def test_any_wish_becomes_what_can_be_deployed_on_no_other_hosts(
    counts: list[tuple[int, int, int]], pinned: bool
) -> None:
    wish = np.array(counts)
    wish[:, 0] += wish.sum(axis=1) == 0
    pinned_o = np.array([pinned, False, False])
    found = deployed(wish, pinned_o, ONE_GROUP)
    assert fits(found[None], pinned_o, ONE_GROUP)[0]
    assert (found.sum(axis=1) == wish.sum(axis=1)).all() and (found[pinned_o] == wish[pinned_o]).all()
    assert not (found.any(axis=0) & ~wish.any(axis=0)).any()
    assert (deployed(found, pinned_o, ONE_GROUP) == found).all()
    wished_h, found_h = wish[~pinned_o].sum(axis=0), found[~pinned_o].sum(axis=0)
    assert (np.diff(found_h[np.argsort(-wished_h, kind="stable")]) <= 0).all()  # the order of the wishes is kept


def job_of(operators: list[dict[str, Any]], *, keys: Mapping[str, Any] | None = None, **rates: float) -> Scenario:
    """Row of operators behind its sources, on three task managers of four cores, all subtasks on the first."""
    sources = list(rates)
    inner = [each["name"] for each in operators if each["name"] not in sources]
    streams = [(name, inner[0]) for name in sources] + list(pairwise(inner))
    host = {"cpu_percent": 400, "ram_mb": 16_000, "bandwidth_mbps": 10_000, "latency_ms": 0.5}
    document = {
        "name": "job",
        "query": {"operators": operators, "streams": [{"producer": a, "consumer": b} for a, b in streams]},
        "cluster": {"hosts": [host | {"name": f"tm-{number}"} for number in (1, 2, 3)]},
        "plan": {"placement": {each["name"]: {"tm-1": 2, "tm-2": 2, "tm-3": 2} for each in operators}},
        "workload": {
            "arrivals": {name: {"law": "poisson", "rate_per_s": rate} for name, rate in rates.items()},
            "keys": keys or {},
        },
        "engine": "flink",
        "run": RUN,
    }
    return parse(Scenario, document)


def kafka(partitions: int, service_s: float, name: str = "kafka") -> dict[str, Any]:
    return {"kind": "kafka-source", "name": name, "partitions": partitions, "service_time_s": service_s}


def work(service_s: float, **more: Any) -> dict[str, Any]:
    return {"kind": "map", "name": "work", "service_time_s": service_s} | more


def count(groups: int, service_s: float) -> dict[str, Any]:
    return {
        "kind": "aggregate", "name": "count", "function": "count", "group_by": "int", "groups": groups,
        "window": {"policy": "time", "size_s": 5}, "service_time_s": service_s,
    }  # fmt: skip


OUT = sink("out", service_time_s=1e-5)
ZIPF = {"work": {"zipf": 1.0}}
JOBS: Mapping[str, Scenario] = {
    "even": job_of([kafka(12, 1e-4), work(1.2e-3), OUT], kafka=1500),
    "seven partitions": job_of([kafka(7, 6e-4), work(1e-3), OUT], kafka=1500),
    "five heavy partitions": job_of([kafka(5, 2e-3), work(5e-4), OUT], kafka=800),
    "three partitions": job_of([kafka(3, 1e-3), work(1e-4), OUT], kafka=900),
    "skewed keys": job_of([source("s", service_time_s=2e-4), work(1e-3, key_groups=64), OUT], keys=ZIPF, s=900),
    "few groups": job_of([source("s", service_time_s=2e-4), count(5, 1.5e-3), OUT], s=1200),
    "many groups": job_of([kafka(8, 1e-4), count(500, 2e-3), OUT], kafka=1000),
    "two sources": job_of([kafka(6, 3e-4, "a"), kafka(4, 5e-4, "b"), work(1.5e-3), OUT], a=700, b=500),
    "three sources": job_of([kafka(5, 4e-4, n) for n in "abc"] + [work(1e-3), OUT], a=500, b=400, c=300),
    "a light job": job_of([source("s", service_time_s=1e-4), work(1e-4), OUT], s=500),
}


@pytest.mark.parametrize("name", JOBS)
def test_cheapest_hosts_can_be_deployed_and_bear_in_a_run_what_is_said(name: str) -> None:
    job = JOBS[name]
    found = optimize(job, "milp-hosts")
    slots = in_slots(job, found.plan)
    assert (found.feasible and "bears 1.2 times" in found.message) or "bear 1.2 times" in found.message
    assert slots is not None
    assert slots.parallelism == {each: found.plan.parallelism(each) for each in found.plan.placement}
    assert sum(slots.task_managers.values()) == max(slots.parallelism.values())
    ahead = simulate(at_rate(job.with_plan(found.plan), 1.2)).metrics
    assert ahead.success and not ahead.backpressured


def test_chains_stay_chains_and_whoever_scales_keeps_to_slots() -> None:
    job = JOBS["even"]
    chained = job.with_plan(job.plan.model_copy(update={"fused": (("kafka", "work"),)}))
    found = Planner(OPTIMIZERS["milp-hosts"]).solve(Problem(scenario=chained, cost_model=RateModel(), budget=200))
    assert found.plan.fused == chained.plan.fused
    for name, objective in (("rlas", "throughput_per_s"), ("random-sockets", "throughput_per_s")):
        asked = Problem(scenario=JOBS["few groups"], cost_model=RateModel(), budget=200, objective=objective)
        plan = Planner(OPTIMIZERS[name]).solve(asked).plan
        assert plan == asked.scenario.plan or fits(counts_of(asked.scenario, plan)[None], NONE_PINNED, ONE_GROUP)[0]
    fixed = Planner(OPTIMIZERS["local-search"]).solve(Problem(scenario=job, cost_model=RateModel(), budget=100))
    assert fixed.feasible  # numbers stay, and operators may be anywhere


def test_what_is_deployed_is_all_of_a_plan_or_nothing_is_said() -> None:
    """A plan is deployed whole or not at all: a source pinned beside the others takes no slot of theirs."""
    pinned = job_of([source("s", service_time_s=1e-4, pinned=True), work(1e-3), OUT], s=500)
    places = {"s": ("tm-1",), "work": ("tm-2", "tm-2"), "out": ("tm-2", "tm-2")}
    assert in_slots(pinned, ExecutionPlan(placement=places)) is None
    slots = in_slots(pinned, ExecutionPlan(placement=places | {"s": ("tm-2",)}))
    assert slots is not None and slots.parallelism == {"s": 1, "work": 2, "out": 2}
    apart = {"s": ("tm-1",), "work": ("tm-2", "tm-3"), "out": ("tm-1", "tm-2", "tm-3")}
    assert in_slots(pinned, ExecutionPlan(placement=apart)) is None


def test_the_command_says_how_to_deploy(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(scenario_file.dump(JOBS["even"]), encoding="utf-8")
    document = answer("optimize", path, "--objective", "price")
    assert set(document["parallelism"]) == {"kafka", "work", "out"}
    assert sum(document["task_managers"].values()) == max(document["parallelism"].values())
    said = done("optimize", path, "--objective", "price")
    assert "to deploy: " in said and "parallelism: kafka " in said
