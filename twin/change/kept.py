"""What a checkpoint keeps of subtasks, and how they stop and go back to it: copies of slices of a run's memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import memmove, string_at
from dataclasses import dataclass, field
from functools import partial
from heapq import heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from simpy.events import NORMAL

from twin.machine import layout as k
from twin.operators.panes import Noted, WindowNotes
from twin.operators.records import EvaluationResult, InputProgress
from twin.world.clock import Once
from twin.world.network import Buffer, Flight, home
from twin.world.parts import Card, Item, Leg, RecordLane, Task, chain, link
from twin.world.ports import Inbox, Path
from twin.world.python_logics import timed_logic
from twin.world.streams import TimedPartitioner

if TYPE_CHECKING:
    from twin.world.world import World

assert k.ITEM.fields is not None
ON_PATH, ON_MARK = int(k.ITEM.fields["path"][1]), int(k.ITEM.fields["mark"][1])
"""Offsets of a record's path, and of its kind of mark."""
Copy = bytes
"""Copy of a record, with the path by which it came or will go."""


class TaskKept(NamedTuple):
    """State of a subtask, from which it can go on.

    queue: records to serve. serving: one that was served, but its results not sent. evaluating: whether unsent results
    are of an evaluation. planned, entered: what leaves, or enters windows, at the end of the work under way. steps: of
    its operators. windows: number of records that these held. outcome: what a logic in Python sends at the end of other
    work. alignment: progress of its inputs. told: by port, the progress that it had announced. noted: its notes on
    windows over event time, and how far each had come.
    """

    queue: list[Copy]
    serving: Copy | None
    evaluating: bool
    planned: list[Copy]
    entered: list[Copy]
    steps: list[Any]
    windows: float
    outcome: EvaluationResult | None = None
    alignment: InputProgress | None = None
    told: Sequence[dict[str, float]] = ()
    noted: Sequence[tuple[WindowNotes, Noted]] = ()

    @property
    def kept(self) -> list[Any]:
        """What its operators are told of when the checkpoint is complete."""
        return self.steps


@dataclass(slots=True)
class Checkpoint:
    """State of a job. reached: when a subtask had the state kept here, if not at `at_s`. sizes: bytes to fetch.

    flying: records on the network, waiting to be sent, or held until state has arrived. counted: by sink, the results
    that it had then, or when it last went back here. in_order: whether flying records come behind those that waited,
    and before those that their senders send again, as windows over event time need them.
    """

    at_s: float
    tasks: dict[Task, TaskKept] = field(default_factory=dict)
    flying: list[Copy] = field(default_factory=list)
    counted: dict[Task, int] = field(default_factory=dict)
    reached: dict[Task, float] = field(default_factory=dict)
    sizes: dict[Task, float] = field(default_factory=dict)
    in_order: bool = True


def counted(task: Task) -> int:
    """Number of results that arrived at a sink and would arrive there again."""
    return sum([sink.counted for sink in task.logic.sinks() if sink.repeats])


def take(world: World) -> Checkpoint:
    """Takes a checkpoint of the job now; sources note their positions."""
    found = Checkpoint(world.env.now)
    unsent = list[Copy]()
    for task in world.every_task():
        found.tasks[task] = keep(task)
        found.counted[task] = counted(task)
        for port in task.ports:
            unsent += [_copy(item, path) for path, item in port.unsent() if item.mark != k.BARRIER]
    sent = [item for _, _, item, _ in in_flight(world) if item.mark != k.BARRIER]
    held = [
        _copy(item, item.path) for buffer in world.ledger.buffers for item in buffer.items() if item.mark != k.BARRIER
    ]
    if not world.owners:
        found.flying, found.in_order = [*unsent, *_copies(world, sent), *held], False
        return found
    sent = sorted(sent, key=partial(_hops, world))
    found.flying = _in_order(world, unsent, _copies(world, sent), held)
    return found


