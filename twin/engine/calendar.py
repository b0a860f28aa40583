"""The calendar of events: SimPy's environment with a shorter way from one event to the next, and events of its own.

An alarm is an event that is scheduled again and again. It costs less than a Timeout, and about a seventh of a process
with a Store. What happens rarely is a plain SimPy process instead. Alarms put themselves into SimPy's queue, without a
call of its `schedule`.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Any

import simpy
from simpy.events import NORMAL, URGENT


class Alarm(simpy.Event):
    """Calls `callback` at each time it is set for. It must not be set again while pending.

    due_s, number: when it rings, and its place among the events of that time; of the last time that it was set.
    """

    def __init__(self, env: simpy.Environment, callback: Callable[[Any], None]) -> None:
        self.env = env
        self.callbacks = None  # type: ignore[assignment]  # as SimPy itself leaves a processed event
        self._calls = [callback]
        self._ok = True
        self._value: Any = None
        self.due_s = 0.0
        self.number = -1

    def set(self, at_s: float, value: Any = None) -> None:
        """Rings at `at_s` (now, if that has passed); the callback finds `value` in `alarm.value`."""
        self.callbacks = self._calls
        self._value = value
        env = self.env
        now = env.now
        self.due_s = due_s = at_s if at_s > now else now
        self.number = number = next(env._eid)
        heappush(env._queue, (due_s, NORMAL, number, self))

    def show(self, due_s: float) -> None:
        """Marks the alarm as pending until `due_s` while the kernel keeps its event; infinite: as not pending."""
        self.due_s = due_s
        self.callbacks = self._calls if due_s < inf else None  # type: ignore[assignment]

    def resume(self, due_s: float, number: int) -> None:
        """Sets the alarm again with its old time and number; the caller must heapify the queue afterwards."""
        self.callbacks = self._calls
        self.due_s, self.number = due_s, number
        self.env._queue.append((due_s, NORMAL, number, self))

    @property
    def owner(self) -> object:
        """Whose it is."""
        return getattr(self._calls[0], "__self__", None)

    @property
    def pending(self) -> bool:
        """Whether it is set and has not rung."""
        return self.callbacks is not None

    def silence(self) -> None:
        """If it is set, it will not call. It cannot be set again before that time; take a new one instead."""
        if self.callbacks is not None:
            self.callbacks = []


class Once(simpy.Event):
    """Without what simpy.Event prepares for events that may fail or be yielded."""

    _ok = True

    def __init__(self, callback: Callable[[Any], None], value: Any) -> None:
        self.callbacks = [callback]
        self._value = value


def once(env: simpy.Environment, at_s: float, callback: Callable[[Any], None], value: Any) -> None:
    """Calls `callback` at `at_s` (now, if that has passed) with an event whose `value` it is; many may be pending."""
    now = env.now
    due_s = at_s if at_s > now else now
    heappush(env._queue, (due_s, NORMAL, next(env._eid), Once(callback, value)))


class Look(simpy.Event):
    """The event of a process that only reads counters, or sets costs of work or frequencies of keys.

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
        """Processes `count` events before `until_s`; if there are fewer, the time is then `until_s`."""
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
