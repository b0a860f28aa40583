"""Tasks: a task is a subtask of an operator, or of several chained operators.

It takes records in order, holds the CPU for their work, and sends the results of its logic. It is made of parts:
`inputs` or `polling`, a queue, timers, `output`, and `barriers` where checkpoints are taken.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twin.engine.calendar import Alarm, Calendar
from twin.engine.draws import Draws
from twin.engine.inputs import Inboxes, Polling
from twin.engine.logic import Logic
from twin.engine.output import EvaluationResult, Output
from twin.engine.processor import Processor
from twin.engine.record import InputProgress, Mark, Record
from twin.engine.streams.channel import Port

if TYPE_CHECKING:
    from twin.engine.station.barriers import Barriers
    from twin.engine.station.pool import Pool
    from twin.plan import Location

_NOTHING = (Record(0.0, 0.0, 0.0), 0.0, 0.0, 0.0)


@dataclass(slots=True)
class Snapshot:
    """State of a task at a checkpoint, from which it can go on.

    queue: records to serve. serving: a record that was served, but its results not sent. evaluating: unsent results of
    an evaluation. windows: number of records that its windows held, by its own count. alignment: progress of its
    inputs. kept: the snapshot of its logic. told: by port, the progress that it had announced.
    """

    queue: list[Record]
    serving: Record | None
    evaluating: EvaluationResult | None
    windows: float
    alignment: InputProgress | None
    kept: object
    told: list[dict[str, float]]

    @property
    def queued(self) -> int:
        """Records in the queue."""
        return sum([record.n for record in self.queue])


class Task:
    """A station that serves one record at a time.

    place: its host and socket. queue: records that wait; for a source, records to read again before those of its
    broker. queued: number of records that wait, there or in a pool. pool: the shared queue of several tasks. timers:
    timers that are due, with their times. alignment: set if control items come. barriers: set if checkpoints are taken.
    state_bytes: state beside the content of windows. busy: with a record, or other work. current: the record in
    service; begin and end of the service; its duration. evaluating: the results of other work that is under way.
    in_service_work_s: core-seconds of the last work begun. busy_s: duration of all finished work. free_s: the end of
    its last work, or of a pause. halted: stopped for good.
    """

    place: Location

    def __init__(
        self,
        env: Calendar,
        name: str,
        processor: Processor,
        draws: Draws,
        service_s: float,
        logic: Logic,
        polls: bool = False,
    ) -> None:
        """service_s: mean CPU seconds of a record; see Inbox.beyond_s. polls: whether records come from a broker."""
        self.env = env
        self.name = name
        self.processor = processor
        self.draws = draws
        self.service_s = service_s
        self.logic = logic
        self.inputs = Inboxes()
        self.polling = Polling(env, self.work) if polls else None
        self.output = Output(env, name, self._refresh, self._resume, polls)
        self.queue: deque[Record] = deque()
        self.queued = 0
        self.pool: Pool | None = None
        self.timers: deque[tuple[Logic, float]] = deque()
        self.alignment: InputProgress | None = None
        self.barriers: Barriers | None = None
        self.state_bytes = 0.0
        self.tuples_in = 0
        self.busy = False
        self.current: tuple[Record, float, float, float] = _NOTHING
        self.finish_alarm = Alarm(env, self._finish)
        self.evaluating: EvaluationResult | None = None
        self.in_service_work_s = 0.0
        self.busy_s = 0.0
        self.free_s = 0.0
        self.halted = False
        self._since_s = 0.0
        processor.attach(self)
        logic.start(self, self.output)

    @property
    def ports(self) -> list[Port]:
        """Ports of its output, one for each stream."""
        return self.output.ports

    @property
    def polls(self) -> bool:
        """Whether it takes records from a broker."""
        return self.polling is not None

    @property
    def in_service(self) -> int:
        """Records taken up and not yet emitted."""
        return 1 if self.busy and self.evaluating is None else 0

    # records and control items that come -----------------------------------------------------------------------------

    def deliver(self, record: Record) -> None:
        """Takes a record that has arrived. Unaligned barriers take effect at once."""
        barriers = self.barriers
        if barriers is not None and barriers.overtakes and barriers.arrived(record):
            return
        self.queue.append(record)
        self.queued += record.n
        if not (self.busy or self.output.blocked):
            self.work()

    def work(self) -> None:
        """Serves waiting records, then those of its broker, until a service takes time or the task is blocked."""
        self._serve()
        if self.pool is not None:
            self.pool.feed(self)
        polling = self.polling
        while polling is not None and not (self.busy or self.output.blocked or self.halted):
            at_s = polling.take()
            if at_s is None:
                return
            self.queued += 1
            self.begin(Record(at_s, 0.0, at_s))
            self._serve()

    def _serve(self) -> None:
        """Serves the records that wait here. Timers that are due come first."""
        output = self.output
        while (self.queue or self.timers) and not self.busy and not output.blocked and not self.halted:
            if self.timers:
                logic, at_s = self.timers.popleft()
                logic.due(at_s)
                continue
            record = self.queue.popleft()
            if record.n:
                self.begin(record)
            else:
                self._heed(record)

    def _heed(self, mark: Record) -> None:
        """Takes a control item. When all inputs have made the same progress, the task announces it too."""
        assert isinstance(mark, Mark)
        if self.barriers is not None:
            self.barriers.heed(mark)
            return
        if self.logic.heeds:
            self.logic.heed(mark)
            return
        assert mark.inbox is not None
        alignment = self.alignment
        if alignment is not None and alignment.take(mark.inbox.side, mark):
            self.output.mark(mark.kind, alignment.least(mark.kind))

    def poll_anew(self) -> None:
        """Looks again at its broker, whose records have changed."""
        assert self.polling is not None
        self.polling.forget()
        self.work()

    def _refresh(self) -> None:
        if self.processor.shared:
            self.processor.refresh()  # also where nothing changes: when sums are taken decides on their last bit

    def _resume(self) -> None:
        """Goes on, as no port is blocked any more."""
        self._refresh()
        if not self.busy:
            self.free_s = max(self.free_s, self.env.now)
            self.work()

    def know_ports(self) -> None:
        """Notes that its ports have changed, and tells its logic the cost of sending."""
        self.output.know_ports()
        if self.logic.out is not self.output:
            self.logic.out.know_send(self.output.send_s)

    # a service -------------------------------------------------------------------------------------------------------

    def begin(self, record: Record) -> None:
        """Begins the service of a record. This function is called most of all, so it has few calls."""
        if self.barriers is not None and self.barriers.holds(record):
            self.barriers.put(record)
            return
        if self.polling is not None:
            self.polling.forget()
        self.busy = True
        self.queued -= 1
        self.tuples_in += 1
        inbox, service_s = record.inbox, self.service_s
        if inbox is not None:
            service_s += inbox.beyond_s
            inbox.credits += 1
            if inbox.waiters:
                inbox.wake()
            if record.channel is not None:
                record.channel.take()
        processor, logic = self.processor, self.logic
        work_s = record.fetch_s + logic.plan(record)
        if service_s > 0.0:
            work_s += self.draws.service() * service_s
        work_s *= processor.slowdown
        processor.work_s += work_s
        self.in_service_work_s = work_s
        start_s: float = self.env.now
        if self.free_s > start_s:  # a pause
            start_s = self.free_s
        if inbox is not None:
            counts = inbox.counts
            counts.tuples += 1
            counts.took_s += start_s - record.taken_s - record.left_s
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
        """Ends work on a shared processor, whose end was not known before."""
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
        """Ends a service and sends its results."""
        record, _, end_s, time_s = self.current
        if end_s > self.free_s:
            self.free_s = end_s
        self.busy_s += time_s
        self.logic.emit(record, end_s)  # may send this same object on
        self.busy = False

    # other work, such as evaluations ---------------------------------------------------------------------------------

    def job(self, outcome: EvaluationResult, work_s: float) -> None:
        """Begins work of `work_s` core-seconds that is no service, and sends `outcome` when it is done."""
        work_s *= self.processor.slowdown
        self.processor.work_s += work_s
        now: float = self.env.now
        self._since_s = now
        self.busy = True
        self.in_service_work_s = work_s
        self.evaluating = outcome
        if work_s <= 0.0:  # the caller goes on with queued records
            self._leave()
        elif self.processor.shared:
            self.processor.start(self, work_s, self.work_done)
        else:
            self.finish_alarm.set(now + work_s / self.processor.speed)
        if self.polling is not None and self.busy:  # else it still waits for the next arrival
            self.polling.forget()

    def _leave(self) -> None:
        outcome, self.evaluating = self.evaluating, None
        assert outcome is not None
        now: float = self.env.now
        self.busy_s += now - self._since_s
        self.free_s = now
        outcome.leave(now)
        self.busy = False

    def busy_until_now_s(self) -> float:
        """Seconds spent at work so far."""
        return self.busy_s + (max(0.0, self.env.now - self._since_s) if self.busy else 0.0)

    def left_s(self) -> float:
        """Core-seconds that the work under way still needs."""
        if not self.finish_alarm.pending:
            return self.processor.left_s(self)
        return max(0.0, min(self.in_service_work_s, (self.finish_alarm.due_s - self.env.now) * self.processor.speed))

    # pauses and ends -------------------------------------------------------------------------------------------------

    def pause(self, until_s: float) -> None:
        """Does nothing until `until_s`; work under way ends that much later."""
        if not self.busy:
            self.free_s = max(self.free_s, until_s)
        elif self.finish_alarm.pending:  # otherwise the processor has paused the work
            lost_s, end_s = until_s - self.env.now, self.finish_alarm.due_s
            self._silence()
            self.finish_alarm.set(end_s + lost_s)
            if self.evaluating is None:
                record, start_s, _, time_s = self.current
                self.current = (record, start_s, end_s + lost_s, time_s + lost_s)

    def stop(self) -> None:
        """Drops all records that are queued, in service or not sent. Records that a source has not taken yet stay."""
        if self.polling is None:
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

    def lost(self) -> int:
        """Number of records that are lost when it stops; 0 for a source, which reads again."""
        return self.queued if self.polling is None else 0

    def _silence(self) -> None:
        self.finish_alarm.silence()
        self.finish_alarm = Alarm(self.env, self._finish)

    # what it holds ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """State from which the task can go on. A record in service is served again, unless the logic keeps it."""
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
        if self.polling is not None:  # a source notes the records that it takes, and reads them again
            queue = []
        kept, told = logic.snapshot(again), [port.told.copy() for port in self.ports]
        alignment = self.alignment.copy() if self.alignment is not None else None
        return Snapshot(queue, serving, self.evaluating, logic.held(), alignment, kept, told)

    def restore(self, snapshot: Snapshot, at_s: float) -> int:
        """Goes back to its state at `at_s`, without its queue. Returns the number of records to read again."""
        self.alignment = snapshot.alignment.copy() if snapshot.alignment is not None else None
        for port, told in zip(self.ports, snapshot.told, strict=True):
            port.told = told.copy()
        return self.logic.restore(snapshot.kept, at_s)

    def finish(self, snapshot: Snapshot) -> None:
        """Sends the results that were not sent at the checkpoint."""
        now: float = self.env.now
        if snapshot.serving is not None:
            self.logic.emit(snapshot.serving.copy(), now)
        if snapshot.evaluating is not None:
            snapshot.evaluating.leave(now)

    @property
    def engaged_until_s(self) -> float:
        """Time at which begun work and pauses end; in the past if there are none."""
        return max(self.free_s, self.output.blocked_since_s)
