"""What the tasks that share a processor ask of it together, for each of them that wants to know of the others."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import Protocol

from twin.engine.compute.load import Load

FEW = 32
"""Up to so many tasks are looked at one by one each time; of more, sums are kept ..."""
KEPT_S = 0.25
"""... for so many simulated seconds: the averages behind them are far slower."""


class Demand(Protocol):
    """One task's. service_scv: squared coefficient of variation of a tuple's service."""

    load: Load
    service_scv: float


class Neighbours:
    """The demands of all tasks on one processor."""

    __slots__ = ("_each", "_seen", "_until_s", "_variances", "_work", "_works")

    def __init__(self, demands: Iterable[Demand]) -> None:
        self._each = tuple(demands)
        self._until_s = 0.0  # until then the following are fresh enough
        self._seen: dict[Load, tuple[float, float]] = {}  # (work, variance) of each
        self._work: list[float] = []  # of each, sorted
        self._works: list[float] = []  # sums of the first 0, 1, ... of these
        self._variances: list[float] = []  # the same of the variances that belong to them

    def below(self, own: Load, speed: float, now_s: float) -> tuple[float, float]:
        """(core-seconds, their variance) a second, of all but `own` together that need less than `speed` cores."""
        if len(self._each) <= FEW:
            return self._count(own, speed)
        if now_s >= self._until_s:
            self._sum()
            self._until_s = now_s + KEPT_S
        place = bisect_left(self._work, speed)
        work, variance = self._works[place], self._variances[place]
        own_work, own_variance = self._seen[own]
        if own_work < speed:
            work, variance = max(0.0, work - own_work), max(0.0, variance - own_variance)
        return work, variance

    def _count(self, own: Load, speed: float) -> tuple[float, float]:
        work, variance = 0.0, 0.0
        for each in self._each:
            load = each.load
            if load is not own:
                load.refresh()
                if load.work_per_s < speed:
                    work += load.work_per_s
                    variance += load.tuples_per_s * load.work_each_s**2 * each.service_scv
        return work, variance

    def _sum(self) -> None:
        for each in self._each:
            load = each.load
            load.refresh()
            self._seen[load] = load.work_per_s, load.tuples_per_s * load.work_each_s**2 * each.service_scv
        rows = sorted(self._seen.values())
        self._work = [work for work, _ in rows]
        self._works = [0.0, *accumulate(self._work)]
        self._variances = [0.0, *accumulate(variance for _, variance in rows)]
