"""What every station is made of."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import simpy

from twin.engine.calendar import Alarm
from twin.engine.logic import Outcome, Outlet
from twin.engine.record import Alignment, Mark, Record

if TYPE_CHECKING:
    from twin.engine.arrival.broker import Broker
    from twin.engine.draws import Draws
    from twin.engine.keys.groups import KeyGroups
    from twin.engine.logic import Logic
    from twin.engine.processor import Processor
    from twin.engine.station.barriers import BarrierGate
    from twin.engine.station.pool import Pool
    from twin.engine.streams.channel import Inbox, Port


@dataclass(frozen=True, slots=True)
class Setup:
    """A replica by name, on a processor. service_s: mean CPU seconds a record."""

    env: simpy.Environment
    name: str
    processor: Processor
    draws: Draws
    service_s: float


class Snapshot:
    """A station's. queue: what it has still to serve. serving: what it had served and not sent the results of.

    evaluating: what it was about to send for an evaluation. windows: tuples that its windows held, as it counted them
    itself. alignment: how far its inputs were. kept: what its logic noted of itself. told: by port, how far it had said
    that it was.
    """

    __slots__ = ("alignment", "evaluating", "kept", "queue", "serving", "told", "windows")

    def __init__(
        self,
        queue: list[Record],
        serving: Record | None,
        evaluating: Outcome | None,
        windows: float,
        alignment: Alignment | None,
        kept: object,
        told: list[dict[str, float]],
    ) -> None:
        self.queue = queue
        self.serving = serving
        self.evaluating = evaluating
        self.windows = windows
        self.alignment = alignment.copy() if alignment is not None else None
        self.kept = kept
        self.told = told

    @property
    def queued(self) -> int:
        """Tuples in the queue."""
        return sum([record.n for record in self.queue])


class Inputs:
    """One task's: its inboxes, one a stream; none of a source."""

    __slots__ = ("_tuple_bytes", "inboxes")

    def __init__(self) -> None:
        self.inboxes: list[Inbox] = []
        self._tuple_bytes: float | None = 0.0  # what is the same on all streams; else None, and a mean is taken

    def add(self, inbox: Inbox) -> None:
        """Another stream."""
        self.inboxes.append(inbox)
        sizes = [each.tuple_bytes for each in self.inboxes]
        self._tuple_bytes = sizes[0] if min(sizes) == max(sizes) else None

    def tuple_bytes(self) -> float:
        """Mean size of the records that came; 0 without an input."""
        if self._tuple_bytes is not None:
            return self._tuple_bytes
        sent = [each.sent for each in self.inboxes]
        if not any(sent):  # nothing came yet
            sent = [1] * len(sent)
        sizes = [each.tuple_bytes * count for each, count in zip(self.inboxes, sent, strict=True)]
        return sum(sizes) / sum(sent)


