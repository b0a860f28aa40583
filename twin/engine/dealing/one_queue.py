"""Dealing from one queue that the replicas share."""

from __future__ import annotations

from collections.abc import Iterable

from twin.engine.dealing.in_turn import Deal
from twin.engine.record import Record


class SharedDeal(Deal):
    """The records of a queue that replicas share: all paths lead to it."""

    __slots__ = ()

    def __init__(self, replicas: int) -> None:
        super().__init__([1.0 / replicas] * replicas)

    def parts(self, record: Record) -> Iterable[tuple[int, Record]]:
        """See Deal."""
        return ((0, record),)
