"""Windowed two-way join: pairs of matching tuples at each evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twin.engine.history import History
from twin.engine.oldest import older
from twin.engine.segment import Segment
from twin.engine.window import Results, WindowTask

BURST_SHARE = 0.25
"""A segment that comes in less than this share of the time its tuples take on average is a burst."""

Range = tuple[float, float, float, float]
"""Stamps of one side's tuples in a window: born from, born to, taken from, taken to."""


@dataclass(slots=True)
class Side:
    """One input: its history, and the last segment's line for extrapolating a smooth stream."""

    history: History
    arrived_s: float = 0.0
    born_s: float = 0.0
    taken_s: float = 0.0
    born_per_s: float = 1.0
    taken_per_s: float = 1.0
    tuples: float = 0.0
    time_s: float = 0.0
    bursty: bool = True

    def note(self, segment: Segment) -> None:
        """Takes the line of the newest segment."""
        n, span_s = segment.n, segment.b_s - segment.a_s
        self.bursty = span_s * self.rate_per_s < BURST_SHARE * n
        elapsed_s = segment.b_s - self.arrived_s
        self.tuples = self.tuples * 0.8 + n
        self.time_s = self.time_s * 0.8 + max(0.0, elapsed_s)
        self.arrived_s, self.born_s, self.taken_s = segment.b_s, segment.born1_s, segment.taken1_s
        if not self.bursty:
            self.born_per_s = (segment.born1_s - segment.born0_s) / span_s
            self.taken_per_s = (segment.taken1_s - segment.taken0_s) / span_s

    @property
    def rate_per_s(self) -> float:
        """Tuples a second, lately."""
        return self.tuples / self.time_s if self.time_s > 0.0 else 0.0


class JoinTask(WindowTask):
    """Matches are Poisson with mean selectivity * |W1| * |W2|, or amplification * tuples since the last time."""

    __slots__ = (
        "amplification",
        "selectivity",
        "sides",
    )

    def __init__(self, *args: Any, selectivity: float | None, amplification: float | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.selectivity = selectivity
        self.amplification = amplification
        self.sides = (Side(History()), Side(History()))

    def remember(self, segment: Segment, low: float, high: float) -> None:
        """Adds a piece to the history of the segment's side."""
        side = self._side(segment)
        side.note(segment)
        side.history.add(low, high, segment.n, (segment.born0_s, segment.born1_s, segment.taken0_s, segment.taken1_s))

    def correct(self, segment: Segment, low: float, high: float) -> None:
        """Moves the last piece of the segment's side."""
        self._side(segment).history.correct_last(low if segment.n > 1 else high, high)

    def forget(self, position: float) -> None:
        """Forgets what lies before the next window, on both sides."""
        for side in self.sides:
            side.history.forget_until(position)
        self.state_tuples = self.sides[0].history.held() + self.sides[1].history.held()

    def evaluate(self, position: float, fires: int, low: float, high: float) -> tuple[Results | None, float]:
        """Draws the matches of the window's two sides; a pair is as old as the older of the two."""
        start = position - self.size
        if self.by_time or self.exact or self.sides[0].bursty or self.sides[1].bursty:
            contents = [side.history.count_until(position) - side.history.count_until(start) for side in self.sides]
            n1, n2 = contents
            ranges = [_remembered(side.history, start, position) for side in self.sides]
        else:
            n1, n2, ranges = self._by_rates(position, fires, high)
        work_s = self.scan_s * (n1 + n2) * fires
        matches = self._matches(position, n1, n2, fires)
        if (
            self.amplification is not None
        ):  # a measured rate of results: it holds whether or not a short window has both
            ranges = [ranges[0] or ranges[1], ranges[1] or ranges[0]]
        if matches <= 0 or ranges[0] is None or ranges[1] is None:
            return None, work_s
        work_s += self.result_s * matches
        born_s, born_half_s = older(ranges[0][0], ranges[0][1], ranges[1][0], ranges[1][1])
        taken_s, taken_half_s = older(ranges[0][2], ranges[0][3], ranges[1][2], ranges[1][3])
        if fires > 1:  # the same ages at each: the stamps advance with the evaluations
            advance_s = self.slide * (fires - 1) / max(1e-12, self.sides[0].rate_per_s + self.sides[1].rate_per_s)
            born_per_s = (self.sides[0].born_per_s + self.sides[1].born_per_s) / 2
            taken_per_s = (self.sides[0].taken_per_s + self.sides[1].taken_per_s) / 2
            results = Results(
                matches, low, high, born_s - advance_s * born_per_s, born_s, taken_s - advance_s * taken_per_s, taken_s
            )
        else:
            results = Results(
                matches,
                low,
                high,
                born_s - born_half_s,
                born_s + born_half_s,
                taken_s - taken_half_s,
                taken_s + taken_half_s,
            )
        return results, work_s

    def _matches(self, position: float, n1: float, n2: float, fires: int) -> int:
        if self.amplification is None:
            assert self.selectivity is not None
            return self.draws.poisson(self.selectivity * n1 * n2 * fires)
        if self.by_time:
            since = position - self.slide
            fresh = sum(side.history.count_until(position) - side.history.count_until(since) for side in self.sides)
        else:
            fresh = self.slide * fires
        return self.draws.rounded(self.amplification * fresh)

    def _by_rates(self, position: float, fires: int, at: float) -> tuple[float, float, list[Range | None]]:
        """Both sides smooth: a short count window holds them in proportion to their rates.

        The segments of the two sides overlap in time but are served one after the other, so the order in which they
        were remembered would put whole windows on one side.
        """
        rate1, rate2 = self.sides[0].rate_per_s, self.sides[1].rate_per_s
        size = min(self.size, position)
        share = rate1 / (rate1 + rate2) if rate1 + rate2 > 0.0 else 0.5
        if fires == 1:
            n1 = float(self.draws.binomial(int(size), share))
            n2 = size - n1
        else:  # E[n1 n2] = size (size - 1) share (1 - share)
            n1, n2 = size * share, max(0.0, (size - 1.0) * (1.0 - share))
        assert self.planning is not None
        now_s = self.planning.a_s + at * (self.planning.b_s - self.planning.a_s)
        span_s = size / (rate1 + rate2) if rate1 + rate2 > 0.0 else 0.0
        return n1, n2, [_extrapolated(side, now_s, span_s) for side in self.sides]

    def _side(self, segment: Segment) -> Side:
        assert segment.inbox is not None
        return self.sides[segment.inbox.side]


def _remembered(history: History, start: float, position: float) -> Range | None:
    if history.count_until(position) - history.count_until(start) <= 0.0:
        return None
    born0, taken0 = history.first_after(start)
    born1, taken1 = history.last_until(position)
    return min(born0, born1), max(born0, born1), min(taken0, taken1), max(taken0, taken1)


def _extrapolated(side: Side, now_s: float, span_s: float) -> Range | None:
    ahead_s = now_s - side.arrived_s
    born1, taken1 = side.born_s + ahead_s * side.born_per_s, side.taken_s + ahead_s * side.taken_per_s
    return born1 - span_s * side.born_per_s, born1, taken1 - span_s * side.taken_per_s, taken1
