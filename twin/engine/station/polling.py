"""The station of a source: its queue is the broker's, which is without bound and loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twin.engine.segment import Segment
from twin.engine.snapshot import Snapshot
from twin.engine.station.task import Task

if TYPE_CHECKING:
    from twin.engine.logic import Logic
    from twin.engine.station.setup import Setup


def _nothing() -> None:
    """What a source without a broker gets."""


class PollingTask(Task):
    """A tuple is taken when its service starts.

    A source that is far `behind` has only the next few segments in its queue, and gets more by `refill`.
    """

    __slots__ = ("behind", "refill")

    def __init__(self, setup: Setup, logic: Logic) -> None:
        super().__init__(setup, logic)
        self.polls = True
        self.behind = False
        self.refill: Callable[[], None] = _nothing

    def work(self) -> None:
        """Serves what is there, and what the broker keeps besides."""
        Task.work(self)
        while self.behind and not (self.queue or self.busy or self.blocked or self.halted):
            self.refill()
            Task.work(self)

    def held_back(self, segment: Segment, since_s: float) -> None:
        """A tuple is taken when the one before it has left: those that are held back are taken later."""
        a_s, b_s = segment.a_s, segment.b_s
        super().held_back(segment, since_s)
        segment.taken0_s += segment.a_s - a_s
        segment.taken1_s += segment.b_s - b_s

    def shift(self, segment: Segment, wait_s: float, varied_s: float) -> None:
        """A wait in front of the source is a wait in the broker: tuples are older, but not taken earlier."""
        segment.born0_s -= wait_s + varied_s
        segment.born1_s -= wait_s + varied_s
        segment.taken0_s = varied_s

    def snapshot(self) -> Snapshot:
        """Without the queue, and without what is in service: it notes what it takes, and reads it again."""
        snapshot = super().snapshot()
        snapshot.queue = []
        return snapshot

    def stop(self) -> None:
        """What it has not taken yet stays."""
        waiting, queued = self.queue.copy(), self.queued
        super().stop()
        self.queue.extend(waiting)
        self.queued = queued

    def lost(self) -> int:
        """Nothing of what waits."""
        return 0
