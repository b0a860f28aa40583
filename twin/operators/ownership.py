"""Ownership of key groups by event time, and the shipping of partial results to those who own them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from twin.operators.key_groups import KeyGroups, landed
from twin.operators.panes import DIGEST_BITS, Dated, Partial, SpanContent, WindowNotes
from twin.operators.records import Draws, Record
from twin.windows import Span

# owners --------------------------------------------------------------------------------------------------------------
# Ownership of key groups by event time: the owners now, and on both sides of cuts.
#
# A key group changes hands at once (`KeyGroups.owner`), or at a cut ahead of all that sources have sent. Windows
# before the cut belong to the old owner, windows after it to the new one. Records that both need go to both.


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
    on its way to the new owner; all records and pieces before them have passed already."""

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
        """Cuts because of which records of event time `at_us` also go to the old owners."""
        return [cut for cut in self.cuts if cut.at_us <= at_us < cut.over_us]

    # windows ---------------------------------------------------------------------------------------------------------

    def responsible(self, span: Span) -> np.ndarray:
        """Subtask that emits a window, by key group. [G]"""
        owner_g = self.keys.owners().copy()
        for cut in (*self.cuts, *self.leaving):
            owners = cut.new if cut.after(span) else cut.old
            owner_g[list(owners)] = list(owners.values())
        return owner_g


class Copies(Protocol):
    """Interface of a stream's counts. copies: records that were sent to two owners of a key."""

    copies: int


class EventTimePartitioner:
    """Sends each record to the owner of its key group at its event time. Draws the record's key, and notes it.

    mask: makes digests of this stream from those of sources, so that a record that is read again has the same key; 0
    where records do not correspond one to one to those of sources. kin: whether a record's lot decides on its key.
    """

    def __init__(
        self, ownership: Ownership, draws: Draws, counts: Copies, notes: WindowNotes, mask: int = 0, kin: bool = False
    ) -> None:
        self.mask = mask
        self.kin = kin
        self.ownership = ownership
        self.counts = counts
        self.notes = notes
        self._draws = draws

    def another(self, draws: Draws) -> EventTimePartitioner:
        """Partitioner of another subtask of the producer, which has its own random numbers."""
        notes = self.notes.operator.of_producer()
        return EventTimePartitioner(self.ownership, draws, self.counts, notes, self.mask, self.kin)

    def parts(self, record: Record) -> list[tuple[int, Record]]:
        """Deals a record: where it goes, and copies of it, with the subtasks to which they go."""
        assert isinstance(record, Dated)
        owners, notes = self.ownership, self.notes
        digest = record.digest ^ self.mask if self.mask and record.digest else 0
        group = self._draw_key(record, digest)
        record.digest = digest or int(self._draws.rng.integers(1 << DIGEST_BITS))
        notes.came.append((record.at_us, record.key, record.digest))
        sent: list[tuple[int, Record]] = [(owners.owner(record.at_us, group), record)]
        for cut in owners.copies(record.at_us) if owners.cuts else ():
            if group in cut.old:
                sent.append((cut.old[group], record.copy()))
                self.counts.copies += 1
        return sent

    def lose(self, record: Record) -> None:
        assert isinstance(record, Dated)
        self.notes.lost.append(record.digest)

    def _draw_key(self, record: Dated, digest: int) -> int:
        """Gives the record its key, the same one if it is read again. Returns the key group."""
        keys, known = self.ownership.keys, self.notes.keys
        if digest and digest in known:
            record.key = known[digest]
            return keys.group_of(record.key)
        if self.kin and record.lot >= 0.0:
            group, at = landed(keys.group_steps, record.lot)
        else:
            group, at = bisect_right(keys.group_steps, self._draws.uniform()), self._draws.uniform()
        record.key = keys.key_in(group, at)
        if digest:
            known[digest] = record.key
        return group


# shipping ------------------------------------------------------------------------------------------------------------
# Shipping of partial results to the consolidates that merge them: each goes to the owner of its key group in its span.
#
# A thread beside the operator's own sends them (Enorm, Section 5.1.1), so they wait for no credits. The work is
# charged to the operator (`Owed`), and the punctuations behind them never overtake them.


