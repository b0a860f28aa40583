"""The station of a source: its queue is the broker's, which is without bound and loses nothing."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from twin.engine.alarm import Alarm
from twin.engine.record import Record
from twin.engine.snapshot import Snapshot
from twin.engine.station.task import Task

if TYPE_CHECKING:
    from twin.engine.arrival.broker import Broker
    from twin.engine.logic import Logic
    from twin.engine.outcome import Outcome
    from twin.engine.station.setup import Setup


class PollingTask(Task):
    """A record is taken when its service starts. queue: records that it reads again, which come first. poll_alarm: the
    next arrival, while it has nothing to do.
    """

    __slots__ = ("broker", "poll_alarm")

    def __init__(self, setup: Setup, logic: Logic) -> None:
        super().__init__(setup, logic)
        self.polls = True
        self.broker: Broker | None = None
        self.poll_alarm = Alarm(self.env, self._polled)

    def _polled(self, _: object) -> None:
        self.work()

    def work(self) -> None:
        """Serves what is there, and then what the broker has; or waits for what comes next."""
        super().work()
        broker = self.broker
        while broker is not None and not (self.busy or self.blocked or self.halted):
            next_s = broker.next_s
            if next_s > self.env.now:
                if next_s < inf and not self.poll_alarm.pending:
                    self.poll_alarm.set(next_s)
                return
            at_s = broker.take()
            self.queued += 1
            self.begin(Record(at_s, 0.0, at_s))
            super().work()

    def begin(self, record: Record) -> None:
        """See Task."""
        self._forget()
        super().begin(record)

    def job(self, outcome: Outcome, work_s: float) -> None:
        """See Task."""
        super().job(outcome, work_s)
        if self.busy:  # else it still waits for the next arrival
            self._forget()

    def poll_anew(self) -> None:
        """What was to come has changed."""
        self._forget()
        self.work()

    def _forget(self) -> None:
        if self.poll_alarm.pending:
            self.poll_alarm.silence()
            self.poll_alarm = Alarm(self.env, self._polled)

    def held_back(self, record: Record) -> None:
        """A record is taken when the one before it has left: one that is held back is taken later."""
        at_s = record.at_s
        super().held_back(record)
        record.taken_s += record.at_s - at_s

    def snapshot(self) -> Snapshot:
        """Without the queue, and without what is in service: it notes what it takes, and reads it again."""
        snapshot = super().snapshot()
        snapshot.queue = []
        return snapshot

    def stop(self) -> None:
        """What it has not taken yet stays."""
        waiting, queued = self.queue.copy(), self.queued
        super().stop()
        self.queue.extend(waiting)
        self.queued = queued

    def lost(self) -> int:
        """Nothing of what waits."""
        return 0
