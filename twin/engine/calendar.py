"""The calendar of events: SimPy's environment, with a shorter way from one event to the next."""

from __future__ import annotations

from heapq import heappop
from typing import Any

import simpy
from simpy.events import NORMAL, URGENT


class Look(simpy.Event):
    """When somebody looks at counters, or sets what work costs, and changes nothing else.

    heaps: only at what waits in queues, and is held in windows. first: before all else of its time, as the end of a run
    is: what windows then evaluate comes after it.
    """

    def __init__(self, env: simpy.Environment, delay_s: float, heaps: bool = False, first: bool = False) -> None:
        super().__init__(env)
        self.heaps = heaps
        self._ok, self._value = True, None
        env.schedule(self, URGENT if first else NORMAL, delay_s)


class Calendar(simpy.Environment):
    """now: simulated seconds. SimPy's own is a property, which is asked for four times an event."""

    __slots__ = ("now",)
    now: float

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__()

    def look(self, delay_s: float, heaps: bool = False, first: bool = False) -> Look:
        """A timeout for a process that only looks; see Look."""
        return Look(self, delay_s, heaps, first)

    def steps(self, count: int, until_s: float) -> None:
        """So many events, or those before a time; then it is that time, if none are left before."""
        for _ in range(count):
            if not self._queue or self._queue[0][0] >= until_s:
                self.now = self._now = until_s
                return
            self.step()

    def step(self) -> None:
        """See SimPy."""
        if self._queue:
            self.now = self._queue[0][0]
        super().step()

    def run(self, until: float | simpy.Event | None = None) -> Any:
        """See SimPy. Up to a time, without a call and an exception handler for each event.

        A calendar that is empty before is no error: nothing happens until then.
        """
        if until is None or isinstance(until, simpy.Event) or until <= self.now:
            return super().run(until)
        queue = self._queue
        while queue and queue[0][0] < until:
            self.now, _, _, event = heappop(queue)
            self._now = self.now  # what SimPy itself looks at
            callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
            for callback in callbacks:
                callback(event)
            if not event._ok and not hasattr(event, "_defused"):  # a process raised, and nobody waits for it
                raise event._value
        self.now = self._now = until
        return None
