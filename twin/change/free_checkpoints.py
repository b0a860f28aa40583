"""Checkpoints that are taken at once and cost nothing, for scenarios that do not say what checkpoints cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from twin.change.availability import Process
from twin.change.checkpoint import complete, take_checkpoint

if TYPE_CHECKING:
    from twin.change.running_job import RunningJob
    from twin.engine.measure.ledger import EventRecord
    from twin.engine.station.task import Task


class NoCheckpoints:
    """Is told of changes of a job. This base class takes no checkpoints, for jobs that never fail."""

    def plan_changes(self) -> None:
        """A change of the plan begins."""

    def plan_changed(self) -> None:
        """A change of the plan has ended: checkpoints from before it are of no use any more."""

    def joined(self, task: Task) -> None:
        """A new replica came."""


class FreeCheckpoints(NoCheckpoints):
    """last: the checkpoint to which a failure takes the job back. whole: whether it takes back the whole job.

    Only the last checkpoint before a failure, and those after changes of the plan, are really taken. every_one: takes
    all of them, for jobs that may go back to the last one at a time that is not known beforehand.
    """

    whole = True

    def __init__(self, job: RunningJob, interval_s: float, every_one: bool = False) -> None:
        self.job = job
        self.wiring = job.wiring
        self.world = job.world
        self.env = job.env
        self.availability = job.availability
        self.interval_s = interval_s
        self.every_one = every_one
        self.last = take_checkpoint(self.world)
        self.wiring.announced = self.plan_changed

    def run(self) -> Process:
        """The process that takes checkpoints regularly."""
        while self.every_one:
            yield self.env.timeout(self.interval_s)
            self.plan_changed()

    def plan_changed(self) -> None:
        """See NoCheckpoints. Takes a checkpoint, if the job is up."""
        if self.availability.outage is None:
            self.last = take_checkpoint(self.world)
            complete(self.last, self.env.now)

    def joined(self, task: Task) -> None:
        """See NoCheckpoints. If the job fails, the replica goes back to how it came: empty."""
        self.last.tasks[task] = task.snapshot()

    def before(self, failure_s: float) -> Process:
        """Waits for the last time before a failure at which a checkpoint is due, and takes that."""
        due_s = math.floor(failure_s / self.interval_s) * self.interval_s
        if due_s > self.env.now:
            yield self.env.timeout(due_s - self.env.now)
            self.plan_changed()

    def abort(self, why: str) -> None:
        """Gives up the checkpoint that is under way, if there is one."""

    def fetch(self, tasks: Sequence[Task], record: EventRecord) -> Process:
        """Each task gets its state back from storage; here this takes no time."""
        yield from ()

    def went_back(self, tasks: Iterable[Task]) -> None:
        """Tasks are at the last checkpoint again."""
