"""The best of all plans of the space, of one at random, or of a sample that keeps Costream's rules.

Costream's placement procedure (Section V) takes as many random candidates as the budget allows; if there are no more
than that, its answer is proved. One plan at random is what any optimizer must beat. All plans are the optimum under a
cost model, for small problems.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from optimizers.candidates import Candidates, by_risk
from optimizers.enumeration import MAX_LISTED
from optimizers.interface import Problem, Solution, Traits
from optimizers.selection import choose
from optimizers.space_plans import SpacePlans
from twin.errors import BadInput
from twin.randomness import random_stream


@dataclass(frozen=True, slots=True)
class Costream:
    """As many candidates as the budget allows; all valid plans, and so a proof, if there are no more than that."""

    traits: ClassVar = Traits(costream_rules=True, drivable=True)
    name: str = "costream"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput if no plan that obeys the rules is found in the space, or if it says that replicas part."""
        problem = problem.settled(free_replicas=False, costream_rules=True)
        plans = SpacePlans(problem.deployment, problem.space)
        return _best(problem, plans, plans.sample(random_stream(problem.seed, "candidates"), problem.budget))


@dataclass(frozen=True, slots=True)
class RandomPlan:
    """Asks the cost model for one estimate, to report it; the draw does not depend on it."""

    traits: ClassVar = Traits(baseline=True)
    name: str = "random"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput if no plan of the space is found, or its numbers of replicas are free."""
        problem = problem.settled(free_replicas=False)
        plans = SpacePlans(problem.deployment, problem.space)
        return _best(problem, plans, plans.sample(random_stream(problem.seed, "random-plan"), 1))


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """Ignores the budget, and proves nothing where it is stopped. max_plans: refuses problems with more plans (at most
    MAX_LISTED)."""

    traits: ClassVar = Traits(drivable=True, every_plan=True)
    max_plans: int = MAX_LISTED
    name: str = "exhaustive"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput above `max_plans` plans, for a space without any, or one with any number of replicas."""
        problem = problem.settled(free_replicas=False)
        plans = SpacePlans(problem.deployment, problem.space)
        if plans.count > self.max_plans or not plans.exact:
            raise BadInput(
                f"exhaustive: {plans.count} plans, at most {self.max_plans} are tried; "
                "pin operators, allow fewer hosts, or use local-search or milp"
            )
        return _best(problem, plans, plans.all())


def _best(problem: Problem, plans: SpacePlans, counts_nol: np.ndarray) -> Solution:
    """The best of these, as far as the time goes; proved, where these are all plans of the space."""
    started_s, total = time.perf_counter(), plans.count if plans.exact else None
    known = Candidates(replace(problem, budget=max(1, len(counts_nol))), by_risk, total=total)
    known.look_at(counts_nol)
    return choose(problem, known.found(), evaluations=len(known), started_s=started_s, complete=known.complete)
