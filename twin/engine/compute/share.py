"""A task's standing on its processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.compute.bunches import SINGLE
from twin.engine.compute.company import MEMORY_S, Company
from twin.engine.compute.flats import grained

if TYPE_CHECKING:
    from twin.engine.compute.inputs import Inputs


class Share:
    """What a task has done and could have done lately, as jobs and as flat demand."""

    __slots__ = (
        "_began_s",
        "_free_s",
        "_jobs_s",
        "_since_s",
        "attached",
        "blocked",
        "bunch",
        "company",
        "done_s",
        "flat",
        "given_s",
        "inputs",
        "passing",
        "place",
        "present",
        "renew_s",
        "resting",
        "running",
        "spare_s",
        "time_sum",
        "usual",
        "usual_s",
        "usual_work",
        "work_sum",
    )

    def __init__(self) -> None:
        self.flat = 0.0  # demand while keeping up, in cores
        self.attached = True
        self.resting = False  # whether its flat demand is left out now: it has a job, is blocked or has gone
        self.running = False  # has a job
        self.blocked = False
        self.usual = 0.0  # the same, as a slow average: the estimate above is moved by chance
        self.usual_work = 0.0
        self.usual_s = 0.0
        self.done_s = 0.0  # core-seconds that it worked while it kept up
        self.given_s = 0.0  # and that it was given as jobs
        self.passing = False  # bursts pass through it, at a rate that is known
        self.place = 0  # in the crowd on its processor, if there is one
        self.company = Company()
        self.bunch = SINGLE  # who gets work when it does, by what was known lately of
        self.inputs: Inputs | None = None  # ... what comes
        self.renew_s = 0.0
        self.present = 0.0  # share of the time that it is busy, as it seems, keeping up
        self.work_sum = 0.0
        self.time_sum = 0.0
        self.spare_s = 0.0  # core-seconds that it could have worked lately and did not
        self._free_s = 0.0  # time outside of jobs and not blocked, since it was last asked for
        self._jobs_s = 0.0  # time with jobs that have ended
        self._began_s = 0.0  # when the one under way began
        self._since_s: float | None = 0.0  # since when it is neither running nor blocked

    def expect(self, work_s: float, time_s: float) -> float:
        """What it usually needs, in cores, as it did so much in time that it had for it."""
        keep = MEMORY_S / (MEMORY_S + time_s)
        self.done_s += work_s
        self.usual_work = work_s = self.usual_work * keep + work_s
        self.usual_s = time_s = self.usual_s * keep + time_s
        return grained(work_s / time_s) if work_s < time_s else 1.0

    def begin(self, now_s: float) -> None:
        """It gets a job."""
        self.engage(now_s)
        self.running = True
        self._began_s = now_s

    def end(self, now_s: float) -> None:
        """Its job has ended."""
        self.running = False
        self._jobs_s += now_s - self._began_s

    def jobs_until_s(self, now_s: float) -> float:
        """Time in which it had jobs."""
        return self._jobs_s + now_s - self._began_s if self.running else self._jobs_s

    def engage(self, now_s: float) -> None:
        """It gets a job or is blocked: its flat demand rests."""
        if self._since_s is not None:
            self._free_s += now_s - self._since_s
            self._since_s = None

    def disengage(self, now_s: float) -> None:
        """Its job has ended, or it is unblocked."""
        if not self.running and not self.blocked:
            self._since_s = now_s

    def could_s(self, now_s: float, speed: float) -> float:
        """Core-seconds that it can have worked since `free_time_s` was last asked for, and did not before."""
        free_s = self._free_s + (now_s - self._since_s if self._since_s is not None else 0.0)
        return self.spare_s + free_s * speed

    def forgo(self, now_s: float) -> None:
        """What it could have worked until now counts no more."""
        self.free_time_s(now_s)
        self.spare_s = 0.0

    def free_time_s(self, now_s: float) -> float:
        """Time in which flat work could be done, since it was last asked for."""
        free_s = self._free_s
        if self._since_s is not None:
            free_s += now_s - self._since_s
            self._since_s = now_s
        self._free_s = 0.0
        return free_s
