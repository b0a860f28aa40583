"""How a producer deals a stream's records to the consumer's replicas: in turn, or to all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from twin.engine.record import Record

if TYPE_CHECKING:
    from twin.engine.draws import Draws
    from twin.engine.station.task import Task


class Deal:
    """Shares of a stream's records by consumer replica; `weights` sum to 1 (a broadcast's are all 1).

    Records go to the replicas that have a share in turn, or with `copies` to all. Each producer replica has a deal of
    its own, and begins its round at replica `first`. live: replicas that have a share; turn: place of the next of them.
    """

    __slots__ = ("copies", "first", "live", "turn", "weights")

    tags = False
    """Whether it looks at each record, also where there is one replica only, and all of them hear control items."""
    gives_keys = False
    """Whether each record gets a key here, also where there is one replica only."""

    def __init__(self, weights: Sequence[float], copies: bool = False, first: int = 0) -> None:
        self.copies = copies
        self.first = first
        self.reweigh(weights)

    def reweigh(self, weights: Sequence[float]) -> None:
        """Deals by these weights from now on."""
        self.weights = weights
        self.live = [index for index, weight in enumerate(weights) if weight > 0.0]
        self.turn = next((place for place, index in enumerate(self.live) if index >= self.first), 0)

    def due(self, shares: Sequence[float]) -> Sequence[float]:
        """What it should deal by where the consumer's replicas get these shares of the stream."""
        return shares

    def another(self, draws: Draws, producer: Task) -> Deal:
        """The deal of another producer replica, which has random numbers of its own."""
        return Deal(list(self.weights), self.copies)

    def parts(self, record: Record) -> Iterable[tuple[int, Record]]:
        """(replica, record) for each replica that gets it."""
        if len(self.live) == 1:
            return ((self.live[0], record),)
        if self.copies:
            return [(index, record.copy()) for index in self.live]
        turn = self.turn
        self.turn = (turn + 1) % len(self.live)
        return ((self.live[turn], record),)
