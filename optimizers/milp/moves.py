"""Better and better by small changes of a plan."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optimizers.changes import changes
from optimizers.milp.candidates import Candidates
from optimizers.space import Space
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
