"""A black box that is wrong in known ways drives a search: what it may decide, and the limits that physics sets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from optimizers.branching import BranchAndBound
from optimizers.interface import Problem, Status
from optimizers.local_search import Exhaustive, LocalSearch
from optimizers.milp.ages import fixed_s
from optimizers.milp.optimizer import Milp
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from optimizers.selection import estimate
from optimizers.space import Space, SpacePlans, as_plans
from scenarios.spaces.generator import COSTREAM, random_scenario
from tests.optimizers.judged_jobs import edge
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.workload import BurstState, Bursty, Workload

RULED = Space(costream_rules=True)
JOBS = (7, 11, 12, 19)


@dataclass(frozen=True)
class Biased:
    """Rate model of other hosts: wrong about each of them, the same way in every plan."""

    outside: tuple[str, ...] = ()
    name: str = "biased"

    def predict(self, scenario, plans):
        rng = np.random.default_rng(scenario.run.seed)
        hosts = tuple(
            host.model_copy(update={"latency_ms": host.latency_ms * factor, "cpu_percent": host.cpu_percent / factor})
            for host, factor in zip(scenario.cluster.hosts, np.exp(rng.uniform(-0.2, 0.2, 9)), strict=False)
        )
        cluster = scenario.cluster.model_copy(update={"hosts": hosts})
        return RateModel().predict(scenario.model_copy(update={"cluster": cluster}), plans)

    def blind_to(self, scenario):
        del scenario
        return ()

    def beyond(self, scenario):
        del scenario
        return list(self.outside)


def asked(seed, **more):
    job = random_scenario(COSTREAM, seed, RunSettings())
    return Problem(scenario=job, cost_model=Biased(), space=RULED, **more)


@dataclass(frozen=True)
class Blinder(Biased):
    """Biased rate model that does not see which peaks a run has either."""

    def blind_to(self, scenario):
        return RateModel().blind_to(scenario)


def test_of_few_peaks_which_rates_do_not_see_ties_by_rates_say_nothing():
    states = (BurstState(rate_per_s=100, mean_s=30), BurstState(rate_per_s=900, mean_s=10))
    job = random_scenario(COSTREAM, 11, RunSettings())
    arrivals = {name: Bursty(states=states) for name in job.workload.arrivals}
    job = Scenario(**{**dict(job), "workload": Workload(arrivals=arrivals)})
    found = {}
    for model in (Biased(), Blinder()):
        problem = Problem(scenario=job, cost_model=model, space=RULED, budget=2000)
        found[type(model)] = Planner(Milp(), keeps=False, near=True).solve(problem)
    every = estimate(problem, as_plans(job, SpacePlans(job, RULED).all()))
    assert found[Biased].objective == pytest.approx(float(every.objective[every.feasible].min()))
    assert found[Biased].evaluations > 5 * found[Blinder].evaluations


@pytest.mark.parametrize("seed", JOBS)
@pytest.mark.parametrize("inner", [Milp(), LocalSearch(), BranchAndBound()])
def test_near_never_leaves_what_the_physics_calls_near(seed, inner):
    problem = asked(seed)
    found = Planner(inner, keeps=False, near=True).solve(problem)
    by_rates = replace(problem, cost_model=RateModel())
    every = estimate(by_rates, as_plans(problem.scenario, SpacePlans(problem.scenario, RULED).all()))
    best = float(every.objective[every.feasible].min())
    unchanged = fixed_s(PlacementCoefficients.of(problem.deployment))
    chosen = float(estimate(by_rates, [found.plan]).objective[0])
    assert chosen <= best + 0.01 * (best - unchanged) + 1e-12
    assert found.bound is None
    assert found.status is Status.FEASIBLE
    near = every.feasible & (every.objective <= best + 0.01 * (best - unchanged))
    assert found.evaluations == near.sum()
    mine = estimate(problem, as_plans(problem.scenario, SpacePlans(problem.scenario, RULED).all()))
    assert found.objective == pytest.approx(mine.objective[near & mine.feasible].min())


def test_rules_of_the_optimizer_hold_whoever_drives():
    problem = replace(asked(12), space=Space())
    for inner in (OPTIMIZERS["milp-costream"], OPTIMIZERS["costream"], Planner(OPTIMIZERS["milp-costream"])):
        found = Planner(inner, keeps=False, near=True).solve(replace(problem, budget=30))
        assert RULED.includes(problem.deployment, found.plan)


def test_branch_and_bound_under_a_black_box_keeps_to_the_physics_and_claims_nothing():
    problem = asked(12)
    found = BranchAndBound().solve(problem)
    by_rates = estimate(replace(problem, cost_model=RateModel()), [found.plan])
    best = Exhaustive().solve(replace(problem, cost_model=RateModel()))
    unchanged = fixed_s(PlacementCoefficients.of(problem.deployment))
    assert by_rates.objective[0] <= best.objective + 0.011 * (best.objective - unchanged)
    assert found.bound is None


def test_where_the_model_calls_nothing_near_feasible_it_may_look_further():
    @dataclass(frozen=True)
    class Picky(Biased):
        def predict(self, scenario, plans):
            found = RateModel().predict(scenario, plans)
            order = np.argsort(found["processing_latency_s"])
            busy = np.zeros(len(plans))
            busy[order[:3]] = 1.0
            return type(found)({**found.by_metric, "backpressured": busy}, found.spread)

    problem = replace(asked(12), cost_model=Picky())
    assert Planner(Milp(), keeps=False, near=True).solve(problem).feasible


def test_subtasks_that_may_part_are_driven_too():
    problem = Problem(scenario=edge(pinned=True), cost_model=Biased())
    found = Planner(Milp(), keeps=False, near=True).solve(replace(problem, budget=60))
    assert found.evaluations <= 60
    assert problem.space.includes(problem.deployment, found.plan)
    assert found.plan.placement["sensors"] == problem.scenario.plan.placement["sensors"]