class ShippingPort(Protocol):
    """Interface of the port that partial results leave by."""

    def ship(self, subtask: int, record: Record) -> float:
        """Sends a record past all that waits, without a credit; returns the CPU seconds of sending it."""


class Owed:
    """CPU work that a thread beside a task still has to do. While there is any, both get the same part of the core."""

    def __init__(self) -> None:
        self.work_s = 0.0

    def pay(self, own_s: float) -> float:
        """Does the work that fits beside `own_s` CPU seconds of the task's own work. Returns the CPU seconds done."""
        paid_s = self.work_s if self.work_s < own_s else own_s
        self.work_s -= paid_s
        return paid_s


class Shipping:
    """Sends partial results from one subtask to one consumer. longest_us: the consumer's longest window. made_s: CPU
    seconds to make a result, besides sending it.

    together: whether both are one component. Then results are handed over at once by `here`, cost nothing, and both
    owners keep them while a key group changes hands. held: returns the subtask's content over a span.
    """

    def __init__(
        self, port: ShippingPort, ownership: Ownership, counts: Copies, longest_us: int, made_s: float
    ) -> None:
        self.made_s = made_s
        self.here: Callable[[Span, SpanContent], None] | None = None
        self.held: Callable[[Span], SpanContent] | None = None
        self.port = port
        self.ownership = ownership
        self.counts = counts
        self.longest_us = longest_us
        self.together = False

    def ship(self, span: Span, content: SpanContent, at_s: float, sender: int) -> float:
        """Sends the results over a span. Returns the CPU seconds of sending them."""
        sent, work_s = 0, 0.0
        for owner, part in self._parts(span, content, sender):
            if not part.keys:
                continue
            if self.together and owner == sender and self.here is not None:
                self.here(span, part)
                continue
            for piece in self._pieces(span, part, at_s):
                sent += 1
                work_s += self._send(piece, owner)
        self.counts.copies += sent - content.keys
        return work_s

    def to(self, owner: int, span: Span, content: SpanContent, at_s: float) -> float:
        """Sends results again, to one owner. Returns the CPU seconds of sending them."""
        work_s = 0.0
        for piece in self._pieces(span, content, at_s):
            self.counts.copies += 1
            work_s += self._send(piece, owner)
        return work_s

    def _pieces(self, span: Span, content: SpanContent, at_s: float) -> list[Partial]:
        return [Partial(at_s, span, content.single(key)) for key in sorted(content.held)]

    def _send(self, piece: Partial, owner: int) -> float:
        return self.made_s + self.port.ship(owner, piece)

    def _parts(self, span: Span, content: SpanContent, sender: int) -> list[tuple[int, SpanContent]]:
        """Splits results by the owner that gets them. The new owner of a key group may have been the sender before: for
        windows that still are the old owner's, it sends its content from before the cut. Later records came to both."""
        parts = [(owner, content.only(groups)) for owner, groups in self._owners(span, sender)]
        if not self.together or self.held is None:
            return parts
        for cut in self.ownership.cuts:
            back = [group for group, new in cut.new.items() if new == sender and not cut.after(span)]
            back = [group for group in back if content.only([group]).keys]
            if back:
                early = self.held(Span(span.start, min(span.end, cut.at_us)))
                parts += [(cut.old[group], early.only([group])) for group in back]
        return parts

    def _owners(self, span: Span, sender: int) -> list[tuple[int, list[int]]]:
        """Owners that need results over this span, each with the key groups that it needs."""
        owner_g = self.ownership.keys.owners().copy()
        more: list[tuple[int, list[int]]] = []
        for cut in self.ownership.cuts:
            for_old, for_new = cut.needed(span, self.longest_us)
            for group in cut.new:
                if self.together and sender in (cut.old[group], cut.new[group]):
                    owner_g[group] = sender
                    continue
                owner_g[group] = cut.old[group] if for_old else cut.new[group]
                if for_old and for_new:
                    more.append((cut.new[group], [group]))
        by_owner = [(int(owner), np.flatnonzero(owner_g == owner).tolist()) for owner in np.unique(owner_g)]
        return by_owner + more
