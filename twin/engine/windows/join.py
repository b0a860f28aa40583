"""Windowed join of two or more sides: matching tuples, one a side, at each evaluation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import simpy

from twin.engine.segment import Segment
from twin.engine.snapshot import Snapshot
from twin.engine.windows.history import History
from twin.engine.windows.key_law import KeyLaw
from twin.engine.windows.matches import Matches
from twin.engine.windows.merging import Merger, Piece
from twin.engine.windows.mixture import oldest_of_each, spreads
from twin.engine.windows.oldest import oldest
from twin.engine.windows.window import MERGE_ABOVE, Results, WindowSnapshot, WindowTask
from twin.query import CountWindow, TimeWindow

if TYPE_CHECKING:
    from twin.engine.compute.processor import Processor
    from twin.engine.draws import Draws
    from twin.engine.streams.keys import KeyGroups


class JoinSnapshot(WindowSnapshot):
    """And how far its sides were merged, and what had matched."""

    __slots__ = ("matches", "merger", "position", "unseen_mix")

    def __init__(self, task: JoinTask) -> None:
        super().__init__(task)
        self.merger = task._merger.copy() if task._merger is not None else None
        self.position = task._position
        self.unseen_mix = task._unseen_mix
        self.matches = task.matches.copy()


class JoinTask(WindowTask):
    """Matches: selectivity * |W1| * |W2| * ... on average, and by the law of its keys; or amplification * fresh tuples.

    keyed: sides that are dealt by key; of others, all tuples are here.
    """

    __slots__ = (
        "_merger",
        "_position",
        "_unseen_mix",
        "amplification",
        "keyed",
        "law",
        "matches",
        "selectivity",
    )

    def __init__(
        self,
        env: simpy.Environment,
        name: str,
        processor: Processor,
        draws: Draws,
        service_s: float,
        service_scv: float,
        exact: bool,
        window: CountWindow | TimeWindow,
        result_s: float,
        scan_s: float,
        sides: int,
        keyed: int,
        selectivity: float | None,
        amplification: float | None,
    ) -> None:
        super().__init__(env, name, processor, draws, service_s, service_scv, exact, window, result_s, scan_s)
        self.selectivity = selectivity
        self.amplification = amplification
        self.histories = tuple(History() for _ in range(sides))
        self.keyed = keyed
        self.law = self.law_of(1.0)
        self.matches = Matches(self.size, self.slide)
        self._merger = None if self.exact or self.by_time else Merger(sides)
        self._position = 0.0  # tuples merged so far
        self._unseen_mix = 0.0  # how far segments hide the order of the tuples of several sides

    def law_of(self, share: float) -> KeyLaw:
        """How tuples match where that share of the keys, > 0, is, all alike: fewer pairs, likelier matches."""
        sides = len(self.histories)
        share **= max(0, self.keyed - 1) / (sides - 1)
        return KeyLaw.even(self.selectivity or 0.0, sides, share)

    # what is remembered --------------------------------------------------------------------------------------------

    def remember(self, segment: Segment, low: float, high: float) -> None:
        """Adds a piece to the history of the segment's side."""
        stamps = (segment.born0_s, segment.born1_s, segment.taken0_s, segment.taken1_s)
        self._side(segment).add(low, high, segment.n, stamps)

    def correct(self, segment: Segment, low: float, high: float) -> None:
        """Moves the last piece of the segment's side."""
        self._side(segment).correct_last(low if segment.n > 1 else high, high)

    def forget(self, position: float) -> None:
        """Forgets what lies before the next window, on all sides."""
        for side in self.histories:
            side.forget_until(position)
        self.state_tuples = sum([side.held() for side in self.histories])
        if self._merger is not None:
            self.state_tuples += self._merger.held

    def _side(self, segment: Segment) -> History:
        assert segment.inbox is not None
        return self.histories[segment.inbox.side]

    def snapshot(self) -> Snapshot:
        """See WindowTask."""
        return JoinSnapshot(self)

    def restore(self, snapshot: Snapshot, at_s: float, now_s: float) -> int:
        """See WindowTask."""
        assert isinstance(snapshot, JoinSnapshot)
        self._merger = snapshot.merger.copy() if snapshot.merger is not None else None
        self._position, self._unseen_mix = snapshot.position, snapshot.unseen_mix
        self.matches = snapshot.matches.copy()
        return super().restore(snapshot, at_s, now_s)

    def sizes(self) -> list[float]:
        """Of the sides' tuples."""
        by_side = {inbox.side: inbox.tuple_bytes for inbox in self.inputs.inboxes}
        return [by_side[side] for side in range(len(self.histories))]

    def window_bytes(self) -> float:
        """What waits to be merged is as large as what is held."""
        if not self.state_tuples:
            return 0.0
        held = self.held()
        return self.state_tuples * (self.held_bytes() / held if held > 0.0 else self.inputs.tuple_bytes())

    def origin(self) -> float:
        """See WindowTask; of merged sides, the tuples that were merged."""
        return self._position if self._merger is not None else super().origin()

    def settle(self) -> None:
        """Matches of tuples that come or go are drawn anew."""
        super().settle()
        self.matches.clear()

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """See Task."""
        law = keys.law(replica, self.selectivity or 0.0, len(self.histories))
        if law is not None:
            self.law = law

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
        work_s = 0.0
        for from_s, to_s, parts in self._merger.add(segment.inbox.side, segment, segment.came_s):
            work_s += self._stretch(from_s, to_s, parts, segment)
        return work_s

    def _stretch(self, from_s: float, to_s: float, parts: list[tuple[int, Piece]], segment: Segment) -> float:
        """Appends a stretch to the histories; CPU seconds of the evaluations that fall into it."""
        before, sides, slide = self._position, self.histories, self.slide
        n, whole = 0.0, 0
        for _, piece in parts:
            n += piece.n
            whole += piece.whole
        self._position = after = before + n
        for side, piece in parts:
            sides[side].add(before, after, piece.n, piece.stamps)
        self._unseen_mix = whole / (whole + self.size) if len(parts) > 1 else 0.0
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
                work_s += self._fire(end * slide, fires, (k * slide - before) / n, (end * slide - before) / n)
            else:
                first_s, last_s = from_s + (k * slide - before) * pace_s, from_s + (end * slide - before) * pace_s
                work_s += self._fire_between(segment, end * slide, fires, first_s, last_s)
            k = end + 1
        self.forget((last + 1) * slide - self.size)
        return work_s

    def _fire_between(self, segment: Segment, position: float, fires: int, first_s: float, last_s: float) -> float:
        """Evaluates; the results leave with the segment's tuples, or as much before or after them as they were due."""
        a_s, b_s = segment.a_s, segment.b_s
        planned, low, high, early_s = len(self._planned), 0.0, 0.0, 0.0
        if last_s < a_s:
            early_s = a_s - last_s
        elif last_s > b_s:
            low, high, early_s = 1.0, 1.0, b_s - last_s
        elif b_s > a_s:
            low, high = max(0.0, (first_s - a_s) / (b_s - a_s)), (last_s - a_s) / (b_s - a_s)
        work_s = self._fire(position, fires, low, high)
        if early_s != 0.0:
            for results in self._planned[planned:]:
                results.early_s = early_s
        return work_s

    # evaluations ---------------------------------------------------------------------------------------------------

    def evaluate(self, position: float, fires: int, low: float, high: float) -> tuple[Results | None, float]:
        """Draws the matches of the window's sides; a match is as old as the oldest of its tuples."""
        start = position - self.size
        since = [side.count_until(start) for side in self.histories]
        until = [side.count_until(position) for side in self.histories]
        contents = [after - before for before, after in zip(since, until, strict=True)]
        work_s = self.scan_s * sum(contents) * fires
        if self.amplification is None:
            matches = self.matches.count(self.draws, self.law, since, until, fires, self._crowding(sum(contents)))
        else:
            matches = self._measured(position, fires)
        if matches <= 0:
            return None, work_s
        ages = self._ages(start, position, contents)
        if ages is None:
            return None, work_s
        work_s += self.result_s * matches
        (born_s, born_half_s), (taken_s, taken_half_s) = ages
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
        back = (fires - 1) * self.slide  # the same contents and ages at each: the stamps advance with the positions
        first = self._ages(start - back, position - back, contents)
        assert first is not None
        return Results(matches, low, high, first[0][0], born_s, first[1][0], taken_s), work_s

    def _ages(
        self, start: float, position: float, contents: list[float]
    ) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """Mean and half-width of the birth, and of the ingestion, of the oldest tuple of a match in a window."""
        if any(side.unsettled(start) for side, n in zip(self.histories, contents, strict=True) if n > 0.0):
            return self._ages_of_eras(start, position, contents)
        born, taken = [], []
        for side, n in zip(self.histories, contents, strict=True):
            if n > 0.0:
                born0, taken0 = side.first_after(start)
                born1, taken1 = side.last_until(position)
                born.append((born0, born1) if born0 <= born1 else (born1, born0))
                taken.append((taken0, taken1) if taken0 <= taken1 else (taken1, taken0))
            elif self.amplification is None:
                return None
        # with a given amplification a short window may lack a side: it is a measured rate of results
        return (oldest(born), oldest(taken)) if born else None

    def _ages_of_eras(
        self, start: float, position: float, contents: list[float]
    ) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """The same where tuples of the window waited for a restart."""
        sides = [
            spreads(side.spans(start, position)) for side, n in zip(self.histories, contents, strict=True) if n > 0.0
        ]
        if len(sides) < len(contents) and self.amplification is None:
            return None
        return oldest_of_each([born for born, _ in sides]), oldest_of_each([taken for _, taken in sides])

    def _measured(self, position: float, fires: int) -> int:
        """Results by the amplification."""
        assert self.amplification is not None
        if self.by_time:
            since = position - self.slide
            fresh = sum([side.count_until(position) - side.count_until(since) for side in self.histories])
        else:
            fresh = self.slide * fires
        return self.draws.rounded(self.amplification * fresh)

    def _crowding(self, content: float) -> float:
        """E[n1 n2 ...] over the product of the means: w tuples of random sides are multinomial, (w - 1) / w for two.

        Segments much shorter than the window vary as their tuples do; what they do not show is 1 / (1 + w / segment).
        """
        if self._unseen_mix == 0.0:
            return 1.0
        return math.prod(max(0.0, 1.0 - self._unseen_mix * k / content) for k in range(1, len(self.histories)))
