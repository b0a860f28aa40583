"""Slow averages of what reaches a task: rate, work, variability. The hidden wait needs them steady."""

from __future__ import annotations

import math

MEMORY_S = 5.0


class Load:
    """Exponentially forgotten sums over virtual time."""

    __slots__ = ("_last_s", "_speed", "gap_scv", "time_s", "tuples", "work_s")

    def __init__(self) -> None:
        self.tuples = 0.0
        self.work_s = 0.0
        self.time_s = 0.0
        self.gap_scv = 1.0
        self._speed = 0.0
        self._last_s = 0.0

    def note(self, n: int, work_s: float, at_s: float, gap_scv: float) -> None:
        """A segment of n tuples and that much work whose last tuple came at `at_s`."""
        elapsed_s = at_s - self._last_s
        if elapsed_s > 0.0:
            keep = math.exp(-elapsed_s / MEMORY_S)
            self.tuples *= keep
            self.work_s *= keep
            self.time_s = self.time_s * keep + elapsed_s
            self._last_s = at_s
        self.tuples += n
        self.work_s += work_s
        self.gap_scv += (gap_scv - self.gap_scv) * n / self.tuples

    def smooth_speed(self, speed: float) -> float:
        """The slow average of the speed the task was given."""
        self._speed = speed if self._speed == 0.0 else self._speed + 0.02 * (speed - self._speed)
        return self._speed

    @property
    def tuples_per_s(self) -> float:
        """Arrival rate; 0 before the first segment."""
        return self.tuples / self.time_s if self.time_s > 0.0 else 0.0

    @property
    def work_per_s(self) -> float:
        """Core-seconds a second."""
        return self.work_s / self.time_s if self.time_s > 0.0 else 0.0

    @property
    def work_each_s(self) -> float:
        """Core-seconds a tuple."""
        return self.work_s / self.tuples if self.tuples > 0.0 else 0.0
