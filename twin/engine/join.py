"""Windowed join of two or more sides: matching tuples, one a side, at each evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from twin.engine.history import History
from twin.engine.oldest import oldest
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
    """Matches are Poisson with mean selectivity * |W1| * |W2| * ..., or amplification * tuples since the last time."""

    __slots__ = (
        "amplification",
        "selectivity",
        "sides",
    )

    def __init__(
        self, *args: Any, sides: int, selectivity: float | None, amplification: float | None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.selectivity = selectivity
        self.amplification = amplification
        self.sides = tuple(Side(History()) for _ in range(sides))

    def remember(self, segment: Segment, low: float, high: float) -> None:
        """Adds a piece to the history of the segment's side."""
        side = self._side(segment)
        side.note(segment)
        side.history.add(low, high, segment.n, (segment.born0_s, segment.born1_s, segment.taken0_s, segment.taken1_s))

    def correct(self, segment: Segment, low: float, high: float) -> None:
        """Moves the last piece of the segment's side."""
        self._side(segment).history.correct_last(low if segment.n > 1 else high, high)

    def forget(self, position: float) -> None:
        """Forgets what lies before the next window, on all sides."""
        for side in self.sides:
            side.history.forget_until(position)
        self.state_tuples = sum(side.history.held() for side in self.sides)

    def evaluate(self, position: float, fires: int, low: float, high: float) -> tuple[Results | None, float]:
        """Draws the matches of the window's sides; a match is as old as the oldest of its tuples."""
        start = position - self.size
        if self.by_time or self.exact or any(side.bursty for side in self.sides):
            contents = [side.history.count_until(position) - side.history.count_until(start) for side in self.sides]
            ranges = [_remembered(side.history, start, position) for side in self.sides]
        else:
            contents, ranges = self._by_rates(position, fires, high)
        work_s = self.scan_s * sum(contents) * fires
        matches = self._matches(position, contents, fires)
        known = [each for each in ranges if each is not None]
        if matches <= 0 or not known or (self.amplification is None and len(known) < len(ranges)):
            return None, work_s
        # a measured rate of results holds whether or not a short window has all sides
        known = [each or known[0] for each in ranges]
        work_s += self.result_s * matches
        born_s, born_half_s = oldest([(each[0], each[1]) for each in known])
        taken_s, taken_half_s = oldest([(each[2], each[3]) for each in known])
        if fires > 1:  # the same ages at each: the stamps advance with the evaluations
            advance_s = self.slide * (fires - 1) / max(1e-12, sum(side.rate_per_s for side in self.sides))
            born_per_s = sum(side.born_per_s for side in self.sides) / len(self.sides)
            taken_per_s = sum(side.taken_per_s for side in self.sides) / len(self.sides)
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

    def _matches(self, position: float, contents: list[float], fires: int) -> int:
        if self.amplification is None:
            assert self.selectivity is not None
            return self.draws.poisson(math.prod(contents, start=self.selectivity) * fires)
        if self.by_time:
            since = position - self.slide
            fresh = sum(side.history.count_until(position) - side.history.count_until(since) for side in self.sides)
        else:
            fresh = self.slide * fires
        return self.draws.rounded(self.amplification * fresh)

    def _by_rates(self, position: float, fires: int, at: float) -> tuple[list[float], list[Range | None]]:
        """All sides smooth: a short count window holds them in proportion to their rates.

        The segments of the sides overlap in time but are served one after the other, so the order in which they
        were remembered would put whole windows on one side.
        """
        rates = [side.rate_per_s for side in self.sides]
        total = sum(rates)
        size = min(self.size, position)
        contents: list[float] = []
        left, others = size, 1.0  # tuples and share of the sides not yet counted
        for rate in rates[:-1]:
            share = rate / total if total > 0.0 else 1.0 / len(rates)
            if fires == 1:
                n = float(self.draws.binomial(int(left), min(1.0, share / others))) if others > 0.0 else 0.0
                left -= n
            else:  # E[n1 n2 ...] = size (size - 1) ... share1 share2 ...
                n = max(0.0, size - len(contents)) * share
            contents.append(n)
            others -= share
        contents.append(left if fires == 1 else max(0.0, (size - len(contents)) * others))
        assert self.planning is not None
        now_s = self.planning.a_s + at * (self.planning.b_s - self.planning.a_s)
        span_s = size / total if total > 0.0 else 0.0
        return contents, [_extrapolated(side, now_s, span_s) for side in self.sides]

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
