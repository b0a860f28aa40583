"""What a window remembers: tuples as linear pieces over a position (time, or a running count), with their stamps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from twin.engine.windows.recent import Recent
from twin.engine.windows.state import Piece, Stamps

Span = tuple[float, list[tuple[float, float]]]
"""Tuples of one era: how many, and (born, taken) of some of them, evenly many apart, from the first to the last."""
PARTS = 8
"""Into so many a span of many tuples is divided: those that waited for a restart were taken faster than they came."""
FORESEEN = 2.0
"""Lengths of the last piece for which its successor is taken for granted."""
TRIM = 512
"""Forgotten pieces are cut off in blocks of this many."""


class History:
    """Pieces in order of their positions; each holds n tuples over (low, high], or at one point if low = high.

    A restart of the job puts a gap into the ages: tuples that were taken before it meet others that were read again.
    They are of different eras, which `restarts` divide. `breaks`: at which count a piece of another era follows, and
    of which.
    """

    __slots__ = (
        "_era",
        "_first_era",
        "_foreseen",
        "_owed",
        "_owed_until",
        "_start",
        "breaks",
        "counts",
        "flows",
        "highs",
        "lows",
        "recent",
        "restarts",
        "resumed_s",
        "stamps",
        "total",
    )

    def __init__(self) -> None:
        self.lows: list[float] = []
        self.highs: list[float] = []
        self.counts: list[float] = []  # tuples up to the end of each piece
        self.stamps: list[Stamps] = []
        self.total = 0.0
        self._foreseen = 0.0
        self._owed = 0.0  # tuples that a window has taken for granted, up to that position, and that have yet to come
        self._owed_until = 0.0
        self.recent = Recent()
        self.flows = False  # tuples are served while others of their segment still come
        self._start = 0  # pieces before this one are forgotten
        self.breaks: list[tuple[float, int]] = []
        self.restarts: list[float] = []  # ascending; what was taken later is of a later era
        self.resumed_s = 0.0  # the last restart
        self._first_era = self._era = 0  # of the oldest piece and of the last

    def copy(self) -> History:
        """Another one of the same content."""
        other = History()
        other.lows, other.highs = self.lows.copy(), self.highs.copy()
        other.counts, other.stamps = self.counts.copy(), self.stamps.copy()
        other.total, other._foreseen, other._start = self.total, self._foreseen, self._start
        other.breaks, other.restarts = self.breaks.copy(), self.restarts.copy()
        other.resumed_s, other._first_era, other._era = self.resumed_s, self._first_era, self._era
        other.flows, other._owed, other._owed_until = self.flows, self._owed, self._owed_until
        other.recent = self.recent.copy()
        return other

    def pieces(self) -> list[Piece]:
        """What is not yet forgotten."""
        start = self._start
        before = [self.counts[start - 1] if start else 0.0, *self.counts[start:]][:-1]
        return [
            (low, high, float(count - less), stamps)
            for low, high, count, less, stamps in zip(
                self.lows[start:], self.highs[start:], self.counts[start:], before, self.stamps[start:], strict=True
            )
        ]

    def replaced(self, pieces: list[Piece]) -> History:
        """Another one of the same job, that holds these pieces instead."""
        other = History()
        other.restarts, other.resumed_s = self.restarts, self.resumed_s
        for low, high, n, stamps in pieces:
            other.add(low, high, n, stamps)
        return other

    def restarted(self, checkpoint_s: float, now_s: float) -> None:
        """The job went back to a checkpoint: what it held was taken before that, all else is taken from now on.

        A sampled wait makes tuples look a little older than they are, so eras part halfway.
        """
        self.restarts.append((checkpoint_s + now_s) / 2)
        self.resumed_s = now_s

    def unsettled(self, start: float) -> bool:
        """Whether what lies after a position waited for a restart: then ages do not rise evenly."""
        return self.resumed_s > 0.0 and self.first_after(start)[0] < self.resumed_s

    def add(self, low: float, high: float, n: float, stamps: Stamps) -> None:
        """Appends n tuples. Positions must not run backwards; an overlap with the last piece is cut off.

        Those that a window took for granted lie there: whoever evaluates had served them when it was blocked.
        """
        if self._owed > 0.0:
            low, n, stamps = self._repaid(low, n, stamps)
            if n <= 0.0:
                return
        self._append(low, high, n, stamps)

    def _repaid(self, low: float, n: float, stamps: Stamps) -> tuple[float, float, Stamps]:
        """Puts the first of the tuples where they were foreseen; what is left of the piece."""
        came = self._owed if self._owed < n else n
        share, end = came / n, self.highs[-1]
        until = end + (self._owed_until - end) * came / self._owed
        born0, born1, taken0, taken1 = stamps
        born, taken = born0 + share * (born1 - born0), taken0 + share * (taken1 - taken0)
        self._owed -= came
        self._append(end, until, came, (born0, born, taken0, taken))
        return (low if low > until else until), n - came, (born, born1, taken, taken1)

    def _append(self, low: float, high: float, n: float, stamps: Stamps) -> None:
        highs = self.highs
        if highs and high < highs[-1]:
            high = highs[-1]
        if self.restarts:
            self._date(stamps)
        self.lows.append(low if low < high else high)
        highs.append(high)
        self.total += n
        self.counts.append(self.total)
        self.stamps.append(stamps)

    def _date(self, stamps: Stamps) -> None:
        era = bisect_right(self.restarts, stamps[3])
        if era != self._era:
            self.breaks.append((self.counts[-1] if self.counts else 0.0, era))
            self._era = era

    def correct_last(self, low: float, high: float) -> None:
        """Moves the last piece to where it really was served, but not what a window has had already."""
        if self._owed_until >= self.highs[-1]:
            return
        if len(self.highs) > 1:
            high = max(high, self.highs[-2])
        self.lows[-1], self.highs[-1] = min(max(low, self._owed_until), high), high

    def came(self, n: int, last_s: float, flows: bool) -> None:
        """A segment of n tuples is served, of which the last came then. flows: see there."""
        self.flows = flows
        self.recent.add(n, last_s)

    def foresee(self, position: float) -> bool:
        """Appends what the piece under way will bring until `position`, if tuples come smoothly; `recall` undoes it.

        True if it appended anything. Where tuples wait for longer than a piece, all that is served by now is known.
        """
        if not self.flows:
            return False
        low, high = self.lows[-1], self.highs[-1]
        ahead = min(position - high, FORESEEN * (high - low))
        foreseen = ahead * self.recent.rate_per_s()  # at which they come: after a block they are served faster
        if foreseen <= 0.0:
            return False
        self._foreseen = foreseen
        born0, born1, taken0, taken1 = self.stamps[-1]
        slope = ahead / (high - low)
        stamps = born1, born1 + slope * (born1 - born0), taken1, taken1 + slope * (taken1 - taken0)
        restarts, self.restarts = self.restarts, []  # it goes on as the last piece, whatever its stamps
        self._append(high, high + ahead, self._foreseen, stamps)
        self.restarts = restarts
        return True

    def recall(self) -> None:
        """Takes back what was foreseen, until it comes."""
        if self._foreseen:
            self._owed, self._owed_until = self._foreseen, self.highs[-1]
            for column in (self.lows, self.highs, self.counts, self.stamps):
                column.pop()
            self.total -= self._foreseen
            self._foreseen = 0.0

    def count_until(self, position: float) -> float:
        """Tuples at positions <= `position` since the beginning of time."""
        highs, counts = self.highs, self.counts
        index = bisect_right(highs, position, self._start)
        before = counts[index - 1] if index > 0 else 0.0
        if index < len(highs):
            low = self.lows[index]
            if low < position:
                before += (counts[index] - before) * (position - low) / (highs[index] - low)
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

    def piece_after(self, position: float) -> Stamps:
        """Of the piece in which the first tuple beyond `position` is; of the last there is if none."""
        return self.stamps[min(bisect_right(self.highs, position, self._start), len(self.highs) - 1)]

    def piece_until(self, position: float) -> Stamps:
        """Of the piece in which the last tuple at or before `position` is; of the first there is if none."""
        index = bisect_right(self.highs, position, self._start)
        inside = index < len(self.highs) and self.lows[index] < position
        return self.stamps[index if inside else max(index - 1, self._start)]

    def spans(self, start: float, end: float) -> list[Span]:
        """What lies between two positions, in order of its eras."""
        before, until = self.count_until(start), self.count_until(end)
        era, stretches = self._first_era, dict[int, list[tuple[float, float]]]()
        for count, other in self.breaks:
            if before < count < until:
                stretches.setdefault(era, []).append((before, count))
                before = count
            era = other if count < until else era
        stretches.setdefault(era, []).append((before, until))
        return [self._span(stretches[era]) for era in sorted(stretches)]

    def _span(self, stretches: list[tuple[float, float]]) -> Span:
        """From counts to counts; several where late tuples of another era came in between."""
        n = sum([high - low for low, high in stretches])
        if len(stretches) > 1 or n < 2 * PARTS:
            ends = [self._stamps_at(count, side) for low, high in stretches for count, side in ((low, 1), (high, 0))]
            born, taken = zip(*ends, strict=True)
            return n, [(min(born), min(taken)), (max(born), max(taken))]
        low = stretches[0][0]
        inner = [self._stamps_at(low + k * n / PARTS, 0) for k in range(1, PARTS + 1)]
        return n, [self._stamps_at(low, 1), *inner]

    def _stamps_at(self, count: float, after: int) -> tuple[float, float]:
        """Of the tuple at a count; where one piece ends there, of the next if `after`."""
        index = min((bisect_right if after else bisect_left)(self.counts, count), len(self.counts) - 1)
        before = self.counts[index - 1] if index else 0.0
        return self._at(index, min(1.0, (count - before) / (self.counts[index] - before)))

    def forget_until(self, position: float) -> None:
        """Drops the pieces that end at or before `position`."""
        self._start = bisect_right(self.highs, position, self._start)
        while self.breaks and self._start and self.breaks[0][0] <= self.counts[self._start - 1]:
            self._first_era = self.breaks.pop(0)[1]
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
