"""Windowed join of two or more sides: matching tuples, one a side, at each evaluation."""

from __future__ import annotations

import math
from typing import Any

from twin.engine.history import History, Stamps
from twin.engine.merging import Merger, Piece
from twin.engine.oldest import oldest
from twin.engine.segment import Segment
from twin.engine.window import MERGE_ABOVE, Results, WindowTask

NO_STAMPS: Stamps = (0.0, 0.0, 0.0, 0.0)
Range = tuple[float, float, float, float]
"""Stamps of one side's tuples in a window: born from, born to, taken from, taken to."""


class JoinTask(WindowTask):
    """Matches are Poisson with mean selectivity * |W1| * |W2| * ..., or amplification * tuples since the last time."""

    __slots__ = (
        "_merger",
        "_position",
        "_well_mixed",
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
        self.sides = tuple(History() for _ in range(sides))
        self._merger = None if self.exact or self.by_time else Merger(sides)
        self._position = 0.0  # tuples merged so far
        self._well_mixed = History()  # those that came while others' did, as far as segments hide their order

    # what is remembered --------------------------------------------------------------------------------------------

    @property
    def histories(self) -> tuple[History, ...]:
        """Of the sides."""
        return self.sides

    def remember(self, segment: Segment, low: float, high: float) -> None:
        """Adds a piece to the history of the segment's side."""
        stamps = (segment.born0_s, segment.born1_s, segment.taken0_s, segment.taken1_s)
        self._side(segment).add(low, high, segment.n, stamps)

    def correct(self, segment: Segment, low: float, high: float) -> None:
        """Moves the last piece of the segment's side."""
        self._side(segment).correct_last(low if segment.n > 1 else high, high)

    def forget(self, position: float) -> None:
        """Forgets what lies before the next window, on all sides."""
        for side in self.sides:
            side.forget_until(position)
        self.state_tuples = sum(side.held() for side in self.sides)
        if self._merger is not None:
            self._well_mixed.forget_until(position)
            self.state_tuples += self._merger.held

    def _side(self, segment: Segment) -> History:
        assert segment.inbox is not None
        return self.sides[segment.inbox.side]

    # fast count windows: the sides' segments merged into one line --------------------------------------------------

    def deliver(self, segment: Segment) -> None:
        """Notes when a segment came to be known."""
        if self._merger is not None:
            segment.came_s = self.env.now
        super().deliver(segment)

    def plan(self, segment: Segment) -> float:
        """Evaluates the count windows that are complete once this segment is known."""
        if self._merger is None:
            return super().plan(segment)
        assert segment.inbox is not None
        stretches = self._merger.add(segment.inbox.side, segment, segment.came_s)
        return sum(self._stretch(from_s, to_s, parts, segment) for from_s, to_s, parts in stretches)

    def _stretch(self, from_s: float, to_s: float, parts: list[tuple[int, Piece]], segment: Segment) -> float:
        """Appends a stretch to the histories; CPU seconds of the evaluations that fall into it."""
        before = self._position
        n = sum(piece.n for _, piece in parts)
        self._position = after = before + n
        for side, piece in parts:
            self.sides[side].add(before, after, piece.n, piece.stamps)
        if len(parts) > 1:
            whole = sum(piece.whole for _, piece in parts)
            self._well_mixed.add(before, after, n * whole / (whole + self.size), NO_STAMPS)
        slide = self.slide
        first, last = int(before // slide) + 1, int(after // slide)
        work_s = 0.0
        k = first
        while k <= last:
            # windows that reach back behind this stretch differ from each other; those within it are alike
            fires = last - k + 1 if k * slide - self.size >= before else 1
            if fires <= MERGE_ABOVE:
                fires = 1
            low, high = ((at * slide - before) / n for at in (k, k + fires - 1))
            low_s, high_s = (from_s + at * (to_s - from_s) for at in (low, high))
            work_s += self._fire_between(segment, (k + fires - 1) * slide, fires, (low, high), (low_s, high_s))
            k += fires
        if last >= first:
            self.forget((last + 1) * slide - self.size)
        return work_s

    def _fire_between(
        self, segment: Segment, position: float, fires: int, share: tuple[float, float], at_s: tuple[float, float]
    ) -> float:
        """Evaluates; the results leave with the segment's tuples, or as much before or after them as they were due."""
        a_s, b_s = segment.a_s, segment.b_s
        planned = len(self._planned)
        if b_s > a_s:
            low, high = (min(1.0, max(0.0, (at - a_s) / (b_s - a_s))) for at in at_s)
        else:  # a burst, whose tuples are served one after the other
            low, high = share
        work_s = self._fire(position, fires, low, high)
        for results in self._planned[planned:]:
            results.early_s = max(0.0, a_s - at_s[1]) - max(0.0, at_s[1] - b_s)
        return work_s

    # evaluations ---------------------------------------------------------------------------------------------------

    def evaluate(self, position: float, fires: int, low: float, high: float) -> tuple[Results | None, float]:
        """Draws the matches of the window's sides; a match is as old as the oldest of its tuples."""
        start = position - self.size
        contents = [side.count_until(position) - side.count_until(start) for side in self.sides]
        work_s = self.scan_s * sum(contents) * fires
        matches = self._matches(position, contents, fires)
        if matches <= 0:
            return None, work_s
        born, taken = self._ages(start, position)
        if born is None or taken is None:
            return None, work_s
        work_s += self.result_s * matches
        (born_s, born_half_s), (taken_s, taken_half_s) = born, taken
        if fires == 1:
            return Results(
                matches,
                low,
                high,
                born_s - born_half_s,
                born_s + born_half_s,
                taken_s - taken_half_s,
                taken_s + taken_half_s,
            ), work_s
        back = (fires - 1) * self.slide  # the same ages at each: the stamps advance with the positions
        born_first, taken_first = self._ages(start - back, position - back)
        assert born_first is not None and taken_first is not None
        return Results(matches, low, high, born_first[0], born_s, taken_first[0], taken_s), work_s

    def _ages(self, start: float, position: float) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
        """Mean and half-width of the birth, and of the ingestion, of the oldest tuple of a match in a window."""
        ranges = [_remembered(side, start, position) for side in self.sides]
        known = [each for each in ranges if each is not None]
        if not known or (self.amplification is None and len(known) < len(ranges)):
            return None, None
        # with a given amplification a short window may lack a side: it is a measured rate of results
        return oldest([(each[0], each[1]) for each in known]), oldest([(each[2], each[3]) for each in known])

    def _matches(self, position: float, contents: list[float], fires: int) -> int:
        if self.amplification is None:
            assert self.selectivity is not None
            mean = math.prod(contents, start=self.selectivity)
            return self.draws.poisson(mean * self._crowding(position, sum(contents)) * fires) if mean > 0.0 else 0
        if self.by_time:
            since = position - self.slide
            fresh = sum(side.count_until(position) - side.count_until(since) for side in self.sides)
        else:
            fresh = self.slide * fires
        return self.draws.rounded(self.amplification * fresh)

    def _crowding(self, position: float, content: float) -> float:
        """E[n1 n2 ...] over the product of the means: w tuples of random sides are multinomial, (w - 1) / w for two.

        Segments much shorter than the window vary as their tuples do; what they do not show is 1 / (1 + w / segment).
        """
        if self._merger is None or content <= 0.0:
            return 1.0
        mixed = self._well_mixed
        share = (mixed.count_until(position) - mixed.count_until(position - self.size)) / content
        return math.prod(max(0.0, 1.0 - share * k / content) for k in range(1, len(self.sides)))


def _remembered(history: History, start: float, position: float) -> Range | None:
    if history.count_until(position) - history.count_until(start) <= 0.0:
        return None
    born0, taken0 = history.first_after(start)
    born1, taken1 = history.last_until(position)
    return min(born0, born1), max(born0, born1), min(taken0, taken1), max(taken0, taken1)
