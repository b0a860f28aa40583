"""A plan made of a plan keeps its key groups, or the solution says what it cannot keep; ties know them too."""

from __future__ import annotations

import pytest

from optimizers.interface import Problem
from optimizers.registry import OPTIMIZERS
from optimizers.selection import estimate, ranked
from tests.twin.worlds import deployment, sink, source
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.rates.seats import Placements
from twin.scenario import Scenario

OWNERS = (0, 1, 1, 1, 0, 1, 1, 0)
HOSTS = [
    {"name": f"h{k}", "cpu_percent": 800, "ram_mb": 64_000, "bandwidth_mbps": 1000, "latency_ms": 1} for k in range(3)
]


def keyed() -> Scenario:
    """Job source -> a (2 subtasks, 8 key groups dealt by hand) -> sink."""
    window = {"policy": "time", "size_s": 1}
    counts = {"kind": "aggregate", "name": "a", "group_by": "int", "groups": 80, "window": window, "key_groups": 8}
    places = {"source": "h0", "a": ["h0", "h1"], "sink": "h2"}
    operators = [source(service_time_s=1e-5), counts | {"service_time_s": 1e-4}, sink(service_time_s=1e-5)]
    streams = [("source", "a"), ("a", "sink")]
    job = deployment(operators, streams, {"source": 500}, hosts=HOSTS, placement=places)
    plan = ExecutionPlan(placement=job.plan.placement, key_groups={"a": OWNERS})
    return Scenario.of(job.with_plan(plan))


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_optimizer_keeps_the_assignment_or_says_that_it_cannot(name: str) -> None:
    scenario = keyed()
    found = OPTIMIZERS[name].solve(Problem(scenario=scenario, cost_model=RateModel(), budget=60, alternatives=3))
    for plan in (found.plan, *(each.plan for each in found.alternatives)):
        assert plan.key_groups == ({"a": OWNERS} if plan.parallelism("a") == 2 else {})
    assert ("key groups of a are dealt anew" in found.message) == (found.plan.parallelism("a") != 2)


def test_a_plan_with_other_subtasks_loses_what_names_them() -> None:
    plan = keyed().plan
    more = plan.with_placement({**plan.placement, "a": ("h0", "h1", "h2")})
    elsewhere = plan.with_placement({**plan.placement, "a": ("h2", "h2")})
    assert (more.key_groups, plan.lost_by(more)) == ({}, ("a",))
    assert (elsewhere.key_groups, plan.lost_by(elsewhere)) == ({"a": OWNERS}, ())


def test_many_plans_as_one_array_are_estimated_as_one_by_one_with_their_key_groups() -> None:
    scenario = keyed()
    many = Placements(scenario, [[0, 0, 0], [1, 2, 0]])  # type: ignore[arg-type]
    dealt, ranges = RateModel().answer(scenario, many), RateModel().answer(scenario, list(many))
    assert dealt.pressure == pytest.approx(ranges.pressure)
    plain = scenario.with_plan(ExecutionPlan(placement=scenario.plan.placement))
    assert RateModel().answer(plain, Placements(plain, [[0, 0, 0]])).pressure[0] != pytest.approx(dealt.pressure[0])  # type: ignore[arg-type]


def test_plans_that_differ_in_key_groups_alone_come_in_the_same_order_however_they_were_given() -> None:
    scenario = keyed()
    mirrored = ExecutionPlan(placement=scenario.plan.placement, key_groups={"a": tuple(1 - each for each in OWNERS)})
    problem = Problem(scenario=scenario, cost_model=_Alike())
    one, other = ([scenario.plan, mirrored][::step] for step in (1, -1))
    assert [each.plan for each in ranked(problem, estimate(problem, one), 2)] == [
        each.plan for each in ranked(problem, estimate(problem, other), 2)
    ]


class _Alike(RateModel):
    def predict(self, scenario, plans):
        return RateModel().predict(scenario, [plans[0]] * len(plans))
