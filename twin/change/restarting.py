"""Tasks stop, all that they had on the way is lost, and they go on from a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twin.change.checkpoint import Checkpoint, counted, finish, restore
from twin.engine.measure.ledger import Buffer
from twin.engine.station.task import Task
from twin.engine.streams.channel import UNBOUNDED
from twin.engine.streams.route import destination
from twin.wiring.streams import room_of

if TYPE_CHECKING:
    from twin.change.rewiring import Rewiring


def all_tasks(wiring: Rewiring) -> list[Task]:
    """Of the job, in order."""
    return [task for tasks in wiring.world.tasks.values() for task in tasks]


def stop(wiring: Rewiring, checkpoint: Checkpoint, tasks: Sequence[Task]) -> tuple[int, int]:
    """They stop; what is queued, in service or on the way to them is lost. Tuples lost, results to be repeated.

    No channel may lead from one of them to a task that goes on, or back.
    """
    world, ledger, stopped = wiring.world, wiring.world.ledger, set(tasks)
    before, everything = ledger.lost, len(stopped) == len(all_tasks(wiring))
    for record in world.in_flight():
        inbox = destination(record)
        if inbox is not None and (inbox.task in stopped or (everything and isinstance(inbox.task, Task | Buffer))):
            ledger.lose(record)
    for buffer in ledger.buffers if everything else ():
        ledger.lost += buffer.queued
        buffer.records.clear()
    for name in world.tasks:
        for task in world.tasks[name]:
            if task in stopped:
                _stop_task(wiring, name, task)
    for edge in wiring.job.edges:
        for inbox in world.inboxes[edge.ends]:
            if everything or inbox.task in stopped:
                inbox.credits = room_of(wiring, edge.stream) if isinstance(inbox.task, Task) else UNBOUNDED
                inbox.waiters.clear()
    results = {task: counted(task) for task in tasks}
    duplicates = sum(results.values()) - sum(checkpoint.counted.get(task, 0) for task in tasks)
    checkpoint.counted |= results  # if it is needed again, only what comes after the restart counts anew
    ledger.duplicates += duplicates
    return ledger.lost - before, duplicates


def _stop_task(wiring: Rewiring, operator: str, task: Task) -> None:
    ledger = wiring.world.ledger
    ledger.aborted[task.name] += task.logic.in_service()
    for edge, port in zip(wiring.job.outputs(operator), task.ports, strict=True):
        ledger.unsent[edge.ends] += port.waiting()
    ledger.lost += task.lost()
    task.stop()
    if task.blocked:
        task.blocked = 1
    else:
        task.block()


def restart(wiring: Rewiring, checkpoint: Checkpoint, tasks: Sequence[Task]) -> int:
    """They go on from the checkpoint; the tuples that sources read again."""
    replayed = restore(wiring.world, checkpoint, tasks)
    finish(checkpoint, set(tasks))
    for task in tasks:
        task.unblock()
    return replayed
