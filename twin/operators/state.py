"""State on its way from one subtask to another: records of windows, states of keys, or spans of event time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Item = tuple[float, int, float, float]
"""Stored record: its position, its key, and the seconds at which it was born and taken in."""
Leaves = Callable[[int], bool]
"""Function of a key that decides whether its record moves; called for one record after another."""


@dataclass(slots=True)
class State:
    """State of a subtask on its way to another.

    stores: lists of records (Item); a window's are pairs of the number of its first window that is not yet evaluated,
    and its records. Positions that count records are relative to those that the subtask has seen. Logics over event
    time keep contents by place. bytes: size of the state.
    """

    stores: list[Any] = field(default_factory=list)
    bytes: float = 0.0


class Every:
    """Choice of a share of the records, evenly spaced, where it is not known whose keys move."""

    def __init__(self, share: float) -> None:
        self.share = share
        self._asked = self._gone = 0

    def __call__(self, key: int) -> bool:
        """Whether this record moves; see `Leaves`."""
        self._asked += 1
        goes = round(self.share * self._asked) > self._gone
        self._gone += goes
        return goes


def parted(items: list[Item], leaves: Leaves) -> tuple[list[Item], list[Item]]:
    """Splits records into those that leave and those that stay."""
    gone: list[Item] = []
    kept: list[Item] = []
    for item in items:
        (gone if leaves(item[1]) else kept).append(item)
    return gone, kept
