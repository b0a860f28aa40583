"""Transfer of state over the same cards and links as the records, and the storage of checkpoints.

The storage is on a host of the network, or of limited speed, or both; or neither, and then free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import simpy

from twin.plan import Location
from twin.world.network import Pieces

if TYPE_CHECKING:
    from twin.checkpoints import Checkpoints
    from twin.world.world import World


PIECE_S = 1e-2
"""Seconds that a piece of state takes on the slowest card or link of its way.
State travels in pieces, so that records of other streams get their turn in between."""
PIECES = 1000
"""Most pieces; those of larger states are larger."""


def pieces_of(size: float, bytes_per_s: float) -> int:
    """In how many pieces so many bytes go over a way with such a slowest card or link."""
    return min(PIECES, math.ceil(size / (bytes_per_s * PIECE_S)))


Process = Generator[simpy.Event, Any, None]


def carry(
    world: World, start: Location, end: Location, size: float, wanted: Callable[[], bool] = lambda: True
) -> Process:
    """Sends `size` bytes of state from one place to another. Ends when the last piece is there, or when `wanted` says
    that they are no longer needed; within a host, at once."""
    if not size or start.host == end.host:
        return
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
        if left > 1:  # the next piece goes when each card and link has sent this one, as far as is known now
            after_s = [card.wait_s(now) + each / card.bytes_per_s for card in cards[1:]]
            yield world.env.timeout(max(cards[0].wait_s(now), *after_s, 0.0))
    yield pieces.arrived


class Storage:
    """Storage of checkpoints, which takes state and gives it back."""

    def __init__(self, world: World, spec: Checkpoints) -> None:
        self.world = world
        self.env = world.env
        self.place = None if spec.storage is None else Location.parse(spec.storage)
        self.bytes_per_s = None if spec.storage_mbps is None else spec.storage_mbps * 1e6 / 8
        self._free_s = 0.0

    def put(self, start: Location, size: float, wanted: Callable[[], bool] = lambda: True) -> Process:
        """Sends `size` bytes of state from `start` over the network into the store. Ends when all bytes are there, or
        when `wanted` says that they are no longer needed."""
        if self.place is not None:
            yield from carry(self.world, start, self.place, size, wanted)
        if wanted():
            yield from self._pass(size)

    def clear(self) -> None:
        """Drops the state that is being stored."""
        self._free_s = self.env.now

    def get(self, end: Location, size: float) -> Process:
        """Fetches `size` bytes of state from the store to a place."""
        yield from self._pass(size)
        if self.place is not None:
            yield from carry(self.world, self.place, end, size)

    def _pass(self, size: float) -> Process:
        """Waits until the store has passed `size` bytes, first in, first out."""
        if self.bytes_per_s is not None and size > 0.0:
            self._free_s = max(self._free_s, self.env.now) + size / self.bytes_per_s
            yield self.env.timeout(self._free_s - self.env.now)
