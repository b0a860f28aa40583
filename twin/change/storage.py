"""Transfer of state over the same cards and links as the tuples, and the storage of checkpoints.

The storage is on a host of the network, or of limited speed, or both; or neither, and then free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import simpy

from twin.engine.measure.ledger import Ledger
from twin.engine.record import Record
from twin.engine.streams.channel import Inbox
from twin.plan import Location
from twin.world.network import Pieces
from twin.world.world import World as InMemory

if TYPE_CHECKING:
    from twin.checkpoints import Checkpoints
    from twin.wiring.wiring import Wiring


PIECE_S = 1e-2
"""Seconds that a piece of state takes on the slowest card or link of its way.
State travels in pieces, so that tuples of other streams get their turn in between."""
PIECES = 1000
"""Most pieces; those of larger states are larger."""


def pieces_of(size: float, bytes_per_s: float) -> int:
    """In how many pieces so many bytes go over a way with such a slowest card or link."""
    return min(PIECES, math.ceil(size / (bytes_per_s * PIECE_S)))


class Arrival:
    """Receiver of pieces of state, which triggers `event` when all are there."""

    __slots__ = ("event", "ledger", "missing")

    def __init__(self, env: simpy.Environment, ledger: Ledger, pieces: int) -> None:
        self.event = env.event()
        self.ledger = ledger
        self.missing = pieces

    def deliver(self, record: Record) -> None:
        """Counts a piece that has arrived."""
        self.ledger.transfers -= 1
        self.missing -= 1
        if not self.missing:
            self.event.succeed()


def carry(
    wiring: Wiring, start: Location, end: Location, size: float, wanted: Callable[[], bool] = lambda: True
) -> Generator[simpy.Event, Any, None]:
    """Sends `size` bytes of state from one place to another. Ends when the last piece is there, or when `wanted` says
    that they are no longer needed; within a host, at once."""
    world: Any = wiring.world
    if not size or start.host == end.host:
        return
    if isinstance(world, InMemory):
        yield from _in_memory(world, start, end, size, wanted)
        return
    nics = [nic for nic, _ in wiring.network.hops(start.host, end.host)]
    slowest = min(nic.bytes_per_s for nic in nics)
    pieces = pieces_of(size, slowest)
    arrival = Arrival(world.env, world.ledger, pieces)
    path = wiring.network.path(start, end, Inbox(arrival, 0, 0), size / pieces)
    assert path.nic is not None
    for left in range(pieces, 0, -1):
        now = world.env.now
        if not wanted():
            return
        world.ledger.transfers += 1
        piece = Record(now, now, now)
        piece.inbox = path.inbox
        path.nic.transmit(piece, path.bytes_each, path.latency_s)
        if left > 1:  # the next piece goes when each card and link has sent this one, as far as is known now
            after_s = [nic.wait_s(now) + path.bytes_each / nic.bytes_per_s for nic in nics[1:]]
            yield world.env.timeout(max(nics[0].wait_s(now), *after_s, 0.0))
    yield arrival.event


def _in_memory(
    world: InMemory, start: Location, end: Location, size: float, wanted: Callable[[], bool]
) -> Generator[simpy.Event, Any, None]:
    hops = world.network.hops(start.host, end.host)
    cards = [card for card, _ in hops]
    count = pieces_of(size, min(card.bytes_per_s for card in cards))
    each = size / count
    pieces = Pieces(world, hops, each, count)
    for left in range(count, 0, -1):
        now = world.env.now
        if not wanted():
            return
        pieces.send()
        if left > 1:
            after_s = [card.wait_s(now) + each / card.bytes_per_s for card in cards[1:]]
            yield world.env.timeout(max(cards[0].wait_s(now), *after_s, 0.0))
    yield pieces.arrived


Process = Generator[simpy.Event, Any, None]


class Storage:
    """Storage of checkpoints, which takes state and gives it back."""

    def __init__(self, wiring: Wiring, spec: Checkpoints) -> None:
        self.wiring = wiring
        self.env = wiring.world.env
        self.place = None if spec.storage is None else Location.parse(spec.storage)
        self.bytes_per_s = None if spec.storage_mbps is None else spec.storage_mbps * 1e6 / 8
        self._free_s = 0.0

    def put(self, start: Location, size: float, wanted: Callable[[], bool] = lambda: True) -> Process:
        """Sends `size` bytes of state from `start` over the network into the store. Ends when all bytes are there, or
        when `wanted` says that they are no longer needed."""
        if self.place is not None:
            yield from carry(self.wiring, start, self.place, size, wanted)
        if wanted():
            yield from self._pass(size)

    def clear(self) -> None:
        """Drops the state that is being stored."""
        self._free_s = self.env.now

    def get(self, end: Location, size: float) -> Process:
        """Fetches `size` bytes of state from the store to a place."""
        yield from self._pass(size)
        if self.place is not None:
            yield from carry(self.wiring, self.place, end, size)

    def _pass(self, size: float) -> Process:
        """Waits until the store has passed `size` bytes, first in, first out."""
        if self.bytes_per_s is not None and size > 0.0:
            self._free_s = max(self._free_s, self.env.now) + size / self.bytes_per_s
            yield self.env.timeout(self._free_s - self.env.now)
