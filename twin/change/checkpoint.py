"""A checkpoint of a whole job, and how a task goes back to it.

Instantaneous and unaligned: besides window contents it holds what is queued and what is on the network. Sources keep
positions in their brokers instead, and read again what they took since.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twin.engine.arrival.replay import ReplayableSource
from twin.engine.measure.ledger import Buffer
from twin.engine.operators import SinkTask
from twin.engine.segment import Segment
from twin.engine.streams.route import destination
from twin.engine.task import Task
from twin.engine.windows.aggregate import AggregateTask
from twin.engine.windows.join import JoinTask
from twin.engine.windows.window import Results, WindowTask

if TYPE_CHECKING:
    from twin.wiring.world import World

KEPT: dict[type[Task], tuple[str, ...]] = {
    WindowTask: ("seen", "_due", "_planned", "_pending", "_boundary_s", "_late_s", "state_tuples"),
    AggregateTask: ("history",),
    JoinTask: ("sides", "_merger", "_position", "_unseen_mix", "matches"),
}
"""What a task of a class remembers."""


@dataclass(slots=True)
class TaskState:
    """One task's: its memory, the segment in service (which is finished at the restart), its queue."""

    memory: dict[str, Any]
    serving: Segment | None
    queue: list[Segment]


@dataclass(slots=True)
class Checkpoint:
    """A job's state at one time."""

    at_s: float
    tasks: dict[Task, TaskState]
    flying: list[Segment]  # on the network, waiting to be sent, or held until state has arrived
    counted: int  # results that the sinks had, then or when the job last went back to it


def take_checkpoint(world: World) -> Checkpoint:
    """The state of the job now; sources note where they are."""
    checkpoint = Checkpoint(world.env.now, {}, [], 0)
    for tasks in world.tasks.values():
        for task in tasks:
            if isinstance(task, ReplayableSource):
                task.checkpoint()
            else:
                checkpoint.tasks[task] = _state(task)
            if isinstance(task, SinkTask):
                checkpoint.counted += task.counted
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


def _state(task: Task) -> TaskState:
    names = [name for kind in KEPT if isinstance(task, kind) for name in KEPT[kind] if hasattr(task, name)]
    memory = {name: copy.deepcopy(getattr(task, name)) for name in names}
    queue = [segment.copy() for segment in task.queue]
    serving = task._current[0].copy() if task.busy and not memory.get("_pending") else None
    if serving is not None and not isinstance(task, WindowTask):
        queue.insert(0, serving)  # it has left no trace yet: serve it again
        serving = None
    return TaskState(memory, serving, queue)


def restore(world: World, checkpoint: Checkpoint) -> int:
    """Puts the job, which is stopped, back to a checkpoint; the tuples that sources will read again."""
    replayed = 0
    for tasks in world.tasks.values():
        for task in tasks:
            if isinstance(task, ReplayableSource):
                again = task.rewind()
                world.ledger.replayed[task.name] += again
                replayed += again
            elif task in checkpoint.tasks:
                _remember(task, checkpoint.tasks[task], checkpoint.at_s, world.env.now)
    for segment in checkpoint.flying:
        _enqueue(world, segment)
    for state in checkpoint.tasks.values():
        for segment in state.queue:
            _enqueue(world, segment)
    return replayed


def finish(world: World, checkpoint: Checkpoint) -> None:
    """Lets windows send what they were about to send at the checkpoint; all tasks are still paused."""
    now = world.env.now
    for task, state in checkpoint.tasks.items():
        if task.halted or not isinstance(task, WindowTask):
            continue
        pending: list[Results] = task._pending or []
        task._pending = None
        if state.serving is not None:
            task.emit(state.serving.copy(), now, now)
        for results in pending:
            if results.n > 0:
                task._send_results(results, now, now)


def _remember(task: Task, state: TaskState, at_s: float, now_s: float) -> None:
    if not isinstance(task, WindowTask):
        return
    reached_s = task._boundary_s if task.by_time else 0.0
    for name, value in state.memory.items():
        setattr(task, name, copy.deepcopy(value))
    for history in task.histories:
        history.restarted(at_s, now_s)
    if task.by_time:  # windows that the content belongs to end now, if their time is over; the clock goes on
        boundary_s = task._boundary_s
        while boundary_s < min(reached_s, at_s + task.size):
            task._due.append(boundary_s)
            boundary_s += task.slide
        task._boundary_s = reached_s


def _enqueue(world: World, segment: Segment) -> None:
    """Puts a segment of a checkpoint into its task's queue, with the credits that it holds there."""
    again = segment.copy()
    inbox = again.inbox
    assert inbox is not None
    task: object = inbox.task
    while isinstance(task, Buffer):
        task = task.target
    if not isinstance(task, Task) or task.halted:
        return
    again.waited = True
    again.a_s = again.b_s = again.came_s = world.env.now
    inbox.credits -= again.n
    task.queue.append(again)
    task.queued += again.n
    world.ledger.restored += again.n
