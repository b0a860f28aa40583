"""Routers: each of the streams that leave gets a share of the tuples."""

from __future__ import annotations

from twin.engine.logic import Logic
from twin.engine.logics.select import thinned
from twin.engine.segment import Segment


class RouteLogic(Logic):
    """shares: by stream, of what comes. exclusive: a tuple goes to one of them at most, else to each by chance.

    What it passes on counts once: where it is exclusive, what went anywhere; else, all.
    """

    __slots__ = ("_n_out", "_parts", "exclusive", "shares")

    def __init__(self, shares: list[float], exclusive: bool) -> None:
        super().__init__()
        self.shares = shares
        self.exclusive = exclusive
        self.law = "in = out + dropped + in service + stopped"
        self._parts = [0] * len(shares)
        self._n_out = 0

    def in_service(self) -> int:
        """Of the tuples in service, those that will go anywhere."""
        return self._n_out if self.station.in_service else 0

    def plan(self, segment: Segment) -> float:
        """Draws how many tuples go where."""
        left, rest, work_s = segment.n, 1.0, 0.0
        for number, share in enumerate(self.shares):
            chance = min(1.0, share / rest) if rest > 0.0 else 0.0
            part = self.station.draws.binomial(left, chance) if left else 0
            self._parts[number] = part
            work_s += part * self.station.ports[number].send_s
            if self.exclusive:
                left -= part
                rest -= share
        self._n_out = segment.n - left if self.exclusive else segment.n
        self.dropped += segment.n - self._n_out
        return work_s

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """Sends each stream its tuples, spread like the segment."""
        segment.a_s, segment.b_s = first_s, last_s
        parts, n_out = self._parts.copy(), self._n_out
        self.station.tuples_out += n_out
        for number, part in enumerate(parts):
            port = self.station.ports[number]
            port.passed_over += n_out - part
            if part:
                whole = segment.part(segment.n, 0.0, 1.0)
                port.send(thinned(whole, part, self.shares[number], self.station.draws))
