"""A replica of an operator: takes segments in order, holds the CPU for their work, and sends what they become."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.segment import Segment
from twin.engine.snapshot import Snapshot
from twin.engine.station.interruptions import Interruptible

if TYPE_CHECKING:
    from twin.engine.logic import Logic
    from twin.engine.station.setup import Setup
    from twin.engine.streams.keys import KeyGroups


class Task(Interruptible):
    """A station with its logic.

    Times in a segment may lie up to one segment in the past: the clock lags, the stamps do not. `free_s` is when, on
    that virtual axis, the last service ended.
    """

    __slots__ = ("state_bytes",)

    def __init__(self, setup: Setup, logic: Logic) -> None:
        super().__init__(setup, logic)
        self.state_bytes = 0.0  # held beside the content of a window
        logic.start(self, self)

    def know_ports(self) -> None:
        """See Sender; those who follow its logic hear of it."""
        super().know_ports()
        if self.logic.out is not self:
            self.logic.out.know_send(self.send_s)

    # how a service begins --------------------------------------------------------------------------------------------

    def begin(self, segment: Segment) -> None:
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
        processor, draws, logic = self.processor, self.draws, self.logic
        work_s = draws.services(n) * each_s + n * segment.fetch_s + logic.plan(segment) + self.debt_s
        work_s *= processor.slowdown
        self.debt_s = 0.0
        speed = processor.speed
        if processor.shared:
            speed = processor.available(self.share)
        time_s = busy_s = work_s / speed
        if self.hidden.faster > 1.0:  # its line moves on by the processor's clock
            speed *= self.hidden.faster
            if speed > 1.0:
                speed = 1.0
            time_s = work_s / speed
        a_s, b_s = segment.a_s, segment.b_s
        width_s, older_s = b_s - a_s, 0.0
        if self.confluence is not None and inbox is not None:
            lane = inbox.lane
            width_s = lane.width_s(a_s, b_s) if segment.beyond is None else lane.burst_s(n, width_s)
            start_s, end_s, older_s = self._among(segment, time_s, width_s, speed)
        else:
            start_s = a_s if a_s > self.free_s else self.free_s
            end_s = start_s + time_s
        self.last_s = b_s
        keeps_up = False
        if b_s > a_s:
            together = self.hidden.together  # that come with the last one, and are all still to be served
            last = together if together < n else float(n)
            earliest_s = b_s + time_s * last / n
            if end_s <= earliest_s:
                end_s, keeps_up = earliest_s, True
        processor.work_s += work_s
        self.in_service_work_s = work_s
        load = self.load
        load.tuples += n
        load.work_s += work_s
        load.gaps += n * segment.gap_scv
        if segment.unseen_scv:
            load.unseen += n * segment.unseen_scv
        load.last_s = b_s
        if b_s > a_s:
            hidden = self.hidden
            wait_s, varied_s = hidden.sample(draws, n, width_s, speed, now, busy_s / n)
            self.shift(segment, wait_s + older_s, varied_s)
            segment.gap_scv = hidden.gap_scv_after
            segment.unseen_scv = hidden.unseen_scv_after
        elif older_s > 0.0:
            self.shift(segment, older_s, 0.0)
        if logic.follows:
            logic.served(segment, start_s, end_s)
        if inbox is not None:
            way, last_s = inbox.way, end_s - time_s / n
            way.tuples += n
            way.took_s += n * ((start_s + last_s - segment.taken0_s - segment.taken1_s) / 2 - segment.left_s)
        self.current = (segment, start_s, end_s, busy_s)
        if processor.shared:
            self.share_out(segment, work_s, speed, keeps_up)
        elif keeps_up or end_s <= now:
            # served as it came: all that lies ahead is the last tuple's service, which is not worth an event
            self.complete()
        else:
            self.finish_alarm.set(end_s)

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
        processor, logic = self.processor, self.logic
        work_s = segment.fetch_s + logic.plan(segment)
        if each_s > 0.0:
            work_s += self.draws.service() * each_s
        work_s *= processor.slowdown
        processor.work_s += work_s
        self.in_service_work_s = work_s
        start_s: float = self.env.now
        if self.free_s > start_s:  # a pause
            start_s = self.free_s
        if inbox is not None:
            inbox.way.tuples += 1
            inbox.way.took_s += start_s - segment.taken0_s - segment.left_s
        time_s = work_s / processor.speed
        end_s = start_s + time_s
        if logic.follows:
            logic.served(segment, start_s, end_s)
        self.current = (segment, start_s, end_s, time_s)
        if end_s <= start_s:
            self.complete()
        elif processor.shared:
            self.current = (segment, start_s, end_s, 0.0)
            self.start_job(work_s)
        else:
            self.finish_alarm.set(end_s)

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
            a_s = segment.a_s
            start_s, end_s = a_s + behind_s, b_s + behind_s
            burst = segment.beyond is not None
            if burst and width_s < time_s - time_s / segment.n:  # it came faster than it is served, one by one
                if end_s < a_s + time_s:
                    end_s = a_s + time_s
                start_s = end_s - time_s
            able_s = min(confluence.able_s, end_s - time_s)  # before, none of what waited was served
            return (start_s if start_s > able_s else able_s), end_s, older_s
        return b_s + behind_s, b_s + behind_s + time_s, older_s

    def shift(self, segment: Segment, wait_s: float, varied_s: float) -> None:
        """Makes the tuples look older by a wait before, and a variation during, their service."""
        older_s = wait_s + varied_s
        segment.born0_s -= older_s
        segment.born1_s -= older_s
        segment.taken0_s -= older_s
        segment.taken1_s -= older_s

    # what it holds ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What it would take to go on from here. What has left no trace yet is served again."""
        logic, serving = self.logic, None
        queue = [segment.copy() for segment in self.queue]
        if self.busy and self.evaluating is None:
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
        """Goes back to what it was at `at_s`, without its queue; how many tuples it will read again by itself."""
        self.alignment = snapshot.alignment.copy() if snapshot.alignment is not None else None
        for port, told in zip(self.ports, snapshot.told, strict=True):
            port.told = told.copy()
        return self.logic.restore(snapshot.kept, at_s, now_s)

    def finish(self, snapshot: Snapshot) -> None:
        """Sends what it was about to send at the checkpoint."""
        now: float = self.env.now
        if snapshot.serving is not None:
            self.logic.emit(snapshot.serving.copy(), now, now)
        if snapshot.evaluating is not None:
            snapshot.evaluating.leave(self.draws, now)

    def window_bytes(self) -> float:
        """See Logic."""
        return self.logic.window_bytes()

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """See Logic."""
        self.logic.know_keys(keys, replica)
