"""Chosen twice: an optimizer's best plans by a cheap cost model are estimated again by a truer one, the simulator.

The harder one searches under one imperfect model, the more one finds its errors: the plan that it likes best is likely
one that it underestimates. Among the best few, the truer model finds out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from optimizers.estimating import joined
from optimizers.interface import Optimizer, Problem, Solution, by_objective
from optimizers.keeping import STOPPED
from optimizers.patience import Patience
from optimizers.selection import Estimated, choose, estimate, said
from twin.errors import BadInput
from twin.metrics import CostModel
from twin.plan import ExecutionPlan

UNPROVED = "not simulated"


@dataclass(frozen=True, slots=True)
class Proving:
    """The optimizer's solution and its next best, `count` >= 1 plans in all, judged by `truth`; and the given plan, if
    the optimizer looked at it.

    `evaluations` counts those of both models. Nothing is proved about plans outside: `bound` is None.
    """

    optimizer: Optimizer
    truth: CostModel
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise BadInput(f"number of plans to prove must be >= 1, got {self.count}")

    @property
    def name(self) -> str:
        """The optimizer's, and how many are proved."""
        return f"{self.optimizer.name}+prove-{self.count}"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput if the optimizer cannot take the problem."""
        started_s = time.perf_counter()
        patience = Patience.of(None, problem.stopped)
        first = self.optimizer.solve(replace(problem, alternatives=max(problem.alternatives, self.count - 1)))
        plans = [first.plan, *(each.plan for each in first.alternatives)][: self.count]
        given = None if first.given is None or not by_objective(self.optimizer) else first.given.plan
        if given is not None and given not in plans and problem.space.includes(problem.deployment, given):
            plans.append(given)
        if patience.over:
            return replace(first, message=said(first.message, UNPROVED))
        found = self._simulated(replace(problem, cost_model=self.truth), plans, patience)
        evaluations = first.evaluations + len(found.plans)
        chosen = choose(problem, found, evaluations=evaluations, started_s=started_s, complete=False)
        if len(found.plans) < len(plans):
            chosen = replace(chosen, message=said(STOPPED, chosen.message))
        proved = given is not None and given in found.plans
        return replace(chosen, given=found.candidate(plans.index(given)) if given and proved else first.given)

    def _simulated(self, problem: Problem, plans: list[ExecutionPlan], patience: Patience) -> Estimated:
        """One after the other, until somebody stops."""
        parts: list[Estimated] = []
        for plan in plans:
            if parts and patience.over:
                break
            parts.append(estimate(problem, [plan]))
            problem.tell("plans simulated", len(parts), len(plans))
        return joined(parts, plans[: len(parts)])
