"""What each key group takes in, how long it keeps its replica busy, and what it sends, by counters of the replicas.

A group's part is an expectation: its weight among the groups of its replica at the time. Single tuples are not looked
at. What a replica counted is shared out each time that weights or owners change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twin.engine.keys.groups import KeyGroups
from twin.engine.station.task import Task


class Counted(NamedTuple):
    """Counts of one period, [G] each: tuples taken in, seconds that the replica was busy with them, and tuples sent."""

    tuples_g: np.ndarray
    busy_g_s: np.ndarray
    sent_g: np.ndarray


class GroupMeter:
    """Counts for the key groups of one operator."""

    def __init__(self, keys: KeyGroups) -> None:
        self.keys = keys
        self._sums = np.zeros((3, len(keys)))
        self._receivers = tuple(keys.tasks)
        self._counters = self._now()
        self._owner_g, self._part_g = keys.owners(), keys.parts()
        keys.watch(lambda _shares: self._changed())

    def close(self) -> Counted:
        """What was counted since it was last closed."""
        self._changed()
        sums, self._sums = self._sums, np.zeros_like(self._sums)
        return Counted(*sums)

    def _changed(self) -> None:
        """Shares out what was counted, by the weights that have held so far."""
        before, self._counters = self._counters, self._now()
        self._sums += (self._counters - before)[:, self._owner_g] * self._part_g
        self._receivers = tuple(self.keys.tasks)
        self._counters = self._now()
        self._owner_g, self._part_g = self.keys.owners(), self.keys.parts()

    def _now(self) -> np.ndarray:
        """[3, replicas and buffers]; tuples in a buffer count when its replica takes them."""
        tasks = (receiver if isinstance(receiver, Task) else None for receiver in self._receivers)
        counters = [
            (task.tuples_in, task.busy_until_now_s(), task.output.tuples_out) if task else (0, 0.0, 0) for task in tasks
        ]
        return np.array(counters, dtype=float).T
