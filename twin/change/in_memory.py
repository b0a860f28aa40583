"""Running job in memory, as its checkpoints, failures and other events see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twin.change.barriers import Barriers
from twin.change.checkpoint import Checkpoint, FreeCheckpoints, NoCheckpoints
from twin.change.coordinator import Coordinator
from twin.change.failover import Failover, Outage
from twin.change.kept import finish, restore, stop_all, take
from twin.change.running_job import RunningJob
from twin.change.timeline import Timeline
from twin.checkpoints import Checkpoints
from twin.engine.measure.meters import Statistics
from twin.events import AnyEvent, Failure, LinkDegradation, RateChange, Skew, SlowDown
from twin.world.parts import Task
from twin.world.world import World


class FixedSeats:
    """Subtasks of an operator whose number never changes."""

    def __init__(self, tasks: list[Task]) -> None:
        self.index = tasks.index


class FixedJob(RunningJob):
    """Running job whose plan never changes."""

    def __init__(self, world: World, statistics: Statistics) -> None:
        whole: Any = world
        super().__init__(whole, statistics)

    def fan(self, operator: str) -> Any:
        """Seats of an operator's subtasks."""
        return FixedSeats(self.world.tasks[operator])  # type: ignore[arg-type]


class Unchanging:
    """Stands where a `Reconfigurer` stands, for events that leave the plan as it is."""

    def __init__(self, job: FixedJob) -> None:
        self.job, self.world, self.env = job, job.world, job.env


class FreeInMemory(FreeCheckpoints):
    """Checkpoints that are taken at once and cost nothing."""

    def take(self) -> Checkpoint:
        return take(self.world)  # type: ignore[arg-type]


class CoordinatorInMemory(Coordinator):
    """Checkpoints that are taken by barriers."""

    def take(self) -> Checkpoint:
        """Checkpoint of the beginning, if anything may go back to it."""
        return take(self.world) if self.world.replayable else Checkpoint(0.0)  # type: ignore[attr-defined,arg-type]

    def _gate(self, task: Any) -> Any:
        if task.barriers is None:
            task.barriers = Barriers(self.world, task, self._work_s, self._passed)  # type: ignore[arg-type]
        return task.barriers


class FailoverInMemory(Failover):
    """Stops and restarts subtasks in memory."""

    def stop(self, checkpoint: Checkpoint, tasks: Sequence[Any]) -> tuple[int, int]:
        return stop_all(self.wiring.world, checkpoint, tasks)  # type: ignore[arg-type]

    def go_on(self, checkpoint: Checkpoint, outage: Outage) -> int:
        world: Any = self.wiring.world
        tasks: Any = outage.tasks
        replayed = restore(world, checkpoint, tasks)
        finish(world, checkpoint, set(tasks))
        for task in tasks:
            task.unblock()
        return replayed


def play(world: World, statistics: Statistics, events: Sequence[AnyEvent]) -> None:
    """Plays events that leave the plan as it is, and takes checkpoints."""
    job, settings = FixedJob(world, statistics), world.settings
    failures = [event for event in events if isinstance(event, Failure)]
    if world.checkpoints is not None:
        job.checkpoints = CoordinatorInMemory(job, world.checkpoints)
    else:
        job.checkpoints = FreeInMemory(job, settings.checkpoint_interval_s) if failures else NoCheckpoints()
    change: Any = Unchanging(job)
    timeline = Timeline(change)
    for event in events:
        if not isinstance(event, Failure):
            world.env.process(timeline.at(event))
    if isinstance(job.checkpoints, FreeCheckpoints):
        failover = FailoverInMemory(job.checkpoints)
        world.env.process(job.checkpoints.run())
        for failure in failures:
            world.env.process(failover.fail(failure))


KEEPING = (RateChange, SlowDown, Skew, LinkDegradation)
"""Events that leave all subtasks where they are."""


def keeps_its_plan(events: Sequence[AnyEvent], checkpoints: Checkpoints | None) -> bool:
    """Whether events leave all subtasks where they are; and barriers wait for their turn."""
    unaligned = checkpoints is not None and checkpoints.mode == "unaligned"
    return not unaligned and all(
        isinstance(event, KEEPING) or (isinstance(event, Failure) and not event.lost) for event in events
    )
