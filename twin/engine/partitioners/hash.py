"""Dealing by key: a uniform number decides the key of each record, and its key group who gets it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from twin.engine.keys.two_choice import Chooser
from twin.engine.partitioners.partitioner import Partitioner, live
from twin.engine.record import Record

if TYPE_CHECKING:
    from twin.engine.draws import Draws
    from twin.engine.keys.aligned import AlignedKeys
    from twin.engine.keys.groups import KeyGroups


class HashPartitioner(Partitioner):
    """Chooses replicas by key group, or the less loaded of two. Owners and shares of key groups may change."""

    gives_keys = True

    def __init__(self, groups: KeyGroups, draws: Draws, first: int = 0) -> None:
        super().__init__(groups.shares(), first=first)
        self._draws = draws
        self._groups = groups
        self._version = groups.version
        self._chooser = Chooser(groups) if groups.two_choice else None

    def another(self, draws: Draws, producer: object) -> Partitioner:
        """See Partitioner."""
        return HashPartitioner(self._groups, draws)

    @property
    def stale(self) -> bool:
        """Whether other replicas have keys than at the last record; that other keys are frequent does not count."""
        if self._version == self._groups.version:
            return False
        return live(self.due(self._groups.shares())) != self.live

    def parts(self, record: Record) -> Iterable[tuple[int, Record]]:
        """See Partitioner."""
        groups = self._groups
        if self._version != groups.version:
            self._version = groups.version
            self.reweigh(self.due(groups.shares()))
        group, record.key = self._key(record, self._draws.uniform())
        chooser = self._chooser
        return ((groups.owner[group] if chooser is None else chooser.choose(group), record),)

    def _key(self, record: Record, uniform: float) -> tuple[int, int]:
        """The key group of a record, and its key."""
        return self._groups.pick(uniform)


class AlignedPartitioner(HashPartitioner):
    """Chooses replicas by a record's key group at the producer, through the pattern between key groups."""

    def __init__(self, aligned: AlignedKeys, producer: object, draws: Draws, first: int = 0) -> None:
        self._aligned = aligned
        self._producer = producer
        super().__init__(aligned.consumer, draws, first)
        self.reweigh(self.due(self.weights))

    def due(self, shares: Sequence[float]) -> Sequence[float]:
        """See Partitioner."""
        return self._aligned.shares(self._producer)

    def another(self, draws: Draws, producer: object) -> Partitioner:
        """See Partitioner."""
        return AlignedPartitioner(self._aligned, producer, draws)

    def _key(self, record: Record, uniform: float) -> tuple[int, int]:
        """See HashPartitioner."""
        key = record.key
        group = self._aligned.producer.group_of(key) if key >= 0 else self._unknown()
        return self._aligned.pick(group, uniform)

    def _unknown(self) -> int:
        """The key group of a record whose key nobody noted: one of the producer's, by what they send."""
        return self._aligned.sends(self._producer, self._draws.uniform())
