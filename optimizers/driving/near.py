"""Physics chooses plans near the best, a black box chooses among them: the safe way to use a learned model.

The harder one searches under a learned model, the more one finds its errors. Within one per cent of the analytic
optimum, of what placement can change, are plans that the rate model calls ties; what a learned model knows beyond it,
it says of these, and it can never lose more than that one per cent of what the physics says. Nothing is proved.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from optimizers.counted import as_plans
from optimizers.driving.physics import weigh
from optimizers.interface import Goaled, Optimizer, Problem, Solution
from optimizers.selection import choose, estimate, said

SHARE = 0.01
FEWER = "of {count:,} plans within {share:.0%} of the best by rates, {model} chose"


@dataclass(frozen=True, slots=True)
class Near:
    """Satisfies `interface.Optimizer`: another one under the rate model, then the problem's cost model on what is near.

    share: how near, of what placement can change, >= 0. The budget is of plans that the cost model is asked about.
    """

    optimizer: Optimizer
    share: float = SHARE

    @property
    def name(self) -> str:
        """The optimizer's, and how it is driven."""
        return f"{self.optimizer.name}+near"

    @property
    def goal(self) -> str:
        """The optimizer's."""
        return self.optimizer.goal if isinstance(self.optimizer, Goaled) else "objective"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput if the optimizer cannot take the problem."""
        started_s = time.perf_counter()
        weighed = weigh(problem, self.optimizer)
        rows = weighed.near(self.share)[: problem.budget]
        settled = replace(weighed.problem, cost_model=problem.cost_model, alternatives=problem.alternatives)
        found = estimate(settled, as_plans(problem.deployment, weighed.counts_nol[rows]))
        chosen = choose(settled, found, evaluations=len(rows), started_s=started_s, complete=False)
        words = FEWER.format(count=len(rows), share=self.share, model=problem.cost_model.name)
        return replace(chosen, weighed=len(weighed.counts_nol), message=said(chosen.message, words))
