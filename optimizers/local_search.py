"""Hill climbing from several starts: the usual optimizer, under any cost model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np

from optimizers.candidates import Candidates, KnownPlans, P, by_risk
from optimizers.governor import governor_plan
from optimizers.interface import Problem, Solution, Traits, never
from optimizers.selection import choose
from optimizers.space import SpacePlans, counts_of
from twin.randomness import random_stream

# climbing ------------------------------------------------------------------------------------------------------------
# Hill climbing: a plan gives way to the best of all its small changes, again and again, from several starts.
#
# Several climbs may go on side by side, whose changes are estimated in one batch: a cost model takes little longer for
# thousands of plans than for one. No plan is estimated twice, and no two climbs take the same way.


def climb(
    known: KnownPlans[P],
    near: Callable[[P], Iterable[P]],
    starts: Iterable[P],
    *,
    width: int = 1,
    batch: int | None = None,
    enough: Callable[[], bool] = never,
) -> None:
    """Climbs from each start until no change is better, from `width` starts at a time, while plans may be looked at.

    near: small changes of a plan. batch: number of changes estimated together; the first batch with a better plan
    decides; None: all changes. enough: whether to stop.
    """
    coming, here, left = iter(starts), list[P](), set[int]()
    while known.left > 0 and not enough():
        here += islice(coming, width - len(here))
        if not here:
            return
        known.look_at(here)
        rows = [row for row in map(known.row, here) if row is not None and row not in left]
        left.update(rows)
        changed = {row: list(near(known[row])) for row in rows}
        here = [known[row] for row in _better(known, changed, batch, enough)]


def _better(
    known: KnownPlans[P], changed: dict[int, list[P]], batch: int | None, enough: Callable[[], bool]
) -> list[int]:
    """Rows of the best change of each plan, for the plans that have a better one."""
    found: dict[int, int] = {}
    most = max(map(len, changed.values()), default=0)
    for first in range(0, most, batch or most or 1):
        some = {row: each[first : first + (batch or most)] for row, each in changed.items() if row not in found}
        known.look_at([change for each in some.values() for change in each])
        best = {row: known.best_of([row, *_rows(known, each)]) for row, each in some.items()}
        found |= {row: after for row, after in best.items() if after != row}
        if len(found) == len(changed) or enough():
            break
    return [found[row] for row in changed if row in found]


def climb_on(candidates: Candidates, starts: Sequence[np.ndarray] = ()) -> None:
    """Climbs from the best known plan, then from the starts. Does nothing without a known plan."""
    if len(candidates):
        climb(candidates, changes_of(candidates.problem), [candidates[candidates.best], *starts])


def _rows(known: KnownPlans[P], items: Iterable[P]) -> list[int]:
    return [row for row in map(known.row, items) if row is not None]


def changes_of(problem: Problem, *, pairs: bool = True) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Function that returns all plans one change away: an operator goes elsewhere, or one of its subtasks where they
    may part, or (pairs) both ends of a stream, or all that may be on some socket. Some may not be in the space."""
    job = problem.deployment
    spread = problem.space.spreads(job)
    free_ol = problem.space.allows_ol(job) & ~problem.space.pinned_o(job)[:, None]
    together = [(tuple(np.flatnonzero(free_o).tolist()), socket) for socket, free_o in enumerate(free_ol.T)]
    row = {operator.name: o for o, operator in enumerate(job.query.topological)}
    ends = [(row[each.producer], row[each.consumer]) for each in job.query.streams_by_name] if pairs else []

    def changes(counts_ol: np.ndarray) -> list[np.ndarray]:
        operators, sockets = range(len(counts_ol)), range(counts_ol.shape[1])
        found = [_moved(counts_ol, (o,), socket) for o in operators for socket in sockets]
        if spread:
            parted = [(o, start) for o, start in np.argwhere(counts_ol > 0).tolist() if counts_ol[o].sum() > 1]
            found += [_part(counts_ol, o, start, end) for o, start in parted for end in sockets if end != start]
        found += [_moved(counts_ol, pair, socket) for pair in ends for socket in sockets]
        return found + [_moved(counts_ol, all_free, socket) for all_free, socket in together]

    return changes


def resized_of(problem: Problem) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Function that returns all plans with one subtask more or less of an operator, or of all that must have equally
    many, where numbers are free. Some may not be in the space."""
    job, space = problem.deployment, problem.space
    groups = [group for group in space.tied(job) if space.free_subtasks and space.free_o(job)[group].all()]

    def changes(counts_ol: np.ndarray) -> list[np.ndarray]:
        found = []
        for group in groups:
            for socket in range(counts_ol.shape[1]):
                for by in (1, -1):
                    changed = counts_ol.copy()
                    changed[group, socket] += by
                    found.append(changed)
        return [each for each in found if (each >= 0).all() and each.any(axis=1).all()]

    return changes


def _moved(counts_ol: np.ndarray, operators: tuple[int, ...], socket: int) -> np.ndarray:
    found = counts_ol.copy()
    for o in operators:
        found[o] = 0
        found[o, socket] = counts_ol[o].sum()
    return found


def _part(counts_ol: np.ndarray, o: int, start: int, end: int) -> np.ndarray:
    found = counts_ol.copy()
    found[o, start] -= 1
    found[o, end] += 1
    return found


# the optimizer -------------------------------------------------------------------------------------------------------
# A first part of the budget goes into the given plan, the heuristic placement and a sample of the space; climbs begin
# at the best of these, then at draws. As many climbs go on side by side as the budget seems to allow.


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
        """Best plan found. Raises BadInput if no plan of the space is found, or its numbers of subtasks are free."""
        started_s = time.perf_counter()
        problem = problem.settled(free_subtasks=False)
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
