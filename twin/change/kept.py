"""What a checkpoint keeps of subtasks, and how they stop and go back to it: copies of slices of a run's memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from ctypes import memmove, string_at
from functools import partial
from heapq import heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from simpy.events import NORMAL

from twin.change.checkpoint import Checkpoint, counted
from twin.engine.calendar import Once
from twin.kernel import layout as k
from twin.world.lanes import Flight
from twin.world.parts import Card, Channel, Inbox, Item, Leg, Path, Port, RecordLane, Task, chain, link

if TYPE_CHECKING:
    from twin.world.world import World

assert k.ITEM.fields is not None
ON_PATH = int(k.ITEM.fields["path"][1])
"""Offset of a record's path."""
Copy = bytes
"""Copy of a record, with the path by which it came or will go."""


class TaskKept(NamedTuple):
    """State of a subtask, from which it can go on.

    queue: records to serve. serving: one that was served, but its results not sent. evaluating: whether unsent results
    are of an evaluation. planned, entered: what leaves, or enters windows, at the end of the work under way. steps: of
    its operators. windows: number of records that these held.
    """

    queue: list[Copy]
    serving: Copy | None
    evaluating: bool
    planned: list[Copy]
    entered: list[Copy]
    steps: list[Any]
    windows: float

    @property
    def kept(self) -> list[Any]:
        """What its operators are told of when the checkpoint is complete."""
        return self.steps


def take(world: World) -> Checkpoint:
    """Takes a checkpoint of the job now; sources note their positions."""
    found = Checkpoint(world.env.now)
    unsent = list[Copy]()
    for task in world.every_task():
        found.tasks[task] = keep(world, task)  # type: ignore[index,assignment]
        found.counted[task] = counted(task)  # type: ignore[index,arg-type]
        for port in task.ports:
            unsent += _unsent(world, port)
    flying = [_copy(item, _path(world, item)) for _, _, item, _ in in_flight(world) if not item.mark]
    found.flying = [*unsent, *flying]  # type: ignore[list-item]
    return found


def keep(world: World, task: Task) -> TaskKept:
    """State of a subtask now."""
    logic, serving, queue = task.logic, None, list[Copy]()
    if task.in_service:
        serving = _copy(Item(task.current), Item(task.current).path)
    again = serving is not None and not logic.keeps
    queue += asked(task)
    if again:
        assert serving is not None
        queue.append(serving)
        serving = None
    queue += [_copy(item, item.path) for item in waiting(world, task) if not item.mark]
    if task.polling is not None:  # a source notes the records that it takes, and reads them again
        queue = []
    planned, entered = (
        [_copy(Item(here), Item(here).path) for here in chain(first)] if logic.keeps else []
        for first in (task.planned, task.entered)
    )
    steps = [step.snapshot(again) for step in logic.steps]
    return TaskKept(queue, serving, bool(task.evaluating), planned, entered, steps, logic.held())


def asked(task: Task) -> list[Copy]:
    """Records whose calls have no answer yet, and will be made again."""
    return [_copy(Item(here), Item(here).path) for step in task.logic.steps for here in step.asking()]


def restore(world: World, checkpoint: Checkpoint, tasks: Sequence[Task]) -> int:
    """Puts stopped subtasks back to a checkpoint. Returns the number of records that sources will read again."""
    replayed, there, ledger = 0, set(tasks), world.ledger
    every: dict[Any, Any] = dict(checkpoint.tasks)
    under_way: list[Any] = checkpoint.flying
    kept = {task: each for task, each in every.items() if task in there}
    for task, each in kept.items():
        at_s, again = checkpoint.reached.get(task, checkpoint.at_s), 0
        if task.logic.keeps:
            for first, copies in (("planned", each.planned), ("entered", each.entered)):
                head, tail = link([_again(world, copy) for copy in copies])
                setattr(task, first, head)
                setattr(task, f"last_{first}", tail)
        for step, state in zip(task.logic.steps, each.steps, strict=True):
            again += step.restore(state, at_s)
        ledger.replayed[task.name] += again
        replayed += again
    everything = len(kept) == len(checkpoint.tasks)
    flying = [copy for copy in under_way if everything or _home(world, copy) in there]
    queued = [copy for each in kept.values() for copy in each.queue]
    for copy in (*flying, *queued):
        _enqueue(world, copy)
    ledger.due += len(flying) + len(queued)
    ledger.windows_due += sum(each.windows for each in kept.values())
    ledger.windows_restored += sum(task.logic.held() for task in tasks)
    return replayed


