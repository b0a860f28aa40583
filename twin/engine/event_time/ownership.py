"""Who has which key groups, by event time: now, and on both sides of cuts.

A key group changes hands at once (`KeyGroups.owner`), or at a cut ahead of all that sources have sent. Windows on one
side of the cut are the old owner's, those on the other the new one's; what both need goes to both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twin.engine.event_time.content import Groups
from twin.engine.streams.keys import KeyGroups
from twin.event_windows.instances import Span


@dataclass(slots=True)
class Cut:
    """Key groups whose windows are the new owner's if they begin at `at_us` or later; by_end: if they end after it.

    over_us: when the last window of the old owner is complete. old, new: owners by key group.
    """

    at_us: int
    over_us: int
    old: dict[int, int]
    new: dict[int, int]
    by_end: bool = False

    def after(self, span: Span) -> bool:
        """Whether a window is the new owner's."""
        return span.end > self.at_us if self.by_end else span.start >= self.at_us

    def needed(self, piece: Span, longest_us: int) -> tuple[bool, bool]:
        """Whether windows of the old owner, and of the new one, may have that piece in them."""
        if self.by_end:
            return piece.end <= self.at_us, piece.start + longest_us > self.at_us
        return piece.end - longest_us < self.at_us, piece.start >= self.at_us


class Ownership:
    """Of one operator. cuts: those that are not over, by their times. leaving: key groups whose state is on its way
    to their new owner, at a cut by end that all tuples and pieces before it had passed already."""

    __slots__ = ("_now", "_seen", "cuts", "groups", "keys", "leaving")

    def __init__(self, keys: KeyGroups) -> None:
        self.keys = keys
        self.groups = Groups(keys.distinct)
        self.cuts: list[Cut] = []
        self.leaving: list[Cut] = []
        self._seen = -1
        self._now: list[list[int]] = []  # by key group; by cuts that have passed

    def cut(self, cut: Cut) -> None:
        """Plans a change of hands."""
        self.cuts = sorted([*self.cuts, cut], key=lambda each: each.at_us)
        self._seen = -1

    def over(self, cut: Cut) -> None:
        """It has happened; the caller tells the key groups."""
        self.cuts = [each for each in self.cuts if each is not cut]
        self._seen = -1

    # records ---------------------------------------------------------------------------------------------------------

    def owner(self, at_us: int, group: int) -> int:
        """Who gets records of a key group and of that event time."""
        if self._seen != self.keys.version:
            self._renew()
        passed = 0
        for cut in self.cuts:
            if at_us >= cut.at_us:
                passed += 1
        return self._now[passed][group]

    def _renew(self) -> None:
        """Owners now, and from each cut on."""
        self._seen = self.keys.version
        owners = list(self.keys.owner)
        self._now = [owners]
        for cut in self.cuts:
            owners = owners.copy()
            for group, owner in cut.new.items():
                owners[group] = owner
            self._now.append(owners)

    def copies(self, at_us: int) -> list[Cut]:
        """Cuts after which tuples of that time go to the old owners too."""
        return [cut for cut in self.cuts if cut.at_us <= at_us < cut.over_us]

    # windows ---------------------------------------------------------------------------------------------------------

    def responsible(self, span: Span) -> np.ndarray:
        """Who emits a window, by key group. [G]"""
        owner_g = self.keys.owners().copy()
        for cut in (*self.cuts, *self.leaving):
            owners = cut.new if cut.after(span) else cut.old
            owner_g[list(owners)] = list(owners.values())
        return owner_g
