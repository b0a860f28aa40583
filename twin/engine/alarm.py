"""SimPy events for the hot path: a callback on an event that is scheduled again and again.

A reused event costs less than a Timeout and about a seventh of a process with a Store (benchmarks/kernel.py). What
happens rarely is a plain SimPy process instead. Both kinds put themselves into SimPy's queue, without a call of its
`schedule`.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

import simpy
from simpy.events import NORMAL


class Alarm(simpy.Event):
    """Calls `callback` at each time it is set for. It must not be set again while pending."""

    def __init__(self, env: simpy.Environment, callback: Callable[[Any], None]) -> None:
        self.env = env
        self.callbacks = None  # type: ignore[assignment]  # as SimPy itself leaves a processed event
        self._calls = [callback]
        self._ok = True
        self._value: Any = None

    def set(self, at_s: float, value: Any = None) -> None:
        """Rings at `at_s` (now, if that has passed); the callback finds `value` in `alarm.value`."""
        self.callbacks = self._calls
        self._value = value
        env = self.env
        now = env.now
        due_s = now + (at_s - now) if at_s > now else now
        heappush(env._queue, (due_s, NORMAL, next(env._eid), self))

    @property
    def pending(self) -> bool:
        """Whether it is set and has not rung."""
        return self.callbacks is not None

    def silence(self) -> None:
        """If it is set, it will not call. It cannot be set again before that time; take a new one instead."""
        if self.callbacks is not None:
            self.callbacks = []


class _Once(simpy.Event):
    """Without what simpy.Event prepares for events that may fail or be yielded."""

    _ok = True

    def __init__(self, callback: Callable[[Any], None], value: Any) -> None:
        self.callbacks = [callback]
        self._value = value


def once(env: simpy.Environment, at_s: float, callback: Callable[[Any], None], value: Any) -> None:
    """Calls `callback` at `at_s` (now, if that has passed) with an event whose `value` it is; many may be pending."""
    now = env.now
    due_s = now + (at_s - now) if at_s > now else now
    heappush(env._queue, (due_s, NORMAL, next(env._eid), _Once(callback, value)))
