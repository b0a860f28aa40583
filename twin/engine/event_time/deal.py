"""How records with event time are dealt: by key group, to whoever has it at that time; to two owners around a cut."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

from twin.engine.dealing.at_random import cumulative
from twin.engine.dealing.in_turn import Deal
from twin.engine.draws import Draws
from twin.engine.event_time.audit import Audit
from twin.engine.event_time.dated import DIGEST_BITS, Dated
from twin.engine.event_time.ownership import Ownership
from twin.engine.record import Record

if TYPE_CHECKING:
    from twin.engine.station.task import Task


class Copied:
    """Records of one stream that were sent twice, to the owners before and after a cut."""

    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


class TimedDeal(Deal):
    """By the owner of its key group at each record's event time. It draws the record's key, and notes it for the audit.

    mask: by which digests of sources are those of this stream, so that what is read again is of the same key; 0 where
    what comes is not one to one what sources send.
    """

    __slots__ = ("_draws", "_key_steps", "_weighed", "audit", "copied", "mask", "ownership")

    tags = True

    def __init__(
        self, ownership: Ownership, draws: Draws, copied: Copied, audit: Audit, first: int = 0, mask: int = 0
    ) -> None:
        self.mask = mask
        self.ownership = ownership
        self.copied = copied
        self.audit = audit
        self._draws = draws
        self._key_steps: list[float] = []
        self._weighed = -1
        super().__init__(ownership.keys.shares(), first=first)

    def another(self, draws: Draws, producer: Task) -> Deal:
        """See Deal."""
        return TimedDeal(self.ownership, draws, self.copied, self.audit, mask=self.mask)

    def parts(self, record: Record) -> Iterable[tuple[int, Record]]:
        """See Deal."""
        assert isinstance(record, Dated)
        owners, copied, audit = self.ownership, self.copied, self.audit
        digest = record.digest ^ self.mask if self.mask and record.digest else 0
        group = self._draw_key(record, digest)
        record.digest = digest or int(self._draws.rng.integers(1 << DIGEST_BITS))
        audit.came.append((record.at_us, record.key, record.digest))
        found: list[tuple[int, Record]] = [(owners.owner(record.at_us, group), record)]
        for cut in owners.copies(record.at_us) if owners.cuts else ():
            if group in cut.old:
                found.append((cut.old[group], record.copy()))
                copied.n += 1
        return found

    def _draw_key(self, record: Dated, digest: int) -> int:
        """Its key, which is the same if it is read again; the key group of that."""
        keys, groups, known = self.ownership.keys, self.ownership.groups, self.audit.keys
        if self._weighed != keys.version:
            self._weighed, self._key_steps = keys.version, cumulative(keys.weights.tolist())
        if digest and digest in known:
            record.key = known[digest]
            return groups.of(record.key)
        group = bisect_right(self._key_steps, self._draws.uniform())
        first, end = groups.edges[group], groups.edges[group + 1]
        record.key = first + int(self._draws.uniform() * (end - first))
        if digest:
            known[digest] = record.key
        return group
