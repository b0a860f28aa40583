"""What a piece of event time holds: every key by itself in an exact run, expected tuples by key group in a fast one."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from typing import Protocol

import numpy as np

Ages = tuple[tuple[float, float], tuple[float, float]]
"""`born` of the first and the last of some results, and `taken` likewise: those of the oldest tuple of each key."""
Found = tuple[int, int, float, float]
"""Of a key: tuples, their digests together, and when the oldest was born and taken."""


class Content(Protocol):
    """Of one span of event time, or of several merged."""

    @property
    def keys(self) -> float:
        """Distinct keys in it."""

    @property
    def tuples(self) -> float:
        """How many."""

    def ages(self, n: int) -> Ages:
        """Of the results of its keys, of which there are n."""

    def merge(self, other: Content) -> None:
        """Takes the other's tuples in."""

    def only(self, groups: Iterable[int]) -> Content:
        """A copy, with these key groups alone."""

    def copy(self) -> Content:
        """The same, which changes apart."""

    def drop(self, groups: Iterable[int]) -> None:
        """Without these key groups."""

    def keys_by_group(self) -> np.ndarray:
        """[G]"""


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


class Known:
    """Every key by itself."""

    __slots__ = ("groups", "held")

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.held: dict[int, Found] = {}

    @property
    def keys(self) -> float:
        """See Content."""
        return float(len(self.held))

    @property
    def tuples(self) -> float:
        """See Content."""
        return float(sum([found[0] for found in self.held.values()]))

    def add(self, key: int, found: Found) -> None:
        """Tuples of a key; the oldest of them counts for its age."""
        before = self.held.get(key)
        if before is not None:
            oldest = before if before[2] <= found[2] else found
            found = before[0] + found[0], before[1] ^ found[1], oldest[2], oldest[3]
        self.held[key] = found

    def ages(self, n: int) -> Ages:
        """See Content; of a single key its own, else the mean of all."""
        each = list(self.held.values())
        born = sum([found[2] for found in each]) / len(each) if each else 0.0
        taken = sum([found[3] for found in each]) / len(each) if each else 0.0
        return (born, born), (taken, taken)

    def merge(self, other: Content) -> None:
        """See Content."""
        assert isinstance(other, Known)
        for key, found in other.held.items():
            self.add(key, found)

    def only(self, groups: Iterable[int]) -> Content:
        """See Content."""
        wanted, part = set(groups), Known(self.groups)
        part.held = {key: found for key, found in self.held.items() if self.groups.of(key) in wanted}
        return part

    def copy(self) -> Content:
        """See Content."""
        again = Known(self.groups)
        again.held = self.held.copy()
        return again

    def drop(self, groups: Iterable[int]) -> None:
        """See Content."""
        gone = set(groups)
        self.held = {key: found for key, found in self.held.items() if self.groups.of(key) not in gone}

    def keys_by_group(self) -> np.ndarray:
        """See Content."""
        return np.bincount([self.groups.of(key) for key in self.held], minlength=len(self.groups)).astype(float)

    def single(self, key: int) -> Known:
        """One of its keys."""
        part = Known(self.groups)
        part.held[key] = self.held[key]
        return part


class Expected:
    """Tuples by key group, [G], whose keys come at random: K (1 - exp(-n / K)) of K are different.

    first_s, last_s: births of the oldest and youngest tuple. lag_s: from birth to ingestion, over all tuples.
    """

    __slots__ = ("_lots", "_settled_g", "first_s", "groups", "lag_s", "last_s")

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self._settled_g: np.ndarray = np.zeros(len(groups))
        self._lots: dict[int, tuple[np.ndarray, float]] = {}  # tuples by how they are spread over key groups
        self.first_s = math.inf
        self.last_s = -math.inf
        self.lag_s = 0.0

    def add(self, n: int, part_g: np.ndarray) -> None:
        """n tuples, spread over the key groups by an array that others have too: one addition, whatever its length."""
        before = self._lots.get(id(part_g))
        self._lots[id(part_g)] = part_g, n + (before[1] if before is not None else 0.0)

    @property
    def tuples_g(self) -> np.ndarray:
        """By key group. [G]"""
        if self._lots:
            for part_g, n in self._lots.values():
                self._settled_g = self._settled_g + n * part_g
            self._lots = {}
        return self._settled_g

    @property
    def keys(self) -> float:
        """See Content."""
        return float(self.keys_by_group().sum())

    @property
    def tuples(self) -> float:
        """See Content."""
        return float(self.tuples_g.sum())

    def ages(self, n: int) -> Ages:
        """See Content: the oldest of m tuples spread evenly lies at 1 / (m + 1) of the way, on average."""
        tuples = self.tuples
        if tuples <= 0.0 or n <= 0:
            return (0.0, 0.0), (0.0, 0.0)
        span_s, each = self.last_s - self.first_s, max(1.0, tuples / n)
        last_s = self.first_s + min(span_s, 2.0 * span_s / (each + 1.0))
        lag_s = self.lag_s / tuples
        return (self.first_s, last_s), (self.first_s + lag_s, last_s + lag_s)

    def merge(self, other: Content) -> None:
        """See Content."""
        assert isinstance(other, Expected)
        self._settled_g = self.tuples_g + other.tuples_g
        self.first_s, self.last_s = min(self.first_s, other.first_s), max(self.last_s, other.last_s)
        self.lag_s += other.lag_s

    def only(self, groups: Iterable[int]) -> Content:
        """See Content."""
        part = Expected(self.groups)
        wanted = list(groups)
        part._settled_g[wanted] = self.tuples_g[wanted]
        part.first_s, part.last_s = self.first_s, self.last_s
        part.lag_s = self.lag_s * part.tuples / self.tuples if self.tuples > 0.0 else 0.0
        return part

    def copy(self) -> Content:
        """See Content."""
        again = Expected(self.groups)
        again.merge(self)
        return again

    def drop(self, groups: Iterable[int]) -> None:
        """See Content."""
        before = self.tuples
        self._settled_g = self.tuples_g.copy()
        self._settled_g[list(groups)] = 0.0
        self.lag_s *= self.tuples / before if before > 0.0 else 0.0

    def keys_by_group(self) -> np.ndarray:
        """See Content."""
        distinct = np.maximum(self.groups.distinct, 1e-300)
        return np.asarray(-distinct * np.expm1(-self.tuples_g / distinct))


def empty(groups: Groups, exact: bool) -> Content:
    """Nothing yet."""
    return Known(groups) if exact else Expected(groups)
