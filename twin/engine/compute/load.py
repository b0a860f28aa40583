"""Slow averages of what reaches a task: rate, work, variability. The hidden wait needs them steady."""

from __future__ import annotations

from math import exp

MEMORY_S = 5.0
SLOW_SPEEDS = 20
"""So many speeds are averaged."""


class Load:
    """Sums over the segments since the last `refresh`, and exponentially forgotten ones over virtual time before it.

    tuples_per_s: arrival rate. work_per_s: core-seconds a second. work_each_s: core-seconds a tuple. All 0 before the
    first refresh that saw time pass. gap_scv: variability of the gaps between tuples; unseen_scv: of it, what segments
    do not show.
    """

    __slots__ = (
        "_asked",
        "_speed",
        "_time_s",
        "_tuples",
        "_until_s",
        "_work_s",
        "gap_scv",
        "gaps",
        "last_s",
        "tuples",
        "tuples_per_s",
        "unseen",
        "unseen_scv",
        "work_each_s",
        "work_per_s",
        "work_s",
    )

    def __init__(self) -> None:
        self.tuples = 0  # these five are added to by the task, one segment after the other
        self.work_s = 0.0
        self.gaps = 0.0  # gap_scv, weighted by tuples
        self.unseen = 0.0  # unseen_scv, likewise
        self.last_s = 0.0  # when the last tuple came
        self.gap_scv = 1.0
        self.unseen_scv = 0.0
        self.tuples_per_s = 0.0
        self.work_per_s = 0.0
        self.work_each_s = 0.0
        self._tuples = 0.0
        self._work_s = 0.0
        self._time_s = 0.0
        self._until_s = 0.0
        self._speed = 0.0
        self._asked = 1

    def refresh(self) -> None:
        """Takes what was added since the last time into the averages."""
        elapsed_s = self.last_s - self._until_s
        if elapsed_s > 0.0:
            keep = exp(-elapsed_s / MEMORY_S)
            self._tuples *= keep
            self._work_s *= keep
            self._time_s = self._time_s * keep + elapsed_s
            self._until_s = self.last_s
        if self.tuples:
            self._tuples += self.tuples
            self._work_s += self.work_s
            self.gap_scv += (self.gaps / self.tuples - self.gap_scv) * self.tuples / self._tuples
            if self.unseen or self.unseen_scv:
                self.unseen_scv += (self.unseen / self.tuples - self.unseen_scv) * self.tuples / self._tuples
            self.work_each_s = self._work_s / self._tuples
            self.tuples, self.work_s, self.gaps, self.unseen = 0, 0.0, 0.0, 0.0
        if self._time_s > 0.0:
            self.tuples_per_s = self._tuples / self._time_s
            self.work_per_s = self._work_s / self._time_s

    def smooth_speed(self, speed: float) -> float:
        """The slow average of the speed the task was given: at first, of all that was."""
        weight = 1.0 / self._asked if self._asked < SLOW_SPEEDS else 1.0 / SLOW_SPEEDS
        self._asked += 1
        self._speed += weight * (speed - self._speed)
        return self._speed
