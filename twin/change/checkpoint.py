"""Checkpoints of a whole job, and how tasks go back to them.

A checkpoint that is taken at once is unaligned and costs nothing (`FreeCheckpoints`): besides window contents it holds
records that are queued or on the network. Sources keep positions in their brokers instead, and read again what they
took since. Other checkpoints are put together from the state of each task when a barrier came
(`twin.change.coordinator`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twin.engine.measure.ledger import Buffer
from twin.engine.record import Mark, Record
from twin.engine.station.task import Snapshot, Task
from twin.engine.streams.network import Leg, destination
from twin.engine.windows.panes import History
from twin.engine.windows.watermark import RELEASE, TimedLogic

if TYPE_CHECKING:
    from twin.change.running_job import Process, RunningJob
    from twin.engine.measure.ledger import EventRecord
    from twin.wiring.world import World


@dataclass(slots=True)
class Checkpoint:
    """State of a job. reached: when a task had the state kept here, if not at `at_s`. sizes: bytes to fetch.

    flying: tuples on the network, waiting to be sent, or held until state has arrived. counted: by sink, the results
    that it had then, or when it last went back here. history: notes on windows over event time.
    """

    at_s: float
    tasks: dict[Task, Snapshot] = field(default_factory=dict)
    flying: list[Record] = field(default_factory=list)
    counted: dict[Task, int] = field(default_factory=dict)
    reached: dict[Task, float] = field(default_factory=dict)
    sizes: dict[Task, float] = field(default_factory=dict)
    history: History | None = None


def take_checkpoint(world: World) -> Checkpoint:
    """Takes a checkpoint of the job now; sources note their positions."""
    checkpoint, unsent, sent = Checkpoint(world.env.now), list[Record](), list[Record]()
    for task in world.every_task():
        checkpoint.tasks[task] = task.snapshot()
        checkpoint.counted[task] = counted(task)
        for port in task.ports:
            for path, record in port.unsent():
                unsent.append(record.copy())
                path.direct(unsent[-1])
    timed = bool(world.owners)
    flying = world.in_flight()  # in order of arrival at the end of a hop
    for record in sorted(flying, key=_hops) if timed else flying:  # records with the fewest hops to go lead
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
    """Puts stopped tasks back to a checkpoint. Returns the number of tuples that sources will read again."""
    replayed, there = 0, set(tasks)
    if checkpoint.history is not None:
        world.undone.append(world.history().copy())  # undone windows are checked as well
        for name, audit in world.audits.items():
            audit.become(checkpoint.history.audits[name])
    kept = {task: snapshot for task, snapshot in checkpoint.tasks.items() if task in there}
    for task, snapshot in kept.items():
        again = task.restore(snapshot, checkpoint.reached.get(task, checkpoint.at_s))
        world.ledger.replayed[task.name] += again
        replayed += again
    everything = len(kept) == len(checkpoint.tasks)
    flying = [record for record in checkpoint.flying if everything or _home(record) in there]
    queue = [record for snapshot in kept.values() for record in snapshot.queue]
    queued = [record for record in queue if not (isinstance(record, Mark) and record.kind == RELEASE)]  # see _release
    waiting = [*flying, *queued] if checkpoint.history is None else [*queued, *flying]
    for record in waiting:
        _enqueue(world, record)
    world.ledger.due += sum(record.n for record in waiting)
    world.ledger.windows_due += sum(snapshot.windows for snapshot in kept.values())
    world.ledger.windows_restored += sum(task.logic.held() for task in tasks)
    return replayed


def finish(checkpoint: Checkpoint, tasks: Collection[Task]) -> None:
    """Sends the results that windows had not sent at the checkpoint; the tasks are still paused."""
    for task, snapshot in checkpoint.tasks.items():
        if task in tasks:
            task.finish(snapshot)
    _release(tasks)


def counted(task: Task) -> int:
    """Number of results that arrived at a sink and would arrive there again."""
    sink = task.logic.part(task.logic.operators() - 1).sink()
    return sink.counted if sink is not None and sink.repeats else 0


def _home(record: Record) -> object:
    """Task at which a record will be queued."""
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
        return  # tuples without a task: the conservation laws report them
    again.at_s = world.env.now
    inbox.credits -= again.n
    if again.channel is not None:
        again.channel.put_back()
    task.queue.append(again)
    task.queued += again.n
    world.ledger.restored += again.n


# windows over event time: records and punctuations under way are served in the order in which they were sent ----------


def _hops(record: Record) -> int:
    """Number of hops that a record still has to go, beyond the one that it is on."""
    hops, stop = 0, record.inbox
    while isinstance(stop, Leg):
        hops, stop = hops + 1, stop.inbox if stop.onward is None else stop.onward
    return hops


def _in_order(unsent: Sequence[Record], sent: Sequence[Record], held: Sequence[Record]) -> list[Record]:
    """Records in the order in which their producers sent them. A record that waits for state, or will wait for it, was
    sent after all records to the former owner, to whom it comes now."""
    under_way = [*sent, *unsent]
    straight = [record for record in under_way if not _will_wait(record)]
    return [*straight, *held, *(record for record in under_way if _will_wait(record))]


def _will_wait(record: Record) -> bool:
    receiver = record.inbox.task if record.inbox is not None else None
    return isinstance(receiver, Buffer) and receiver.target is None


def _release(tasks: Iterable[Task]) -> None:
    """Lets held watermarks rise again, behind waiting records, as no disruptive migration is under way any more."""
    for task in tasks:
        if isinstance(task.logic, TimedLogic):
            for held_us in task.logic.held_us:
                task.logic.release(held_us)


class NoCheckpoints:
    """Base of the checkpoints of a job, which are told of its changes. It takes none, for jobs that never fail."""

    def plan_changes(self) -> None:
        """Notes that a change of the plan begins."""

    def plan_changed(self) -> None:
        """Notes that a change of the plan has ended: checkpoints from before it are of no use any more."""

    def joined(self, task: Task) -> None:
        """Notes that a new replica came."""


class FreeCheckpoints(NoCheckpoints):
    """Checkpoints that are taken at once and cost nothing. last: the checkpoint to which a failure takes the job back.
    whole: whether a failure takes the whole job back.

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
        self.last = self.take()
        self.wiring.announced = self.plan_changed

    def take(self) -> Checkpoint:
        """Takes a checkpoint now."""
        return take_checkpoint(self.world)

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
        """Adds a new replica to the last checkpoint: if the job fails, it goes back to how it came, empty."""
        self.last.tasks[task] = task.snapshot()

    def before(self, failure_s: float) -> Process:
        """Waits for the last time before a failure at which a checkpoint is due, and takes that checkpoint."""
        due_s = math.floor(failure_s / self.interval_s) * self.interval_s
        if due_s > self.env.now:
            yield self.env.timeout(due_s - self.env.now)
            self.plan_changed()

    def abort(self, why: str) -> None:
        """Gives up the checkpoint that is under way, if there is one."""

    def fetch(self, tasks: Sequence[Task], record: EventRecord) -> Process:
        """Fetches the state of each task from storage; here this takes no time."""
        yield from ()

    def went_back(self, tasks: Iterable[Task]) -> None:
        """Notes that tasks are at the last checkpoint again."""