def _in_order(world: World, unsent: Sequence[Copy], sent: Sequence[Copy], held: Sequence[Copy]) -> list[Copy]:
    """Records in the order in which their producers sent them, as windows over event time need them. A record that
    waits for state, or will wait for it, was sent after all records to the former owner, to whom it comes now."""
    under_way = [*sent, *unsent]
    straight = [copy for copy in under_way if not _will_wait(world, copy)]
    return [*straight, *held, *(copy for copy in under_way if _will_wait(world, copy))]


def _copies(world: World, items: Sequence[Item]) -> list[Copy]:
    return [_copy(item, _path(world, item)) for item in items]


def _will_wait(world: World, copy: Copy) -> bool:
    """Whether a record will wait in a buffer."""
    path = _path_of(copy)
    receiver = _inbox(world, path).task if path else None
    return isinstance(receiver, Buffer) and receiver.target is None


def _hops(world: World, item: Item) -> int:
    """Number of hops that a record still has to go, beyond the one that it is on."""
    hops, stop = 0, world.memory.at.get(item.path)
    while isinstance(stop, Leg):
        hops, stop = hops + 1, stop.onward
    return hops


def keep(task: Task) -> TaskKept:
    """State of a subtask now."""
    logic, serving = task.logic, None
    if task.in_service and logic.keeps:
        serving = _copy(Item(task.current), Item(task.current).path)
    again = bool(task.in_service and not logic.keeps)
    planned, entered = (
        [_copy(Item(here), Item(here).path) for here in chain(first)] if logic.keeps else []
        for first in (task.planned, task.entered)
    )
    steps = [step.snapshot(again) for step in logic.steps]
    alignment = None if task.alignment is None else task.alignment.copy()
    progress = task.evaluating_for, alignment, [port.told.copy() for port in task.ports]
    noted = [(notes, notes.noted) for notes in notes_of(task)]
    queue, evaluating = to_serve(task), bool(task.evaluating)
    return TaskKept(queue, serving, evaluating, planned, entered, steps, logic.held(), *progress, noted)


def notes_of(task: Task) -> list[WindowNotes]:
    """Notes of a subtask on windows over event time: on its own, and on those behind it."""
    logic = timed_logic(task)
    sent = [port.partitioner.dealing.notes for port in task.ports if isinstance(port.partitioner, TimedPartitioner)]
    return sent if logic is None else [logic.notes, *sent]


def told_only(task: Task) -> TaskKept:
    """What a subtask must be told when a checkpoint is complete, where nothing ever goes back to it."""
    return TaskKept([], None, False, [], [], [step.progress() for step in task.logic.steps], 0.0)


def to_serve(task: Task) -> list[Copy]:
    """Records that a subtask serves first when it goes on: the one in service, unless its operators keep that, and all
    that wait. A source notes the records that it takes, and reads them again instead."""
    if task.polling is not None:
        return []
    again = [Item(task.current)] if task.in_service and not task.logic.keeps else []
    return [*asked(task), *copies([*again, *task.queue])]


def asked(task: Task) -> list[Copy]:
    """Records whose calls have no answer yet, and will be made again."""
    return [_copy(Item(here), Item(here).path) for step in task.logic.steps for here in step.asking()]


def restore(world: World, checkpoint: Checkpoint, tasks: Sequence[Task]) -> int:
    """Puts stopped subtasks back to a checkpoint. Returns the number of records that sources will read again."""
    replayed, there, ledger = 0, set(tasks), world.ledger
    if world.notes:
        world.undone.append(world.history())  # undone windows are checked as well
    kept = {task: each for task, each in checkpoint.tasks.items() if task in there}
    for task, each in kept.items():
        at_s, again = checkpoint.reached.get(task, checkpoint.at_s), 0
        if task.logic.keeps:
            for first, left in (("planned", each.planned), ("entered", each.entered)):
                head, tail = link([_again(world, copy) for copy in left])
                setattr(task, first, head)
                setattr(task, f"last_{first}", tail)
        task.alignment = None if each.alignment is None else each.alignment.copy()
        for port, told in zip(task.ports, each.told, strict=bool(each.told)):
            port.told = told.copy()
        for notes, noted in each.noted:
            notes.back(noted)
        for step, state in zip(task.logic.steps, each.steps, strict=True):
            again += step.restore(state, at_s)
        ledger.replayed[task.name] += again
        replayed += again
    everything = len(kept) == len(checkpoint.tasks)
    flying = [copy for copy in checkpoint.flying if everything or _home(world, copy) in there]
    queued = [copy for each in kept.values() for copy in each.queue if _mark(copy) != k.RELEASE]  # see `finish`
    under_way = [*queued, *flying] if checkpoint.in_order else [*flying, *queued]
    for copy in under_way:
        _enqueue(world, copy)
    ledger.due += sum([not _mark(copy) for copy in under_way])
    ledger.windows_due += sum(each.windows for each in kept.values())
    ledger.windows_restored += sum(task.logic.held() for task in tasks)
    return replayed


