"""Flat Vector as a cost model of plans: what its trees say of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.contestants import FittedTrees
from models.coverage import found_in, refuse_unseen
from models.facts import operator_facts
from models.flat_vector import flat_vector
from twin.blindness import unseen_of
from twin.errors import BadInput
from twin.metrics import METRICS, Estimates
from twin.plan import ExecutionPlan
from twin.scenario import Scenario


@dataclass(frozen=True)
class FlatCosts:
    """Satisfies twin.metrics.CostModel. Raises BadInput for trees over other vectors, or over ratios to other
    answers."""

    fitted: FittedTrees

    def __post_init__(self) -> None:
        if self.fitted.inputs != "flat" or any(each.scale == "ratio" for each in self.fitted.by_metric.values()):
            raise BadInput(f"{self.fitted.name} does not rest on the flat vector alone; give Flat Vector")

    @property
    def name(self) -> str:
        """The trees'."""
        return self.fitted.name

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """NaN of metrics that were not fitted; the spread is 0. Raises BadInput for a kind of operator never seen."""
        refuse_unseen(self.name, self.fitted.seen, found_in(operator_facts(scenario)))
        placed = [scenario.with_plan(plan) for plan in plans]
        vectors = np.array([flat_vector(each, operator_facts(each)) for each in placed])
        none = np.full(len(plans), np.nan)
        found = {name: trees.predict(vectors, none) for name, trees in self.fitted.by_metric.items()}
        return Estimates({name: found.get(name, none) for name in METRICS}, spread=np.zeros(len(plans)))

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """All that is beyond a plain job."""
        return unseen_of(scenario, ())
