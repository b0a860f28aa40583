"""Hill climbing: the best of all valid one-operator moves, again and again, from several starts.

The first start is the heuristic placement, the others are drawn uniformly from the valid ones. All moves of a step are
estimated in one batch, and no plan is estimated twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from optimizers.enumeration import PlacementSpace
from optimizers.governor import governor_placement
from optimizers.interface import Candidate, Problem, Solution, plan_on
from optimizers.rules import bin_ranges, one_operator_moves
from optimizers.selection import choose, estimate, key
from twin.randomness import stream

MAX_STARTS = 50

Hosts = dict[str, str]


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Stops when the budget is spent, when all valid plans are known, or after `starts` starts."""

    starts: int = MAX_STARTS
    name: str = "local-search"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput if a query that is no tree yields no valid placement."""
        started_s = time.perf_counter()
        space = PlacementSpace(problem.deployment.query, problem.deployment.cluster)
        rng = stream(problem.seed, "local-search")
        known = _Known(problem)
        start: Hosts = governor_placement(problem.deployment)
        for _ in range(self.starts):
            _climb(problem, known, start)
            if known.left == 0 or (space.exact and len(known.found) == space.count):
                break
            start = space.draw(rng)
        complete = space.exact and len(known.found) == space.count
        return choose(
            problem, known.found.values(), evaluations=len(known.found), started_s=started_s, complete=complete
        )


class _Known:
    """Every plan is estimated once, in batches, until the budget is spent."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.found: dict[tuple[str, ...], Candidate] = {}

    @property
    def left(self) -> int:
        """Estimates that may still be asked for."""
        return self._problem.budget - len(self.found)

    def look_at(self, placements: Iterable[Hosts]) -> list[tuple[Candidate, Hosts]]:
        """The placements with their estimates; those beyond the budget are left out."""
        each = {tuple(hosts.values()): hosts for hosts in placements}
        new = [index for index in each if index not in self.found][: self.left]
        if new:
            plans = [plan_on(self._problem.deployment, each[index]) for index in new]
            self.found.update(zip(new, estimate(self._problem, plans), strict=True))
        return [(self.found[index], hosts) for index, hosts in each.items() if index in self.found]


def _climb(problem: Problem, known: _Known, start: Hosts) -> None:
    """From `start` to a plan that no move improves. What is seen on the way is remembered in `known`."""
    query, bins = problem.deployment.query, bin_ranges(problem.deployment.cluster)
    here = known.look_at([start])
    while here and known.left > 0:
        current, hosts = here[0]
        around = known.look_at(one_operator_moves(query, bins, hosts))
        best = min(around, key=lambda pair: key(problem, pair[0]), default=None)
        if best is None or key(problem, best[0]) >= key(problem, current):
            return
        here = [best]
