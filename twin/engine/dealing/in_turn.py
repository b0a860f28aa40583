"""How a producer deals a stream's tuples to the consumer's replicas.

A segment with enough tuples is split among all replicas; a small one goes whole to the replica that lags most behind
its share, so the number of segments does not grow with the number of replicas. It then stands for what that replica
would have got since its last one, of all producers: it is stretched over that time, or it would be a burst. Producers
make segments in turn, too, so every now and then two replicas change places: each gets tuples of all producers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from twin.engine.dealing.turns import Turns
from twin.engine.segment import Segment

if TYPE_CHECKING:
    from twin.engine.draws import Draws
    from twin.engine.streams.sender import Sender

SPLIT_AT_LEAST = 16
"""Tuples each replica must get for a split of a smooth segment to be worth its events."""
SPLIT_UNEVEN = 4
"""The same where replicas get unequal shares: turns of whole segments come after few segments now and many then."""
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
        "_least",
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
        even = max(weights, default=0.0) <= 1.001 * min([weights[index] for index in self._live], default=0.0)
        self._least = SPLIT_AT_LEAST if even else SPLIT_UNEVEN
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
            return (self._pass_whole(segment, 1, segment.n),)
        n = segment.n / parts
        return [self._pass_whole(piece, parts, n) for piece in self._pieces(segment, parts)]

    def _pieces(self, segment: Segment, parts: int) -> Iterable[Segment]:
        """About equal ones, for as many replicas."""
        return interleaved(segment, parts)

    def receivers(self, segment: Segment) -> int:
        """Among how many replicas to split it: so many that each gets one part while a producer makes one segment."""
        replicas, fair = len(self._live), -(-len(self._live) // self.producers)
        if segment.b_s > segment.a_s:
            most = min(fair, segment.n)
            return even_turns(fair, min(most, max(1, segment.n // self._least, fair // BURST_PARTS)))
        return max(1, min(replicas, max(fair, BURST_PARTS), segment.n))

    def _pass_whole(self, segment: Segment, parts: int, n: float) -> tuple[int, Segment]:
        """n: tuples that are expected of such a piece."""
        index = self._whole(n)
        if segment.b_s > segment.a_s:
            self._stretch(segment, index, 1.0 / (self.weights[index] * self.producers * parts))
            self._thin(segment, index)
            self._hide(segment, index, parts)
        return index, segment

    def _hide(self, segment: Segment, index: int, parts: int) -> None:
        """What chance there is in who gets which of a segment's parts, and how much, that does not show."""

    def _thin(self, segment: Segment, index: int) -> None:
        """In turn: a gap is the sum of 1 / weight gaps."""
        segment.gap_scv *= self.weights[index]
        segment.unseen_scv *= self.weights[index]
        segment.clump *= self.weights[index]

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

    def _whole(self, n: float) -> int:
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

    def _exchanged(self, best: int, n: float) -> int:
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


@cache
def even_turns(replicas: int, parts: int) -> int:
    """About so many parts of each segment, so that every replica gets one every so many segments, if that can be.

    Did parts not divide the replicas, a replica's turn would come after two segments now and after three then: its
    work would come in fits, and wait. A divisor is as near as it is in the ratio, up to twice or half of `parts`.
    """
    near = [each for each in range(-(-parts // 2), 2 * parts + 1) if replicas % each == 0]
    return min(near, key=lambda each: max(each / parts, parts / each), default=parts)


def interleaved(segment: Segment, count: int) -> Iterable[Segment]:
    """The segment's tuples in turn as that many segments over (nearly) the same time."""
    n = segment.n
    for place in range(count):
        size = (n - 1 - place) // count + 1
        yield segment.part(size, place / max(1, n - 1), (place + (size - 1) * count) / max(1, n - 1))
