"""Filters and maps: so many tuples leave per tuple that came."""

from __future__ import annotations

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
        n_out, n = self._n_out, segment.n
        if not n_out:
            return
        segment.n, segment.a_s, segment.b_s = n_out, first_s, last_s
        if n_out == 1 and n > 1:
            segment.collapse(self.station.draws.uniform())
        elif n_out < n:  # where the first and last of a random few lie on average
            segment.narrow((n - n_out) / ((n_out + 1) * (n - 1)))
        selectivity = self.selectivity
        if selectivity < 1.0:
            segment.gap_scv = selectivity * segment.gap_scv + 1.0 - selectivity
        self.out.send(segment)
