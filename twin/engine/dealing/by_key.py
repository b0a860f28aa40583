"""Dealing by key groups, which move from replica to replica while a job runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from twin.engine.dealing.at_random import RandomDeal
from twin.engine.dealing.in_turn import Deal
from twin.engine.dealing.two_choice import Chooser
from twin.engine.segment import Segment

if TYPE_CHECKING:
    from twin.engine.draws import Draws
    from twin.engine.streams.alignment import AlignedKeys
    from twin.engine.streams.keys import KeyGroups
    from twin.engine.streams.sender import Sender


class KeyedDeal(RandomDeal):
    """By key groups, whose replicas and shares may change; or by the less loaded of two choices, nearly in turn."""

    __slots__ = ("_chooser", "_groups", "_version")

    def __init__(self, groups: KeyGroups, draws: Draws, first: int = 0, producers: int = 1) -> None:
        super().__init__(groups.shares(), draws, first=first, producers=producers)
        self._groups = groups
        self._version = groups.version
        self._chooser = Chooser(groups) if groups.two_choice else None

    def another(self, draws: Draws, producer: Sender) -> Deal:
        """See Deal."""
        return KeyedDeal(self._groups, draws)

    def parts(self, segment: Segment) -> Iterable[tuple[int, Segment]]:
        """See Deal."""
        groups = self._groups
        if self._version != groups.version:
            self._version = groups.version
            self.reweigh(self.due(groups.shares()))
        if segment.n == 1 and self._chooser is not None:
            return ((self._chooser.choose(self._draws.uniform()), segment),)
        return super().parts(segment)

    def _split(self, segment: Segment) -> Iterable[tuple[int, Segment]]:
        return super()._split(segment) if self._chooser is None else Deal._split(self, segment)

    def _thin(self, segment: Segment, index: int) -> None:
        if self._chooser is None:
            super()._thin(segment, index)
        else:
            Deal._thin(self, segment, index)


class AlignedDeal(KeyedDeal):
    """By key groups that hear of those of the producer: each producer replica deals by shares of its own."""

    __slots__ = ("_aligned", "_producer")

    def __init__(self, aligned: AlignedKeys, producer: Sender, draws: Draws, first: int = 0) -> None:
        self._aligned = aligned
        self._producer = producer
        super().__init__(aligned.consumer, draws, first)
        self.reweigh(self.due(self.weights))

    def due(self, shares: Sequence[float]) -> Sequence[float]:
        """See Deal."""
        return self._aligned.shares(self._producer)

    def another(self, draws: Draws, producer: Sender) -> Deal:
        """See Deal."""
        return AlignedDeal(self._aligned, producer, draws)
