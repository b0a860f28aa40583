"""What a window holds: the records that came, in the order of their positions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

Item = tuple[float, int, float, float]
"""Of a record: its position, its key, when it was born and when it was taken in, in seconds."""
Leaves = Callable[[int], bool]
"""Whether a record of a key goes along with what moves; asked of one record after another."""
TRIM = 512
"""Forgotten records are cut off in blocks of this many."""


class Held(NamedTuple):
    """Records of one window, a list an attribute."""

    keys: list[int]
    born_s: list[float]
    taken_s: list[float]


class Content:
    """Positions, which rise, are times in seconds or count records. elsewhere: how many there are while something else
    holds them.
    """

    __slots__ = ("_start", "born_s", "elsewhere", "keys", "positions", "taken_s")

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
        """One record more, behind all others."""
        self.positions.append(position)
        self.keys.append(key)
        self.born_s.append(born_s)
        self.taken_s.append(taken_s)

    def between(self, low: float, high: float) -> Held:
        """Records at low < position <= high."""
        first, end = self._places(low, high)
        return Held(self.keys[first:end], self.born_s[first:end], self.taken_s[first:end])

    def count(self, low: float, high: float) -> int:
        """How many those are."""
        first, end = self._places(low, high)
        return end - first

    def _places(self, low: float, high: float) -> tuple[int, int]:
        first = bisect_right(self.positions, low, self._start)
        return first, bisect_right(self.positions, high, first)

    def forget(self, position: float) -> None:
        """Drops the records up to that position."""
        self._start = bisect_right(self.positions, position, self._start)
        if self._start >= TRIM and self._start * 2 >= len(self.keys):
            for column in (self.positions, self.keys, self.born_s, self.taken_s):
                del column[: self._start]
            self._start = 0

    # on its way to another replica, or to a checkpoint ---------------------------------------------------------------

    def items(self) -> list[Item]:
        """All records."""
        start = self._start
        columns = self.positions[start:], self.keys[start:], self.born_s[start:], self.taken_s[start:]
        return list(zip(*columns, strict=True))

    def become(self, items: list[Item]) -> None:
        """Holds these, in their order, and no others."""
        self._start = 0
        columns = zip(*items, strict=True) if items else ((), (), (), ())
        self.positions, self.keys, self.born_s, self.taken_s = map(list, columns)

    def copy(self) -> Content:
        """Another one of the same records."""
        other = Content()
        other.become(self.items())
        return other


@dataclass(slots=True)
class State:
    """Of a replica, on its way to another: a list of records a store. Positions that count records are relative to what
    the replica has seen. bytes: how large it is.
    """

    stores: list[list[Item]] = field(default_factory=list)
    bytes: float = 0.0

    @property
    def records(self) -> int:
        """How many."""
        return sum(map(len, self.stores))


class Every:
    """A share of the records, evenly among all that are asked for: where nobody knows whose keys move."""

    __slots__ = ("_asked", "_gone", "share")

    def __init__(self, share: float) -> None:
        self.share = share
        self._asked = self._gone = 0

    def __call__(self, key: int) -> bool:
        """See Leaves."""
        self._asked += 1
        goes = round(self.share * self._asked) > self._gone
        self._gone += goes
        return goes


def parted(items: list[Item], leaves: Leaves) -> tuple[list[Item], list[Item]]:
    """Those that go, and those that stay."""
    gone: list[Item] = []
    kept: list[Item] = []
    for item in items:
        (gone if leaves(item[1]) else kept).append(item)
    return gone, kept
