"""Hill climbing over arrangements: the best of all changes, again and again, under the problem's cost model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from optimizers.estimating import batch, better, joined
from optimizers.fusion.arrangement import Arrangement, changes
from optimizers.fusion.links import Link
from optimizers.interface import Problem
from optimizers.patience import Patience
from optimizers.selection import Estimated, estimate, goodness


class Climb:
    """Every plan is estimated once, until the budget or the time is spent.

    free: links that may be joined and parted.
    """

    def __init__(self, problem: Problem, patience: Patience, free: Sequence[Link]) -> None:
        self._problem, self._patience, self._free = problem, patience, tuple(free)
        self._scale = bool(problem.space.free_replicas)
        self._spread = problem.space.spreads(problem.deployment)
        self._row: dict[tuple[bytes, frozenset[Link]], int] = {}
        self._known: list[Arrangement] = []
        self._estimates: list[Estimated] = []
        self._goodness = np.zeros((3, 0))
        self._best: tuple[float, ...] | None = None

    def __len__(self) -> int:
        return len(self._known)

    @property
    def left(self) -> int:
        """Estimates that may still be asked for; the first batch is whatever the time."""
        return 0 if len(self) and self._patience.over else self._problem.budget - len(self)

    def look_at(self, arrangements: Iterable[Arrangement]) -> None:
        """Estimates those that are new and in the space, as far as the budget goes."""
        fresh = [each for each in {each.key: each for each in arrangements}.values() if each.key not in self._row]
        if fresh:
            held = self._problem.space.holds(self._problem.deployment, np.stack([each.counts_ol for each in fresh]))
            fresh = [each for each, fits in zip(fresh, held, strict=True) if fits]
        step = batch(self._problem)
        for start in range(0, len(fresh), step):
            if new := fresh[start : start + step][: self.left]:
                self._estimate(new)

    def _estimate(self, new: list[Arrangement]) -> None:
        self._row |= {each.key: row for row, each in enumerate(new, len(self))}
        self._known += new
        self._estimates.append(estimate(self._problem, [each.plan(self._problem.deployment) for each in new]))
        self._goodness = np.hstack([self._goodness, goodness(self._problem, self._estimates[-1])])
        self._best = better(self._problem, self._best, self._estimates[-1])
        self._problem.tell("plans estimated", len(self), self._problem.budget, best=self._best[-1])

    def climb(self, start: Arrangement) -> Arrangement:
        """Where no change is better any more, or the budget ends."""
        self.look_at([start])
        if start.key not in self._row:
            return start
        here = self._row[start.key]
        while self.left > 0:
            near = list(self._near(self._known[here]))
            self.look_at(near)
            rows = [self._row[each.key] for each in near if each.key in self._row]
            best = min(rows, key=self._rank, default=here)
            if self._rank(best) >= self._rank(here):
                break
            here = best
        return self._known[here]

    def _near(self, here: Arrangement) -> Iterable[Arrangement]:
        job = self._problem.deployment
        return changes(job, here, self._free, spread=self._spread, scale=self._scale)

    def _rank(self, row: int) -> tuple[float, ...]:
        return tuple(self._goodness[:, row].tolist())

    def found(self) -> Estimated:
        """Everything that was estimated; none if nothing of it is in the space."""
        return joined(self._estimates, [plan for each in self._estimates for plan in each.plans])
