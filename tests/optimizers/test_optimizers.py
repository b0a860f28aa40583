"""Every optimizer on every small problem: laws that any of them must keep."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from optimizers.interface import Candidate, Problem, Status, traits_of
from optimizers.judging import JUDGED
from optimizers.local_search import Costream, Exhaustive, Governor, LocalSearch, RandomPlan, governor_placement
from optimizers.objectives import OBJECTIVES
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS, optimizer_by_name
from optimizers.rules import PlacementSpace, bin_ranges, capability, is_valid, valid_rows
from optimizers.selection import Estimated, choose
from optimizers.space import Space
from scenarios.spaces.generator import COSTREAM, random_scenario
from twin.errors import BadInput
from twin.metrics import CHECKPOINTS, METRICS, Estimates
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.rates.seats import Placements
from twin.scenario import RunSettings

EVERYTHING = 10**5

each_optimizer = pytest.mark.parametrize("name", sorted(OPTIMIZERS))
ON_SOCKETS = {name for name, optimizer in OPTIMIZERS.items() if traits_of(optimizer).objective}
"""Optimizers that place on the sockets of servers, where the rules for edge, fog and cloud say nothing."""
SCALING = {"milp-hosts", "rlas", "rlas-fix-l", "rlas-fix-u", "random-sockets"}
"""Optimizers that choose the numbers of subtasks."""
RULED = Space(costream_rules=True)
each_ruled_optimizer = pytest.mark.parametrize("name", sorted(set(OPTIMIZERS) - ON_SOCKETS))
each_objective = pytest.mark.parametrize("objective", sorted(OBJECTIVES.keys() - {*CHECKPOINTS}))


def hosts_of(plan: ExecutionPlan) -> dict[str, str]:
    return {name: plan.locations(name)[0].host for name in plan.placement}


@each_objective
@pytest.mark.parametrize("optimizer", [Costream(), LocalSearch(starts=10**4)], ids=lambda each: each.name)
def test_with_budget_for_everything_others_equal_exhaustive(optimizer, objective, query, make_deployment, table_model):
    job = make_deployment(query, hosts=3)
    problem = Problem(scenario=job, cost_model=table_model(), objective=objective, budget=EVERYTHING, space=RULED)
    best, found = Exhaustive().solve(problem), optimizer.solve(problem)
    assert found.objective == best.objective
    if optimizer.name == "costream":
        assert (found.plan, found.alternatives) == (best.plan, best.alternatives)


@each_optimizer
def test_the_budget_is_kept(name, make_deployment):
    class Counting(RateModel):
        asked = 0

        def predict(self, scenario, plans):
            Counting.asked += len(plans)
            return RateModel().predict(scenario, plans)

    if name == "exhaustive":
        return  # looks at everything or refuses, whatever the budget
    for budget in (1, 7, 40):
        Counting.asked = 0
        problem = Problem(scenario=make_deployment(), cost_model=Counting(), budget=budget)
        solution = OPTIMIZERS[name].solve(problem)
        assert Counting.asked == solution.evaluations <= budget
        beside_the_given_plan = Planner(OPTIMIZERS[name]).solve(problem)
        assert beside_the_given_plan.evaluations <= max(budget, 1 + 2 * JUDGED)


def test_local_search_ends_where_no_single_move_helps(make_deployment, table_model):
    job = make_deployment(hosts=5)
    problem = Problem(scenario=job, cost_model=table_model(), budget=EVERYTHING, space=RULED)
    solution = LocalSearch(starts=1).solve(problem)
    here = np.array([int(hosts_of(solution.plan)[each.name][1:]) for each in job.query.operators])
    every = np.array(list(itertools.product(range(5), repeat=len(here))))
    near = every[valid_rows(job.query, bin_ranges(job.cluster), every) & ((every != here).sum(axis=1) == 1)]
    says = table_model().predict(job, Placements(job, near))
    feasible = (says["backpressured"] < 0.5) & (says["success"] >= 0.5)
    assert solution.objective <= says["processing_latency_s"][feasible].min()


def test_local_search_is_never_worse_than_the_heuristic_it_starts_from():
    for seed in range(12):
        problem = Problem(scenario=random_scenario(COSTREAM, seed, RunSettings()), cost_model=RateModel())
        found, start = LocalSearch().solve(replace(problem, budget=20)), Governor().solve(problem)
        assert not start.feasible or (found.feasible and found.objective <= start.objective)


@pytest.mark.slow
def test_local_search_beats_random_candidates_at_equal_evaluations_and_often_finds_the_optimum():
    """Local search beats random candidates at a small budget by the rate model, whose costs have structure."""
    better, worse, optimal, problems = 0, 0, 0, 0
    for seed in range(160):
        job = random_scenario(COSTREAM, seed, RunSettings()).deployment
        if not 100 <= PlacementSpace(job.query, job.cluster).count <= 1000:
            continue
        problem = Problem(scenario=job, cost_model=RateModel(), budget=60, seed=seed, space=RULED)
        best, searched, drawn = (each.solve(problem) for each in (Exhaustive(), LocalSearch(), Costream()))
        if best.feasible:
            problems += 1
            rank = [(not each.feasible, each.objective) for each in (searched, drawn)]
            better, worse = better + (rank[0] < rank[1]), worse + (rank[0] > rank[1])
            optimal += searched.objective <= best.objective * (1 + 1e-9)
    assert problems >= 20
    assert better > 3 * worse
    assert optimal >= 0.7 * problems


def test_local_search_asks_for_many_plans_at_once(make_deployment):
    class Batches(RateModel):
        sizes: ClassVar[list[int]] = []

        def predict(self, scenario, plans):
            Batches.sizes.append(len(plans))
            return RateModel().predict(scenario, plans)

    scenario = random_scenario(COSTREAM, 4, RunSettings())
    LocalSearch().solve(Problem(scenario=scenario, cost_model=Batches(), budget=1500))
    assert sum(Batches.sizes) == 1500
    assert len(Batches.sizes) < 40


def test_random_and_governor_do_not_look_at_the_costs(make_deployment, table_model):
    job = make_deployment()
    for optimizer in (RandomPlan(), Governor()):
        plans = [optimizer.solve(Problem(scenario=job, cost_model=m)).plan for m in (table_model(), RateModel())]
        assert plans[0] == plans[1]


def test_governor_puts_sources_at_the_edge_and_sinks_on_the_strongest_host():
    for seed in range(200):
        scenario = random_scenario(COSTREAM, seed, RunSettings())
        placement = governor_placement(scenario.deployment)
        hosts = {host.name: host for host in scenario.cluster.hosts}
        assert is_valid(scenario.query, bin_ranges(scenario.cluster), placement)
        strongest = placement["sink"]
        for source in scenario.query.sources:
            assert placement[source.name] != strongest
            assert capability(hosts[placement[source.name]]) <= max(map(capability, hosts.values()))


def test_subtask_counts_of_the_deployment_are_kept(make_deployment, table_model):
    job = make_deployment()
    wide = ExecutionPlan(placement={**job.plan.placement, "f": {"h0": 3}})
    for optimizer in (each for name, each in OPTIMIZERS.items() if name not in SCALING):
        problem = Problem(scenario=job.with_plan(wide), cost_model=table_model(), budget=20)
        plan = optimizer.solve(problem).plan
        assert {name: plan.parallelism(name) for name in plan.placement} == {"a": 1, "b": 1, "f": 3, "j": 1, "s": 1}


@pytest.mark.parametrize("doom", ["backpressured", "success"])
def test_if_nothing_is_feasible_the_least_likely_to_fail_is_kept_and_said_so(make_deployment, doom):
    class Doomed:
        name = "doomed"

        def predict(self, scenario, plans):
            n = len(plans)
            risk = np.array([0.6 if plan.placement["s"] == ("h2",) else 0.9 for plan in plans])
            chances = (
                {"backpressured": risk} if doom == "backpressured" else {"backpressured": 0 * risk, "success": 1 - risk}
            )
            return Estimates(dict.fromkeys(METRICS, np.ones(n)) | chances, np.zeros(n))

    problem = Problem(scenario=make_deployment(), cost_model=Doomed(), budget=EVERYTHING, space=RULED)
    for optimizer, status in ((Exhaustive(), Status.INFEASIBLE), (Costream(), Status.INFEASIBLE)):
        solution = optimizer.solve(problem)
        assert (solution.status, solution.feasible, solution.bound) == (status, False, None)
        assert solution.plan.placement["s"] == ("h2",)
        assert "no plan looked at is predicted to keep up" in solution.message
    few = Problem(scenario=make_deployment(), cost_model=Doomed(), budget=3)
    assert Costream().solve(few).status is Status.FEASIBLE


def test_among_plans_about_as_hopeless_the_objective_decides(make_deployment, table_model):
    problem = Problem(scenario=make_deployment(), cost_model=table_model())
    plans = [ExecutionPlan(placement={"a": host}) for host in ("slow", "fast", "likelier")]
    costs, risks = np.array([2.0, 1.0, 5.0]), np.array([0.999, 0.9999, 0.7])
    for count, best in ((2, "fast"), (3, "likelier")):
        found = Estimated(plans[:count], costs[:count], risks[:count], np.ones(count))
        solution = choose(problem, found, evaluations=1, started_s=0.0, complete=False)
        assert solution.plan == ExecutionPlan(placement={"a": best})


def test_the_choice_does_not_depend_on_the_order_of_the_candidates(make_deployment, table_model):
    problem = Problem(scenario=make_deployment(), cost_model=table_model(), alternatives=3)
    tied = [
        Candidate(ExecutionPlan(placement={"a": host}), objective, risk, 0.9)
        for host in ("x", "y")
        for objective in (1.0, 2.0)
        for risk in (0.1, 0.7, 0.8)
    ]
    rng = np.random.default_rng(0)
    for _ in range(20):
        order = [tied[index] for index in rng.permutation(len(tied))]
        columns = ([getattr(each, name) for each in order] for name in ("objective", "backpressured", "success"))
        found = Estimated([each.plan for each in order], *map(np.array, columns))
        solution = choose(problem, found, evaluations=1, started_s=0.0, complete=False)
        assert solution.plan == tied[0].plan
        assert solution.alternatives == (tied[6], tied[3], tied[9])  # the feasible ones, ties by their text


def test_bad_arguments_are_exceptions_with_a_remedy(make_deployment, table_model):
    job, model = make_deployment(), table_model()
    with pytest.raises(BadInput, match="did you mean 'throughput_per_s'"):
        Problem(scenario=job, cost_model=model, objective="throughput")
    with pytest.raises(BadInput, match="budget must be >= 1 plan, got 0"):
        Problem(scenario=job, cost_model=model, budget=0)
    with pytest.raises(BadInput, match="seed must be >= 0, got -1"):
        Problem(scenario=job, cost_model=model, seed=-1)
    with pytest.raises(BadInput, match="did you mean 'costream'"):
        optimizer_by_name("costraem")
    with pytest.raises(BadInput, match="at most 10 are tried"):
        Exhaustive(max_plans=10).solve(Problem(scenario=job, cost_model=model))


def test_a_cost_model_that_says_nan_is_an_error(make_deployment):
    class Broken(RateModel):
        def predict(self, scenario, plans):
            n = len(plans)
            return Estimates(dict.fromkeys(METRICS, np.full(n, np.nan)), np.zeros(n))

    with pytest.raises(ValueError, match="predicts NaN"):
        Governor().solve(Problem(scenario=make_deployment(), cost_model=Broken()))


def test_alternatives_are_as_many_as_asked_for_and_ascend(make_deployment, table_model):
    for count in (0, 1, 12):
        problem = Problem(scenario=make_deployment(), cost_model=table_model(0.0), budget=60, alternatives=count)
        solution = OPTIMIZERS["costream"].solve(problem)
        values = [solution.objective, *(each.objective for each in solution.alternatives)]
        assert len(values) == 1 + count
        assert values == sorted(values)
