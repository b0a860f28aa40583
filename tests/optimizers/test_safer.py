"""A plan at the edge of backpressure is not taken where one that surely keeps up costs hardly more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optimizers.interface import Candidate, Problem, Solution, Status, Traits
from optimizers.judging import with_fewest_moves
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from optimizers.selection import PREMIUM, SURE, estimate, safer
from optimizers.space import SpacePlans, as_plans
from scenarios.planning.cost_models import planner_for
from scenarios.suite import FAMILIES
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel

EDGE = FAMILIES["replicas"]
"""Family of jobs that have plans of the same latency at any load."""


@pytest.fixture(scope="module")
def edge() -> Problem:
    return Problem(scenario=EDGE.member(0), cost_model=RateModel(), space=EDGE.space, budget=300)


def risk(problem: Problem, plan: ExecutionPlan) -> float:
    return float(estimate(problem, [plan]).backpressured[0])


@pytest.mark.parametrize("name", ["milp", "branch-and-bound", "local-search", "costream", "exhaustive"])
def test_answer_surely_keeps_up_where_the_unmended_one_is_at_the_edge(name: str, edge: Problem) -> None:
    alone, found = OPTIMIZERS[name].solve(edge), Planner(OPTIMIZERS[name]).solve(edge)
    assert risk(edge, found.plan) < SURE
    assert found.objective <= alone.objective * (1 + PREMIUM)
    if risk(edge, alone.plan) >= SURE:
        assert "surely keeps up" in found.message
        assert found.status == "feasible"
        assert found.bound is None or found.bound <= found.objective


def test_near_hands_over_only_plans_that_surely_keep_up_where_there_are_some(edge: Problem) -> None:
    from optimizers.planner import weigh

    weighed = weigh(edge, OPTIMIZERS["milp"].solve, Traits())
    best = np.lexsort((weighed.found.objective, ~weighed.found.feasible))[0]
    risks = weighed.found.backpressured.copy()
    risks[best] = SURE
    weighed = replace(weighed, found=replace(weighed.found, backpressured=risks))
    for share in (0.01, 0.1, 1.0):
        assert (weighed.found.backpressured[weighed.near(share)] < SURE).all()


def test_sure_plan_is_taken_only_if_it_hardly_costs_more(edge: Problem) -> None:
    plan = edge.deployment.plan
    best, dear = Candidate(plan, 1.0, 0.4, 1.0), Candidate(plan, 1.0 + 2 * PREMIUM, 0.0, 1.0)
    near, risky = Candidate(plan, 1.0 + PREMIUM / 2, 0.0, 1.0), Candidate(plan, 1.0, SURE, 1.0)
    assert safer(edge, best, [dear, risky]) is best
    assert safer(edge, best, [dear, risky, near]) is near
    assert safer(edge, near, [dear]) is near
    assert safer(replace(edge, objective="throughput_per_s"), best, [near]) is best


@pytest.mark.parametrize("risk", [0.0, 2 * SURE])
def test_no_sure_plan_is_given_up_for_fewer_moves(risk: float, edge: Problem) -> None:
    """The given plan, as good and without moves, is taken back only if it keeps up as surely."""
    given = edge.deployment.plan
    moved = next(plan for plan in all_plans(edge) if plan.placement != given.placement)
    best, other = Candidate(moved, 1.0, 0.0, 1.0), Candidate(given, 1.0, risk, 1.0)
    found = Solution.of(best, Status.FEASIBLE, evaluations=0, started_s=0.0, others=[other])
    assert (with_fewest_moves(edge, found, best, 0).plan == given) == (risk == 0.0)


def all_plans(problem: Problem) -> list[ExecutionPlan]:
    return as_plans(problem.deployment, SpacePlans(problem.deployment, problem.space).all())


@pytest.mark.slow
def test_chosen_plan_keeps_up_in_the_simulator(edge: Problem) -> None:
    from scenarios.planning.cost_models import cost_model
    from twin.simulation import simulate

    for name, model in (("milp", "learned"), ("branch-and-bound", "rates")):
        costs = cost_model(model)
        led = planner_for(OPTIMIZERS[name], costs)
        found = led.solve(replace(edge, cost_model=costs))
        assert not simulate(edge.scenario.with_plan(found.plan)).metrics.backpressured