def finish(world: World, checkpoint: Checkpoint, tasks: set[Task]) -> None:
    """Sends the results that were not sent at the checkpoint; the subtasks are still paused."""
    kept: dict[Any, Any] = dict(checkpoint.tasks)
    for task, each in kept.items():
        if task in tasks and (each.serving is not None or each.evaluating):
            served = 0 if each.serving is None else _again(world, each.serving).here
            world.memory.do(k.FINISH_KEPT, task.here, subject=served)


# stopping ------------------------------------------------------------------------------------------------------------


def lose(world: World, stopped: set[Task], everything: bool) -> None:
    """Drops the records under way to stopped subtasks; they take up their cards and links until they arrive."""
    for at_s, order, item, lane in in_flight(world):
        path = Path(_path(world, item))
        inbox = world.memory.at[path.inbox]
        if not (everything or inbox.task in stopped):
            continue
        _take_out(lane, item)
        if item.mark:
            continue
        world.ledger.lost += 1
        world.ledger.transfers += 1
        card: Card = world.memory.at[lane.card]
        if item.path != path.here and world.memory.at[item.path].onward is not None:
            world.ledger.cut_short[card] += 1  # type: ignore[index]
        card.pieces += 1
        flight = Flight(card, inbox.here, item.sent_s, item.latency_s, partial(_vanish, world, card))
        heappush(world.env._queue, (at_s, NORMAL, order, Once(_landed, flight)))
    for lane in world.network.lanes.every():
        if lane.card:
            world.network.lanes.line_up(lane)


def _landed(event: Any) -> None:
    event._value.landed()


def _vanish(world: World, card: Card) -> None:
    card.pieces -= 1
    world.ledger.transfers -= 1


def stop_all(world: World, checkpoint: Checkpoint, tasks: Sequence[Task]) -> tuple[int, int]:
    """Stops subtasks. Records queued, in service or on the way to them are lost. Returns the records lost, and the
    results to repeat.

    No channel may lead from one of them to a subtask that goes on, or back.
    """
    ledger, stopped = world.ledger, set(tasks)
    before, everything = ledger.lost, len(stopped) == len(world.every_task())
    lose(world, stopped, everything)
    for name, present in world.tasks.items():
        for task in present:
            if task not in stopped:
                continue
            ledger.aborted[task.name] += task.logic.in_service()
            for edge, port in zip(world.job.outputs(name), task.ports, strict=True):
                ledger.unsent[edge.ends] += port.waiting()
            ledger.lost += 0 if task.polls else task.queued
            stop(world, task)
            if task.blocked:
                task.blocked = 1
            else:
                task.block()
    for made in world.streams.values():
        for inbox in made.inboxes:
            if everything or inbox.task in stopped:
                reset(inbox)
    results: Any = {task: counted(task) for task in tasks}  # type: ignore[arg-type]
    counts: Any = checkpoint.counted
    duplicates = sum(results.values()) - sum(counts.get(task, 0) for task in tasks)
    counts |= results  # after another failure, only results since the restart are repeated
    ledger.duplicates += duplicates
    return ledger.lost - before, duplicates


def stop(world: World, task: Task) -> None:
    """Drops all records that are queued, in service or not sent. Records that a source has not taken yet stay."""
    slots = world.memory.slots
    if task.polling is None:
        for here in chain(task.lane, k.NEXT_LANE):
            lane = RecordLane(here)
            lane.head = lane.tail = lane.coming = lane.total = lane.came = 0
        task.coming = 0
    if task.busy:
        task.processor.work_s -= task.left_s()
        task.busy_s = task.busy_until_now_s()
        task.busy = 0
    slots.set(task.slot, math.inf, 0)
    if task.shared:
        world.memory.do(k.CANCEL_JOB, task.here)
    for port in task.ports:
        _clear(world, port)
    task.evaluating = task.planned = task.entered = 0
    for step in task.logic.steps:
        step.stopped()


def _clear(world: World, port: Port) -> None:
    port.first_held = port.last_held = port.held = port.used = port.full = port.stopped = 0
    if port.kind == k.GATHERING:
        buffers = world.memory.blocks[port.here, "buffers"]
        buffers["head"], buffers["tail"], buffers["count"] = 0, -1, 0
        port.opened = 0
    for channel in port.channels.values():
        channel.first_unsent = channel.last_unsent = channel.unsent = channel.waits = 0
        channel.written = channel.sent = channel.taken = channel.used = channel.there = 0


def reset(inbox: Inbox) -> None:
    """Gives an inbox all of its room back."""
    inbox.credits, inbox.first_waiting, inbox.last_waiting = inbox.capacity, 0, 0
    inbox.free, inbox.first_gated, inbox.last_gated = inbox.floating, 0, 0


