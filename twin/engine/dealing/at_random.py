"""Dealing by keys that come at random: each tuple to a random replica, segments in multinomial parts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twin.engine.dealing.in_turn import Deal
from twin.engine.segment import Segment

if TYPE_CHECKING:
    from twin.engine.draws import Draws
    from twin.engine.streams.sender import Sender


class RandomDeal(Deal):
    """Deals by keys, which come at random: each tuple to a random replica, segments in multinomial parts."""

    __slots__ = ("_draws", "_steps")

    def __init__(self, weights: Sequence[float], draws: Draws, first: int = 0, producers: int = 1) -> None:
        self._draws = draws
        super().__init__(weights, first=first, producers=producers)

    def another(self, draws: Draws, producer: Sender) -> Deal:
        """See Deal."""
        return RandomDeal(list(self.weights), draws)

    def reweigh(self, weights: Sequence[float]) -> None:
        """See Deal."""
        super().reweigh(weights)
        self._steps = cumulative(weights)

    def parts(self, segment: Segment) -> Iterable[tuple[int, Segment]]:
        """See Deal."""
        if segment.n > 1:
            return super().parts(segment)
        return ((bisect_right(self._steps, self._draws.uniform()), segment),)

    def _split(self, segment: Segment) -> Iterable[tuple[int, Segment]]:
        left, rest, parts = segment.n, 1.0, []
        for index in self._live:
            share = self.weights[index]
            n = left if index == self._live[-1] else self._draws.binomial(left, min(1.0, share / rest))
            left -= n
            rest -= share
            if n:
                part = segment.part(n, 0.0, 1.0)
                if n < segment.n:  # where the first and last of a random few lie on average
                    part.narrow((segment.n - n) / ((n + 1) * (segment.n - 1)))
                self._thin(part, index)
                parts.append((index, part))
            if not left:
                break
        return parts

    def _thin(self, segment: Segment, index: int) -> None:
        """At random: what is left of a stream by chance."""
        share = self.weights[index]
        segment.gap_scv = share * segment.gap_scv + 1.0 - share


def cumulative(shares: Sequence[float]) -> list[float]:
    """Sums of the shares so far; exactly 1 from the last positive one on."""
    steps = np.cumsum(shares)
    steps[np.flatnonzero(np.asarray(shares))[-1] :] = 1.0
    return [float(step) for step in steps]
