"""How tuples with event time are dealt: by key group, to whoever has it at that time; to two owners around a cut."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

from twin.engine.dealing.at_random import RandomDeal, cumulative
from twin.engine.dealing.in_turn import Deal
from twin.engine.draws import Draws
from twin.engine.event_time.audit import Audit, Tally
from twin.engine.event_time.dated import DIGEST_BITS, Dated
from twin.engine.event_time.ownership import Cut, Ownership
from twin.engine.segment import Segment

if TYPE_CHECKING:
    from twin.engine.streams.sender import Sender


class Copied:
    """Tuples of one stream that were sent twice, to the owners before and after a cut."""

    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


class TimedDeal(Deal):
    """By the law of each segment's event time. In an exact run it draws a tuple's key, and notes it for the audit.

    mask: by which digests of sources are those of this stream, so that what is read again is of the same key; 0 where
    what comes is not one to one what sources send.
    """

    __slots__ = ("_deals", "_draws", "_key_steps", "_weighed", "audit", "copied", "mask", "ownership", "tally")

    tags = True

    def __init__(
        self,
        ownership: Ownership,
        draws: Draws,
        copied: Copied,
        audit: Audit | None,
        tally: Tally | None,
        first: int = 0,
        producers: int = 1,
        mask: int = 0,
    ) -> None:
        self.mask = mask
        self.ownership = ownership
        self.copied = copied
        self.audit = audit
        self.tally = tally
        self._draws = draws
        self._deals: dict[int, RandomDeal] = {}
        self._key_steps: list[float] = []
        self._weighed = -1
        super().__init__(ownership.keys.shares(), first=first, producers=producers)

    def another(self, draws: Draws, producer: Sender) -> Deal:
        """See Deal."""
        return TimedDeal(self.ownership, draws, self.copied, self.audit, self.tally, mask=self.mask)

    def parts(self, segment: Segment) -> Iterable[tuple[int, Segment]]:
        """See Deal."""
        assert isinstance(segment, Dated)
        if self.audit is not None:
            return self._single(segment, self.audit)
        if self.tally is not None:
            self.tally.arrive(segment.at_us, segment.n)
        law = self.ownership.law(segment.at_us)
        parts = list(self._by(law).parts(segment))
        for seat, part in parts:
            assert isinstance(part, Dated)
            part.law, part.seat = law, seat
        for cut in self.ownership.copies(segment.at_us) if self.ownership.cuts else ():
            parts += self._copied(segment, cut)
        return parts

    def _by(self, law: int) -> RandomDeal:
        """A deal for each law; those of laws that no longer hold are forgotten."""
        deal = self._deals.get(law)
        if deal is None:
            if len(self._deals) > 8:
                del self._deals[min(self._deals)]
            shares = self.ownership.laws[law].shares(self.ownership.keys.places).tolist()
            deal = self._deals[law] = RandomDeal(shares, self._draws, self.first, self.producers)
        return deal

    def _copied(self, segment: Dated, cut: Cut) -> list[tuple[int, Segment]]:
        """To the old owners, their key groups' part of the tuples."""
        law = self.ownership.copy_law(cut)
        weight_g, found = self.ownership.laws[law].weight_g, list[tuple[int, Segment]]()
        for old in dict.fromkeys(cut.old.values()):
            share = float(weight_g[[group for group, each in cut.old.items() if each == old]].sum())
            n = self._draws.binomial(segment.n, min(1.0, share))
            if n:
                part = segment.part(n, 0.0, 1.0)
                assert isinstance(part, Dated)
                part.law, part.seat = law, old
                found.append((old, part))
                self.copied.n += n
        return found

    def _single(self, segment: Dated, audit: Audit) -> list[tuple[int, Segment]]:
        keys, groups = self.ownership.keys, self.ownership.groups
        if self._weighed != keys.version:
            self._weighed, self._key_steps = keys.version, cumulative(keys.weights.tolist())
        digest = segment.digest ^ self.mask if self.mask and segment.digest else 0
        known = audit.keys.get(digest, -1) if digest else -1
        if known >= 0:
            group, segment.key = groups.of(known), known
        else:
            group = bisect_right(self._key_steps, self._draws.uniform())
            first, end = groups.edges[group], groups.edges[group + 1]
            segment.key = first + int(self._draws.uniform() * (end - first))
        if digest:
            audit.keys[digest] = segment.key
        segment.digest = digest or int(self._draws.rng.integers(1 << DIGEST_BITS))
        law = segment.law = self.ownership.law(segment.at_us)
        audit.came.append((segment.at_us, segment.key, segment.digest))
        found: list[tuple[int, Segment]] = [(int(self.ownership.laws[law].owner_g[group]), segment)]
        for cut in self.ownership.copies(segment.at_us) if self.ownership.cuts else ():
            if group in cut.old:
                found.append((cut.old[group], segment.part(1, 0.5, 0.5)))
                self.copied.n += 1
        return found
