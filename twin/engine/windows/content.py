"""Contents of windows: the records that came, in the order of their positions."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from twin.engine.state import Item

TRIM = 512
"""Fewest forgotten records that are cut off together."""


class HeldRecords(NamedTuple):
    """Records of one window, as one list for each attribute."""

    keys: list[int]
    born_s: list[float]
    taken_s: list[float]


class Content:
    """Records of one input of a window. Positions rise; they are times in seconds, or they count records.

    elsewhere: number of records that something else holds for it.
    """

    def __init__(self) -> None:
        self.positions: list[float] = []
        self.keys: list[int] = []
        self.born_s: list[float] = []
        self.taken_s: list[float] = []
        self._start = 0  # records before this one are forgotten
        self.elsewhere = 0

    def __len__(self) -> int:
        return len(self.keys) - self._start + self.elsewhere

    def add(self, position: float, key: int, born_s: float, taken_s: float) -> None:
        """Adds a record behind all others."""
        self.positions.append(position)
        self.keys.append(key)
        self.born_s.append(born_s)
        self.taken_s.append(taken_s)

    def between(self, low: float, high: float) -> HeldRecords:
        """Records at low < position <= high."""
        first, end = self._places(low, high)
        return HeldRecords(self.keys[first:end], self.born_s[first:end], self.taken_s[first:end])

    def count(self, low: float, high: float) -> int:
        """Number of records at low < position <= high."""
        first, end = self._places(low, high)
        return end - first

    def _places(self, low: float, high: float) -> tuple[int, int]:
        first = bisect_right(self.positions, low, self._start)
        return first, bisect_right(self.positions, high, first)

    def forget(self, position: float) -> None:
        """Drops the records up to `position`."""
        self._start = bisect_right(self.positions, position, self._start)
        if self._start >= TRIM and self._start * 2 >= len(self.keys):
            for column in (self.positions, self.keys, self.born_s, self.taken_s):
                del column[: self._start]
            self._start = 0

    # on its way to another replica, or to a checkpoint ---------------------------------------------------------------

    def items(self) -> list[Item]:
        """All records that it holds."""
        start = self._start
        columns = self.positions[start:], self.keys[start:], self.born_s[start:], self.taken_s[start:]
        return list(zip(*columns, strict=True))

    def become(self, items: list[Item]) -> None:
        """Replaces its records by `items`, in their order."""
        self._start = 0
        columns = zip(*items, strict=True) if items else ((), (), (), ())
        self.positions, self.keys, self.born_s, self.taken_s = map(list, columns)

    def copy(self) -> Content:
        """Copy with the same records."""
        other = Content()
        other.become(self.items())
        return other
