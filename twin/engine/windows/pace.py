"""How many tuples a second lately came, where it is known how many there should be."""

from __future__ import annotations

from math import exp

MEMORY_S = 5.0
RENEW_S = 1.0
"""Simulated seconds for which a rate is used."""
SURE_S = 1.0
"""For so long of counting stands what was expected."""


class Pace:
    """Sums that are forgotten over time. per_s: as of the last time that it was renewed."""

    __slots__ = ("_coming", "_since_s", "_time_s", "_tuples", "per_s")

    def __init__(self, expected_per_s: float) -> None:
        self.per_s = expected_per_s
        self._coming = 0
        self._since_s = -1.0
        self._time_s = SURE_S
        self._tuples = SURE_S * expected_per_s

    def add(self, n: int, first_s: float, last_s: float) -> bool:
        """n tuples came between two times; whether the rate is another now."""
        if self._since_s < 0.0:
            self._since_s = first_s
            return True
        self._coming += n
        elapsed_s = last_s - self._since_s
        if elapsed_s < RENEW_S:
            return False
        keep = exp(-elapsed_s / MEMORY_S)
        self._tuples = self._tuples * keep + self._coming
        self._time_s = self._time_s * keep + elapsed_s
        self.per_s = max(self._tuples / self._time_s, 1e-9)
        self._since_s, self._coming = last_s, 0
        return True
