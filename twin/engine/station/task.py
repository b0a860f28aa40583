"""A replica of an operator: takes records in order, holds the CPU for their work, and sends what they become."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.alarm import Alarm
from twin.engine.outcome import Outcome
from twin.engine.record import Record
from twin.engine.snapshot import Snapshot
from twin.engine.station.station import Station

if TYPE_CHECKING:
    from twin.engine.logic import Logic
    from twin.engine.station.setup import Setup

_NOTHING = (Record(0.0, 0.0, 0.0), 0.0, 0.0, 0.0)


class Task(Station):
    """A station with its logic, which serves one record at a time.

    `current`: the record in service; when that began and ends; how long it takes. `evaluating`: what other work, now
    under way as a job, comes to. in_service_work_s: core-seconds of the last work taken up. busy_s: that ended
    work took.
    """

    __slots__ = ("_since_s", "busy_s", "current", "evaluating", "finish_alarm", "in_service_work_s")

    def __init__(self, setup: Setup, logic: Logic) -> None:
        super().__init__(setup, logic)
        self.current: tuple[Record, float, float, float] = _NOTHING
        self.finish_alarm = Alarm(self.env, self._finish)
        self.evaluating: Outcome | None = None
        self.busy_s = 0.0
        self.in_service_work_s = 0.0
        self._since_s = 0.0
        self.processor.attach(self)
        logic.start(self, self)

    @property
    def in_service(self) -> int:
        """Records taken up and not yet emitted."""
        return 1 if self.busy and self.evaluating is None else 0

    # a service -------------------------------------------------------------------------------------------------------

    def begin(self, record: Record) -> None:
        """Takes a record up. The hottest function of all: it is written out, with few calls."""
        self.busy = True
        self.queued -= 1
        self.tuples_in += 1
        inbox, each_s = record.inbox, self.service_s
        if inbox is not None:
            each_s += inbox.beyond_s
            inbox.credits += 1
            if inbox.waiters:
                inbox.wake()
        processor, logic = self.processor, self.logic
        work_s = record.fetch_s + logic.plan(record)
        if each_s > 0.0:
            work_s += self.draws.service() * each_s
        work_s *= processor.slowdown
        processor.work_s += work_s
        self.in_service_work_s = work_s
        start_s: float = self.env.now
        if self.free_s > start_s:  # a pause
            start_s = self.free_s
        if inbox is not None:
            way = inbox.way
            way.tuples += 1
            way.took_s += start_s - record.taken_s - record.left_s
        self._since_s = start_s
        time_s = work_s / processor.speed
        end_s = start_s + time_s
        if end_s <= start_s:
            self.current = (record, start_s, end_s, time_s)
            self.complete()
        elif processor.shared:
            self.current = (record, start_s, end_s, 0.0)
            self._since_s = self.env.now
            processor.start(self, work_s, self.work_done)
        else:
            self.current = (record, start_s, end_s, time_s)
            self.finish_alarm.set(end_s)

    def work_done(self) -> None:
        """Its processor has done the work: when, was not known before."""
        if self.evaluating is None:
            record, start_s, _, _ = self.current
            now: float = self.env.now
            self.current = (record, start_s, now, now - self._since_s)
        self._finish(None)

    def _finish(self, _: object) -> None:
        if self.evaluating is None:
            self.complete()
        else:
            self._leave()
        self.work()

    def complete(self) -> None:
        """The service ends: what it comes to leaves."""
        record, _, end_s, time_s = self.current
        if end_s > self.free_s:
            self.free_s = end_s
        self.busy_s += time_s
        self.logic.emit(record, end_s)  # may send the very record on
        self.busy = False

    # work that no record asks for ------------------------------------------------------------------------------------

    def job(self, outcome: Outcome, work_s: float) -> None:
        """Does other work from now on, and nothing else until it is done; then its outcome leaves."""
        work_s *= self.processor.slowdown
        self.processor.work_s += work_s
        now: float = self.env.now
        self._since_s = now
        self.busy = True
        self.in_service_work_s = work_s
        self.evaluating = outcome
        if work_s <= 0.0:  # whoever evaluates goes on with what is queued
            self._leave()
        elif self.processor.shared:
            self.processor.start(self, work_s, self.work_done)
        else:
            self.finish_alarm.set(now + work_s / self.processor.speed)

    def _leave(self) -> None:
        outcome, self.evaluating = self.evaluating, None
        assert outcome is not None
        now: float = self.env.now
        self.busy_s += now - self._since_s
        self.free_s = now
        outcome.leave(now)
        self.busy = False

    def busy_until_now_s(self) -> float:
        """Time spent at work so far."""
        return self.busy_s + (max(0.0, self.env.now - self._since_s) if self.busy else 0.0)

    def left_s(self) -> float:
        """Core-seconds that the work under way still needs."""
        if not self.finish_alarm.pending:
            return self.processor.left_s(self)
        return max(0.0, min(self.in_service_work_s, (self.finish_alarm.due_s - self.env.now) * self.processor.speed))

    # pauses and ends -------------------------------------------------------------------------------------------------

    def pause(self, until_s: float) -> None:
        """Does nothing until then; what is under way ends that much later."""
        if not self.busy:
            self.free_s = max(self.free_s, until_s)
        elif self.finish_alarm.pending:  # else its job, which its processor has paused
            lost_s, end_s = until_s - self.env.now, self.finish_alarm.due_s
            self._silence()
            self.finish_alarm.set(end_s + lost_s)
            if self.evaluating is None:
                record, start_s, _, time_s = self.current
                self.current = (record, start_s, end_s + lost_s, time_s + lost_s)

    def stop(self) -> None:
        """Drops what is queued, in service and waiting to be sent; a service under way ends without effect."""
        self.queue.clear()
        self.queued = 0
        if self.busy:
            self.processor.work_s -= self.left_s()
            self.busy_s = self.busy_until_now_s()
            self._silence()
            self.busy = False
        self.processor.cancel(self)
        for port in self.ports:
            port.clear()
        self.evaluating = None
        self.logic.stopped()

    def _silence(self) -> None:
        self.finish_alarm.silence()
        self.finish_alarm = Alarm(self.env, self._finish)

    # what it holds ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What it would take to go on from here. What has left no trace yet is served again."""
        logic, serving = self.logic, None
        queue = [record.copy() for record in self.queue]
        if self.in_service:
            serving = self.current[0].copy()
        again = serving is not None and not logic.keeps
        if again:
            assert serving is not None
            queue.insert(0, serving)
            serving = None
        queue[:0] = logic.pending()
        kept, told = logic.snapshot(again), [port.told.copy() for port in self.ports]
        return Snapshot(queue, serving, self.evaluating, logic.held(), self.alignment, kept, told)

    def restore(self, snapshot: Snapshot, at_s: float, now_s: float) -> int:
        """Goes back to what it was at `at_s`, without its queue; how many records it will read again by itself."""
        self.alignment = snapshot.alignment.copy() if snapshot.alignment is not None else None
        for port, told in zip(self.ports, snapshot.told, strict=True):
            port.told = told.copy()
        return self.logic.restore(snapshot.kept, at_s, now_s)

    def finish(self, snapshot: Snapshot) -> None:
        """Sends what it was about to send at the checkpoint."""
        now: float = self.env.now
        if snapshot.serving is not None:
            self.logic.emit(snapshot.serving.copy(), now)
        if snapshot.evaluating is not None:
            snapshot.evaluating.leave(now)
