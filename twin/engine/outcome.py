"""What evaluations of windows come to: results, as the share of a segment over which they leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twin.engine.segment import Segment

if TYPE_CHECKING:
    from twin.engine.draws import Draws
    from twin.engine.logic import Logic
    from twin.engine.streams.outlet import Outlet


@dataclass(slots=True)
class Results:
    """What one evaluation, or several merged ones, emits: n tuples over the share [low, high] of a segment.

    early_s: how much earlier than that, for evaluations that were due before the segment came (< 0: after it).
    fires: how many evaluations.
    """

    n: int
    low: float
    high: float
    born0_s: float
    born1_s: float
    taken0_s: float
    taken1_s: float
    early_s: float = 0.0
    fires: int = 1

    def leave(self, first_s: float, last_s: float) -> Segment:
        """As a segment that leaves while the service runs from first_s to last_s."""
        span_s = last_s - first_s
        from_s = first_s - self.early_s
        segment = Segment(
            self.n,
            from_s + self.low * span_s,
            from_s + self.high * span_s,
            self.born0_s,
            self.born1_s,
            self.taken0_s,
            self.taken1_s,
        )
        if segment.a_s == segment.b_s and self.n > 1:
            segment.beyond = 0.0, 0.0, 0.0, 0.0
        elif self.fires > 1:
            segment.clump = self.n / self.fires
        return segment


class Outcome:
    """What evaluations come to in the end: results that leave by an outlet, and what has entered other windows then."""

    __slots__ = ("entered", "out", "results")

    def __init__(self, results: list[Results], out: Outlet, entered: list[tuple[Logic, Segment]]) -> None:
        self.results = results
        self.out = out
        self.entered = entered

    def leave(self, draws: Draws, at_s: float) -> None:
        """All of it, at one moment."""
        for logic, segment in self.entered:
            logic.served(segment, at_s, at_s)
        for results in self.results:
            send_results(results, self.out, draws, at_s, at_s)


def send_results(results: Results, out: Outlet, draws: Draws, first_s: float, last_s: float) -> None:
    """Sends results while a service runs from first_s to last_s."""
    segment = results.leave(first_s, last_s)
    if segment.n == 1:  # one result, of an age that is anywhere in the range
        segment.collapse(draws.uniform())
    out.send(segment)