# records -------------------------------------------------------------------------------------------------------------


def in_flight(world: World) -> list[tuple[float, int, Item, RecordLane]]:
    """Records under way on cards and links, in the order of their arrival, with their lanes."""
    now = world.env.now, world.memory.state.event_sequence
    found = []
    for lane in world.network.lanes.every():
        for here in chain(lane.head):
            item = Item(here)
            at = item.at_s, item.order
            if lane.card and at > now:
                found.append((*at, item, lane))
    return sorted(found, key=lambda each: each[:2])


def waiting(world: World, task: Task) -> list[Item]:
    """Records that wait at a subtask, in the order in which they came."""
    now = world.env.now, world.memory.state.event_sequence
    items = [Item(here) for lane in chain(task.lane, k.NEXT_LANE) for here in chain(RecordLane(lane).head)]
    came = [item for item in items if (item.at_s, item.order) <= now]
    return sorted(came, key=lambda item: (item.at_s, item.order))


def _unsent(world: World, port: Port) -> Iterator[Copy]:
    """Records that have not left a port, in the order in which they will be sent."""
    for channel in port.channels.values():
        yield from (_copy(Item(here), Item(here).path) for here in chain(channel.first_unsent if channel.unsent else 0))
    held = [_copy(Item(here), Item(here).path) for here in chain(port.first_held) if not Item(here).mark]
    gathered = []
    if port.kind == k.GATHERING:
        buffers = world.memory.blocks[port.here, "buffers"]
        order = world.memory.blocks[port.here, "open_order"][: port.opened].tolist()
        for replica in order:
            if buffers["count"][replica]:
                path = world.path(port, replica)
                gathered += [_copy(Item(here), path) for here in chain(int(buffers["head"][replica]))]
    yield from ([*gathered, *held] if port.pool else [*held, *gathered])


def _path(world: World, item: Item) -> int:
    """Path of a record that is under way, on whatever hop."""
    there = world.memory.at.get(item.path)
    return int(there.path if isinstance(there, Leg) else item.path)


def _copy(item: Item, path: int) -> Copy:
    """Copy of a record, on a path."""
    made = bytearray(string_at(item.here, k.ITEM.itemsize))
    made[ON_PATH : ON_PATH + 8] = path.to_bytes(8, "little")
    return bytes(made)


def _again(world: World, copy: Copy) -> Item:
    """Makes a record of a copy."""
    item = world.item()
    memmove(item.here, copy, k.ITEM.itemsize)
    item.next = 0
    return item


def _home(world: World, copy: Copy) -> Any:
    """Subtask, or shared queue, to which a record goes."""
    path = int.from_bytes(copy[ON_PATH : ON_PATH + 8], "little")
    return world.memory.at[Path(path).inbox].task if path else None


def _enqueue(world: World, copy: Copy) -> None:
    """Puts a record of a checkpoint into its subtask's queue, with the credits or the room that it takes up there."""
    item = _again(world, copy)
    path, home = Path(item.path), _home(world, copy)
    if not isinstance(home, Task) or home.halted:
        return  # records without a subtask: the conservation laws report them
    world.memory.at[path.inbox].credits -= 1
    if path.channel:
        _put_back(world.memory.at[path.channel])
    item.at_s, item.order = world.env.now, world.memory.state.event_sequence
    item.step = world.network.lanes.lane(home).here
    world.memory.do(k.PUT_BACK, item.here)
    world.ledger.restored += 1


def _put_back(channel: Channel) -> None:
    """Puts a record of a checkpoint back to its place at the consumer, in buffers."""
    port, size = channel.sender, channel.sender.batch
    if channel.written % size == 0:
        port.used += 1
        channel.used += 1
        port.full += channel.used == port.most
    channel.written += 1
    inbox = channel.receiver
    if channel.remote and channel.sent % size == 0:
        if channel.there >= inbox.exclusive:
            inbox.free -= 1
        channel.there += 1
    channel.sent += 1
    if channel.remote and channel.sent % size == 0:
        port.used -= 1
        channel.used -= 1
        port.full -= channel.used == port.most - 1


def _take_out(lane: RecordLane, item: Item) -> None:
    """Takes a record out of a lane; the caller lines the lane up again."""
    before = 0
    for here in chain(lane.head):
        if here == item.here:
            following = Item(here).next
            if before:
                Item(before).next = following
            else:
                lane.head = following
            if lane.tail == here:
                lane.tail = before
            lane.total -= item.mark == 0
            return
        before = here
