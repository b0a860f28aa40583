"""What is under way in a run: records in the lanes in which they come to a subtask and wait there, pieces of state, and
barriers; and the cards, links and routes of the network over which they go."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappush
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any

from simpy.events import NORMAL

from twin.machine import layout as k
from twin.plan import Location
from twin.world.clock import Once
from twin.world.memory import RunMemory, StructView
from twin.world.parts import Card, Item, Jitter, Leg, Pool, RecordLane, Task, chain, link
from twin.world.ports import Inbox, Path, Port

if TYPE_CHECKING:
    from twin.world.world import World


# the network ---------------------------------------------------------------------------------------------------------
# Records take a way from a port to a subtask; state and barriers go over the same cards and links.


Hops = Sequence[tuple[Card, float]]
"""Cards and links of a route, each with its latency in seconds."""


class Network:
    """Cards, links and lanes of one run. All links are there from the start, a host's card from its first use on.

    inboxes: by the address of the path that ends there.
    """

    def __init__(self, world: World) -> None:
        self.world, self.memory, self.lanes = world, world.memory, Lanes(world)
        self.cluster, self.engine, self.noise = world.deployment.cluster, world.engine, world.noise
        self._hosts = {host.name: host for host in self.cluster.hosts}
        self._ways: dict[tuple[int, Location, int], int] = {}
        self.inboxes: dict[int, Inbox] = {}
        self._link_latency_s: dict[tuple[str, str], float] = {}
        for each in self.cluster.links:
            for ends in (each.between, each.between[::-1]):
                world.links["->".join(ends)] = self._made("->".join(ends), each.bandwidth_mbps)
                self._link_latency_s[ends] = each.latency_ms * 1e-3

    def card(self, host: str) -> Card:
        """Network card of a host."""
        if host not in self.world.cards:
            self.world.cards[host] = self._made(host, self._hosts[host].bandwidth_mbps)
        return self.world.cards[host]

    def _made(self, name: str, bandwidth_mbps: float) -> Card:
        card = Card(self.memory, self.world.env, self.lanes, bandwidth_mbps)
        if self.noise.jitter_scv > 0.0:
            card.jitter = Jitter(self.memory, self.memory.random(f"jitter:{name}"), self.noise.jitter_scv)
        if self.cluster.links:  # records cross it on the way to the next hop
            card.lane = self.lanes.lane(None, card).here
        return card

    def costs_s(self, start: Location, end: Location, size: float) -> tuple[float, float]:
        """CPU seconds that `size` bytes cost at the sender and at the receiver."""
        if start.host != end.host:
            return self.serialise_s(size), size * self.engine.deserialise_ns_per_byte * 1e-9
        host = self._hosts[start.host]
        # cache lines take the same time at any clock speed
        line_s = host.socket_latency_s(start.socket, end.socket) * host.core_speed(end.socket)
        return 0.0, self.engine.lines_of(size) * line_s

    def serialise_s(self, size: float) -> float:
        """CPU seconds of serialising `size` bytes."""
        return size * self.engine.serialise_ns_per_byte * 1e-9

    def hops(self, start: str, end: str) -> list[tuple[Card, float]]:
        """Cards and links from host to host, each with its latency in seconds: the card without one, then the links of
        the route. In a cluster without links, the card alone, with the host's latency."""
        card = self.card(start)
        if not self.cluster.links:
            return [(card, self._hosts[start].latency_ms * 1e-3)]
        routes = self.cluster.routes
        links = routes.between(start, end) if routes.connected(start, end) else ()  # else no records go there
        return [(card, 0.0), *((self.world.links["->".join(ends)], self._link_latency_s[ends]) for ends in links)]

    def final(self, path: int) -> int:
        """Path of an item that is under way on one, or on a hop of one."""
        there = self.memory.at.get(path)
        return int(there.path if isinstance(there, Leg) else path)

    # ways ------------------------------------------------------------------------------------------------------------

    def way(self, port: Port, subtask: int) -> int:
        """Way from a port to a subtask; returns its address. Ports that were built at one place share their ways, but
        for network buffers."""
        if not port.shares_paths or port.buffers_law is not None:
            return self._way(port, subtask)
        key = port.counts.here, port.start, subtask
        if key not in self._ways:
            self._ways[key] = self._way(port, subtask)
        return self._ways[key]

    def _way(self, port: Port, subtask: int) -> int:
        inbox, start, end, size = port.inbox(subtask), port.start, port.ends[subtask], port.bytes_each
        fetch_s = self.costs_s(start, end, size)[1]
        if port.to_one_queue:  # its records may be taken on any socket
            end = port.ends[0]
            fetch_s = fmean(self.costs_s(start, each, size)[1] for each in port.ends)
        fields = {"inbox": inbox.here, "counts": port.counts.here, "subtask": subtask, "fetch_s": fetch_s}
        path = Path(self.memory.add(k.PATH, **fields))
        self.inboxes[path.here] = inbox
        if port.buffers_law is not None:
            path.channel = port.channel(subtask, start.host != end.host)
        if start.host == end.host:
            path.lane = self.lanes.lane(inbox.task).here
        elif self.cluster.links or self.noise.jitter_scv > 0.0:
            path.leg = self._legs(self.hops(start.host, end.host), inbox, size, path.here).here
        else:
            card, latency_s = self.card(start.host), self._hosts[start.host].latency_ms * 1e-3
            path.card, path.latency_s, path.bytes_each = card.here, latency_s, size
            card.carry(path)
            path.lane = self.lanes.lane(inbox.task, card, latency_s).here
        return path.here

    def _legs(self, hops: Hops, inbox: Inbox, size: float, path: int) -> Leg:
        onward: Leg | None = None
        for card, latency_s in reversed(hops):
            lane = self.lanes.lane(inbox.task, card, latency_s).here if onward is None else card.lane
            made = Leg(
                self.memory.add(k.LEG, card=card.here, lane=lane, path=path, latency_s=latency_s, bytes_each=size)
            )
            made.onward, made.raw_onward = onward, 0 if onward is None else onward.here
            made.jitter = card.jitter.here if card.jitter is not None and latency_s > 0.0 else 0
            made.end = inbox.here if onward is None else made.here
            self.memory.at[made.here] = made
            card.carry(made)
            onward = made
        assert onward is not None
        return onward


