"""Lanes of a run: records that are under way to a subtask, or wait there, also for their state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from twin.machine import layout as k
from twin.world.memory import RunMemory, StructView
from twin.world.parts import Card, Item, Leg, Pool, RecordLane, Task, chain, link
from twin.world.ports import Path

if TYPE_CHECKING:
    from twin.world.network import Signal
    from twin.world.ports import Inbox
    from twin.world.world import World


# buffers -------------------------------------------------------------------------------------------------------------
# Buffers of records whose state is on its way, as they sit in the place of a subtask while the plan changes.


def home(inbox: Inbox) -> Any:
    """Subtask, or shared queue, at which what comes to an inbox is queued; None if that is not known yet."""
    receiver: Any = inbox.task
    while isinstance(receiver, Buffer):
        receiver = receiver.target
    return receiver


class Nothing:
    """Stands for the operators of a buffer, which holds no state."""

    def held_bytes(self) -> float:
        """Size of what it holds, in bytes."""
        return 0.0

    def held_keys(self) -> list[tuple[list[int], float]]:
        """Keys of what it holds."""
        return []

    def know_keys(self, keys: Any, subtask: int) -> None:
        """Notes a change of its key groups."""

    def know_share(self, share: float, values: list[int]) -> None:
        """Notes a change of its share."""


class Buffer(StructView, layout=k.POOL):
    """Records for key groups whose state is still on its way; afterwards it passes them on to their subtask, its
    `target`. To compiled code it is a shared queue from which nobody takes.

    state_bytes: of the key groups on the way here, which count at neither end. undone: whether the move was given up.
    The records then went back over other channels, in which marks do not overtake records, so marks that come here are
    dropped.
    """

    def __init__(self, memory: RunMemory, lanes: Lanes) -> None:
        super().__init__(memory.add(k.POOL, count=1))
        self.raw_members = memory.block(self.here, "members", [0], int)
        self.memory, self.lanes = memory, lanes
        self.state_bytes = 0.0
        self.logic = Nothing()
        self.target: Task | None = None
        memory.at[self.here] = self

    members: Any

    def items(self) -> list[Item]:
        """Records and marks that it holds, in the order in which they came."""
        return [Item(here) for here in chain(self.head)]

    @property
    def queued(self) -> int:
        """Number of records that it holds."""
        return sum([item.mark == 0 for item in self.items()])

    def clear(self) -> None:
        """Drops what it holds."""
        self.head = self.tail = 0

    def open(self, target: Task, now_s: float) -> None:
        """Hands over what it holds, and from now on everything, to `target`. The records held arrive at `now_s`."""
        self.target = target
        held = self.items()
        self.clear()
        self.onward = self.lanes.lane(target).here
        for item in held:
            item.at_s, item.order, item.step = now_s, self.memory.state.event_sequence, self.onward
            self.memory.do(k.PUT_BACK, item.here)
            if not (target.busy or target.blocked):
                target.work()


# lanes ---------------------------------------------------------------------------------------------------------------
# Lanes of a run: records that are under way to a subtask, or wait there, and how they are planned again.


@dataclass(slots=True)
class Flight:
    """Piece of state, or barrier, under way. end: what it goes to. sent_s: when the card got it. landed: called as it
    arrives. signal: the barrier that it is, if it is one."""

    card: Card
    end: object
    sent_s: float
    latency_s: float
    landed: Callable[[], None]
    signal: Signal | None = None


class Lanes:
    """Lanes of one run, by their end, card and latency; made when they are first asked for."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.memory = world.memory
        self._by_ends: dict[tuple[int, int, float], RecordLane] = {}

    def lane(self, end: Task | Pool | Buffer | None, card: Card | None = None, latency_s: float = 0.0) -> RecordLane:
        """Lane of the records that come over a card to a subtask, shared queue or buffer, or (None) to the next hop."""
        key = 0 if end is None else end.here, 0 if card is None else card.here, latency_s
        if key not in self._by_ends:
            self._by_ends[key] = self._made(end, key[1])
        return self._by_ends[key]

    def _made(self, end: Task | Pool | Buffer | None, card: int) -> RecordLane:
        memory, state = self.memory, self.memory.state
        lane = RecordLane(memory.add(k.LANE, card=card, after=state.lanes, slot=k.NONE))
        state.lanes = lane.here
        if isinstance(end, Task):
            lane.task, lane.next = end.here, end.lane
            end.lane, end.lanes = lane.here, end.lanes + 1
            before = memory.blocks.get((end.here, "heads"))
            if before is None or len(before) <= end.lanes:  # the heap needs room for one more than the lanes
                end.heads = memory.array(k.JOB, end.here, "heads", 2 * end.lanes)
                if before is not None:
                    memory.blocks[end.here, "heads"][: len(before)] = before
        else:
            lane.pool = 0 if end is None else end.here
            lane.slot = memory.slots.add(k.LANES, lane.here)
        return lane

    def every(self) -> Iterator[RecordLane]:
        """All lanes."""
        for here in chain(self.memory.state.lanes, k.AFTER):
            yield RecordLane(here)

    # planning again --------------------------------------------------------------------------------------------------

    def plan_again(self, card: Card, begun_s: float, bandwidth_factor: float, latency_factor: float) -> float:
        """Plans anew what a card or link has still to send after `begun_s`. Returns when all of it has left.

        Bytes of which the sending has begun are sent at the new rate, too.
        """
        world, now = self.world, (self.world.env.now, self.memory.state.event_sequence)
        lanes = [lane for lane in self.every() if lane.card == card.here]
        items = [Item(here) for lane in lanes for here in chain(lane.head)]
        pending: list[tuple[float, int, Item | Flight]]
        pending = [(each.at_s, each.order, each) for each in items if (each.at_s, each.order) > now]
        queue = world.env._queue
        flights = [(at_s, order, event._value) for at_s, _, order, event in queue if isinstance(event._value, Flight)]
        pending += [(at_s, order, each) for at_s, order, each in flights if each.card is card]
        before_s, leaves_s = begun_s, card.resumes_s
        again_s: dict[int, float] = {}
        latest_s: dict[object, float] = {}
        for due_s, order, each in sorted(pending, key=itemgetter(1)):
            end = each.end if isinstance(each, Flight) else self._end(each)
            planned_s, latest = due_s - each.latency_s, latest_s.get(end, 0.0)
            if planned_s > begun_s:
                rest_s = max(0.0, planned_s - max(before_s, each.sent_s))
                before_s = max(before_s, planned_s)
                leaves_s = max(leaves_s, each.sent_s) + rest_s / bandwidth_factor
                each.latency_s *= latency_factor
                again_s[order] = due_s = max(leaves_s + each.latency_s, latest)
                if isinstance(each, Item):
                    each.at_s = due_s
            latest_s[end] = max(due_s, latest)
        leaves_s += max(0.0, card.last_s + card.backlog_s - before_s) / bandwidth_factor
        queue[:] = [(again_s.get(order, at_s), rank, order, event) for at_s, rank, order, event in queue]
        heapify(queue)
        for hop in card.hops:
            if isinstance(hop, Leg):
                hop.arrival_s = latest_s.get(hop.end, hop.arrival_s)
        for lane in lanes:
            self.line_up(lane)
        return float(leaves_s)

    def _end(self, item: Item) -> int:
        """What a record goes to: the next hop, or the inbox at the end of its path."""
        return item.path if isinstance(self.memory.at.get(item.path), Leg) else Path(item.path).inbox

    def line_up(self, lane: RecordLane) -> None:
        """Puts the records of a lane into the order of their arrivals, and sets the event of the first."""
        items = sorted([Item(here) for here in chain(lane.head)], key=lambda each: (each.at_s, each.order))
        if not items:
            lane.head = lane.tail = lane.coming = 0
            self._expect(lane, math.inf, 0)
            return
        now = self.world.env.now, self.memory.state.event_sequence
        lane.head, lane.tail = link(items)
        coming = [each for each in items if (each.at_s, each.order) > now]
        lane.coming = coming[0].here if coming else 0
        lane.came = sum([each.mark == 0 for each in items[: len(items) - len(coming)]])
        self._expect(lane, items[0].at_s, items[0].order)

    def _expect(self, lane: RecordLane, at_s: float, order: int) -> None:
        if lane.slot != k.NONE:
            self.memory.slots.set(lane.slot, at_s, order)
        elif lane.task:
            self.heads(self.memory.at[lane.task])

    def heads(self, task: Task) -> None:
        """Makes the heap of the first records of a subtask's lanes anew; an idle one begins with the first of them."""
        found = []
        for here in chain(task.lane, k.NEXT_LANE):
            head = RecordLane(here).head
            if head:
                found.append((Item(head).at_s, Item(head).order, here))
        rows = self.memory.blocks[task.here, "heads"]
        for number, (at_s, order, here) in enumerate(sorted(found)):
            rows[number] = order, here, at_s
        task.coming = len(found)
        if not (task.busy or task.blocked or task.halted or task.polls):
            self.memory.slots.set(task.slot, *(min(found)[:2] if found else (math.inf, 0)))
