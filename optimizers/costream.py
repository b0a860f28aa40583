"""Costream's placement procedure (Section V): random candidates that obey the rules, estimated, the best chosen."""

from __future__ import annotations

import time
from dataclasses import dataclass

from optimizers.enumeration import PlacementSpace
from optimizers.interface import Problem, Solution
from optimizers.selection import choose, estimate
from twin.randomness import stream
from twin.rates.placements import Placements


@dataclass(frozen=True, slots=True)
class Costream:
    """As many candidates as the budget allows; all valid plans, and so a proof, if there are no more than that."""

    name: str = "costream"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput if a query that is no tree yields no valid placement."""
        started_s = time.perf_counter()
        space = PlacementSpace(problem.deployment.query, problem.deployment.cluster)
        hosts = space.sample(stream(problem.seed, "candidates"), problem.budget)
        candidates = estimate(problem, Placements(problem.deployment, hosts))
        complete = space.exact and len(hosts) == space.count
        return choose(problem, candidates, evaluations=len(hosts), started_s=started_s, complete=complete)
