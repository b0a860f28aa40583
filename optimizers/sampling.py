"""Takes the best of all plans of the space, of one at random, or of a sample that keeps Costream's rules.

Costream's placement procedure (Section V) takes as many random candidates as the budget allows; if the space has no
more, its answer is proved. Any optimizer must beat one plan at random. All plans give the optimum under a cost model,
for small problems.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from optimizers.candidates import Candidates, by_risk
from optimizers.interface import Problem, Solution, Traits
from optimizers.rules import MAX_LISTED
from optimizers.selection import choose
from optimizers.space import SpacePlans
from twin.errors import BadInput
from twin.randomness import random_stream


@dataclass(frozen=True, slots=True)
class Costream:
    """Costream's placement procedure: as many candidates as the budget allows; all valid plans, and so a proof, if
    there are no more than that."""

    traits: ClassVar = Traits(costream_rules=True, drivable=True)
    name: str = "costream"

    def solve(self, problem: Problem) -> Solution:
        """Best candidate. Raises BadInput if the space has no plan that obeys the rules, or says that subtasks part."""
        problem = problem.settled(free_subtasks=False, costream_rules=True)
        plans = SpacePlans(problem.deployment, problem.space)
        return _best(problem, plans, plans.sample(random_stream(problem.seed, "candidates"), problem.budget))


@dataclass(frozen=True, slots=True)
class RandomPlan:
    """Planner that draws one plan. The cost model makes one estimate, to report; the draw does not depend on it."""

    traits: ClassVar = Traits(baseline=True)
    name: str = "random"

    def solve(self, problem: Problem) -> Solution:
        """One random plan. Raises BadInput if no plan of the space is found, or its numbers of subtasks are free."""
        problem = problem.settled(free_subtasks=False)
        plans = SpacePlans(problem.deployment, problem.space)
        return _best(problem, plans, plans.sample(random_stream(problem.seed, "random-plan"), 1))


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """Planner that estimates all plans of the space, whatever the budget; if stopped, nothing is proved. max_plans:
    most plans of a problem that it takes (at most MAX_LISTED)."""

    traits: ClassVar = Traits(drivable=True, every_plan=True)
    max_plans: int = MAX_LISTED
    name: str = "exhaustive"

    def solve(self, problem: Problem) -> Solution:
        """Best plan of the space. Raises BadInput above `max_plans` plans, for no plan, or for free subtask counts."""
        problem = problem.settled(free_subtasks=False)
        plans = SpacePlans(problem.deployment, problem.space)
        if plans.count > self.max_plans or not plans.exact:
            raise BadInput(
                f"exhaustive: {plans.count} plans, at most {self.max_plans} are tried; "
                "pin operators, allow fewer hosts, or use local-search or milp"
            )
        return _best(problem, plans, plans.all())


def _best(problem: Problem, plans: SpacePlans, counts_nol: np.ndarray) -> Solution:
    """Best of these plans, as far as the time goes; proved, where these are all plans of the space."""
    started_s, total = time.perf_counter(), plans.count if plans.exact else None
    known = Candidates(replace(problem, budget=max(1, len(counts_nol))), by_risk, total=total)
    known.look_at(counts_nol)
    return choose(problem, known.found(), evaluations=len(known), started_s=started_s, complete=known.complete)
