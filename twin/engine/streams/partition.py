"""How a producer deals a stream's tuples to the consumer's replicas.

A segment with enough tuples is split among all replicas; a small one goes whole to the replica that lags most behind
its share, so the number of segments does not grow with the number of replicas. It then stands for what that replica
would have got since its last one, of all producers: it is stretched over that time, or it would be a burst. Producers
make segments in turn, too, so every now and then two replicas change places: each gets tuples of all producers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twin.engine.segment import Segment
from twin.engine.streams.turns import Turns
from twin.engine.streams.two_choice import Chooser
from twin.errors import BadInput
from twin.partitionings.traits import Ends, Partitioning
from twin.query import AnyOperator

if TYPE_CHECKING:
    from twin.engine.draws import Draws
    from twin.engine.streams.alignment import AlignedKeys
    from twin.engine.streams.keys import KeyGroups
    from twin.engine.streams.sender import Sender

SPLIT_AT_LEAST = 16
"""Tuples each replica must get for a split of a smooth segment to be worth its events."""
BURST_PARTS = 8
"""Replicas among which a burst is split, if there are that many: whole, it would keep one of them busy for long."""
ROUNDS = 256
"""So many, over the square of the replicas, go by between two changes of places: a replica that gets a segment earlier
takes a share of 1 / replicas more for that time, and one that gets it later so much less."""
SCAN_REPLICAS = 16
"""Up to this many replicas are looked at one by one for each segment; more keep a list of turns."""


class Deal:
    """Shares of a stream's tuples by consumer replica; `weights` sum to 1 (a broadcast's are all 1).

    In a fast run all producer replicas deal together, so that each consumer replica gets as many segments as one
    producer makes. In an exact run each has a deal of its own; first: the replica at which it begins its round.
    producers: how many deal by these weights, together or apart.
    """

    __slots__ = (
        "_began_s",
        "_dealt",
        "_ended",
        "_every",
        "_first",
        "_live",
        "_owed",
        "_places",
        "_turns",
        "copies",
        "first",
        "producers",
        "weights",
    )

    tags = False
    """Whether it looks at each segment, also where there is one replica only, and all of them hear control items."""

    def __init__(self, weights: Sequence[float], copies: bool = False, first: int = 0, producers: int = 1) -> None:
        self.copies = copies
        self.first = first
        self.producers = producers
        self._began_s = 0.0
        self._ended: dict[int, float] = {}  # when the last tuple of each replica's last segment came
        self._dealt = 0
        self.reweigh(weights)

    def reweigh(self, weights: Sequence[float]) -> None:
        """Deals by these weights from now on."""
        self.weights = weights
        self._live = [index for index, weight in enumerate(weights) if weight > 0.0]
        self._owed = [0.0] * len(weights) if len(weights) <= SCAN_REPLICAS else []
        self._every = 1 + len(self._live) * max(1, ROUNDS // len(self._live) ** 2)  # at another place each time
        self._first: int | None = self.first
        self._places: list[int] = []  # in a round
        self._turns: Turns | None = None

    def due(self, shares: Sequence[float]) -> Sequence[float]:
        """What it should deal by where the consumer's replicas get these shares of the stream."""
        return shares

    def another(self, draws: Draws, producer: Sender) -> Deal:
        """The deal of another producer replica, which has random numbers of its own."""
        return Deal(list(self.weights), self.copies)

    @property
    def wide(self) -> bool:
        """Whether segments go to some replicas of many."""
        return len(self._live) > BURST_PARTS and not self.copies

    def parts(self, segment: Segment) -> Iterable[tuple[int, Segment]]:
        """(replica, its part) for each replica that gets any of the segment."""
        replicas = len(self._live)
        if replicas == 1:
            return ((self._live[0], segment),)
        if self.copies:
            whole = segment.n
            return [(index, segment.part(whole, 0.0, 1.0)) for index in range(len(self.weights))]
        parts = self.receivers(segment)
        if parts == replicas:
            return self._split(segment)
        if parts == 1:
            return (self._pass_whole(segment, 1),)
        return [self._pass_whole(piece, parts) for piece in interleaved(segment, parts)]

    def receivers(self, segment: Segment) -> int:
        """Among how many replicas to split it: so many that each gets one part while a producer makes one segment."""
        replicas, fair = len(self._live), -(-len(self._live) // self.producers)
        if segment.b_s > segment.a_s:
            return min(fair, segment.n, max(1, segment.n // SPLIT_AT_LEAST, fair // BURST_PARTS))
        return max(1, min(replicas, max(fair, BURST_PARTS), segment.n))

    def _pass_whole(self, segment: Segment, parts: int) -> tuple[int, Segment]:
        index = self._whole(segment.n)
        if segment.b_s > segment.a_s:
            self._stretch(segment, index, 1.0 / (self.weights[index] * self.producers * parts))
            self._thin(segment, index)
        return index, segment

    def _thin(self, segment: Segment, index: int) -> None:
        """In turn: a gap is the sum of 1 / weight gaps."""
        segment.gap_scv *= self.weights[index]

    def _stretch(self, segment: Segment, index: int, turns: float) -> None:
        """Lets a segment begin where the replica's last one ended; in the first round, where the first one began.

        turns: segments, one of which goes to this replica.
        """
        a_s, b_s = segment.a_s, segment.b_s
        if not self._ended:
            self._began_s = a_s
        since_s = max(self._ended.get(index, self._began_s), b_s - 2.0 * turns * (b_s - a_s))
        self._ended[index] = b_s
        first_s = since_s + (b_s - since_s) / segment.n
        if first_s < a_s:  # its tuples keep their ages
            segment.a_s = first_s
            segment.born0_s -= a_s - first_s
            segment.taken0_s -= a_s - first_s

    def _whole(self, n: int) -> int:
        self._dealt += 1
        change = n > 1 and self.producers > 1 and self._dealt % self._every == 0  # not tuple by tuple
        if not self._owed:
            if self._turns is None:
                self._turns = Turns(self.weights, self.first, n)
            if change:
                self._turns.exchange()
            return self._turns.next(n)
        owed, weights = self._owed, self.weights
        if self._first is not None:  # begin in the middle of a round of segments of this size
            self._places = [(index - self._first) % len(owed) for index in range(len(owed))]
            for index in self._live:
                owed[index] -= n * self._places[index] / len(owed)
            self._first = None
        best = self._live[0]
        for index in self._live:
            owed[index] += weights[index] * n
            if owed[index] > owed[best]:
                best = index
        if change:
            best = self._exchanged(best, n)
        owed[best] -= n
        return best

    def _exchanged(self, best: int, n: int) -> int:
        """The replica that is due after `best`, if that is in this round: they change places in it for good."""
        owed, places, after = self._owed, self._places, -1
        for index in self._live:
            if index != best and (after < 0 or owed[index] > owed[after]):
                after = index
        later = places[after] - places[best]
        if later < 0:
            return best
        owed[best] -= n * later / len(owed)
        owed[after] += n * later / len(owed)
        places[best], places[after] = places[after], places[best]
        return after

    def _split(self, segment: Segment) -> Iterable[tuple[int, Segment]]:
        if not self._owed:
            self._owed = [0.0] * len(self.weights)
        left = total = segment.n
        parts = []
        for place, index in enumerate(self._live):
            self._owed[index] += self.weights[index] * segment.n
            n = left if index == self._live[-1] else min(left, max(0, round(self._owed[index])))
            self._owed[index] -= n
            left -= n
            if n:  # in turn: of tuples so far apart, the first of this replica comes at its place among them
                low = (total / n - 1.0) * place / (len(self._live) - 1)
                part = segment.part(n, low / (total - 1), (low + (n - 1) * total / n) / (total - 1))
                self._thin(part, index)
                parts.append((index, part))
        return parts


class RandomDeal(Deal):
    """Deals by keys, which come at random: each tuple to a random replica, segments in multinomial parts."""

    __slots__ = ("_draws", "_steps")

    def __init__(self, weights: Sequence[float], draws: Draws, first: int = 0, producers: int = 1) -> None:
        self._draws = draws
        super().__init__(weights, first=first, producers=producers)

    def another(self, draws: Draws, producer: Sender) -> Deal:
        """See Deal."""
        return RandomDeal(list(self.weights), draws)

    def reweigh(self, weights: Sequence[float]) -> None:
        """See Deal."""
        super().reweigh(weights)
        self._steps = cumulative(weights)

    def parts(self, segment: Segment) -> Iterable[tuple[int, Segment]]:
        """See Deal."""
        if segment.n > 1:
            return super().parts(segment)
        return ((bisect_right(self._steps, self._draws.uniform()), segment),)

    def _split(self, segment: Segment) -> Iterable[tuple[int, Segment]]:
        left, rest, parts = segment.n, 1.0, []
        for index in self._live:
            share = self.weights[index]
            n = left if index == self._live[-1] else self._draws.binomial(left, min(1.0, share / rest))
            left -= n
            rest -= share
            if n:
                part = segment.part(n, 0.0, 1.0)
                if n < segment.n:  # where the first and last of a random few lie on average
                    part.narrow((segment.n - n) / ((n + 1) * (segment.n - 1)))
                self._thin(part, index)
                parts.append((index, part))
            if not left:
                break
        return parts

    def _thin(self, segment: Segment, index: int) -> None:
        """At random: what is left of a stream by chance."""
        share = self.weights[index]
        segment.gap_scv = share * segment.gap_scv + 1.0 - share


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


def interleaved(segment: Segment, count: int) -> Iterable[Segment]:
    """The segment's tuples in turn as that many segments over (nearly) the same time."""
    n = segment.n
    for place in range(count):
        size = (n - 1 - place) // count + 1
        yield segment.part(size, place / max(1, n - 1), (place + (size - 1) * count) / max(1, n - 1))


def deal(
    how: Partitioning, consumer: AnyOperator, producers: int, index: int, consumers: int, draws: Callable[[], Draws]
) -> Deal:
    """The deal of producer replica `index` of `producers` over `consumers` replicas, where no key groups are known.

    Keys are the groups of an aggregate, or as many as replicas. draws: makes the random numbers, which only keys need.
    Raises BadInput where replicas that send to each other in pairs are not as many.
    """
    if how.paired and producers != consumers:
        raise BadInput(
            f"stream into {consumer.name!r}: {how} needs equal replicas, got {producers} -> {consumers}; use rebalance"
        )
    if how.one_queue:
        return SharedDeal(consumers)
    first = index * consumers // producers
    weights = how.shares(Ends(index, consumers, consumer.values(consumers)))
    if how.by_key and consumers > 1:
        return RandomDeal(weights, draws(), first, producers)
    return Deal(weights, copies=how.copies and consumers > 1, first=first, producers=producers)


def cumulative(shares: Sequence[float]) -> list[float]:
    """Sums of the shares so far; exactly 1 from the last positive one on."""
    steps = np.cumsum(shares)
    steps[np.flatnonzero(np.asarray(shares))[-1] :] = 1.0
    return [float(step) for step in steps]
