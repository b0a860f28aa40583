"""Dealing from one queue that the replicas share."""

from __future__ import annotations

from collections.abc import Iterable

from twin.engine.dealing.in_turn import Deal
from twin.engine.segment import Segment


class SharedDeal(Deal):
    """The segments of a queue that replicas share: its tuples go to them in turn, in each segment a part to each."""

    __slots__ = ("_next",)

    def __init__(self, replicas: int) -> None:
        super().__init__([1.0 / replicas] * replicas)
        self._next = 0

    @property
    def wide(self) -> bool:
        """Never: each replica gets a part of each segment."""
        return False

    def parts(self, segment: Segment) -> Iterable[tuple[int, Segment]]:
        """See Deal."""
        replicas, n = len(self.weights), segment.n
        if replicas == 1:
            return ((0, segment),)
        begin, last = self._next, max(1, n - 1)
        self._next = (begin + n) % replicas
        parts = []
        for first in range(min(n, replicas)):  # place of the part's first tuple in the segment
            count = (n - 1 - first) // replicas + 1
            part = segment.part(count, first / last, (first + (count - 1) * replicas) / last)
            parts.append(((begin + first) % replicas, part))
        return parts
