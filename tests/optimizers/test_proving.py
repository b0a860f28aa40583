"""Plans chosen by a cheap model and proved by a truer one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
"""Those that know of next best plans."""
PRUNING = {"branch-and-bound"}
"""Has few alternatives: what is not near is dropped."""


@dataclass
class Counting:
    """Another model, and how many plans it was asked about."""

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
    if name in PRUNING:
        assert 1 <= len(looked_at) <= count * (1 + refuted)
    else:
        some = count if name in SEARCHING else 1
        assert some <= len(looked_at) <= some * (1 + refuted)
    says = truth.model.predict(problem.scenario, truth.asked)
    sane = (says["backpressured"] < 0.5) & (says["success"] >= 0.5)
    if name != "milp-hosts":
        assert proved.sane == sane.any()
    if sane.any() and traits_of(OPTIMIZERS[name]).by_objective:  # others keep their own order
        assert proved.objective == says["processing_latency_s"][sane].min()


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