def finish(world: World, checkpoint: Checkpoint, tasks: set[Task]) -> None:
    """Sends the results that were not sent at the checkpoint; the subtasks are still paused."""
    for task, each in checkpoint.tasks.items():
        if task in tasks and (each.serving is not None or each.evaluating):
            served = 0 if each.serving is None else _again(world, each.serving).here
            task.evaluating_for, task.outcome = each.outcome, each.outcome is not None
            world.memory.do(k.FINISH_KEPT, task.here, subject=served)
    for task in tasks:  # held watermarks rise again, as no migration is under way any more
        logic = timed_logic(task)
        if logic is not None:
            for held_us in logic.held_us:
                logic.release(held_us)


# stopping ------------------------------------------------------------------------------------------------------------


def lose(world: World, stopped: set[Task], everything: bool) -> None:
    """Drops the records under way to stopped subtasks; they take up their cards and links until they arrive."""
    for at_s, order, item, lane in in_flight(world):
        path = Path(_path(world, item))
        if not (everything or home(_inbox(world, path.here)) in stopped):
            continue
        take_out(lane, item)
        card: Card = world.memory.at[lane.card]
        flight = Flight(card, object(), item.sent_s, item.latency_s, _nothing)
        heappush(world.env._queue, (at_s, NORMAL, order, Once(_landed, flight)))
        if item.mark:
            continue
        world.ledger.lost += 1
        world.ledger.transfers += 1
        if item.path != path.here and world.memory.at[item.path].onward is not None:
            world.ledger.cut_short[card] += 1
        card.pieces += 1
        flight.landed = partial(_vanish, world, card)
    for flight in signals(world):
        if flight.signal is not None and (everything or flight.signal.inbox.task in stopped):
            flight.end, flight.landed, flight.signal = object(), _nothing, None
    for lane in world.network.lanes.every():
        if lane.card:
            world.network.lanes.line_up(lane)


def _nothing() -> None:
    pass


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
    for buffer in ledger.buffers if everything else ():
        ledger.lost += buffer.queued
        buffer.clear()
    for name, present in world.tasks.items():
        for task in present:
            if task not in stopped:
                continue
            for number, count in task.logic.open().items():
                ledger.aborted[task.name][number] += count
            for edge, port in zip(world.job.outputs(name), task.ports, strict=True):
                ledger.unsent[edge.key] += port.waiting()
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
    results = {task: counted(task) for task in tasks}
    duplicates = sum(results.values()) - sum(checkpoint.counted.get(task, 0) for task in tasks)
    checkpoint.counted |= results  # after another failure, only results since the restart are repeated
    ledger.duplicates += duplicates
    return ledger.lost - before, duplicates


def stop(world: World, task: Task) -> None:
    """Drops all records that are queued, in service or not sent. Records that a source has not taken yet stay."""
    slots = world.memory.slots
    if task.polling is None:
        for here in chain(task.lane, k.NEXT_LANE):
            RecordLane(here).empty()
        task.coming = 0
    busy = bool(task.busy)
    if busy:
        task.processor.work_s -= task.left_s()
        task.busy_s = task.busy_until_now_s()
        task.busy = 0
    if busy or task.polling is None:  # an idle source goes on waiting for its next arrival
        slots.set(task.slot, math.inf, 0)
    task.processor.cancel(task)
    for port in task.ports:
        port.clear()
    task.evaluating = task.planned = task.entered = task.outcome = task.job_due = 0
    task.evaluating_for = None
    for step in task.logic.steps:
        step.stopped()


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


