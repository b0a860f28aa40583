"""Streams as arrays, and queues as recursions over them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(slots=True)
class Records:
    """Records of a stream. t: when each is there [s]; born, taken: when its oldest input came to the broker and was
    taken [s]. key: drawn for the operator that it goes to; side: the number of the stream that it came by."""

    t: Array
    born: Array
    taken: Array
    key: Array
    side: Array

    def __getitem__(self, which: Any) -> Records:
        return Records(*(getattr(self, each.name)[which] for each in fields(self)))

    def at(self, t: Array) -> Records:
        """Records with other times."""
        return Records(t, self.born, self.taken, self.key, self.side)


def together(parts: list[Records]) -> Records:
    """Records of several streams in order of time."""
    joined = Records(*(np.concatenate([getattr(p, each.name) for p in parts]) for each in fields(Records)))
    return joined[np.argsort(joined.t, kind="stable")]


def fifo(arrivals: Array, services: Array) -> Array:
    """Departures from a queue with a single server (Lindley's recursion)."""
    before = np.cumsum(services) - services
    return np.maximum.accumulate(arrivals - before) + before + services


def fifo_of_many(arrivals: Array, services: Array, servers: int) -> Array:
    """Departures from a queue with several servers."""
    free, done = [0.0] * servers, np.empty_like(arrivals)
    for k in range(len(arrivals)):
        done[k] = max(arrivals[k], heapq.heappop(free)) + services[k]
        heapq.heappush(free, done[k])
    return done


@dataclass(frozen=True, slots=True)
class Clock:
    """Work over time [s] of a server that goes at a share of its speed, `speed`, from start to end."""

    start: float
    end: float
    speed: float

    def virtual(self, t: Array) -> Array:
        """Work that could be done until t."""
        return t - (1 - self.speed) * np.clip(t - self.start, 0, self.end - self.start)

    def real(self, v: Array) -> Array:
        """Time at which the work v could be done."""
        slow = np.clip(v - self.start, 0, (self.end - self.start) * self.speed)
        return v + slow * (1 / self.speed - 1)
