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
    """Event that calls `callback` at each time it is set for. It must not be set again while pending.

    due_s, number: the time of the last setting, and its place among the events of that time.
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
        """Sets the alarm to `at_s` (now, if that has passed); the callback finds `value` in `alarm.value`."""
        self.callbacks = self._calls
        self._value = value
        env = self.env
        now = env.now
        self.due_s = due_s = at_s if at_s > now else now
        self.number = number = next(env._eid)
        heappush(env._queue, (due_s, NORMAL, number, self))

    def show(self, due_s: float) -> None:
        """Shows the alarm as pending until `due_s` while the kernel keeps its event; not pending if infinite."""
        self.due_s = due_s
        self.callbacks = self._calls if due_s < inf else None  # type: ignore[assignment]

    def resume(self, due_s: float, number: int) -> None:
        """Sets the alarm again with its old time and number; the caller must heapify the queue afterwards."""
        self.callbacks = self._calls
        self.due_s, self.number = due_s, number
        self.env._queue.append((due_s, NORMAL, number, self))

    @property
    def owner(self) -> object:
        """Object whose method the alarm calls; None for a function."""
        return getattr(self._calls[0], "__self__", None)

    @property
    def pending(self) -> bool:
        """Whether the alarm is set and has not rung."""
        return self.callbacks is not None

    def silence(self) -> None:
        """Keeps a pending alarm from calling. It cannot be set again before its time; take a new one instead."""
        if self.callbacks is not None:
            self.callbacks = []


class Once(simpy.Event):
    """Event of `once`: it lacks what `simpy.Event` prepares for events that may fail or be yielded."""

    _ok = True

    def __init__(self, callback: Callable[[Any], None], value: Any) -> None:
        self.callbacks = [callback]
        self._value = value


def once(env: simpy.Environment, at_s: float, callback: Callable[[Any], None], value: Any) -> None:
    """Calls `callback` at `at_s` (now, if that has passed) with an event that holds `value`; many may be pending."""
    now = env.now
    due_s = at_s if at_s > now else now
    heappush(env._queue, (due_s, NORMAL, next(env._eid), Once(callback, value)))


class Look(simpy.Event):
    """Event of a process that only reads counters, or sets costs of work or frequencies of keys.

    heaps: whether the process only reads queues and the content of windows. first: whether it comes before all other
    events of its time, as the end of a run does; evaluations of windows at that time then come after it.
    """

    def __init__(self, env: simpy.Environment, delay_s: float, heaps: bool = False, first: bool = False) -> None:
        super().__init__(env)
        self.heaps = heaps
        self._ok, self._value = True, None
        env.schedule(self, URGENT if first else NORMAL, delay_s)


EVENTS = 100
"""Number of events, or of records that an event makes, between two looks at a run."""


def nothing() -> None:
    """Does nothing."""


class Watch:
    """Watch of a run, which looks at it as it goes on: this one lets it take and hold what it wants. See
    `twin.guards.watch`.

    update: brings the counters of objects up to date, where something else holds their state. All raise BadInput if the
    run must not go on.
    """

    def built(self) -> None:
        """Notes that a task or a port of the run has been made."""

    def hold(self, array_bytes: int = 0, update: Callable[[], None] = nothing) -> None:
        """Looks at the memory of a run. array_bytes: of the arrays that hold its state, where they are counted."""

    def look(self, now_s: float, array_bytes: int = 0, update: Callable[[], None] = nothing) -> None:
        """Looks at the memory of a run at a simulated time, and at how long it will take."""


class Calendar(simpy.Environment):
    """SimPy environment with a faster `run`. now: simulated seconds; an attribute, as SimPy's own property is asked for
    four times an event. awaited: conditions that somebody waits for, and the events that tell when they hold. watch:
    looks at the run after each `EVENTS`, of which `left` are left. compiled_s: CPU seconds for which compiled code
    moved records."""

    __slots__ = ("awaited", "compiled_s", "left", "now", "watch")
    now: float

    def __init__(self) -> None:
        self.now = 0.0
        self.watch = Watch()
        self.left = EVENTS
        self.compiled_s = 0.0
        self.awaited: list[tuple[Callable[[], bool], simpy.Event]] = []
        super().__init__()

    def pending(self) -> list[Any]:
        """Values of the events that have callbacks, in the order in which they are due."""
        return [event._value for *_, event in sorted(self._queue, key=lambda entry: entry[:3]) if event.callbacks]

    def until(self, condition: Callable[[], bool]) -> simpy.Event:
        """Returns an event that happens as soon as a condition holds, before anything else can change it.

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
            if event.callbacks and condition():  # a failure may have interrupted the waiting process
                self._tell(event)
            elif event.callbacks:
                self.awaited.append((condition, event))

    def look(self, delay_s: float, heaps: bool = False, first: bool = False) -> Look:
        """Returns a timeout for a process that only looks; see `Look`."""
        return Look(self, delay_s, heaps, first)

    def steps(self, count: int, until_s: float) -> None:
        """Processes `count` events before `until_s`; if there are fewer, the time is then `until_s`."""
        for _ in range(count):
            if not self._queue or self._queue[0][0] >= until_s:
                self.now = self._now = until_s
                return
            self.step()

    def tick(self) -> None:
        """Counts an event, or a record that it makes; lets the watch look in time."""
        self.left -= 1
        if self.left <= 0:
            self.left = EVENTS
            self.watch.look(self.now)

    def step(self) -> None:
        """Processes the next event; see SimPy."""
        if self._queue:
            self.now = self._queue[0][0]
        super().step()
        if self.awaited:
            self._look_at_conditions()
        self.tick()

    def run(self, until: float | simpy.Event | None = None) -> Any:
        """Processes events as SimPy does; up to a time, without a call and an exception handler for each event.

        An empty calendar is no error: nothing happens until then.
        """
        if until is None or isinstance(until, simpy.Event) or until <= self.now:
            return super().run(until)
        queue = self._queue
        while queue and queue[0][0] < until:
            self.now, _, _, event = heappop(queue)
            self._now = self.now  # the time that SimPy itself reads
            callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
            for callback in callbacks:
                callback(event)
            if not event._ok and not hasattr(event, "_defused"):  # a process raised, and no other waits for it
                raise event._value
            if self.awaited:
                self._look_at_conditions()
            self.left -= 1
            if self.left <= 0:
                self.left = EVENTS
                self.watch.look(self.now)
        self.now = self._now = until
        return None
