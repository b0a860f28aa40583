"""Hill climbing: a plan gives way to the best of all its small changes, again and again, from several starts.

Several climbs may go on side by side, whose changes are estimated in one batch: a cost model takes little longer for
thousands of plans than for one. No plan is estimated twice, and no two climbs take the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import numpy as np

from optimizers.candidates import Candidates, KnownPlans, P
from optimizers.deadline import never
from optimizers.interface import Problem


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
    """Function that returns all plans one change away: an operator goes elsewhere, or one of its replicas where they
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
    """Function that returns all plans with one replica more or less of an operator, or of all that must have equally
    many, where numbers are free. Some may not be in the space."""
    job, space = problem.deployment, problem.space
    groups = [group for group in space.tied(job) if space.free_replicas and space.free_o(job)[group].all()]

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
