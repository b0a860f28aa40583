"""What a window remembers: tuples as linear pieces over a position (time, or a running count), with their stamps."""

from __future__ import annotations

from bisect import bisect_right

Stamps = tuple[float, float, float, float]
"""Of the first and last tuple of a piece: born0, born1, taken0, taken1."""
FORESEEN = 2.0
"""Lengths of the last piece for which its successor is taken for granted."""
RECENT = 4
"""Pieces whose rate is the rate of what is foreseen."""
TRIM = 512
"""Forgotten pieces are cut off in blocks of this many."""


class History:
    """Pieces in order of their positions; each holds n tuples over (low, high], or at one point if low = high."""

    __slots__ = ("_foreseen", "_start", "counts", "highs", "lows", "stamps", "total")

    def __init__(self) -> None:
        self.lows: list[float] = []
        self.highs: list[float] = []
        self.counts: list[float] = []  # tuples up to the end of each piece
        self.stamps: list[Stamps] = []
        self.total = 0.0
        self._foreseen = 0.0
        self._start = 0  # pieces before this one are forgotten

    def add(self, low: float, high: float, n: float, stamps: Stamps) -> None:
        """Appends n tuples. Positions must not run backwards; an overlap with the last piece is cut off."""
        if self.highs and high < self.highs[-1]:
            high = self.highs[-1]
        self.lows.append(min(low, high))
        self.highs.append(high)
        self.total += n
        self.counts.append(self.total)
        self.stamps.append(stamps)

    def correct_last(self, low: float, high: float) -> None:
        """Moves the last piece to where it really was served."""
        if len(self.highs) > 1:
            high = max(high, self.highs[-2])
        self.lows[-1], self.highs[-1] = min(low, high), high

    def foresee(self, position: float) -> bool:
        """Appends what the piece under way will bring until `position`, if tuples come smoothly; `recall` undoes it.

        True if it appended anything.
        """
        first = len(self.highs) - 1 - RECENT  # a mean rate over a few pieces: one may be short by chance
        if first < 0:
            return False
        low, high = self.lows[-1], self.highs[-1]
        ahead = min(position - high, FORESEEN * (high - low))
        tuples = self.total - self.counts[first] - 1.0  # (k - 1) / time is unbiased
        if ahead <= 0.0 or tuples <= 0.0:
            return False
        self._foreseen = ahead * tuples / (high - self.highs[first])
        born0, born1, taken0, taken1 = self.stamps[-1]
        slope = ahead / (high - low)
        stamps = born1, born1 + slope * (born1 - born0), taken1, taken1 + slope * (taken1 - taken0)
        self.add(high, high + ahead, self._foreseen, stamps)
        return True

    def recall(self) -> None:
        """Takes back what was foreseen."""
        if self._foreseen:
            for column in (self.lows, self.highs, self.counts, self.stamps):
                column.pop()
            self.total -= self._foreseen
            self._foreseen = 0.0

    def count_until(self, position: float) -> float:
        """Tuples at positions <= `position` since the beginning of time."""
        index = bisect_right(self.highs, position, self._start)
        before = self.counts[index - 1] if index > 0 else 0.0
        if index < len(self.highs) and self.lows[index] < position:
            low = self.lows[index]
            before += (self.counts[index] - before) * (position - low) / (self.highs[index] - low)
        return before

    def first_after(self, position: float) -> tuple[float, float]:
        """(born, taken) of the first tuple beyond `position`; of the last there is if none."""
        index = bisect_right(self.highs, position, self._start)
        if index == len(self.highs):
            return self._at(index - 1, 1.0)
        low, high = self.lows[index], self.highs[index]
        return self._at(index, max(0.0, (position - low) / (high - low)) if high > low else 0.0)

    def last_until(self, position: float) -> tuple[float, float]:
        """(born, taken) of the last tuple at or before `position`; of the first there is if none."""
        index = bisect_right(self.highs, position, self._start)
        if index < len(self.highs) and self.lows[index] < position:
            low = self.lows[index]
            return self._at(index, (position - low) / (self.highs[index] - low))
        return self._at(index - 1, 1.0) if index > self._start else self._at(index, 0.0)

    def forget_until(self, position: float) -> None:
        """Drops the pieces that end at or before `position`."""
        self._start = bisect_right(self.highs, position, self._start)
        if self._start >= TRIM and self._start * 2 >= len(self.highs):
            cut = self._start - 1  # the one before gives the count so far
            for column in (self.lows, self.highs, self.counts, self.stamps):
                del column[:cut]
            self._start = 1

    def held(self) -> float:
        """Tuples not yet forgotten."""
        return self.total - (self.counts[self._start - 1] if self._start > 0 else 0.0)

    def _at(self, index: int, share: float) -> tuple[float, float]:
        born0, born1, taken0, taken1 = self.stamps[index]
        return born0 + share * (born1 - born0), taken0 + share * (taken1 - taken0)
