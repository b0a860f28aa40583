"""A checkpoint of a whole job, and how a task goes back to it.

Instantaneous and unaligned: besides window contents it holds what is queued and what is on the network. Sources keep
positions in their brokers instead, and read again what they took since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twin.engine.measure.ledger import Buffer
from twin.engine.segment import Segment
from twin.engine.snapshot import Snapshot
from twin.engine.station.task import Task
from twin.engine.streams.route import destination

if TYPE_CHECKING:
    from twin.wiring.world import World


@dataclass(slots=True)
class Checkpoint:
    """A job's state at one time."""

    at_s: float
    tasks: dict[Task, Snapshot]
    flying: list[Segment]  # on the network, waiting to be sent, or held until state has arrived
    counted: int  # results that the sinks had, then or when the job last went back to it

    @property
    def queued(self) -> int:
        """Tuples on their way to a task, or waiting there."""
        flying = sum(segment.n for segment in self.flying)
        return flying + sum(snapshot.queued for snapshot in self.tasks.values())


def take_checkpoint(world: World) -> Checkpoint:
    """The state of the job now; sources note where they are."""
    checkpoint = Checkpoint(world.env.now, {}, [], 0)
    for task in _tasks(world):
        checkpoint.tasks[task] = task.snapshot()
        checkpoint.counted += counted(task)
        for port in task.ports:
            for path, segment in port.unsent():
                unsent = segment.copy()
                unsent.inbox, unsent.fetch_s = path.inbox, path.fetch_s
                checkpoint.flying.append(unsent)
    for segment in world.in_flight():
        inbox = destination(segment)
        if inbox is not None and isinstance(inbox.task, Task | Buffer):
            checkpoint.flying.append(segment.copy())
            checkpoint.flying[-1].inbox = inbox
    held = [segment for buffer in world.ledger.buffers for segment in buffer.segments]
    checkpoint.flying += [segment.copy() for segment in held]
    return checkpoint


def restore(world: World, checkpoint: Checkpoint) -> int:
    """Puts the job, which is stopped, back to a checkpoint; the tuples that sources will read again."""
    replayed = 0
    for task, snapshot in checkpoint.tasks.items():
        again = task.restore(snapshot, checkpoint.at_s, world.env.now)
        world.ledger.replayed[task.name] += again
        replayed += again
    for segment in checkpoint.flying:
        _enqueue(world, segment)
    for snapshot in checkpoint.tasks.values():
        for segment in snapshot.queue:
            _enqueue(world, segment)
    world.ledger.due += checkpoint.queued
    world.ledger.windows_due += sum(snapshot.windows for snapshot in checkpoint.tasks.values())
    world.ledger.windows_restored += sum(task.logic.held() for task in _tasks(world))
    return replayed


def finish(checkpoint: Checkpoint) -> None:
    """Lets windows send what they were about to send at the checkpoint; all tasks are still paused."""
    for task, snapshot in checkpoint.tasks.items():
        task.finish(snapshot)


def counted(task: Task) -> int:
    """Results that arrived at it."""
    sink = task.logic.sink()
    return sink.counted if sink is not None else 0


def _tasks(world: World) -> list[Task]:
    return [task for tasks in world.tasks.values() for task in tasks]


def _enqueue(world: World, segment: Segment) -> None:
    """Puts a segment of a checkpoint into its task's queue, with the credits that it holds there."""
    again = segment.copy()
    inbox = again.inbox
    assert inbox is not None
    task: object = inbox.task
    while isinstance(task, Buffer):
        task = task.target
    if not isinstance(task, Task) or task.halted:
        return  # tuples without a home: conservation sees it
    again.waited = True
    again.a_s = again.b_s = again.came_s = world.env.now
    inbox.credits -= again.n
    task.queue.append(again)
    task.queued += again.n
    world.ledger.restored += again.n
