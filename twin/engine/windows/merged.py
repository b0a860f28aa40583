"""When a window is evaluated that counts the tuples of several sides in a fast run: their segments become one line."""

from __future__ import annotations

from dataclasses import dataclass

from twin.engine.segment import Segment
from twin.engine.streams.channel import Inbox
from twin.engine.windows.clumps import clumping
from twin.engine.windows.extent import Extent
from twin.engine.windows.merging import Merger, Piece
from twin.engine.windows.store import Store
from twin.engine.windows.trigger import MERGE_ABOVE, Trigger
from twin.engine.windows.turns import Turns

ROOM = 0.25
"""Part of a channel that may be free where a side is said to wait: credits come back by half segments."""


@dataclass(frozen=True, slots=True)
class Merged:
    """How far a trigger was."""

    merger: Merger
    position: float


class MergedTrigger(Trigger):
    """Evaluates every `slide` tuples of all sides."""

    __slots__ = ("_bursts", "_merger", "_mixes", "_position", "_turns")

    def __init__(self, extent: Extent, store: Store) -> None:
        super().__init__(extent, store)
        self._merger = Merger(len(store.histories))
        self._turns = Turns(len(store.histories))
        self._bursts = False  # a side brings results of other windows, several at once
        self._mixes = False
        self._position = 0.0  # tuples merged so far

    def start(self) -> None:
        """It asks when a segment came to be known."""
        self.window.station.dates = True

    def plan(self, segment: Segment) -> float:
        """Evaluates the windows that are complete once this segment is known."""
        work_s = 0.0
        self._turns.take(segment.inbox.side, segment.n)
        self._bursts |= segment.beyond is not None or segment.clump > 0.0
        self._mixes = not self._bursts and _waits(segment.inbox) and self._all_wait()
        if not self._mixes:
            self._turns.forget()
        for from_s, to_s, parts in self._merger.add(segment.inbox.side, segment, segment.came_s):
            work_s += self._stretch(from_s, to_s, parts, segment)
        return work_s

    def _stretch(self, from_s: float, to_s: float, parts: list[tuple[int, Piece]], segment: Segment) -> float:
        """Appends a stretch to the histories; CPU seconds of the evaluations that fall into it."""
        before, sides, slide = self._position, self.store.histories, self.slide
        n, whole, clumped = 0.0, 0, False
        for _, piece in parts:
            n += piece.n
            whole += piece.whole
            clumped |= piece.clump > 0.0
        self._position = after = before + n
        self.store.clumping = 0.0
        if self._mixes:
            for side, count, stamps in self._turns.mixed(parts):
                sides[side].add(before, after, count, stamps)
            self.store.unseen_mix = 1.0
        else:
            for side, piece in parts:
                sides[side].add(before, after, piece.n, piece.stamps)
            self.store.unseen_mix = unseen = whole / (whole + self.size) if len(parts) > 1 else 0.0
            if clumped:
                clumps = [clumping(piece.clump, piece.n / n, self.size) for _, piece in parts]
                self.store.clumping = unseen * sum(clumps)
        first, last = int(before // slide) + 1, int(after // slide)
        if last < first:
            return 0.0
        work_s, k = 0.0, first
        pace_s = (to_s - from_s) / n  # a tuple
        while k <= last:
            # windows that reach back behind this stretch differ from each other; those within it are alike
            fires = last - k + 1 if k * slide - self.size >= before else 1
            if fires <= MERGE_ABOVE:
                fires = 1
            end = k + fires - 1
            if from_s == to_s == segment.a_s:  # a burst, whose tuples are served one after the other
                work_s += self.window.fire(end * slide, fires, (k * slide - before) / n, (end * slide - before) / n)
            else:
                first_s, last_s = from_s + (k * slide - before) * pace_s, from_s + (end * slide - before) * pace_s
                work_s += self._fire_between(segment, end * slide, fires, first_s, last_s)
            k = end + 1
        self.store.forget((last + 1) * slide - self.size)
        self.store.left += self._merger.held
        return work_s

    def _all_wait(self) -> bool:
        """Whether the channels of all sides are full, or nearly so."""
        return all(_waits(inbox) for inbox in self.window.station.inputs.inboxes)

    def _fire_between(self, segment: Segment, position: float, fires: int, first_s: float, last_s: float) -> float:
        """Evaluates; the results leave with the segment's tuples, or as much before or after them as they were due."""
        a_s, b_s = segment.a_s, segment.b_s
        low, high, early_s = 0.0, 0.0, 0.0
        if last_s < a_s:
            early_s = a_s - last_s
        elif last_s > b_s:
            low, high, early_s = 1.0, 1.0, b_s - last_s
        elif b_s > a_s:
            low, high = max(0.0, (first_s - a_s) / (b_s - a_s)), (last_s - a_s) / (b_s - a_s)
        return self.window.fire(position, fires, low, high, early_s)

    def origin(self) -> float:
        """What was merged."""
        return self._position

    def snapshot(self) -> object:
        """What was merged, and what is not yet."""
        return Merged(self._merger.copy(), self._position)

    def restore(self, kept: object, at_s: float, now_s: float) -> None:
        """Goes back there."""
        assert isinstance(kept, Merged)
        self._merger, self._position = kept.merger.copy(), kept.position
        self._turns.forget()


def _waits(inbox: Inbox) -> bool:
    return inbox.credits <= ROOM * inbox.capacity
