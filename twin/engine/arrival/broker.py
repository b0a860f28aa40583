"""The message broker in front of a source replica: records arrive by a law and wait without bound."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import deque
from typing import Protocol

from twin.engine.arrival.clock import ArrivalClock, silent
from twin.engine.calendar import Calendar


class Poller(Protocol):
    """Interface of a source's task (`twin.engine.station.task.Task`). queued: records that it will read again."""

    name: str
    queued: int
    tuples_in: int

    def poll_anew(self) -> None:
        """Looks at its broker again: the records to come have changed."""


class Broker:
    """Message broker of one source replica. Arrivals are drawn on demand: nothing happens here while the source is
    busy.

    blocks: times of arrivals in seconds, in blocks as they were drawn; in the first block, the source has taken those
    before `place`. drawn: number of arrivals drawn so far. taken: records that the source has taken, each counted once.
    moved: records that came to another broker and wait here now, less those that went from here to others. factor: on
    the law's rate.
    """

    def __init__(self, env: Calendar, source: Poller, clock: ArrivalClock) -> None:
        self.env = env
        self.source = source
        self.clock = clock
        self.blocks: deque[array[float]] = deque()
        self.place = 0
        self.drawn = 0
        self.taken = 0
        self.moved = 0
        self.factor = 1.0

    def first(self) -> array[float]:
        """Block with the first record that the source has not taken."""
        if self.blocks and self.place == len(self.blocks[0]):
            self.blocks.popleft()
            self.place = 0
        if not self.blocks:
            self._draw()
        return self.blocks[0]

    @property
    def next_s(self) -> float:
        """Time at which the first record that the source has not taken comes, or came."""
        return self.first()[self.place]

    def _draw(self) -> None:
        block = array("d", self.clock.block().tobytes())
        self.blocks.append(block)
        self.drawn += len(block)
        self.env.watch.hold()

    def take(self) -> float:
        """Takes the first record; returns the time at which it came."""
        at_s = self.next_s
        self.place += 1
        self.taken += 1
        return at_s

    def _coming(self) -> int:
        """Number of drawn records that have not come yet. All of them are in the last block."""
        now_s: float = self.env.now
        while not self.blocks or self.blocks[-1][-1] <= now_s:
            self._draw()
        return len(self.blocks[-1]) - bisect_right(self.blocks[-1], now_s)

    def _waiting(self) -> int:
        """Number of records that have come and were not taken."""
        return self.arrived + self.moved - self.taken

    @property
    def arrived(self) -> int:
        """Number of records that have come so far."""
        coming = self._coming()  # may draw
        return self.drawn - coming

    @property
    def backlog(self) -> int:
        """Number of records that wait, with those that will be read again."""
        return self.source.queued + self._waiting()

    def scale(self, factor: float) -> None:
        """Multiplies the rate from now on. Raises ValueError unless the factor is finite and > 0."""
        if not (math.isfinite(factor) and factor > 0.0):
            raise ValueError(f"a rate's factor must be finite and > 0, got {factor}")
        came = self._forget_coming()
        self.clock.scale(factor, self.env.now, came)
        self.factor *= factor
        self.source.poll_anew()

    def _forget_coming(self) -> int:
        """Drops drawn records that have not come. Returns the number of records of the last block that had come."""
        coming = self._coming()
        block = self.blocks.pop()
        came = len(block) - coming
        self.drawn -= coming
        if came:
            self.blocks.append(block[:came])
        return came

    def hand_over(self) -> list[float]:
        """Gives away the records that wait: returns their times of arrival. Nothing comes here any more."""
        self._forget_coming()
        waiting = [at_s for block in self.blocks for at_s in block][self.place :]
        self.moved -= len(waiting)
        self.become(silent(), [])
        return waiting

    def become(self, clock: ArrivalClock, waiting: list[float]) -> None:
        """Goes on with other partitions: with their waiting records, the oldest first, and arrivals by their clock."""
        self.clock, self.place = clock, 0
        self.moved += len(waiting)
        self.blocks = deque([array("d", waiting)] if waiting else [])
        self.source.poll_anew()
