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
        parts = []
        for index, n in zip(
            self._live, self._counts(segment.n, [self.weights[each] for each in self._live]), strict=True
        ):
            if n:
                part = some(segment, n)
                self._thin(part, index)
                parts.append((index, part))
        return parts

    def _pieces(self, segment: Segment, parts: int) -> Iterable[Segment]:
        """See Deal."""
        return [some(segment, n) for n in self._counts(segment.n, [1.0 / parts] * parts) if n]

    def _counts(self, n: int, shares: Sequence[float]) -> list[int]:
        """How many of n tuples fall to each, by chance."""
        rest, counts = 1.0, []
        for share in shares[:-1]:
            count = self._draws.binomial(n, min(1.0, share / rest)) if n else 0
            n -= count
            rest -= share
            counts.append(count)
        return [*counts, n]

    def _thin(self, segment: Segment, index: int) -> None:
        """At random: what is left of a stream by chance."""
        share = self.weights[index]
        segment.gap_scv = share * segment.gap_scv + 1.0 - share
        segment.unseen_scv *= share
        segment.clump *= share

    def _hide(self, segment: Segment, index: int, parts: int) -> None:
        """One in so many replicas gets each tuple by chance; the parts show chances of one in so many parts."""
        segment.unseen_scv += max(0.0, 1.0 / parts - self.weights[index])


def some(segment: Segment, n: int) -> Segment:
    """So many of a segment's tuples, by chance: the first and last lie where those of a random few do on average."""
    part = segment.part(n, 0.0, 1.0)
    if n < segment.n:
        part.narrow((segment.n - n) / ((n + 1) * (segment.n - 1)))
    return part


def cumulative(shares: Sequence[float]) -> list[float]:
    """Sums of the shares so far; exactly 1 from the last positive one on."""
    steps = np.cumsum(shares)
    steps[np.flatnonzero(np.asarray(shares))[-1] :] = 1.0
    return [float(step) for step in steps]
