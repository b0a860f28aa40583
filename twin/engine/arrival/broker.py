"""The message broker in front of a source replica: tuples arrive by a law and wait without bound."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Protocol

import simpy

from twin.engine.alarm import Alarm
from twin.engine.arrival.backlog import Piece
from twin.engine.arrival.clock import Clock
from twin.engine.segment import Segment

FAR = 32
"""So many segments wait: the source is far behind, and segments are gathered before they are handed over."""
REFILL = 16
"""Segments that the source gets at a time from what was gathered."""


class Poller(Protocol):
    """A source: see twin.engine.station.polling.PollingTask."""

    name: str
    queue: deque[Segment]
    queued: int
    tuples_in: int
    behind: bool
    refill: Callable[[], None]

    def deliver(self, segment: Segment) -> None:
        """Takes a segment whose last tuple has arrived."""


class Broker:
    """Feeds one source replica with segments of `n` tuples; each is handed over when its last tuple has arrived.

    While the source is far behind, an event brings many segments' tuples at once, and they are kept together until the
    source gets to them: a backlog of millions costs neither events nor memory. If the source gets through all that
    before the gathered tuples are complete, it is given those that have come.
    """

    __slots__ = ("_alarm", "_counted", "_far", "_gathers", "_pieces", "clock", "env", "gap_scv", "least", "n", "source")

    def __init__(
        self, env: simpy.Environment, source: Poller, clock: Clock, gap_scv: float, n: int, least: int = 1
    ) -> None:
        self.env = env
        self.source = source
        self.clock = clock
        self.gap_scv = gap_scv
        self.n = n
        self.least = least
        self._far = FAR * n
        self._counted = 0  # tuples handed over
        self._gathers = False
        self._pieces: deque[Piece] = deque()
        self._alarm = Alarm(env, self._arrive)
        source.refill = self._refill
        self._plan()

    @property
    def arrived(self) -> int:
        """Tuples that have come; of those that are being gathered, an estimate."""
        return self._counted + self._came

    @property
    def _came(self) -> int:
        return self.clock.came(self.env.now) if self._gathers else 0

    @property
    def backlog(self) -> int:
        """Tuples that wait."""
        return self.source.queued + self._came

    def scale(self, factor: float) -> None:
        """Multiplies the rate from now on. Raises ValueError unless the factor is finite and > 0."""
        if not (math.isfinite(factor) and factor > 0.0):
            raise ValueError(f"a rate's factor must be finite and > 0, got {factor}")
        self.clock.cut(self.env.now)
        self.clock.scale(factor)
        self._restart()

    def _restart(self) -> None:
        """Hands over what a cut left and goes on; the alarm that is pending is forgotten."""
        self._alarm = Alarm(self.env, self._arrive)
        self._hand_over()

    def _arrive(self, alarm: Alarm) -> None:
        """The planned group is complete."""
        if alarm is self._alarm:
            self._hand_over()

    def _hand_over(self) -> None:
        clock, source = self.clock, self.source
        n = clock.n
        self._counted += n
        if source.behind:  # it works on what came earlier
            if n:
                self._pieces.append(clock.piece())
                source.queued += n
            self._plan()
            return
        now, since_s = self.env.now, clock.since_s
        last_s = now if clock.last_s == clock.due_s else clock.last_s
        if source.queued < self._far:
            clock.plan(now, 1)
            if clock.due_s < math.inf:
                self._alarm.set(clock.due_s)
        else:
            self._plan()
        if n:
            first_s = since_s + (last_s - since_s) / n
            source.deliver(Segment(n, first_s, last_s, first_s, last_s, 0.0, 0.0, self.gap_scv))

    def _plan(self) -> None:
        """The next group: a large one if the source is far behind, which it stays until all is in its queue."""
        source = self.source
        groups = max(1, source.queued // (4 * self.n)) if source.queued >= self._far else 1
        self._gathers = groups > 1
        source.behind = self._gathers or bool(self._pieces)
        self.clock.plan(self.env.now, groups)
        if self.clock.due_s < math.inf:
            self._alarm.set(self.clock.due_s)

    def _size(self) -> int:
        """Tuples a segment, so that those which are taken make as many segments a second as those which arrive would.

        Backpressure slows the source down; segments as large as at the offered rate would be coarse in its channels.
        Below `least`, a small part of a channel, nothing is gained.
        """
        taken = self.source.tuples_in / self._counted if self._counted else 1.0
        return min(self.n, max(self.least, math.ceil(self.n * taken)))

    def _refill(self) -> None:
        """The source has nothing in its queue: more of what was gathered, or what has come since."""
        if not self._pieces:
            self.clock.cut(self.env.now)
            self._restart()
            return
        piece = self._pieces[0]
        queue, scv = self.source.queue, self.gap_scv
        for n, first_s, last_s in piece.take(self._size(), REFILL):
            queue.append(Segment(n, first_s, last_s, first_s, last_s, 0.0, 0.0, scv, 0.0, True))
        if not piece.n:
            self._pieces.popleft()
        self.source.behind = self._gathers or bool(self._pieces)
