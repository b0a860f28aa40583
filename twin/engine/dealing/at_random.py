"""Dealing by keys that nobody follows: each record goes to a random replica."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twin.engine.dealing.in_turn import Deal
from twin.engine.record import Record

if TYPE_CHECKING:
    from twin.engine.draws import Draws
    from twin.engine.station.task import Task


class RandomDeal(Deal):
    """By shares of the replicas; one uniform number a record, if there are several that have one."""

    __slots__ = ("_draws", "_steps")

    def __init__(self, weights: Sequence[float], draws: Draws, first: int = 0) -> None:
        self._draws = draws
        super().__init__(weights, first=first)

    def another(self, draws: Draws, producer: Task) -> Deal:
        """See Deal."""
        return RandomDeal(list(self.weights), draws)

    def reweigh(self, weights: Sequence[float]) -> None:
        """See Deal."""
        super().reweigh(weights)
        self._steps = cumulative(weights)

    def parts(self, record: Record) -> Iterable[tuple[int, Record]]:
        """See Deal."""
        if len(self.live) == 1:
            return super().parts(record)
        return ((bisect_right(self._steps, self._draws.uniform()), record),)


def cumulative(shares: Sequence[float] | np.ndarray) -> list[float]:
    """Sums of the shares so far; exactly 1 from the last positive one on, so that bisection finds the owner of any
    number below 1."""
    steps = np.cumsum(shares)
    steps[np.flatnonzero(np.asarray(shares))[-1] :] = 1.0
    return [float(step) for step in steps]
