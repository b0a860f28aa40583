"""Network of a run: cards, links and routes, and the ways from ports to subtasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappush
from statistics import fmean
from typing import TYPE_CHECKING

from simpy.events import NORMAL

from twin.machine import layout as k
from twin.plan import Location
from twin.world.clock import Once
from twin.world.lanes import Flight, Lanes
from twin.world.parts import Card, Item, Jitter, Leg, RecordLane
from twin.world.ports import Inbox, Path, Port

if TYPE_CHECKING:
    from twin.world.world import World

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
        for link in self.cluster.links:
            for ends in (link.between, link.between[::-1]):
                world.links["->".join(ends)] = self._made("->".join(ends), link.bandwidth_mbps)
                self._link_latency_s[ends] = link.latency_ms * 1e-3

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
        path = Path(self.memory.add(k.PATH, inbox=inbox.here, counts=port.counts.here, fetch_s=fetch_s))
        self.inboxes[path.here] = inbox
        if port.buffers_law is not None:
            path.subtask, path.channel = subtask, port.channel(subtask, start.host != end.host)
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
