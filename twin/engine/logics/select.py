"""Filters and maps: so many tuples leave per tuple that came."""

from __future__ import annotations

from twin.engine.draws import Draws
from twin.engine.logic import Logic
from twin.engine.segment import Segment


class SelectLogic(Logic):
    """`selectivity` tuples leave per tuple that came; at most one each if `thins`."""

    __slots__ = ("_n_out", "selectivity", "thins")

    def __init__(self, selectivity: float, thins: bool) -> None:
        super().__init__()
        self.selectivity = selectivity
        self.thins = thins
        self.law = "in = out + dropped + in service + stopped" if thins else ""
        self._n_out = 0

    def in_service(self) -> int:
        """Survivors among the tuples in service."""
        return self._n_out if self.station.in_service else 0

    def plan(self, segment: Segment) -> float:
        """Draws how many tuples leave."""
        n, selectivity = segment.n, self.selectivity
        if selectivity == 1.0:
            n_out = n
        elif self.thins:
            n_out = self.station.draws.binomial(n, selectivity)
        else:
            n_out = self.station.draws.rounded(n * selectivity)
        self._n_out = n_out
        if n_out < n:
            self.dropped += n - n_out
        return n_out * self.out.send_s

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """Sends the survivors, spread like the segment."""
        if self._n_out:
            segment.a_s, segment.b_s = first_s, last_s
            self.out.send(thinned(segment, self._n_out, self.selectivity, self.station.draws))


def thinned(segment: Segment, n_out: int, selectivity: float, draws: Draws) -> Segment:
    """The same segment with so many tuples, at least one, that were chosen, or made, at random."""
    n = segment.n
    segment.n = n_out
    if n_out == 1 and n > 1:
        segment.collapse(draws.uniform())
    elif n_out < n:  # where the first and last of a random few lie on average
        segment.narrow((n - n_out) / ((n_out + 1) * (n - 1)))
    if selectivity < 1.0:
        segment.gap_scv = selectivity * segment.gap_scv + 1.0 - selectivity
        segment.unseen_scv *= selectivity
        segment.clump *= selectivity
    return segment
