"""State on its way from one place to another: over the same network cards and links as the tuples."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

import simpy

from twin.engine.channel import Inbox
from twin.engine.ledger import Ledger
from twin.engine.segment import Segment

if TYPE_CHECKING:
    from twin.engine.task import Task
    from twin.plan import Location
    from twin.rewiring import Rewiring

PIECE_BYTES = 65_536
"""State travels in pieces, so that tuples of other streams get their turn in between."""
PIECES = 100
"""At most this many."""


class Arrival:
    """Where a piece arrives: in place of a task, it only tells that it is there."""

    __slots__ = ("event", "ledger")

    def __init__(self, env: simpy.Environment, ledger: Ledger) -> None:
        self.event = env.event()
        self.ledger = ledger

    def deliver(self, segment: Segment) -> None:
        """The piece has arrived."""
        self.ledger.transfers -= 1
        self.event.succeed()


def carry(wiring: Rewiring, start: Location, end: Location, size: float) -> Generator[simpy.Event, Any, None]:
    """Sends `size` bytes from a place to another and ends when the last one is there; at once within a host."""
    world = wiring.world
    pieces = min(PIECES, math.ceil(size / PIECE_BYTES))
    for left in range(pieces, 0, -1):
        arrival = Arrival(world.env, world.ledger)
        path = wiring.path(start, end, Inbox(cast("Task", arrival), 0, 0), size / pieces)
        if path.nic is None:
            return
        now = world.env.now
        segment = Segment(1, now, now, now, now, now, now, inbox=path.inbox)
        world.ledger.transfers += 1
        path.nic.transmit(segment, path)
        if left > 1:  # the next piece goes when this one has left the card
            yield world.env.timeout(max(0.0, segment.b_s - path.latency_s * path.nic.latency_factor - now))
        else:
            yield arrival.event
