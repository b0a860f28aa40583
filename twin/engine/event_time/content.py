"""What a piece of event time holds, every key by itself."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

Found = tuple[int, int, float, float]
"""Of a key: records, their digests together, and when the oldest was born and taken."""


class Groups:
    """The key groups of an operator: distinct keys of each [G], and to which a key belongs."""

    __slots__ = ("distinct", "edges")

    def __init__(self, distinct: np.ndarray) -> None:
        self.distinct = distinct
        self.edges: list[int] = [0, *np.cumsum(distinct).astype(int).tolist()]

    def __len__(self) -> int:
        return len(self.edges) - 1

    def of(self, key: int) -> int:
        """The key group of a key; those without keys have none."""
        return bisect_right(self.edges, key) - 1


class Content:
    """Of one span of event time, or of several merged. held: by key."""

    __slots__ = ("groups", "held")

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.held: dict[int, Found] = {}

    @property
    def keys(self) -> int:
        """Distinct keys in it."""
        return len(self.held)

    @property
    def tuples(self) -> int:
        """How many records."""
        return sum([found[0] for found in self.held.values()])

    def add(self, key: int, found: Found) -> None:
        """Records of a key; the oldest of them counts for its age."""
        before = self.held.get(key)
        if before is not None:
            oldest = before if before[2] <= found[2] else found
            found = before[0] + found[0], before[1] ^ found[1], oldest[2], oldest[3]
        self.held[key] = found

    def stamps(self) -> tuple[float, float]:
        """When the oldest record of each key was born and taken, their mean over the keys."""
        each = list(self.held.values())
        born_s = sum([found[2] for found in each]) / len(each) if each else 0.0
        taken_s = sum([found[3] for found in each]) / len(each) if each else 0.0
        return born_s, taken_s

    def merge(self, other: Content) -> None:
        """Takes the other's records in."""
        for key, found in other.held.items():
            self.add(key, found)

    def only(self, groups: Iterable[int]) -> Content:
        """A copy, with these key groups alone."""
        wanted, part = set(groups), Content(self.groups)
        part.held = {key: found for key, found in self.held.items() if self.groups.of(key) in wanted}
        return part

    def copy(self) -> Content:
        """The same, which changes apart."""
        again = Content(self.groups)
        again.held = self.held.copy()
        return again

    def drop(self, groups: Iterable[int]) -> None:
        """Without these key groups."""
        gone = set(groups)
        self.held = {key: found for key, found in self.held.items() if self.groups.of(key) not in gone}

    def single(self, key: int) -> Content:
        """One of its keys."""
        part = Content(self.groups)
        part.held[key] = self.held[key]
        return part
