"""Every valid placement, estimated: the optimum under a cost model, for small problems."""

from __future__ import annotations

import time
from dataclasses import dataclass

from optimizers.enumeration import MAX_LISTED, PlacementSpace
from optimizers.interface import Problem, Solution
from optimizers.selection import choose, estimate
from twin.errors import BadInput
from twin.rates.placements import Placements


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """Ignores the budget. max_plans: refuses problems with more valid placements (at most MAX_LISTED)."""

    max_plans: int = MAX_LISTED
    name: str = "exhaustive"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput above `max_plans` valid placements."""
        started_s = time.perf_counter()
        space = PlacementSpace(problem.deployment.query, problem.deployment.cluster)
        if space.count > self.max_plans or not space.exact:
            raise BadInput(
                f"exhaustive: {space.count} valid placements, at most {self.max_plans} are tried; "
                "use costream or local-search"
            )
        plans = Placements(problem.deployment, space.all())
        return choose(problem, estimate(problem, plans), evaluations=len(plans), started_s=started_s, complete=True)
