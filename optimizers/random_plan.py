"""One valid placement, drawn uniformly: what any optimizer must beat."""

from __future__ import annotations

import time
from dataclasses import dataclass

from optimizers.enumeration import PlacementSpace
from optimizers.interface import Problem, Solution, plan_on
from optimizers.selection import choose, estimate
from twin.randomness import stream


@dataclass(frozen=True, slots=True)
class RandomPlan:
    """Asks the cost model for one estimate, to report it; the draw does not depend on it."""

    name: str = "random"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput if a query that is no tree yields no valid placement."""
        started_s = time.perf_counter()
        space = PlacementSpace(problem.deployment.query, problem.deployment.cluster)
        hosts = space.draw(stream(problem.seed, "random-plan"))
        candidates = estimate(problem, [plan_on(problem.deployment, hosts)])
        return choose(
            problem, candidates, evaluations=1, started_s=started_s, complete=space.exact and space.count == 1
        )
