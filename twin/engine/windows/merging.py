"""Segments of several streams as one line in the order in which their tuples came.

Segments of two streams overlap in time but are served one after the other. A count window over both must see their
tuples interleaved, as they arrived: bursts at their moments, smooth stretches mixed in proportion to their rates.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from twin.engine.segment import Segment
from twin.engine.windows.state import Stamps

FORGET = 0.1
"""Per segment, when the lateness of a stream falls; it rises at once."""


@dataclass(slots=True)
class Piece:
    """n tuples (a fraction, where it was cut) of a segment of `whole` that came evenly over [low_s, high_s].

    clump: see Segment.
    """

    low_s: float
    high_s: float
    n: float
    born0_s: float
    born1_s: float
    taken0_s: float
    taken1_s: float
    whole: int
    clump: float = 0.0

    def copy(self) -> Piece:
        """Another one."""
        return Piece(self.low_s, self.high_s, self.n, *self.stamps, self.whole, self.clump)

    @property
    def stamps(self) -> Stamps:
        """As a history holds them."""
        return self.born0_s, self.born1_s, self.taken0_s, self.taken1_s

    def cut(self, at_s: float) -> Piece:
        """Takes off and returns what came until `at_s`."""
        share = (at_s - self.low_s) / (self.high_s - self.low_s)
        n = share * self.n
        born_s = self.born0_s + share * (self.born1_s - self.born0_s)
        taken_s = self.taken0_s + share * (self.taken1_s - self.taken0_s)
        taken = Piece(self.low_s, at_s, n, self.born0_s, born_s, self.taken0_s, taken_s, self.whole, self.clump)
        self.low_s, self.n, self.born0_s, self.taken0_s = at_s, self.n - n, born_s, taken_s
        return taken


Stretch = tuple[float, float, list[tuple[int, Piece]]]
"""From when to when; what came meanwhile, by stream. A burst has no length and a single stream."""


class Merger:
    """Holds what came until no stream can bring anything older, then gives it out in order."""

    __slots__ = ("_late_s", "_newest_s", "_pieces", "_reached_s")

    def __init__(self, streams: int) -> None:
        self._pieces: list[deque[Piece]] = [deque() for _ in range(streams)]
        self._newest_s = [0.0] * streams
        self._late_s = [0.0] * streams  # how long after its arrival a stream's first tuple came to be known, lately
        self._reached_s = 0.0

    def copy(self) -> Merger:
        """Another one that holds the same."""
        other = Merger(len(self._pieces))
        other._pieces = [deque([piece.copy() for piece in pieces]) for pieces in self._pieces]
        other._newest_s, other._late_s = self._newest_s.copy(), self._late_s.copy()
        other._reached_s = self._reached_s
        return other

    @property
    def held(self) -> float:
        """Tuples not given out."""
        return sum([piece.n for pieces in self._pieces for piece in pieces])

    def add(self, stream: int, segment: Segment, known_s: float) -> list[Stretch]:
        """Takes a segment that came to be known at `known_s`; returns all that is now complete."""
        late_s, before_s = known_s - segment.a_s, self._late_s[stream]
        self._late_s[stream] = late_s if late_s > before_s else before_s + FORGET * (late_s - before_s)
        newest_s, n = self._newest_s[stream], segment.n
        low_s, high_s, reached_s = segment.a_s, segment.b_s, self._reached_s
        if n > 1 and newest_s < low_s:  # the gap before the first tuple is its own, or a smooth stream would have holes
            before_s = low_s - (high_s - low_s) / (n - 1)
            low_s = before_s if before_s > newest_s else newest_s
        if high_s < reached_s:
            high_s = reached_s
        if low_s < reached_s:
            low_s = reached_s
        if low_s > high_s:
            low_s = high_s
        if high_s > newest_s:
            self._newest_s[stream] = high_s
        stamps = segment.born0_s, segment.born1_s, segment.taken0_s, segment.taken1_s
        self._pieces[stream].append(Piece(low_s, high_s, n, *stamps, n, segment.clump))
        return self._until(self._complete_s(known_s))

    def _complete_s(self, known_s: float) -> float:
        """Until when no stream can bring anything more."""
        complete_s = math.inf
        for stream, late_s in enumerate(self._late_s):
            until_s = known_s - late_s
            if until_s < self._newest_s[stream]:
                until_s = self._newest_s[stream]
            if until_s < complete_s:
                complete_s = until_s
        return complete_s

    def _until(self, end_s: float) -> list[Stretch]:
        done: list[Stretch] = []
        now_s = self._reached_s
        while True:
            next_s = end_s
            flowing = []
            for stream, pieces in enumerate(self._pieces):
                if not pieces:
                    continue
                head = pieces[0]
                if head.low_s > now_s:
                    turn_s = head.low_s
                elif head.high_s > now_s:
                    flowing.append((stream, head))
                    turn_s = head.high_s
                else:
                    done.append((now_s, now_s, [(stream, pieces.popleft())]))
                    break
                if turn_s < next_s:
                    next_s = turn_s
            else:
                if next_s <= now_s:
                    self._reached_s = now_s
                    return done
                if flowing:
                    done.append((now_s, next_s, [self._part(stream, head, next_s) for stream, head in flowing]))
                now_s = next_s

    def _part(self, stream: int, head: Piece, end_s: float) -> tuple[int, Piece]:
        if head.high_s <= end_s:
            return stream, self._pieces[stream].popleft()
        return stream, head.cut(end_s)
