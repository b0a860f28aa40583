"""Partitioners: how a producer sends a stream's records to the subtasks of the consumer.

They send in turn (rebalance), to all (broadcast), at random, or to one shared queue. By key, a random number decides on
the key of each record, and its key group on the subtask.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from twin.engine.keys.groups import landed
from twin.engine.keys.likeness import cumulative
from twin.engine.keys.two_choice import Chooser
from twin.engine.record import Record

if TYPE_CHECKING:
    from twin.engine.draws import Draws
    from twin.engine.keys.aligned import AlignedKeys
    from twin.engine.keys.groups import KeyGroups


def live(weights: Sequence[float]) -> list[int]:
    """Replicas that have a share."""
    return [index for index, weight in enumerate(weights) if weight > 0.0]


class Partitioner:
    """Deals a stream's records to consumer replicas by `weights`, which sum to 1 (a broadcast's are all 1).

    The base deals in turn to all replicas that have a share (rebalance), or with `copies` to all of them (broadcast).
    Each producer replica has a partitioner of its own, and begins its round at replica `first`. live: replicas that
    have a share. turn: position among them of the next one.
    """

    tags = False
    """Whether it looks at each record, also of a single replica, and all replicas get control items."""
    gives_keys = False
    """Whether each record gets a key here, also with a single replica."""

    def __init__(self, weights: Sequence[float], copies: bool = False, first: int = 0) -> None:
        self.copies = copies
        self.first = first
        self.reweigh(weights)

    def reweigh(self, weights: Sequence[float]) -> None:
        """Deals by these weights from now on."""
        self.weights = weights
        self.live = live(weights)
        self.turn = next((place for place, index in enumerate(self.live) if index >= self.first), 0)

    def due(self, shares: Sequence[float]) -> Sequence[float]:
        """Weights of this partitioner where the consumer's replicas get these shares of the stream."""
        return shares

    def another(self, draws: Draws, producer: object) -> Partitioner:
        """Partitioner of another producer replica, which has its own random numbers."""
        return Partitioner(list(self.weights), self.copies)

    def parts(self, record: Record) -> Iterable[tuple[int, Record]]:
        """Pairs (replica, record) for each replica that gets a record."""
        if len(self.live) == 1:
            return ((self.live[0], record),)
        if self.copies:
            return [(index, record.copy()) for index in self.live]
        turn = self.turn
        self.turn = (turn + 1) % len(self.live)
        return ((self.live[turn], record),)


class SharedQueue(Partitioner):
    """Partitioner to a queue that replicas share: all paths lead to it."""

    def __init__(self, replicas: int) -> None:
        super().__init__([1.0 / replicas] * replicas)

    def parts(self, record: Record) -> Iterable[tuple[int, Record]]:
        return ((0, record),)


class RandomPartitioner(Partitioner):
    """Chooses replicas at random by their shares: one uniform number for each record, if several have a share. kin:
    whether that is the record's lot, of which the replica gets the part that is not used up."""

    def __init__(self, weights: Sequence[float], draws: Draws, first: int = 0, kin: bool = False) -> None:
        self._draws = draws
        self.kin = kin
        super().__init__(weights, first=first)

    def another(self, draws: Draws, producer: object) -> Partitioner:
        return RandomPartitioner(list(self.weights), draws, kin=self.kin)

    def reweigh(self, weights: Sequence[float]) -> None:
        super().reweigh(weights)
        self._steps = cumulative(weights)

    def parts(self, record: Record) -> Iterable[tuple[int, Record]]:
        if len(self.live) == 1:
            return super().parts(record)
        if self.kin and record.lot >= 0.0:
            replica, record.lot = landed(self._steps, record.lot)
            return ((replica, record),)
        return ((bisect_right(self._steps, self._draws.uniform()), record),)


class HashPartitioner(Partitioner):
    """Chooses replicas by key group, or the less loaded of its two. Owners and shares of key groups may change. kin:
    whether a record's lot decides on its key, if it has one."""

    gives_keys = True

    def __init__(self, groups: KeyGroups, draws: Draws, first: int = 0, kin: bool = False) -> None:
        super().__init__(groups.shares(), first=first)
        self._draws = draws
        self.kin = kin
        self._groups = groups
        self._chooser = Chooser(groups) if groups.two_choice else None

    def another(self, draws: Draws, producer: object) -> Partitioner:
        return HashPartitioner(self._groups, draws, kin=self.kin)

    def parts(self, record: Record) -> Iterable[tuple[int, Record]]:
        uniform = record.lot if self.kin and record.lot >= 0.0 else self._draws.uniform()
        group, record.key = self._key(record, uniform)
        chooser = self._chooser
        return ((self._groups.owner[group] if chooser is None else chooser.choose(group), record),)

    def _key(self, record: Record, uniform: float) -> tuple[int, int]:
        """Key group and key of a record."""
        return self._groups.pick(uniform)


class AlignedPartitioner(HashPartitioner):
    """Chooses replicas by a record's key group at the producer, through the pattern between key groups."""

    def __init__(self, aligned: AlignedKeys, producer: object, draws: Draws, first: int = 0) -> None:
        self._aligned = aligned
        self._producer = producer
        super().__init__(aligned.consumer, draws, first)
        self.reweigh(self.due(self.weights))

    def due(self, shares: Sequence[float]) -> Sequence[float]:
        return self._aligned.shares(self._producer)

    def another(self, draws: Draws, producer: object) -> Partitioner:
        return AlignedPartitioner(self._aligned, producer, draws)

    def _key(self, record: Record, uniform: float) -> tuple[int, int]:
        if record.key >= 0:
            group = self._aligned.producer.group_of(record.key)
        else:  # the producer noted no key: one of its key groups is drawn, by their shares of its output
            group = self._aligned.sends(self._producer, self._draws.uniform())
        return self._aligned.pick(group, uniform)