def signals(world: World) -> list[Flight]:
    """Barriers that are under way past all records."""
    flights = [event._value for _, _, _, event in world.env._queue if isinstance(event._value, Flight)]
    return [flight for flight in flights if flight.signal is not None]


def end_of(world: World, item: Item) -> Any:
    """Where a record that is under way will be queued: at a subtask, or in a shared queue; None if that is not known
    yet."""
    return home(_inbox(world, _path(world, item)))


def copy_at(here: int) -> Copy:
    """Copy of a record or watermark that has come, or waits on its path, by its address."""
    return string_at(here, k.ITEM.itemsize)


def copies(items: Sequence[Item]) -> list[Copy]:
    """Copies of the records and watermarks among these items, which have come or wait on their paths."""
    return [_copy(item, item.path) for item in items if item.mark != k.BARRIER]


def on_path(items: Sequence[Item], path: int) -> list[Copy]:
    """Copies of records and watermarks that have not left for their path."""
    return [_copy(item, path) for item in items]


def not_sent(task: Task) -> list[Copy]:
    """Records and watermarks that have not left a subtask."""
    return [_copy(item, path) for port in task.ports for path, item in port.unsent() if item.mark != k.BARRIER]


def bytes_of(world: World, kept: Sequence[Copy]) -> float:
    """Size of copies of records that came, or will go, on a path."""
    paths = [_path_of(copy) for copy in kept if not int.from_bytes(copy[ON_MARK : ON_MARK + 8], "little")]
    return sum([world.memory.at[Path(path).inbox].record_bytes for path in paths if path])


def _path(world: World, item: Item) -> int:
    """Path of a record that is under way, on whatever hop."""
    return world.network.final(item.path)


def _copy(item: Item, path: int) -> Copy:
    """Copy of a record, on a path."""
    made = bytearray(string_at(item.here, k.ITEM.itemsize))
    made[ON_PATH : ON_PATH + 8] = path.to_bytes(8, "little")
    return bytes(made)


def _mark(copy: Copy) -> int:
    """Kind of mark of a copy; 0 if it is one of a record."""
    return int.from_bytes(copy[ON_MARK : ON_MARK + 8], "little")


def _again(world: World, copy: Copy) -> Item:
    """Makes a record of a copy."""
    item = world.item()
    memmove(item.here, copy, k.ITEM.itemsize)
    item.next = 0
    return item


def _home(world: World, copy: Copy) -> Any:
    """Subtask, or shared queue, to which a record goes."""
    path = _path_of(copy)
    return home(_inbox(world, path)) if path else None


def _inbox(world: World, path: int) -> Inbox:
    found: Inbox = world.memory.at[Path(path).inbox]
    return found


def _path_of(copy: Copy) -> int:
    return int.from_bytes(copy[ON_PATH : ON_PATH + 8], "little")


def _enqueue(world: World, copy: Copy) -> None:
    """Puts a record of a checkpoint into its subtask's queue, with the credits or the room that it takes up there."""
    item = _again(world, copy)
    path, task = Path(item.path), _home(world, copy)
    if not isinstance(task, Task) or task.halted:
        return  # records without a subtask: the conservation laws report them
    counts = item.mark == 0
    world.memory.at[path.inbox].credits -= counts
    if path.channel and counts:
        world.memory.at[path.channel].put_back()
    item.at_s, item.order = world.env.now, world.memory.state.event_sequence
    item.step = world.network.lanes.lane(task).here
    world.memory.do(k.PUT_BACK, item.here)
    world.ledger.restored += counts


def take_out(lane: RecordLane, item: Item) -> None:
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
