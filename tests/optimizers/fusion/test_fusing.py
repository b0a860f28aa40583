"""Optimizers that fuse: against all plans there are, in the simulator, and what they refuse."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.fusion.optimizer import possible, with_links
from optimizers.interface import Problem, Solution, Status
from optimizers.judging import EXCHANGED
from optimizers.planner import Planner
from optimizers.registry import optimizer_by_name
from optimizers.selection import PREMIUM
from optimizers.space import ALL_PLANS, Space
from scenarios.files import scenario_file
from tests.twin.fused_jobs import COUNT, counting, filter_, map_
from tests.twin.worlds import HOST, chain, deployment, sink, source
from twin.chaining import links_of
from twin.errors import BadInput
from twin.metrics import Estimates
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

NAMES = ("fusion", "fusion-pa", "fusion-baseline", "fusion-exact")
HOSTS = [{**HOST, "name": name, "cpu_percent": cpu} for name, cpu in (("h", 100), ("k", 300))]
SETTINGS = RunSettings(horizon_s=20, warmup_s=4)


def job(middle: list[dict[str, Any]], rate: float, **more: Any) -> Scenario:
    return Scenario.of(chain(middle, rate, hosts=HOSTS, **more), SETTINGS)


def solve(name: str, scenario: Scenario, *, budget: int = 400, space: Space = ALL_PLANS, **more: Any) -> Solution:
    problem = Problem(scenario=scenario, cost_model=RateModel().planning(), budget=budget, space=space, **more)
    return Planner(optimizer_by_name(name)).solve(problem)


def all_plans(scenario: Scenario) -> list[ExecutionPlan]:
    """Every placement, with every allowed set of fused streams."""
    names, links = list(scenario.plan.placement), possible(scenario)
    subsets = [set(each) for size in range(len(links) + 1) for each in itertools.combinations(links, size)]
    found, query = [], scenario.query
    for hosts in itertools.product("hk", repeat=len(names)):
        plan = ExecutionPlan(placement={name: (host,) for name, host in zip(names, hosts, strict=True)})
        fused = [with_links(query, plan, each) for each in subsets]
        found += [plan for plan, each in zip(fused, subsets, strict=True) if links_of(query, plan.fused) == each]
    return found


@settings(max_examples=6, deadline=None)
@given(work_ms=st.lists(st.floats(0.02, 4.0), min_size=3, max_size=3), rate=st.sampled_from([50, 200, 400]))
def test_the_best_of_all_arrangements_is_found_and_called_so(work_ms: list[float], rate: float) -> None:
    first, second, third = (each * 1e-3 for each in work_ms)
    scenario = job([map_("a", first), filter_("f", second, 0.5), map_("b", third)], rate)
    plans = all_plans(scenario)
    found = solve("fusion+local-search", scenario, budget=2000)
    estimates = RateModel().planning().predict(scenario, plans)
    feasible = (estimates["backpressured"] < 0.5) & (estimates["success"] >= 0.5)
    if feasible.any() and found.message.startswith(EXCHANGED):
        best = estimates["processing_latency_s"][feasible].min()
        assert found.status is Status.FEASIBLE and best < found.objective <= best * (1 + PREMIUM)
    elif feasible.any():
        assert found.status is Status.OPTIMAL
        assert found.objective == pytest.approx(estimates["processing_latency_s"][feasible].min(), rel=1e-9)
        assert found.bound == found.objective and "fused or apart" in found.among
    else:
        assert found.status is Status.INFEASIBLE and not found.feasible
    climbed = solve("fusion+local-search", scenario, budget=120)
    assert climbed.status is Status.FEASIBLE and climbed.bound is None and climbed.feasible == found.feasible
    assert climbed.objective <= found.given.objective * (1 + 1e-9) or not found.given.feasible


def test_what_an_algorithm_fuses_is_in_the_plan_unless_the_given_one_is_better() -> None:
    """The plan has the algorithm's fusions unless the given plan is better; sources stay alone, unnamed keys differ."""
    light = [map_("a", 1e-5), filter_("f", 1e-5, 0.5), counting("w", 1e-5, COUNT, 20), map_("b", 1e-5)]
    for name in NAMES:
        found = solve(name, job(light, 100))
        fused = {"fusion-baseline": (("f", "w", "b", "sink"),)}.get(name, (("a", "f"), ("w", "b", "sink")))
        assert found.plan.fused == fused, name
        assert found.status is Status.FEASIBLE and "from task to task" in found.message
        assert ("at least" in found.message) == (name == "fusion-exact")
    heavy = job([map_("a", 6e-3), map_("b", 6e-3)], 100, placement={"source": "h", "a": "h", "b": "k", "sink": "k"})
    kept = solve("fusion", heavy)
    assert kept.plan == heavy.plan and "kept" in kept.message


