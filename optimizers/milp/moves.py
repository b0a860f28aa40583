"""Small changes of a plan: an operator goes elsewhere, or both ends of a stream, or one of an operator's replicas."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optimizers.milp.candidates import Candidates
from optimizers.milp.space import Space
from twin.deployment import Deployment


def climb(candidates: Candidates, deployment: Deployment, space: Space, *, starts: Iterable[np.ndarray] = ()) -> None:
    """The best of all small changes of the best plan known, again and again, until none is better or no more may be
    looked at; then the same from every other of the starts. Does nothing if nothing is known."""
    left: set[int] = set()
    if len(candidates):
        _climb(candidates, deployment, space, candidates.best, left)
    for row in [candidates.row(each) for each in starts]:
        if row is not None:
            _climb(candidates, deployment, space, row, left)


def _climb(candidates: Candidates, deployment: Deployment, space: Space, here: int, left: set[int]) -> None:
    spread = space.spreads(deployment)
    while candidates.left > 0 and here not in left:
        left.add(here)
        near = changes(candidates.counts(here), deployment, spread=spread)
        candidates.look_at(near)
        here = candidates.best_of([here, *(row for row in map(candidates.row, near) if row is not None)])


def changes(counts_ol: np.ndarray, deployment: Deployment, *, spread: bool) -> list[np.ndarray]:
    """All plans one change away; some may not be in the space. spread: whether replicas may part."""
    row = {operator.name: o for o, operator in enumerate(deployment.query.topological)}
    ends = [(row[each.producer], row[each.consumer]) for each in deployment.query.streams_by_name]
    operators, sockets = range(len(counts_ol)), range(counts_ol.shape[1])
    found = [_moved(counts_ol, (o,), socket) for o in operators for socket in sockets]
    if spread:
        parted = [(o, start) for o, start in np.argwhere(counts_ol > 0).tolist() if counts_ol[o].sum() > 1]
        found += [_part(counts_ol, o, start, end) for o, start in parted for end in sockets if end != start]
    return found + [_moved(counts_ol, pair, socket) for pair in ends for socket in sockets]


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
