"""SimPy events for the hot path: a callback on an event that is scheduled again and again.

A reused event costs less than a Timeout and about a seventh of a process with a Store (benchmarks/kernel.py). What
happens rarely is a plain SimPy process instead. Both kinds put themselves into SimPy's queue, without a call of its
`schedule`.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from math import inf
from typing import Any

import simpy
from simpy.events import NORMAL


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
        """Says that it is pending until then, which somebody else sees to; or, if that is infinite, that it is not."""
        self.due_s = due_s
        self.callbacks = self._calls if due_s < inf else None  # type: ignore[assignment]

    def resume(self, due_s: float, number: int) -> None:
        """Is set again as it was set once; the calendar has to be put in order afterwards."""
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
