"""Hill climbing: the best of all moves of an operator, or of one of its replicas, again and again, from several starts.

A first part of the budget goes into the given plan, the heuristic placement and a sample of the space; climbs begin at
the best of these, then at draws. Several go on side by side, as many as the budget seems to allow, and all their moves
are estimated in one batch: a cost model takes little longer for thousands of plans than for one. No plan is estimated
twice, and no two climbs take the same way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from optimizers.changes import changes
from optimizers.counted import as_plans
from optimizers.estimating import batch, better, joined
from optimizers.governor import governor_plan
from optimizers.interface import Problem, Solution
from optimizers.patience import Patience
from optimizers.selection import Estimated, choose, estimate, goodness
from optimizers.space import counts_of
from optimizers.space_plans import SpacePlans
from twin.randomness import stream

MAX_STARTS = 1000
SAMPLED = 0.2
"""Share of the budget that goes into the sample."""
STEPS = 6
"""Moves that a climb takes, for guessing how many climbs the budget allows."""


EMPTY_DRAWS = 20
"""Batches of draws without a plan of the space, after which there are no more starts."""


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Stops when the budget or the time is spent, when all plans are known, or after `starts` starts."""

    starts: int = MAX_STARTS
    name: str = "local-search"

    def solve(self, problem: Problem) -> Solution:
        """Raises BadInput if no plan of the space is found, or its numbers of replicas are free."""
        started_s = time.perf_counter()
        problem = problem.settled(free_replicas=False)
        space, rng = SpacePlans(problem.deployment, problem.space), stream(problem.seed, "local-search")
        known = _Known(problem, problem.patience())
        known.look_at(_first(problem))
        known.look_at(space.sample(rng, max(1, int(SAMPLED * problem.budget))))
        starts = islice(_starts(known.best_first(), space, rng), self.starts)
        sockets = known.counts(0).shape[1]
        width = max(1, problem.budget // (STEPS * len(problem.deployment.query.operators) * sockets))
        here: list[np.ndarray] = []
        while known.left > 0 and not (space.exact and len(known) == space.count):
            here += islice(starts, width - len(here))
            if not here:
                break
            here = known.climb(np.array(here))
        complete = space.exact and len(known) == space.count
        return choose(problem, known.found(), evaluations=len(known), started_s=started_s, complete=complete)


def _first(problem: Problem) -> np.ndarray:
    """The given plan and the heuristic placement, as far as the space holds them. [N, O, L]"""
    job = problem.deployment
    plans = (job.plan, governor_plan(problem))
    found = np.stack([counts_of(job, plan) for plan in plans])
    return found[problem.space.holds(job, found)]


def _starts(first: np.ndarray, space: SpacePlans, rng: np.random.Generator) -> Iterator[np.ndarray]:
    yield from first
    empty = 0
    while empty < EMPTY_DRAWS:
        drawn = space.draws(rng, 64)
        empty = 0 if len(drawn) else empty + 1
        yield from drawn


class _Known:
    """Every plan is estimated once, in batches, until the budget or the time is spent."""

    def __init__(self, problem: Problem, patience: Patience) -> None:
        self._problem, self._patience = problem, patience
        self._batch = batch(problem)
        self._spread = problem.space.spreads(problem.deployment)
        self._row: dict[bytes, int] = {}
        self._counts: list[np.ndarray] = []
        self._estimates: list[Estimated] = []
        self._goodness = np.zeros((3, 0))
        self._left: set[int] = set()
        self._best: tuple[float, ...] | None = None

    def __len__(self) -> int:
        return len(self._row)

    @property
    def left(self) -> int:
        """Estimates that may still be asked for; the first batch is whatever the time."""
        return 0 if len(self) and self._patience.over else self._problem.budget - len(self)

    def look_at(self, counts_nol: np.ndarray) -> np.ndarray:
        """The rows [N] of these plans among the known, -1 for those beyond the budget."""
        keys = [counts_ol.tobytes() for counts_ol in counts_nol]
        first = {key: index for index, key in reversed(list(enumerate(keys))) if key not in self._row}
        fresh = sorted(first.values())
        for start in range(0, len(fresh), self._batch):
            if not (new := fresh[start : start + self._batch][: self.left]):
                break
            self._row |= {keys[index]: row for row, index in enumerate(new, len(self))}
            self._estimate(counts_nol[new])
        return np.array([self._row.get(key, -1) for key in keys], int)

    def _estimate(self, counts_nol: np.ndarray) -> None:
        self._counts.extend(counts_nol)
        self._estimates.append(estimate(self._problem, as_plans(self._problem.deployment, counts_nol)))
        self._goodness = np.hstack([self._goodness, goodness(self._problem, self._estimates[-1])])
        self._best = better(self._problem, self._best, self._estimates[-1])
        self._problem.tell("plans estimated", len(self), self._problem.budget, best=self._best[-1])

    def counts(self, row: int) -> np.ndarray:
        """Replicas [O, L] of a plan that is known."""
        return self._counts[row]

    def best_first(self) -> np.ndarray:
        """All that is known [N, O, L], the best first."""
        return np.stack(self._counts)[np.lexsort(self._goodness[::-1])]

    def climb(self, here_sol: np.ndarray) -> list[np.ndarray]:
        """One step of every climb; those that have arrived, or that another climb has been through, end."""
        start_s = self.look_at(here_sol)
        goes = list({row: s for s, row in enumerate(start_s.tolist()) if row >= 0 and row not in self._left}.values())
        self._left.update(start_s[goes].tolist())
        if not goes:
            return []
        moves_mol, origin_m = self._moves(here_sol[goes])
        row_m = self.look_at(moves_mol)
        seen = np.flatnonzero(row_m >= 0)
        order = seen[np.lexsort([*self._goodness[::-1, row_m[seen]], origin_m[seen]])]
        origins, first = np.unique(origin_m[order], return_index=True)
        best_of = dict(zip(origins.tolist(), order[first].tolist(), strict=True))
        return [
            moves_mol[move]
            for origin, move in best_of.items()
            if tuple(self._goodness[:, row_m[move]]) < tuple(self._goodness[:, start_s[goes[origin]]])
        ]

    def _moves(self, here_sol: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All changes [M, O, L] that lead to plans of the space, and of which plan each is one [M]."""
        job = self._problem.deployment
        near = [changes(counts_ol, job, spread=self._spread, pairs=False) for counts_ol in here_sol]
        moves_mol = np.stack([each for found in near for each in found])
        origin_m = np.repeat(np.arange(len(here_sol)), [len(found) for found in near])
        kept = self._problem.space.holds(job, moves_mol)
        return moves_mol[kept], origin_m[kept]

    def found(self) -> Estimated:
        """Everything that is known."""
        return joined(self._estimates, as_plans(self._problem.deployment, np.stack(self._counts)))
