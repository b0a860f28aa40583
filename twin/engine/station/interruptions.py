"""What comes between a station's segments: pauses, other work, the end of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.alarm import Alarm
from twin.engine.outcome import Outcome
from twin.engine.station.service import Service
from twin.engine.streams.confluence import Confluence

if TYPE_CHECKING:
    from twin.engine.logic import Logic
    from twin.engine.station.setup import Setup


class Interruptible(Service):
    """`evaluating`: what an evaluation comes to now under way as a job in an exact run. `last_s`: the last arrival."""

    __slots__ = ("debt_s", "evaluating", "last_s")

    def __init__(self, setup: Setup, logic: Logic) -> None:
        super().__init__(setup, logic)
        self.evaluating: Outcome | None = None
        self.debt_s = 0.0  # work of evaluations still to be done, in core-seconds
        self.last_s = 0.0

    @property
    def engaged_until_s(self) -> float:
        """When evaluations and pauses that have begun end; a time gone by if there are none."""
        return max(self.free_s, self._blocked_since_s)  # a window that fills a channel is evaluated first

    def aside(self) -> bool:
        """Whether it evaluates, or does other work."""
        return self.evaluating is not None

    # evaluations that no tuple asks for ------------------------------------------------------------------------------

    def job(self, outcome: Outcome, work_s: float) -> None:
        """Works on an evaluation from now on, and on nothing else until it is done."""
        work_s *= self.processor.slowdown
        self.processor.work_s += work_s
        self._evaluate_as_job(outcome, work_s)

    def evaluate(self, outcome: Outcome, work_s: float, from_s: float, meanwhile: bool) -> None:
        """Works on an evaluation, from that time at the earliest. meanwhile: tuples are being served at the same time.

        An exact run does it as a job. A fast one sends the outcome with the time at which it is there; the work is
        done with the next segment's where it cannot be put into the time between two.
        """
        work_s *= self.processor.slowdown
        self.processor.work_s += work_s
        if self.exact:
            self._evaluate_as_job(outcome, work_s)
            return
        time_s = work_s / self.processor.speed
        outcome.leave(self.draws, from_s + time_s)
        if self.blocked and not self.processor.shared:
            # the results fill a channel: the task evaluates first, then it is blocked, and takes no tuples meanwhile
            self.busy_s += time_s
            self._blocked_since_s += time_s
            if self.logic.operators() > 1:  # it takes long, and may be let go before it is done
                self.occupy(from_s, time_s)
        elif self.busy or meanwhile or self.processor.shared:
            self.debt_s += work_s / self.processor.slowdown
            self.processor.work_s -= work_s
        else:
            self.occupy(from_s, time_s)
            self.busy_s += time_s

    def _evaluate_as_job(self, outcome: Outcome, work_s: float) -> None:
        started_s: float = self.env.now
        self.busy = True
        self.in_service_work_s = work_s
        self.evaluating = outcome

        def finish() -> None:
            self.evaluating = None
            now: float = self.env.now
            self.busy_s += now - started_s
            self.free_s = now
            outcome.leave(self.draws, now)
            self.busy = False

        def done(_: object = None) -> None:
            if self.evaluating is outcome:  # else it was stopped meanwhile
                finish()
                self.work()

        if work_s <= 0.0:  # whoever evaluates goes on with what is queued
            finish()
        elif self.processor.shared:
            self.processor.start(self.share, work_s, done)
        else:
            Alarm(self.env, done).set(started_s + work_s / self.processor.speed)

    def occupy(self, from_s: float, time_s: float) -> None:
        """Works on something else, from that time at the earliest."""
        self.free_s = max(self.free_s, from_s) + time_s
        if self.confluence is not None:
            self.confluence.delay(time_s)

    # pauses and ends -------------------------------------------------------------------------------------------------

    def pause(self, until_s: float) -> None:
        """Does nothing until then; what is in service ends that much later."""
        lost_s = until_s - self.env.now
        segment, start_s, end_s, time_s = self.current
        if self.confluence is not None:
            self.confluence.delay(lost_s)
        if self.busy:
            if self.finish_alarm.pending:  # else its job, which its processor has paused
                self._silence()
                self.finish_alarm.set(end_s + lost_s)
                self.current = (segment, start_s, end_s + lost_s, time_s + lost_s)
        elif self.exact or end_s - start_s <= time_s * 1.001 or self.blocked:
            self.free_s = max(self.free_s, until_s)
        else:
            # It serves segments as they come, and is free that much into the one that is coming. Delays fall from
            # there to its end; where it could make up for more than it lost, they are scaled to keep their sum,
            # rate x lost^2 / (2 (1 - load)).
            spare_s = end_s - start_s - time_s
            self.free_s = max(self.free_s, self.last_s) + (lost_s if spare_s < lost_s else lost_s**2 / spare_s)

    def stop(self) -> None:
        """Drops what is queued, in service and waiting to be sent; a service under way ends without effect."""
        self.queue.clear()
        self.queued = 0
        self.processor.cancel(self.share)
        if self.busy:
            self.processor.work_s -= self.in_service_work_s
            self._silence()
            self.busy = False
        self.debt_s = 0.0
        self.last_s = 0.0
        if self.confluence is not None:
            self.confluence = Confluence()
        for port in self.ports:
            port.clear()
        self.evaluating = None
        self.logic.stopped()

    def _silence(self) -> None:
        self.finish_alarm.silence()
        self.finish_alarm = Alarm(self.env, self._finish)

    def resume(self) -> None:
        """Goes on after having been blocked: what came meanwhile was not served."""
        if self.confluence is not None:
            self.confluence.unable(self.env.now)
        self.work()
