"""Every plan of the space, estimated: the optimum under a cost model, for small problems."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from optimizers.enumeration import MAX_LISTED
from optimizers.estimating import estimated
from optimizers.interface import Problem, Solution, Traits
from optimizers.selection import choose
from optimizers.space_plans import SpacePlans
from twin.errors import BadInput


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """Ignores the budget, and proves nothing where it is stopped. max_plans: refuses problems with more plans (at most
    MAX_LISTED)."""

    traits: ClassVar = Traits(drivable=True)
    max_plans: int = MAX_LISTED
    name: str = "exhaustive"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput above `max_plans` plans, for a space without any, or one with any number of replicas."""
        started_s, deadline = time.perf_counter(), problem.deadline()
        problem = problem.settled(free_replicas=False)
        plans = SpacePlans(problem.deployment, problem.space)
        if plans.count > self.max_plans or not plans.exact:
            raise BadInput(
                f"exhaustive: {plans.count} plans, at most {self.max_plans} are tried; "
                "pin operators, allow fewer hosts, or use local-search or milp"
            )
        everything = plans.all()
        found = estimated(problem, everything, deadline)
        complete = len(found.plans) == len(everything)
        return choose(problem, found, evaluations=len(found.plans), started_s=started_s, complete=complete)
