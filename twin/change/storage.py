"""The storage of checkpoints: on a host of the network, in a store of limited speed, both, or neither, for free."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import simpy

from twin.change.transfer import carry
from twin.plan import Location

if TYPE_CHECKING:
    from twin.checkpoints import Checkpoints
    from twin.wiring.wiring import Wiring

Process = Generator[simpy.Event, Any, None]


class Storage:
    """Takes state, and gives it back."""

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
        """What is being stored is not wanted any more."""
        self._free_s = self.env.now

    def get(self, end: Location, size: float) -> Process:
        """Fetches state from the store to a place."""
        yield from self._pass(size)
        if self.place is not None:
            yield from carry(self.wiring, self.place, end, size)

    def _pass(self, size: float) -> Process:
        """Waits until the store has passed so many bytes, first in, first out."""
        if self.bytes_per_s is not None and size > 0.0:
            self._free_s = max(self._free_s, self.env.now) + size / self.bytes_per_s
            yield self.env.timeout(self._free_s - self.env.now)
