"""Whose turn it is among many replicas, in O(log replicas): stride scheduling.

Waldspurger and Weihl, "Stride scheduling" (1995). A replica of weight w is due once every 1 / w tuples of its producer;
the one due first is next. Nothing is kept for a replica before its first turn but its place in the first round.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np


class Turns:
    """Turns of the replicas with a positive weight (they sum to 1).

    first: the replica at which the producer begins its round; n: tuples of its first segment.
    """

    __slots__ = ("_due", "_heap", "_order", "_place", "_places", "_weights")

    def __init__(self, weights: Sequence[float], first: int, n: float) -> None:
        self._weights = weights
        live = np.flatnonzero(np.asarray(weights) > 0.0)
        phase = ((live - first) % len(weights)) / len(weights)
        due = n * phase / np.asarray(weights)[live]
        by_due = np.argsort(due, kind="stable")
        self._order = live[by_due].astype(np.int32)
        self._due = due[by_due]
        self._place = 0
        self._places: dict[int, int] = {int(replica): place for place, replica in enumerate(self._order)}
        self._heap: list[tuple[float, int]] = []

    def next(self, n: float) -> int:
        """The replica that gets the next segment, of n tuples."""
        heap, place = self._heap, self._place
        if place < len(self._order) and (not heap or self._due[place] <= heap[0][0]):
            due, replica = float(self._due[place]), int(self._order[place])
            self._place = place + 1
            heapq.heappush(heap, (due + n / self._weights[replica], replica))
            return replica
        due, replica = heap[0]
        heapq.heapreplace(heap, (due + n / self._weights[replica], replica))
        return replica

    def exchange(self) -> None:
        """The next two change places in the round for good, once all have had a turn, if both are in this one."""
        heap, places = self._heap, self._places
        if self._place < len(self._order) or len(heap) < 2:
            return
        second = 2 if len(heap) > 2 and heap[2] < heap[1] else 1
        (due, first), (later, other) = heap[0], heap[second]
        if places[first] < places[other]:
            places[first], places[other] = places[other], places[first]
            heap[0], heap[second] = (due, other), (later, first)
