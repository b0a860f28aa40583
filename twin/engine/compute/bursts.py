"""What a window sends all at once passes through the tasks behind it on a processor together, one piece beside another.

While it passes, the task that has most to do with it is always busy, as by a job: the processor gives it an equal part,
and so it lasts. Those before and behind it have as much to do as that passes on to them; all others what they ever
have, the window apart: what came to it while it was evaluated waits for it then. Taken for independent, or for steady,
they would be busy for half as long as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from twin.engine.compute.crowding import mixed_rate
from twin.engine.compute.unequal import all_sums, busy_odds, job_rate, rate_beside, waits, without

ROUNDS, CLOSE = 12, 5e-3
"""In which the rate of the always busy task is found, each going half of the way; and when it is, relative."""
BUSY = 0.93
"""Of the time that it passes: a task that is not the one with most to do is busy at most."""
LEAST = 1e-6
"""Cores that a task is taken to need at least."""


class Bursts:
    """Of one processor's tasks, by place. members: those through which the results of a window pass; window: its own
    place, or -1 if it is elsewhere.

    passing: share of the time for which they do. rates: what each task gets while it is busy.
    """

    __slots__ = ("_between", "_odds", "_rate", "capacity", "members", "passing", "rates", "window")

    def __init__(self, capacity: float, members: Sequence[int], window: int) -> None:
        self.capacity = capacity
        self.members = tuple(members)
        self.window = window
        self.passing = 1.0
        self.rates: list[float] = []
        self._rate = min(1.0, capacity) / 2.0  # of the one that is always busy
        self._odds: list[float] = []  # of the others while results pass, and of those in between
        self._between: list[float] = []

    def settle(self, needs: Sequence[float], evaluating: float, in_step: float) -> None:
        """Finds both. needs: cores that each task needs on average; evaluating: of the window's, for its results."""
        capacity, rate, sums = self.capacity, self._rate, [1.0]
        lead = self.members[0]
        for place in self.members:
            if needs[place] > needs[lead]:
                lead = place
        others = [place for place in range(len(needs)) if place != lead]
        for _ in range(ROUNDS):
            self.passing = min(1.0, max(LEAST, needs[lead]) / rate)
            wanted = [self._wanted(place, lead, needs, evaluating, rate) for place in others]
            self._odds = busy_odds(capacity, wanted, self._odds or wanted, 1.0, 1.0)
            sums = all_sums(self._odds)
            last, rate = rate, (rate * job_rate(capacity, 1.0, sums)) ** 0.5
            if abs(rate - last) < CLOSE * rate:
                break
        self._rate = rate
        self.rates = [rate] * len(needs)
        for place, odds in zip(others, self._odds, strict=True):
            self.rates[place] = job_rate(capacity, 2.0, without(sums, odds))
        wanted = [self._wanted(place, lead, needs, evaluating, rate) for place in range(len(needs))]
        self._mix(needs, wanted, in_step)

    def _wanted(self, place: int, lead: int, needs: Sequence[float], evaluating: float, rate: float) -> float:
        """Cores that a task needs while results pass."""
        need = needs[place]
        if place in self.members:
            need *= rate / max(LEAST, needs[lead])
        elif place == self.window:  # and what came before
            stopped = min(BUSY, evaluating / (BUSY * min(1.0, self.capacity)))  # share of the time
            need = max(0.0, need - evaluating) * (1.0 + stopped / self.passing)
        return max(LEAST, min(BUSY * rate, need))

    def _mix(self, needs: Sequence[float], wanted: Sequence[float], in_step: float) -> None:
        """Of those through which nothing passes, the rate at all times: they work in between as well."""
        capacity, passing = self.capacity, self.passing
        rest = [place for place in range(len(needs)) if place not in self.members]
        if not rest or passing >= BUSY:
            return
        between = [
            max(LEAST, (needs[place] - passing * wanted[place]) / (1.0 - passing))
            if place == self.window
            else max(LEAST, needs[place])
            for place in rest
        ]
        total = sum(between)
        scale = min(1.0, BUSY * capacity / total)
        between = [min(BUSY * min(1.0, capacity), scale * need) for need in between]
        idle = waits(capacity, between, in_step)
        self._between = odds = busy_odds(capacity, between, self._between or between, idle)
        sums, total = all_sums(odds), sum(between)
        for place, need, each in zip(rest, between, odds, strict=True):
            calm, _ = rate_beside(capacity, 0.0, need, max(LEAST, total - need), without(sums, each), idle, 1.0)
            self.rates[place] = self._over_all(place, needs[place], wanted[place], need, calm)

    def _over_all(self, place: int, need: float, wanted: float, between: float, calm: float) -> float:
        """From the rate while results pass, when it needs `wanted`, and that in between."""
        passing, beside = self.passing, self.rates[place]
        if place == self.window:
            return need / (passing * wanted / beside + (1.0 - passing) * between / calm)
        return mixed_rate(need, 1.0 - passing, calm, beside) if calm > beside else beside
