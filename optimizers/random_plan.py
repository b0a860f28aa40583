"""One plan of the space, drawn at random: what any optimizer must beat."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from optimizers.counted import as_plans
from optimizers.interface import Problem, Solution, Traits
from optimizers.selection import choose, estimate
from optimizers.space_plans import SpacePlans
from twin.randomness import stream


@dataclass(frozen=True, slots=True)
class RandomPlan:
    """Asks the cost model for one estimate, to report it; the draw does not depend on it."""

    traits: ClassVar = Traits(baseline=True)
    name: str = "random"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput if no plan of the space is found, or its numbers of replicas are free."""
        started_s = time.perf_counter()
        problem = problem.settled(free_replicas=False)
        space = SpacePlans(problem.deployment, problem.space)
        drawn = space.sample(stream(problem.seed, "random-plan"), 1)
        found = estimate(problem, as_plans(problem.deployment, drawn))
        return choose(problem, found, evaluations=1, started_s=started_s, complete=space.exact and space.count == 1)
