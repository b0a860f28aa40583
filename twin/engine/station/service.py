"""How a service ends: alone on a core at its time, on a shared processor when its job is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.alarm import Alarm
from twin.engine.compute.hidden import HiddenWait
from twin.engine.segment import Segment
from twin.engine.station.intake import Intake
from twin.engine.streams.confluence import Confluence

if TYPE_CHECKING:
    from twin.engine.logic import Logic
    from twin.engine.station.setup import Setup

_NOTHING = (Segment(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.0, 0.0, 0.0)

LUMP = 3.0
"""Work of a segment on a shared processor, over the usual, that cannot have been done as the tuples came."""


class Service(Intake):
    """`current`: the segment in service; when that began and ends on the axis of the stamps; how long it takes."""

    __slots__ = (
        "_job_lag_s",
        "_job_since_s",
        "busy_s",
        "confluence",
        "current",
        "finish_alarm",
        "hidden",
        "in_service_work_s",
        "load",
    )

    def __init__(self, setup: Setup, logic: Logic) -> None:
        super().__init__(setup, logic)
        self.hidden = HiddenWait(setup.service_scv, self.inputs)
        self.load = self.hidden.load
        self.share.inputs = self.inputs
        self.confluence: Confluence | None = None  # where segments come that may overlap
        self.current: tuple[Segment, float, float, float] = _NOTHING
        self.finish_alarm = Alarm(self.env, self._finish)
        self.busy_s = 0.0
        self.in_service_work_s = 0.0  # core-seconds of the last service taken up
        self._job_since_s = 0.0
        self._job_lag_s = 0.0  # by which the clock was ahead of the stamps then

    @property
    def in_service(self) -> int:
        """Tuples taken up and not yet emitted."""
        return self.current[0].n if self.busy and not self.aside() else 0

    def aside(self) -> bool:
        """Whether it is busy with no tuple."""
        return False

    def start_job(self, work_s: float, lag_s: float = 0.0) -> None:
        """What it has to do is work for a shared processor from now on, or on the axis of the stamps from before."""
        self._job_since_s = self.env.now
        self._job_lag_s = lag_s
        self.processor.start(self.share, work_s, self._job_done)

    def share_out(self, segment: Segment, work_s: float, speed: float, keeps_up: bool) -> None:
        """On a shared processor only the work that is left becomes a job; the rest was flat demand."""
        now: float = self.env.now
        end_s = self.current[2]
        # it cannot have worked while it had a job or was blocked; where segments overlap, their confluence knows
        could_s = self.share.could_s(now, speed) if self.confluence is None else work_s
        usual_s = LUMP * segment.n * self.load.work_each_s
        if 0.0 < usual_s < could_s:  # a large evaluation comes all at once
            could_s = usual_s
        if self.processor.stopped(self.share):
            could_s = 0.0
        elif self.share.passing:  # what else is busy meanwhile is in its speed
            keeps_up, could_s = True, work_s
        if keeps_up and work_s <= could_s:
            self.processor.kept_up(self.share, work_s, speed)
            if end_s > now:
                self.finish_alarm.set(end_s)
            else:
                self.complete()
            return
        left_s = (end_s - now) * speed if end_s > now else 0.0
        if left_s > work_s:
            left_s = work_s
        if left_s < work_s - could_s:
            left_s = work_s - could_s
        if left_s > work_s * (1.0 - 1e-9):  # nothing was served before now; do not let rounding make a flat demand
            left_s = work_s
        else:
            self.processor.kept_up(self.share, work_s - left_s, speed)
        if left_s > 0.0:
            segment, start_s, end_s, time_s = self.current
            before_s = time_s * (1.0 - left_s / work_s)  # of which it was busy before
            self.current = (segment, start_s, end_s, before_s)
            lag_s = 0.0
            if end_s <= now:  # it comes late by the clock: it would have been done as fast when it was due
                due_s = end_s - left_s / speed
                lag_s = now - (due_s if due_s > segment.b_s else segment.b_s)
            self.start_job(left_s, lag_s)
        else:
            self.complete()

    def _job_done(self) -> None:
        segment, start_s, due_s, flat_s = self.current
        now: float = self.env.now
        end_s = now - self._job_lag_s
        if self.confluence is not None:
            self.confluence.delay(end_s - due_s)
        if self.logic.follows:
            self.logic.corrected(segment, start_s, end_s)
        self.current = (segment, start_s, end_s, flat_s + max(0.0, now - self._job_since_s))
        self._finish(None)

    def _finish(self, _: object) -> None:
        self.complete()
        self.work()

    def complete(self) -> None:
        """The service ends: what it comes to leaves, and the rest of its credits come back."""
        segment, start_s, end_s, time_s = self.current
        if end_s > self.free_s:
            self.free_s = end_s
        self.busy_s += time_s
        inbox, n = segment.inbox, segment.n
        first_s = start_s + time_s / n
        self.logic.emit(segment, first_s if first_s < end_s else end_s, end_s)  # may send the very segment on
        if inbox is not None and n > 1:
            inbox.credits += n // 2
            if inbox.waiters:
                inbox.wake()
        self.busy = False
