"""The clock of a run: SimPy's environment, whose time and numbers of events lie in the run's memory, and its watch."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_double
from typing import Any

import simpy
from simpy.events import URGENT

from twin.machine import layout as k
from twin.world.memory import Numbers, State

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
"""Signals whose handlers raise: interruptions, and limits of time."""


def nothing() -> None:
    """Does nothing."""


class Watch:
    """Watch of a run, which looks at it as it goes on: this one lets it take and hold what it wants. See
    `twin.guards.watch`.

    update: brings what is counted on request up to date. All raise BadInput if the run must not go on.
    """

    def built(self) -> None:
        """Notes that a subtask or a port of the run has been made."""

    def hold(self, array_bytes: int = 0, update: Callable[[], None] = nothing) -> None:
        """Looks at the memory of a run. array_bytes: of the arrays that hold its state."""

    def look(self, now_s: float, array_bytes: int = 0, update: Callable[[], None] = nothing) -> None:
        """Looks at the memory of a run at a simulated time, and at how long it will take."""


class Once(simpy.Event):
    """Event that calls a function once; it lacks what `simpy.Event` prepares for events that may fail or be yielded."""

    _ok = True

    def __init__(self, callback: Callable[[Any], None], value: Any) -> None:
        self.callbacks = [callback]
        self._value = value


class Clock(simpy.Environment):
    """SimPy's environment, which shares its time and its numbers of events with compiled code.

    now: simulated seconds. awaited: conditions that somebody waits for, and the events that tell when they hold. watch:
    looks at the run. compiled_s: CPU seconds for which compiled code moved records.
    """

    def __init__(self, state: State, watch: Watch) -> None:
        self._cell = c_double.from_address(state.here + k.NOW)
        super().__init__()
        self._eid: Any = Numbers(state)
        self.watch = watch
        self.compiled_s = 0.0
        self.awaited: list[tuple[Callable[[], bool], simpy.Event]] = []

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return float(self._cell.value)

    @now.setter
    def now(self, now_s: float) -> None:
        self._cell.value = now_s

    _now = now

    def step(self) -> None:
        """Processes the next event; see SimPy."""
        super().step()
        if self.awaited:
            self.look_at_conditions()

    def first(self, delay_s: float) -> simpy.Event:
        """Returns a timeout that comes before all other events of its time, as the end of a run does."""
        event = simpy.Event(self)
        event._ok, event._value = True, None
        self.schedule(event, URGENT, delay_s)
        return event

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

    def look_at_conditions(self) -> None:
        """Tells those who wait for a condition that holds now."""
        awaited, self.awaited = self.awaited, []
        for condition, event in awaited:
            if event.callbacks and condition():  # a failure may have interrupted the waiting process
                self._tell(event)
            elif event.callbacks:
                self.awaited.append((condition, event))


@contextmanager
def held() -> Iterator[list[int]]:
    """Delays the handlers of HEARD to the end of the block; the list gets the signals.

    Python runs signal handlers whenever it runs, also when compiled code calls it, where an exception would be lost and
    would leave work undone. Only the main thread has handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    came: list[int] = []

    def note(number: int, _frame: Any) -> None:
        came.append(number)

    before = {each: signal.signal(each, note) for each in HEARD if callable(signal.getsignal(each))}
    try:
        yield came
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)
