"""Hill climbing: the best of all valid one-operator moves, again and again, from several starts.

A first part of the budget goes into the heuristic placement and a uniform sample; climbs begin at the best of these,
then at uniform draws. Several go on side by side, as many as the budget seems to allow, and all their moves are
estimated in one batch: a cost model takes little longer for thousands of plans than for one. No plan is estimated
twice, and no two climbs take the same way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from optimizers.enumeration import PlacementSpace
from optimizers.governor import governor_placement
from optimizers.interface import Problem, Solution
from optimizers.rules import bin_ranges, one_operator_moves
from optimizers.selection import Estimated, choose, estimate, goodness
from twin.randomness import stream
from twin.rates.placements import Placements

MAX_STARTS = 1000
SAMPLED = 0.2
"""Share of the budget that goes into the sample."""
STEPS = 6
"""Moves that a climb takes, for guessing how many climbs the budget allows."""


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Stops when the budget is spent, when all valid plans are known, or after `starts` starts."""

    starts: int = MAX_STARTS
    name: str = "local-search"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput if a query that is no tree yields no valid placement."""
        started_s = time.perf_counter()
        query, cluster = problem.deployment.query, problem.deployment.cluster
        space, rng = PlacementSpace(query, cluster), stream(problem.seed, "local-search")
        known = _Known(problem)
        known.look_at(_heuristic(problem))
        known.look_at(space.sample(rng, max(1, int(SAMPLED * problem.budget))))
        starts = islice(_starts(known.best_first(), space, rng), self.starts)
        width = max(1, problem.budget // (STEPS * len(query.operators) * len(cluster.hosts)))
        here: list[np.ndarray] = []
        while known.left > 0 and not (space.exact and len(known) == space.count):
            here += islice(starts, width - len(here))
            if not here:
                break
            here = known.climb(np.array(here))
        complete = space.exact and len(known) == space.count
        return choose(problem, known.found(), evaluations=len(known), started_s=started_s, complete=complete)


def _heuristic(problem: Problem) -> np.ndarray:
    """The heuristic placement as a row [1, O]."""
    placement = governor_placement(problem.deployment)
    hosts = [host.name for host in problem.deployment.cluster.hosts]
    return np.array([[hosts.index(placement[operator.name]) for operator in problem.deployment.query.operators]])


def _starts(first: np.ndarray, space: PlacementSpace, rng: np.random.Generator) -> Iterator[np.ndarray]:
    yield from first
    while True:
        yield from space.draws(rng, 64)


class _Known:
    """Every plan is estimated once, in batches, until the budget is spent."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._bins = bin_ranges(problem.deployment.cluster)
        self._row: dict[bytes, int] = {}
        self._placements: list[np.ndarray] = []
        self._estimates: list[Estimated] = []
        self._goodness = np.zeros((3, 0))
        self._left: set[int] = set()

    def __len__(self) -> int:
        return len(self._row)

    @property
    def left(self) -> int:
        """Estimates that may still be asked for."""
        return self._problem.budget - len(self)

    def look_at(self, hosts_no: np.ndarray) -> np.ndarray:
        """The rows [N] of these placements among the known, -1 for those beyond the budget."""
        keys = [hosts.tobytes() for hosts in hosts_no]
        first = {key: index for index, key in reversed(list(enumerate(keys))) if key not in self._row}
        new = sorted(first.values())[: self.left]
        if new:
            self._row |= {keys[index]: row for row, index in enumerate(new, len(self))}
            self._placements.append(hosts_no[new])
            self._estimates.append(estimate(self._problem, Placements(self._problem.deployment, hosts_no[new])))
            self._goodness = np.hstack([self._goodness, goodness(self._problem, self._estimates[-1])])
        return np.array([self._row.get(key, -1) for key in keys], int)

    def best_first(self) -> np.ndarray:
        """All that is known [N, O], the best first."""
        return np.concatenate(self._placements)[np.lexsort(self._goodness[::-1])]

    def climb(self, here_so: np.ndarray) -> list[np.ndarray]:
        """One step of every climb; those that have arrived, or that another climb has been through, end."""
        start_s = self.look_at(here_so)
        goes = list({row: s for s, row in enumerate(start_s.tolist()) if row >= 0 and row not in self._left}.values())
        self._left.update(start_s[goes].tolist())
        moves_mo, origin_m = one_operator_moves(self._problem.deployment.query, self._bins, here_so[goes])
        row_m = self.look_at(moves_mo)
        seen = np.flatnonzero(row_m >= 0)
        order = seen[np.lexsort([*self._goodness[::-1, row_m[seen]], origin_m[seen]])]
        origins, first = np.unique(origin_m[order], return_index=True)
        best_of = dict(zip(origins.tolist(), order[first].tolist(), strict=True))
        return [
            moves_mo[move]
            for origin, move in best_of.items()
            if tuple(self._goodness[:, row_m[move]]) < tuple(self._goodness[:, start_s[goes[origin]]])
        ]

    def found(self) -> Estimated:
        """Everything that is known."""
        columns = zip(*((each.objective, each.backpressured, each.success) for each in self._estimates), strict=True)
        plans = Placements(self._problem.deployment, np.concatenate(self._placements))
        return Estimated(plans, *(np.concatenate(column) for column in columns))
