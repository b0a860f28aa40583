"""A source's logic: stamps tuples with the time at which they were taken, and may note them to read them again."""

from __future__ import annotations

from twin.engine.logic import Logic
from twin.engine.segment import Segment


class SourceLogic(Logic):
    """Passes every tuple of a broker on."""

    def __init__(self) -> None:
        super().__init__()
        self.law = "in = out + in service + stopped"

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """Stamps the tuples."""
        self.stamp(segment)
        super().emit(segment, first_s, last_s)

    def stamp(self, segment: Segment) -> None:
        """Taken as the service of each began."""
        _, start_s, end_s, time_s = self.station.current
        each_s = time_s / segment.n
        older_s = segment.taken0_s  # the varied part of a hidden wait, see PollingTask.shift
        segment.taken0_s = start_s - older_s
        last_s = end_s - each_s
        segment.taken1_s = (last_s if last_s > start_s else start_s) - older_s


class ReplayableSource(SourceLogic):
    """`log`: copies of all that it took and had not emitted at the last checkpoint, or took since; `forgotten`: how
    many it took before.
    """

    __slots__ = ("forgotten", "log")

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Segment] = []
        self.forgotten = 0

    def plan(self, segment: Segment) -> float:
        """Called for each segment taken, with the broker's stamps still on it."""
        self.log.append(segment.copy())
        return super().plan(segment)

    def snapshot(self, again: bool) -> object:
        """How many segments it took and emitted. Its queue is the broker's, which loses nothing."""
        return self.forgotten + len(self.log) - (1 if again else 0)

    def complete(self, kept: object, now_s: float) -> None:
        """It will not read them again."""
        assert isinstance(kept, int)
        del self.log[: kept - self.forgotten]
        self.forgotten = kept

    def restore(self, kept: object, at_s: float, now_s: float) -> int:
        """Goes back to there."""
        assert isinstance(kept, int)
        again = self.log[kept - self.forgotten :]
        del self.log[kept - self.forgotten :]
        for segment in again:
            segment.waited = True
        self.station.queue.extendleft(reversed(again))
        tuples = sum([segment.n for segment in again])
        self.station.queued += tuples
        return tuples
