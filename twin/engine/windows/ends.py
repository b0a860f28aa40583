"""Which tuples are the last of their sessions, and how long those were, where no key is known but when tuples came."""

from __future__ import annotations

from math import exp, expm1

from twin.engine.draws import Draws
from twin.engine.segment import Segment
from twin.engine.windows.came import Came

PARTS = 3
"""Of a segment, that are asked for how many came in the gap after them."""
MOST_STEPS = 64
"""Tuples by which a session is followed back; what lies before is drawn as for tuples that go on coming like that."""


class Ends:
    """strata: (share of the tuples, keys) of classes of like keys, whose tuples come at random times."""

    __slots__ = ("came", "gap_s", "strata")

    def __init__(self, gap_s: float, strata: tuple[tuple[float, float], ...]) -> None:
        self.gap_s = gap_s
        self.strata = strata
        self.came = Came()

    def of(self, segment: Segment) -> float:
        """The share of its tuples after which none of their key came within the gap."""
        length_s, ends = segment.b_s - segment.a_s, 0.0
        for part in range(PARTS):
            at_s = segment.a_s + length_s * (part + 0.5) / PARTS
            ends += self.among(self.came.between(at_s, at_s + self.gap_s)) / PARTS
        return ends

    def among(self, came: float) -> float:
        """The share of tuples of whose key none is among so many that came."""
        total = sum([share for share, _ in self.strata])
        return max(1e-300, sum([share * exp(-came * share / keys) for share, keys in self.strata]) / total)

    def open(self, now_s: float) -> float:
        """Keys of which something came within the gap."""
        came = self.came.between(now_s - self.gap_s, now_s)
        return -sum([keys * expm1(-came * share / keys) for share, keys in self.strata])

    def lasted_s(self, end_s: float, draws: Draws) -> float:
        """How long before its last tuple a session began: back from tuple to tuple of the key, until a gap."""
        came, at_s = self.came, end_s
        every = self._every(came.between(end_s, end_s + self.gap_s), draws)
        for _ in range(MOST_STEPS):
            before_s = came.back(at_s, every * draws.exponential())
            if at_s - before_s > self.gap_s:
                return end_s - at_s
            at_s = before_s
        each = came.between(at_s - self.gap_s, at_s) / every  # of a key, in a gap
        more_s = expm1(min(each, 700.0)) / max(each, 1e-300) * self.gap_s * draws.exponential()
        return end_s - max(at_s - more_s, came.times_s[0])

    def _every(self, came: float, draws: Draws) -> float:
        """One tuple in so many is of the key of a session, of all classes, that ended while so many came."""
        share, keys = self.strata[0]
        if len(self.strata) > 1:
            weights = [share * exp(-came * share / keys) for share, keys in self.strata]
            left = draws.uniform() * sum(weights)
            for place, weight in enumerate(weights):
                share, keys = self.strata[place]
                left -= weight
                if left <= 0.0:
                    break
        return keys / share
