"""Windowed join of two or more sides: matching tuples, one a side, at each evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.outcome import Results
from twin.engine.windows.combiner import Combiner
from twin.engine.windows.extent import Extent
from twin.engine.windows.key_law import KeyLaw
from twin.engine.windows.matches import Matches
from twin.engine.windows.mixture import oldest_of_each, spreads
from twin.engine.windows.oldest import around, oldest
from twin.engine.windows.store import Store

if TYPE_CHECKING:
    from twin.engine.streams.keys import KeyGroups


class MatchCombiner(Combiner):
    """Matches: selectivity * |W1| * |W2| * ... on average, and by the law of its keys; or amplification * fresh tuples.

    keyed: sides that are dealt by key; of others, all tuples are here. share: of the keys, that are here.
    """

    __slots__ = ("_matches", "amplification", "by_time", "keyed", "law", "selectivity")

    def __init__(
        self,
        extent: Extent,
        store: Store,
        scan_s: float,
        result_s: float,
        keyed: int,
        selectivity: float | None,
        amplification: float | None,
        share: float = 1.0,
    ) -> None:
        super().__init__(extent, store, scan_s, result_s)
        self.by_time = extent.by_time
        self.selectivity = selectivity
        self.amplification = amplification
        self.keyed = keyed
        self.law = self._law_of(share)
        self._matches = Matches(self.size, self.slide)

    def _law_of(self, share: float) -> KeyLaw:
        """How tuples match where that share of the keys, > 0, is, all alike: fewer pairs, likelier matches."""
        sides = len(self.store.histories)
        share **= max(0, self.keyed - 1) / (sides - 1)
        return KeyLaw.even(self.selectivity or 0.0, sides, share)

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """See Logic."""
        law = keys.law(replica, self.selectivity or 0.0, len(self.store.histories))
        if law is not None:
            self.law = law

    def know_share(self, share: float, values: list[int]) -> None:
        """See Logic."""
        self.law = self._law_of(share)

    def changed(self) -> None:
        """Matches of tuples that come or go are drawn anew."""
        self._matches.clear()

    def snapshot(self) -> object:
        """What had matched."""
        return self._matches.copy()

    def restore(self, kept: object) -> None:
        """That matched."""
        assert isinstance(kept, Matches)
        self._matches = kept.copy()

    # evaluations ---------------------------------------------------------------------------------------------------

    def evaluate(self, position: float, fires: int, low: float, high: float) -> tuple[Results | None, float]:
        """Draws the matches of the window's sides; a match is as old as the oldest of its tuples."""
        start = position - self.size
        since, until, contents, content = [], [], [], 0.0
        for side in self.store.histories:
            before, after = side.count_until(start), side.count_until(position)
            since.append(before)
            until.append(after)
            contents.append(after - before)
            content += after - before
        work_s = self.scan_s * content * fires
        if self.amplification is None:
            matches = self._matches.count(self.station.draws, self.law, since, until, fires, self._crowding(content))
        else:
            matches = self._measured(position, fires)
        if matches <= 0:
            return None, work_s
        ages = self._ages(start, position, contents)
        if ages is None:
            return None, work_s
        work_s += self.result_s * matches
        (born_s, born_half_s), (taken_s, taken_half_s) = ages
        if fires == 1:
            return Results(
                matches,
                low,
                high,
                born_s - born_half_s,
                born_s + born_half_s,
                taken_s - taken_half_s,
                taken_s + taken_half_s,
            ), work_s
        back = (fires - 1) * self.slide  # the same contents and ages at each: the stamps advance with the positions
        first = self._ages(start - back, position - back, contents)
        assert first is not None
        return Results(matches, low, high, first[0][0], born_s, first[1][0], taken_s), work_s

    def _ages(
        self, start: float, position: float, contents: list[float]
    ) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """Mean and half-width of the birth, and of the ingestion, of the oldest tuple of a match in a window."""
        if any(side.unsettled(start) for side, n in zip(self.store.histories, contents, strict=True) if n > 0.0):
            return self._ages_of_eras(start, position, contents)
        born, taken, counts = [], [], []
        for side, n in zip(self.store.histories, contents, strict=True):
            if n > 0.0:
                counts.append(n)
                born0, taken0 = side.first_after(start)
                born1, taken1 = side.last_until(position)
                born.append((born0, born1) if born0 <= born1 else (born1, born0))
                taken.append((taken0, taken1) if taken0 <= taken1 else (taken1, taken0))
            elif self.amplification is None:
                return None
        # with a given amplification a short window may lack a side: it is a measured rate of results
        if not born:
            return None
        if self.station.exact:
            return around(born, counts), around(taken, counts)
        return oldest(born), oldest(taken)

    def _ages_of_eras(
        self, start: float, position: float, contents: list[float]
    ) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """The same where tuples of the window waited for a restart."""
        sides = [
            spreads(side.spans(start, position))
            for side, n in zip(self.store.histories, contents, strict=True)
            if n > 0.0
        ]
        if len(sides) < len(contents) and self.amplification is None:
            return None
        return oldest_of_each([born for born, _ in sides]), oldest_of_each([taken for _, taken in sides])

    def _measured(self, position: float, fires: int) -> int:
        """Results by the amplification."""
        assert self.amplification is not None
        if self.by_time:
            since = position - self.slide
            fresh = sum([side.count_until(position) - side.count_until(since) for side in self.store.histories])
        else:
            fresh = self.slide * fires
        return self.station.draws.rounded(self.amplification * fresh)

    def _crowding(self, content: float) -> float:
        """E[n1 n2 ...] over the product of the means: w tuples of random sides are multinomial, (w - 1) / w for two.

        Segments much shorter than the window vary as their tuples do; what they do not show is 1 / (1 + w / segment).
        """
        unseen_mix, crowding = self.store.unseen_mix, 1.0
        if unseen_mix > 0.0:
            for k in range(1, len(self.store.histories)):
                crowding *= max(0.0, 1.0 - unseen_mix * k / content)
        clumping = self.store.clumping
        return crowding / (1.0 + clumping) if clumping > 0.0 else crowding
