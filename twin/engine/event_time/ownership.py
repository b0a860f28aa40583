"""Who has which key groups, by event time: now, and from a cut on which lies ahead of all that sources have sent.

A key group changes hands at once (`KeyGroups.owner`), or at a cut: tuples, or windows, from there on are the new
owner's. What both need goes to both: the windows that begin before the cut are the old owner's, those after it the new
one's, and tuples in between are in windows of both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twin.engine.event_time.content import Groups
from twin.engine.streams.keys import KeyGroups


@dataclass(slots=True)
class Cut:
    """Key groups whose windows that begin at `at_us` or later are the new owner's. both_until_us: where the last window
    of the old owner ends."""

    at_us: int
    both_until_us: int
    old: dict[int, int]
    new: dict[int, int]


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
    """Of one operator. cuts: those that are not over, in the order of their times."""

    __slots__ = ("_now", "_seen", "cuts", "groups", "keys", "laws", "version")

    def __init__(self, keys: KeyGroups) -> None:
        self.keys = keys
        self.groups = Groups(keys.distinct)
        self.cuts: list[Cut] = []
        self.laws: list[Law] = []
        self.version = 0
        self._seen = -1
        self._now: list[int] = []

    def cut(self, cut: Cut) -> None:
        """Plans a change of hands."""
        self.cuts = sorted([*self.cuts, cut], key=lambda each: each.at_us)
        self._seen = -1

    def over(self, cut: Cut) -> None:
        """It has happened; the caller has told the key groups."""
        self.cuts = [each for each in self.cuts if each is not cut]
        self._seen = -1

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
        self.version += 1
        owner_g = self.keys.owners().copy()
        self._now = []
        for cut in [None, *self.cuts]:
            if cut is not None:
                for group, new in cut.new.items():
                    owner_g = owner_g.copy()
                    owner_g[group] = new
            self._now.append(len(self.laws))
            self.laws.append(Law(owner_g, self.keys.weights.copy()))

    def copies(self, at_us: int) -> list[Cut]:
        """Cuts after which tuples of that time go to the old owners too."""
        return [cut for cut in self.cuts if cut.at_us <= at_us < cut.both_until_us]

    def copy_law(self, cut: Cut) -> int:
        """The number of a law by which the cut's key groups alone are dealt, to their old owners."""
        owner_g, weight_g = self.keys.owners().copy(), np.zeros(len(self.keys))
        for group, old in cut.old.items():
            owner_g[group], weight_g[group] = old, self.keys.weights[group]
        self.laws.append(Law(owner_g, weight_g))
        return len(self.laws) - 1

    def responsible(self, start_us: int) -> np.ndarray:
        """Who emits windows that begin then, by key group. [G]"""
        owner_g = self.keys.owners().copy()
        for cut in self.cuts:
            for group in cut.new:
                owner_g[group] = cut.new[group] if start_us >= cut.at_us else cut.old[group]
        return owner_g
