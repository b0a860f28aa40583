"""How long tuples wait at tasks that share a core, so that the unfinished work there is what it has to be.

Whoever is busy on a core takes all of it, in whatever order tuples are served. So the work that tuples there still
bring to it is that of one queue in which each is served once, for all that the core does for it (Kleinrock, "A
conservation law for a wide class of queueing disciplines", 1965); of Poisson arrivals, Pollaczek and Khinchine's. Lines
that are each taken for a queue at the speed that its task gets miss that they are long at the same times. What is
missing waits where lines are long: in heavy traffic all of it at the task that needs most, as the others catch up
whenever they get as much of the core as that one does. It is shared out by the squares of the lines, a fit to Markov
chains of two tasks: that finds where tuples are to 5 %, and their time there to 4 % in all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from twin.engine.compute.load import MEMORY_S, Load
from twin.engine.compute.share import Share
from twin.engine.compute.waiting import CRITICAL, walk_wait

RENEW_S = 1.0
"""Simulated seconds for which what was found is used."""
POISSON = 0.1
"""By how much the variability of gaps may differ from 1, where tuples come to the core from elsewhere."""
SEGMENTS = 2.5
"""Over the time of so many, tasks make up for what one of them had too much to do in one, as `Share.spare_s` remembers.
A fit to two tasks on a core; where they need more than 90 % of it, fast runs show less, and are 5 to 30 % too short."""
INSIDE = 0.1
"""Share of a task's tuples that seem to come from elsewhere, and do not: its rates and its producers' are measured."""

Feeds = Sequence[tuple[float, int]]
"""Whom a task's tuples go to on its core: with which probability each, to which position."""


class Stage(Protocol):
    """One task's. wait_s: of its line as a queue by itself, on average; speed: cores while it is busy, 0 if unknown."""

    load: Load
    service_scv: float
    wait_s: float
    speed: float


class Conservation:
    """Of one processor of at most a core. stages: in data-flow order; feeds: of each, only to later ones.

    shares: their standings there, which say who is held up by others.
    """

    __slots__ = ("_brought_s", "_feeds", "_missing", "_shares", "_spare", "_stages", "_until_s", "_work_s", "capacity")

    def __init__(
        self, capacity: float, stages: Sequence[Stage], feeds: Sequence[Feeds], shares: Sequence[Share] = ()
    ) -> None:
        self.capacity = capacity
        self._stages = tuple(stages)
        self._feeds = tuple(tuple(each) for each in feeds)
        self._shares = tuple(shares)
        self._missing = 0.0  # part by which a line is longer for each tuple in it
        self._work_s = 0.0  # unfinished work, on average; 0 where the law does not hold
        self._brought_s = 0.0  # its variance, of what comes in a second
        self._spare = 0.0  # cores
        self._until_s = 0.0

    def holds(self, now_s: float) -> bool:
        """Whether all tasks are known to keep up with tuples that come at random."""
        if now_s >= self._until_s:
            self._renew()
            self._until_s = now_s + RENEW_S
        return self._work_s > 0.0

    def wait_s(self, stage: Stage) -> float:
        """How long a tuple waits at one of the stages."""
        longer = 1.0 + self._missing * stage.load.tuples_per_s * stage.wait_s
        return stage.wait_s * longer if longer > 0.0 else 0.0

    def hidden_share(self, span_s: float) -> float:
        """Of all waiting, what segments of that span do not show: the walk of the work in steps of some segments."""
        span_s *= SEGMENTS
        sigma_s = math.sqrt(self._brought_s * span_s)
        shown_s = sigma_s * walk_wait(self._spare * span_s / sigma_s)
        return 1.0 - shown_s / self._work_s if shown_s < self._work_s else 0.0

    def _renew(self) -> None:
        self._work_s = 0.0
        for share in self._shares:
            if share.blocked:
                return
        each_s, squares_s2 = self._still_to_do()
        work, lines_s, squares_s = 0.0, 0.0, 0.0
        for stage, ahead_s in zip(self._stages, each_s, strict=True):
            load = stage.load
            if load.work_per_s > 0.0:
                if stage.speed <= 0.0:
                    return
                own_s, line = load.work_each_s, load.tuples_per_s * stage.wait_s
                served = own_s * (ahead_s - 0.5 * own_s * (1.0 - stage.service_scv)) / stage.speed
                lines_s += line * ahead_s + load.tuples_per_s * served
                squares_s += line * line * ahead_s
                work += load.work_per_s
        brought = self._brought(squares_s2)
        if work >= CRITICAL * self.capacity or squares_s <= 0.0 or brought <= 0.0:
            return
        spare = self.capacity - work
        chance = brought / (2.0 * MEMORY_S)  # variance of such a mean of the work: its inverse would be too large
        self._work_s = brought / 2.0 * spare / (spare * spare + chance)
        self._brought_s, self._spare = brought, spare
        self._missing = (self._work_s - lines_s) / squares_s

    def _brought(self, squares_s2: list[float]) -> float:
        """Squared work that tuples bring to the core from elsewhere, a second; 0 if these are not Poisson."""
        outside_per_s = [stage.load.tuples_per_s for stage in self._stages]
        for stage, feeds in zip(self._stages, self._feeds, strict=True):
            for part, to in feeds:
                outside_per_s[to] -= part * stage.load.tuples_per_s
        brought = 0.0
        for stage, rate, square_s2 in zip(self._stages, outside_per_s, squares_s2, strict=True):
            if rate > INSIDE * stage.load.tuples_per_s:
                if abs(stage.load.gap_scv - 1.0) > POISSON:
                    return 0.0
                brought += rate * square_s2
        return brought

    def _still_to_do(self) -> tuple[list[float], list[float]]:
        """Work that a tuple brings from each stage on, in core-seconds: its mean, and the mean of its square."""
        each_s, squares_s2 = [0.0] * len(self._stages), [0.0] * len(self._stages)
        for i in range(len(self._stages) - 1, -1, -1):
            stage = self._stages[i]
            stage.load.refresh()
            own_s, behind_s, variance = stage.load.work_each_s, 0.0, 0.0
            for part, to in self._feeds[i]:
                mean_s = part * each_s[to]
                behind_s += mean_s
                variance += part * squares_s2[to] - mean_s * mean_s
            each_s[i] = own_s + behind_s
            squares_s2[i] = each_s[i] * each_s[i] + own_s * own_s * stage.service_scv + variance
        return each_s, squares_s2
