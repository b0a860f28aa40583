"""Keyed state with a time to live: how many keys live follows from how many tuples came lately."""

from __future__ import annotations

from math import expm1, inf
from typing import TYPE_CHECKING

from twin.engine.logics.select import SelectLogic
from twin.engine.segment import Segment
from twin.engine.windows.state import Piece, State
from twin.engine.windows.store import divided

if TYPE_CHECKING:
    from twin.engine.streams.keys import KeyGroups

PARTS = 64
"""Of a time to live, in which tuples are counted together."""
UNDATED = (0.0, 0.0, 0.0, 0.0)


class RememberLogic(SelectLogic):
    """`recent`: tuples by the part of time in which they came, the oldest first; those beyond ttl_s count no more.

    strata: (share of the tuples, keys) of classes of like keys.
    """

    __slots__ = ("bytes_each", "recent", "strata", "ttl_s")

    def __init__(self, selectivity: float, keys: float, ttl_s: float, bytes_each: float) -> None:
        """keys: of this replica. ttl_s: may be infinite."""
        super().__init__(selectivity, selectivity <= 1.0)
        self.strata: tuple[tuple[float, float], ...] = ((1.0, keys),)
        self.ttl_s = ttl_s
        self.bytes_each = bytes_each
        self.recent: list[Piece] = []

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """See Logic."""
        strata = keys.strata(replica) or ((1.0, keys.distinct_of(replica)),)
        self.strata = tuple([each for each in strata if each[1] > 0.0])

    def emit(self, segment: Segment, first_s: float, last_s: float) -> None:
        """The states of its keys are there, and young."""
        self._count(float(segment.n), last_s)
        super().emit(segment, first_s, last_s)

    def _count(self, n: float, at_s: float) -> None:
        width_s = self.ttl_s / PARTS
        begin_s = 0.0 if self.ttl_s == inf else at_s // width_s * width_s
        recent = self.recent
        if recent and recent[-1][0] >= begin_s:
            low, high, before, _ = recent[-1]
            recent[-1] = (low, high, before + n, UNDATED)
        else:
            recent.append((begin_s, begin_s + width_s, n, UNDATED))
            while recent[0][1] < at_s - self.ttl_s:
                recent.pop(0)

    def lately(self) -> float:
        """Tuples within the time to live; the oldest part counts as far as it reaches."""
        since_s, found = self.station.env.now - self.ttl_s, 0.0
        for low, high, n, _ in self.recent:
            if high > since_s:
                found += n if low >= since_s else n * (high - since_s) / (high - low)
        return found

    def live(self) -> float:
        """Keys that have a state."""
        tuples = self.lately()
        return -sum([keys * expm1(-tuples * share / keys) for share, keys in self.strata])

    # what it holds ---------------------------------------------------------------------------------------------------

    def held(self) -> float:
        """Tuples that it remembers having counted."""
        return sum([n for _, _, n, _ in self.recent])

    def held_bytes(self) -> float:
        """Of the states of the keys that live."""
        return self.live() * self.bytes_each

    def window_bytes(self) -> float:
        """See Logic."""
        return self.held_bytes()

    def snapshot(self, again: bool) -> object:
        """See Logic."""
        return self.recent.copy()

    def restore(self, kept: object, at_s: float, now_s: float) -> int:
        """See Logic."""
        assert isinstance(kept, list)
        self.recent = kept.copy()
        return 0

    def take(self, share: float) -> State:
        """See Logic."""
        taken, self.recent = divided(self.recent, share)
        return State([taken])

    def give(self, state: State) -> None:
        """See Logic."""
        counts: dict[float, tuple[float, float]] = {}
        for low, high, n, _ in [*self.recent, *(piece for pieces in state.pieces for piece in pieces)]:
            counts[low] = (high, counts.get(low, (high, 0.0))[1] + n)
        self.recent = [(low, high, n, UNDATED) for low, (high, n) in sorted(counts.items())]

    def stores(self) -> int:
        """See Logic."""
        return 1
