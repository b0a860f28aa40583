"""Plans chosen by a cheap model and proved by a truer one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from optimizers.interface import Problem, traits_of
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from twin.errors import BadInput
from twin.metrics import CostModel, Estimates
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario

SEARCHING = {"costream", "exhaustive", "local-search", "milp", "milp-costream", "milp-hosts"} | {
    *("milp-rate", "rlas", "rlas-placement"),
    *("fusion", "fusion-baseline", "fusion-exact", "fusion-pa"),
}
"""Optimizers that know next best plans."""
PRUNING = {"branch-and-bound"}
"""Optimizer with few alternatives: it drops what is not near."""


@dataclass
class Counting:
    """Another model that counts the plans it was asked about."""

    model: CostModel
    asked: list[ExecutionPlan] = field(default_factory=list)
    name: str = "counting"

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        self.asked += list(plans)
        return self.model.predict(scenario, plans)

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        return self.model.blind_to(scenario)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
@pytest.mark.parametrize("count", [1, 7])
def test_never_worse_than_the_unproved_choice_by_the_proving_model(name, count, make_deployment, table_model):
    cheap, truth = Counting(RateModel()), Counting(table_model())
    problem = Problem(scenario=make_deployment(), cost_model=cheap, budget=60)
    unproved = OPTIMIZERS[name].solve(problem)
    cheap.asked.clear()
    proved = Planner(OPTIMIZERS[name], keeps=False, truth=truth, count=count).solve(problem)
    first = truth.model.predict(problem.scenario, truth.asked[:count])
    refuted = not ((first["backpressured"] < 0.5) & (first["success"] >= 0.5)).any()
    if name != "milp-hosts" and not refuted:  # head room is asked for beside the rest, of each plan
        assert proved.evaluations == len(cheap.asked) + len(truth.asked)
    assert truth.asked[0] == unproved.plan
    assert proved.plan in truth.asked
    looked_at = list(dict.fromkeys(plan.model_dump_json() for plan in truth.asked))
    assert proved.simulated == len(looked_at)
    if name in PRUNING:
        assert 1 <= len(looked_at) <= count * (1 + refuted)
    else:
        some = count if name in SEARCHING else 1
        assert some <= len(looked_at) <= some * (1 + refuted)
    says = truth.model.predict(problem.scenario, truth.asked)
    feasible = (says["backpressured"] < 0.5) & (says["success"] >= 0.5)
    if name != "milp-hosts":
        assert proved.feasible == feasible.any()
    if feasible.any() and traits_of(OPTIMIZERS[name]).by_objective:  # others keep their own order
        assert proved.objective == says["processing_latency_s"][feasible].min()


def test_alternatives_are_as_many_as_asked_for_and_ascend(make_deployment, table_model):
    for count in (0, 1, 12):
        problem = Problem(scenario=make_deployment(), cost_model=table_model(0.0), budget=60, alternatives=count)
        solution = OPTIMIZERS["costream"].solve(problem)
        values = [solution.objective, *(each.objective for each in solution.alternatives)]
        assert len(values) == 1 + count
        assert values == sorted(values)


def test_fewer_than_one_plan_is_refused(table_model):
    with pytest.raises(BadInput, match="must be >= 1, got 0"):
        Planner(OPTIMIZERS["costream"], keeps=False, truth=table_model(), count=0)


LATENCY = "processing_latency_s"


@dataclass(frozen=True)
class Guessing:
    """Model that knows the truth up to a factor of its own for each plan, at most e, and says so.

    off: of the exponent. blind, other: what it ignores, and extrapolates from. known: whether it knows how far off.
    """

    truth: CostModel
    off: float = 1.0
    blind: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    known: bool = True
    name: str = "guessing"

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        said = self.truth.predict(scenario, plans)
        factor = np.exp(self.off * (2.0 * said["throughput_per_s"] - 1.0))  # of a table: random, in [0, 1]
        return Estimates({**said.by_metric, LATENCY: said[LATENCY] * factor}, said.spread)

    def interval(self, scenario: Scenario, plans: Sequence[ExecutionPlan], metric: str) -> np.ndarray | None:
        said = self.predict(scenario, plans)[metric]
        return said * np.exp([[-self.off], [self.off]]) if self.known else None

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        return self.blind

    def beyond(self, scenario: Scenario) -> list[str]:
        return list(self.other)


def simulated_of(problem: Problem, truth: CostModel, count: int, keeps: bool = False):
    """Solution, and the plans that the truth was asked about, in order."""
    counting = Counting(truth)
    return Planner(OPTIMIZERS["exhaustive"], keeps=keeps, truth=counting, count=count).solve(problem), counting.asked


def best_first(problem: Problem, count: int) -> list[ExecutionPlan]:
    found = OPTIMIZERS["exhaustive"].solve(replace(problem, alternatives=count - 1))
    return [found.plan, *(each.plan for each in found.alternatives)]


@pytest.mark.parametrize("off", [0.0, 0.1, 0.3])
def test_no_plan_within_its_interval_is_missed_though_runs_are_saved(off, make_deployment, table_model):
    truth, most = table_model(0.0), 40
    problem = Problem(scenario=make_deployment(hosts=3), cost_model=Guessing(truth, off))
    found, asked = simulated_of(problem, truth, most)
    pool = best_first(problem, most)
    assert found.objective == truth.predict(problem.scenario, pool)[LATENCY].min()
    assert len(asked) < most
    if off == 0.0:
        assert asked == [pool[0]]


@pytest.mark.parametrize("count", [1, 4, 20])
def test_beside_the_best_predicted_those_that_may_be_best_are_simulated(count, make_deployment, table_model):
    truth = table_model(0.0)
    model = Uneven(truth)
    problem = Problem(scenario=make_deployment(hosts=3), cost_model=model)
    _, asked = simulated_of(problem, truth, count)
    first, *others = best_first(problem, count)
    low = model.interval(problem.scenario, others, LATENCY)[0]
    expected = [first, *(others[row] for row in np.argsort(low)[: count - 1])]
    assert asked == expected[: len(asked)]
    left = low[np.argsort(low)][len(asked) - 1 : count - 1]
    assert (left >= truth.predict(problem.scenario, asked)[LATENCY].min()).all()


class Uneven(Guessing):
    """Model that is surer of some plans than of others."""

    def interval(self, scenario: Scenario, plans: Sequence[ExecutionPlan], metric: str) -> np.ndarray | None:
        said = self.predict(scenario, plans)
        width = said["e2e_latency_s"]  # of a table: random, in [0, 1]
        return said[metric] * np.exp([-width, width])


@pytest.mark.parametrize("unknown", [{"blind": ("bursts",)}, {"other": ("rates",)}, {"known": False}])
def test_where_it_does_not_know_how_far_off_it_is_the_best_predicted_are_simulated(
    unknown, make_deployment, table_model
):
    truth = table_model(0.0)
    problem = Problem(scenario=make_deployment(hosts=3), cost_model=Guessing(truth, **unknown))
    _, asked = simulated_of(problem, truth, 5)
    assert asked == best_first(problem, 5)


def test_the_given_plan_is_simulated_whatever_is_hoped_of_it(make_deployment, table_model):
    truth = table_model(0.0)
    problem = Problem(scenario=make_deployment(hosts=3), cost_model=Guessing(truth, 0.0))
    found, asked = simulated_of(problem, truth, 5, keeps=True)
    best = best_first(problem, 1)[0]
    assert asked[:2] == [best, problem.deployment.plan]
    assert all(each.plan in asked for each in found.starts.values())
    assert all(plan in [each.plan for each in found.starts.values()] for plan in asked[2:])
    assert found.given.plan == problem.deployment.plan
    assert found.plan == best
