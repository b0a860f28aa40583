"""Hill climbing from several starts: the usual optimizer, under any cost model.

A first part of the budget goes into the given plan, the heuristic placement and a sample of the space; climbs begin at
the best of these, then at draws. As many climbs go on side by side as the budget seems to allow.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np

from optimizers.candidates import Candidates, by_risk
from optimizers.climbing import changes_of, climb
from optimizers.governor import governor_plan
from optimizers.interface import Problem, Solution, Traits
from optimizers.selection import choose
from optimizers.space import counts_of
from optimizers.space_plans import SpacePlans
from twin.randomness import random_stream

MAX_STARTS = 1000
SAMPLED = 0.2
"""Share of the budget spent on the sample."""
STEPS = 6
"""Guess of the moves of a climb, which gives the number of climbs that the budget allows."""
EMPTY_DRAWS = 20
"""Number of batches of draws without a plan of the space after which there are no more starts."""


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Planner by hill climbing. Stops when the budget or the time is spent, when all plans are known, or after `starts`
    starts."""

    traits: ClassVar = Traits(drivable=True)
    starts: int = MAX_STARTS
    name: str = "local-search"

    def solve(self, problem: Problem) -> Solution:
        """Best plan found. Raises BadInput if no plan of the space is found, or its numbers of replicas are free."""
        started_s = time.perf_counter()
        problem = problem.settled(free_replicas=False)
        job = problem.deployment
        space, rng = SpacePlans(job, problem.space), random_stream(problem.seed, "local-search")
        known = Candidates(problem, by_risk, total=space.count if space.exact else None)
        known.look_at(counts_of(job, plan) for plan in (job.plan, governor_plan(problem)))
        known.look_at(space.sample(rng, max(1, int(SAMPLED * problem.budget))))
        starts = islice(_starts([known[row] for row in known.ranking], space, rng), self.starts)
        width = max(1, problem.budget // (STEPS * known[0].size))
        climb(known, changes_of(problem, pairs=False), starts, width=width)
        return choose(problem, known.found(), evaluations=len(known), started_s=started_s, complete=known.complete)


def _starts(first: list[np.ndarray], space: SpacePlans, rng: np.random.Generator) -> Iterator[np.ndarray]:
    yield from first
    empty = 0
    while empty < EMPTY_DRAWS:
        drawn = space.draws(rng, 64)
        empty = 0 if len(drawn) else empty + 1
        yield from drawn
