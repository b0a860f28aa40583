"""State on its way from one place to another: over the same network cards and links as the tuples."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import simpy

from twin.engine.measure.ledger import Ledger
from twin.engine.record import Record
from twin.engine.streams.channel import Inbox

if TYPE_CHECKING:
    from twin.plan import Location
    from twin.wiring.wiring import Wiring

PIECE_BYTES = 65_536
"""State travels in pieces, so that tuples of other streams get their turn in between."""
PIECES = 100
"""At most this many."""


class Arrival:
    """Receives pieces in place of a task, and triggers `event` when all are there."""

    __slots__ = ("event", "ledger", "missing")

    def __init__(self, env: simpy.Environment, ledger: Ledger, pieces: int) -> None:
        self.event = env.event()
        self.ledger = ledger
        self.missing = pieces

    def deliver(self, record: Record) -> None:
        """A piece has arrived."""
        self.ledger.transfers -= 1
        self.missing -= 1
        if not self.missing:
            self.event.succeed()


def carry(
    wiring: Wiring, start: Location, end: Location, size: float, wanted: Callable[[], bool] = lambda: True
) -> Generator[simpy.Event, Any, None]:
    """Sends `size` bytes from a place to another. Ends when the last piece is there, or no more are wanted; within a
    host it ends at once."""
    world = wiring.world
    pieces = min(PIECES, math.ceil(size / PIECE_BYTES))
    if not pieces or start.host == end.host:
        return
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
        path.nic.transmit(piece, path)
        if left > 1:  # the next piece goes when this one has left the card
            yield world.env.timeout(world.nics[start.host].wait_s(now))
    yield arrival.event