class Station(Outlet):
    """Takes records in, in order, has them served one by one, and stands still while a port cannot send.

    queued: records that wait here, in `queue` or in a pool. errands: what was due at which time and waits for the
    station. busy: with a record, or other work. blocked: ports that hold a record back. free_s: when it had done its
    last work, or a pause ends. halted: for good. polls: its queue is a broker's. alignment: where control items come.
    gate: where checkpoints are taken. pool: of replicas that take from one queue. state_bytes: held beside the content
    of windows.
    """

    __slots__ = (
        "_blocked_since_s",
        "alignment",
        "blocked",
        "blocked_s",
        "busy",
        "draws",
        "env",
        "errands",
        "free_s",
        "gate",
        "halted",
        "inputs",
        "logic",
        "name",
        "polls",
        "pool",
        "ports",
        "processor",
        "queue",
        "queued",
        "service_s",
        "state_bytes",
        "tuples_in",
        "tuples_out",
    )

    def __init__(self, setup: Setup, logic: Logic) -> None:
        super().__init__()
        self.env = setup.env
        self.name = setup.name
        self.processor = setup.processor
        self.draws = setup.draws
        self.service_s = setup.service_s  # of a record; see Inbox.beyond_s
        self.logic = logic
        self.inputs = Inputs()
        self.queue: deque[Record] = deque()
        self.queued = 0
        self.errands: deque[tuple[Logic, float]] = deque()
        self.ports: list[Port] = []
        self.tuples_in = 0
        self.tuples_out = 0
        self.busy = False
        self.blocked = 0
        self.blocked_s = 0.0
        self._blocked_since_s = 0.0
        self.free_s = 0.0
        self.halted = False
        self.polls = False
        self.state_bytes = 0.0
        self.alignment: Alignment | None = None
        self.gate: BarrierGate | None = None
        self.pool: Pool | None = None

    # what comes ------------------------------------------------------------------------------------------------------

    def deliver(self, record: Record) -> None:
        """Takes a record that has arrived."""
        self.queue.append(record)
        self.queued += record.n
        if not (self.busy or self.blocked):
            self.work()

    def work(self) -> None:
        """Serves what is there until a service takes time or the station is blocked. What is due comes first."""
        while (self.queue or self.errands) and not self.busy and not self.blocked and not self.halted:
            if self.errands:
                logic, at_s = self.errands.popleft()
                logic.due(at_s, self.env.now)
                continue
            record = self.queue.popleft()
            if record.n:
                self.begin(record)
            else:
                self.heed(record)
        if self.pool is not None:
            self.pool.feed(self)

    def begin(self, record: Record) -> None:
        """Takes a record up."""
        raise NotImplementedError

    def heed(self, mark: Record) -> None:
        """A control item's turn has come. When all inputs are as far, so is this station, and says so."""
        assert isinstance(mark, Mark)
        if self.gate is not None:
            self.gate.heed(mark)
            return
        if self.logic.heeds:
            self.logic.heed(mark)
            return
        assert mark.inbox is not None
        alignment = self.alignment
        if alignment is not None and alignment.take(mark.inbox.side, mark):
            least = alignment.least(mark.kind)
            alignment.reached(mark.kind, least)
            self.mark(mark.kind, least)

    def lost(self) -> int:
        """Records that are lost when it stops."""
        return self.queued

    # what leaves -----------------------------------------------------------------------------------------------------

    def know_ports(self) -> None:
        """What it costs to send a record, after any change of its ports; those who follow its logic hear of it."""
        self.send_s = sum([port.send_s for port in self.ports])
        if self.logic.out is not self:
            self.logic.out.know_send(self.send_s)

    def send(self, record: Record) -> None:
        """Sends a record on every output stream."""
        self.tuples_out += 1
        record.left_s = record.at_s - record.taken_s
        ports = self.ports
        if len(ports) > 1:
            for port in ports[1:]:
                port.send(record.copy())
        ports[0].send(record)

    def mark(self, kind: str, value: float) -> None:
        """Sends a control item to all consumers, behind what was sent so far."""
        for port in self.ports:
            port.mark(Mark(kind, value, self.name, self.env.now))

    def held_back(self, record: Record) -> None:
        """A record that a full channel held back leaves now."""
        record.at_s = max(record.at_s, self.env.now)

    # standing still --------------------------------------------------------------------------------------------------

    def block(self) -> None:
        """A port has a record that its channel cannot take."""
        self.blocked += 1
        if self.blocked == 1:
            self._blocked_since_s = self.env.now
            if self.processor.shared:
                self.processor.refresh()  # the clock is summed up then, which decides the last bit of what follows

    def unblock(self) -> None:
        """A port has sent all it held; with the last of them the station works again."""
        self.blocked -= 1
        if self.blocked:
            return
        now: float = self.env.now
        self.blocked_s += now - self._blocked_since_s
        if self.processor.shared:
            self.processor.refresh()
        if not self.busy:
            self.free_s = max(self.free_s, now)
            self.work()

    def blocked_until_now_s(self) -> float:
        """Time spent blocked so far."""
        return self.blocked_s + (self.env.now - self._blocked_since_s if self.blocked else 0.0)

    @property
    def engaged_until_s(self) -> float:
        """When work and pauses that have begun end; a time gone by if there are none."""
        return max(self.free_s, self._blocked_since_s)

    # what its logic is asked and told --------------------------------------------------------------------------------

    def window_bytes(self) -> float:
        """See Logic."""
        return self.logic.window_bytes()

    def held_keys(self) -> list[tuple[list[int], float]]:
        """See Logic."""
        return self.logic.held_keys()

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """See Logic."""
        self.logic.know_keys(keys, replica)


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


class GatedTask(Task):
    """What comes passes its gate first, if it has got one."""

    __slots__ = ()

    def deliver(self, record: Record) -> None:
        """Unaligned barriers are heeded as they arrive."""
        gate = self.gate
        if gate is not None and gate.overtakes and gate.arrived(record):
            return
        Task.deliver(self, record)

    def begin(self, record: Record) -> None:
        """What comes behind an aligned barrier waits for the others."""
        gate = self.gate
        if gate is not None and gate.came and not gate.overtakes and gate.holds(record):
            gate.put(record)
        else:
            Task.begin(self, record)


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
