"""Inputs of a task: the streams that it receives, or the broker that it polls."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import simpy

from twin.engine.arrival.broker import Broker
from twin.engine.calendar import Alarm
from twin.engine.streams.channel import Inbox


class Inboxes:
    """Inboxes of one task, one a stream; a source has none."""

    def __init__(self) -> None:
        self.inboxes: list[Inbox] = []
        self._tuple_bytes: float | None = 0.0  # None where streams differ: then a mean is taken

    def add(self, inbox: Inbox) -> None:
        """Adds the inbox of another stream."""
        self.inboxes.append(inbox)
        sizes = [inbox.tuple_bytes for inbox in self.inboxes]
        self._tuple_bytes = sizes[0] if min(sizes) == max(sizes) else None

    def tuple_bytes(self) -> float:
        """Mean size of the records that came, in bytes; 0 without an input."""
        if self._tuple_bytes is not None:
            return self._tuple_bytes
        sent = [inbox.sent for inbox in self.inboxes]
        if not any(sent):  # nothing came yet
            sent = [1] * len(sent)
        sizes = [inbox.tuple_bytes * count for inbox, count in zip(self.inboxes, sent, strict=True)]
        return sum(sizes) / sum(sent)


class Polling:
    """Access of a source to its broker, which is without bound and loses nothing.

    work: what the source does when the next record has come. alarm: set for the next arrival while the source has
    nothing to do. broker: None before it is known, and of a source that reads no partition.
    """

    def __init__(self, env: simpy.Environment, work: Callable[[], None]) -> None:
        self.env = env
        self.work = work
        self.broker: Broker | None = None
        self.alarm = Alarm(env, self._ring)

    def _ring(self, _: object) -> None:
        self.work()

    def take(self) -> float | None:
        """Takes the next record and returns when it came; None, with the alarm set, if it has not come yet."""
        broker = self.broker
        if broker is None:
            return None
        next_s = broker.next_s
        if next_s > self.env.now:
            if next_s < inf and not self.alarm.pending:
                self.alarm.set(next_s)
            return None
        return broker.take()

    def forget(self) -> None:
        """Drops the alarm: the source has something to do, or the arrivals to come have changed."""
        if self.alarm.pending:
            self.alarm.silence()
            self.alarm = Alarm(self.env, self._ring)
