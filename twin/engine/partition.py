"""How a producer deals a stream's tuples to the consumer's replicas.

A segment with enough tuples is split among all replicas; a small one goes whole to the replica that lags most behind
its share, so the number of segments does not grow with the number of replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twin.engine.segment import Segment
from twin.errors import BadInput
from twin.query import Aggregate, AnyOperator, Partitioning

SPLIT_AT_LEAST = 16
"""Tuples each replica must get for a split to be worth its events."""
SPLIT_REPLICAS = 8
"""Above this many replicas segments are never split: events would multiply from stage to stage."""


class Deal:
    """Shares of one producer's tuples by consumer replica; `weights` sum to 1 (a broadcast's are all 1).

    first: the replica at which the producer begins its round. Producers must not be in step, or a replica would get
    a segment from each of them at once and then nothing for a whole round.
    """

    __slots__ = ("_first", "_live", "_owed", "copies", "weights")

    def __init__(self, weights: Sequence[float], copies: bool = False, first: int = 0) -> None:
        self.weights = list(weights)
        self.copies = copies
        self._live = [index for index, weight in enumerate(self.weights) if weight > 0.0]
        self._owed = [0.0] * len(self.weights)
        self._first: int | None = first

    def reweigh(self, weights: Sequence[float]) -> None:
        """New shares, of as many replicas or more."""
        self.weights = list(weights)
        self._live = [index for index, weight in enumerate(self.weights) if weight > 0.0]
        self._owed += [0.0] * (len(self.weights) - len(self._owed))

    def parts(self, segment: Segment) -> Iterable[tuple[int, Segment]]:
        """(replica, its part) for each replica that gets any of the segment."""
        if len(self._live) == 1:
            return ((self._live[0], segment),)
        if self.copies:
            whole = segment.n
            return [(index, segment.part(whole, 0.0, 1.0)) for index in range(len(self.weights))]
        replicas = len(self._live)
        if segment.n >= SPLIT_AT_LEAST * replicas and replicas <= SPLIT_REPLICAS:
            return self._split(segment)
        return ((self._whole(segment.n), segment),)

    def _whole(self, n: int) -> int:
        owed, weights = self._owed, self.weights
        if self._first is not None:  # begin in the middle of a round of segments of this size
            for index in self._live:
                owed[index] -= n * ((index - self._first) % len(owed)) / len(owed)
            self._first = None
        best = self._live[0]
        for index in self._live:
            owed[index] += weights[index] * n
            if owed[index] > owed[best]:
                best = index
        owed[best] -= n
        return best

    def _split(self, segment: Segment) -> Iterable[tuple[int, Segment]]:
        left = segment.n
        parts = []
        for index in self._live:
            self._owed[index] += self.weights[index] * segment.n
            n = left if index == self._live[-1] else min(left, max(0, round(self._owed[index])))
            self._owed[index] -= n
            left -= n
            if n:
                parts.append((index, segment.part(n, 0.0, 1.0)))
        return parts


def deal(how: Partitioning, consumer: AnyOperator, producers: int, index: int, consumers: int) -> Deal:
    """The deal of producer replica `index` of `producers` over `consumers` replicas.

    Hash spreads the groups of an aggregate round-robin over its replicas, join keys evenly. Raises BadInput where
    forward meets different replica counts.
    """
    if how == "forward":
        if producers != consumers:
            raise BadInput(
                f"stream into {consumer.name!r}: forward needs equal replicas, got {producers} -> {consumers}; "
                "use rebalance"
            )
        return Deal([float(k == index) for k in range(consumers)])
    if how == "global":
        return Deal([float(k == 0) for k in range(consumers)])
    if how == "broadcast":
        return Deal([1.0] * consumers, copies=consumers > 1)
    first = index * consumers // producers
    if how == "hash" and isinstance(consumer, Aggregate):
        return Deal([groups_of(consumer.groups, k, consumers) / consumer.groups for k in range(consumers)], first=first)
    return Deal([1.0 / consumers] * consumers, first=first)


def groups_of(groups: int, replica: int, replicas: int) -> int:
    """How many of an aggregate's groups live on one replica."""
    return groups // replicas + (1 if replica < groups % replicas else 0)
