"""A checkpoint of a whole job, and how tasks go back to it.

A checkpoint that is taken at once is unaligned and costs nothing: besides window contents it holds what is queued and
what is on the network. Sources keep positions in their brokers instead, and read again what they took since. Other
checkpoints are put together from the state of each task when a barrier came (`twin.change.coordinator`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twin.engine.measure.ledger import Buffer
from twin.engine.record import Mark, Record
from twin.engine.station.task import Snapshot, Task
from twin.engine.streams.route import Leg, destination
from twin.engine.windows.panes import History
from twin.engine.windows.watermark import RELEASE, TimedLogic

if TYPE_CHECKING:
    from twin.wiring.world import World


@dataclass(slots=True)
class Checkpoint:
    """The state of a job. reached: when a task had the state kept here, if not at `at_s`. sizes: bytes to fetch.

    flying: tuples on the network, waiting to be sent, or held until state has arrived. counted: by sink, results that
    it had then, or when it last went back here. history: what was noted of windows over event time.
    """

    at_s: float
    tasks: dict[Task, Snapshot] = field(default_factory=dict)
    flying: list[Record] = field(default_factory=list)
    counted: dict[Task, int] = field(default_factory=dict)
    reached: dict[Task, float] = field(default_factory=dict)
    sizes: dict[Task, float] = field(default_factory=dict)
    history: History | None = None


def take_checkpoint(world: World) -> Checkpoint:
    """The state of the job now; sources note where they are."""
    checkpoint, unsent, sent = Checkpoint(world.env.now), list[Record](), list[Record]()
    for task in world.every_task():
        checkpoint.tasks[task] = task.snapshot()
        checkpoint.counted[task] = counted(task)
        for port in task.ports:
            for path, record in port.unsent():
                unsent.append(record.copy())
                path.direct(unsent[-1])
    timed = bool(world.owners)
    for record in _furthest_first(world.in_flight()) if timed else world.in_flight():
        inbox = destination(record)
        if inbox is not None and isinstance(inbox.task, Task | Buffer):
            sent.append(record.copy())
            sent[-1].inbox = inbox
    held = [record.copy() for buffer in world.ledger.buffers for record in buffer.records]
    checkpoint.flying = _in_order(unsent, sent, held) if timed else [*unsent, *sent, *held]
    checkpoint.history = world.history().copy() if timed else None
    return checkpoint


def complete(checkpoint: Checkpoint, now_s: float) -> None:
    """Tells all tasks that none of them will go back to before this checkpoint."""
    for task, snapshot in checkpoint.tasks.items():
        task.logic.complete(snapshot.kept, now_s)


def restore(world: World, checkpoint: Checkpoint, tasks: Sequence[Task]) -> int:
    """Puts tasks, which are stopped, back to a checkpoint. Returns how many tuples sources will read again."""
    replayed, there = 0, set(tasks)
    if checkpoint.history is not None:
        _go_back(world, checkpoint.history)
    kept = {task: snapshot for task, snapshot in checkpoint.tasks.items() if task in there}
    for task, snapshot in kept.items():
        again = task.restore(snapshot, checkpoint.reached.get(task, checkpoint.at_s), world.env.now)
        world.ledger.replayed[task.name] += again
        replayed += again
    everything = len(kept) == len(checkpoint.tasks)
    flying = [record for record in checkpoint.flying if everything or _home(record) in there]
    queued = [record for snapshot in kept.values() for record in snapshot.queue if not _holds_back(record)]
    waiting = [*flying, *queued] if checkpoint.history is None else [*queued, *flying]
    for record in waiting:
        _enqueue(world, record)
    world.ledger.due += sum(record.n for record in waiting)
    world.ledger.windows_due += sum(snapshot.windows for snapshot in kept.values())
    world.ledger.windows_restored += sum(task.logic.held() for task in tasks)
    return replayed


def finish(checkpoint: Checkpoint, tasks: Collection[Task]) -> None:
    """Lets windows send what they were about to send at the checkpoint; the tasks are still paused."""
    for task, snapshot in checkpoint.tasks.items():
        if task in tasks:
            task.finish(snapshot)
    _release(tasks)


def counted(task: Task) -> int:
    """Results that arrived at a sink and would arrive there again."""
    sink = task.logic.part(task.logic.operators() - 1).sink()
    return sink.counted if sink is not None and sink.repeats else 0


def _home(record: Record) -> object:
    """The task at which a record will be queued."""
    task: object = record.inbox.task
    while isinstance(task, Buffer):
        task = task.target
    return task


def _enqueue(world: World, record: Record) -> None:
    """Puts a record of a checkpoint into its task's queue, with the credits or the room that it takes up there."""
    again = record.copy()
    inbox, task = again.inbox, _home(again)
    assert inbox is not None
    if not isinstance(task, Task) or task.halted:
        return  # tuples without a home: conservation sees it
    again.at_s = world.env.now
    inbox.credits -= again.n
    if again.channel is not None:
        again.channel.put_back()
    task.queue.append(again)
    task.queued += again.n
    world.ledger.restored += again.n


# windows over event time: what was under way is served in the order in which it was sent, punctuations too ------------


def _furthest_first(flying: Iterable[Record]) -> list[Record]:
    """Records on the network, which are in order of arrival at the end of a hop: those with fewest hops to go lead."""
    return sorted(flying, key=_hops)


def _hops(record: Record) -> int:
    """How many hops a record still has to go, beyond the one that it is on."""
    hops, stop = 0, record.inbox
    while isinstance(stop, Leg):
        hops, stop = hops + 1, stop.inbox if stop.onward is None else stop.onward
    return hops


def _in_order(unsent: Sequence[Record], sent: Sequence[Record], held: Sequence[Record]) -> list[Record]:
    """As the producer of each sent them. What waits for state, or is on the way to where it will, was sent after all
    that went to the former owner, to whom it comes now."""
    under_way = [*sent, *unsent]
    straight = [record for record in under_way if not _will_wait(record)]
    return [*straight, *held, *(record for record in under_way if _will_wait(record))]


def _will_wait(record: Record) -> bool:
    receiver = record.inbox.task if record.inbox is not None else None
    return isinstance(receiver, Buffer) and receiver.target is None


def _go_back(world: World, history: History) -> None:
    """Goes back to what was noted then. What is undone by that is kept, so that it can be checked as well."""
    world.undone.append(world.history().copy())
    for name, audit in world.audits.items():
        audit.become(history.audits[name])


def _holds_back(record: Record) -> bool:
    """Whether the record is a mark that ends a hold; these are left out, as `_release` ends all holds."""
    return isinstance(record, Mark) and record.kind == RELEASE


def _release(tasks: Iterable[Task]) -> None:
    """Ends all holds, behind what waits: no disruptive migration is under way any more."""
    for task in tasks:
        if isinstance(task.logic, TimedLogic):
            for held_us in task.logic.held_us:
                task.logic.release(held_us)
