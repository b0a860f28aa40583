"""Network of a run: cards, links and routes, and the ways from ports to subtasks."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush
from statistics import fmean
from typing import TYPE_CHECKING, Any

from simpy.events import NORMAL

from twin.engine.calendar import Once
from twin.kernel import layout as k
from twin.plan import Location
from twin.wiring.network import Network as Routes
from twin.world.lanes import Flight, Lanes
from twin.world.parts import Card, Channel, Inbox, Jitter, Leg, Path, Pool, Port

if TYPE_CHECKING:
    from twin.world.world import World

Hops = Sequence[tuple[Card, float]]
"""Cards and links of a route, each with its latency in seconds."""


class Network(Routes):
    """Cards, links and lanes of one run. All links are there from the start, a host's card from its first use on."""

    def __init__(self, world: World) -> None:
        self.memory, self.lanes = world.memory, Lanes(world)
        self._ways: dict[tuple[int, Location, int], int] = {}
        whole: Any = world
        super().__init__(world.deployment, whole, world.noise, world.settings.seed)

    def _made(self, name: str, bandwidth_mbps: float) -> Card:
        clock: Any = self.world.env
        card = Card(self.memory, clock, self.lanes, bandwidth_mbps)
        if self.noise.jitter_scv > 0.0:
            card.jitter = Jitter(self.memory, self.memory.random(f"jitter:{name}"), self.noise.jitter_scv)
        if self.cluster.links:  # records cross it on the way to the next hop
            card.lane = self.lanes.lane(None, card).here
        return card

    # ways ------------------------------------------------------------------------------------------------------------

    def way(self, port: Port, replica: int) -> int:
        """Way from a port to a subtask; returns its address. Ports at one place share their ways, but for buffers."""
        own = port.here if port.pool else port.counts.here
        key = own, port.task.place, replica
        if key not in self._ways:
            self._ways[key] = self._way(port, replica)
        return self._ways[key]

    def _way(self, port: Port, replica: int) -> int:
        inbox, start, end, size = port.inboxes[replica], port.task.place, port.ends[replica], port.bytes_each
        fetch_s = self.costs_s(start, end, size)[1]
        if isinstance(inbox.task, Pool):  # its records may be taken on any socket
            fetch_s = fmean(self.costs_s(start, each, size)[1] for each in port.ends)
        path = Path(self.memory.add(k.PATH, inbox=inbox.here, counts=port.counts.here, fetch_s=fetch_s))
        if port.pool:
            path.replica, path.channel = replica, self._channel(port, inbox, replica, start.host != end.host)
        if start.host == end.host:
            path.lane = self.lanes.lane(inbox.task).here
        elif self.cluster.links or self.noise.jitter_scv > 0.0:
            path.leg = self._legs(self.hops(start.host, end.host), inbox, size, path.here).here
        else:
            card, latency_s = self.nic(start.host), self._hosts[start.host].latency_ms * 1e-3
            path.card, path.latency_s, path.bytes_each = card.here, latency_s, size
            card.carry(path)
            path.lane = self.lanes.lane(inbox.task, card, latency_s).here
        return path.here

    def _channel(self, port: Port, inbox: Inbox, replica: int, remote: bool) -> int:
        if not inbox.gated:
            return 0
        channel = port.channels[replica] = Channel(
            self.memory.add(k.CHANNEL, port=port.here, inbox=inbox.here, remote=remote)
        )
        channel.sender, channel.receiver = port, inbox
        self.memory.at[channel.here] = channel
        return channel.here

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
        leg.tuples += 1
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


def _hop(world: World, card: Card, latency_s: float, size: float) -> Leg:
    """Use of a card or link by pieces of state, which counts with those of streams."""
    leg = Leg(world.memory.add(k.LEG, card=card.here, latency_s=latency_s, bytes_each=size))
    leg.onward, leg.end = None, leg
    card.carry(leg)
    return leg


def _land(event: Once) -> None:
    event._value.landed()
