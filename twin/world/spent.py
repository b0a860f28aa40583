"""Where the time goes: times that records spend at an operator, by way, which all its subtasks note together."""

from __future__ import annotations

from typing import Any

import numpy as np

from twin.machine import layout as k
from twin.machine.arena import addresses
from twin.machine.checks import know
from twin.spending import BUCKETS, WAYS, place
from twin.world.memory import RunMemory, StructView


class Way(StructView, layout=k.SPENT):
    """Times that are spent in one way."""


class Spent:
    """Times of one component's records in this period. here: where compiled code notes them."""

    def __init__(self, memory: RunMemory) -> None:
        rows = memory.arena.make(k.SPENT, len(WAYS))
        self.counts = np.zeros((len(WAYS), BUCKETS), np.int64)
        know(self.counts)
        self.here = int(rows.ctypes.data)
        self.ways = [Way(each) for each in addresses(rows)]
        for way, counts in zip(self.ways, self.counts, strict=True):
            way.counts = counts.ctypes.data

    def note(self, way: int, time_s: float) -> None:
        """Notes a time, as compiled code does (`twin.machine.items.spend`)."""
        time_s = max(0.0, time_s)
        self.ways[way].sum_s += time_s
        self.counts[way, place(time_s)] += 1

    def rows(self) -> list[dict[str, Any]]:
        """The times of this period, of each way that any record went. Begins a new period."""
        found = []
        for name, way, counts in zip(WAYS, self.ways, self.counts, strict=True):
            held = np.flatnonzero(counts)
            if len(held):
                times = {"buckets": held.tolist(), "counts": counts[held].tolist()}
                found.append({"way": name, "count": sum(times["counts"]), "sum_s": float(way.sum_s), **times})
                counts[held], way.sum_s = 0, 0.0
        return found
