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
    dealt: tuple[int, int] = (-1, -1)  # version of the key groups, and the law of the copies under it

    def after(self, span: Span) -> bool:
        """Whether a window is the new owner's."""
        return span.end > self.at_us if self.by_end else span.start >= self.at_us

    def needed(self, piece: Span, longest_us: int) -> tuple[bool, bool]:
        """Whether windows of the old owner, and of the new one, may have that piece in them."""
        if self.by_end:
            return piece.end <= self.at_us, piece.start + longest_us > self.at_us
        return piece.end - longest_us < self.at_us, piece.start >= self.at_us


@dataclass(slots=True)
class Law:
    """Under which tuples were dealt: owner and weight of each key group. [G] each"""

    owner_g: np.ndarray
    weight_g: np.ndarray

    def shares(self, places: int) -> np.ndarray:
        """Of the tuples, by owner. [places]"""
        return np.bincount(self.owner_g, self.weight_g, minlength=places)

    def parts(self, owner: int) -> np.ndarray:
        """Of an owner's tuples, by key group; sum 1. [G]"""
        mine = np.where(self.owner_g == owner, self.weight_g, 0.0)
        total = mine.sum()
        return np.asarray(mine / total) if total > 0.0 else mine


class Ownership:
    """Of one operator. cuts: those that are not over, by their times. leaving: key groups whose state is on its way
    to their new owner, at a cut by end that all tuples and pieces before it had passed already."""

    __slots__ = ("_now", "_seen", "cuts", "groups", "keys", "laws", "leaving")

    def __init__(self, keys: KeyGroups) -> None:
        self.keys = keys
        self.groups = Groups(keys.distinct)
        self.cuts: list[Cut] = []
        self.leaving: list[Cut] = []
        self.laws: list[Law] = []
        self._seen = -1
        self._now: list[int] = []

    def cut(self, cut: Cut) -> None:
        """Plans a change of hands."""
        self.cuts = sorted([*self.cuts, cut], key=lambda each: each.at_us)
        self._seen = -1

    def over(self, cut: Cut) -> None:
        """It has happened; the caller tells the key groups."""
        self.cuts = [each for each in self.cuts if each is not cut]
        self._seen = -1

    # tuples ----------------------------------------------------------------------------------------------------------

    def law(self, at_us: int) -> int:
        """The number of the law for tuples of that event time."""
        if self._seen != self.keys.version:
            self._renew()
        passed = 0
        for cut in self.cuts:
            if at_us >= cut.at_us:
                passed += 1
        return self._now[passed]

    def _renew(self) -> None:
        """A law for now, and one from each cut on."""
        self._seen = self.keys.version
        owner_g = self.keys.owners().copy()
        self._now = [self._add(owner_g, self.keys.weights.copy())]
        for cut in self.cuts:
            owner_g = owner_g.copy()
            owner_g[list(cut.new)] = list(cut.new.values())
            self._now.append(self._add(owner_g, self.keys.weights.copy()))

    def _add(self, owner_g: np.ndarray, weight_g: np.ndarray) -> int:
        self.laws.append(Law(owner_g, weight_g))
        return len(self.laws) - 1

    def copies(self, at_us: int) -> list[Cut]:
        """Cuts after which tuples of that time go to the old owners too."""
        return [cut for cut in self.cuts if cut.at_us <= at_us < cut.over_us]

    def copy_law(self, cut: Cut) -> int:
        """The number of a law by which the cut's key groups alone are dealt, to their old owners."""
        if cut.dealt[0] == self.keys.version:
            return cut.dealt[1]
        owner_g, weight_g = self.keys.owners().copy(), np.zeros(len(self.keys))
        groups = list(cut.old)
        owner_g[groups], weight_g[groups] = list(cut.old.values()), self.keys.weights[groups]
        cut.dealt = self.keys.version, self._add(owner_g, weight_g)
        return cut.dealt[1]

    # windows ---------------------------------------------------------------------------------------------------------

    def responsible(self, span: Span) -> np.ndarray:
        """Who emits a window, by key group. [G]"""
        owner_g = self.keys.owners().copy()
        for cut in (*self.cuts, *self.leaving):
            owners = cut.new if cut.after(span) else cut.old
            owner_g[list(owners)] = list(owners.values())
        return owner_g
