"""Costream's placement procedure (Section V): random candidates that obey the rules, estimated, the best chosen."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from optimizers.estimating import estimated
from optimizers.interface import Problem, Solution, Traits
from optimizers.selection import choose
from optimizers.space_plans import SpacePlans
from twin.randomness import stream


@dataclass(frozen=True, slots=True)
class Costream:
    """As many candidates as the budget allows; all valid plans, and so a proof, if there are no more than that."""

    traits: ClassVar = Traits(costream_rules=True, drivable=True)
    name: str = "costream"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput if no plan that obeys the rules is found in the space, or if it says that replicas part."""
        started_s, deadline = time.perf_counter(), problem.deadline()
        problem = problem.settled(free_replicas=False, costream_rules=True)
        space = SpacePlans(problem.deployment, problem.space)
        counts_nol = space.sample(stream(problem.seed, "candidates"), problem.budget)
        found = estimated(problem, counts_nol, deadline)
        complete = space.exact and len(found.plans) == space.count
        return choose(problem, found, evaluations=len(found.plans), started_s=started_s, complete=complete)
