"""A replica of an operator: takes segments in order, holds the CPU for their work, and sends what they become."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import simpy

from twin.engine.alarm import Alarm
from twin.engine.compute.hidden import HiddenWait
from twin.engine.compute.inputs import Inputs
from twin.engine.segment import Segment
from twin.engine.snapshot import Snapshot
from twin.engine.streams.confluence import Confluence
from twin.engine.streams.control import Alignment, Mark
from twin.engine.streams.sender import Sender
from twin.engine.windows.state import State

if TYPE_CHECKING:
    from twin.engine.compute.processor import Processor
    from twin.engine.draws import Draws
    from twin.engine.streams.keys import KeyGroups
    from twin.engine.streams.pool import Pool


_NOTHING = (Segment(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.0, 0.0, 0.0)


LUMP = 3.0
"""Work of a segment on a shared processor, over the usual, that cannot have been done as the tuples came."""


class Task(Sender):
    """The base of all operators: passes every tuple on. Subclasses say what a segment becomes (`plan`, `emit`).

    Times in a segment may lie up to one segment in the past: the clock lags, the stamps do not. `free_s` is when, on
    that virtual axis, the last service ended.
    """

    __slots__ = (
        "_current",
        "_finish_alarm",
        "_job_since_s",
        "_last_s",
        "alignment",
        "busy_s",
        "confluence",
        "debt_s",
        "dropped",
        "halted",
        "hidden",
        "in_service_work_s",
        "inputs",
        "load",
        "pool",
        "queue",
        "queued",
        "service_s",
        "state_bytes",
        "state_tuples",
        "tuples_in",
    )

    def __init__(
        self,
        env: simpy.Environment,
        name: str,
        processor: Processor,
        draws: Draws,
        service_s: float,
        service_scv: float,
        exact: bool,
    ) -> None:
        super().__init__(env, name, processor, draws, exact)
        self.service_s = service_s  # of a tuple; see Inbox.beyond_s
        self.inputs = Inputs(service_s)
        self.queue: deque[Segment] = deque()
        self.halted = False
        self.debt_s = 0.0  # work of window evaluations still to be done, in core-seconds
        self.hidden = HiddenWait(service_scv, self.inputs)
        self.load = self.hidden.load
        self.pool: Pool | None = None  # of replicas that take from one queue, in an exact run
        self.confluence: Confluence | None = None  # where segments come that may overlap
        self.alignment: Alignment | None = None  # where control items come
        self._last_s = 0.0
        self._job_since_s = 0.0
        self._finish_alarm = Alarm(env, self._finish)
        self._current: tuple[Segment, float, float, float] = _NOTHING
        self.queued = 0
        self.tuples_in = 0
        self.dropped = 0
        self.busy_s = 0.0
        self.state_tuples = 0.0
        self.state_bytes = 0.0  # held beside the content of a window
        self.in_service_work_s = 0.0  # core-seconds of the last service taken up

    # what subclasses say -------------------------------------------------------------------------------------------

    def plan(self, segment: Segment) -> float:
        """Decides what the segment becomes; returns the CPU seconds this takes beyond one service per tuple."""
        return segment.n * self.send_s

    follows = False
    """Whether `served` is to be called."""

    def served(self, segment: Segment, start_s: float, end_s: float) -> None:
        """Called when a service's times are known or (at a job's end) corrected."""

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """Sends what the segment became: the first tuple leaves at first_s, the last at last_s."""
        self.send(depart(segment, segment.n, first_s, last_s))

    @property
    def in_service(self) -> int:
        """Tuples taken up and not yet emitted."""
        return self._current[0].n if self.busy else 0

    @property
    def engaged_until_s(self) -> float:
        """When evaluations and pauses that have begun end; a time gone by if there are none."""
        return max(self.free_s, self._blocked_since_s)  # a window that fills a channel is evaluated first

    # what it holds -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What it would take to go on from here. What is in service has left no trace yet: it is served again."""
        queue = [segment.copy() for segment in self.queue]
        if self.busy:
            queue.insert(0, self._current[0].copy())
        return Snapshot(queue, alignment=self.alignment)

    def restore(self, snapshot: Snapshot, at_s: float, now_s: float) -> int:
        """Goes back to what it was at `at_s`, without its queue; how many tuples it will read again by itself."""
        self.alignment = snapshot.alignment.copy() if snapshot.alignment is not None else None
        return 0

    def finish(self, snapshot: Snapshot) -> None:
        """Sends what it was about to send at the checkpoint."""

    def held(self) -> float:
        """Tuples in its windows."""
        return 0.0

    def held_bytes(self) -> float:
        """Their size."""
        return 0.0

    def window_bytes(self) -> float:
        """Size of the `state_tuples`: as held_bytes, of what the last evaluation left, and of what waits to merge."""
        return 0.0

    def take(self, share: float) -> State:
        """Takes that share of the windows' content out, evenly over their length.

        What is in service is not there yet: its last piece may still be corrected, so it stays.
        """
        return State()

    def give(self, state: State) -> None:
        """Merges windows' content into its own, by positions."""

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """Its part of the operator's key groups has changed."""

    # input ---------------------------------------------------------------------------------------------------------

    def deliver(self, segment: Segment) -> None:
        """Takes a segment whose last tuple has arrived."""
        segment.waited = self.busy or self.blocked > 0
        self.queue.append(segment)
        self.queued += segment.n
        if not segment.waited:
            self.work()

    def work(self) -> None:
        """Serves what is there until a service takes time or the task is blocked."""
        while self.queue and not self.busy and not self.blocked and not self.halted:
            segment = self.queue.popleft()
            if segment.n:
                self._begin(segment)
            else:
                self.heed(segment)
        if self.pool is not None:
            self.pool.feed(self)

    # control items -------------------------------------------------------------------------------------------------

    def mark(self, kind: str, value: float) -> None:
        """Sends a control item to all consumers, behind what was sent so far."""
        at_s = self.env.now if self.exact else self.free_s  # later tuples leave later, on the axis of the stamps
        for port in self.ports:
            port.mark(Mark(kind, value, self.name, at_s))

    def heed(self, mark: Segment) -> None:
        """A control item's turn has come. When all inputs are as far, so is this task, and says so."""
        assert isinstance(mark, Mark) and mark.inbox is not None
        alignment = self.alignment
        if alignment is not None and alignment.take(mark.inbox.side, mark):
            least = alignment.least(mark.kind)
            alignment.reached(mark.kind, least)
            self.mark(mark.kind, least)

    # service -------------------------------------------------------------------------------------------------------

    def _begin(self, segment: Segment) -> None:
        """Takes a segment up. The hottest function of all: its usual case is written out, without calls."""
        if self.exact:
            self._begin_one(segment)
            return
        self.busy = True
        now: float = self.env.now
        n = segment.n
        self.queued -= n
        self.tuples_in += n
        inbox, each_s = segment.inbox, self.service_s
        if inbox is not None:
            each_s += inbox.beyond_s
            inbox.credits += n - n // 2
            if inbox.waiters:
                inbox.wake()
        processor, draws = self.processor, self.draws
        work_s = draws.services(n) * each_s + n * segment.fetch_s + self.plan(segment) + self.debt_s
        work_s *= processor.slowdown
        self.debt_s = 0.0
        speed = processor.available(self.share) if processor.shared else processor.speed
        time_s = work_s / speed
        a_s, b_s = segment.a_s, segment.b_s
        width_s, older_s = b_s - a_s, 0.0
        if self.confluence is not None and inbox is not None:
            width_s = inbox.lane.width_s(a_s, b_s)
            start_s, end_s, older_s = self._among(segment, time_s, width_s, speed)
        else:
            start_s = a_s if a_s > self.free_s else self.free_s
            end_s = start_s + time_s
        self._last_s = b_s
        keeps_up = False
        if b_s > a_s:
            earliest_s = b_s + time_s / n
            if end_s <= earliest_s:
                end_s, keeps_up = earliest_s, True
        if self.follows:
            self.served(segment, start_s, end_s)
        processor.work_s += work_s
        self.in_service_work_s = work_s
        load = self.load
        load.tuples += n
        load.work_s += work_s
        load.gaps += n * segment.gap_scv
        load.last_s = b_s
        if b_s > a_s:
            hidden = self.hidden
            wait_s, varied_s = hidden.sample(draws, n, width_s, speed, now)
            self.shift(segment, wait_s + older_s, varied_s)
            segment.gap_scv = hidden.gap_scv_after
        elif older_s > 0.0:
            self.shift(segment, older_s, 0.0)
        self._current = (segment, start_s, end_s, time_s)
        if processor.shared:
            self._share_out(segment, work_s, speed, keeps_up)
        elif keeps_up or end_s <= now:
            # served as it came: all that lies ahead is the last tuple's service, which is not worth an event
            self._complete()
        else:
            self._finish_alarm.set(end_s)

    def _begin_one(self, segment: Segment) -> None:
        """The same for a single tuple in an exact run, where the clock does not lag and nothing is hidden."""
        self.busy = True
        self.queued -= 1
        self.tuples_in += 1
        inbox, each_s = segment.inbox, self.service_s
        if inbox is not None:
            each_s += inbox.beyond_s
            inbox.credits += 1
            if inbox.waiters:
                inbox.wake()
        processor = self.processor
        work_s = segment.fetch_s + self.plan(segment)
        if each_s > 0.0:
            work_s += self.draws.service() * each_s
        work_s *= processor.slowdown
        processor.work_s += work_s
        self.in_service_work_s = work_s
        start_s: float = self.env.now
        if self.free_s > start_s:  # a pause
            start_s = self.free_s
        time_s = work_s / processor.speed
        end_s = start_s + time_s
        if self.follows:
            self.served(segment, start_s, end_s)
        self._current = (segment, start_s, end_s, time_s)
        if end_s <= start_s:
            self._complete()
        elif processor.shared:
            self._current = (segment, start_s, end_s, 0.0)
            self._job_since_s = self.env.now
            processor.start(self.share, work_s, self._job_done)
        else:
            self._finish_alarm.set(end_s)

    def _among(self, segment: Segment, time_s: float, width_s: float, speed: float) -> tuple[float, float, float]:
        """Start of the first and end of the last tuple's service, and what more they waited, among other streams'."""
        confluence, b_s = self.confluence, segment.b_s
        assert confluence is not None
        confluence.add(b_s - width_s, b_s, time_s, min(1.0, self.load.work_per_s / speed))
        behind_s = confluence.clock_s
        older_s = confluence.wait_s - behind_s
        if older_s < 0.0:
            older_s = 0.0
        if width_s > 0.0:
            return segment.a_s + behind_s, b_s + behind_s, older_s
        return b_s + behind_s, b_s + behind_s + time_s, older_s

    def _share_out(self, segment: Segment, work_s: float, speed: float, keeps_up: bool) -> None:
        """On a shared processor only the work that is left becomes a job; the rest was flat demand."""
        now: float = self.env.now
        end_s = self._current[2]
        # it cannot have worked while it had a job or was blocked; where segments overlap, their confluence knows
        could_s = self.share.could_s(now, speed) if self.confluence is None else work_s
        usual_s = LUMP * segment.n * self.load.work_each_s
        if 0.0 < usual_s < could_s:  # a large evaluation comes all at once
            could_s = usual_s
        if keeps_up and work_s <= could_s:
            self.processor.kept_up(self.share, work_s, speed)
            if end_s > now:
                self._finish_alarm.set(end_s)
            else:
                self._complete()
            return
        left_s = min(work_s, max(0.0, end_s - now) * speed)
        left_s = max(left_s, work_s - could_s)
        if left_s > work_s * (1.0 - 1e-9):  # nothing was served before now; do not let rounding make a flat demand
            left_s = work_s
        else:
            self.processor.kept_up(self.share, work_s - left_s, speed)
        if left_s > 0.0:
            segment, start_s, end_s, _ = self._current
            self._current = (segment, start_s, end_s, (work_s - left_s) / speed)  # of which it was busy before
            self._job_since_s = now
            self.processor.start(self.share, left_s, self._job_done)
        else:
            self._complete()

    def _job_done(self) -> None:
        segment, start_s, due_s, flat_s = self._current
        end_s: float = self.env.now
        if self.confluence is not None:
            self.confluence.delay(end_s - due_s)
        if self.follows:
            self.served(segment, start_s, end_s)
        self._current = (segment, start_s, end_s, flat_s + max(0.0, end_s - self._job_since_s))
        self._finish(None)

    def _finish(self, _: object) -> None:
        self._complete()
        self.work()

    def _complete(self) -> None:
        segment, start_s, end_s, time_s = self._current
        if end_s > self.free_s:
            self.free_s = end_s
        self.busy_s += time_s
        inbox, n = segment.inbox, segment.n
        first_s = start_s + time_s / n
        self.emit(segment, first_s if first_s < end_s else end_s, end_s)  # may send the very segment on
        if inbox is not None and n > 1:
            inbox.credits += n // 2
            if inbox.waiters:
                inbox.wake()
        self.busy = False

    def shift(self, segment: Segment, wait_s: float, varied_s: float) -> None:
        """Makes the tuples look older by a wait before, and a variation during, their service."""
        older_s = wait_s + varied_s
        segment.born0_s -= older_s
        segment.born1_s -= older_s
        segment.taken0_s -= older_s
        segment.taken1_s -= older_s

    def stop(self) -> None:
        """Drops what is queued, in service and waiting to be sent; a service under way ends without effect."""
        self.queue.clear()
        self.queued = 0
        self.processor.cancel(self.share)
        if self.busy:
            self.processor.work_s -= self.in_service_work_s
            self._finish_alarm.silence()
            self._finish_alarm = Alarm(self.env, self._finish)
            self.busy = False
        self.debt_s = 0.0
        self._last_s = 0.0
        if self.confluence is not None:
            self.confluence = Confluence()
        for port in self.ports:
            port.clear()

    def occupy(self, from_s: float, time_s: float) -> None:
        """Works on something else, from that time at the earliest."""
        self.free_s = max(self.free_s, from_s) + time_s
        if self.confluence is not None:
            self.confluence.delay(time_s)

    def pause(self, until_s: float) -> None:
        """Does nothing until then; what is in service ends that much later."""
        lost_s = until_s - self.env.now
        segment, start_s, end_s, time_s = self._current
        if self.confluence is not None:
            self.confluence.delay(lost_s)
        if self.busy:
            if self._finish_alarm.pending:  # else its job, which its processor has paused
                self._finish_alarm.silence()
                self._finish_alarm = Alarm(self.env, self._finish)
                self._finish_alarm.set(end_s + lost_s)
                self._current = (segment, start_s, end_s + lost_s, time_s + lost_s)
        elif self.exact or end_s - start_s <= time_s * 1.001 or self.blocked:
            self.free_s = max(self.free_s, until_s)
        else:
            # It serves segments as they come, and is free that much into the one that is coming. Delays fall from
            # there to its end; where it could make up for more than it lost, they are scaled to keep their sum,
            # rate x lost^2 / (2 (1 - load)).
            spare_s = end_s - start_s - time_s
            self.free_s = max(self.free_s, self._last_s) + (lost_s if spare_s < lost_s else lost_s**2 / spare_s)

    def resume(self) -> None:
        """Goes on after having been blocked: what came meanwhile was not served."""
        if self.confluence is not None:
            self.confluence.unable(self.env.now)
        self.work()


def depart(segment: Segment, n: int, first_s: float, last_s: float) -> Segment:
    """The same segment, now n tuples that leave evenly between two times."""
    alone = segment.n == 1
    segment.n = n
    segment.a_s, segment.b_s = first_s, last_s
    if n == 1 and not alone:
        segment.collapse(0.5)
    return segment
