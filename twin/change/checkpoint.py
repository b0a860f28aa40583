"""Checkpoints of a whole job.

One that is taken at once is unaligned and costs nothing (`FreeCheckpoints`): besides window contents it holds records
that are queued or on the network. Sources keep positions in their brokers instead, and read again what they took since.
Other checkpoints are put together from the state of each subtask when a barrier came (`twin.change.coordinator`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from twin.change.kept import Checkpoint, keep, take
from twin.world.parts import Task

if TYPE_CHECKING:
    from twin.change.running_job import Process, RunningJob
    from twin.world.ledger import EventRecord


def complete(checkpoint: Checkpoint, now_s: float) -> None:
    """Tells all tasks that none of them will go back to before this checkpoint."""
    for task, snapshot in checkpoint.tasks.items():
        task.logic.complete(snapshot.kept, now_s)


class NoCheckpoints:
    """Base of the checkpoints of a job, which are told of its changes. It takes none, for jobs that never fail."""

    def plan_changes(self) -> None:
        """Notes that a change of the plan begins."""

    def plan_changed(self) -> None:
        """Notes that a change of the plan has ended: checkpoints from before it are of no use any more."""

    def joined(self, task: Task) -> None:
        """Notes that a new subtask came."""

    def abort(self, why: str) -> None:
        """Gives up the checkpoint that is under way, if there is one."""


class FreeCheckpoints(NoCheckpoints):
    """Checkpoints that are taken at once and cost nothing. last: the checkpoint to which a failure takes the job back.
    whole: whether a failure takes the whole job back.

    Only the last checkpoint before a failure, and those after changes of the plan, are really taken. every_one: takes
    all of them, for jobs that may go back to the last one at a time that is not known beforehand.
    """

    whole = True

    def __init__(self, job: RunningJob, interval_s: float, every_one: bool = False) -> None:
        self.job = job
        self.world = job.world
        self.env = job.env
        self.availability = job.availability
        self.interval_s = interval_s
        self.every_one = every_one
        self.last = self.take()
        self.world.announced = self.plan_changed

    def take(self) -> Checkpoint:
        """Takes a checkpoint now."""
        return take(self.world)

    def run(self) -> Process:
        """Takes checkpoints regularly, if all are taken (a SimPy process)."""
        while self.every_one:
            yield self.env.timeout(self.interval_s)
            self.plan_changed()

    def plan_changed(self) -> None:
        """Takes a checkpoint after a change of the plan, if the job is up."""
        if self.availability.outage is None:
            self.last = self.take()
            complete(self.last, self.env.now)

    def joined(self, task: Task) -> None:
        """Adds a new subtask to the last checkpoint: if the job fails, it goes back to how it came, empty."""
        self.last.tasks[task] = keep(task)

    def before(self, failure_s: float) -> Process:
        """Waits for the last time before a failure at which a checkpoint is due, and takes that checkpoint."""
        due_s = math.floor(failure_s / self.interval_s) * self.interval_s
        if due_s > self.env.now:
            yield self.env.timeout(due_s - self.env.now)
            self.plan_changed()

    def fetch(self, tasks: Sequence[Task], record: EventRecord) -> Process:
        """Fetches the state of each task from storage; here this takes no time."""
        yield from ()

    def went_back(self, tasks: Iterable[Task]) -> None:
        """Notes that tasks are at the last checkpoint again."""
