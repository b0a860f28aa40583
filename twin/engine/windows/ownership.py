"""Ownership of key groups by event time: the owners now, and on both sides of cuts.

A key group changes hands at once (`KeyGroups.owner`), or at a cut ahead of all that sources have sent. Windows before
the cut belong to the old owner, windows after it to the new one. Records that both need go to both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from twin.engine.draws import Draws
from twin.engine.keys.groups import KeyGroups, landed
from twin.engine.partitioners import Partitioner
from twin.engine.record import Record
from twin.engine.streams.channel import StreamCounts
from twin.engine.windows.panes import DIGEST_BITS, Dated, WindowAudit
from twin.panes import Span


@dataclass(slots=True)
class Cut:
    """Change of hands of key groups, whose windows belong to the new owner if they begin at `at_us` or later; by_end:
    if they end after it.

    over_us: when the last window of the old owner is complete. old, new: owners by key group.
    """

    at_us: int
    over_us: int
    old: dict[int, int]
    new: dict[int, int]
    by_end: bool = False

    def after(self, span: Span) -> bool:
        """Whether a window belongs to the new owner."""
        return span.end > self.at_us if self.by_end else span.start >= self.at_us

    def needed(self, piece: Span, longest_us: int) -> tuple[bool, bool]:
        """Whether a piece may be in windows of the old owner, and in windows of the new one."""
        if self.by_end:
            return piece.end <= self.at_us, piece.start + longest_us > self.at_us
        return piece.end - longest_us < self.at_us, piece.start >= self.at_us


class Ownership:
    """Owners of one operator's key groups. cuts: cuts that are not over, by time. leaving: cuts by end whose state is
    on its way to the new owner; all tuples and pieces before them have passed already."""

    def __init__(self, keys: KeyGroups) -> None:
        self.keys = keys
        self.cuts: list[Cut] = []
        self.leaving: list[Cut] = []
        self._seen = -1
        self._now: list[list[int]] = []  # owners by number of passed cuts and key group

    def cut(self, cut: Cut) -> None:
        """Plans a cut."""
        self.cuts = sorted([*self.cuts, cut], key=lambda planned: planned.at_us)
        self._seen = -1

    def over(self, cut: Cut) -> None:
        """Drops a cut that is over; the caller changes the owners of the key groups."""
        self.cuts = [other for other in self.cuts if other is not cut]
        self._seen = -1

    # records ---------------------------------------------------------------------------------------------------------

    def owner(self, at_us: int, group: int) -> int:
        """Owner that gets records of a key group with event time `at_us`."""
        if self._seen != self.keys.version:
            self._renew()
        passed = 0
        for cut in self.cuts:
            if at_us >= cut.at_us:
                passed += 1
        return self._now[passed][group]

    def _renew(self) -> None:
        """Computes the owners now, and from each cut on."""
        self._seen = self.keys.version
        owners = list(self.keys.owner)
        self._now = [owners]
        for cut in self.cuts:
            owners = owners.copy()
            for group, owner in cut.new.items():
                owners[group] = owner
            self._now.append(owners)

    def copies(self, at_us: int) -> list[Cut]:
        """Cuts because of which tuples of event time `at_us` also go to the old owners."""
        return [cut for cut in self.cuts if cut.at_us <= at_us < cut.over_us]

    # windows ---------------------------------------------------------------------------------------------------------

    def responsible(self, span: Span) -> np.ndarray:
        """Replica that emits a window, by key group. [G]"""
        owner_g = self.keys.owners().copy()
        for cut in (*self.cuts, *self.leaving):
            owners = cut.new if cut.after(span) else cut.old
            owner_g[list(owners)] = list(owners.values())
        return owner_g


class EventTimePartitioner(Partitioner):
    """Sends each record to the owner of its key group at its event time. Draws the record's key, and notes it for the
    audit.

    mask: makes digests of this stream from those of sources, so that a tuple that is read again has the same key; 0
    where tuples do not correspond one to one to those of sources. kin: whether a record's lot decides on its key.
    """

    tags = True

    def __init__(
        self,
        ownership: Ownership,
        draws: Draws,
        counts: StreamCounts,
        audit: WindowAudit,
        first: int = 0,
        mask: int = 0,
        kin: bool = False,
    ) -> None:
        self.mask = mask
        self.kin = kin
        self.ownership = ownership
        self.counts = counts
        self.audit = audit
        self._draws = draws
        super().__init__(ownership.keys.shares(), first=first)

    def another(self, draws: Draws, producer: object) -> Partitioner:
        return EventTimePartitioner(self.ownership, draws, self.counts, self.audit, mask=self.mask, kin=self.kin)

    def parts(self, record: Record) -> Iterable[tuple[int, Record]]:
        assert isinstance(record, Dated)
        owners, audit = self.ownership, self.audit
        digest = record.digest ^ self.mask if self.mask and record.digest else 0
        group = self._draw_key(record, digest)
        record.digest = digest or int(self._draws.rng.integers(1 << DIGEST_BITS))
        audit.came.append((record.at_us, record.key, record.digest))
        sent: list[tuple[int, Record]] = [(owners.owner(record.at_us, group), record)]
        for cut in owners.copies(record.at_us) if owners.cuts else ():
            if group in cut.old:
                sent.append((cut.old[group], record.copy()))
                self.counts.copies += 1
        return sent

    def _draw_key(self, record: Dated, digest: int) -> int:
        """Gives the record its key, the same one if it is read again. Returns the key group."""
        keys, known = self.ownership.keys, self.audit.keys
        if digest and digest in known:
            record.key = known[digest]
            return keys.group_of(record.key)
        if self.kin and record.lot >= 0.0:
            group, at = landed(keys.group_steps, record.lot)
        else:
            group, at = bisect_right(keys.group_steps, self._draws.uniform()), self._draws.uniform()
        first, end = keys.first[group], keys.first[group + 1]
        record.key = min(first + int(at * (end - first)), end - 1)
        if digest:
            known[digest] = record.key
        return group