def test_keys_with_one_name_are_fused_over_several_subtasks() -> None:
    """Counts by one named key are fused over several subtasks, and count the same apart or fused."""
    keys = {"partition_by": ["user"]}
    middle = [counting("v", 1e-4, COUNT, 40, **keys), map_("m", 1e-4), counting("w", 1e-4, COUNT, 40, **keys)]
    places = {name: ["k", "k"] for name in ("v", "m", "w")}
    apart = job(middle, 200, placement=places)
    found = solve("fusion", apart, space=Space(pinned=frozenset({"source", "v", "m", "w", "sink"})))
    assert found.plan.fused == (("v", "m"),)
    middle[1]["passes"] = ["user"]
    same = job(middle, 200, placement=places)
    found = solve("fusion", same, space=Space(pinned=frozenset({"source", "v", "m", "w", "sink"})))
    assert found.plan.fused == (("v", "m", "w"),)
    runs = [simulate(each) for each in (same, same.with_plan(found.plan))]
    counts = [{each.operator: each.records_in for each in run.operators} for run in runs]
    assert counts[0]["w"] == pytest.approx(counts[1]["w"], rel=0.1) and counts[1]["w"] > 1000


def test_the_climb_parts_what_was_fused_and_fuses_what_was_not() -> None:
    heavy = job([map_("a", 6e-3), map_("b", 6e-3)], 120)
    together = heavy.with_plan(heavy.plan.model_copy(update={"fused": (("a", "b"),)}))
    found = solve("fusion+local-search", together, budget=60)
    assert not any({"a", "b"} <= set(group) for group in found.plan.fused) and found.feasible
    assert found.objective < found.given.objective / 10 and "a, b run apart" in found.message
    small = solve("fusion+local-search", job([map_("a", 1e-5), map_("b", 1e-5)], 100), budget=60)
    assert small.plan.fused[0][:3] == ("source", "a", "b")


def test_subtasks_are_scaled_together_with_what_runs_as_one() -> None:
    operators = [source(service_time_s=1e-5), map_("a", 4e-3), map_("b", 4e-3), sink(service_time_s=1e-5)]
    streams = [("source", "a"), ("a", "b"), ("b", "sink")]
    scenario = Scenario.of(
        deployment(operators, streams, {"source": 400}, hosts=[{**HOST, "cpu_percent": 1000}]), SETTINGS
    )
    found = solve("fusion+rlas", scenario, objective="throughput_per_s", budget=500)
    assert found.feasible and sum(found.plan.parallelism(name) for name in "ab") >= 4
    scenario.with_plan(found.plan)
    fixed = solve("fusion+rlas", scenario, space=Space(free_subtasks=False), objective="throughput_per_s")
    assert {fixed.plan.parallelism(name) for name in fixed.plan.placement} == {1}


@pytest.mark.parametrize("name", ["fusion", "fusion+local-search", "fusion+costream", "fusion+random"])
def test_the_space_is_kept(name: str) -> None:
    scenario = job([map_("a", 1e-4), map_("b", 1e-4), map_("c", 1e-4)], 100)
    space = Space(pinned=frozenset({"a"}), allowed={"b": ("k",)})
    found = solve(name, scenario, space=space, budget=60)
    assert space.includes(scenario, found.plan) and scenario.with_plan(found.plan)


class Blind:
    """Rate model that treats all operators as unfused."""

    name = "blind"

    def predict(self, scenario: Scenario, plans: Any) -> Estimates:
        return RateModel().predict(scenario, [each.model_copy(update={"fused": ()}) for each in plans])

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        return tuple(f"chained operators ({' + '.join(each)})" for each in scenario.plan.fused)


def test_who_does_not_see_fusion_is_not_asked() -> None:
    problem = Problem(scenario=job([map_("a", 1e-4), map_("b", 1e-4)], 100), cost_model=Blind())
    with pytest.raises(BadInput, match="cost model blind does not see which operators run as one; use rates or sim"):
        optimizer_by_name("fusion").solve(problem)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fusion+fusion-pa", "fusion-pa fuses, as fusion does; name one that places"),
        ("fusion+milp-hosts", "a goal of its own"),
        ("fusion+", "names nothing behind the"),
        ("fusion+local-serch", "did you mean 'local-search'"),
        ("rlas+fusion", "unknown optimizer"),
    ],
)
def test_what_cannot_go_together_says_so(name: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        optimizer_by_name(name)


def test_where_nothing_may_be_fused_it_says_so() -> None:
    scenario = scenario_file.load("numa-cluster")
    assert possible(scenario) == ()
    found = solve("fusion", scenario, budget=5, objective="throughput_per_s")
    assert not found.plan.fused and "nothing of this job can run as one" in found.message


def test_arrangements_of_a_plan_in_another_order_keep_its_subtasks() -> None:
    """Plans keep the given plan's numbering of subtasks and its key groups."""
    middle = [counting("w", 1e-4, COUNT, 20, key_groups=4)]
    scenario = job(middle, 100, placement={"w": ["k", "h"]})
    owned = scenario.plan.model_copy(update={"key_groups": {"w": (1, 1, 1, 0)}})
    found = solve("fusion", scenario.with_plan(owned), space=Space(pinned=frozenset(scenario.plan.placement)))
    assert found.plan.placement == owned.placement and found.plan.key_groups == owned.key_groups
    assert np.isfinite(found.objective)
