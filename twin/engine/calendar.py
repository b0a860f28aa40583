"""The calendar of events: SimPy's environment, with a shorter way from one event to the next."""

from __future__ import annotations

from collections.abc import Callable
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
    """now: simulated seconds. SimPy's own is a property, which is asked for four times an event. awaited: conditions
    for which somebody waits, and the events that tell when they hold."""

    __slots__ = ("awaited", "now")
    now: float

    def __init__(self) -> None:
        self.now = 0.0
        self.awaited: list[tuple[Callable[[], bool], simpy.Event]] = []
        super().__init__()

    def pending(self) -> list[Any]:
        """The values of events that somebody waits for, in the order in which they are due."""
        return [event._value for *_, event in sorted(self._queue, key=lambda entry: entry[:3]) if event.callbacks]

    def until(self, condition: Callable[[], bool]) -> simpy.Event:
        """An event at the moment when a condition holds, before anything else can change it.

        Conditions change by events alone, so they are looked at after each event while somebody waits for them.
        """
        event = simpy.Event(self)
        if condition():
            self._tell(event)
        else:
            self.awaited.append((condition, event))
        return event

    def _tell(self, event: simpy.Event) -> None:
        event._ok, event._value = True, None
        self.schedule(event, URGENT)

    def _look_at_conditions(self) -> None:
        awaited, self.awaited = self.awaited, []
        for condition, event in awaited:
            if event.callbacks and condition():  # nobody waits any more where a failure has interrupted them
                self._tell(event)
            elif event.callbacks:
                self.awaited.append((condition, event))

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
        if self.awaited:
            self._look_at_conditions()

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
            if self.awaited:
                self._look_at_conditions()
        self.now = self._now = until
        return None
