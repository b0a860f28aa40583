"""The message broker in front of a source replica: records arrive by a law and wait without bound."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from typing import Protocol

import simpy

from twin.engine.arrival.clock import Clock

TRIM = 4096
"""Arrivals that were taken are forgotten in pieces of so many or more."""


class Poller(Protocol):
    """A source: see twin.engine.station.polling.PollingTask. queued: records that it will read again."""

    name: str
    queued: int
    tuples_in: int

    def poll_anew(self) -> None:
        """What was to come has changed."""


class Broker:
    """Arrivals are drawn when somebody asks for them: nothing happens here while the source is busy.

    ahead: arrivals that are drawn, in seconds, of which the source has taken those before `place`. drawn: how many of
    them are of the last block. taken: records that the source has taken, each counted once.
    """

    __slots__ = ("ahead", "clock", "drawn", "env", "place", "source", "taken")

    def __init__(self, env: simpy.Environment, source: Poller, clock: Clock) -> None:
        self.env = env
        self.source = source
        self.clock = clock
        self.ahead = array("d")
        self.place = 0
        self.drawn = 0
        self.taken = 0

    @property
    def next_s(self) -> float:
        """When the first record comes, or came, that the source has not taken."""
        if self.place == len(self.ahead):
            self.draw()
        return self.ahead[self.place]

    def draw(self) -> None:
        """One block of arrivals more."""
        if self.place >= TRIM and 2 * self.place >= len(self.ahead):
            del self.ahead[: self.place]
            self.place = 0
        block = self.clock.block()
        self.ahead.frombytes(block.tobytes())
        self.drawn = len(block)

    def take(self) -> float:
        """Takes the first record; when it came."""
        at_s = self.next_s
        self.place += 1
        self.taken += 1
        return at_s

    def _waiting(self) -> int:
        """Records that have come and were not taken."""
        now_s: float = self.env.now
        while self.place == len(self.ahead) or self.ahead[-1] <= now_s:
            self.draw()
        return bisect_right(self.ahead, now_s, self.place) - self.place

    @property
    def arrived(self) -> int:
        """Records so far."""
        return self.taken + self._waiting()

    @property
    def backlog(self) -> int:
        """Records that wait, also those that will be read again."""
        return self.source.queued + self._waiting()

    def scale(self, factor: float) -> None:
        """Multiplies the rate from now on. Raises ValueError unless the factor is finite and > 0."""
        if not (math.isfinite(factor) and factor > 0.0):
            raise ValueError(f"a rate's factor must be finite and > 0, got {factor}")
        come = self.place + self._waiting()
        self.clock.scale(factor, self.env.now, come - (len(self.ahead) - self.drawn))
        del self.ahead[come:]
        self.drawn = 0
        self.source.poll_anew()