class Pieces:
    """Pieces of state on their way over cards and links. arrived: occurs when all are there."""

    def __init__(self, world: World, hops: Hops, size: float, count: int) -> None:
        self.world = world
        self.hops = [(card, latency_s, _hop(world, card, latency_s, size)) for card, latency_s in hops]
        self.size = size
        self.missing = count
        self.arrived = world.env.event()

    def send(self) -> None:
        """Sends the next piece."""
        self.world.ledger.transfers += 1
        self._cross(0, self.world.env.now)

    def _cross(self, number: int, at_s: float) -> None:
        card, latency_s, leg = self.hops[number]
        leg.records += 1
        if card.jitter is not None and latency_s > 0.0:
            factor = card.jitter.factor(self.world.env.now)
            latency_s = max(leg.latency_s * factor, leg.arrival_s - (at_s + card.wait_s(at_s)))
        else:
            latency_s = leg.latency_s
        due_s, order = card.send(self.size, at_s, latency_s)
        leg.arrival_s = due_s
        flight = Flight(card, leg, at_s, latency_s, lambda: self._crossed(number))
        heappush(self.world.env._queue, (due_s, NORMAL, order, Once(_land, flight)))

    def _crossed(self, number: int) -> None:
        self.hops[number][0].pieces -= 1
        if number + 1 < len(self.hops):
            self._cross(number + 1, self.world.env.now)
            return
        self.world.ledger.transfers -= 1
        self.missing -= 1
        if not self.missing:
            self.arrived.succeed()


class Signal:
    """Barrier on its way to an inbox, before all records that wait for room, and for nobody. arrived: called when it is
    there."""

    def __init__(self, world: World, path: int, arrived: Callable[[], None]) -> None:
        self.world, self.memory, self.arrived = world, world.memory, arrived
        self.path = Path(path)
        self.inbox: Inbox = self.memory.at[self.path.inbox]

    def send(self, at_s: float) -> None:
        """Sends it at `at_s`. Within a host it arrives at once."""
        path = self.path
        if path.leg:
            self._cross(self.memory.at[path.leg], at_s)
        elif path.card:
            self._fly(self.memory.at[path.card], path, at_s, path.latency_s, self.inbox.here, self.arrived)
        else:
            self.arrived()

    def replace(self, item: Item, lane: RecordLane) -> None:
        """Takes the place of a barrier that travels with records, on the card or link on which that is."""
        leg = self.memory.at.get(item.path)
        landed, end = self.arrived, self.inbox.here
        if isinstance(leg, Leg):
            landed, end = partial(self._crossed, leg), item.path
        flight = Flight(self.memory.at[lane.card], end, item.sent_s, item.latency_s, landed, self)
        heappush(self.world.env._queue, (item.at_s, NORMAL, item.order, Once(_land, flight)))

    def _cross(self, leg: Leg, at_s: float) -> None:
        card, latency_s = self.memory.at[leg.card], leg.latency_s
        if leg.jitter:
            factor = self.memory.at[leg.jitter].factor(self.world.env.now)
            latency_s = max(latency_s * factor, leg.arrival_s - (at_s + card.wait_s(at_s)))
        leg.arrival_s = self._fly(card, leg, at_s, latency_s, leg.end, partial(self._crossed, leg))

    def _crossed(self, leg: Leg) -> None:
        if leg.onward is None:
            self.arrived()
        else:
            self._cross(leg.onward, self.world.env.now)

    def _fly(
        self, card: Card, way: Path | Leg, at_s: float, latency_s: float, end: object, landed: Callable[[], None]
    ) -> float:
        due_s, order = card.signal(way.bytes_each, at_s, latency_s)
        flight = Flight(card, end, at_s, latency_s, landed, self)
        heappush(self.world.env._queue, (due_s, NORMAL, order, Once(_land, flight)))
        return due_s


def _hop(world: World, card: Card, latency_s: float, size: float) -> Leg:
    """Use of a card or link by pieces of state, which counts with those of streams."""
    leg = Leg(world.memory.add(k.LEG, card=card.here, latency_s=latency_s, bytes_each=size))
    leg.onward, leg.end = None, leg
    card.carry(leg)
    return leg


def _land(event: Once) -> None:
    event._value.landed()


# buffers -------------------------------------------------------------------------------------------------------------
# While the plan changes, a buffer sits in the place of a subtask, and holds records whose state is on its way.


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
# A lane has records that are under way to a subtask, or wait there. They are planned again when a card or link changes.


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

    def under_way(self) -> Iterator[tuple[Item, int]]:
        """Records, but not marks, that are on their way or wait, each with the address of its inbox."""
        for lane in self._by_ends.values():
            for item in (Item(here) for here in chain(lane.head)):
                if not item.mark and item.path:
                    path = item.path if lane.task or lane.pool else Leg(item.path).path
                    yield item, Path(path).inbox

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
